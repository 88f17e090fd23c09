"""Playing: every policy plays exactly its episodes, many policies in lock-step."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from pivec.errors import PivecError
from pivec.options import CollectOptions
from pivec.policies.policy import NamedPolicy
from pivec.progress import Progress
from pivec.rollouts.answers import group_key
from pivec.rollouts.backends import layout, make_lanes
from pivec.rollouts.environment import Environment, close
from pivec.rollouts.episodes import PlayedPolicy
from pivec.rollouts.table import Seconds, Table


def play(
    environment: Environment,
    policies: Sequence[NamedPolicy],
    options: CollectOptions,
    progress: Progress | None = None,
) -> Iterator[PlayedPolicy]:
    """Play ``options.episodes`` episodes of every policy; yield each policy when it is done.

    Policies come in the order in which they finish; `PlayedPolicy.index` is the place in
    ``policies``. An episode depends only on (seed, what the policy is, number of the episode) and
    the backend.
    """
    if not policies:
        return
    bound = bind(environment, policies)
    if options.jobs > 1 and len(bound) > 1:
        from pivec.rollouts.processes import play_in_processes

        yield from play_in_processes(environment, bound, options, progress)
    else:
        yield from play_here(environment, bound, options, progress)


def play_here(
    environment: Environment,
    policies: Sequence[NamedPolicy],
    options: CollectOptions,
    progress: Progress | None = None,
    seconds: Seconds | None = None,
) -> Iterator[PlayedPolicy]:
    """Play in this process policies that know the spaces; ``seconds`` collects where time goes."""
    from threadpoolctl import threadpool_limits

    groups: dict[Hashable, list[tuple[int, NamedPolicy]]] = {}
    for index, named in enumerate(policies):
        groups.setdefault(group_key(named.policy), []).append((index, named))
    # The products are small: threads inside them only get in each other's way.
    with threadpool_limits(limits=1):
        for group in groups.values():
            shape = layout(environment, options, len(group))
            lanes = make_lanes(environment, options.backend, shape, options.threads)
            try:
                table = Table(lanes, shape, group[0][1].policy, options, progress, seconds)
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
