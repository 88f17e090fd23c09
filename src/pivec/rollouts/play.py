"""The rollout loop: every policy plays exactly its episodes, many policies in lock-step.

An episode follows from (seed, policy, number) alone, so the distribution of policies over workers
does not change the result.
"""

from __future__ import annotations

import traceback
import warnings
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import (
    BadData,
    EnvironmentFailure,
    MissingExtra,
    PivecError,
    PivecWarning,
    UsageError,
)
from pivec.options import CollectOptions
from pivec.parallel import Tell, WorkFailed, current, single_threaded_blas, usable_cores
from pivec.policies import NamedPolicy, Policy
from pivec.rollouts import observations as spaces
from pivec.rollouts.actors import group_key, make_actors
from pivec.rollouts.environment import Environment, close, retried
from pivec.rollouts.episodes import (
    Episode,
    PlayedPolicy,
    PolicyEpisodes,
    Quota,
    StepBuffer,
    episode_seeds,
    row_times,
)
from pivec.rollouts.features import feature_rows
from pivec.rollouts.lanes import Lanes, Layout, choose_array_lanes, layout, make_lanes
from pivec.terminal import Progress

# A policy to play, with its index among those that were given.
Player = tuple[int, NamedPolicy, Quota]

PATIENCE = 60.0  # seconds without the end of an episode until a warning
LONG, ENDLESS = 10**5, 10**7  # steps of an episode until a warning, and until an error
_AT_RANDOM = 10  # factor on the retries of an episode that fails at different steps
_HOPELESS = 10  # give up if this many policies fail before any is finished


@dataclass(frozen=True)
class FailedEpisode:
    """An episode whose environment raised; ``final`` if its policy was given up."""

    index: int  # of the policy
    number: int
    error: PivecError
    final: bool


class _Slot:
    """A policy that is playing: its seeds, and the episodes it has played."""

    def __init__(self, player: Player, settings: CollectOptions, width: int) -> None:
        self.index, self.named, self.quota = player
        n, given = max(self.quota.end, width), self.quota.seeds
        if given is None:
            identity = "" if settings.same_seeds else self.named.info.identity
            given = episode_seeds(settings.seed, identity, n)
        self.streams = self.seeds = np.resize(given, n)
        if settings.backend == "envpool":  # whose environments play several episodes each
            self.seeds = self.seeds[np.arange(n) % width]
        self.episodes = PolicyEpisodes(settings.max_states_per_policy, self.quota)


