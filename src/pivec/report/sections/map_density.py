"""The map of a crowd: what lies at each spot, in place of points that would hide each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

# Spots along a side of the map. A spot is then about as large as the smallest point, and at 50
# dots an inch and its multiples a whole number of dots, which packs well.
SPOTS = 235


class Spots:
    """A grid over the map, and the policies in its cells; the lowest row comes first."""

    def __init__(self, axes: Axes, places: Array) -> None:
        ends = np.array([axes.get_xlim(), axes.get_ylim()])
        self.extent = (ends[0, 0], ends[0, 1], ends[1, 0], ends[1, 1])
        at = (places - ends[:, 0]) / np.ptp(ends, axis=1) * SPOTS
        column, row = np.clip(at.astype(np.intp), 0, SPOTS - 1).T
        self._cell = row * SPOTS + column

    def counts(self, which: NDArray[np.bool_]) -> Array:
        """Count the policies of a mask at each spot."""
        return self._sums(which, np.ones(len(which)))

    def means(self, values: Array, which: NDArray[np.bool_]) -> Array:
        """Average values of a mask at each spot; NaN where there are none."""
        counts = self.counts(which)
        sums = self._sums(which, values)
        result = np.full(sums.shape, np.nan)
        np.divide(sums, counts, out=result, where=counts > 0)
        return result

    def commonest(self, numbers: NDArray[np.intp], which: NDArray[np.bool_]) -> Array:
        """Give the number from 0 that most policies of a mask have at each spot; NaN where none."""
        most = int(numbers.max(initial=0)) + 1
        codes, counts = np.unique(self._cell[which] * most + numbers[which], return_counts=True)
        # Written in the order of the counts, the largest stays; of equal ones the first number.
        order = np.lexsort((-codes, counts))
        result = np.full(SPOTS * SPOTS, np.nan)
        result[codes[order] // most] = codes[order] % most
        return result.reshape(SPOTS, SPOTS)

    def _sums(self, which: NDArray[np.bool_], values: Array) -> Array:
        sums = np.bincount(self._cell[which], values[which], SPOTS * SPOTS)
        return np.asarray(sums, np.float64).reshape(SPOTS, SPOTS)

    def paint(self, axes: Axes, colours: Array) -> None:
        """Show colours (rows, columns, 4) where they are not transparent."""
        limits = axes.get_xlim(), axes.get_ylim()
        axes.imshow(colours, extent=self.extent, origin="lower", interpolation="nearest", zorder=3)
        axes.set(xlim=limits[0], ylim=limits[1])
