"""The distance a training run travels: the sum over successive checkpoints, and how sure it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Travel:
    """One run: its checkpoints in order of training, and the distance from each to the next."""

    group: str
    rows: tuple[int, ...]
    steps: tuple[int, ...]
    legs: Array
    half_widths: Array | None = None  # of the intervals of ``cumulative``, where they are known

    @property
    def total(self) -> float:
        """Distance travelled in all."""
        return float(self.cumulative[-1])

    @property
    def cumulative(self) -> Array:
        """Distance travelled up to each checkpoint, starting with 0.

        Of legs that noise was taken off, some are a little below 0; their sums are not.
        """
        return np.concatenate([[0.0], np.maximum(np.cumsum(self.legs), 0.0)])


def travels(
    groups: Sequence[str],
    steps: Sequence[int | None],
    distance: Array | Callable[[Sequence[int]], Array],
) -> list[Travel]:
    """Follow every group that has at least two checkpoints with a training step.

    ``distance`` is the matrix, or a function that gives the distance from each of some policies,
    by their numbers, to the next.

    Examples
    --------
    >>> d = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 3.0], [5.0, 3.0, 0.0]])
    >>> [run] = travels(["a", "a", "a"], [0, 100, 200], d)
    >>> run.total, run.cumulative
    (4.0, array([0., 1., 4.]))
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
    points: Array, influences: Sequence[NDArray[np.floating]]
) -> tuple[Array, Array]:
    """Take the noise of sampling off the legs of a way, and tell how sure their sums are.

    A leg is the squared distance of successive points. Legs that share a checkpoint share its
    error, so the variance of their sum is not the sum of their variances. The sum is the quadratic
    form xᵀLx of the points, with L the Laplacian of the way; where point i has an error of
    covariance Cᵢ, its variance is Σᵢ 4 (Lx)ᵢᵀ Cᵢ (Lx)ᵢ + 2 Σᵢⱼ Lᵢⱼ² tr CᵢCⱼ.

    Parameters
    ----------
    points : (n, n_values) array
        Of the checkpoints, in order.
    influences : n arrays of (n_episodes, n_values)
        How each episode moves its checkpoint's point.

    Returns
    -------
    legs : (n - 1,) array
        Less the noise; may be a little below 0.
    deviations : (n,) array
        Standard errors of the sums up to each checkpoint, the first of which is 0.
    """
    # C = AᵀA is the covariance of a checkpoint's point.
    roots = [
        np.asarray(rows, np.float64) / np.sqrt(len(rows) * (len(rows) - 1)) for rows in influences
    ]
    own = np.array([np.sum((root @ root.T) ** 2) for root in roots])  # tr CC
    shared = np.array([np.sum((a @ b.T) ** 2) for a, b in pairwise(roots)])  # tr CC' of neighbours
    noise = np.array([np.sum(root**2) for root in roots])
    moves = np.diff(points, axis=0)

    def spread(root: Array, pull: Array) -> float:
        return float(np.sum((root @ pull) ** 2))

    # Lᵢᵢ is 1 at both ends of the way so far, and 2 between them.
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
