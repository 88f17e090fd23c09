"""One recorded episode as it was found, before it becomes rows of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


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
