"""Maximum mean discrepancy with a Gaussian kernel, by random Fourier features of the states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive, Range, Seed
from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.views import (
    Of,
    View,
    center_and_scale,
    draw_rows,
    restored_view,
)
from pivec.distances.pairwise import squared_euclidean
from pivec.engines.workers import run_tasks, single_threaded_blas
from pivec.states.visited import VisitedStates

# Rows at a time: 1024 × 512 float32 phases are 2 MB.
_ROWS = 1024


class MMD(Characterization):
    """Mean random Fourier features of the standardised states; MMD² is the distance.

    Features cos(ωx) and sin(ωx), with frequencies ω drawn from a Gaussian, have the kernel
    exp(−|x − y|² / 2σ²) as the mean of their products (Rahimi and Recht 2007). The squared
    Euclidean distance of two policies' mean features is then the squared maximum mean discrepancy
    of their states (Gretton 2012) but for an error of about 1/√n_frequencies.

    Parameters
    ----------
    n_frequencies : int
        Frequencies; a description has twice as many values.
    bandwidth : float, optional
        σ in standardised units; the median distance of two rows if None.
    of : str
        "states", "state-actions" or "transitions": what the distribution is of.
    n_median : int
        Rows that the median is taken over, as many from each policy.
    random_state : int
        Seed of the frequencies and of those rows.

    Attributes
    ----------
    bandwidth_ : float
    frequencies_ : (n_columns, n_frequencies) array
    center_, scale_ : (n_columns,) arrays
        The standardisation: (row - center_) / scale_.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> data = VisitedStates.from_arrays([[rng.normal(p, 1, (500, 2))] for p in (0, 0, 2)])
    >>> d = MMD().fit(data).distances(data)
    >>> bool(d[0, 2] > 20 * d[0, 1])
    True
    """

    name: ClassVar[str] = "mmd"
    explanation: ClassVar[str] = (
        "Each policy is described by the mean of many waves over its standardised states, which "
        "tells distributions apart in every respect that is not much finer than the bandwidth. "
        "The distance of two policies is the squared maximum mean discrepancy with a Gaussian "
        "kernel: 0 for equal distributions, at most 2."
    )
    formula: ClassVar[str] = "d(p, q) = ‖mean φ(p) − mean φ(q)‖² ≈ MMD²(p, q)"

    def __init__(
        self,
        n_frequencies: Count = 512,
        *,
        bandwidth: Positive | None = None,
        of: Of = "states",
        n_median: Annotated[int, Range(2)] = 1000,
        random_state: Seed = 0,
    ) -> None:
        self.n_frequencies = n_frequencies
        self.bandwidth = bandwidth
        self.of = of
        self.n_median = n_median
        self.random_state = random_state

    @property
    def needs(self) -> frozenset[str]:
        """Actions, for pairs of states and actions."""
        return frozenset({"actions"} if self.of == "state-actions" else ())

    def _fit(self, data: VisitedStates) -> None:
        rng = np.random.default_rng(self.random_state)
        self.view_ = View.of_data(data, self.of)
        self.center_, self.scale_ = center_and_scale(self.view_, data)
        normal = rng.normal(size=(len(self.center_), self.n_frequencies))
        rows = draw_rows(self.view_, data, self.n_median, rng)
        self.bandwidth_ = (
            float(self.bandwidth)
            if self.bandwidth is not None
            else median_distance((rows - self.center_) / self.scale_)
        )
        self.frequencies_ = normal / self.bandwidth_

    def _describe(
        self, data: VisitedStates
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        points = np.empty((len(data), 2 * self.n_frequencies))
        frequencies = self.frequencies_.astype(np.float32)
        for i, rows in enumerate(self.view_.all_rows(data)):
            points[i] = self._mean_features(rows, frequencies)
        points /= np.sqrt(self.n_frequencies)
        return points, points, {}

    def _mean_features(
        self, rows: NDArray[np.float32], frequencies: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """Mean cosines and sines of the phases of rows, (2 n_frequencies,)."""
        n = self.n_frequencies
        sums = np.empty((-(-len(rows) // _ROWS), 2 * n))

        def work(task: int) -> None:
            # The centre goes in float64: a phase that is wrong by 1e-6 does no harm, one that
            # lost its digits to a large centre does.
            x = (rows[task * _ROWS : (task + 1) * _ROWS] - self.center_) / self.scale_
            phases = x.astype(np.float32) @ frequencies
            sums[task, :n] = np.cos(phases).sum(axis=0, dtype=np.float64)
            sums[task, n:] = np.sin(phases, out=phases).sum(axis=0, dtype=np.float64)

        with single_threaded_blas():
            run_tasks(work, len(sums))
        return np.asarray(sums.sum(axis=0) / len(rows))

    def _distances(self, a: Descriptions, b: Descriptions | None) -> NDArray[np.float64]:
        return squared_euclidean(_points(a), None if b is None else _points(b))

    def _learned(self) -> dict[str, NDArray[Any]]:
        return {
            "center": self.center_,
            "scale": self.scale_,
            "frequencies": self.frequencies_,
            "bandwidth": np.array(self.bandwidth_),
            "n_actions": np.array(self.view_.n_actions),
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.view_ = restored_view(self.of, arrays)
        self.center_, self.scale_ = arrays["center"], arrays["scale"]
        self.frequencies_, self.bandwidth_ = arrays["frequencies"], float(arrays["bandwidth"])


def median_distance(rows: NDArray[np.float64]) -> float:
    """Median Euclidean distance of two different rows; 1 where all are equal.

    Examples
    --------
    >>> median_distance(np.array([[0.0], [0.0], [3.0]]))
    3.0
    """
    from scipy.spatial.distance import pdist

    distances = pdist(rows)
    positive = distances[distances > 0]
    return float(np.median(positive)) if len(positive) else 1.0


def _points(descriptions: Descriptions) -> NDArray[np.float64]:
    if descriptions.points is None:
        raise TypeError("descriptions by mmd have points")
    return descriptions.points
