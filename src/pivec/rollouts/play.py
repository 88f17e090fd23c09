"""The loop: every policy plays exactly its episodes, many policies in lock-step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, EnvironmentFailure, PivecError
from pivec.policies.policy import NamedPolicy, Policy
from pivec.progress import Progress
from pivec.rollouts import spaces
from pivec.rollouts.answers import group_key, make_answers
from pivec.rollouts.environment import Environment
from pivec.rollouts.lanes import CartPoleLanes, Lanes, make_lanes
from pivec.rollouts.seeds import episode_seeds

Features = Callable[[Any], NDArray[Any]]

# Steps recorded before they are handed over to the episodes they belong to, and their bytes.
_CHUNK, _CHUNK_BYTES = 128, 64 << 20


@dataclass
class Episode:
    """One played episode: first observation, every later one and the terminal one."""

    states: NDArray[np.float32]
    actions: NDArray[Any] | None
    total_reward: float
    seed: int
    terminated: bool
    truncated: bool


@dataclass
class PlayedPolicy:
    """All episodes of one policy, in the order of their numbers."""

    index: int
    named: NamedPolicy
    episodes: list[Episode]


@dataclass(frozen=True)
class PlaySettings:
    """How policies are played.

    Attributes
    ----------
    episodes : int
        Episodes for each policy.
    seed : int
        Everything random follows from it.
    deterministic : bool
        Take the mode of the policy's distribution instead of sampling.
    actions : bool
        Keep the actions too.
    features : callable or None
        Turns a batch of observations into rows of numbers; None flattens them.
    n_envs : int or None
        Environments side by side; changes speed and memory, never the result.
    max_steps : int or None
        Cut episodes after that many steps (counted as truncated).
    """

    episodes: int = 100
    seed: int = 0
    deterministic: bool = False
    actions: bool = False
    features: Features | None = None
    n_envs: int | None = None
    max_steps: int | None = None


def play(
    environment: Environment,
    policies: Sequence[NamedPolicy],
    settings: PlaySettings,
    progress: Progress | None = None,
) -> Iterator[PlayedPolicy]:
    """Play ``settings.episodes`` episodes of every policy; yield each policy when it is done.

    Policies come in the order in which they finish; `PlayedPolicy.index` is the place in
    ``policies``. An episode depends only on (seed, label, number of the episode).
    """
    from threadpoolctl import threadpool_limits

    probe = environment.make()
    bound = [_bind(named, probe.observation_space, probe.action_space) for named in policies]
    probe.close()
    groups: dict[Hashable, list[tuple[int, NamedPolicy]]] = {}
    for index, named in enumerate(bound):
        groups.setdefault(group_key(named.policy), []).append((index, named))
    # The products are small: threads inside them only get in each other's way.
    with threadpool_limits(limits=1):
        for group in groups.values():
            yield from _play_group(environment, group, settings, progress)


def _bind(named: NamedPolicy, observation_space: Any, action_space: Any) -> NamedPolicy:
    bind = getattr(named.policy, "bind", None)
    if bind is None:
        return named
    try:
        return NamedPolicy(bind(observation_space, action_space), named.info)
    except PivecError as error:
        raise type(error)(f"{named.info.label}: {error}") from error


def _layout(environment: Environment, settings: PlaySettings, policies: int) -> tuple[int, int]:
    """Slots (policies at a time) and width (lanes of each)."""
    vectorised = CartPoleLanes.fits(environment)
    n_envs = settings.n_envs or (4096 if vectorised else 64)
    width = min(settings.episodes, 128 if vectorised else 16, n_envs)
    return max(1, min(policies, n_envs // width)), width


@dataclass
class _Slot:
    """A policy at work: which episodes are still to come in each of its lanes."""

    index: int
    named: NamedPolicy
    seeds: NDArray[np.int64]
    done: list[Episode | None] = field(default_factory=list)
    missing: int = 0


def _play_group(
    environment: Environment,
    group: Sequence[tuple[int, NamedPolicy]],
    settings: PlaySettings,
    progress: Progress | None,
) -> Iterator[PlayedPolicy]:
    slots, width = _layout(environment, settings, len(group))
    lanes = make_lanes(environment, slots * width)
    try:
        yield from _Table(lanes, slots, width, group[0][1].policy, settings, progress).run(group)
    finally:
        lanes.close()


class _Table:
    """Lanes, answers and the record of the chunk being played."""

    def __init__(
        self,
        lanes: Lanes,
        slots: int,
        width: int,
        like: Policy,
        settings: PlaySettings,
        progress: Progress | None,
    ) -> None:
        self.lanes, self.width, self.settings, self.progress = lanes, width, settings, progress
        n = lanes.n
        self.slots: list[_Slot | None] = [None] * slots
        self.episode = np.full(n, -1)  # the number of the episode in each lane, -1 if idle
        self.since = np.zeros(n, dtype=np.intp)  # where in the chunk its rows begin
        self.length = np.zeros(n, dtype=np.int64)
        self.reward = np.zeros(n)
        self.pieces: list[list[NDArray[np.float32]]] = [[] for _ in range(n)]
        self.moves: list[list[NDArray[Any]]] = [[] for _ in range(n)]
        self.flat = spaces.flatten(lanes.observation_space, lanes.observations)
        self.rows = self._features(lanes.observations, self.flat)
        self.chunk = int(np.clip(_CHUNK_BYTES // self.rows.nbytes, 1, _CHUNK))
        self.states = np.zeros((self.chunk, *self.rows.shape), dtype=np.float32)
        self.answers = make_answers(
            like, slots, width, self.chunk, lanes.action_space, settings.deterministic
        )
        self.actions: NDArray[Any] | None = None
        self.steps = 0

    def run(self, group: Sequence[tuple[int, NamedPolicy]]) -> Iterator[PlayedPolicy]:
        """Play all policies of the group."""
        queue = deque(group)
        time = 0
        for slot in range(len(self.slots)):
            self._seat(slot, queue, time)
        active = self._refresh()
        while len(active):
            self.states[time] = self.rows
            actions = self._act(active, time)
            ended, outcome = self._step(active, actions)
            for lane, terminated, truncated in zip(ended, *outcome, strict=True):
                slot = lane // self.width
                self._finish(lane, time, bool(terminated), bool(truncated))
                finished = self._next(lane, time)
                if finished is not None:
                    yield finished
                    self._seat(slot, queue, time + 1)
            if len(ended):
                active = self._refresh()
            time += 1
            if time == self.chunk:
                self._turn_page(active)
                time = 0

    def _act(self, active: NDArray[np.intp], time: int) -> NDArray[Any]:
        try:
            actions = self.answers.actions(self.lanes.observations, self.flat, active, time)
        except PivecError as error:
            raise type(error)(f"{self._who(active, error.lane)}: {error}") from error
        if self.settings.actions:
            if self.actions is None:
                self.actions = np.zeros((self.chunk, *actions.shape), dtype=actions.dtype)
            self.actions[time] = actions
        return actions

    def _step(
        self, active: NDArray[np.intp], actions: NDArray[Any]
    ) -> tuple[list[int], tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        try:
            rewards, terminated, truncated = self.lanes.step(active, actions)
        except EnvironmentFailure as error:
            raise EnvironmentFailure(f"{self._who(active, error.lane)}: {error}") from error
        self.reward[active] += rewards
        self.length[active] += 1
        self.steps += len(active)
        if self.settings.max_steps is not None:
            truncated = truncated | (self.length[active] >= self.settings.max_steps)
        self.flat = spaces.flatten(self.lanes.observation_space, self.lanes.observations)
        self.rows = self._features(self.lanes.observations, self.flat)
        if self.progress is not None:
            self.progress.count(len(active))
        over = np.flatnonzero(terminated | truncated)
        return active[over].tolist(), (terminated[over], truncated[over])

    def _finish(self, lane: int, time: int, terminated: bool, truncated: bool) -> None:
        """Put the rows of the lane's episode together, the terminal observation last."""
        slot = self._slot(lane)
        number = int(self.episode[lane])
        self._gather(lane, time + 1)
        self.pieces[lane].append(self.rows[lane : lane + 1])
        states = np.concatenate(self.pieces[lane])
        if not np.isfinite(states).all():
            step, feature = np.argwhere(~np.isfinite(states))[0]
            raise BadData(
                f"{slot.named.info.label}: the observation after step {step} of episode {number} "
                f"(seed {slot.seeds[number]}) has {states[step, feature]} in feature {feature}, "
                "but states must be finite: check the environment, or mend it with features="
            )
        slot.done[number] = Episode(
            states,
            np.concatenate(self.moves[lane]) if self.settings.actions else None,
            float(self.reward[lane]),
            int(slot.seeds[number]),
            terminated,
            truncated and not terminated,
        )
        slot.missing -= 1
        self.pieces[lane], self.moves[lane] = [], []

    def _next(self, lane: int, time: int) -> PlayedPolicy | None:
        """Start the lane's next episode; return the policy if that was its last one."""
        slot = self._slot(lane)
        # A fixed quota: lane l plays the episodes l, l + width, ... however short they are.
        number = int(self.episode[lane]) + self.width
        if number < self.settings.episodes:
            self._start(lane, number, time + 1)
            return None
        self.episode[lane] = -1
        if slot.missing:
            return None
        return PlayedPolicy(slot.index, slot.named, [e for e in slot.done if e is not None])

    def _seat(self, slot: int, queue: deque[tuple[int, NamedPolicy]], time: int) -> None:
        """Give the slot to the next policy in the queue, if there is one."""
        self.slots[slot] = None
        if not queue:
            return
        index, named = queue.popleft()
        episodes = self.settings.episodes
        seeds = episode_seeds(self.settings.seed, named.info.label, episodes)
        self.slots[slot] = _Slot(index, named, seeds, [None] * episodes, episodes)
        self.answers.put(slot, named.policy)
        for number in range(min(self.width, episodes)):
            self._start(slot * self.width + number, number, time)

    def _start(self, lane: int, number: int, time: int) -> None:
        slot = self._slot(lane)
        seed = int(slot.seeds[number])
        try:
            self.lanes.reset(lane, seed)
        except EnvironmentFailure as error:
            raise EnvironmentFailure(f"{slot.named.info.label}: {error}") from error
        one = spaces.pick(self.lanes.observations, slice(lane, lane + 1))
        self.flat[lane] = spaces.flatten(self.lanes.observation_space, one)[0]
        if self.settings.features is not None:
            self.rows[lane] = self._features(one, self.flat[lane : lane + 1])[0]
        self.episode[lane], self.since[lane] = number, time
        self.length[lane], self.reward[lane] = 0, 0.0
        # At the end of the page the stream begins on the next one.
        self.answers.begin(lane, seed, time % self.chunk)

    def _turn_page(self, active: NDArray[np.intp]) -> None:
        """Hand the recorded rows to the episodes that go on, and start the record anew."""
        going_on = active[self.since[active] < self.chunk]
        for lane in going_on.tolist():
            self._gather(lane, self.chunk)
        self.since[:] = 0
        self.answers.renew(going_on)

    def _gather(self, lane: int, until: int) -> None:
        mine = slice(self.since[lane], until)
        self.pieces[lane].append(self.states[mine, lane].copy())
        if self.actions is not None:
            self.moves[lane].append(self.actions[mine, lane].copy())

    def _features(self, observations: Any, flat: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.settings.features is None:
            return flat
        rows = np.asarray(self.settings.features(observations), dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(flat):
            raise BadData(
                f"features= must turn a batch of {len(flat)} observations into an array of shape "
                f"({len(flat)}, n), but gave shape {rows.shape}"
            )
        return rows

    def _refresh(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.episode >= 0)

    def _slot(self, lane: int) -> _Slot:
        slot = self.slots[lane // self.width]
        if slot is None:
            raise RuntimeError(f"lane {lane} has no policy")
        return slot

    def _who(self, active: NDArray[np.intp], lane: int | None = None) -> str:
        first = self._slot(int(active[0]) if lane is None else lane)
        if lane is None:
            return first.named.info.label
        number = int(self.episode[lane])
        return f"{first.named.info.label}, episode {number} (seed {first.seeds[number]})"
