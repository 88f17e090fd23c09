"""Views of two policies: each describes an episode by numbers, and policies by their means.

The distance in a view is a squared Hellinger distance h² of two distributions, most often of shares
p and q over bins, ½ Σ (√p − √q)². It bounds the total variation from both sides,
h² ≤ TV ≤ √(h² (2 − h²)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData
from pivec.states import VisitedStates
from pivec.statistics.episodes import is_rate, wilson_intervals
from pivec.statistics.intervals import (
    NO_SPREAD,
    Intervals,
    block_intervals,
    intervals_of,
    mean_differences,
    paired_spread,
    permuted_divisions,
    share_as_large,
)
from pivec.text import percent, rounded

Array = NDArray[np.float64]

_PRIOR = 0.01  # share of time in the pooled shares, added to both: roots are not smooth at 0
# Edges of bins of the states of both policies. The outer ones are for rare values.
_QUANTILES = (0.02, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 0.98)
_EPISODE_QUANTILES = (1 / 3, 2 / 3)  # of episodes, of which there are fewer
_KINDS = 8  # clusters of episodes at most
OF_A_KIND = 12  # episodes that a policy needs for each of them
_PAIR_QUANTILES = (1 / 3, 2 / 3)  # of both features of a pair
PAIRED = 40  # features of which all pairs are compared
_LARGE = 1000.0  # non-centrality of a χ²
_ROUNDING = 1e-12  # of the mean square of influences
_ROWS = 100_000  # states from which bins are computed


@dataclass(frozen=True)
class View:
    """One view of two policies."""

    name: str
    episodes: tuple[Array, Array]  # numbers per episode, (n_episodes, n_values)
    points: Callable[[Array], Array]  # from means of them, (n, n_values), to points
    words: str = ""  # what differs, in the environment's units
    group: str = ""  # "features" or "pairs", of which there are many
    by_episode: bool = False  # whether each episode is in one bin
    # From what it is made of to numbers per episode, for other episodes in the same bins.
    code: Callable[[Any], Array] = np.asarray
    source: str = ""  # what it is made of, if its group or name does not say


def share_view(
    name: str, a: Array, b: Array, words: str = "", group: str = "", *, by_episode: bool = False
) -> View:
    """Return a view of shares over bins, (n_episodes, n_bins)."""
    pooled = _PRIOR * (a.mean(axis=0) + b.mean(axis=0)) / 2.0

    def points(shares: Array) -> Array:
        return np.asarray(np.sqrt((shares + pooled) / (2.0 * (1.0 + _PRIOR))))

    return View(name, (a, b), points, words, group, by_episode)


def feature_views(
    a: VisitedStates, b: VisitedStates, names: Sequence[str], units: Sequence[str]
) -> list[View]:
    """Return the marginal distribution of each feature of two policies, in quantile bins."""
    sampled = [_sample(side) for side in (a, b)]
    views = []
    for column, (name, unit) in enumerate(zip(names, units, strict=True)):
        left, right = (rows[:, column] for rows in sampled)
        edges = _edges(left, right, _QUANTILES)
        code = partial(_feature_shares, column, edges)
        view = share_view(name, code(a), code(b), _words(left, right, unit), "features")
        views.append(replace(view, code=code))
    return views


def _feature_shares(column: int, edges: Array, data: VisitedStates) -> Array:
    return _bin_shares(data, np.searchsorted(edges, data.states[:, column]), len(edges) + 1)


def pair_views(a: VisitedStates, b: VisitedStates, names: Sequence[str]) -> list[View]:
    """Return how each two of the first features occur together, in 3 × 3 quantile bins."""
    left, right = (_sample(side)[:, : len(names)] for side in (a, b))
    edges = [_edges(x, y, _PAIR_QUANTILES) for x, y in zip(left.T, right.T, strict=True)]
    bins = [_feature_bins(edges, side) for side in (a, b)]
    with np.errstate(invalid="ignore", divide="ignore"):  # of constant features
        correlations = [
            np.reshape(np.corrcoef(rows.T), 2 * (len(names),)) for rows in (left, right)
        ]
    views = []
    for i, j in combinations(range(len(names)), 2):
        own = partial(_pair_shares, (i, j), edges)
        shares = [own(side, side_bins) for side, side_bins in zip((a, b), bins, strict=True)]
        words = " and ".join(f"{c[i, j]:.2f}" for c in correlations)
        name = f"{names[i]} & {names[j]}"
        view = share_view(name, shares[0], shares[1], f"correlation {words}", "pairs")
        views.append(replace(view, code=own))
    return views


def _feature_bins(edges: Sequence[Array], data: VisitedStates) -> list[NDArray[np.intp]]:
    return [np.searchsorted(own, data.states[:, j]) for j, own in enumerate(edges)]


def _pair_shares(
    pair: tuple[int, int],
    edges: Sequence[Array],
    data: VisitedStates,
    bins: Sequence[NDArray[np.intp]] | None = None,
) -> Array:
    i, j = pair
    bins = _feature_bins(edges, data) if bins is None else bins
    n = len(edges[j]) + 1
    return _bin_shares(data, bins[i] * n + bins[j], (len(edges[i]) + 1) * n)


def episode_view(name: str, a: Array, b: Array) -> View:
    """Return the distribution of a number per episode, such as its length, return or success."""
    edges = _edges(a, b, _EPISODE_QUANTILES)

    def code(values: Array) -> Array:
        if unknown := int(np.isnan(values).sum()):
            raise BadData(f"{name} is not known of {unknown} of {len(values)} episodes")
        return np.eye(len(edges) + 1)[np.searchsorted(edges, values)]

    words = _words(a, b)
    if is_rate(np.concatenate([a, b])):
        ends = wilson_intervals([a.sum(), b.sum()], [len(a), len(b)])
        shares = zip((a.mean(), b.mean()), *ends, strict=True)
        words = " and ".join(
            f"{percent(share)} ({percent(low)} to {percent(high)})" for share, low, high in shares
        )
    return replace(share_view(name, code(a), code(b), words, by_episode=True), code=code)


def kinds_view(a: Array, b: Array, of_a_kind: int = OF_A_KIND) -> View:
    """Return the shares of kinds of episodes: clusters of their descriptions (n, n_values).

    There are fewer kinds if either policy has fewer than ``of_a_kind`` episodes for each.
    """
    from sklearn.cluster import KMeans

    both = np.concatenate([a, b])
    n_kinds = min(_KINDS, max(2, min(len(a), len(b)) // of_a_kind), len(np.unique(both, axis=0)))
    model = KMeans(n_kinds, n_init=10, random_state=0).fit(both)
    left, right = np.split(np.eye(n_kinds)[model.labels_], [len(a)])
    shares = left.mean(axis=0), right.mean(axis=0)
    most = int(np.abs(np.sqrt(shares[0]) - np.sqrt(shares[1])).round(6).argmax())
    words = " and ".join(f"{100 * side[most]:.0f} %" for side in shares)
    words = f"one of {n_kinds} kinds of episodes: {words}" if shares[0][most] < 1 else ""
    view = share_view("kinds", left, right, words, by_episode=True)
    return replace(view, code=lambda rows: np.eye(n_kinds)[model.predict(rows)])


def view_intervals(view: View, level: float, strata: NDArray[Any] | None = None) -> Intervals:
    """Intervals of the distance in a view, each array of shape (1,); see `with_upper_bounds`.

    ``strata`` are those of the pairs of episodes that the two policies have, if these are paired.
    """
    return with_upper_bounds(*measured_view(view, level, strata))


def measured_view(
    view: View, level: float, strata: NDArray[Any] | None = None
) -> tuple[Intervals, Array]:
    """Intervals of the distance in a view, (1,), and the slope of its variance."""
    points, moved = [], []
    for rows in view.episodes:
        points.append(view.points(rows.mean(axis=0, keepdims=True)))
        moved.append(_influences(rows, view.points)[None] if len(rows) > 1 else rows[None, :0])
    freedom = [len(rows) - 1.0 for rows in view.episodes]
    if strata is not None:
        only = np.zeros(1, np.intp)
        sides = [list(rows) for rows in moved]
        variance, spread = paired_spread(sides, points, only, only, strata)
        squares = np.sum((points[0] - points[1]) ** 2, axis=1)
        found = intervals_of(squares, variance, spread, NO_SPREAD, level)
        return found, variance_slope(found)
    found, _ = block_intervals(points[0] - points[1], moved, freedom, level)
    if not view.by_episode:
        return found, variance_slope(found)
    # Roots of such shares vary equally in all directions, of which there is one fewer than bins.
    bins = int(np.any(np.concatenate(view.episodes), axis=0).sum())
    scale = found.noise / max(bins - 1, 1)
    return replace(found, second=2.0 * scale * found.noise), 4.0 * scale


def with_upper_bounds(found: Intervals, slope: Array | None = None) -> Intervals:
    """Replace the upper ends of intervals (of squares) by those of a noncentral χ².

    The measured distance d is a scaled χ² with the noise and the variance slope · d + second of
    `intervals_of`, whose noncentrality is the distance. Its lower tail is thinner than that of a
    normal distribution, so that fewer episodes show that a distance is small: a quarter fewer with
    five directions of noise. A distance below 0 counts as 0.
    """
    slope = variance_slope(found) if slope is None else slope
    level = (1.0 + found.level) / 2.0
    parts = map(np.ravel, (found.distance, slope, found.second))
    ends = [chi2_bound(d, r, s, level) for d, r, s in zip(*parts, strict=True)]
    return replace(found, high=np.reshape(ends, found.high.shape))


def variance_slope(found: Intervals) -> Array:
    """Slope of the variance of a distance, slope · distance + second; see `intervals_of`."""
    squares = found.distance + found.noise
    variance = found.first + found.second
    slope = np.divide(variance, squares, out=np.zeros_like(squares), where=squares > 0.0)
    return np.minimum(slope, 4.0 * np.sqrt(found.second / 2.0))


def noncentral(distance: Any, slope: Any, second: Any) -> tuple[Any, Any, Any]:
    """Return a measured distance as a χ²: what was drawn, its scale and degrees of freedom.

    With c = slope/4 and k = second/(2c²), (estimate + c·k)/c is a χ² with k degrees of freedom and
    noncentrality distance/c, of just the estimate's mean and variance.
    """
    scale = slope / 4.0
    freedom = second / (2.0 * scale**2)
    return np.maximum(distance, 0.0) / scale + freedom, scale, freedom


def chi2_bound(distance: float, slope: float, second: float, level: float) -> float:
    """Upper bound of a distance whose estimate has the variance slope · distance + second."""
    from scipy.optimize import brentq
    from scipy.stats import ncx2, norm

    if not np.isfinite(second) or slope <= 0.0 or second <= 0.0:
        return float(max(distance, 0.0) + norm.ppf(level) * np.sqrt(second))
    drawn, scale, freedom = noncentral(distance, slope, second)
    if drawn > _LARGE:  # where the χ² is normal, and takes long to compute
        error = np.sqrt(slope * max(distance, 0.0) + second)
        return float(max(distance, 0.0) + norm.ppf(level) * error)

    def tail(center: float) -> float:
        return float(ncx2.cdf(drawn, freedom, center)) - (1.0 - level)

    return float(scale * brentq(tail, 0.0, 4.0 * drawn + 100.0))


def pooled_influences(view: View) -> Array:
    """Influence of each episode on the points of all episodes of both policies together."""
    return _influences(np.concatenate(view.episodes), view.points)


def _influences(rows: Array, points: Callable[[Array], Array]) -> Array:
    """Jackknife: how each of several episodes moves the points of their mean."""
    m = len(rows)
    rests = points((rows.sum(axis=0) - rows) / (m - 1))
    return np.asarray((m - 1) * (rests.mean(axis=0) - rests))


def joint_test(
    views: Sequence[Array],
    n_a: int,
    permutations: int,
    seed: int,
    strata: NDArray[Any] | None = None,
) -> float:
    """p-value of equal behaviour in all views, each given by the influences of all episodes.

    Episodes are permuted, within ``strata`` if given, and the smallest p-value over the views
    counts (Westfall and Young 1993), so that the result holds for all views together. The p-values
    of views are those of χ² with the mean and variance of the permuted distances (Satterthwaite
    1946), which only decide what counts as how unusual in which view.
    """
    from scipy.stats import chi2

    n_b, rng = len(views[0]) - n_a, np.random.default_rng(seed)
    divisions = permuted_divisions(n_a, n_b, permutations, rng, strata)
    largest = np.full(len(divisions), -np.inf)
    for influences in views:
        distances = mean_differences(influences, divisions)
        mean, variance = distances.mean(), distances.var()
        square = np.einsum("nd,nd->", influences, influences) / len(influences)
        if np.sqrt(variance) > _ROUNDING * square:
            unusual = -chi2.logsf(2.0 * distances * mean / variance, 2.0 * mean**2 / variance)
            largest = np.maximum(largest, unusual)
    return 1.0 if np.isinf(largest[0]) else share_as_large(largest)


def kernel_embedding(rows: Array) -> Array:
    """Points of episodes whose squared mean difference is the maximum mean discrepancy.

    A Gaussian kernel of the descriptions with the median distance as bandwidth (Gretton et al.
    2012), centred and factorized.
    """
    squares = np.einsum("nd,nd->n", rows, rows)
    distances = np.maximum(squares[:, None] + squares - 2.0 * rows @ rows.copy().T, 0.0)
    median = np.median(distances[np.triu_indices(len(rows), 1)]) or 1.0
    kernel = np.exp(-distances / median)
    kernel -= kernel.mean(axis=0)
    kernel -= kernel.mean(axis=1)[:, None]
    values, vectors = np.linalg.eigh((kernel + kernel.T) / 2.0)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _words(a: NDArray[Any], b: NDArray[Any], unit: str = "") -> str:
    """Means and standard deviations of both policies."""
    sides = " and ".join(
        f"{rounded(float(np.mean(x)), 3)} ± {rounded(float(np.std(x)), 2)}" for x in (a, b)
    )
    return f"mean ± SD {sides} {unit}".rstrip()


def _sample(data: VisitedStates) -> NDArray[np.float32]:
    rows = np.linspace(0, data.n_states - 1, min(_ROWS, data.n_states)).astype(np.int64)
    return data.take(rows)


def _edges(a: NDArray[Any], b: NDArray[Any], quantiles: Sequence[float]) -> Array:
    """Edges between bins at quantiles of both sides together, or between few values."""
    both = np.concatenate([np.resize(side, max(len(a), len(b))) for side in (a, b)])
    values = np.unique(both)
    if len(values) <= len(quantiles) + 1:
        return np.asarray((values[1:] + values[:-1]) / 2.0)
    return np.unique(np.quantile(both, quantiles))


def _bin_shares(data: VisitedStates, bins: NDArray[np.intp], n_bins: int) -> Array:
    """Share of time that each episode spends in each bin, (n_episodes, n_bins)."""
    episode = np.repeat(np.arange(data.n_episodes), data.lengths)
    counts = np.bincount(episode * n_bins + bins, minlength=data.n_episodes * n_bins)
    return np.asarray(counts.reshape(data.n_episodes, -1) / data.lengths[:, None])
