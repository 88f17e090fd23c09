"""Uncertainty of distances: intervals from the influences of episodes, tests, parts.

Episodes are the independent samples. With influences I_e of M episodes on a policy's points,
C = Σ I_e I_eᵀ / (M (M − 1)) is the covariance of the points (Efron and Stein 1981). Two samples of
one policy are tr(C_p) + tr(C_q) apart on average, in squares: that noise is subtracted. The rest
has, about the true difference Δ, the variance 4 Δᵀ(C_p + C_q)Δ + 2‖C_p + C_q‖² (Chen and Qin 2010).
Where episodes are paired, the covariance of the difference, that of the influences I_e(p) − I_e(q)
of pairs, takes the place of C_p + C_q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.parallel import run_tasks, single_threaded_blas
from pivec.results import SHOWN, html_table
from pivec.states import policy_ranges, starts_of

Array = NDArray[np.float64]
LEVEL = 0.95  # of intervals, unless specified
RATE = 0.05  # false discovery rate: pairs with a larger q do not differ significantly
_BLOCK_BYTES = 2 << 20  # of products per core, which then stay in its cache
_LEAST_NORM = 7.0  # an unbiased ‖C‖ counts as at least the biased one divided by this
_ROUNDING = 1e-9  # of a distance, below which divisions count as equal
_ROUNDING_PARTS = 1e-12  # of all parts together: a part this small is none


@dataclass(frozen=True, repr=False)
class Intervals:
    """Distances and their uncertainty, (n, m) arrays with one row per policy.

    The noise of a policy with a single episode is unknown: all but ``distance`` is NaN, and
    ``distance`` still includes the noise.
    """

    distance: Array  # without sampling noise; 0 on average for equal behaviour
    low: Array
    high: Array
    standard_error: Array
    noise: Array  # what sampling adds to the distance on average, estimated
    p_value: Array  # of equal behaviour: how often chance gives a distance this large
    # The variance of the distance (of its square, if it is not squared itself) in two parts: the
    # first falls with the number of episodes, the second with its square.
    first: Array
    second: Array
    level: float

    def __repr__(self) -> str:
        shape = " × ".join(map(str, np.shape(self.distance)))
        return f"Intervals({shape} distances, {self.level:g})"

    def _repr_html_(self) -> str:
        """Show the first pairs in a notebook."""
        pairs = np.argwhere(np.ones(np.shape(self.distance), dtype=bool))
        if self.distance.ndim == 2 and len(set(self.distance.shape)) == 1:
            pairs = pairs[pairs[:, 0] < pairs[:, 1]]
        names = ("distance", "low", "high", "p_value")
        rows = [
            {"policy": i[0], "other": i[-1]}
            | {name: float(np.maximum(getattr(self, name)[tuple(i)], 0.0)) for name in names}
            for i in pairs[:SHOWN].tolist()
        ]
        return html_table(repr(self), rows, len(pairs), ".distance, .low and .high")

    def select(self, index: Any, *, own: bool = False) -> Intervals:
        """Select rows and columns by an index of `numpy.ix_`; ``own`` if both are the same."""
        arrays = {name: value[index] for name, value in vars(self).items() if name != "level"}
        if own:
            for name, value in arrays.items():
                np.fill_diagonal(value, 1.0 if name == "p_value" else 0.0)
        return Intervals(**arrays, level=self.level)


@dataclass(frozen=True)
class Spread:
    """Covariance C of the points of each policy, summarized; arrays of one shape."""

    trace: Array  # tr C, the mean squared deviation
    norm: Array  # ‖C‖, too large on average with few episodes
    unbiased_norm: Array  # ‖C‖ without that bias
    freedom: Array  # degrees of freedom: effective episodes minus one

    @property
    def column(self) -> Spread:
        """The same as a column, to combine with a row."""
        return Spread(*(value[:, None] for value in vars(self).values()))

    def take(self, policies: NDArray[np.intp]) -> Spread:
        """Select policies by number."""
        return Spread(*(value[policies] for value in vars(self).values()))


# That of a policy with one known point, for a difference whose spread is known as a whole.
NO_SPREAD = Spread(*map(np.asarray, (0.0, 0.0, 0.0, 1e9)))


def spread_of(influences: Sequence[NDArray[np.floating]], effective: Array) -> Spread:
    """Spread of policies from the influences of their episodes, one array per policy.

    ``effective`` is the effective number of episodes (Kish 1965).
    """
    values = np.full((3, len(influences)), np.nan)
    with single_threaded_blas():  # the products are small
        for p, moved in enumerate(influences):
            if len(moved) > 1:
                rows = moved.astype(np.float64)
                values[:, p] = gram_spread(rows @ rows.copy().T)
    return Spread(values[0], values[1], values[2], np.maximum(effective - 1.0, 1.0))


def gram_spread(gram: Array) -> tuple[float, float, float]:
    """Trace, norm and unbiased norm of C from the products of the influences."""
    m = len(gram)
    square = float((gram**2).sum()) / (m - 1) ** 2
    fourth = float((np.diag(gram) ** 2).sum()) / (m - 1)
    trace, norm, unbiased = _moments_spread(float(np.trace(gram)) / (m - 1), square, fourth, m)
    return float(trace), float(norm), float(unbiased)


def _moments_spread(trace: Any, square: Any, fourth: Any, m: int) -> tuple[Array, Array, Array]:
    """Like `gram_spread`, from tr Σ, ‖Σ‖² and the mean fourth power of m influences."""
    unbiased = square
    if m > 3:  # Himeno and Yamada 2014: tr(Σ²) without bias
        unbiased = ((m - 1) * (m - 2) * square + trace**2 - m * fourth) * (m - 1)
        unbiased = unbiased / (m * (m - 2) * (m - 3))
    return trace / m, np.sqrt(square) / m, np.sqrt(np.maximum(unbiased, 0.0)) / m


def within_strata(rows: Array, strata: NDArray[Any]) -> tuple[Array, float]:
    """Rows whose Σ r rᵀ / (M (M − 1)) is the covariance of their mean within strata.

    ``rows``, (..., M, n_values), are influences or differences of them with mean 0, and ``strata``,
    (M,), those they belong to. The covariance is Σ m_s S_s / M² with the covariance S_s within the
    stratum s of m_s rows. Strata of a single row count as one stratum together, as pairs do: the
    differences between them are part of the variance. Also returns the degrees of freedom.
    """
    _, own, counts = np.unique(strata, return_inverse=True, return_counts=True)
    own = np.where(counts[own] > 1, own, -1)
    if (own < 0).sum() == 1:  # alone, it would have no variance
        own[own < 0] = own.max()
    _, own, counts = np.unique(own, return_inverse=True, return_counts=True)
    if len(counts) == 1:
        return rows, len(strata) - 1.0
    members = np.eye(len(counts))[own] / counts
    m = counts[own][:, None]
    scale = np.sqrt(m / (m - 1.0) * (1.0 - 1.0 / len(strata)))
    return scale * (rows - (members.T @ rows)[..., own, :]), float(len(strata) - len(counts))


def paired_spread(
    influences: Sequence[Sequence[NDArray[np.floating]]],
    points: Sequence[Array],
    i: NDArray[np.intp],
    j: NDArray[np.intp],
    strata: NDArray[Any],
) -> tuple[Array, Spread]:
    """Variances 4 ΔᵀCΔ of policies i[k] and j[k], and the spread of their difference Δ.

    ``influences`` and ``points`` are those of two sets of policies. The e-th episodes of all of
    them belong to the stratum ``strata[e]``.

    Of policies that are nearly the same, most pairs may be identical. That all of them are does not
    show that none differs: the spread is at least that of one pair that differs as independent
    episodes do. The few others determine the effective number of pairs n, (Σ g)² / Σ g² with their
    squared lengths g, on which degrees of freedom depend (n is M/3 for normal numbers).
    """
    m = len(strata)
    values, freedom = np.full((4, len(i)), np.nan), np.ones(len(i))

    def work(k: int) -> None:
        own, other = influences[0][i[k]].astype(np.float64), influences[1][j[k]]
        rows, freedom[k] = within_strata(own - other, strata)
        gram = rows @ rows.copy().T
        along = rows @ (points[0][i[k]] - points[1][j[k]])
        values[0, k] = 4.0 * (along @ along) / (m * (m - 1))
        trace, norm, unbiased = gram_spread(gram)
        least = float(np.sum(own**2) + np.sum(np.square(other, dtype=np.float64))) / (
            m**2 * (m - 1)
        )
        if trace > least:
            effective = np.trace(gram) ** 2 / np.sum(np.diag(gram) ** 2)
            unbiased = max(unbiased, norm * min(1.0, 2.0 / effective))
            freedom[k] = min(freedom[k], 3.0 * effective - 1.0)
        else:
            trace, norm, unbiased, freedom[k] = least, least, least, 1.0
        values[1:, k] = trace, norm, unbiased

    if m > 1:
        with single_threaded_blas():
            run_tasks(work, len(i))
    return values[0], Spread(values[1], values[2], values[3], np.maximum(freedom, 1.0))


def directional_variances(
    influences: Sequence[NDArray[np.floating]], rows: Array, columns: Array
) -> Array:
    """Δᵀ C_p Δ for Δ = rows[p] − columns[q], (n, m), from the influences on each of the rows.

    In float32 about the mean of the columns: six digits, where a standard error needs two.
    """
    counts = np.array([len(moved) for moved in influences])
    starts = starts_of(counts)
    middle = columns.mean(axis=0)
    targets = np.ascontiguousarray((columns - middle).T, dtype=np.float32)
    own = (rows - middle).astype(np.float32)
    result = np.full((len(rows), len(columns)), np.nan)
    blocks = policy_ranges(starts, max(1, _BLOCK_BYTES // (4 * len(columns))))

    def work(task: int) -> None:
        first, last = blocks[task]
        moved = np.concatenate(influences[first:last], dtype=np.float32)
        owner = np.repeat(np.arange(first, last), counts[first:last])
        products = moved @ targets
        products -= np.einsum("ev,ev->e", moved, own[owner])[:, None]
        products *= products
        sums = np.add.reduceat(products, starts[first:last] - starts[first], axis=0)
        m = counts[first:last, None].astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            result[first:last] = sums / (m * (m - 1))

    with single_threaded_blas():
        run_tasks(work, len(blocks))
    return result


def paired_variances(
    influences: Sequence[NDArray[np.floating]],
    rows: Array,
    i: NDArray[np.intp],
    j: NDArray[np.intp],
) -> Array:
    """Δᵀ C_i Δ for Δ = rows[i] − rows[j], one per pair, like `directional_variances`."""
    result = np.full(len(i), np.nan)
    blocks = []
    counts = np.array([len(moved) for moved in influences])[i]
    for m in np.unique(counts[counts > 1]).tolist():
        same = np.flatnonzero(counts == m)
        parts = 1 + 4 * len(same) * m * rows.shape[1] // _BLOCK_BYTES
        blocks += [(m, block) for block in np.array_split(same, parts)]

    def work(task: int) -> None:
        m, block = blocks[task]
        moved = np.stack([influences[p] for p in i[block]], dtype=np.float32)
        gaps = (rows[i[block]] - rows[j[block]]).astype(np.float32)
        along = np.einsum("bmv,bv->bm", moved, gaps).astype(np.float64)
        result[block] = np.einsum("bm,bm->b", along, along) / (m * (m - 1))

    run_tasks(work, len(blocks))
    return result


def intervals_of(
    squares: Array,
    variance: Array,
    a: Spread,
    b: Spread,
    level: float = 0.95,
    scatter: Array | float = 0.0,
    noise: Array | None = None,
    upper: Array | None = None,
    *,
    squared: bool = True,
) -> Intervals:
    """Intervals of distances whose squares (or they themselves, if ``squared``) are ``squares``.

    The shapes of the spreads of both sides broadcast to that of ``squares``. ``variance`` is
    4 Δᵀ(C_p + C_q)Δ with the measured Δ. On average that is 4‖C_p + C_q‖² more than with the true
    one, so the second term of the variance, 2‖C_p + C_q‖², is not added, but a lower bound.
    ‖C_p + C_q‖ is bounded by ‖C_p‖ + ‖C_q‖, which is tight if the two policies are alike: only
    there the term counts. ``scatter`` is variance that does not fall with more episodes, ``noise``
    what sampling adds, if it is not the traces.

    Where the noise is that of squares, the variance of a distance d is r·d + second with
    r = 4 Δᵀ(C_p + C_q)Δ / |Δ|², at most 4‖C_p + C_q‖. The ends of the interval are those d whose
    own variance puts the measured distance z deviations away (a score interval, Wilson 1927); with
    the variance at the measured distance, intervals of small distances would be too short above.
    The low end is 0 unless equal behaviour is rejected. With few episodes distances are too small
    on average: the upper end is at least that of ``upper``, squares that are less biased.
    """
    from scipy.special import fdtrc, stdtr, stdtrit  # scipy.stats is slow for small arrays

    spread = a.trace + b.trace
    like_squares = noise is None
    noise = spread if noise is None else noise
    second = 2.0 * (a.unbiased_norm + b.unbiased_norm) ** 2
    first = np.maximum(variance - second, 0.0)
    error = np.sqrt(first + second + scatter)
    freedom = np.minimum(a.freedom, b.freedom)
    # Once per policy: for all pairs it would take most of the time.
    quantiles = [stdtrit(side.freedom, (1.0 + level) / 2.0) for side in (a, b)]
    z = np.where(a.freedom <= b.freedom, *quantiles)
    known = ~np.isnan(noise)
    distance = np.where(known, squares - np.where(known, noise, 0.0), squares)
    # If both were the same, the squared distance would be a weighted sum of χ², approximated by one
    # χ² of the same mean and variance (Satterthwaite 1946), and the noise an estimate of its mean.
    # With few episodes ‖C‖ is too large, and without its bias so uncertain that tests reject too
    # often; between the two they keep their level (benchmarks/EVIDENCE.md).
    with np.errstate(invalid="ignore", divide="ignore"):
        norm, unbiased = a.norm + b.norm, a.unbiased_norm + b.unbiased_norm
        count = noise**2 / (norm * np.maximum(unbiased, norm / _LEAST_NORM))
        welch = noise**2 / (a.trace**2 / a.freedom + b.trace**2 / b.freedom)
        p_value = fdtrc(count, count * welch, squares / noise)
        if not like_squares:
            p_value = stdtr(freedom, -distance / error)
    p_value = np.where(known & (spread == 0.0), np.where(squares > 0.0, 0.0, 1.0), p_value)
    slope: Any = 0.0
    if like_squares:
        slope = np.divide(variance, squares, out=np.zeros_like(squares), where=squares > 0.0)
        slope = np.minimum(slope, 4.0 * np.sqrt(second / 2.0))
    constant = second + scatter if like_squares else error**2
    low, high = score_bounds(distance, slope, constant, z)
    if upper is not None:
        high = np.maximum(high, score_bounds(upper - noise, slope, constant, z)[1])
    if like_squares:
        low = np.where(p_value > (1.0 - level) / 2.0, 0.0, low)
    if not squared:
        low, high, noise = np.sqrt(low), np.sqrt(high), np.sqrt(noise)
        distance = np.sqrt(np.maximum(distance, 0.0))
        error = np.minimum(error / np.maximum(2.0 * distance, 1e-300), np.sqrt(error))
    return Intervals(distance, low, high, error, noise, p_value, first, second, level)


def score_bounds(distance: Any, slope: Any, constant: Any, z: Any) -> tuple[Array, Array]:
    """Distances d from which the measured one is z deviations away: Var(d) = slope·d + constant."""
    turn = z**2 * slope
    reach = np.sqrt(turn * np.maximum(distance, 0.0) + turn**2 / 4.0 + z**2 * constant)
    middle = distance + turn / 2.0
    return np.maximum(middle - reach, 0.0), np.maximum(middle + reach, 0.0)


def benjamini_hochberg(p_values: ArrayLike) -> NDArray[np.float64]:
    """Turn p-values into q-values: of all tests with q ≤ 0.05, at most 5 % are wrong on average.

    For tests that are independent or positively dependent, as those of pairs that share a policy
    are (Benjamini & Hochberg 1995; Benjamini & Yekutieli 2001). NaN is ignored and stays NaN. Of a
    symmetric matrix give each pair once.

    Examples
    --------
    >>> benjamini_hochberg([0.01, 0.04, 0.03, np.nan])
    array([0.03, 0.04, 0.04,  nan])
    """
    p = np.asarray(p_values, np.float64)
    q = np.full(p.shape, np.nan)
    known = ~np.isnan(p)
    values = p[known]
    order = np.argsort(values, kind="stable")
    scaled = values[order] * len(values) / np.arange(1, len(values) + 1)
    adjusted = np.empty_like(values)
    # A larger p-value never gets a smaller q-value.
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    q[known] = adjusted
    return q


def adjusted_intervals(
    p_values: ArrayLike, low: ArrayLike, high: ArrayLike
) -> tuple[Array, Array, Array]:
    """q-values of several tests, and intervals that exclude 0 exactly where q ≤ 0.05.

    A test is significant only if its own interval excludes 0; the intervals of all others are
    extended to 0, which makes them wider than their level requires.

    Examples
    --------
    >>> q, low, _ = adjusted_intervals([0.01, 0.02, 0.04], [0.3, 0.1, 0.0], [0.9, 0.8, 0.7])
    >>> q, low
    (array([0.03, 0.03, 0.1 ]), array([0.3, 0.1, 0. ]))
    """
    p, below, above = (np.asarray(values, np.float64) for values in (p_values, low, high))
    includes = (below <= 0.0) & (above >= 0.0)
    # A q-value is never smaller than its p-value.
    q = benjamini_hochberg(np.where(includes, np.maximum(p, 2.0 * RATE), p))
    chance = q > RATE
    below = np.where(chance, np.minimum(below, 0.0), below)
    return q, below, np.where(chance, np.maximum(above, 0.0), above)


@dataclass(frozen=True)
class PermutationTest:
    """The result of a permutation test of equal behaviour."""

    p_value: float  # how often chance alone gives a distance at least as large
    distance: float
    permutations: int


def permuted_divisions(
    n_a: int,
    n_b: int,
    permutations: int,
    rng: np.random.Generator,
    strata: NDArray[Any] | None = None,
) -> NDArray[np.bool_]:
    """Divisions of n_a + n_b episodes, one per row, True for side ``a``; the true one first.

    With ``strata``, those of the episodes of either side, episodes are exchanged within strata
    only: where each has one episode per side, the two of a pair.
    """
    true = np.arange(n_a + n_b) < n_a
    drawn = np.tile(true, (permutations, 1))
    if strata is None:
        return np.concatenate([true[None], rng.permuted(drawn, axis=1)])
    _, own = np.unique(np.concatenate([strata, strata]), return_inverse=True)
    order = np.argsort(own + rng.random(drawn.shape), axis=1)  # random within strata
    np.put_along_axis(
        drawn, order, np.tile(true[np.argsort(own, kind="stable")], (permutations, 1)), 1
    )
    return np.concatenate([true[None], drawn])


def mean_differences(influences: Array, divisions: NDArray[np.bool_]) -> Array:
    """Squared distances between the mean influences of the two sides of each division.

    To first order, the points of a side are those of all episodes plus the mean of its influences.
    With the products G of influences, |Σ c_e I_e|² is cᵀGc, one matrix product for all.
    """
    n_a = divisions[0].sum()
    weights = np.where(divisions, 1.0 / n_a, -1.0 / (divisions.shape[1] - n_a))
    gram = influences @ influences.copy().T
    return np.asarray(np.einsum("de,de->d", weights @ gram, weights))


def share_as_large(distances: Array) -> float:
    """p-value of the first distance among all, exact for any distribution of episodes."""
    return float((distances >= distances[0] * (1.0 - _ROUNDING)).mean())


@dataclass(frozen=True)
class Parts:
    """Parts of one distance, arrays of one shape; the measured ones sum to it."""

    measured: Array
    estimate: Array  # without sampling noise
    low: Array
    high: Array
    noise: NDArray[np.bool_]  # whether it may be chance: q > 0.05 among these parts, or unknown

    def reshaped(self, *shape: int) -> Parts:
        """Return the same parts in another shape."""
        return Parts(*(value.reshape(shape) for value in vars(self).values()))


def block_intervals(
    differences: Array,
    moved: Sequence[Array],
    freedom: Sequence[float],
    level: float,
    squared: bool = True,
) -> tuple[Intervals, list[Spread]]:
    """Intervals (n,) of sums of squares of ``differences`` (n, size), one row per block.

    ``moved`` has the influences of the episodes of both policies on them, (n, m, size), or only
    those of pairs of episodes; m is 0 for a single episode. If the distance is not ``squared``, a
    block is one difference, and its distance the absolute value.
    """
    squares = np.einsum("ns,ns->n", differences, differences)
    variance = np.zeros(len(differences))
    spreads = []
    for influences, dof in zip(moved, freedom, strict=True):
        m = influences.shape[1]
        if m < 2:
            unknown = np.full(len(differences), np.nan)
            spreads.append(Spread(unknown, unknown, unknown, np.ones_like(unknown)))
            variance += np.nan
            continue
        along = np.einsum("nms,ns->nm", influences, differences)
        variance += 4.0 * np.einsum("nm,nm->n", along, along) / (m * (m - 1))
        spreads.append(Spread(*_moments(influences), np.full(len(differences), max(dof, 1.0))))
    spreads += [NO_SPREAD] * (len(spreads) == 1)
    a, b = spreads
    return intervals_of(squares, variance, a, b, level, squared=squared), spreads


def parts_of(
    differences: Array,
    moved: Sequence[Array],
    freedom: Sequence[float],
    level: float,
    squared: bool = True,
) -> Parts:
    """Parts (n,) of a distance, one per block; see `block_intervals`."""
    sure, spreads = block_intervals(differences, moved, freedom, level, squared)
    squares = np.einsum("ns,ns->n", differences, differences)
    measured = squares if squared else np.sqrt(squares)
    p_values = _p_values(squares, *spreads)
    p_values = np.where(measured <= _ROUNDING_PARTS * measured.sum(), 1.0, p_values)
    q, low, high = adjusted_intervals(p_values, sure.low, sure.high)
    return Parts(measured, sure.distance, low, high, ~(q <= RATE))


def _p_values(squares: Array, a: Spread, b: Spread) -> Array:
    """p-values of parts, like those of `intervals_of`, but by F instead of χ².

    The most extreme of many small parts matters, and the spread itself is estimated from few
    episodes. The degrees of freedom are Welch's.
    """
    from scipy.special import fdtrc

    noise, norm = a.trace + b.trace, (a.norm + b.norm) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = noise**2 / (a.trace**2 / a.freedom + b.trace**2 / b.freedom)
        p_value = fdtrc(noise**2 / norm, freedom, squares / noise)
    return np.where(noise == 0.0, np.where(squares > 0.0, 0.0, 1.0), p_value)


def _moments(influences: Array) -> tuple[Array, Array, Array]:
    """Trace and norms of the spread of each block, like `spread_of` for policies."""
    _, m, size = influences.shape
    lengths = np.einsum("nms,nms->nm", influences, influences)
    fourth = np.einsum("nm,nm->n", lengths, lengths) / (m - 1)
    trace = lengths.sum(axis=1) / (m - 1)
    # ‖XᵀX‖ = ‖XXᵀ‖: whichever is smaller.
    if size == 1:
        square = trace**2
    else:
        script = "nms,nmt->nst" if size <= m else "nms,nks->nmk"
        products = np.einsum(script, influences, influences, optimize=True)
        square = (products**2).sum(axis=(1, 2)) / (m - 1) ** 2
    return _moments_spread(trace, square, fourth, m)
