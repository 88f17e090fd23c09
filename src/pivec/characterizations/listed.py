"""How sure the distances of listed pairs are, where all pairs are too many to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.resampling import described_spread, warn_of_spread
from pivec.distances.intervals import Intervals, Spread, intervals_of, paired_variances
from pivec.distances.pairwise import paired_squares

if TYPE_CHECKING:
    from pivec.characterizations.base import Characterization

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


def pair_intervals(
    method: Characterization,
    described: Descriptions,
    i: Rows,
    j: Rows,
    distances: Array,
    level: float,
) -> Intervals:
    """As `Characterization.intervals`, a value a pair; the spread of each policy is found once."""
    variance, spread = _measured(method, described, i, j)
    squares = distances if method.squared else distances**2
    warn_of_spread(method, [described], [spread], squares, (i, j))
    scatter = method._scatter([described], lambda a, b: paired_squares(a, b, i, j))
    both = spread.take(i), spread.take(j)
    return intervals_of(squares, variance, *both, level, scatter, squared=method.squared)


def _measured(
    method: Characterization, described: Descriptions, i: Rows, j: Rows
) -> tuple[Array, Spread]:
    """Variances of the distances of pairs, and the spread of all policies."""
    if method.exact or method.no_intervals:
        value = 0.0 if method.exact else np.nan
        flat = np.full(len(described), value)
        return np.full(len(i), value), Spread(flat, flat, flat, np.ones_like(flat))
    [rows] = described.values("points" if method.squared else "vectors")
    influences, starts = described.values("influences", "influences.starts")
    forth = paired_variances(influences, starts, rows, i, j)
    back = paired_variances(influences, starts, rows, j, i)
    return 4.0 * (forth + back), described_spread(described, rows)
