"""Episodes as data points: whether two sets of them differ, and which kinds of them there are.

No average over time distinguishes a policy that mixes two habits within each episode from one that
has a habit per episode; the distributions of single episodes do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.statistics.intervals import (
    PermutationTest,
    benjamini_hochberg,
    permuted_divisions,
    share_as_large,
)
from pivec.statistics.pairwise import squared_euclidean

Array = NDArray[np.float64]
MOST_KINDS = 8
_SEPARATED = 0.25  # mean silhouette
_NORMALS, _NORMAL_ROWS = 19, 200  # samples of a normal distribution, and their size
_PER_KIND = 5  # episodes at least, on average


def mmd_test(
    a: Array,
    b: Array,
    permutations: int = 999,
    seed: int = 0,
    strata: NDArray[Any] | None = None,
) -> PermutationTest:
    """Test whether two sets of episodes have the same distribution, by permuting episodes.

    ``distance`` is the unbiased estimate (a U-statistic, which may be negative) of the squared
    maximum mean discrepancy, with a Gaussian kernel whose bandwidth is the median distance (Gretton
    et al. 2012).

    Parameters
    ----------
    a, b : (n_episodes, n_values) arrays
        Descriptions of single episodes, two or more of each policy.
    strata : (n_episodes,) array, optional
        Those of the episodes of either side, within which they are permuted.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> within = rng.normal(0.0, 0.1, (20, 1))  # both habits in every episode
    >>> across = rng.normal(0.0, 0.1, (20, 1)) + rng.permutation([-1.0, 1.0] * 10)[:, None]
    >>> mmd_test(within, across).p_value
    0.001
    """
    if min(len(a), len(b)) < 2:
        raise ValueError("expected at least two episodes of each policy")
    gram = gaussian_gram(np.concatenate([a, b]))
    np.fill_diagonal(gram, 0.0)
    rng = np.random.default_rng(seed)
    divisions = permuted_divisions(len(a), len(b), permutations, rng, strata)
    values = _u_statistics(gram, divisions)
    return PermutationTest(share_as_large(values - values.min()), float(values[0]), permutations)


def mmd_tests(
    episodes: Sequence[Array],
    pairs: Sequence[tuple[int, int]],
    permutations: int = 999,
    seed: int = 0,
    strata: NDArray[Any] | None = None,
) -> tuple[Array, Array, Array]:
    """Squared maximum mean discrepancies of pairs of policies, their p-values and q-values.

    ``episodes`` has the descriptions of each policy's episodes, ``pairs`` the numbers of policies.
    """
    tests = [mmd_test(episodes[i], episodes[j], permutations, seed, strata) for i, j in pairs]
    p = np.array([test.p_value for test in tests])
    return np.array([test.distance for test in tests]), p, benjamini_hochberg(p)


def gaussian_gram(points: Array) -> Array:
    """Gaussian kernel of all pairs of points, exp(−d² / median d²)."""
    squares = squared_euclidean(points, points)
    return np.asarray(np.exp(-squares / (np.median(squares[np.triu_indices(len(points), 1)]) or 1)))


def _u_statistics(gram: Array, divisions: NDArray[np.bool_]) -> Array:
    """Squared discrepancies of the two sides of each division; the gram's diagonal must be 0."""
    sides = divisions.astype(np.float64)
    n, m = sides[0].sum(), len(gram) - sides[0].sum()
    sums = sides @ gram
    within = np.einsum("de,de->d", sums, sides)
    left = sums.sum(axis=1)  # all products of the first side: within it, and with the second
    between, other = left - within, gram.sum() - 2.0 * left + within
    return np.asarray(within / (n * (n - 1)) + other / (m * (m - 1)) - 2.0 * between / (n * m))


@dataclass(frozen=True, eq=False)
class EpisodeClusters:
    """Clusters of episodes by their nearest centre, in the directions in which they differ most."""

    mean: Array  # (n_values,)
    axes: Array  # (n_values, n_directions)
    centres: Array  # (n_clusters, n_directions), that of the largest cluster first
    separation: float  # mean silhouette, from −1 to 1; NaN for one cluster

    def coordinates(self, points: Array) -> Array:
        """Coordinates of points in the directions in which they differ most."""
        return np.asarray((points - self.mean) @ self.axes)

    def assign(self, points: Array) -> tuple[NDArray[np.intp], Array]:
        """Return the cluster of each point, and the squared distance from its centre."""
        squares = squared_euclidean(self.coordinates(points), self.centres)
        kinds = squares.argmin(axis=1)
        return kinds, np.take_along_axis(squares, kinds[:, None], axis=1)[:, 0]


