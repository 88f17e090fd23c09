"""Sliced Wasserstein distance: quantiles of the states along random directions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Seed
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.characterizations.views import Of, Standardised
from pivec.parallel import run_tasks, single_threaded_blas
from pivec.states import VisitedStates
from pivec.statistics import total_variation

# Projected values at a time: 2²³ float32 are 32 MB, however many states a policy has.
_VALUES = 1 << 23
_DIRECTIONS = 16


@dataclass(eq=False, repr=False)
class SlicedWasserstein(Standardised):
    """Quantiles of the standardised states along random directions.

    In one dimension the Wasserstein distance W_p^p is the mean of |difference of quantiles|^p. Here
    it is averaged over random directions (Bonneel 2015), with a fixed number of quantiles.

    Parameters
    ----------
    n_directions : int
    n_quantiles : int
        Quantiles along each direction, at (i + ½) / n_quantiles.
    p : 1 or 2
        The distance is W_p^p. With 2 it is a squared Euclidean distance of points.
    of : str
        "states", "state-actions" or "transitions": what the distribution is of.
    random_state : int
        Seed of the directions.

    Attributes
    ----------
    directions_ : (n_columns, n_directions) array
        Of length 1.
    center_, scale_ : (n_columns,) arrays
        The standardisation: (row - center_) / scale_.

    Examples
    --------
    >>> states = np.random.default_rng(0).normal(size=(500, 2))
    >>> data = VisitedStates.from_arrays([[states], [states + 1], [states + 2]])
    >>> d = SlicedWasserstein().fit(data).distances(data)
    >>> float((d[0, 2] / d[0, 1]).round(3))  # twice as far, squared
    4.0
    """

    name = "sliced-wasserstein"
    explanation = (
        "The standardised states of each policy are projected onto random directions, and the "
        "policy is described by their quantiles along each. The distance of two policies is the "
        "mean squared difference of these: how far states have to be moved, on average, to turn "
        "the one distribution into the other."
    )
    formula = "d(p, q) = mean over directions and quantiles of |F⁻¹(p) − F⁻¹(q)|²"
    learned = ("center", "scale", "directions", "n_actions")

    n_directions: Count = 128
    _: KW_ONLY
    n_quantiles: Count = 64
    p: Literal[1, 2] = 2
    of: Of = "states"
    random_state: Seed = 0

    @property
    def squared(self) -> bool:
        """Where ``p`` is 2."""
        return self.p == 2

    def _fit(self, data: VisitedStates) -> None:
        super()._fit(data)
        rng = np.random.default_rng(self.random_state)
        normal = rng.normal(size=(len(self.center_), self.n_directions))
        self.directions_ = normal / np.linalg.norm(normal, axis=0)

    def _describe(self, data: VisitedStates) -> Description:
        quantiles = np.empty((len(data), self.n_directions, self.n_quantiles))
        for i, rows in enumerate(self._standardised(data)):
            self._project(rows, quantiles[i])
        values = quantiles.reshape(len(data), -1)
        points = values / np.sqrt(values.shape[1]) if self.p == 2 else None
        return values, points, {}

    def _project(self, x: NDArray[np.float32], out: NDArray[np.float64]) -> None:
        """Write the quantiles of rows along all directions, a share of these on each core."""
        size = min(max(1, _VALUES // len(x)), _DIRECTIONS)
        directions = np.ascontiguousarray(self.directions_.T, dtype=np.float32)

        def work(task: int) -> None:
            part = slice(task * size, (task + 1) * size)
            along = directions[part] @ x.T  # directions as rows: sorting runs along memory
            along.sort(axis=1)
            out[part] = sorted_quantiles(along, self.n_quantiles)

        with single_threaded_blas():
            run_tasks(work, -(-self.n_directions // size))

    def _distances(self, a: Descriptions, b: Descriptions) -> NDArray[np.float64]:
        if self.p == 2:
            return super()._distances(a, b)
        [left], [right] = a.values("vectors"), b.values("vectors")
        return total_variation(left, right) * (2.0 / float(left.shape[1]))


def sorted_quantiles(values: NDArray[np.floating], n: int) -> NDArray[np.float64]:
    """Quantiles at (i + ½)/n of rows that are sorted, interpolated between their values.

    A row of n values gives these values themselves (Hazen's rule).

    Examples
    --------
    >>> sorted_quantiles(np.array([[0.0, 1.0, 2.0, 3.0]]), 2)
    array([[0.5, 2.5]])
    """
    size = values.shape[1]
    places = np.clip((np.arange(n) + 0.5) / n * size - 0.5, 0, size - 1)
    below = np.floor(places).astype(np.intp)
    above = np.minimum(below + 1, size - 1)
    share = places - below
    return np.asarray(values[:, below] * (1.0 - share) + values[:, above] * share)
