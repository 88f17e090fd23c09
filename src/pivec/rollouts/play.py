"""Playing: every policy plays exactly its episodes, many policies in lock-step.

An episode follows from (seed, policy, number) alone, so how policies are dealt out to workers does
not change the result.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, MissingExtra, PivecError, PivecWarning
from pivec.options import CollectOptions
from pivec.parallel import Tell, WorkFailed, current, usable_cores
from pivec.policies import NamedPolicy, Policy
from pivec.rollouts import observations as spaces
from pivec.rollouts.answers import group_key, make_answers
from pivec.rollouts.array_lanes import array_lanes
from pivec.rollouts.backends import Layout, layout, make_lanes
from pivec.rollouts.environment import Environment, close
from pivec.rollouts.episodes import Pages, PlayedPolicy, PolicyEpisodes, Quota
from pivec.rollouts.features import feature_rows
from pivec.rollouts.lanes import Lanes
from pivec.rollouts.seeds import episode_seeds
from pivec.terminal import Progress

# -----------------------------------------------------------------------------
# The loop at the table: lanes, the answers of the policies, the record of what they visit.


# A policy to play, with its place among those that were given.
Player = tuple[int, NamedPolicy, Quota]

PATIENCE = 60.0  # seconds until a user is told that no episode ends


class _Slot:
    """A policy at work: its seeds, the episodes it has played, and how they are thinned."""

    def __init__(self, player: Player, settings: CollectOptions, width: int) -> None:
        self.index, self.named, self.quota = player
        seed, identity = settings.seed, self.named.info.identity
        n = max(self.quota.end, width)
        given = self.quota.seeds
        seeds = episode_seeds(seed, identity, n) if given is None else np.resize(given, n)
        self.streams = self.seeds = seeds
        if settings.backend == "envpool":  # whose environments play several episodes each
            self.seeds = self.seeds[np.arange(len(self.seeds)) % width]
        self.episodes = PolicyEpisodes(settings.max_states_per_policy, self.quota)


class Table:
    """Lanes, answers and the record of what is being played."""

    def __init__(
        self,
        lanes: Lanes,
        shape: Layout,
        like: Policy,
        settings: CollectOptions,
        progress: Progress | None = None,
    ) -> None:
        self.lanes, self.width, self.settings = lanes, shape.width, settings
        self.progress = progress
        self.slots: list[_Slot | None] = [None] * shape.slots
        self.episode = np.full(lanes.n, -1)  # the number of the episode in each lane, -1 if idle
        # Flat rows are wanted as states, or by networks; of images with features= neither may be.
        self.features = settings.view
        self.late = list(getattr(self.features, "late_columns", ()))
        self.flatten = self.features is None
        self.pages = Pages(self._see()[1])
        self.answers = make_answers(like, shape, self.pages.steps, lanes, settings.deterministic)
        self.flatten |= self.answers.needs_flat
        self.flat, self.rows = self._see()
        self.patient_since: float | None = None  # None once the user was told of endless episodes

    def run(self, group: Sequence[Player]) -> Iterator[PlayedPolicy]:
        """Play all policies of the group."""
        queue = deque(group)
        self.patient_since = perf_counter()
        self._seat(range(len(self.slots)), queue)
        active = np.flatnonzero(self.episode >= 0)
        while len(active):
            self.pages.write(self.rows[None])  # before policies see them, and may change them
            actions = self._act(active)
            if self.settings.actions:
                self.pages.write_actions(actions[None])
            ended, outcome = self._step(active, actions)
            free = []
            for lane, terminated, truncated in zip(ended, *outcome, strict=True):
                self._finish(lane, bool(terminated), bool(truncated and not terminated))
                finished = self._next(lane)
                if finished is not None:
                    yield finished
                    free.append(lane // self.width)
            self._seat(free, queue)
            if len(ended):
                active = np.flatnonzero(self.episode >= 0)
                self.patient_since = None  # they do end
            if self.pages.time == self.pages.steps:
                self._turn_page(active)

    def _act(self, active: NDArray[np.intp]) -> NDArray[Any]:
        shown = self.flat if self.answers.needs_flat else self.lanes.observations
        try:
            actions = self.answers.actions(shown, active, self.pages.time - 1)
            acting = actions if len(active) == len(actions) else actions[active]
            spaces.check_elements(self.lanes.action_space, acting, "the action", active)
        except PivecError as error:
            raise self._named(error, error.lane) from error
        return actions

    def _step(
        self, active: NDArray[np.intp], actions: NDArray[Any]
    ) -> tuple[list[int], tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        try:
            rewards, terminated, truncated = self.lanes.step(active, actions)
            if np.isnan(rewards).any():
                unknown = BadData("the reward is no number: check the environment")
                unknown.lane = int(active[np.isnan(rewards)][0])
                raise unknown
            self.flat, self.rows = self._see()
        except PivecError as error:
            raise self._named(error, error.lane) from error
        if self.late:
            self.pages.amend(active[self.pages.lengths[active] == 0], self.late, self.rows)
        self.pages.totals[active] += rewards
        self.pages.lengths[active] += 1
        if self.settings.max_steps is not None:
            truncated = truncated | (self.pages.lengths[active] >= self.settings.max_steps)
        if self.progress is not None:
            self.progress.count(len(active))
        over = np.flatnonzero(terminated | truncated)
        return active[over].tolist(), (terminated[over], truncated[over])

    def _finish(self, lane: int, terminated: bool, truncated: bool) -> None:
        """Put the rows of the lane's episode together, the terminal observation last."""
        slot, number = self._slot(lane), int(self.episode[lane])
        every = slot.episodes.every
        episode = self.pages.finish(lane, self.rows[lane], terminated, truncated, every)
        states = episode.states
        if not np.isfinite(states).all():
            row, feature = np.argwhere(~np.isfinite(states))[0]
            step = int(self.pages.lengths[lane]) if row == len(states) - 1 else row * every
            raise BadData(
                f"{slot.named.info.label}: the observation after step {step} of episode {number} "
                f"(seed {episode.seed}) has {states[row, feature]} in feature {feature}, "
                "but states must be finite: check the environment, or mend it with features="
            )
        slot.episodes.put(number, episode)
        self._thin(lane // self.width)

    def _next(self, lane: int) -> PlayedPolicy | None:
        """Start the lane's next episode; return the policy if that was its last one."""
        slot = self._slot(lane)
        # A fixed quota: lane l plays the episodes l, l + width, ... however short they are.
        number = int(self.episode[lane]) + self.width
        if number < slot.quota.end:
            self._start(lane, number)
            return None
        self.episode[lane] = -1
        if slot.quota.first + len(slot.episodes) < slot.quota.end:
            return None
        return PlayedPolicy(slot.index, slot.named, slot.episodes.all(), slot.episodes.every)

    def _seat(self, slots: Sequence[int], queue: deque[Player]) -> None:
        """Give free slots to the next policies in the queue, as long as there are some."""
        taken: dict[int, _Slot] = {}
        for slot in slots:
            self.slots[slot] = None
            self.lanes.vacate(slot)
            if not queue:
                self.answers.vacate(slot)
                continue
            taken[slot] = policy = _Slot(queue.popleft(), self.settings, self.width)
            self.slots[slot] = policy
            self.answers.put(slot, policy.named.policy)
        if not taken:
            return
        seeds = np.stack([policy.seeds[: self.width] for policy in taken.values()])
        self.lanes.take(list(taken), seeds)
        for slot, policy in taken.items():
            mine = range(slot * self.width, (slot + 1) * self.width)
            self.lanes.seat(mine, policy.named.policy, self.settings.deterministic)
            numbers = range(policy.quota.first, policy.quota.end)[: self.width]
            for lane, number in enumerate(numbers, slot * self.width):
                self._start(lane, number)

    def _start(self, lane: int, number: int) -> None:
        slot = self._slot(lane)
        seed = int(slot.seeds[number])
        self.pages.begin(lane, seed)
        self.episode[lane] = number
        try:
            self.lanes.reset(lane, seed)
            flat, rows = self._see(slice(lane, lane + 1))
        except PivecError as error:
            raise self._named(error, lane) from error
        if self.flatten:
            self.flat[lane] = flat[0]
        if self.features is not None:
            self.rows[lane] = rows[0]
        # At the end of the page the stream begins on the next one.
        self.answers.begin(lane, int(slot.streams[number]), self.pages.time % self.pages.steps)

    def _turn_page(self, active: NDArray[np.intp]) -> None:
        """Put the rows of the episodes that go on aside, and begin a page."""
        self._hint()
        going_on = self.pages.turn(active, lambda lane: self._slot(lane).episodes.every)
        self.answers.renew(going_on)
        if self.settings.max_states_per_policy is not None:
            for slot in np.unique(going_on // self.width).tolist():
                self._thin(slot)

    def _hint(self) -> None:
        """Say once if nothing ends: an environment without a limit may go on for ever."""
        if self.patient_since is None or self.settings.max_steps is not None:
            return
        waited = perf_counter() - self.patient_since
        if waited > PATIENCE:
            self.patient_since = None
            warnings.warn(
                f"no episode has ended in {waited:.0f} s and {self.pages.lengths.max()} steps: "
                "if the environment never ends one, cut them with --max-steps (from Python "
                "max_steps=)",
                PivecWarning,
                stacklevel=2,
            )

    def _thin(self, slot: int) -> None:
        """Thin a policy that has more states than it may keep."""
        policy = self.slots[slot]
        if policy is not None:
            policy.episodes.thin(self.pages.aside[slot * self.width : (slot + 1) * self.width])

    def _see(self, lanes: slice = slice(None)) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Flat rows (where they are wanted), and the rows to keep."""
        seen = self.lanes.seen(lanes)
        flat = (
            spaces.flatten(self.lanes.observation_space, seen[0])
            if self.flatten
            else np.zeros((0, 0), np.float32)
        )
        if self.features is None:
            return flat, flat
        return flat, feature_rows(self.features, *seen)

    def _slot(self, lane: int) -> _Slot:
        slot = self.slots[lane // self.width]
        if slot is None:
            raise RuntimeError(f"lane {lane} has no policy")
        return slot

    def _named(self, error: PivecError, lane: int | None) -> PivecError:
        """Say whose error it is, and in which step of which episode."""
        if isinstance(error, MissingExtra):
            return error
        if lane is None:  # it may be anyone's
            who = next((slot.named.info.label for slot in self.slots if slot is not None), "")
        else:
            label, pages = self._slot(lane).named.info.label, self.pages
            episode = f"episode {self.episode[lane]} (seed {pages.seeds[lane]})"
            who = f"{label}, {episode}, step {pages.lengths[lane]}"
        return type(error)(f"{who}: {error}")


def play(
    environment: Environment,
    policies: Sequence[NamedPolicy],
    options: CollectOptions,
    keep: Callable[[int, Any], None],
    progress: Progress | None = None,
    quotas: Sequence[Quota] | None = None,
    pack: Callable[[PlayedPolicy], Any] | None = None,
) -> None:
    """Play ``options.episodes`` episodes of every policy; ``keep`` gets it when it is done.

    It gets the place in ``policies`` and the `PlayedPolicy`, or what ``pack`` made of that where
    it was played. An episode depends only on (seed, what the policy is, number of the episode) and
    the backend. With ``quotas`` each policy plays other episodes, see `Quota`. Those that end the
    process they play in are named after all others have played.
    """
    bound = bind(environment, policies) if policies else []
    quotas = quotas or [Quota(options.episodes)] * len(bound)
    engine, done, failures = current(), set[int](), list[WorkFailed]()
    if engine.n_workers > 1 and options.threads is None:
        options = replace(options, threads=max(1, usable_cores() // engine.n_workers))
    world = environment, options, pack

    def share(numbers: Sequence[int]) -> _Share:
        return _Share(*world, numbers, [bound[i] for i in numbers], [quotas[i] for i in numbers])

    def take(_: _Share, message: Any) -> None:
        if isinstance(message, int):
            if progress is not None:
                progress.count(message)
        elif message[0] not in done:  # which a second try plays again
            number, content = message
            done.add(number)
            if pack is None:
                content = PlayedPolicy(number, bound[number], *content)
            keep(number, content)

    for reply in engine.map(
        _play_share,
        map(share, _pieces(len(bound), _filling(environment, options, len(bound)))),
        on_message=take,
        split=lambda item: [share([i]) for i in item.numbers if i not in done],
        name=lambda item: ", ".join(named.info.label for named in item.policies),
        parts=_Share.parts,
        remedy=", or use one job",
        quiet=False,
    ):
        if isinstance(reply.failure, WorkFailed) and reply.failure.died:
            failures.append(reply.failure)
        elif reply.failure is not None:
            raise reply.failure
    if failures:
        raise failures[0]


def _filling(environment: Environment, options: CollectOptions, n: int) -> int:
    """Say how many policies fill the lanes; one, where every lane is stepped by itself."""
    if options.backend != "envpool" and array_lanes(environment) is None:
        return 1
    return layout(environment, options, n, options.episodes).slots


def _pieces(n: int, filling: int) -> Iterator[Sequence[int]]:
    """Deal policies out: large pieces first, small ones in the end, so that nobody waits long.

    A piece has ``filling`` policies if it can. Policies that lie together, as checkpoints of a run
    do, play equally long: they are spread over the pieces.
    """
    order = np.random.default_rng(0).permutation(n).tolist()
    if current().n_workers == 1:
        order.sort()
    while order:
        workers = current().n_workers
        least = min(filling, -(-len(order) // workers))
        size = len(order) if workers == 1 else max(least, len(order) // (2 * workers))
        yield order[:size]
        del order[:size]


def play_here(
    environment: Environment,
    policies: Sequence[NamedPolicy],
    options: CollectOptions,
    progress: Progress | None = None,
    quotas: Sequence[Quota] | None = None,
) -> Iterator[PlayedPolicy]:
    """Play in this process policies that know the spaces."""
    from threadpoolctl import threadpool_limits

    quotas = quotas or [Quota(options.episodes)] * len(policies)
    groups: dict[Hashable, list[Player]] = {}
    for index, (named, quota) in enumerate(zip(policies, quotas, strict=True)):
        groups.setdefault(group_key(named.policy), []).append((index, named, quota))
    # The products are small: threads inside them only get in each other's way.
    with threadpool_limits(limits=1):
        for group in groups.values():
            most = max(quota.end - quota.first for _, _, quota in group)
            shape = layout(environment, options, len(group), most)
            lanes = make_lanes(environment, options.backend, shape, options.threads)
            try:
                table = Table(lanes, shape, group[0][1].policy, options, progress)
                yield from table.run(group)
            finally:
                lanes.close()


def bind(environment: Environment, policies: Sequence[NamedPolicy]) -> list[NamedPolicy]:
    """Tell policies the spaces they act in, where they want to know."""
    probe = environment.make()
    close(probe, environment.name)
    return [_bound(named, probe.observation_space, probe.action_space) for named in policies]


def _bound(named: NamedPolicy, observation_space: Any, action_space: Any) -> NamedPolicy:
    tell = getattr(named.policy, "bind", None)
    if tell is None:
        return named
    try:
        return NamedPolicy(tell(observation_space, action_space), named.info)
    except PivecError as error:
        raise type(error)(f"{named.info.label}: {error}") from error


@dataclass(frozen=True)
class _Share:
    """Policies that play together."""

    environment: Environment
    options: CollectOptions
    pack: Callable[[PlayedPolicy], Any] | None
    numbers: Sequence[int]  # of the policies among all
    policies: Sequence[NamedPolicy]
    quotas: Sequence[Quota]

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Name what may be a user's own."""
        yield "the environment", self.environment
        yield "features=", self.options.features
        for named in self.policies:
            yield f"the policy {named.info.label!r}", named


def _play_share(share: _Share, tell: Tell) -> None:
    """Play some policies; tell of each, and of the steps that are taken."""
    steps, where = _Steps(tell), share.environment
    for played in play_here(where, share.policies, share.options, steps, share.quotas):
        content = (played.episodes, played.every) if share.pack is None else share.pack(played)
        tell((share.numbers[played.index], content))
    tell(steps.untold)


class _Steps(Progress):
    """Tells the parent at times of the steps that were taken."""

    def __init__(self, tell: Tell) -> None:
        super().__init__("", 0, show=False)
        self._tell, self.untold = tell, 0

    def count(self, steps: int) -> None:
        """Count steps."""
        self.untold += steps
        if self._tell(self.untold, seldom=True):
            self.untold = 0
