"""Acrobot in lanes: the equations of Gymnasium's Acrobot-v1 on arrays, equal to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.utils.seeding import np_random
from numpy.typing import NDArray

from pivec.rollouts.environment import Environment
from pivec.rollouts.lanes import Outcome, SeededLanes, first_batch

_ENTRY = "gymnasium.envs.classic_control.acrobot:AcrobotEnv"
_DT = 0.2
_TORQUES = np.array([-1.0, 0.0, 1.0])
_FASTEST = 4 * np.pi, 9 * np.pi
_GRAVITY = 9.8


class AcrobotLanes(SeededLanes):
    """``n`` double pendulums; states, rewards and ends are those of Acrobot-v1, bit for bit.

    Examples
    --------
    >>> import gymnasium
    >>> lanes = AcrobotLanes(Environment("Acrobot-v1"), 2)
    >>> lanes.reset(0, seed=1)
    >>> rewards, _, _ = lanes.step(np.array([0]), np.array([2, 0]))
    >>> env = gymnasium.make("Acrobot-v1")
    >>> _ = env.reset(seed=1)
    >>> observation, *_ = env.step(2)
    >>> bool((observation == lanes.observations[0]).all())
    True
    """

    def __init__(self, environment: Environment, n: int) -> None:
        self.n = n
        env: Any = environment.make()
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._limit = int(env.spec.max_episode_steps)
        self.observations: NDArray[np.float32] = first_batch(env, n, environment.name)
        env.close()
        self._state = np.zeros((4, n))  # two angles, two speeds
        self._steps = np.zeros(n, dtype=np.int64)

    @staticmethod
    def fits(environment: Environment) -> bool:
        """Tell whether the environment is Acrobot as it comes, by the equations of the book."""
        if not environment.is_plain(_ENTRY, set()):
            return False
        from gymnasium.envs.classic_control.acrobot import AcrobotEnv

        return AcrobotEnv.book_or_nips == "book" and AcrobotEnv.torque_noise_max == 0.0

    def reset(self, lane: int, seed: int) -> None:
        """Start an episode in ``lane``, from the state Acrobot-v1 would start in."""
        generator, _ = np_random(seed)
        # The first state, and the sines of its observation, are float32 in Gymnasium.
        start = generator.uniform(low=-0.1, high=0.1, size=(4,)).astype(np.float32)
        self._state[:, lane] = start
        self._steps[lane] = 0
        self.observations[lane] = _observe(start[:, None])[0]

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        """Step the given lanes."""
        state = _advance(self._state[:, lanes], _TORQUES[actions[lanes]])
        for angle in state[:2]:
            _wrap(angle)
        for speed, fastest in zip(state[2:], _FASTEST, strict=True):
            np.clip(speed, -fastest, fastest, out=speed)
        self._state[:, lanes] = state
        self._steps[lanes] += 1
        self.observations[lanes] = _observe(state)
        terminated = -np.cos(state[0]) - np.cos(state[1] + state[0]) > 1.0
        return np.where(terminated, 0.0, -1.0), terminated, self._steps[lanes] >= self._limit

    def close(self) -> None:
        """Nothing is held."""


def _advance(state: NDArray[np.float64], torque: NDArray[np.float64]) -> NDArray[np.float64]:
    """One step of the fourth-order Runge-Kutta method, (4, n)."""
    half = _DT / 2.0
    k1 = _slope(state, torque)
    k2 = _slope(state + half * k1, torque)
    k3 = _slope(state + half * k2, torque)
    k4 = _slope(state + _DT * k3, torque)
    return np.asarray(state + _DT / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4))


def _slope(state: NDArray[np.float64], torque: NDArray[np.float64]) -> NDArray[np.float64]:
    """Speeds and accelerations of both links (Sutton and Barto 2018, section 11.3 of edition 1).

    Masses, lengths and moments of inertia are 1, the centres of mass lie at 0.5. The order of the
    operations is that of Gymnasium, and a square is libm's pow as it is for single numbers there.
    """
    angle1, angle2, speed1, speed2 = state
    sine2, cosine2 = np.sin(angle2), np.cos(angle2)
    d1 = 0.25 + (1.25 + cosine2) + 1.0 + 1.0
    d2 = (0.25 + 0.5 * cosine2) + 1.0
    phi2 = 0.5 * _GRAVITY * np.cos(angle1 + angle2 - np.pi / 2.0)
    phi1 = (
        -0.5 * np.float_power(speed2, 2) * sine2
        - speed2 * speed1 * sine2
        + 1.5 * _GRAVITY * np.cos(angle1 - np.pi / 2)
        + phi2
    )
    ratio = d2 / d1 * phi1
    push = torque + ratio - 0.5 * np.float_power(speed1, 2) * sine2 - phi2
    slope = np.empty_like(state)
    slope[0], slope[1] = speed1, speed2
    slope[3] = push / (1.25 - np.float_power(d2, 2) / d1)
    slope[2] = -(d2 * slope[3] + phi1) / d1
    return slope


def _wrap(angle: NDArray[np.float64]) -> None:
    """Bring angles into [-pi, pi], in place."""
    while (far := angle > np.pi).any():
        angle[far] -= 2 * np.pi
    while (far := angle < -np.pi).any():
        angle[far] += 2 * np.pi


def _observe(state: NDArray[Any]) -> NDArray[np.float32]:
    rows = np.empty((state.shape[1], 6), dtype=np.float32)
    rows[:, 0], rows[:, 1] = np.cos(state[0]), np.sin(state[0])
    rows[:, 2], rows[:, 3] = np.cos(state[1]), np.sin(state[1])
    rows[:, 4:] = state[2:].T
    return rows
