"""The nearest and the farthest pairs of policies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Pair = tuple[int, int, float]


def nearest_pairs(distances: NDArray[np.float64], count: int = 10) -> list[Pair]:
    """Find the ``count`` pairs (i, j, distance) that are closest, nearest first.

    Examples
    --------
    >>> d = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 3.0], [5.0, 3.0, 0.0]])
    >>> nearest_pairs(d, 1), farthest_pairs(d, 1)
    ([(0, 1, 1.0)], [(0, 2, 5.0)])
    """
    return _pairs(distances, count, 1.0)


def farthest_pairs(distances: NDArray[np.float64], count: int = 10) -> list[Pair]:
    """Find the ``count`` pairs (i, j, distance) that are farthest apart, farthest first."""
    return _pairs(distances, count, -1.0)


def _pairs(distances: NDArray[np.float64], count: int, sign: float) -> list[Pair]:
    """Row by row, so that a large matrix is never copied."""
    best: list[tuple[float, int, int]] = []
    for i in range(len(distances) - 1):
        row = sign * distances[i, i + 1 :]
        some = np.argsort(row, kind="stable")[:count] if len(row) > count else np.arange(len(row))
        best += [(float(row[j]), i, i + 1 + int(j)) for j in some]
        if len(best) > 50 * count:
            best = sorted(best)[:count]
    return [(i, j, sign * d) for d, i, j in sorted(best)[:count]]
