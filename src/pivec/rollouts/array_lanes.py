"""Lanes on arrays, equal to environments stepped one by one to the last bit.

Vectorised environments that step chosen lanes, and Gymnasium's own CartPole, are called; the
equations of Pendulum and Acrobot are here.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.utils.seeding import np_random
from numpy.typing import NDArray

from pivec.rollouts.environment import Environment
from pivec.rollouts.lanes import Lanes, Outcome, first_inputs

_OF_MAKE = {"disable_env_checker", "max_episode_steps"}  # arguments of gymnasium.make alone
States = NDArray[np.float64]


def choose_array_lanes(environment: Environment) -> type[Lanes] | None:
    """Choose lanes on arrays for the environment, if there are any and it has no wrappers."""
    spec, given = environment.spec, set(environment.arguments)
    if environment.wrappers or environment.one_by_one or spec is None or spec.additional_wrappers:
        return None
    if spec.max_episode_steps is None:
        return None
    package, _, entry = str(spec.entry_point).rpartition(":")
    if (
        entry in _KINDS
        and package.startswith("gymnasium.envs.classic_control.")
        and not spec.kwargs
    ):
        lanes, arguments = _KINDS[entry]
        # Other arguments, or other equations, change what it does.
        return lanes if given <= arguments and not _has_other_equations(entry) else None
    made: Any = spec.vector_entry_point
    if isinstance(made, str):
        made = load_env_creator(made)
    by_lane = hasattr(made, "reset_lanes") and hasattr(made, "step_lanes")
    return ArrayLanes if by_lane and not _OF_MAKE & given else None


def _has_other_equations(entry: str) -> bool:
    """Whether class attributes of Acrobot were changed to other equations."""
    if entry != "AcrobotEnv":
        return False
    from gymnasium.envs.classic_control.acrobot import AcrobotEnv

    return AcrobotEnv.book_or_nips != "book" or AcrobotEnv.torque_noise_max != 0.0


class VectorLanes(Lanes):
    """``n`` environments in the vectorised version that is registered for them."""

    def __init__(self, environment: Environment, n: int) -> None:
        self.n = n
        self._env: Any = gymnasium.make_vec(
            environment.name,
            num_envs=n,
            vectorization_mode="vector_entry_point",
            **environment.arguments,
        ).unwrapped
        self.observations, _ = self._env.reset(seed=0)
        self.observation_space = self._env.single_observation_space
        self.action_space = self._env.single_action_space

    def close(self) -> None:
        self._env.close()


class ArrayLanes(VectorLanes):
    """Lanes of a vectorised environment that can reset and step chosen lanes."""

    def __init__(self, environment: Environment, n: int) -> None:
        super().__init__(environment, n)
        self.observations = self._env.observations

    def reset(self, lane: int, seed: int) -> None:
        self._env.reset_lanes(np.array([lane]), [seed])

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        outcome: Outcome = self._env.step_lanes(lanes, actions[lanes])
        return outcome


class CartPoleLanes(VectorLanes):
    """Gymnasium's vectorised CartPole, with episodes started as CartPole-v1 starts them."""

    def reset(self, lane: int, seed: int) -> None:
        generator, _ = np_random(seed)
        start = generator.uniform(low=-0.05, high=0.05, size=(4,))
        self._env.state[:, lane] = start
        self._env.steps[lane] = 0
        self._env.prev_done[lane] = False
        self.observations[lane] = start

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        """Step all lanes; idle ones reset themselves and are ignored."""
        self.observations, rewards, terminated, truncated, _ = self._env.step(actions)
        self._env.prev_done[lanes] = False
        return rewards[lanes].astype(np.float64), terminated[lanes], truncated[lanes]


