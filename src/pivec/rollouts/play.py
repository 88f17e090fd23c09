"""Playing: every policy plays exactly its episodes, many policies in lock-step.

An episode follows from (seed, policy, number) alone, so how policies are dealt out to workers does
not change the result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pivec.engines.engine import Tell, WorkFailed, current
from pivec.engines.workers import usable_cores
from pivec.errors import PivecError
from pivec.options import CollectOptions
from pivec.policies.policy import NamedPolicy
from pivec.policies.travelling import packed, unpacked
from pivec.progress import Progress
from pivec.rollouts.answers import group_key
from pivec.rollouts.array_lanes import array_lanes
from pivec.rollouts.backends import layout, make_lanes
from pivec.rollouts.environment import Environment, close
from pivec.rollouts.episodes import PlayedPolicy, Quota
from pivec.rollouts.table import Player, Table


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
        mine = [policies[i] for i in numbers], [quotas[i] for i in numbers]
        return _Share(*world, numbers, *mine, [bound[i] for i in numbers])

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
    """Policies that play together; sent elsewhere they travel as what tells where to read them."""

    environment: Environment
    options: CollectOptions
    pack: Callable[[PlayedPolicy], Any] | None
    numbers: Sequence[int]  # of the policies among all
    policies: Sequence[Any]  # named ones, or elsewhere packed ones
    quotas: Sequence[Quota]
    bound: Sequence[NamedPolicy] = ()  # those that know the spaces, in this process

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"policies": [packed(named) for named in self.policies], "bound": ()}

    def players(self) -> Sequence[NamedPolicy]:
        """Give the policies, told the spaces; elsewhere they are read first."""
        return self.bound or bind(self.environment, [unpacked(p) for p in self.policies])

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Name what may be a user's own."""
        yield "the environment", self.environment
        yield "features=", self.options.features
        for named in self.policies:
            yield f"the policy {named.info.label!r}", packed(named)


def _play_share(share: _Share, tell: Tell) -> None:
    """Play some policies; tell of each, and of the steps that are taken."""
    steps, where = _Steps(tell), share.environment
    for played in play_here(where, share.players(), share.options, steps, share.quotas):
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
