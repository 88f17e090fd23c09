"""Pooled mean and deviation of rows that come in blocks, and what counts as a constant column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Moments:
    """Mean and squared deviations of all rows added so far, in float64.

    Examples
    --------
    >>> pooled = Moments()
    >>> pooled.add_rows(np.array([[0.0, 7.0], [2.0, 7.0]]))
    >>> pooled.add_rows(np.array([[4.0, 7.0]]))
    >>> pooled.mean, pooled.scale.round(2)
    (array([2., 7.]), array([1.63, 1.  ]))
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean: Array = np.zeros(1)
        self._squares: Array = np.zeros(1)

    def add(self, count: int, mean: Array, squares: Array) -> None:
        """Add so many rows of this mean and these sums of squared deviations from it.

        By the formula of Chan, Golub and LeVeque 1983, which does not cancel.
        """
        shift, total = mean - self.mean, self.count + count
        self.mean = self.mean + shift * (count / total)
        self._squares = self._squares + squares + shift**2 * (self.count * count / total)
        self.count = total

    def add_rows(self, rows: NDArray[Any]) -> None:
        """Add rows, (n, n_columns)."""
        mean = rows.mean(axis=0, dtype=np.float64)
        self.add(len(rows), mean, ((rows - mean) ** 2).sum(axis=0))

    @property
    def scale(self) -> Array:
        """The deviation of each column; 1 where it is constant.

        States are float32: a deviation of at most 1e-7 of the mean is only their rounding.
        """
        deviation = np.sqrt(self._squares / self.count)
        return np.where(deviation <= 1e-7 * np.abs(self.mean), 1.0, deviation)


def center_and_scale(blocks: Iterable[NDArray[Any]]) -> tuple[Array, Array]:
    """Pooled mean and deviation of each column of all blocks of rows; see `Moments`."""
    pooled = Moments()
    for rows in blocks:
        pooled.add_rows(rows)
    return pooled.mean, pooled.scale
