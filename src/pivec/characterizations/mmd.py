"""Maximum mean discrepancy with a Gaussian kernel, by random Fourier features of the states."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive, Range, Seed
from pivec.characterizations.averages import RowMeans, segment_sums
from pivec.characterizations.descriptions import Description
from pivec.characterizations.views import Of, Standardised, draw_rows
from pivec.parallel import run_tasks, single_threaded_blas
from pivec.states import VisitedStates

# Rows at a time: 1024 × 512 float32 phases are 2 MB.
_ROWS = 1024


@dataclass(eq=False, repr=False)
class MMD(Standardised, RowMeans):
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

    name = "mmd"
    explanation = (
        "Each policy is described by the mean of many waves over its standardised states, which "
        "tells distributions apart in every respect that is not much finer than the bandwidth. "
        "The distance of two policies is the squared maximum mean discrepancy with a Gaussian "
        "kernel: 0 for equal distributions, at most 2."
    )
    formula = "d(p, q) = ‖mean φ(p) − mean φ(q)‖² ≈ MMD²(p, q)"
    learned = ("center", "scale", "frequencies", "bandwidth", "n_actions")
    euclidean = True

    n_frequencies: Count = 512
    _: KW_ONLY
    bandwidth: Positive | None = None
    of: Of = "states"
    n_median: Annotated[int, Range(2)] = 1000
    random_state: Seed = 0

    def _fit(self, data: VisitedStates) -> None:
        super()._fit(data)
        rng = np.random.default_rng(self.random_state)
        normal = rng.normal(size=(len(self.center_), self.n_frequencies))
        rows = draw_rows(self.view_, data, self.n_median, rng)
        self.bandwidth_ = (
            float(self.bandwidth)
            if self.bandwidth is not None
            else median_distance((rows - self.center_) / self.scale_)
        )
        self.frequencies_ = normal / self.bandwidth_

    def _sums(self, rows: NDArray[np.float32], cuts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Sums of the cosines and sines of the phases of rows, (n, 2 n_frequencies)."""
        n, frequencies = self.n_frequencies, self.frequencies_.astype(np.float32)
        pieces = [
            (segment, begin, min(begin + _ROWS, end))
            for segment, (start, end) in enumerate(pairwise(cuts.tolist()))
            for begin in range(start, end, _ROWS)
        ]
        sums = np.empty((len(pieces), 2 * n))

        def work(task: int) -> None:
            _, begin, end = pieces[task]
            phases = self._standardise(rows[begin:end]) @ frequencies
            sums[task, :n] = np.cos(phases).sum(axis=0, dtype=np.float64)
            sums[task, n:] = np.sin(phases, out=phases).sum(axis=0, dtype=np.float64)

        with single_threaded_blas():
            run_tasks(work, len(pieces))
        owners = [segment for segment, _, _ in pieces]
        return segment_sums(sums, np.searchsorted(owners, np.arange(len(cuts))))

    def _of_means(self, means: NDArray[np.float64]) -> Description:
        points = means / np.sqrt(self.n_frequencies)
        return points, points, {}


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
