"""Lanes as an environment of Stable-Baselines3: arrays where there are some, episodes by seed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Tuple, flatten_space
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from pivec.rollouts import spaces
from pivec.rollouts.backends import Layout, make_lanes
from pivec.rollouts.environment import Environment

_SOON = 64  # seeds of episodes drawn at a time for each lane


class LanesVecEnv(VecEnv):  # type: ignore[misc]  # the library has no types here
    """``n`` environments that play one episode after another, the seed of each from one stream.

    After `seed` and `reset` everything that happens follows from the seed and the actions.
    """

    def __init__(self, environment: Environment, n: int, backend: str = "gymnasium") -> None:
        self._lanes = make_lanes(environment, backend, Layout(1, n), threads=1)
        space = self._lanes.observation_space
        # As rollouts flatten them for networks.
        self._flatten = isinstance(space, Dict | Tuple)
        shown = flatten_space(space) if self._flatten else space
        super().__init__(n, shown, self._lanes.action_space)
        self._all = np.arange(n)
        self._actions: NDArray[Any] = np.zeros(0)
        self.seed(0)

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Set what the episodes from the next `reset` on follow from."""
        children = np.random.SeedSequence(0 if seed is None else seed).spawn(self.num_envs)
        self._streams = [np.random.default_rng(child) for child in children]
        self._soon: list[list[int]] = [[] for _ in range(self.num_envs)]
        return [seed] * self.num_envs

    def reset(self) -> NDArray[Any]:
        """Start an episode in every lane."""
        first = [self._next_seed(lane) for lane in range(self.num_envs)]
        self._lanes.vacate(0)
        self._lanes.take([0], np.array([first]))
        for lane, seed in enumerate(first):
            self._lanes.reset(lane, seed)
        self._rewards, self._lengths = np.zeros(self.num_envs), np.zeros(self.num_envs, np.int64)
        return self._seen()

    def step_async(self, actions: NDArray[Any]) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], list[dict[str, Any]]]:
        """Step all lanes; those that end begin again, their last observation is in the info."""
        rewards, terminated, truncated = self._lanes.step(self._all, self._actions)
        self._rewards += rewards
        self._lengths += 1
        over = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = np.flatnonzero(over).tolist()
        last = self._seen() if ended else np.zeros(0)
        for lane in ended:
            length, total = int(self._lengths[lane]), float(self._rewards[lane])
            infos[lane] = {
                "terminal_observation": last[lane],
                "TimeLimit.truncated": bool(truncated[lane] and not terminated[lane]),
                "episode": {"r": total, "l": length},
            }
            self._rewards[lane], self._lengths[lane] = 0.0, 0
            self._lanes.reset(lane, self._next_seed(lane))
        return self._seen(), rewards.astype(np.float32), over, infos

    def close(self) -> None:
        """Close the environments."""
        self._lanes.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Lanes have no attributes of single environments, save that nothing is drawn."""
        if attr_name != "render_mode":
            self.env_method(attr_name)
        return [None for _ in self._get_indices(indices)]

    def env_method(self, method_name: str, *_: Any, **__: Any) -> list[Any]:
        """Refuse: lanes have no single environments."""
        raise AttributeError(f"lanes have no single environments, so no {method_name}")

    set_attr = env_method

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> Iterable[bool]:  # noqa: ARG002
        """Tell that no wrapper of single environments is there."""
        return [False for _ in self._get_indices(indices)]

    def _next_seed(self, lane: int) -> int:
        if not self._soon[lane]:
            self._soon[lane] = self._streams[lane].integers(0, 2**31, _SOON).tolist()
        return self._soon[lane].pop()

    def _seen(self) -> NDArray[Any]:
        """Copy what the lanes show now, which the next step overwrites."""
        if self._flatten:
            return spaces.flatten(self._lanes.observation_space, self._lanes.observations)
        return np.array(self._lanes.observations)
