"""Lanes of environments on arrays, whose vectorised versions can be stepped lane by lane."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from numpy.typing import NDArray

from pivec.rollouts.array_env import ArrayVectorEnv
from pivec.rollouts.environment import Environment
from pivec.rollouts.lanes import Outcome, SeededLanes

_OF_MAKE = {"disable_env_checker", "max_episode_steps"}  # arguments of gymnasium.make alone


class VectorLanes(SeededLanes):
    """``n`` environments whose vectorised version is an `ArrayVectorEnv`.

    Examples
    --------
    >>> point = Environment("pivec/DeceptivePoint-v0")
    >>> VectorLanes.fits(point)
    True
    >>> lanes = VectorLanes(point, 2)
    >>> lanes.reset(1, seed=0)
    >>> _ = lanes.step(np.array([1]), np.full((2, 1), -0.5, np.float32))
    >>> lanes.observations.round(2)
    array([[ 0.  , -0.9 ],
           [ 0.  , -0.85]], dtype=float32)
    """

    def __init__(self, environment: Environment, n: int) -> None:
        self.n = n
        made: Any = gymnasium.make_vec(
            environment.name,
            num_envs=n,
            vectorization_mode="vector_entry_point",
            **environment.arguments,
        )
        self._env: ArrayVectorEnv = made.unwrapped
        self._env.reset(seed=0)  # nobody is to see what no environment showed
        self.observations = self._env.observations
        self.observation_space = self._env.single_observation_space
        self.action_space = self._env.single_action_space

    @staticmethod
    def fits(environment: Environment) -> bool:
        """Tell whether the environment has such a version, and nothing around it."""
        spec = environment.spec
        if not (
            not environment.wrappers
            and not _OF_MAKE & set(environment.arguments)
            and spec is not None
            and not spec.additional_wrappers
            and spec.max_episode_steps is not None
            and spec.vector_entry_point is not None
        ):
            return False
        made: Any = spec.vector_entry_point
        if isinstance(made, str):
            made = load_env_creator(made)
        return isinstance(made, type) and issubclass(made, ArrayVectorEnv)

    def reset(self, lane: int, seed: int) -> None:
        """Start an episode in ``lane``."""
        self._env.reset_lanes(np.array([lane]), [seed])

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        """Step the given lanes."""
        return self._env.step_lanes(lanes, actions[lanes])

    def close(self) -> None:
        """Close the environments."""
        self._env.close()
