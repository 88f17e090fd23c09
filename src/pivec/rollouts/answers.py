"""How a group of policies answers the observations of all its lanes at once.

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
from pivec.rollouts.backends import Layout
from pivec.rollouts.lanes import Lanes
from pivec.rollouts.seeds import action_stream


def group_key(policy: Policy) -> Hashable:
    """Policies with equal keys are answered by one `Answers`."""
    return policy.architecture if isinstance(policy, BatchPolicy | RecurrentPolicy) else "act"


def make_answers(
    like: Policy, shape: Layout, chunk: int, lanes: Lanes, deterministic: bool
) -> Answers:
    """Choose how the policies that are ``like`` this one answer."""
    if not isinstance(like, BatchPolicy | RecurrentPolicy):
        return SingleAnswers(shape, lanes, deterministic)
    numbers = None if deterministic else like.noise(action_stream(0), 1).shape[1]
    noise = None if numbers is None else np.zeros((chunk, lanes.n, numbers), np.float32)
    if isinstance(like, NetworkPolicy):
        return StackAnswers(shape, lanes, noise, like)
    if isinstance(like, RecurrentPolicy):
        return RecurrentAnswers(shape, lanes, noise, like)
    if isinstance(like, MaskedPolicy):
        return MaskedAnswers(shape, lanes, noise)
    return BatchAnswers(shape, lanes, noise)


class Answers(ABC):
    """The policies of all slots, and the random streams of the episodes in all lanes.

    ``needs_flat`` tells whether they are shown flattened observations.
    """

    needs_flat = False

    def __init__(self, shape: Layout, lanes: Lanes) -> None:
        self._slots, self._width = shape.slots, shape.width
        self._policies: list[Any] = [None] * shape.slots
        self._streams: list[Any] = [None] * lanes.n
        self._space, self._action_shape = lanes.action_space, lanes.action_space.shape or ()

    def put(self, slot: int, policy: Any) -> None:
        """Let ``policy`` act in ``slot`` from now on."""
        self._policies[slot] = policy

    def vacate(self, slot: int) -> None:
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


class BatchAnswers(Answers):
    """Policies that take their randomness as numbers: all lanes of a slot in one call.

    The numbers of an episode come from its own stream, chunk by chunk, so they do not depend on
    the other lanes.
    """

    def __init__(self, shape: Layout, lanes: Lanes, noise: NDArray[np.float32] | None) -> None:
        super().__init__(shape, lanes)
        self._noise = noise
        # Batch policies know arrays only: of composite observations they see the flat rows.
        self.needs_flat = not isinstance(lanes.observations, np.ndarray)

    def begin(self, lane: int, episode_seed: int, time: int) -> None:
        """Draw the first numbers of the episode."""
        if self._noise is not None:
            super().begin(lane, episode_seed, time)
            self._draw(self._noise[time:], lane)

    def renew(self, lanes: NDArray[np.intp]) -> None:
        """Draw the numbers of the chunk."""
        if self._noise is not None:
            for lane in lanes.tolist():
                self._draw(self._noise, lane)

    def _draw(self, noise: NDArray[np.float32], lane: int) -> None:
        policy = self._policies[lane // self._width]
        noise[:, lane] = policy.noise(self._streams[lane], len(noise))

    def actions(self, shown: Any, lanes: NDArray[np.intp], time: int) -> NDArray[Any]:
        """Ask one policy after another."""
        result: NDArray[Any] | None = None
        for slot in np.unique(lanes // self._width).tolist():
            mine = slice(slot * self._width, (slot + 1) * self._width)
            noise = None if self._noise is None else self._noise[time, mine]
            try:
                answer = self._respond(self._policies[slot], shown[mine], noise, mine)
                _check_kind(answer, (self._width, *self._action_shape))
            except (Exception, SystemExit) as error:
                raise _failed(error, mine.start) from error
            if result is None:
                result = np.zeros((len(self._streams), *answer.shape[1:]), dtype=answer.dtype)
            result[mine] = answer
        if result is None:
            raise UsageError("no lane is active: expected at least one policy to act")
        return result

    def _respond(
        self,
        policy: Any,
        seen: NDArray[Any],
        noise: NDArray[np.float32] | None,
        lanes: slice,  # noqa: ARG002
    ) -> NDArray[Any]:
        actions: NDArray[Any] = policy.respond(seen, noise)
        return actions


class MaskedAnswers(BatchAnswers):
    """Policies that are told which actions the environment of each lane allows."""

    def __init__(self, shape: Layout, lanes: Lanes, noise: NDArray[np.float32] | None) -> None:
        super().__init__(shape, lanes, noise)
        self.needs_flat = True
        self._lanes = lanes

    def _respond(
        self, policy: Any, seen: NDArray[Any], noise: NDArray[np.float32] | None, lanes: slice
    ) -> NDArray[Any]:
        try:
            _, _, environments = self._lanes.seen(lanes)
            masks = [env.get_wrapper_attr("action_masks")() for env in environments]
        except (AttributeError, ValueError) as error:  # an array of states has no environments
            raise UsageError(
                "a policy of MaskablePPO needs an environment with action_masks(), which this one "
                "has not: wrap it as in its training"
            ) from error
        actions: NDArray[Any] = policy.respond(seen, noise, np.stack(masks))
        return actions


class RecurrentAnswers(BatchAnswers):
    """Policies with a memory, of which there is a row for each lane."""

    def __init__(
        self, shape: Layout, lanes: Lanes, noise: NDArray[np.float32] | None, like: RecurrentPolicy
    ) -> None:
        super().__init__(shape, lanes, noise)
        self._memory = np.repeat(like.initial_memory(1), lanes.n, axis=0)

    def begin(self, lane: int, episode_seed: int, time: int) -> None:
        """Let the episode begin with the memory that its policy has then."""
        super().begin(lane, episode_seed, time)
        self._memory[lane] = self._policies[lane // self._width].initial_memory(1)[0]

    def _respond(
        self, policy: Any, seen: NDArray[Any], noise: NDArray[np.float32] | None, lanes: slice
    ) -> NDArray[Any]:
        actions: NDArray[Any]
        actions, memory = policy.respond(seen, noise, self._memory[lanes])
        if np.shape(memory) != self._memory[lanes].shape:
            raise UsageError(
                f"its memory has the shape {np.shape(memory)} behind an action, but "
                f"{self._memory[lanes].shape} before"
            )
        self._memory[lanes] = memory
        return actions


class StackAnswers(BatchAnswers):
    """Networks of one architecture: all lanes of all slots in one call."""

    def __init__(
        self, shape: Layout, lanes: Lanes, noise: NDArray[np.float32] | None, like: BatchPolicy
    ) -> None:
        super().__init__(shape, lanes, noise)
        self.needs_flat = True
        self._stack = Stack(self._slots, self._width, like)
        self._stacked = np.arange(self._slots)  # which slot each row of the stack answers for

    def put(self, slot: int, policy: Any) -> None:
        """Put the policy into the stack."""
        super().put(slot, policy)
        self._stack.put(int(np.searchsorted(self._stacked, slot)), policy)

    def vacate(self, slot: int) -> None:
        """Let idle slots cost nothing: with half of them vacant the rest moves together."""
        super().vacate(slot)
        occupied = [i for i in self._stacked.tolist() if self._policies[i] is not None]
        if not occupied or 2 * len(occupied) > len(self._stacked):
            return
        self._stack = Stack(len(occupied), self._width, self._policies[occupied[0]])
        for row, taken in enumerate(occupied):
            self._stack.put(row, self._policies[taken])
        self._stacked = np.array(occupied)

    def actions(self, shown: Any, lanes: NDArray[np.intp], time: int) -> NDArray[Any]:  # noqa: ARG002
        """Ask the stack."""
        shape = (self._slots, self._width, -1)
        seen = shown.reshape(shape)
        noise = None if self._noise is None else self._noise[time].reshape(shape)
        if len(self._stacked) == self._slots:
            answers = self._stack.respond(seen, noise)
        else:
            rows = self._stacked
            few = self._stack.respond(seen[rows], None if noise is None else noise[rows])
            answers = np.zeros((self._slots, *few.shape[1:]), dtype=few.dtype)
            answers[rows] = few
        return answers.reshape(-1, *self._action_shape)


class SingleAnswers(Answers):
    """Policies that only have `act`: asked one episode at a time, each with its own generator.

    Their random draws belong to the call, so a batch of several episodes would make an episode
    depend on its neighbours.
    """

    def __init__(self, shape: Layout, lanes: Lanes, deterministic: bool) -> None:
        super().__init__(shape, lanes)
        self._deterministic = deterministic
        self._memory: list[Any] = [None] * lanes.n
        self._actions: NDArray[Any] = spaces.empty_batch(self._space, lanes.n)

    def put(self, slot: int, policy: Any) -> None:
        """Let ``policy`` act in ``slot``, asked as what its `act` takes demands."""
        super().put(slot, as_policy(policy))

    def begin(self, lane: int, episode_seed: int, time: int) -> None:
        """Let the episode begin without a memory."""
        super().begin(lane, episode_seed, time)
        self._memory[lane] = None

    def actions(self, shown: Any, lanes: NDArray[np.intp], time: int) -> NDArray[Any]:  # noqa: ARG002
        """Ask for one lane after another."""
        for lane in lanes.tolist():
            seen = spaces.pick(shown, slice(lane, lane + 1))
            policy = self._policies[lane // self._width]
            try:
                answer, self._memory[lane] = policy.ask(
                    seen, self._streams[lane], self._memory[lane], self._deterministic
                )
                _check_kind(answer, (1, *self._action_shape))
                if answer.dtype.kind == "f" and self._actions.dtype.kind != "f":
                    spaces.check_elements(self._space, answer, "the action")  # before it is cut
                self._actions[lane] = answer[0]
            except (Exception, SystemExit) as error:
                raise _failed(error, lane) from error
        return self._actions


def _check_kind(actions: NDArray[Any], shape: tuple[int, ...]) -> None:
    if actions.shape != shape or actions.dtype.kind not in "biuf":
        raise UsageError(
            f"{shape[0]} observations were answered with actions of shape {actions.shape} and type "
            f"{actions.dtype}, but the environment needs shape {shape}: return one action for each "
            "row of the observations"
        )


def _failed(error: BaseException, lane: int) -> PivecError:
    """Say what a policy raised, and in which lane."""
    if not isinstance(error, PivecError):
        error = PivecError(f"its act raised {type(error).__name__}: {error}")
    error.lane = lane
    return error
