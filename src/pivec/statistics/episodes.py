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
    LEVEL,
    RATE,
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
_NEIGHBOURS = 20  # of which the farther ones say how densely episodes lie
_IN_GROUP = 3  # nearly equal others that an episode may have
_NEARLY = 0.1  # times as far as the next other episode
_WIDTH = 128  # random directions in which many values are compared
_WAVES = 4  # of a smooth change over the order
_MISSED = 0.01  # share of the time that another sample of the same episodes would not reach
_FEWEST = 3  # episodes nearby, for the low end of what is reached


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


def order_test(
    points: Array, permutations: int = 999, seed: int = 0, *, single: bool = False
) -> PermutationTest:
    """Test whether episodes depend on their order, by permuting it.

    ``distance`` is the dependence of the Gaussian kernel of points on slow changes over the order,
    Σ_m φ_mᵀ K φ_m / (n m)² with the cosines φ_m of m half waves (a Hilbert-Schmidt independence
    criterion, Gretton et al. 2005). With ``single``, it is the largest among the columns of points,
    standardized, with K the products of a column: a change of one value is then not hidden by
    others that vary.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=(60, 2))
    >>> order_test(noise).p_value > 0.05
    True
    >>> order_test(noise + np.linspace(0, 2, 60)[:, None]).p_value
    0.001
    """
    n, number = len(points), np.arange(1, _WAVES + 1)
    waves = np.cos(np.pi * np.outer((np.arange(n) + 0.5) / n, number)) / (n * number)
    if single:
        deviations = points.std(axis=0)
        columns = (points - points.mean(axis=0)) / np.where(deviations > 0.0, deviations, 1.0)
    else:
        gram = gaussian_gram(points)

    def dependence(own: Array) -> float:
        if single:
            return float(((columns.T @ own) ** 2).sum(axis=1).max())
        return float((gram @ own * own).sum())

    rng = np.random.default_rng(seed)
    orders = [np.arange(n), *(rng.permutation(n) for _ in range(permutations))]
    values = np.array([dependence(waves[order]) for order in orders])
    values = values.round(12)  # of equal episodes nothing but rounding is left
    return PermutationTest(share_as_large(values), float(values[0]), permutations)


