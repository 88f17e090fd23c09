"""Characterizations by the distribution of states: Gaussian, MMD and sliced Wasserstein."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

import numpy as np

from pivec.arguments import Count, Positive, Range, Seed
from pivec.characterizations.base import Array, Traits
from pivec.characterizations.decomposition import USUAL, WHERE, WIDE, Decomposable, RegionStatistics
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.characterizations.rows import (
    Cuts,
    Floats,
    Of,
    RowMeans,
    Standardised,
    center_and_scale,
    draw_rows,
    segment_sums,
)
from pivec.parallel import run_tasks, single_threaded_blas
from pivec.states import VisitedStates
from pivec.statistics import symmetric_kl_diagonal, symmetric_kl_full, total_variation

_ROWS = 1024  # at a time: 1024 × 512 float32 phases are 2 MB
_VALUES = 1 << 23  # projected at a time: 32 MB in float32, however many states a policy has
_DIRECTIONS = 16  # projected on at a time


@dataclass(eq=False, repr=False)
class Gaussian(RowMeans):
    """Mean and variance (or covariance) of the features over all states of a policy.

    The distance is KL(a || b) + KL(b || a). Fast, but insensitive to everything except the first
    two moments.

    Parameters
    ----------
    covariance : str
        "diagonal" as in the paper, each feature by itself; or "full", with correlations.
    floor : float
        Added to every variance, so that the distance is defined for constant features. With "full"
        it is relative to the variance of all states of the fit.

    Examples
    --------
    >>> walks = [[np.array([[-1.0], [1.0]])], [np.array([[0.0], [2.0]])]]
    >>> Gaussian().fit(data := VisitedStates.from_arrays(walks)).distances(data).round(3)
    array([[0., 1.],
           [1., 0.]])
    """

    name = "gaussian"
    layout: ClassVar[dict[str, str]] = {
        "learned.center": "f8 F",
        "learned.scale": "f8>0 F",
        "described.means": "f8 P F",
        "described.variances": "?f8>0 P F",
        "described.covariances": "?f8 P F F",
    }
    traits = Traits(
        "Each policy is described by the mean and the variance of every feature over all states "
        "it visited, a Gaussian (with the covariances of the features if requested). The distance "
        "between two policies is the KL divergence between their Gaussians, summed both ways.",
        "d(p, q) = KL(p ‖ q) + KL(q ‖ p)",
        additive=True,
    )

    _: KW_ONLY
    covariance: Literal["diagonal", "full"] = "diagonal"
    floor: Positive = 1e-7

    def _fit(self, data: VisitedStates) -> None:
        self.center_, self.scale_ = center_and_scale(self.view_, data)

    def _sums(self, rows: Floats, cuts: Cuts) -> Array:
        # About the centre of all states and in units of their deviation, squares lose no relevant
        # digits when those of the mean are subtracted, and covariances are well conditioned.
        z = (rows - self.center_) / self.scale_
        if self.covariance == "diagonal":
            return np.concatenate([segment_sums(z, cuts), segment_sums(z**2, cuts)], axis=1)
        upper = np.triu_indices(z.shape[1])
        # A copy: x.T @ x takes BLAS's SYRK path, which crashes in some builds.
        with single_threaded_blas():  # the same bits wherever it runs
            products = [(z[i:j].T @ z[i:j].copy())[upper] for i, j in pairwise(cuts)]
        return np.concatenate([segment_sums(z, cuts), products], axis=1)

    def _of_means(self, means: Array) -> Description:
        d = len(self.center_)
        z, squares = means[:, :d], means[:, d:]
        if self.covariance == "diagonal":
            variances = np.maximum(squares - z**2, 0.0) * self.scale_**2
            return gaussians(self.center_ + z * self.scale_, variances + self.floor)
        upper, lower = np.triu_indices(d), np.tril_indices(d, -1)
        covariances = np.empty((len(means), d, d))
        covariances[:, *upper] = squares
        covariances -= z[:, :, None] * z[:, None, :]
        covariances[:, *lower] = covariances.swapaxes(1, 2)[:, *lower]
        covariances += self.floor * np.eye(d)
        vectors = np.concatenate([z, covariances[:, *upper]], axis=1)
        return vectors, None, {"means": z, "covariances": covariances}

    def feature_means(self, described: Descriptions) -> Array | None:
        """Mean of each feature, (n, n_features)."""
        [means] = described.values("means")
        return means if self.covariance == "diagonal" else self.center_ + means * self.scale_

    @property
    def part_columns(self) -> tuple[tuple[str, int], ...]:
        """The shift of each feature, then its change of width."""
        if self.covariance != "diagonal":
            return ()
        return tuple((kind, j) for kind in (WHERE, WIDE) for j in range(len(self.center_)))

    def _differences(self, a: Array, b: Array) -> Array:
        # KL both ways is ½ Σ (Δμ)² (1/σ² + 1/τ²) + ½ Σ (σ/τ − τ/σ)².
        (m, v), (n, w) = (np.split(rows[:, None], 2, axis=2) for rows in (a, b))
        ratios = np.sqrt(v / w)
        shifts = (m - n) * np.sqrt(1.0 / v + 1.0 / w)
        return np.asarray(np.concatenate([shifts, ratios - 1.0 / ratios], axis=2) / np.sqrt(2.0))

    def _decomposable(self, sums: Array) -> Decomposable:
        rows = self._coordinates(sums)
        means, variances = np.split(rows, 2, axis=1)
        ends = self.center_[:, None] + USUAL * self.scale_[:, None] * np.array([-1.0, 1.0])
        shares = np.ones((len(rows), 1))
        own = shares, shares[0], means[:, None], means, ends[None], np.sqrt(variances)
        summary = RegionStatistics(*own)
        return Decomposable(
            summary, lambda a, b: self._differences(rows[a], rows[b]), ("all states",)
        )

    def _distances(self, a: Descriptions, b: Descriptions) -> Array:
        if self.covariance == "diagonal":
            return gaussian_distances(a, b)
        left, right = (described.values("means", "covariances") for described in (a, b))
        return symmetric_kl_full(*left, *right)


def gaussians(means: Array, variances: Array) -> Description:
    """Describe each policy by a diagonal Gaussian: one row of means and one of variances."""
    vectors = np.concatenate([means, variances], axis=1)
    return vectors, None, {"means": means, "variances": variances}


def gaussian_distances(a: Descriptions, b: Descriptions) -> Array:
    """KL(a || b) + KL(b || a) of the diagonal Gaussians that `gaussians` made."""
    left, right = (described.values("means", "variances") for described in (a, b))
    return symmetric_kl_diagonal(*left, *right)


@dataclass(eq=False, repr=False)
class MMD(Standardised, RowMeans):
    """Mean random Fourier features of the standardized states; the distance is MMD².

    Features cos(ωx) and sin(ωx), with frequencies ω drawn from a Gaussian, have the kernel
    exp(−|x − y|² / 2σ²) as the mean of their products (Rahimi and Recht 2007), so that the squared
    distance of mean features is MMD² (Gretton 2012) up to an error of about 1/√n_frequencies.

    Parameters
    ----------
    n_frequencies : int
        Number of frequencies; a description has twice as many values.
    bandwidth : float, optional
        σ in standardized units; the median distance between two rows if None.
    of : str
        "states", "state-actions" or "transitions": what the distribution is of.
    n_median : int
        Rows that the median is taken over, equally many per policy.
    random_state : int
        Seed of the frequencies and of those rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> data = VisitedStates.from_arrays([[rng.normal(p, 1, (500, 2))] for p in (0, 0, 2)])
    >>> d = MMD().fit(data).distances(data)
    >>> bool(d[0, 2] > 20 * d[0, 1])
    True
    """

    name = "mmd"
    layout = Standardised.layout | {
        "learned.bandwidth": "f8>0",
        "learned.frequencies": "f8 D n_frequencies",
        "points": "f8 P 2*n_frequencies",
    }

    n_frequencies: Count = 512
    _: KW_ONLY
    bandwidth: Positive | None = None
    of: Of = "states"
    n_median: Annotated[int, Range(2)] = 1000
    random_state: Seed = 0

    @property
    def traits(self) -> Traits:
        """What is needed depends on ``of``."""
        return Traits(
            "Each policy is described by the mean of many waves over its standardized states, "
            "which distinguishes distributions in every respect that is not much finer than the "
            "bandwidth. The distance between two policies is the squared maximum mean discrepancy "
            "with a Gaussian kernel: 0 for equal distributions, at most 2.",
            "d(p, q) = ‖mean φ(p) − mean φ(q)‖² ≈ MMD²(p, q)",
            additive=True,
            influences=True,
            needs=frozenset({"actions"} if self.of == "state-actions" else ()),
        )

    def _fit(self, data: VisitedStates) -> None:
        super()._fit(data)
        rng = np.random.default_rng(self.random_state)
        normal = rng.normal(size=(len(self.center_), self.n_frequencies))
        rows = draw_rows(self.view_, data, self.n_median, rng)
        median = median_distance((rows - self.center_) / self.scale_)
        self.bandwidth_ = float(self.bandwidth or median)
        self.frequencies_ = normal / self.bandwidth_

    def _sums(self, rows: Floats, cuts: Cuts) -> Array:
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

    def _of_means(self, means: Array) -> Description:
        points = means / np.sqrt(self.n_frequencies)
        return points, points, {}


def median_distance(rows: Array) -> float:
    """Median Euclidean distance between two different rows; 1 if all are equal."""
    from scipy.spatial.distance import pdist

    distances = pdist(rows)
    positive = distances[distances > 0]
    return float(np.median(positive)) if len(positive) else 1.0


@dataclass(eq=False, repr=False)
class SlicedWasserstein(Standardised):
    """Quantiles of the standardized states along random directions.

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

    Examples
    --------
    >>> states = np.random.default_rng(0).normal(size=(500, 2))
    >>> data = VisitedStates.from_arrays([[states], [states + 1], [states + 2]])
    >>> d = SlicedWasserstein().fit(data).distances(data)
    >>> float((d[0, 2] / d[0, 1]).round(3))  # twice as far, squared
    4.0
    """

    name = "sliced-wasserstein"
    layout = Standardised.layout | {
        "learned.directions": "f8 D n_directions",
        "vectors": "f8 P n_directions*n_quantiles",
        "points": "?f8 P n_directions*n_quantiles",
    }

    n_directions: Count = 128
    _: KW_ONLY
    n_quantiles: Count = 64
    p: Literal[1, 2] = 2
    of: Of = "states"
    random_state: Seed = 0

    @property
    def traits(self) -> Traits:
        """Whether the distance is squared depends on ``p``, what is needed on ``of``."""
        return Traits(
            "The standardized states of each policy are projected onto random directions, and the "
            "policy is described by their quantiles along each. The distance between two policies "
            "is the mean squared difference of these: how far states have to be moved, on average, "
            "to turn one distribution into the other.",
            "d(p, q) = mean over directions and quantiles of |F⁻¹(p) − F⁻¹(q)|²",
            squared=self.p == 2,
            needs=frozenset({"actions"} if self.of == "state-actions" else ()),
        )

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

    def _project(self, x: Floats, out: Array) -> None:
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

    def _distances(self, a: Descriptions, b: Descriptions) -> Array:
        if self.p == 2:
            return super()._distances(a, b)
        [left], [right] = a.values("vectors"), b.values("vectors")
        return total_variation(left, right) * (2.0 / float(left.shape[1]))


def sorted_quantiles(values: Floats, n: int) -> Array:
    """Quantiles at (i + ½)/n of sorted rows, interpolated between their values (Hazen's rule)."""
    size = values.shape[1]
    places = np.clip((np.arange(n) + 0.5) / n * size - 0.5, 0, size - 1)
    below = np.floor(places).astype(np.intp)
    above = np.minimum(below + 1, size - 1)
    share = places - below
    return np.asarray(values[:, below] * (1.0 - share) + values[:, above] * share)