class EquationLanes(Lanes):
    """``n`` environments whose states are the columns of an array, stepped by equations.

    The order of operations is Gymnasium's, and squares are libm's pow as for single numbers there,
    which is not always x * x.
    """

    def __init__(self, environment: Environment, n: int) -> None:
        env: Any = environment.make()
        self.n, self.env = n, env.unwrapped
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.observations: NDArray[np.float32] = first_inputs(env, n, environment.name)[0]
        env.close()
        self._limit = int(env.spec.max_episode_steps)
        self._states = np.zeros((len(self._first_state(np.random.default_rng(0))), n))
        self._steps = np.zeros(n, dtype=np.int64)

    @abstractmethod
    def _first_state(self, generator: np.random.Generator) -> NDArray[Any]:
        """Draw the first state of an episode."""

    @abstractmethod
    def _move(
        self, states: States, actions: NDArray[Any]
    ) -> tuple[States, NDArray[np.float64], NDArray[np.bool_]]:
        """Return the next states, rewards, and whether an environment terminated."""

    @abstractmethod
    def _observe(self, states: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Return the columns of the observations."""

    def reset(self, lane: int, seed: int) -> None:
        generator, _ = np_random(seed)
        start = self._first_state(generator)
        self._states[:, lane] = start
        self._steps[lane] = 0
        self.observations[lane] = self._observe(start)

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        states, rewards, terminated = self._move(self._states[:, lanes], actions[lanes])
        self._states[:, lanes] = states
        self._steps[lanes] += 1
        rows = np.empty((len(lanes), self.observations.shape[1]), np.float32)
        for column, values in enumerate(self._observe(states)):
            rows[:, column] = values
        self.observations[lanes] = rows
        return rewards, terminated, self._steps[lanes] >= self._limit


class PendulumLanes(EquationLanes):
    """Pendulum: angle and speed. Rewards equal Gymnasium's to float32's last bit."""

    def _first_state(self, generator: np.random.Generator) -> NDArray[Any]:
        farthest = np.array([np.pi, 1.0])
        return generator.uniform(low=-farthest, high=farthest)

    def _move(
        self, states: States, actions: NDArray[Any]
    ) -> tuple[States, NDArray[np.float64], NDArray[np.bool_]]:
        angle, speed = states
        torque = np.clip(actions[:, 0], -2.0, 2.0)
        from_top = (angle + np.pi) % (2 * np.pi) - np.pi
        costs = np.float_power(from_top, 2) + 0.1 * np.float_power(speed, 2) + 0.001 * torque**2
        push = 3 * self.env.g / 2 * np.sin(angle) + 3.0 * torque
        speed = np.clip(speed + push * 0.05, -8, 8)
        return np.stack([angle + speed * 0.05, speed]), -costs, np.zeros(len(costs), dtype=bool)

    def _observe(self, states: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        angle, speed = states
        return np.cos(angle), np.sin(angle), speed


class AcrobotLanes(EquationLanes):
    """Acrobot by the equations of the book: two angles and two speeds."""

    def _first_state(self, generator: np.random.Generator) -> NDArray[Any]:
        # Gymnasium keeps it, and the sines of its observation, in float32.
        return generator.uniform(low=-0.1, high=0.1, size=(4,)).astype(np.float32)

    def _move(
        self, states: States, actions: NDArray[Any]
    ) -> tuple[States, NDArray[np.float64], NDArray[np.bool_]]:
        """Take one step of the fourth-order Runge-Kutta method."""
        torque, whole, half = actions - 1.0, 0.2, 0.1
        k1 = _acrobot_slope(states, torque)
        k2 = _acrobot_slope(states + half * k1, torque)
        k3 = _acrobot_slope(states + half * k2, torque)
        k4 = _acrobot_slope(states + whole * k3, torque)
        states = states + whole / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)
        for angle in states[:2]:
            while (far := angle > np.pi).any():
                angle[far] -= 2 * np.pi
            while (far := angle < -np.pi).any():
                angle[far] += 2 * np.pi
        for speed, fastest in zip(states[2:], (4 * np.pi, 9 * np.pi), strict=True):
            np.clip(speed, -fastest, fastest, out=speed)
        terminated = -np.cos(states[0]) - np.cos(states[1] + states[0]) > 1.0
        return states, np.where(terminated, 0.0, -1.0), terminated

    def _observe(self, states: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        first, second, *speeds = states
        return np.cos(first), np.sin(first), np.cos(second), np.sin(second), *speeds


def _acrobot_slope(states: States, torque: NDArray[np.float64]) -> States:
    """Speeds and accelerations of both links (Sutton and Barto 2018, section 11.3 of edition 1).

    Masses, lengths and moments of inertia are 1, the centres of mass lie at 0.5, gravity is 9.8.
    """
    angle1, angle2, speed1, speed2 = states
    sine2, cosine2 = np.sin(angle2), np.cos(angle2)
    d1 = 0.25 + (1.25 + cosine2) + 1.0 + 1.0
    d2 = (0.25 + 0.5 * cosine2) + 1.0
    phi2 = 0.5 * 9.8 * np.cos(angle1 + angle2 - np.pi / 2.0)
    phi1 = (
        -0.5 * np.float_power(speed2, 2) * sine2
        - speed2 * speed1 * sine2
        + 1.5 * 9.8 * np.cos(angle1 - np.pi / 2)
        + phi2
    )
    push = torque + d2 / d1 * phi1 - 0.5 * np.float_power(speed1, 2) * sine2 - phi2
    slope = np.empty_like(states)
    slope[:2] = states[2:]
    slope[3] = push / (1.25 - np.float_power(d2, 2) / d1)
    slope[2] = -(d2 * slope[3] + phi1) / d1
    return slope


# By the class of the environment; with the arguments that the lanes support.
_KINDS: dict[str, tuple[type[Lanes], set[str]]] = {
    "CartPoleEnv": (CartPoleLanes, {"sutton_barto_reward"}),
    "PendulumEnv": (PendulumLanes, {"g"}),
    "AcrobotEnv": (AcrobotLanes, set()),
}
