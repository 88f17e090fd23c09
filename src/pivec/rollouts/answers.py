"""How a group of policies answers the observations of all its lanes at once.

Lanes are grouped by slot: slot s owns lanes s * width ... (s + 1) * width - 1 and holds one policy.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces as gym_spaces
from numpy.typing import NDArray

from pivec.errors import PivecError, UsageError
from pivec.policies.network import NetworkPolicy, Stack
from pivec.policies.policy import BatchPolicy, Policy
from pivec.rollouts import spaces
from pivec.rollouts.backends import Layout
from pivec.rollouts.lanes import Lanes
from pivec.rollouts.seeds import action_stream


class Answers(Protocol):
    """Answers for ``slots`` policies, ``width`` lanes each.

    ``needs_flat`` tells whether they look at flattened observations.
    """

    needs_flat: bool

    def put(self, slot: int, policy: Any) -> None:
        """Let ``policy`` act in ``slot`` from now on."""
        ...

    def vacate(self, slot: int) -> None:
        """No policy will act in ``slot`` any more."""
        ...

    def begin(self, lane: int, episode_seed: int, time: int) -> None:
        """An episode begins in ``lane``; its first action is number ``time`` of the chunk."""
        ...

    def renew(self, lanes: NDArray[np.intp]) -> None:
        """A new chunk begins; ``lanes`` are in the middle of episodes."""
        ...

    def actions(
        self, observations: Any, flat: NDArray[np.float32], lanes: NDArray[np.intp], time: int
    ) -> NDArray[Any]:
        """Actions for all lanes, of which only ``lanes`` matter."""
        ...


def group_key(policy: Policy) -> Hashable:
    """Policies with equal keys are answered by one `Answers`."""
    return policy.architecture if isinstance(policy, BatchPolicy) else "act"


def make_answers(
    policy: Policy, shape: Layout, chunk: int, lanes: Lanes, deterministic: bool
) -> Answers:
    """Choose how the group of ``policy`` is answered."""
    if isinstance(policy, BatchPolicy):
        return BatchAnswers(policy, shape, chunk, lanes, deterministic)
    return SingleAnswers(shape, lanes.action_space, deterministic)


class BatchAnswers:
    """Policies that take their randomness as numbers: all lanes of all slots in one call.

    The numbers of an episode come from its own stream, chunk by chunk, so they do not depend on
    the other lanes.
    """

    def __init__(
        self, like: BatchPolicy, shape: Layout, chunk: int, lanes: Lanes, deterministic: bool
    ) -> None:
        slots, width = shape.slots, shape.width
        self._shape = (slots, width)
        self._policies: list[BatchPolicy | None] = [None] * slots
        self._streams: list[np.random.Generator | None] = [None] * (slots * width)
        self._stack = Stack(slots, width, like) if isinstance(like, NetworkPolicy) else None
        self._stacked = np.arange(slots)  # which slot each row of the stack answers for
        probe = like.noise(action_stream(0), 1)
        self._chunk = chunk
        self._noise = (
            None if deterministic else np.zeros((chunk, slots * width, probe.shape[1]), np.float32)
        )
        self._action_shape = lanes.action_space.shape or ()
        # Batch policies know arrays only: of composite observations they see the flat rows.
        self.needs_flat = self._stack is not None or not isinstance(lanes.observations, np.ndarray)

    def put(self, slot: int, policy: BatchPolicy) -> None:
        self._policies[slot] = policy
        if self._stack is not None and isinstance(policy, NetworkPolicy):
            self._stack.put(int(np.searchsorted(self._stacked, slot)), policy)

    def vacate(self, slot: int) -> None:
        """Let idle slots cost nothing: with half of them vacant the rest moves together."""
        self._policies[slot] = None
        staying = [(i, self._policies[i]) for i in self._stacked.tolist()]
        occupied = [(i, policy) for i, policy in staying if policy is not None]
        if self._stack is None or not occupied or 2 * len(occupied) > len(self._stacked):
            return
        stack = Stack(len(occupied), self._shape[1], occupied[0][1])
        for row, (_, policy) in enumerate(occupied):
            stack.put(row, policy)
        self._stack, self._stacked = stack, np.array([i for i, _ in occupied])

    def begin(self, lane: int, episode_seed: int, time: int) -> None:
        if self._noise is not None:
            self._streams[lane] = action_stream(episode_seed)
            self._draw(lane, time)

    def renew(self, lanes: NDArray[np.intp]) -> None:
        if self._noise is not None:
            for lane in lanes.tolist():
                self._draw(lane, 0)

    def _draw(self, lane: int, time: int) -> None:
        policy, stream = self._policies[lane // self._shape[1]], self._streams[lane]
        if self._noise is not None and policy is not None and stream is not None:
            self._noise[time:, lane] = policy.noise(stream, self._chunk - time)

    def actions(
        self, observations: Any, flat: NDArray[np.float32], lanes: NDArray[np.intp], time: int
    ) -> NDArray[Any]:
        slots, width = self._shape
        noise = None if self._noise is None else self._noise[time]
        if self._stack is not None:
            seen = flat.reshape(slots, width, -1)
            numbers = None if noise is None else noise.reshape(slots, width, -1)
            if len(self._stacked) == slots:
                answers = self._stack.respond(seen, numbers)
            else:
                some = self._stacked
                few = self._stack.respond(seen[some], None if numbers is None else numbers[some])
                answers = np.zeros((slots, *few.shape[1:]), dtype=few.dtype)
                answers[some] = few
            return answers.reshape(slots * width, *self._action_shape)
        shown = flat if self.needs_flat else observations
        result: NDArray[Any] | None = None
        for slot in np.unique(lanes // width).tolist():
            policy, mine = self._policies[slot], slice(slot * width, (slot + 1) * width)
            if policy is None:
                continue
            try:
                some = policy.respond(shown[mine], None if noise is None else noise[mine])
                _check_kind(some, (width, *self._action_shape))
            except (Exception, SystemExit) as error:
                raise _failed(error, slot * width) from error
            if result is None:
                result = np.zeros((slots * width, *some.shape[1:]), dtype=some.dtype)
            result[mine] = some
        if result is None:
            raise UsageError("no lane is active: expected at least one policy to act")
        return result


class SingleAnswers:
    """Policies that only have `act`: asked one episode at a time, each with its own generator.

    Their random draws belong to the call, so a batch of several episodes would make an episode
    depend on its neighbours.
    """

    needs_flat = False

    def __init__(
        self, shape: Layout, action_space: gym_spaces.Space[Any], deterministic: bool
    ) -> None:
        slots, width = shape.slots, shape.width
        self._width, self._deterministic = width, deterministic
        self._policies: list[Policy | None] = [None] * slots
        self._streams: list[np.random.Generator | None] = [None] * (slots * width)
        self._space = action_space
        self._shape = (1, *(action_space.shape or ()))
        self._actions: NDArray[Any] = spaces.empty_batch(action_space, slots * width)

    def put(self, slot: int, policy: Policy) -> None:
        self._policies[slot] = policy

    def vacate(self, slot: int) -> None:
        self._policies[slot] = None

    def begin(self, lane: int, episode_seed: int, time: int) -> None:  # noqa: ARG002
        self._streams[lane] = action_stream(episode_seed)

    def renew(self, lanes: NDArray[np.intp]) -> None:
        """Nothing is drawn ahead."""

    def actions(
        self,
        observations: Any,
        flat: NDArray[np.float32],  # noqa: ARG002
        lanes: NDArray[np.intp],
        time: int,  # noqa: ARG002
    ) -> NDArray[Any]:
        for lane in lanes.tolist():
            slot = lane // self._width
            policy, stream = self._policies[slot], self._streams[lane]
            if policy is None or stream is None:
                continue
            one = spaces.pick(observations, slice(lane, lane + 1))
            try:
                answer = (
                    policy.act(one, stream, deterministic=True)
                    if self._deterministic
                    else policy.act(one, stream)
                )
                answer = np.asarray(answer)
                _check_kind(answer, self._shape)
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
    found = (
        error
        if isinstance(error, PivecError)
        else PivecError(f"its act raised {type(error).__name__}: {error}")
    )
    found.lane = lane
    return found
