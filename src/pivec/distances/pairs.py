"""The nearest and the farthest pairs of policies, and how sure their distances are."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.distances.discoveries import RATE

Array = NDArray[np.float64]
Pair = tuple[int, int, float]
LEVEL = 0.95  # of the intervals that are shown


@dataclass(frozen=True)
class Pairs:
    """Pairs of policies in columns; NaN where something is not known.

    Attributes
    ----------
    i, j : int arrays
        Numbers of the two policies, i < j.
    distance : array
        At least 0; where there is an interval, without the noise of sampling.
    low, high : arrays
        Ends of the interval of the distance.
    overlap : array
        Share of their time that the two spend in the same places.
    p, q : arrays
        p-value of "the same behaviour", and what it is among many (Benjamini-Hochberg).

    Examples
    --------
    >>> pairs = Pairs.of([0, 0], [1, 2], [0.01, 0.3], q=[0.4, 0.001])
    >>> pairs.alike
    array([ True, False])
    >>> pairs.take([1]).distance
    array([0.3])
    """

    i: NDArray[np.intp]
    j: NDArray[np.intp]
    distance: Array
    low: Array
    high: Array
    overlap: Array
    p: Array
    q: Array

    @classmethod
    def of(
        cls, i: ArrayLike = (), j: ArrayLike = (), distance: ArrayLike = (), **known: ArrayLike
    ) -> Pairs:
        """Make pairs of which some columns are not known."""
        columns = {"distance": distance} | known
        n = np.size(i)
        return cls(
            np.asarray(i, np.intp),
            np.asarray(j, np.intp),
            *(np.asarray(columns.get(c.name, np.full(n, np.nan)), float) for c in fields(cls)[2:]),
        )

    def __len__(self) -> int:
        return len(self.i)

    def take(self, which: ArrayLike) -> Pairs:
        """Pick pairs by number."""
        rows = np.asarray(which, np.intp)
        return Pairs(*(getattr(self, column.name)[rows] for column in fields(self)))

    @property
    def alike(self) -> NDArray[np.bool_]:
        """Whether the two cannot be told apart: chance explains their distance."""
        return self.q > RATE


def nearest_pairs(distances: Array, count: int = 10, *, first: int = 0) -> list[Pair]:
    """Find the ``count`` pairs (i, j, distance) that are closest, nearest first.

    ``distances`` are rows of a symmetric matrix from ``first`` on; only pairs i < j count.

    Examples
    --------
    >>> d = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 3.0], [5.0, 3.0, 0.0]])
    >>> nearest_pairs(d, 1), farthest_pairs(d, 1)
    ([(0, 1, 1.0)], [(0, 2, 5.0)])
    """
    return _pairs(distances, count, first, 1.0)


def farthest_pairs(distances: Array, count: int = 10, *, first: int = 0) -> list[Pair]:
    """Find the ``count`` pairs (i, j, distance) that are farthest apart, farthest first."""
    return _pairs(distances, count, first, -1.0)


def _pairs(distances: Array, count: int, first: int, sign: float) -> list[Pair]:
    """Row by row, so that a large matrix is never copied."""
    best: list[tuple[float, int, int]] = []
    for i, row in enumerate(distances, start=first):
        others = sign * row[i + 1 :]
        if len(best) == count and not (others < best[-1][0]).any():
            continue  # as nearly all rows of many
        chosen = np.argpartition(others, count)[:count] if len(others) > count else others.argsort()
        best = heapq.nsmallest(
            count, best + [(float(others[j]), i, i + 1 + j) for j in chosen.tolist()]
        )
    return [(i, j, sign * d) for d, i, j in best]