class Rollout:
    """Lanes, the policies that act in them, and the record of their states."""

    def __init__(
        self,
        lanes: Lanes,
        shape: Layout,
        like: Policy,
        settings: CollectOptions,
        count: Callable[[int], None] | None = None,
        report: Callable[[FailedEpisode], None] | None = None,
    ) -> None:
        self.lanes, self.width, self.settings = lanes, shape.width, settings
        lanes.failed = {}
        self.count, self.report = count, report  # with steps taken and failures; see `play_here`
        # Steps at which the episode in each lane failed before.
        self.failures: list[list[int]] = [[] for _ in range(lanes.n)]
        self.vacant = list(range(shape.slots))  # slots for the next policies
        self.slots: list[_Slot | None] = [None] * shape.slots
        self.episode = np.full(lanes.n, -1)  # the number of the episode in each lane, -1 if idle
        # Flat rows are needed as states or by networks; with features= of images by neither.
        self.features = settings.view
        self.late = list(getattr(self.features, "late_columns", ()))
        self.flatten = self.features is None
        self.buffer = StepBuffer(self._rows()[1])
        self.actors = make_actors(like, shape, self.buffer.steps, lanes, settings.deterministic)
        self.flatten |= self.actors.needs_flat
        self.flat, self.rows = self._rows()
        self.waiting_since: float | None = None  # None once an episode ended
        self.warned = False  # of long episodes

    def run(self, group: Sequence[Player]) -> Iterator[PlayedPolicy]:
        """Play all policies of the group."""
        queue = deque(group)
        self.waiting_since = perf_counter()
        self._fill(queue)
        active = np.flatnonzero(self.episode >= 0)
        while len(active):
            self.buffer.write(self.rows[None])  # before policies get them, and may change them
            actions = self._act(active)
            if self.settings.actions:
                self.buffer.write_actions(actions[None])
            ended, outcome = self._step(active, actions)
            for lane, terminated, truncated in zip(ended, *outcome, strict=True):
                if self.episode[lane] < 0:  # its policy has been given up
                    continue
                self._finish(lane, bool(terminated), bool(truncated and not terminated))
                finished = self._next(lane)
                if finished is not None:
                    yield finished
                    self.vacant.append(lane // self.width)
            if len(ended) or self.vacant:
                self._fill(queue)
                active = np.flatnonzero(self.episode >= 0)
                self.waiting_since = None
            if self.buffer.time == self.buffer.steps:
                self._clear_buffer(active)

    def _act(self, active: NDArray[np.intp]) -> NDArray[Any]:
        shown = self.flat if self.actors.needs_flat else self.lanes.observations
        try:
            actions = self.actors.actions(shown, active, self.buffer.time - 1)
            acting = actions if len(active) == len(actions) else actions[active]
            spaces.check_elements(self.lanes.action_space, acting, "the action", active)
        except PivecError as error:
            raise self._located(error, error.lane) from error
        return actions

    def _step(
        self, active: NDArray[np.intp], actions: NDArray[Any]
    ) -> tuple[list[int], tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        try:
            rewards, terminated, truncated = self.lanes.step(active, actions)
            if not np.isfinite(rewards).all():
                first = int(np.flatnonzero(~np.isfinite(rewards))[0])
                wrong = BadData(
                    f"{self.lanes.name} returned the reward {rewards[first]}, but rewards must be "
                    "finite: check the environment"
                )
                wrong.lane = int(active[first])
                raise wrong
        except PivecError as error:
            raise self._located(error, error.lane) from error
        if self.lanes.failed:
            stepped = ~np.isin(active, list(self.lanes.failed))
            active, rewards = active[stepped], rewards[stepped]
            terminated, truncated = terminated[stepped], truncated[stepped]
            self._restart_failed()
        try:
            if len(active):  # or there may be no environment to show
                self.flat, self.rows = self._rows()
        except PivecError as error:
            raise self._located(error, error.lane) from error
        if self.late:
            self.buffer.amend(active[self.buffer.lengths[active] == 0], self.late, self.rows)
        self.buffer.totals[active] += rewards
        self.buffer.lengths[active] += 1
        if self.settings.max_steps is not None:
            truncated = truncated | (self.buffer.lengths[active] >= self.settings.max_steps)
        if self.count is not None:
            self.count(len(active))
        over = np.flatnonzero(terminated | truncated)
        return active[over].tolist(), (terminated[over], truncated[over])

    def _finish(self, lane: int, terminated: bool, truncated: bool) -> None:
        """Store the lane's episode, the terminal observation last."""
        slot, number = self._slot(lane), int(self.episode[lane])
        every = slot.episodes.every
        episode = self.buffer.finish(lane, self.rows[lane], terminated, truncated, every)
        states = episode.states
        if not np.isfinite(states).all():
            row, feature = np.argwhere(~np.isfinite(states))[0]
            step = row_times(row, len(states), episode.n_steps, every)
            raise BadData(
                f"{slot.named.info.label}: the observation after step {step} of episode {number} "
                f"(seed {episode.seed}) has {states[row, feature]} in feature {feature}, but "
                "states must be finite: check the environment, or replace the value with features="
            )
        episode.outcomes = self._outcomes(lane, episode)
        slot.episodes.put(number, episode)
        self.failures[lane].clear()
        self._thin(lane)

    def _outcomes(self, lane: int, episode: Episode) -> dict[str, float | str]:
        """Find out what an episode resulted in: success if its last info has it, and the user's."""
        info = self.lanes.final_info(lane)
        known = {"success": info["is_success"]} if "is_success" in info else {}
        for name, function in (self.settings.outcomes or {}).items():
            try:
                known[name] = function(episode.states, episode.actions, episode.total_reward, info)
            except Exception as error:
                wrong: PivecError = UsageError(
                    f"the outcome {name!r} raised {type(error).__name__}: {error}"
                )
                raise self._located(wrong, lane) from error
        result: dict[str, float | str] = {}
        for name, value in known.items():
            if isinstance(value, str):
                result[name] = value
            elif value is not None:
                number = np.asarray(value)
                if number.size != 1 or number.dtype.kind not in "biuf":
                    wrong = BadData(f"the outcome {name!r} must be a number, but is {value!r:.80}")
                    raise self._located(wrong, lane)
                result[name] = float(number.item())
        return result

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

    def _fill(self, queue: deque[Player]) -> None:
        """Give vacant slots to the next policies in the queue."""
        while self.vacant:  # again if a policy is given up at once
            slots, self.vacant = self.vacant, []
            self._assign(slots, queue)

    def _assign(self, slots: Sequence[int], queue: deque[Player]) -> None:
        taken: dict[int, _Slot] = {}
        for slot in slots:
            self.slots[slot] = None
            self.lanes.release(slot)
            if not queue:
                self.actors.release(slot)
                continue
            taken[slot] = policy = _Slot(queue.popleft(), self.settings, self.width)
            self.slots[slot] = policy
            self.actors.put(slot, policy.named.policy)
        if not taken:
            return
        seeds = np.stack([policy.seeds[: self.width] for policy in taken.values()])
        self.lanes.begin(list(taken), seeds)
        for slot, policy in taken.items():
            mine = range(slot * self.width, (slot + 1) * self.width)
            self.lanes.set_policy(mine, policy.named.policy, self.settings.deterministic)
            numbers = range(policy.quota.first, policy.quota.end)[: self.width]
            for lane, number in enumerate(numbers, slot * self.width):
                if self.slots[slot] is not None:  # it has not been given up
                    self._start(lane, number)

    def _start(self, lane: int, number: int) -> None:
        """Start an episode; after a failure, start it again in a fresh environment."""
        slot = self._slot(lane)
        seed = int(slot.seeds[number])
        self.buffer.begin(lane, seed)
        self.episode[lane] = number
        while True:
            try:
                self.lanes.reset(lane, seed)
                flat, rows = self._rows(slice(lane, lane + 1))
                break
            except EnvironmentFailure as error:
                if not self._may_retry(lane, error):
                    return
            except PivecError as error:
                raise self._located(error, lane) from error
        if self.flatten:
            self.flat[lane] = flat[0]
        if self.features is not None:
            self.rows[lane] = rows[0]
        # If the buffer is full, the first action belongs to the next chunk.
        self.actors.begin(lane, int(slot.streams[number]), self.buffer.time % self.buffer.steps)

    def _restart_failed(self) -> None:
        """Start the episodes of failed lanes again; with the same seed they are the same."""
        failed, self.lanes.failed = self.lanes.failed or {}, {}
        for lane, error in failed.items():
            if self.episode[lane] >= 0 and self._may_retry(lane, error):
                self._start(lane, int(self.episode[lane]))

    def _may_retry(self, lane: int, error: EnvironmentFailure) -> bool:
        """Report a failure of the environment in a lane; without retries left, give up its policy.

        The same episode fails at the same step again if the reason is not chance. A policy is given
        up as a whole, since it is stored as a whole.
        """
        steps, retries = self.failures[lane], self.settings.retries
        steps.append(int(self.buffer.lengths[lane]))
        final = steps.count(steps[-1]) > retries or len(steps) > _AT_RANDOM * retries
        located = self._located(error, lane)
        if final:
            if retries:
                located = EnvironmentFailure(f"{located}; all {len(steps)} attempts failed")
            # A note, unlike the exception itself, can be sent by a worker.
            located.add_note("".join(traceback.format_exception(error.__cause__ or error)))
        if self.report is not None:
            index, number = self._slot(lane).index, int(self.episode[lane])
            self.report(FailedEpisode(index, number, located, final))
        elif final:
            raise located from error
        if final:
            slot = lane // self.width
            for own in range(slot * self.width, (slot + 1) * self.width):
                self.buffer.begin(own, -1)  # which forgets its episode
                self.failures[own].clear()
                self.episode[own] = -1
            self.slots[slot] = None
            self.vacant.append(slot)
        return not final

    def _check_lengths(self, active: NDArray[np.intp]) -> None:
        """Warn of episodes that seem to have no end; raise an error before memory runs out."""
        lane = int(active[self.buffer.lengths[active].argmax()])
        steps = int(self.buffer.lengths[lane])
        waited = 0.0 if self.waiting_since is None else perf_counter() - self.waiting_since
        advice = (
            f"{self.lanes.name} has not ended this episode: if it never does, truncate episodes "
            "with --max-steps (in Python max_steps=)"
        )
        if steps >= ENDLESS:
            raise self._located(BadData(advice), lane)
        if not self.warned and (steps >= LONG or waited > PATIENCE):
            self.warned = True
            warnings.warn(str(self._located(BadData(advice), lane)), PivecWarning, stacklevel=3)

    def _clear_buffer(self, active: NDArray[np.intp]) -> None:
        """Move the rows of running episodes out of the buffer; begin a chunk of random numbers."""
        if self.settings.max_steps is None and len(active):
            self._check_lengths(active)
        running = self.buffer.clear(active, lambda lane: self._slot(lane).episodes.every)
        self.actors.renew(running)
        if self.settings.max_states_per_policy is not None:
            for slot in np.unique(running // self.width).tolist():
                self._thin(slot * self.width)

    def _thin(self, lane: int) -> None:
        """Thin the policy of a lane if it has more states than it may keep."""
        first = lane - lane % self.width
        self._slot(lane).episodes.thin(self.buffer.earlier[first : first + self.width])

    def _rows(self, lanes: slice = slice(None)) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Flat observations (where they are needed), and states."""
        inputs = self.lanes.inputs(lanes)
        flat = (
            spaces.flatten(self.lanes.observation_space, inputs[0])
            if self.flatten
            else np.zeros((0, 0), np.float32)
        )
        return flat, flat if self.features is None else feature_rows(self.features, *inputs)

    def _slot(self, lane: int) -> _Slot:
        slot = self.slots[lane // self.width]
        if slot is None:
            raise RuntimeError(f"lane {lane} has no policy")
        return slot

    def _located(self, error: PivecError, lane: int | None) -> PivecError:
        """Add the policy, episode and step to an error."""
        if isinstance(error, MissingExtra):
            return error
        if lane is None:  # it concerns all of them
            who = next((slot.named.info.label for slot in self.slots if slot is not None), "")
        else:
            label, buffer = self._slot(lane).named.info.label, self.buffer
            episode = f"episode {self.episode[lane]} (seed {buffer.seeds[lane]})"
            who = f"{label}, {episode}, step {buffer.lengths[lane]}"
        return type(error)(f"{who}: {error}")


def play_policies(
    environment: Environment,
    policies: Sequence[NamedPolicy],
    options: CollectOptions,
    keep: Callable[[int, Any], None],
    progress: Progress | None = None,
    quotas: Sequence[Quota] | None = None,
    pack: Callable[[PlayedPolicy], Any] | None = None,
) -> None:
    """Play ``options.episodes`` episodes of every policy with the current engine.

    ``keep`` gets the index in ``policies`` and the `PlayedPolicy` when it is done, or what ``pack``
    made of it in the worker. An episode depends only on (seed, what the policy is, number of the
    episode) and the backend. With ``quotas`` each policy plays other episodes, see `Quota`.
    Policies that kill their worker, or whose environment raises in all attempts, are reported after
    all others have played; errors of any other kind at once.
    """
    bound = bind(environment, policies) if policies else []
    quotas = quotas or [Quota(options.episodes)] * len(bound)
    engine, done, failed = current(), set[int](), dict[int, PivecError]()
    repeated: dict[tuple[int, int], PivecError] = {}  # first failures, by policy and episode
    if engine.n_workers > 1 and options.threads is None:
        options = replace(options, threads=max(1, usable_cores() // engine.n_workers))

    def share(numbers: Sequence[int]) -> _Share:
        mine, theirs = [bound[i] for i in numbers], [quotas[i] for i in numbers]
        return _Share(environment, options, pack, numbers, mine, theirs)

    def fail(number: int, error: PivecError) -> None:
        if not failed and len(done) + 1 < len(bound):  # report it now: the others may take hours
            warnings.warn(f"{error}; other policies continue", PivecWarning, stacklevel=2)
        failed.setdefault(number, error)
        if len(failed) >= _HOPELESS and not done:
            raise error

    def take(_: _Share, message: Any) -> None:
        if isinstance(message, int):
            if progress is not None:
                progress.count(message)
        elif isinstance(message, FailedEpisode):
            if message.final:
                fail(message.index, message.error)
            else:
                repeated.setdefault((message.index, message.number), message.error)
        elif message[0] not in done:  # a second attempt plays it again
            number, content = message
            done.add(number)
            if pack is None:
                content = PlayedPolicy(number, bound[number], *content)
            keep(number, content)

    for reply in engine.map(
        _play_share,
        map(share, _shares(len(bound), _filling(environment, options, len(bound)))),
        on_message=take,
        split=lambda item: [share([i]) for i in item.numbers if i not in done | failed.keys()],
        name=lambda item: ", ".join(named.info.label for named in item.policies),
        quiet=False,
    ):
        failure = reply.failure
        if isinstance(failure, EnvironmentFailure) or (
            isinstance(failure, WorkFailed) and failure.died
        ):
            for number in set(reply.item.numbers) - done:
                fail(number, failure)
        elif failure is not None:
            raise failure
    if overcome := [error for (number, _), error in repeated.items() if number not in failed]:
        total = sum(quota.end - quota.first for quota in quotas)
        warnings.warn(
            f"{len(overcome)} of {total} episodes failed and were repeated in a fresh environment, "
            f"such as {overcome[0]}",
            PivecWarning,
            stacklevel=2,
        )
    if failed:
        error = failed[min(failed)]
        if len(failed) == 1:
            raise error
        raise type(error)(f"{error}; {len(failed)} policies failed") from error


def _filling(environment: Environment, options: CollectOptions, n: int) -> int:
    """Number of policies that fill the lanes; one if every lane is stepped by itself."""
    if options.backend != "envpool" and choose_array_lanes(environment) is None:
        return 1
    return layout(environment, options, n, options.episodes).slots


def _shares(n: int, filling: int) -> Iterator[Sequence[int]]:
    """Divide policies among workers: large shares first, small ones last, so that none waits long.

    A share has at least ``filling`` policies if possible. Consecutive policies, such as checkpoints
    of one run, take equally long: they are spread over the shares.
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
    count: Callable[[int], None] | None = None,
    quotas: Sequence[Quota] | None = None,
    report: Callable[[FailedEpisode], None] | None = None,
) -> Iterator[PlayedPolicy]:
    """Play policies that are bound to the spaces (see `bind`) in this process.

    ``count`` is called with the numbers of steps taken, and ``report`` with episodes that failed.
    Without it, a policy that must be given up is an error; with it, the others are played.
    """
    quotas = quotas or [Quota(options.episodes)] * len(policies)
    groups: dict[Hashable, list[Player]] = {}
    for index, (named, quota) in enumerate(zip(policies, quotas, strict=True)):
        groups.setdefault(group_key(named.policy), []).append((index, named, quota))
    with single_threaded_blas():
        for group in groups.values():
            most = max(quota.end - quota.first for _, _, quota in group)
            shape = layout(environment, options, len(group), most)
            lanes = make_lanes(environment, options.backend, shape, options.threads)
            try:
                like = group[0][1].policy
                yield from Rollout(lanes, shape, like, options, count, report).run(group)
            finally:
                lanes.close()


def bind(environment: Environment, policies: Sequence[NamedPolicy]) -> list[NamedPolicy]:
    """Bind policies to the spaces of the environment, if they have ``bind``."""
    env = retried(environment, environment.make)
    close(env, environment.name)
    bound = []
    for named in policies:
        policy = named.policy
        if hasattr(policy, "bind"):
            try:
                policy = policy.bind(env.observation_space, env.action_space)
            except PivecError as error:
                raise type(error)(f"{named.info.label}: {error}") from error
        bound.append(NamedPolicy(policy, named.info))
    return bound


@dataclass(frozen=True)
class _Share:
    """Policies that play together."""

    environment: Environment
    options: CollectOptions
    pack: Callable[[PlayedPolicy], Any] | None
    numbers: Sequence[int]  # indices of the policies among all
    policies: Sequence[NamedPolicy]
    quotas: Sequence[Quota]


def _play_share(share: _Share, tell: Tell) -> None:
    """Play some policies; report each of them, and from time to time the steps that are taken."""
    unreported = 0

    def count(steps: int) -> None:
        nonlocal unreported
        unreported += steps
        if tell(unreported, seldom=True):
            unreported = 0

    def report(failed: FailedEpisode) -> None:
        tell(replace(failed, index=share.numbers[failed.index]))

    where, options = share.environment, share.options
    for played in play_here(where, share.policies, options, count, share.quotas, report):
        content = (played.episodes, played.every) if share.pack is None else share.pack(played)
        tell((share.numbers[played.index], content))
    tell(unreported)
