"""Groups of policies: differences between groups of runs, their diversity, behaviour classes.

A run, not a policy or an episode, is the independent sample of a group: checkpoints of a run
resemble each other however many there are. Distances are squared, so that half the mean over a set
is its variance, and without sampling noise (`Intervals.distance`); some may be slightly below 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.policies import natural_key
from pivec.statistics.equivalence import MARGIN
from pivec.statistics.intervals import LEVEL, RATE

Array = NDArray[np.float64]
_MAX_EXACT = 20_000  # assignments that are all tried: two groups of eight have 12,870
_ROUNDING = 1e-9  # relative; statistics of assignments that differ by less count as equal


@dataclass(frozen=True)
class Estimate:
    """A number with its interval, NaN if there are too few runs."""

    value: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Permanova:
    """The outcome of `permanova`."""

    f: float  # Welch's F: distances between the means of groups over the spread within each
    r2: float  # share of the variance between runs that the groups explain
    chance_r2: float  # what a random division into groups of these sizes explains on average
    p_value: float  # how often a random division gives as large an F
    least_p: float  # the smallest possible p-value with this many runs
    assignments: int  # divisions tried
    exact: bool  # whether these were all


def shares_of(members: Sequence[int]) -> Array:
    """Weight of each policy in its run's mean, (n_runs, n); ``members`` has the run of each."""
    numbers = np.asarray(members)
    shares = (numbers == np.arange(numbers.max() + 1)[:, None]).astype(np.float64)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def run_distances(squares: Array, shares: Array) -> Array:
    """Squared distances between the mean behaviours of runs, (n_runs, n_runs).

    The mean distance between two runs, minus half the mean within each. Every policy of a run
    counts the same; how much a run changes does not count.
    """
    means = shares @ squares @ shares.T
    own = np.diag(means)
    return np.asarray(means - (own[:, None] + own) / 2.0)


def permanova(
    squares: Array,
    groups: Sequence[int],
    permutations: int = 999,
    seed: int = 0,
    noise: Array | float = 0.0,
) -> Permanova:
    """Test whether groups of runs differ, by permuting runs between them (Anderson 2001).

    The statistic is Welch's (W*_d of Hamidi et al. 2019), so that groups that differ in spread and
    size, but not in their means, seldom give a small p-value. Runs are permuted twice: as they are,
    and after scaling deviations from the common mean so that all groups have the same spread. The
    p-value is the larger one; see benchmarks/groups.py for its level and power.

    Tries all divisions of the runs into groups of these sizes, or this many ``permutations`` if
    there are more than 20,000. ``squares`` are the squared distances between runs, (n, n),
    ``groups`` the group of each, from 0, and ``noise`` is what was subtracted from ``squares``.

    Examples
    --------
    >>> x = np.array([0.0, 1.0, 2.0, 7.0, 8.0, 9.0])
    >>> test = permanova((x[:, None] - x) ** 2, [0, 0, 0, 1, 1, 1])
    >>> test.p_value, test.least_p, round(test.r2, 2), test.exact
    (0.1, 0.1, 0.95, True)
    """
    labels = np.asarray(groups)
    sizes = np.bincount(labels)
    n, n_groups = len(labels), len(sizes)
    if n_groups < 2 or n <= n_groups:
        raise ValueError("expected at least two groups, and at least one of them with several runs")
    ways = math.factorial(n) // math.prod(math.factorial(size) for size in sizes.tolist())
    exact = ways <= _MAX_EXACT
    if exact:
        divisions = np.array(list(_assignments(sizes.tolist())))
    else:
        drawn = np.tile(labels, (permutations, 1))
        divisions = np.random.default_rng(seed).permuted(drawn, axis=1)
    # The true division comes first. Spread includes noise, without which it might not be positive.
    divisions = np.concatenate([labels[None], divisions])
    products = _centred(squares + noise, np.full(n, 1.0 / n))
    f, spread = _welch(products, divisions, sizes, np.ones(n_groups))
    references = [f]
    if sizes.min() > 1:
        weights = 1.0 / spread[:, 0]
        products = _centred(squares + noise, weights[labels] / (weights @ sizes))
        deviations = np.bincount(labels, np.diag(products)) / sizes
        scales = np.sqrt(np.maximum(deviations, _least(deviations.mean())))
        products = products / np.outer(scales[labels], scales[labels])
        references.append(_welch(products, divisions, sizes, scales)[0])
    as_good = max(int((tried[1:] >= tried[0] * (1.0 - _ROUNDING)).sum()) for tried in references)
    # Exchanging groups of equal size gives the same division.
    same = math.prod(math.factorial(times) for times in Counter(sizes.tolist()).values())
    total = float(squares.sum()) / (2 * n)
    member = labels == np.arange(n_groups)[:, None]
    within = float(np.einsum("gr,rs,gs->g", member, squares, member) @ (0.5 / sizes))
    return Permanova(
        f=float(f[0]),
        r2=min(max(1.0 - within / total, 0.0), 1.0) if total > 0 else 0.0,
        chance_r2=(n_groups - 1) / (n - 1),
        p_value=as_good / ways if exact else (1 + as_good) / (1 + permutations),
        least_p=same / ways if exact else max(same / ways, 1 / (1 + permutations)),
        assignments=len(divisions) - 1,
        exact=exact,
    )