def near_duplicates(points: Array) -> tuple[NDArray[np.intp], NDArray[np.intp], Array, Array]:
    """Find points that are much nearer to each other than chance explains, at most 3 others each.

    Where points lie at random in any number of dimensions, the logarithms of the distances r_j to
    the k nearest others have independent exponential gaps, j log(r_{j+1}/r_j), of one mean (that
    of the maximum-likelihood dimension of Levina and Bickel 2004). The gap after the g-th neighbour
    is therefore compared with the mean of those farther out, by an F test that is exact for points
    of locally constant density, whatever that and the dimension are. The first g neighbours are
    near-duplicates if the next one is at least ten times as far, at a false discovery rate of 5 %.

    Parameters
    ----------
    points : (n, n_values) array
        No two of which should be the same.

    Returns
    -------
    rows, others : (m,) arrays of int
        Pairs of near-duplicates.
    nearest, next : (n,) arrays
        The distance of each point from the nearest other one, and from the nearest that is not its
        near-duplicate.

    Examples
    --------
    >>> points = np.random.default_rng(0).normal(size=(50, 6))
    >>> points[7] = points[3] + 1e-3
    >>> [pairs.tolist() for pairs in near_duplicates(points)[:2]]
    [[3, 7], [7, 3]]
    """
    from sklearn.neighbors import NearestNeighbors

    n, k = len(points), min(_NEIGHBOURS, len(points) - 1)
    most = min(_IN_GROUP, k // 2 - 1)
    if most < 1:
        nothing = np.empty(0, np.intp)
        return nothing, nothing, np.full(n, np.nan), np.full(n, np.nan)
    if points.shape[1] > _WIDTH:  # Johnson and Lindenstrauss 1984: within about 10 %
        directions = np.random.default_rng(0).normal(size=(points.shape[1], _WIDTH))
        points = points @ (directions / np.sqrt(_WIDTH))
    near = NearestNeighbors(n_neighbors=k + 1).fit(points).kneighbors(points, return_distance=False)
    # From differences, which keep the digits of small distances.
    distances = np.stack([np.linalg.norm(points[own] - points, axis=1) for own in near.T], axis=1)
    distances[near == np.arange(n)[:, None]] = -1.0
    order = np.argsort(distances, axis=1, kind="stable")[:, 1:]
    near, distances = (np.take_along_axis(rows, order, axis=1) for rows in (near, distances))
    least = 1e-12 * np.sqrt(points.var(axis=0).sum()) or 1.0
    gaps = np.diff(np.log(np.maximum(distances, least)), axis=1) * np.arange(1, k)
    sums = gaps[:, ::-1].cumsum(axis=1)[:, ::-1]  # of this gap and those farther out
    after = np.arange(1, most + 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = (1.0 + gaps[:, :most] / sums[:, after]) ** -(k - 1.0 - after)
    near_enough = distances[:, :most] <= _NEARLY * distances[:, after]
    p = np.where(near_enough & (gaps[:, :most] > 0.0), p, 1.0)
    found = benjamini_hochberg(np.minimum(most * p.min(axis=1), 1.0)) <= RATE
    sizes = np.where(found, p.argmin(axis=1) + 1, 0)
    rows = np.repeat(np.arange(n), sizes)
    others = near[:, :most][np.arange(most) < sizes[:, None]]
    return rows, others, distances[:, 0], distances[np.arange(n), sizes]


@dataclass(frozen=True)
class Reached:
    """The share of time of some episodes that others reach, with the ends of its interval."""

    share: float
    low: float
    high: float
    resolution: float  # share of the episodes that visit the rarest places it can be known of


def reached_share(a: Array, b: Array, level: float = LEVEL) -> Reached | None:
    """Estimate the share of the time of episodes ``b`` that is in places which ``a`` visits.

    A state is reached if an episode of ``a`` comes as near as the k-th nearest other episode of
    ``b`` (the coverage of Naeem et al. 2020, with episodes as samples). k is the least with which
    two samples of the same behaviour miss at most 1 % of each other, which is corrected for. The
    variance is that of leaving out each episode of either side, and the interval is Wilson's for a
    share with this variance. Where k is more than a tenth of the episodes of ``b``, its low end is
    that for k = 3 if lower, since the k-th nearest may be far from places that few of them visit.

    Parameters
    ----------
    a, b : (n_episodes, n_times, n_features) arrays
        States of episodes at random times.

    Returns
    -------
    Reached or None
        None if there are too few episodes: k is more than a third of those of ``b``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(0.0, 1.0, (100, 10, 2))
    >>> b = rng.normal(0.0, 1.0, (100, 10, 2))
    >>> b[:, :2] += 20.0
    >>> round(reached_share(a, b).share, 1), round(reached_share(b, a).share, 1)
    (0.8, 1.0)
    """
    (n_a, times, _), n_b = a.shape, len(b)
    # Of n_a + n_b − 1 episodes alike, the k nearest are all of b.
    misses = np.cumprod([(n_b - 1 - j) / (n_a + n_b - 1 - j) for j in range(n_b - 1)] or [1.0])
    k = int((misses > _MISSED).sum()) + 1
    if 3 * k > n_b:
        return None
    ranks = sorted({_FEWEST, k}) if _FEWEST < k > n_b / 10 else [k]
    shares = np.zeros((len(ranks), n_b))
    losses, gains = np.zeros((len(ranks), n_a)), np.zeros((len(ranks), n_b))
    for e in range(n_b):
        own, from_a = (_nearest_states(b[e], side) for side in (b, a))
        own[:, e] = np.inf
        order = np.argpartition(own, [*(rank - 1 for rank in ranks), *ranks], axis=1)
        who, (first, second) = from_a.argmin(axis=1), np.partition(from_a, 1, axis=1)[:, :2].T
        for i, rank in enumerate(ranks):
            radius, next_radius = (own[np.arange(times), order[:, j]] for j in (rank - 1, rank))
            hit = first <= radius
            shares[i, e] = hit.mean()
            np.add.at(losses[i], who[hit & (second > radius)], 1.0 / times)
            more = order[~hit & (first <= next_radius), :rank]
            np.add.at(gains[i], more, 1.0 / times)
    ends = []
    for i, rank in enumerate(ranks):
        share, kept = shares[i].mean(), 1.0 - misses[rank - 1]
        variance = _jackknife(share - losses[i] / n_b)
        variance += _jackknife((n_b * share - shares[i] + gains[i]) / (n_b - 1))
        share = min(share / kept, 1.0)
        effective = n_b
        if variance > 0.0 and 0.0 < share < 1.0:
            effective = share * (1.0 - share) / variance
        ends.append((share, *wilson_intervals(share * effective, effective, level)))
    share, low, high = map(float, ends[-1])
    return Reached(share, min(low, float(ends[0][1])), high, k / n_b)


def _nearest_states(states: Array, episodes: Array) -> Array:
    """Squared distances of states from the nearest state of each episode, (n, n_episodes)."""
    squares = squared_euclidean(states, episodes.reshape(-1, episodes.shape[2]))
    return np.asarray(squares.reshape(len(states), *episodes.shape[:2]).min(axis=2))


def _jackknife(left_out: Array) -> float:
    """Variance of an estimate from its values without each of the samples."""
    n = len(left_out)
    return float((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum())


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
    # Exactly 0 and 1 where rounding would leave 1e-16.
    low = np.where(np.asarray(counts) == 0.0, 0.0, np.maximum(middle - reach, 0.0))
    return low, np.where(share == 1.0, 1.0, np.minimum(middle + reach, 1.0))
