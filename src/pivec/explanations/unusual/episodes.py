"""How far each episode of a policy lies from its others, and in which regions and features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.background import BackgroundModel
from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.resampling import rests
from pivec.explanations.assigned import assign
from pivec.states.visited import VisitedStates
from pivec.text import percent

Array = NDArray[np.float64]
_ALIKE = 1e-7  # of the length of a policy's point: so little is the rounding of equal episodes
_NOTABLE = 0.05  # share of time by which an episode differs in a region that is worth telling
_REGIONS = 2  # told of an episode


@dataclass(frozen=True)
class RegionTime:
    """How much of its time an episode spends in a region, and the policy's others."""

    region: int
    words: str
    share: float
    usual: float

    def __str__(self) -> str:
        times = f"{percent(self.share)} of its time (others {percent(self.usual)})"
        return f"{times} in region {self.region}: {self.words}"


def episode_distances(method: Characterization, data: VisitedStates) -> Array:
    """How far leaving out each episode of one policy moves its description, up to a factor."""
    m = data.n_episodes
    if m < 2:
        return np.zeros(m)
    if method.has_influences:
        rows = method.describe(data, influences=True)
        return influence_lengths(rows.rows("influences")[0], point_of(method, rows, 0))
    moved = method._distances(
        rests(method, data, method._statistics(data)), method._described(data)
    )[:, 0]
    return np.asarray(np.sqrt(np.maximum(moved, 0.0)) if method.squared else moved)


def influence_lengths(influences: NDArray[Any], point: Array) -> Array:
    """Lengths of influences, (n_episodes,); 0 where there is nothing but rounding."""
    rows = influences.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    lengths[lengths <= _ALIKE * math.sqrt(point @ point)] = 0.0
    return np.asarray(lengths)


def point_of(method: Characterization, described: Descriptions, row: int) -> Array:
    """Give what the influences on a policy are on."""
    return np.asarray(described.values("points" if method.squared else "vectors")[0][row])


def episode_means(method: Characterization, data: VisitedStates) -> tuple[Array, Array, Array]:
    """Means of features and shares of time in regions of each episode, and states' deviations."""
    states = data.states
    starts = data.episode_starts
    sums = np.add.reduceat(states, starts[:-1], axis=0, dtype=np.float64)
    deviations = states.std(axis=0, dtype=np.float64)
    deviations[deviations == 0.0] = np.inf  # a feature that is the same everywhere
    shares = np.zeros((data.n_episodes, 0))
    if isinstance(method, BackgroundModel):
        mixture = method._mixtures[0]
        region = assign(data, mixture).region
        counts = [
            np.bincount(region[i:j], minlength=mixture.n_components)
            for i, j in pairwise(starts.tolist())
        ]
        shares = np.array(counts) / data.lengths[:, None]
    return sums / data.lengths[:, None], deviations, shares


def unlike_regions(shares: Array, usual: Array, words: Sequence[str]) -> tuple[RegionTime, ...]:
    """The regions in which an episode spends most time more, or less, than the others."""
    more = shares - usual
    order = np.argsort(-np.abs(more), kind="stable")[:_REGIONS]
    return tuple(
        RegionTime(int(r), words[r], float(shares[r]), float(usual[r]))
        for r in order
        if abs(more[r]) >= _NOTABLE
    )