def runs_needed(sizes: Sequence[int], rate: float = RATE) -> int:
    """Least number of runs in each of several groups with which p can be at most ``rate``.

    No fewer than the largest group has.

    Examples
    --------
    >>> runs_needed([3, 3]), runs_needed([1, 1, 1])
    (4, 3)
    """
    n, k = max(sizes), len(sizes)
    while math.factorial(n) ** k * math.factorial(k) > rate * math.factorial(n * k):
        n += 1
    return n


def _centred(squares: Array, weights: Array) -> Array:
    """Products of deviations from the weighted mean, from squared distances (Gower 1966)."""
    means = squares @ weights
    return np.asarray((means[:, None] + means - squares - weights @ means) / 2.0)


def _least(spread: Any) -> Any:
    """The smallest spread of a group, whose runs may all be the same."""
    return np.maximum(_ROUNDING * spread, 1e-100)


def _welch(
    products: Array, divisions: NDArray[np.int_], sizes: NDArray[np.int_], scales: Array
) -> tuple[Array, Array]:
    """Welch's F of each division, (d,), and the spread of its groups, (groups, d).

    ``products`` are those of deviations, which ``scales`` multiply in each group. A group of one
    run has the pooled spread of the others.
    """
    k, n = len(sizes), int(sizes.sum())
    member = (divisions == np.arange(k)[:, None, None]).astype(np.float64)
    sums = np.einsum("gdr,hdr->ghd", member @ products, member)
    sums *= np.multiply.outer(scales, scales)[:, :, None]
    squares = (scales**2)[:, None] * (member @ np.diag(products))
    own, counts = np.einsum("ggd->gd", sums), sizes[:, None]
    within = squares - own / counts
    pooled = within.sum(axis=0) / (n - k)
    spread = np.where(counts > 1, within / np.maximum(counts - 1, 1), pooled)
    spread = np.maximum(spread, _least(squares.sum(axis=0) / n))
    precision = counts / spread
    total = precision.sum(axis=0)
    weights = precision / total
    means = own / counts**2
    apart = means[:, None] + means - 2.0 * sums / (counts * sizes)[:, :, None]
    between = total * np.einsum("gd,hd,ghd->d", weights, weights, apart) / (2.0 * (k - 1))
    freedom = np.where(counts > 1, counts - 1, n - k)
    few = 2.0 * (k - 2) / (k**2 - 1) * ((1.0 - weights) ** 2 / freedom).sum(axis=0)
    return np.maximum(between, 0.0) / (1.0 + few), spread


