"""One recorded episode as it was found, before it becomes rows of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from numpy.typing import NDArray

from pivec.states.visited import VisitedStates


@dataclass(frozen=True)
class RawEpisode:
    """Observations of any kind (a batch: arrays, or dicts and tuples of them), and what is known.

    ``actions`` has one row fewer than the observations, or is None.
    """

    observations: Any
    actions: NDArray[Any] | None
    total_reward: float
    seed: int
    terminated: bool
    truncated: bool


def raw_episodes(data: VisitedStates) -> Iterator[RawEpisode]:
    """Go through the episodes of one policy as recorded ones."""
    states, actions = data.states, data.actions
    for number, (begin, end) in enumerate(pairwise(data.episode_starts.tolist())):
        yield RawEpisode(
            states[begin:end],
            None if actions is None else actions[begin - number : end - number - 1],
            float(data.returns[number]),
            int(data.seeds[number]),
            bool(data.terminated[number]),
            bool(data.truncated[number]),
        )
