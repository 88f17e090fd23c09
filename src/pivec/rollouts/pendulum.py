"""Pendulum in lanes: the equations of Gymnasium's Pendulum-v1 on arrays, equal to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.utils.seeding import np_random
from numpy.typing import NDArray

from pivec.rollouts.environment import Environment
from pivec.rollouts.lanes import Outcome, SeededLanes, first_batch

_DT, _MAX_SPEED, _MAX_TORQUE = 0.05, 8, 2.0
_START = np.array([np.pi, 1.0])  # the farthest angle and speed of a first state


class PendulumLanes(SeededLanes):
    """``n`` pendulums. States are those of Pendulum-v1 bit for bit, rewards to float32's last bit.

    Examples
    --------
    >>> import gymnasium
    >>> lanes = PendulumLanes(Environment("Pendulum-v1"), 2)
    >>> lanes.reset(0, seed=1)
    >>> rewards, _, _ = lanes.step(np.array([0]), np.zeros((2, 1), np.float32))
    >>> env = gymnasium.make("Pendulum-v1")
    >>> _ = env.reset(seed=1)
    >>> observation, *_ = env.step(np.zeros(1, np.float32))
    >>> bool((observation == lanes.observations[0]).all())
    True
    """

    def __init__(self, environment: Environment, n: int) -> None:
        self.n = n
        env: Any = environment.make()
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._gravity = env.unwrapped.g
        self._limit = int(env.spec.max_episode_steps)
        self.observations: NDArray[np.float32] = first_batch(env, n, environment.name)
        env.close()
        self._angle, self._speed = np.zeros(n), np.zeros(n)
        self._steps = np.zeros(n, dtype=np.int64)

    @staticmethod
    def fits(environment: Environment) -> bool:
        """Tell whether the environment is Pendulum and nothing else."""
        return environment.is_plain("gymnasium.envs.classic_control.pendulum:PendulumEnv", {"g"})

    def reset(self, lane: int, seed: int) -> None:
        """Start an episode in ``lane``, from the state Pendulum-v1 would start in."""
        generator, _ = np_random(seed)
        self._angle[lane], self._speed[lane] = generator.uniform(low=-_START, high=_START)
        self._steps[lane] = 0
        self._show(np.array([lane]))

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        """Step the given lanes."""
        angle, speed = self._angle[lanes], self._speed[lanes]
        torque = np.clip(actions[lanes, 0], -_MAX_TORQUE, _MAX_TORQUE)
        from_top = (angle + np.pi) % (2 * np.pi) - np.pi
        # Gymnasium squares single numbers, which is libm's pow and not always x * x.
        costs = np.float_power(from_top, 2) + 0.1 * np.float_power(speed, 2) + 0.001 * torque**2
        push = 3 * self._gravity / 2 * np.sin(angle) + 3.0 * torque
        speed = np.clip(speed + push * _DT, -_MAX_SPEED, _MAX_SPEED)
        self._angle[lanes], self._speed[lanes] = angle + speed * _DT, speed
        self._steps[lanes] += 1
        self._show(lanes)
        return -costs, np.zeros(len(lanes), dtype=bool), self._steps[lanes] >= self._limit

    def close(self) -> None:
        """Nothing is held."""

    def _show(self, lanes: NDArray[np.intp]) -> None:
        angle = self._angle[lanes]
        self.observations[lanes, 0] = np.cos(angle)
        self.observations[lanes, 1] = np.sin(angle)
        self.observations[lanes, 2] = self._speed[lanes]