def _assignments(sizes: list[int]) -> Iterator[list[int]]:
    """Yield all divisions into groups of these sizes."""
    n = sum(sizes)

    def fill(division: list[int], group: int) -> Iterator[list[int]]:
        free = [i for i in range(n) if division[i] < 0]
        if group == len(sizes) - 1:
            yield [group if number < 0 else number for number in division]
            return
        for chosen in combinations(free, sizes[group]):
            filled = division.copy()
            for i in chosen:
                filled[i] = group
            yield from fill(filled, group + 1)

    yield from fill([-1] * n, 0)


def mean_within(squares: Array, noise: Array, level: float = LEVEL) -> Estimate:
    """Mean squared distance between the runs of a group, from their matrix, (n, n).

    ``noise`` is what was subtracted from ``squares``.
    """
    n = len(squares)
    if n < 2:
        return Estimate(math.nan)
    raw, pairs = squares + noise, n * (n - 1)
    left_out = [(raw.sum() - 2 * raw.sum(axis=1)) / (pairs - 2 * (n - 1))] if n > 2 else []
    return _estimate(float(raw.sum()) / pairs, float(noise.sum()) / pairs, left_out, level)


def mean_between(squares: Array, noise: Array, level: float = LEVEL) -> Estimate:
    """Mean squared distance from the runs of a group, rows, to those of another, columns."""
    raw = squares + noise
    left_out = [
        (raw.sum() - raw.sum(axis=axis)) / (raw.size - raw.shape[axis])
        for axis in (0, 1)
        if min(raw.shape) > 1
    ]
    return _estimate(float(raw.mean()), float(noise.mean()), left_out, level)


def _estimate(value: float, noise: float, left_out: Sequence[Array], level: float) -> Estimate:
    """Jackknife interval from the values without each run of one group or two.

    Squared distances are as skewed as a χ², so the interval is one of logarithms. With 3 to 10 runs
    of normal scatter it contained the truth in 90 to 99 % of cases (82 to 99 % with heavy tails), a
    percentile bootstrap of the runs in 53 to 91 % (42 to 84 %), see benchmarks/groups.py. Noise is
    subtracted afterwards, so that the logarithm exists where all runs are alike.
    """
    from scipy.stats import t

    if not left_out:
        return Estimate(value - noise)
    variances = [(len(v) - 1) / len(v) * float(((v - v.mean()) ** 2).sum()) for v in left_out]
    variance = sum(variances)
    if value <= 0 or variance == 0:
        return Estimate(value - noise, max(value - noise, 0.0), max(value - noise, 0.0))
    pairs = zip(variances, left_out, strict=True)
    freedom = variance**2 / sum(part**2 / (len(v) - 1) for part, v in pairs)  # Welch 1947
    reach = float(t.ppf((1.0 + level) / 2.0, freedom)) * math.sqrt(variance) / value
    low, high = (value * math.exp(min(sign * reach, 500.0)) - noise for sign in (-1.0, 1.0))
    return Estimate(value - noise, max(low, 0.0), max(high, 0.0))


def effective_number(similarities: Array, shares: Array, level: float = LEVEL) -> Estimate:
    """Effective number of behaviours in a group of runs.

    exp(−Σ pᵢ log (Zp)ᵢ), the diversity of order 1 of Leinster and Cobbold (2012), where (Zp)ᵢ is
    the mean similarity of policy i to all: copies do not count, n policies with nothing in common
    count n. Unlike the Vendi score it does not need a kernel, which distances without noise do not
    give. It grows with the number of policies and runs: compare groups of equal size.
    ``similarities``, (n, n), are 1 for the same behaviour and 0 for different behaviour; ``shares``
    are those of `shares_of`: every run counts the same.

    Examples
    --------
    >>> round(effective_number(np.eye(3), np.eye(3)).value, 9)
    3.0
    >>> effective_number(np.ones((4, 4)), shares_of([0, 0, 1, 1])).value
    1.0
    """
    to_runs = similarities @ shares.T

    def effective(runs: NDArray[np.intp]) -> float:
        weights, ordinariness = shares[runs].mean(axis=0), to_runs[:, runs].mean(axis=1)
        there = weights > 0
        entropy = -float(weights[there] @ np.log(ordinariness[there]))
        return max(math.exp(entropy), 1.0)

    every = np.arange(len(shares))
    value = effective(every)
    if len(every) < 3:
        return Estimate(value)
    without = np.array([effective(np.delete(every, run)) for run in every])
    estimate = _estimate(value, 0.0, [without], level)
    return Estimate(value, max(estimate.low, 1.0), max(estimate.high, 1.0))


