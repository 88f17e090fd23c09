"""Actions of many policies for the observations of all lanes at once.

Lanes are grouped by slot: slot s owns lanes s * width ... (s + 1) * width - 1 and holds one policy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import PivecError, UsageError
from pivec.policies import (
    BatchPolicy,
    MaskedPolicy,
    NetworkPolicy,
    Policy,
    RecurrentPolicy,
    Stack,
    as_policy,
)
from pivec.rollouts import observations as spaces
from pivec.rollouts.episodes import action_stream
from pivec.rollouts.lanes import Lanes, Layout


def group_key(policy: Policy) -> Hashable:
    """Policies with equal keys share one `Actors`."""
    return policy.architecture if isinstance(policy, BatchPolicy | RecurrentPolicy) else "act"


def make_actors(
    like: Policy, shape: Layout, chunk: int, lanes: Lanes, deterministic: bool
) -> Actors:
    """Make the `Actors` for policies that are ``like`` this one.

    Random numbers are drawn for ``chunk`` actions at a time.
    """
    if not isinstance(like, BatchPolicy | RecurrentPolicy):
        return SingleActors(shape, lanes, deterministic)
    noise = None
    if not deterministic:
        numbers = like.noise(action_stream(0), 1).shape[1]
        noise = np.zeros((chunk, lanes.n, numbers), np.float32)
    kind = StackedActors if isinstance(like, NetworkPolicy) else BatchActors
    return kind(shape, lanes, noise, like)


class Actors(ABC):
    """The policies of all slots, and the random streams of the episodes in all lanes.

    ``needs_flat`` says whether they are given flattened observations.
    """

    needs_flat = False

    def __init__(self, shape: Layout, lanes: Lanes) -> None:
        self._slots, self._width, self._lanes = shape.slots, shape.width, lanes
        self._policies: list[Any] = [None] * shape.slots
        self._streams: list[Any] = [None] * lanes.n
        self._action_shape = lanes.action_space.shape or ()

    def put(self, slot: int, policy: Any) -> None:
        """Let ``policy`` act in ``slot`` from now on."""
        self._policies[slot] = policy

    def release(self, slot: int) -> None:
        """No policy will act in ``slot`` any more."""
        self._policies[slot] = None

    def begin(self, lane: int, episode_seed: int, time: int) -> None:  # noqa: ARG002
        """An episode begins in ``lane``; its first action is number ``time`` of the chunk."""
        self._streams[lane] = action_stream(episode_seed)

    def renew(self, lanes: NDArray[np.intp]) -> None:  # noqa: B027
        """A new chunk begins; ``lanes`` are in the middle of episodes."""

    @abstractmethod
    def actions(self, shown: Any, lanes: NDArray[np.intp], time: int) -> NDArray[Any]:
        """Actions for all lanes, of which only ``lanes`` matter."""


class BatchActors(Actors):
    """Policies that take their randomness as numbers: all lanes of a slot in one call.

    The numbers of an episode come from its own stream, chunk by chunk, so they do not depend on
    the other lanes. The memory of recurrent policies has a row for each lane.
    """

    def __init__(
        self, shape: Layout, lanes: Lanes, noise: NDArray[np.float32] | None, like: Any
    ) -> None:
        super().__init__(shape, lanes)
        self._noise = noise
        is_array = isinstance(lanes.observations, np.ndarray)  # composite ones are flattened
        self._masked = isinstance(like, MaskedPolicy)
        self.needs_flat = not is_array or self._masked or isinstance(like, NetworkPolicy)
        self._memory: Any = None
        if isinstance(like, RecurrentPolicy):
            self._memory = np.repeat(like.initial_memory(1), lanes.n, axis=0)

    def begin(self, lane: int, episode_seed: int, time: int) -> None:
        if self._noise is not None:
            super().begin(lane, episode_seed, time)
            self._draw(self._noise[time:], lane)
        if self._memory is not None:
            self._memory[lane] = self._policies[lane // self._width].initial_memory(1)[0]

    def renew(self, lanes: NDArray[np.intp]) -> None:
        if self._noise is not None:
            for lane in lanes.tolist():
                self._draw(self._noise, lane)

    def _draw(self, noise: NDArray[np.float32], lane: int) -> None:
        policy = self._policies[lane // self._width]
        noise[:, lane] = policy.noise(self._streams[lane], len(noise))

    def actions(self, shown: Any, lanes: NDArray[np.intp], time: int) -> NDArray[Any]:
        result: Any = None
        for slot in np.unique(lanes // self._width).tolist():
            mine = slice(slot * self._width, (slot + 1) * self._width)
            noise = None if self._noise is None else self._noise[time, mine]
            try:
                actions = self._respond(self._policies[slot], shown[mine], noise, mine)
                _check_shape(actions, (self._width, *self._action_shape))
            except (Exception, SystemExit) as error:
                raise _failed(error, mine.start) from error
            if result is None:
                result = np.zeros((len(self._streams), *actions.shape[1:]), dtype=actions.dtype)
            result[mine] = actions
        return np.asarray(result)

    def _respond(self, policy: Any, shown: Any, noise: Any, lanes: slice) -> Any:
        if self._masked:
            try:
                _, _, environments = self._lanes.inputs(lanes)
                masks = [env.get_wrapper_attr("action_masks")() for env in environments]
            except (AttributeError, ValueError) as error:  # lanes on arrays have no environments
                raise UsageError(
                    "a policy of MaskablePPO needs an environment with action_masks(), which this "
                    "one does not have: wrap it as in training"
                ) from error
            return policy.respond(shown, noise, np.stack(masks))
        if self._memory is None:
            return policy.respond(shown, noise)
        before = self._memory[lanes]
        actions, memory = policy.respond(shown, noise, before)
        if np.shape(memory) != before.shape:
            raise UsageError(
                f"its memory has shape {np.shape(memory)} after an action, but {before.shape} "
                "before"
            )
        self._memory[lanes] = memory
        return actions


class StackedActors(BatchActors):
    """Networks of one architecture: all lanes of all slots in one call."""

    def __init__(
        self, shape: Layout, lanes: Lanes, noise: NDArray[np.float32] | None, like: Any
    ) -> None:
        super().__init__(shape, lanes, noise, like)
        self._stack = Stack(self._slots, self._width, like)
        self._stacked = np.arange(self._slots)  # the slot of each row of the stack

    def put(self, slot: int, policy: Any) -> None:
        super().put(slot, policy)
        self._stack.put(int(np.searchsorted(self._stacked, slot)), policy)

    def release(self, slot: int) -> None:
        """Shrink the stack when half of the slots are vacant, since idle ones cost time."""
        super().release(slot)
        occupied = [i for i in self._stacked.tolist() if self._policies[i] is not None]
        if not occupied or 2 * len(occupied) > len(self._stacked):
            return
        self._stack = Stack(len(occupied), self._width, self._policies[occupied[0]])
        for row, taken in enumerate(occupied):
            self._stack.put(row, self._policies[taken])
        self._stacked = np.array(occupied)

    def actions(self, shown: Any, lanes: NDArray[np.intp], time: int) -> NDArray[Any]:  # noqa: ARG002
        shape = (self._slots, self._width, -1)
        shown = shown.reshape(shape)
        noise = None if self._noise is None else self._noise[time].reshape(shape)
        if len(self._stacked) == self._slots:
            actions = self._stack.respond(shown, noise)
        else:
            rows = self._stacked
            few = self._stack.respond(shown[rows], None if noise is None else noise[rows])
            actions = np.zeros((self._slots, *few.shape[1:]), dtype=few.dtype)
            actions[rows] = few
        return actions.reshape(-1, *self._action_shape)


class SingleActors(Actors):
    """Policies that only have `act`: called one episode at a time, each with its own generator.

    Their random draws belong to the call, so a batch of several episodes would make an episode
    depend on its neighbours.
    """

    def __init__(self, shape: Layout, lanes: Lanes, deterministic: bool) -> None:
        super().__init__(shape, lanes)
        self._deterministic = deterministic
        self._memory: list[Any] = [None] * lanes.n
        self._actions: NDArray[Any] = spaces.empty_batch(lanes.action_space, lanes.n)

    def put(self, slot: int, policy: Any) -> None:
        """Let ``policy`` act in ``slot``; `as_policy` adapts to the arguments of its `act`."""
        super().put(slot, as_policy(policy))

    def begin(self, lane: int, episode_seed: int, time: int) -> None:
        super().begin(lane, episode_seed, time)
        self._memory[lane] = None

    def actions(self, shown: Any, lanes: NDArray[np.intp], time: int) -> NDArray[Any]:  # noqa: ARG002
        shape, casts = (1, *self._action_shape), self._actions.dtype.kind != "f"
        is_array = isinstance(shown, np.ndarray)
        for lane in lanes.tolist():
            mine = slice(lane, lane + 1)
            try:
                action, self._memory[lane] = self._policies[lane // self._width].ask(
                    shown[mine] if is_array else spaces.pick(shown, mine),
                    self._streams[lane],
                    self._memory[lane],
                    self._deterministic,
                )
                _check_shape(action, shape)
                if casts and action.dtype.kind == "f":
                    spaces.check_elements(self._lanes.action_space, action, "the action")
                self._actions[lane] = action[0]
            except (Exception, SystemExit) as error:
                raise _failed(error, lane) from error
        return self._actions


def _check_shape(actions: NDArray[Any], shape: tuple[int, ...]) -> None:
    if actions.shape != shape or actions.dtype.kind not in "biuf":
        raise UsageError(
            f"for {shape[0]} observations it returned actions of shape {actions.shape} and type "
            f"{actions.dtype}, but the environment needs shape {shape}: return one action per row"
        )


def _failed(error: BaseException, lane: int) -> PivecError:
    """Error of a policy, with its lane."""
    if not isinstance(error, PivecError):
        error = PivecError(f"its act raised {type(error).__name__}: {error}")
    error.lane = lane
    return error
