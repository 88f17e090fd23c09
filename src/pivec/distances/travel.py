"""The distance a training run travels: the sum over successive checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Travel:
    """One run: its checkpoints in order of training, and the distance from each to the next."""

    group: str
    rows: tuple[int, ...]
    steps: tuple[int, ...]
    legs: NDArray[np.float64]

    @property
    def total(self) -> float:
        """Distance travelled in all."""
        return float(self.legs.sum())

    @property
    def cumulative(self) -> NDArray[np.float64]:
        """Distance travelled up to each checkpoint, starting with 0."""
        return np.concatenate([[0.0], np.cumsum(self.legs)])


def travels(
    groups: Sequence[str],
    steps: Sequence[int | None],
    distance: NDArray[np.float64] | Callable[[int, int], float],
) -> list[Travel]:
    """Follow every group that has at least two checkpoints with a training step.

    ``distance`` is the matrix, or a function of two policies' numbers.

    Examples
    --------
    >>> d = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 3.0], [5.0, 3.0, 0.0]])
    >>> [run] = travels(["a", "a", "a"], [0, 100, 200], d)
    >>> run.total, run.cumulative
    (4.0, array([0., 1., 4.]))
    """
    measure = distance if callable(distance) else lambda i, j: float(distance[i, j])
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
        legs = np.array([measure(i, j) for i, j in pairwise(rows)])
        result.append(Travel(group, rows, tuple(step for step, _ in stops), legs))
    return result