def cluster_episodes(points: Array, most: int = MOST_KINDS) -> EpisodeClusters:
    """Find kinds of episodes among descriptions (n_episodes, n_values).

    Ward's method in the first principal directions, as many as ``most`` clusters can differ in; the
    others are noise. The number of clusters is that with the largest mean silhouette (Rousseeuw
    1987). There is only one if that is below 0.25 (no substantial structure, Kaufman and Rousseeuw
    1990), or if the clusters of one of 19 samples of a normal distribution with the same variances
    are as far apart.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> points = rng.normal(np.repeat([[0.0], [3.0], [9.0]], 10, axis=0), 0.3, (30, 4))
    >>> np.bincount(cluster_episodes(points).assign(points)[0])
    array([10, 10, 10])
    """
    mean = points.mean(axis=0)
    _, scales, axes = np.linalg.svd(points - mean, full_matrices=False)
    scales, axes = scales[: most - 1], axes[: most - 1].T
    most = min(most, len(points) // _PER_KIND)
    centres, score = _best_cut((points - mean) @ axes, most)
    rng, shape = np.random.default_rng(0), (min(len(points), _NORMAL_ROWS), len(scales))
    normals = (scales * rng.normal(size=shape) for _ in range(_NORMALS))
    if score > _SEPARATED and score > max(_best_cut(rows, most)[1] for rows in normals):
        return EpisodeClusters(mean, axes, centres, score)
    return EpisodeClusters(mean, axes, np.zeros((1, len(scales))), np.nan)


def _best_cut(rows: Array, most: int) -> tuple[Array, float]:
    """Cut Ward's tree where the silhouette is largest; centres, the largest cluster first."""
    from scipy.cluster.hierarchy import fcluster, linkage

    best: tuple[Array, float] = np.zeros((1, rows.shape[1])), -1.0
    if most < 2:
        return best
    tree, distances = linkage(rows, "ward"), np.sqrt(squared_euclidean(rows))
    for number in range(2, most + 1):
        cut = fcluster(tree, number, "maxclust") - 1
        if cut.any() and (score := silhouette(distances, cut)) > best[1]:
            members = np.eye(cut.max() + 1)[cut]
            sizes = members.sum(axis=0)
            order = np.lexsort((members.argmax(axis=0), -sizes))
            best = (members.T @ rows / sizes[:, None])[order], score
    return best


def silhouette(distances: Array, clusters: NDArray[np.intp]) -> float:
    """Mean silhouette: 1 − a/b with the mean distances a to one's own and b to the nearest cluster.

    −(1 − b/a) where a > b, and 0 for a point that is alone.
    """
    rows = np.arange(len(clusters))
    members = np.eye(clusters.max() + 1)[clusters]
    sizes = members.sum(axis=0)
    sums = distances @ members
    own = sums[rows, clusters] / np.maximum(sizes[clusters] - 1.0, 1.0)
    means = np.divide(sums, sizes, out=np.full_like(sums, np.inf), where=sizes > 0.0)
    means[rows, clusters] = np.inf
    other = means.min(axis=1)
    larger = np.maximum(own, other)
    widths = np.divide(other - own, larger, out=np.zeros_like(own), where=larger > 0.0)
    return float(np.where(sizes[clusters] > 1.0, widths, 0.0).mean())


def is_rate(values: ArrayLike) -> bool:
    """Whether the known numbers, of which there are some, are all 0 or 1."""
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    return len(known) > 0 and bool(np.isin(known, (0.0, 1.0)).all())


def outcome_intervals(values: Array, rate: bool, level: float = 0.95) -> tuple[float, float, float]:
    """Mean of the known numbers with its confidence interval; NaN where there are too few.

    That of a ``rate`` is Wilson's, others are Student's.
    """
    from scipy.special import stdtrit

    known = values[~np.isnan(values)]
    n, mean = len(known), float(known.mean()) if len(known) else np.nan
    if rate and n:
        low, high = wilson_intervals(known.sum(), n, level)
        return mean, float(low), float(high)
    if n < 2:
        return mean, np.nan, np.nan
    reach = float(stdtrit(n - 1.0, (1.0 + level) / 2.0) * known.std(ddof=1) / np.sqrt(n))
    return mean, mean - reach, mean + reach


def difference_intervals(
    values: Sequence[Array],
    intervals: Array,
    i: NDArray[np.intp],
    j: NDArray[np.intp],
    level: float = 0.95,
    *,
    paired: bool = False,
) -> tuple[Array, Array, Array, Array]:
    """Differences of means i[k] − j[k], the ends of their intervals, and p-values of no difference.

    From the means and ends of both, ``intervals`` (3, n), as Newcombe (1998) combines Wilson's and
    Zou and Donner (2008) any others; if episodes are ``paired``, with the correlation of ``values``
    in pairs in which both are known. An interval excludes 0 if its p-value is below 1 − ``level``.
    """
    from scipy.special import ndtr, ndtri

    mean, low, high = intervals
    below, above, correlation = mean - low, high - mean, np.zeros(len(i))
    if paired:
        for k, (a, b) in enumerate(zip(i.tolist(), j.tolist(), strict=True)):
            known = ~np.isnan(values[a] + values[b])
            x, y = values[a][known], values[b][known]
            if len(x) > 1 and np.ptp(x) > 0.0 and np.ptp(y) > 0.0:
                correlation[k] = np.corrcoef(x, y)[0, 1]

    def reach(own: Array, other: Array) -> Array:
        both = own**2 + other**2 - 2.0 * correlation * own * other
        return np.sqrt(np.maximum(both, 0.0))

    difference = mean[i] - mean[j]
    down, up = reach(below[i], above[j]), reach(above[i], below[j])
    to_zero = np.where(difference > 0.0, down, up)
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations = np.where(difference == 0.0, 0.0 * to_zero, abs(difference) / to_zero)
    p_values = 2.0 * ndtr(ndtri((1.0 - level) / 2.0) * deviations)
    return difference, difference - down, difference + up, p_values


def wilson_intervals(
    counts: ArrayLike, totals: ArrayLike, level: float = 0.95
) -> tuple[Array, Array]:
    """Confidence intervals of shares (Wilson 1927).

    Examples
    --------
    >>> [end.round(3).tolist() for end in wilson_intervals([0, 5], 10)]
    [[0.0, 0.237], [0.278, 0.763]]
    """
    from scipy.special import ndtri

    n, z = np.asarray(totals, np.float64), float(ndtri((1.0 + level) / 2.0))
    share = np.asarray(counts) / n
    middle = (share + z**2 / (2.0 * n)) / (1.0 + z**2 / n)
    reach = z * np.sqrt(share * (1.0 - share) / n + z**2 / (4.0 * n**2)) / (1.0 + z**2 / n)
    return np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)
