"""Several processes: policies are dealt out, each process plays its share, the parent gathers.

An episode follows from (seed, policy, number) alone, so the deal does not change the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pivec.engines.child import Tell
from pivec.engines.processes import ProcessFailed, map_processes
from pivec.engines.workers import usable_cores
from pivec.errors import PivecError
from pivec.options import CollectOptions
from pivec.policies.policy import NamedPolicy
from pivec.progress import Progress
from pivec.rollouts.environment import Environment
from pivec.rollouts.episodes import PlayedPolicy


@dataclass(frozen=True)
class _Share:
    """The policies that one process plays."""

    environment: Environment
    policies: Sequence[NamedPolicy]
    options: CollectOptions

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Name what may be a user's own."""
        yield "the environment", self.environment
        yield "features=", self.options.features
        for named in self.policies:
            yield f"the policy {named.info.label!r}", named.policy


def play_in_processes(
    environment: Environment,
    policies: Sequence[NamedPolicy],
    options: CollectOptions,
    progress: Progress | None,
) -> Iterator[PlayedPolicy]:
    """Play policies that know the spaces in processes; yield each when it is done."""
    jobs = min(options.jobs, len(policies))
    if options.threads is None:
        options = replace(options, threads=max(1, usable_cores() // jobs))
    # Dealt like cards: policies that lie together, as checkpoints of a run do, play equally long.
    shares = [_Share(environment, policies[i::jobs], options) for i in range(jobs)]
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
    from pivec.rollouts.play import play_here

    steps = _Steps(tell)
    for played in play_here(share.environment, share.policies, share.options, steps):
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
