"""Environments side by side, each of them reset and stepped under our control.

Gymnasium's SyncVectorEnv resets by itself and steps lanes that have nothing left to do; here a
lane is reset with the seed of its episode, and a finished lane costs nothing
(benchmarks/rollouts.py compares the two).
"""

from __future__ import annotations

from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium.utils.seeding import np_random
from numpy.typing import NDArray

from pivec.errors import EnvironmentFailure
from pivec.rollouts import spaces
from pivec.rollouts.environment import Environment

Outcome = tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]


class Lanes(Protocol):
    """``n`` environments; ``observations`` is the batch of what each of them shows now."""

    n: int
    observations: Any
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]

    def reset(self, lane: int, seed: int) -> None:
        """Start an episode in ``lane``."""
        ...

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        """Step the given lanes; ``actions`` has a row for every lane.

        Returns rewards, terminated and truncated, one for each of the given lanes.
        """
        ...

    def close(self) -> None:
        """Close the environments."""
        ...


class SteppedLanes:
    """Any Gymnasium environment, stepped one after another."""

    def __init__(self, environment: Environment, n: int) -> None:
        self.n, self.name = n, environment.name
        self._envs = [environment.make() for _ in range(n)]
        self.observation_space = self._envs[0].observation_space
        self.action_space = self._envs[0].action_space
        self.observations = spaces.empty_batch(self.observation_space, n)

    def reset(self, lane: int, seed: int) -> None:
        """Start an episode in ``lane``."""
        try:
            observation, _ = self._envs[lane].reset(seed=seed)
            spaces.assign(self.observations, lane, observation)
        except Exception as error:
            raise _failure(self.name, f"reset(seed={seed})", error) from error

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        """Step the given lanes."""
        rewards = np.zeros(len(lanes))
        terminated = np.zeros(len(lanes), dtype=bool)
        truncated = np.zeros(len(lanes), dtype=bool)
        simple = isinstance(self.observations, np.ndarray)
        moves = actions.tolist() if actions.ndim == 1 else actions
        for i, lane in enumerate(lanes.tolist()):
            try:
                observation, rewards[i], terminated[i], truncated[i], _ = self._envs[lane].step(
                    moves[lane]
                )
                if simple:
                    self.observations[lane] = observation
                else:
                    spaces.assign(self.observations, lane, observation)
            except Exception as error:
                raise _failure(self.name, f"step({moves[lane]!r})", error, lane) from error
        return rewards, terminated, truncated

    def close(self) -> None:
        """Close the environments."""
        for env in self._envs:
            env.close()


class CartPoleLanes:
    """Gymnasium's vectorised CartPole, with each episode started as CartPole-v1 starts it."""

    def __init__(self, environment: Environment, n: int) -> None:
        self.n = n
        self._env: Any = gymnasium.make_vec(
            environment.name,
            num_envs=n,
            vectorization_mode="vector_entry_point",
            **environment.arguments,
        )
        self._inner: Any = self._env.unwrapped
        self.observations, _ = self._env.reset(seed=0)
        self.observation_space = self._inner.single_observation_space
        self.action_space = self._inner.single_action_space

    @staticmethod
    def fits(environment: Environment) -> bool:
        """Tell whether the environment is CartPole and nothing else."""
        spec = None if environment.factory else gymnasium.registry.get(environment.name)
        return (
            spec is not None
            and spec.entry_point == "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
            and not spec.additional_wrappers
            and set(environment.arguments) <= {"sutton_barto_reward"}
        )

    def reset(self, lane: int, seed: int) -> None:
        """Start an episode in ``lane``, from the state CartPole-v1 would start in."""
        generator, _ = np_random(seed)
        start = generator.uniform(low=-0.05, high=0.05, size=(4,))
        self._inner.state[:, lane] = start
        self._inner.steps[lane] = 0
        self._inner.prev_done[lane] = False
        self.observations[lane] = start

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        """Step all lanes; idle ones reset themselves and are not looked at."""
        self.observations, rewards, terminated, truncated, _ = self._inner.step(actions)
        self._inner.prev_done[lanes] = False
        return rewards[lanes].astype(np.float64), terminated[lanes], truncated[lanes]

    def close(self) -> None:
        """Close the environments."""
        self._env.close()


def make_lanes(environment: Environment, n: int) -> Lanes:
    """Make ``n`` lanes of the fastest kind there is for this environment."""
    if CartPoleLanes.fits(environment):
        return CartPoleLanes(environment, n)
    return SteppedLanes(environment, n)


def _failure(name: str, what: str, error: Exception, lane: int | None = None) -> EnvironmentFailure:
    failure = EnvironmentFailure(f"{name} raised {type(error).__name__} in {what}: {error}")
    failure.lane = lane
    return failure
