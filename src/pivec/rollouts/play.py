"""Playing: every policy plays exactly its episodes, many policies in lock-step.

An episode follows from (seed, policy, number) alone, so how policies are dealt out to processes
does not change the result.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pivec.engines.engine import Tell
from pivec.engines.old_processes import ProcessFailed, map_processes
from pivec.engines.workers import usable_cores
from pivec.errors import PivecError
from pivec.options import CollectOptions
from pivec.policies.policy import NamedPolicy
from pivec.progress import Progress
from pivec.rollouts.answers import group_key
from pivec.rollouts.backends import layout, make_lanes
from pivec.rollouts.environment import Environment, close
from pivec.rollouts.episodes import PlayedPolicy, Quota
from pivec.rollouts.table import Player, Table


def play(
    environment: Environment,
    policies: Sequence[NamedPolicy],
    options: CollectOptions,
    progress: Progress | None = None,
    quotas: Sequence[Quota] | None = None,
) -> Iterator[PlayedPolicy]:
    """Play ``options.episodes`` episodes of every policy; yield each policy when it is done.

    Policies come in the order in which they finish; `PlayedPolicy.index` is the place in
    ``policies``. An episode depends only on (seed, what the policy is, number of the episode) and
    the backend. With ``quotas`` each policy plays other episodes, see `Quota`.
    """
    if not policies:
        return
    bound = bind(environment, policies)
    quotas = quotas or [Quota(options.episodes)] * len(bound)
    if options.jobs > 1 and len(bound) > 1:
        yield from _play_in_processes(environment, bound, options, progress, quotas)
    else:
        yield from play_here(environment, bound, options, progress, quotas)


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
    """The policies that one process plays."""

    environment: Environment
    policies: Sequence[NamedPolicy]
    options: CollectOptions
    quotas: Sequence[Quota]

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Name what may be a user's own."""
        yield "the environment", self.environment
        yield "features=", self.options.features
        for named in self.policies:
            yield f"the policy {named.info.label!r}", named.policy


def _play_in_processes(
    environment: Environment,
    policies: Sequence[NamedPolicy],
    options: CollectOptions,
    progress: Progress | None,
    quotas: Sequence[Quota],
) -> Iterator[PlayedPolicy]:
    """Play shares of the policies in processes; yield each policy when it is done."""
    jobs = min(options.jobs, len(policies))
    if options.threads is None:
        options = replace(options, threads=max(1, usable_cores() // jobs))
    # Dealt like cards: policies that lie together, as checkpoints of a run do, play equally long.
    shares = [_Share(environment, policies[i::jobs], options, quotas[i::jobs]) for i in range(jobs)]
    for reply in map_processes(
        _play_share, shares, jobs=jobs, parts=_Share.parts, remedy=", or use one job", quiet=False
    ):
        if isinstance(reply.failure, ProcessFailed):
            raise PivecError(f"playing failed: {reply.failure}") from reply.failure
        if reply.failure is not None:
            raise reply.failure
        if isinstance(reply.content, tuple):
            number, episodes, every = reply.content
            index = reply.number + number * jobs
            yield PlayedPolicy(index, policies[index], episodes, every)
        elif progress is not None:
            progress.count(reply.content)


def _play_share(share: _Share, tell: Tell) -> int:
    """Play a share of the policies; tell of each, and of the steps that are taken."""
    steps = _Steps(tell)
    playing = play_here(share.environment, share.policies, share.options, steps, share.quotas)
    for played in playing:
        tell((played.index, played.episodes, played.every))
    return steps.untold


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
