"""Pairs of policies, nearest neighbours, and the distances along a training run."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.arguments import Count, NotNegative, check_arguments
from pivec.errors import UsageError
from pivec.parallel import run_tasks

Array = NDArray[np.float64]
Pair = tuple[int, int, float]
_SEARCHED_BYTES = 2 << 20  # of distances that a core searches at a time


@dataclass(frozen=True)
class Pairs:
    """Pairs of policies in columns; unknown values are NaN."""

    i: NDArray[np.intp]  # numbers of the two policies, i < j
    j: NDArray[np.intp]
    distance: Array  # at least 0; without sampling noise if there is an interval
    low: Array  # 0 exactly where q > 0.05
    high: Array
    overlap: Array  # share of their time that the two spend in the same places
    p: Array  # p-value of equal behaviour
    q: Array  # the same, adjusted for many pairs (Benjamini-Hochberg)

    @classmethod
    def of(
        cls, i: ArrayLike = (), j: ArrayLike = (), distance: ArrayLike = (), **known: ArrayLike
    ) -> Pairs:
        """Make pairs from the known columns."""
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
        """Select pairs by number."""
        rows = np.asarray(which, np.intp)
        return Pairs(*(getattr(self, column.name)[rows] for column in fields(self)))

    @property
    def alike(self) -> NDArray[np.bool_]:
        """Whether the two do not differ significantly."""
        return self.low <= 0.0


def farthest_pairs(distances: Array, count: int = 10, *, first: int = 0) -> list[Pair]:
    """The ``count`` farthest pairs (i, j, distance), farthest first.

    ``distances`` are rows of a symmetric matrix from ``first`` on; only pairs i < j count. Row by
    row, so that a large matrix is never copied.
    """
    best: list[tuple[float, int, int]] = []
    for i, row in enumerate(distances, start=first):
        others = -row[i + 1 :]
        if len(best) == count and not (others < best[-1][0]).any():
            continue  # the usual case
        chosen = np.argpartition(others, count)[:count] if len(others) > count else others.argsort()
        best = heapq.nsmallest(
            count, best + [(float(others[j]), i, i + 1 + j) for j in chosen.tolist()]
        )
    return [(i, j, -d) for d, i, j in best]


def nearest_of_rows(block: Array, first: int, k: int) -> tuple[NDArray[np.intp], Array]:
    """The k nearest others in rows ``first``, ``first + 1``, ... of a matrix of distances."""
    indices = np.empty((len(block), k), np.intp)
    distances = np.empty((len(block), k))
    rows = max(1, _SEARCHED_BYTES // (8 * max(1, block.shape[1])))

    def work(task: int) -> None:
        part = slice(task * rows, (task + 1) * rows)
        others = block[part].copy()
        own = np.arange(len(others))
        others[own, own + first + part.start] = np.inf
        near = np.argpartition(others, max(k - 1, 0), axis=1)[:, :k]
        apart = np.take_along_axis(others, near, axis=1)
        order = np.lexsort((near, apart), axis=1)
        indices[part] = np.take_along_axis(near, order, axis=1)
        distances[part] = np.take_along_axis(apart, order, axis=1)

    run_tasks(work, -(-len(block) // rows))
    return indices, distances


@dataclass(frozen=True)
class Travel:
    """A run: its checkpoints in order of training, and the distance from each to the next."""

    group: str
    rows: tuple[int, ...]
    steps: tuple[int, ...]
    legs: Array
    half_widths: Array | None = None  # of the intervals of ``cumulative``, if known

    @property
    def total(self) -> float:
        """Total distance travelled."""
        return float(self.cumulative[-1])

    @property
    def cumulative(self) -> Array:
        """Distance travelled up to each checkpoint, starting with 0."""
        return np.concatenate([[0.0], np.maximum(np.cumsum(self.legs), 0.0)])


def travels(
    groups: Sequence[str],
    steps: Sequence[int | None],
    distance: Array | Callable[[Sequence[int]], Array],
) -> list[Travel]:
    """Follow every group that has at least two checkpoints with a training step.

    ``distance`` is the matrix, or a function that returns the distances from each of the given
    policies to the next.
    """
    runs: dict[str, list[tuple[int, int]]] = {}
    for row, (group, step) in enumerate(zip(groups, steps, strict=True)):
        if step is not None:
            runs.setdefault(group, []).append((step, row))
    result = []
    for group, stops in runs.items():
        if len(stops) < 2:
            continue
        stops.sort()
        rows = tuple(row for _, row in stops)
        legs = distance(rows) if callable(distance) else distance[rows[:-1], rows[1:]]
        result.append(Travel(group, rows, tuple(step for step, _ in stops), legs))
    return result


def sampled_travel(
    points: Array, influences: Sequence[NDArray[np.floating]], noise: Array | None = None
) -> tuple[Array, Array]:
    """Legs of a path without sampling noise, and standard errors of their sums.

    A leg is the squared distance of successive points. Legs that share a checkpoint share its
    error, so the variance of their sum is not the sum of their variances. The sum is the quadratic
    form xᵀLx of the points, with L the Laplacian of the path; if point i has an error of covariance
    Cᵢ, its variance is Σᵢ 4 (Lx)ᵢᵀ Cᵢ (Lx)ᵢ + 2 Σᵢⱼ Lᵢⱼ² tr CᵢCⱼ.

    ``points``, (n, n_values), are those of the checkpoints in order, and ``influences`` those of
    the episodes of each, (n_episodes, n_values); ``noise``, (n,), is what sampling adds to squared
    distances from each, by default tr Cᵢ. Returns n − 1 legs, which may be slightly below 0, and n
    standard errors, the first of which is 0.
    """
    # C = AᵀA is the covariance of a checkpoint's point.
    roots = [
        np.asarray(rows, np.float64) / np.sqrt(len(rows) * (len(rows) - 1)) for rows in influences
    ]
    own = np.array([np.sum((root @ root.T) ** 2) for root in roots])  # tr CC
    shared = np.array([np.sum((a @ b.T) ** 2) for a, b in pairwise(roots)])  # tr CC' of neighbours
    noise = np.array([np.sum(root**2) for root in roots]) if noise is None else noise
    moves = np.diff(points, axis=0)

    def spread(root: Array, pull: Array) -> float:
        return float(np.sum((root @ pull) ** 2))

    # Lᵢᵢ is 1 at both ends of the path so far, and 2 between them.
    ended = np.array([spread(*pair) for pair in zip(roots[1:], moves, strict=True)])
    turns = moves[:-1] - moves[1:]
    passed = np.array([spread(*pair) for pair in zip(roots[1:-1], turns, strict=True)])
    first = 4 * (spread(roots[0], moves[0]) + _sums_before(passed) + ended)
    second = 2 * (own[0] + _sums_before(4 * own[1:-1]) + own[1:] + 2 * np.cumsum(shared))
    # Points with errors make the first term too large, by twice the second on average.
    variances = np.maximum(first - second, second)
    return (
        np.sum(moves**2, axis=1) - noise[1:] - noise[:-1],
        np.sqrt(np.concatenate([[0.0], variances])),
    )


def _sums_before(values: Array) -> Array:
    return np.concatenate([[0.0], np.cumsum(values)])


@dataclass(frozen=True)
class ConvergenceRule:
    """Behaviour has converged when none of the last checkpoints differs from the one before them.

    Distances are without sampling noise, so that an unchanged policy has distance 0 from itself on
    average, and have standard errors s; see `Characterization.intervals`. A distance d is a change
    if it is larger than ``deviations`` standard errors, *and* larger than ``tolerance`` times the
    farthest that the run has come from its first checkpoint:

        d > max(deviations · s, tolerance · reach)

    All of the last ``checkpoints`` are measured from the *same* one, the one before them, so that
    many small steps in one direction count as a change although none of them would.

    Parameters
    ----------
    checkpoints : int
        How many in a row must be unchanged.
    tolerance : float
        Share of the run's reach that counts as no change. Most distances, including those of
        visitation and supervectors, are squared: 0.01 is a tenth of the way in a straight line.
    deviations : float
        Standard errors that count as no change.

    Examples
    --------
    >>> rule = ConvergenceRule(checkpoints=3)
    >>> rule.converged([5.0, 2.0, 1.0, 0.02, 0.01, 0.03])
    True
    >>> rule.converged_at([5.0, 2.0, 1.0, 0.02, 0.01, 0.03])
    6
    """

    checkpoints: Count = 10
    tolerance: NotNegative = 0.01
    deviations: NotNegative = 3.0

    def __post_init__(self) -> None:
        check_arguments(self)

    def converged(self, distances: ArrayLike, standard_errors: ArrayLike = 0.0) -> bool:
        """Whether a run has converged at its last checkpoint.

        Parameters
        ----------
        distances : (n, n) array or (n - 1,) array
            Between all checkpoints, in the order of training. Or from each to the next: then the
            last ones are compared one by one with the largest of all, and slow drift is missed.
        standard_errors : array of the same shape, or float
            Of the distances; 0 if they are exact.
        """
        d, errors = _checked(distances, standard_errors)
        n = len(d) if d.ndim == 2 else len(d) + 1
        if n <= self.checkpoints:
            return False
        if d.ndim == 2:
            before = n - self.checkpoints - 1
            recent, doubt, ways = d[before, before + 1 :], errors[before, before + 1 :], d[0]
        else:
            recent, doubt, ways = d[-self.checkpoints :], errors[-self.checkpoints :], d
        return self.unchanged(recent, doubt, ways)

    def converged_at(self, distances: ArrayLike, standard_errors: ArrayLike = 0.0) -> int | None:
        """Number of the first checkpoint at which a run has converged; None if never."""
        d, errors = _checked(distances, standard_errors)
        legs = 2 - d.ndim  # one fewer than checkpoints
        for n in range(self.checkpoints + 1, len(d) + legs + 1):
            part = (slice(n - legs),) * d.ndim
            if self.converged(d[part], errors[part]):
                return n - 1
        return None

    def unchanged(self, recent: ArrayLike, standard_errors: ArrayLike, ways: ArrayLike) -> bool:
        """Whether no ``recent`` distance is a change; the reach is the largest of ``ways``.

        Unknown distances (NaN) are ignored in the reach, but count as a change.
        """
        reach = np.fmax.reduce(np.asarray(ways, dtype=np.float64), initial=0.0)
        errors = np.asarray(standard_errors, dtype=np.float64)
        allowed = np.maximum(self.deviations * errors, self.tolerance * reach)
        return bool((np.asarray(recent, dtype=np.float64) <= allowed).all())


def _checked(
    distances: ArrayLike, standard_errors: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    d, errors = (np.asarray(values, dtype=np.float64) for values in (distances, standard_errors))
    if d.ndim not in (1, 2) or (d.ndim == 2 and d.shape[0] != d.shape[1]):
        raise UsageError(
            "expected the distances of all checkpoints, (n, n), or from each to the next, "
            f"(n - 1,), but got shape {d.shape}"
        )
    if errors.ndim and errors.shape != d.shape:
        raise UsageError(
            f"expected standard errors of the distances' shape {d.shape}, or one for all, but got "
            f"shape {errors.shape}"
        )
    return d, np.broadcast_to(errors, d.shape)
