"""The paper's own environments, registered with Gymnasium when this package is imported.

deceptive_point  `pivec/DeceptivePoint-v0`: a way up that ends in a pocket (novelty search)
dangerous_path   `pivec/DangerousPath-v0`: one right action per step, and mines (trust region)
grid_world       `pivec/GridWorld-v0`: walls, and sometimes a random action (Figure 1)

Elsewhere, name them as ``reproduction.worlds:pivec/GridWorld-v0``, which imports this package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

Lanes = NDArray[np.intp]
Moved = tuple[NDArray[np.float64], NDArray[np.bool_]]  # rewards, and what terminated
_DRAWN = 256  # random numbers drawn of a lane's stream at a time


class ArrayVectorEnv(VectorEnv[Any, Any, Any], ABC):
    """Lanes on arrays, with Gymnasium's autoreset on the next step.

    A subclass has the arguments of its single environment, and after them ``max_episode_steps``
    (as registered) and ``render_mode``; it keeps the state of all lanes in arrays and has
    `start_episodes`, `move`, `observe` and `picture`. Random numbers come from `random` only, which
    gives each lane what ``self.np_random.random(count)`` gives the single environment. Then lane i
    of ``reset(seed=s)`` goes through the episodes of a single one after ``reset(seed=s + i)``.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as Gymnasium has it
        "render_modes": ["rgb_array"],
        "render_fps": 30,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        max_episode_steps: int,
        render_mode: str | None = None,
    ) -> None:
        self.num_envs, self.render_mode = num_envs, render_mode
        self.max_episode_steps = max_episode_steps
        self.single_observation_space = observation_space
        self.single_action_space = action_space
        self.observation_space = batch_space(observation_space, num_envs)
        self.action_space = batch_space(action_space, num_envs)
        shape = (num_envs, *(observation_space.shape or ()))
        self.observations: NDArray[Any] = np.zeros(shape, observation_space.dtype)
        """What each lane shows now."""
        self._steps = np.zeros(num_envs, np.int64)
        self._ended = np.zeros(num_envs, bool)
        self._streams: list[np.random.Generator | int | None] = [None] * num_envs
        self._drawn = np.zeros((0, _DRAWN))  # many environments never need it
        self._used = np.full(num_envs, _DRAWN)

    @abstractmethod
    def start_episodes(self, lanes: Lanes) -> None:
        """Bring ``lanes`` into the first state of an episode."""

    @abstractmethod
    def move(self, lanes: Lanes, actions: NDArray[Any]) -> Moved:
        """Take a row of ``actions`` in each of ``lanes``."""

    @abstractmethod
    def observe(self, lanes: Lanes) -> NDArray[Any]:
        """Give the observations of ``lanes``, a row each."""

    @abstractmethod
    def picture(self, lane: int) -> NDArray[np.uint8]:
        """Draw one lane: an image of shape (height, width, 3)."""

    def random(self, lanes: Lanes, count: int = 1) -> NDArray[np.float64]:
        """Draw (len(lanes), count) uniform numbers, each row from the lane's own stream."""
        if not len(self._drawn):
            self._drawn = np.zeros((self.num_envs, _DRAWN))
        numbers = np.empty((len(lanes), count))
        for k in range(count):
            for lane in lanes[self._used[lanes] == _DRAWN].tolist():
                self._drawn[lane] = self._stream(lane).random(_DRAWN)
                self._used[lane] = 0
            numbers[:, k] = self._drawn[lanes, self._used[lanes]]
            self._used[lanes] += 1
        return numbers

    def reset_lanes(self, lanes: Lanes, seeds: Sequence[int] | None = None) -> None:
        """Start episodes in ``lanes``, with seeds of their own or going on with their streams."""
        if seeds is not None:
            for lane, seed in zip(lanes.tolist(), seeds, strict=True):
                self._streams[lane] = int(seed)
            self._used[lanes] = _DRAWN
        self.start_episodes(lanes)
        self._steps[lanes] = 0
        self._ended[lanes] = False
        self.observations[lanes] = self.observe(lanes)

    def step_lanes(
        self, lanes: Lanes, actions: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Step these lanes only, and never reset; return rewards, terminated and truncated."""
        rewards, terminated = self.move(lanes, actions)
        self._steps[lanes] += 1
        truncated = self._steps[lanes] >= self.max_episode_steps
        self.observations[lanes] = self.observe(lanes)
        return rewards, terminated, truncated

    def reset(
        self,
        *,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002 - there are none
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Start an episode in every lane; that of lane i is ``seed`` + i, or its own of a list."""
        lanes = np.arange(self.num_envs)
        if isinstance(seed, int | np.integer):
            seed = [int(seed) + i for i in range(self.num_envs)]
        self.reset_lanes(lanes, seed)
        return self.observations.copy(), {}

    def step(
        self, actions: Any
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Step all lanes; those whose episode ended on the step before start the next instead."""
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), bool)
        over, going = np.flatnonzero(self._ended), np.flatnonzero(~self._ended)
        if len(going):
            moves = np.asarray(actions)[going]
            rewards[going], terminated[going], truncated[going] = self.step_lanes(going, moves)
        if len(over):
            self.reset_lanes(over)
        self._ended = terminated | truncated
        return self.observations.copy(), rewards, terminated, truncated, {}

    def render(self) -> tuple[Any, ...] | None:
        """Draw every lane, if made with ``render_mode="rgb_array"``."""
        if self.render_mode != "rgb_array":
            return None
        return tuple(self.picture(lane) for lane in range(self.num_envs))

    def _stream(self, lane: int) -> np.random.Generator:
        """Give the lane's generator; many environments never need it, so it is made late."""
        stream = self._streams[lane]
        if not isinstance(stream, np.random.Generator):
            stream, _ = np_random(stream)
            self._streams[lane] = stream
        return stream


# Name, module, class (with VectorEnv instead of Env for many), steps of an episode.
_ENVIRONMENTS = (
    ("DeceptivePoint-v0", "deceptive_point", "DeceptivePoint", 100),
    ("DangerousPath-v0", "dangerous_path", "DangerousPath", 25),
    ("GridWorld-v0", "grid_world", "GridWorld", 500),
)
_LANE = np.zeros(1, np.intp)


class LaneEnv(gymnasium.Env[Any, Any]):
    """One environment as Gymnasium has it: a lane of its vectorised version.

    It has the arguments of the vectorised version. Episodes end when the world ends them; cutting
    them is `gymnasium.make`'s matter.
    """

    vectorised: ClassVar[type[ArrayVectorEnv]]
    metadata = ArrayVectorEnv.metadata

    def __init__(self, render_mode: str | None = None, **arguments: Any) -> None:
        self.render_mode = render_mode
        self.lanes = self.vectorised(1, render_mode=render_mode, **arguments)
        self.observation_space = self.lanes.single_observation_space
        self.action_space = self.lanes.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed, options=options)
        self.lanes.reset_lanes(_LANE, None if seed is None else [seed])
        return self.lanes.observations[0].copy(), {}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Take an action."""
        rewards, terminated, _ = self.lanes.step_lanes(_LANE, np.asarray(action)[None])
        shown = self.lanes.observations[0].copy()
        return shown, float(rewards[0]), bool(terminated[0]), False, {}

    def render(self) -> NDArray[np.uint8] | None:
        """Draw it, if made with ``render_mode="rgb_array"``."""
        return None if self.render_mode is None else self.lanes.picture(0)


def register() -> None:
    """Register the environments with Gymnasium, those that are not registered yet."""
    for name, module, kind, steps in _ENVIRONMENTS:
        if f"pivec/{name}" not in gymnasium.registry:
            gymnasium.register(
                f"pivec/{name}",
                entry_point=f"reproduction.worlds.{module}:{kind}Env",
                vector_entry_point=f"reproduction.worlds.{module}:{kind}VectorEnv",
                max_episode_steps=steps,
            )


register()