@dataclass(frozen=True)
class BehaviourClasses:
    """Classes of policies that behave alike; the largest class is number 1."""

    numbers: tuple[int | None, ...]  # class of each policy, from 1; None with too few episodes
    medoids: tuple[int, ...]  # policy of each class with the smallest sum of distances to the rest
    margin: float  # classes are farther apart than this, on average

    def __len__(self) -> int:
        return len(self.medoids)

    @property
    def n_policies(self) -> int:
        """Number of policies that have a class."""
        return sum(number is not None for number in self.numbers)


def behaviour_classes(
    distances: Array, labels: Sequence[str], margin: float = MARGIN
) -> BehaviourClasses:
    """Group policies into classes whose mean distance from each other exceeds a margin.

    Average linkage on ``distances`` without sampling noise (symmetric, NaN if not known), cut at
    the ``margin``. A mean over pairs has little noise, so that the classes do not multiply with
    more episodes; they do not depend on the order of the policies, whose ``labels`` all differ.

    Examples
    --------
    >>> d = np.array([[0.0, 0.01, 0.5], [0.01, 0.0, 0.4], [0.5, 0.4, 0.0]])
    >>> behaviour_classes(d, ["a", "b", "c"]).numbers
    (1, 1, 2)
    """
    known = np.flatnonzero(~np.isnan(distances).all(axis=1, where=~np.eye(len(labels), dtype=bool)))
    if len(labels) == 1:
        known = np.arange(1)
    names = [(natural_key(label), label) for label in labels]
    order = np.array(sorted(known.tolist(), key=names.__getitem__))
    classes: dict[int, list[int]] = {}
    for i, number in zip(order.tolist(), _linked(distances, order, margin), strict=True):
        classes.setdefault(number, []).append(i)
    medoids = [_medoid(distances, rows) for rows in classes.values()]
    ranked = sorted(
        zip(medoids, classes.values(), strict=True),
        key=lambda pair: (-len(pair[1]), names[pair[0]]),
    )
    numbers: list[int | None] = [None] * len(labels)
    for number, (_, rows) in enumerate(ranked, start=1):
        for i in rows:
            numbers[i] = number
    return BehaviourClasses(tuple(numbers), tuple(medoid for medoid, _ in ranked), margin)


def _medoid(distances: Array, rows: list[int]) -> int:
    sums = distances[np.ix_(rows, rows)].sum(axis=1)
    # The first of those that are equal up to rounding, as in a class of two.
    return rows[int((sums <= sums.min() + 1e-9 * np.abs(sums).max()).argmax())]


def _linked(distances: Array, order: NDArray[np.intp], margin: float) -> list[int]:
    """Cut the average-linkage tree of the policies of ``order`` at the margin."""
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(order) < 2:
        return [1] * len(order)
    i, j = np.triu_indices(len(order), 1)
    # Rounded, so that ties do not depend on the last digits; SciPy requires heights above 0, and
    # means are shifted as the distances are.
    heights = np.round(distances[order[i], order[j]] / margin, 9)
    shift = min(float(heights.min()), 0.0)
    tree = linkage(heights - shift, "average")
    return [int(number) for number in fcluster(tree, 1.0 - shift, "distance")]
