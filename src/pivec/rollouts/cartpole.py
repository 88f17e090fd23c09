"""CartPole in lanes: Gymnasium's vectorised version, its episodes started as CartPole-v1's."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils.seeding import np_random
from numpy.typing import NDArray

from pivec.rollouts.environment import Environment
from pivec.rollouts.lanes import Outcome, SeededLanes


class CartPoleLanes(SeededLanes):
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
        entry = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
        return environment.is_plain(entry, {"sutton_barto_reward"})

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
