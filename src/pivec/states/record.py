"""Everything that is kept of one policy, and many of them put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.policies.policy import Policy, PolicyInfo
from pivec.rollouts.episodes import Episode
from pivec.states.chunks import Arrays
from pivec.states.visited import VisitedStates


@dataclass(frozen=True)
class PolicyRecord:
    """The states of one policy, cut into episodes, and what is known of them."""

    info: PolicyInfo
    states: NDArray[np.float32]
    episode_starts: NDArray[np.int64]
    returns: NDArray[np.float64]
    seeds: NDArray[np.int64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    actions: NDArray[Any] | None = None
    policy: Policy | None = None

    @property
    def arrays(self) -> Arrays:
        """States and actions, as `VisitedStates` takes them."""
        return self.states, self.actions


def record_of(
    info: PolicyInfo, episodes: Sequence[Episode], every: int = 1, policy: Policy | None = None
) -> PolicyRecord:
    """Put the episodes of one policy together; thinned ones say so in the metadata."""
    if every > 1:
        info = replace(info, metadata={**info.metadata, "kept_every": every})
    moves = [episode.actions for episode in episodes if episode.actions is not None]
    return PolicyRecord(
        info,
        np.concatenate([episode.states for episode in episodes]),
        np.concatenate([[0], np.cumsum([len(episode.states) for episode in episodes])]),
        np.array([episode.total_reward for episode in episodes]),
        np.array([episode.seed for episode in episodes]),
        np.array([episode.terminated for episode in episodes]),
        np.array([episode.truncated for episode in episodes]),
        np.concatenate(moves) if moves else None,
        policy,
    )


def assemble(
    records: Sequence[PolicyRecord],
    chunks: Sequence[Arrays],
    feature_names: Sequence[str],
    environment: str,
    has_actions: bool,
    actors: Sequence[Policy | None],
) -> VisitedStates:
    """Put records together; their arrays come from ``chunks``, the policies from ``actors``."""
    lengths = np.concatenate([np.diff(record.episode_starts) for record in records])
    return VisitedStates(
        chunks,
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([[0], np.cumsum([len(record.returns) for record in records])]),
        [record.info for record in records],
        **{
            name: np.concatenate([getattr(record, name) for record in records])
            for name in ("returns", "seeds", "terminated", "truncated")
        },
        feature_names=feature_names,
        environment=environment,
        has_actions=has_actions,
        actors=actors,
    )
