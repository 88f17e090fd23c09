"""The nearest and the farthest pairs of policies."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

Pair = tuple[int, int, float]


def nearest_pairs(distances: NDArray[np.float64], count: int = 10, *, first: int = 0) -> list[Pair]:
    """Find the ``count`` pairs (i, j, distance) that are closest, nearest first.

    ``distances`` are rows of a symmetric matrix from ``first`` on; only pairs i < j count.

    Examples
    --------
    >>> d = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 3.0], [5.0, 3.0, 0.0]])
    >>> nearest_pairs(d, 1), farthest_pairs(d, 1)
    ([(0, 1, 1.0)], [(0, 2, 5.0)])
    """
    return _pairs(distances, count, first, 1.0)


def farthest_pairs(
    distances: NDArray[np.float64], count: int = 10, *, first: int = 0
) -> list[Pair]:
    """Find the ``count`` pairs (i, j, distance) that are farthest apart, farthest first."""
    return _pairs(distances, count, first, -1.0)


def _pairs(distances: NDArray[np.float64], count: int, first: int, sign: float) -> list[Pair]:
    """Row by row, so that a large matrix is never copied."""
    best: list[tuple[float, int, int]] = []
    for i, row in enumerate(distances, start=first):
        others = sign * row[i + 1 :]
        chosen = np.argpartition(others, count)[:count] if len(others) > count else others.argsort()
        best = heapq.nsmallest(
            count, best + [(float(others[j]), i, i + 1 + j) for j in chosen.tolist()]
        )
    return [(i, j, sign * d) for d, i, j in best]
