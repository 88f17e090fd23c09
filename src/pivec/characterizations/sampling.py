"""How episodes move descriptions: leaving them out and permuting them, by sums where possible.

Many descriptions are functions of sums over episodes (``_statistics``): a policy without one of its
episodes has its sums minus those of the episode, and no state is read again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.descriptions import (
    STRATA,
    Description,
    Descriptions,
    Influences,
    encode_influences,
    summarise,
)
from pivec.errors import PivecWarning, UsageError
from pivec.parallel import single_threaded_blas
from pivec.policies import canonical_order
from pivec.states import VisitedStates, over_policies, policy_ranges, regrouped, starts_of
from pivec.statistics import (
    NO_SPREAD,
    PermutationTest,
    Spread,
    directional_variances,
    gram_spread,
    mean_differences,
    paired_spread,
    paired_squares,
    paired_variances,
    permuted_divisions,
    share_as_large,
    spread_of,
    squared_euclidean,
)

if TYPE_CHECKING:
    from pivec.characterizations.base import Characterization, Side

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Moved = Sequence[NDArray[np.floating]]  # influences of the episodes of each policy
_RUN_BYTES = 1 << 20
GROUPS = 20  # of episodes to leave out, where each requires describing again
_ROUNDING = 1e-15  # of squared points: apparent differences between equal episodes
_DIVISIONS = 20  # of the episodes of a policy into halves


def effective_episodes(data: VisitedStates, by_state: bool) -> Array:
    """Effective number of episodes of each policy: with weights w, (Σw)² / Σw² (Kish 1965)."""
    weights = data.lengths.astype(np.float64) if by_state else np.ones(data.n_episodes)
    starts = data.policy_starts[:-1]
    sums = np.add.reduceat(weights, starts)
    return np.asarray(sums**2 / np.add.reduceat(weights**2, starts))


def jackknife_influences(
    method: Characterization, statistics: Array, starts: NDArray[Any]
) -> tuple[Array, Array]:
    """Influence of each episode on its policy's coordinates, (M − 1)(mean − left out), and means.

    Leaving out instead of differentiating: the root of a share that a single episode contributes is
    far from linear, and its derivative would give a quarter of the true variance.
    """
    counts = np.diff(starts)
    owner = np.repeat(np.arange(len(counts)), counts)
    sums = np.add.reduceat(statistics, starts[:-1], axis=0)
    rest = sums[owner] - statistics
    alone = counts[owner] == 1  # nothing is left: the value is not used
    rest[alone] = statistics[alone]
    rows = method._coordinates(rest)
    first = rows[starts[:-1]]
    rows -= first[owner]  # so that equal episodes have exactly none
    means = np.add.reduceat(rows, starts[:-1], axis=0) / counts[:, None]
    rows -= means[owner]
    rows *= 1 - counts[owner, None]
    return rows, first + means


def half_points(
    method: Characterization, statistics: Array, starts: NDArray[Any]
) -> tuple[Array, Array]:
    """Mean points of halves of each policy's episodes, and the noise of their distances.

    Sums of halves are scaled to all episodes, and so MAP shrinkage is the same. The points h₁ and
    h₂ of two halves are independent: the mean of (h₁(p) − h₁(q))·(h₂(p) − h₂(q)), over all pairs of
    a division of p and one of q, is 0 on average for equal policies, however nonlinear the points.
    With the mean y of all halves it is |y(p) − y(q)|² − n(p) − n(q), n = −mean (h₁ − y)·(h₂ − y).
    Of an odd number of episodes each division omits a random one: halves of different sizes would
    have different means. The noise of a single episode is NaN.
    """
    points, noise = [], np.full(len(starts) - 1, np.nan)
    for p, (i, j) in enumerate(pairwise(starts.tolist())):
        rows = method._coordinates(_divisions(j - i) @ statistics[i:j])
        points.append(rows.mean(axis=0))
        rows -= points[p]
        if j - i > 1:
            noise[p] = max(-np.einsum("ij,ij->", *np.split(rows, 2)) / _DIVISIONS, 0.0)
    return np.stack(points), noise


@lru_cache(maxsize=16)
def _divisions(m: int) -> Array:
    """Weights of m episodes in the sums of the first halves, then of the second, (40, m)."""
    half = max(m // 2, 1)
    # 0 and 1 are halves, 2 is omitted; a single episode is both.
    sides = np.tile(np.arange(m) // half, (_DIVISIONS, 1))
    sides = np.random.default_rng(m).permuted(sides, axis=1)
    return np.concatenate([sides == 0, sides == min(m - 1, 1)]) * (m / half)


def describe_with_influences(
    method: Characterization, data: VisitedStates, order: Rows
) -> tuple[Description, dict[str, NDArray[Any]]]:
    """Describe policies, and return the influence of each of their episodes.

    ``order`` has the number of each policy in the data of the caller. Influences are in that order:
    they are too large to be sorted later.
    """
    sums, middles, noises, scales = [], [], [], []
    influences, policy = np.empty((0, 0), np.int16), 0
    counts = np.diff(data.policy_starts)
    starts = starts_of(counts[np.argsort(order)])
    for own, moved, scale, middle, noise in _over_runs(_sums_and_influences, method, data):
        sums.append(own)
        scales.append(scale)
        middles.append(middle)
        noises.append(noise)
        if not policy:
            influences = np.empty((data.n_episodes, moved.shape[1]), np.int16)
        first = 0
        for number in order[policy : policy + len(own)]:
            i, j = starts[number : number + 2]
            influences[i:j] = moved[first : first + j - i]
            first += j - i
        policy += len(own)
    vectors, points, arrays = method._from_statistics(np.concatenate(sums))
    if method.traits.halved and points is not None:
        # As small as these are, six digits suffice.
        offsets = (np.concatenate(middles) - points).astype(np.float32)
        arrays = {**arrays, "half_offsets": offsets, "half_noise": np.concatenate(noises)}
    elif method.traits.corrected and points is not None:
        # Minus a quarter of the jackknife's estimate of the bias, (M − 1)(mean left out − points).
        # All of it would be right for smooth points; those of rare regions are not.
        fewer = counts[:, None] - 1.0
        arrays = {**arrays, "correction": 0.25 * fewer * (points - np.concatenate(middles))}
    effective = effective_episodes(data, method.traits.by_state)
    scale = np.concatenate(scales)[np.argsort(order)]
    packed: dict[str, NDArray[Any]] = dict(
        zip(Influences.names, (influences, starts, scale), strict=True)
    )
    return (vectors, points, {**arrays, "effective_episodes": effective}), packed


def policy_sums(method: Characterization, data: VisitedStates) -> Array:
    """Statistics of each policy, summed over its episodes."""
    return np.concatenate(list(_over_runs(_sums, method, data)))


def _over_runs(work: Callable[..., Any], method: Characterization, data: VisitedStates) -> Any:
    """Work on runs of policies whose episodes' statistics are small compared to the states."""
    most = max(1, _RUN_BYTES // (8 * 64 * (data.n_features + 1)))
    return over_policies(work, data, method, ranges=policy_ranges(data.policy_starts, most))


def _sums(run: VisitedStates, method: Characterization) -> Array:
    return np.add.reduceat(method._statistics(run), run.policy_starts[:-1], axis=0)


def _sums_and_influences(
    run: VisitedStates, method: Characterization
) -> tuple[Array, NDArray[np.int16], Array, Array, Array]:
    statistics, starts = method._statistics(run), run.policy_starts
    sums = np.add.reduceat(statistics, starts[:-1], axis=0)
    influences, middle = jackknife_influences(method, statistics, starts)
    noise = np.empty(0)
    if method.traits.halved:
        with single_threaded_blas():  # the same bits in every process
            middle, noise = half_points(method, statistics, starts)
    return sums, *encode_influences(influences, starts), middle, noise


def in_order(side: Side) -> tuple[Rows, Side, Moved]:
    """Sort policies canonically: the order, what is sorted, and influences without copying them."""
    order = canonical_order(side.policies)
    if isinstance(side, VisitedStates):
        return order, side.select(order), ()
    moved: Moved = ()
    if "influences" in side.arrays:
        moved = replace(side.influences, order=order)
    return order, side.without_influences().select(order), moved


def common_strata(sides: Sequence[Side]) -> NDArray[Any] | None:
    """Strata of the episodes of all policies; None if these are not paired."""
    known = [side.arrays.get(STRATA) for side in sides if isinstance(side, Descriptions)]
    rows = [row for strata in known if strata is not None for row in strata]
    if not rows:
        return None
    if len(rows) < sum(map(len, sides)) or any(not np.array_equal(row, rows[0]) for row in rows):
        raise UsageError(
            "expected policies whose episodes are paired with each other, but their strata differ: "
            "describe them together"
        )
    strata: NDArray[Any] = rows[0]
    return strata


def paired(
    method: Characterization, sides: Sequence[Descriptions], moved: Sequence[Moved]
) -> tuple[Array, tuple[Spread, Spread]] | None:
    """Variances of all distances and the spread of the differences, (n, m), of paired episodes.

    None if episodes are not paired.
    """
    if (strata := common_strata(sides)) is None:
        return None
    points = [side.values(method.traits.coordinates)[0] for side in sides]
    i, j = np.triu_indices(len(sides[0]), 1)
    if len(sides) > 1:
        i, j = map(np.ravel, np.indices((len(sides[0]), len(sides[1]))))
    found = paired_spread((moved[0], moved[-1]), (points[0], points[-1]), i, j, strata)
    whole = np.zeros((5, len(sides[0]), len(sides[-1])))
    whole[:, i, j] = found[0], *vars(found[1]).values()
    if len(sides) == 1:
        whole[:, j, i] = whole[:, i, j]
        whole[4] += np.eye(len(whole[4]))
    return whole[0], (Spread(*whole[1:]), NO_SPREAD)


def measured(
    method: Characterization, sides: Sequence[Side], moved: Sequence[Moved]
) -> tuple[Array, Array, list[Spread], Array | None]:
    """Squares of all distances, their variances, the spread of each side, and the noise.

    A single side is compared with itself; ``moved`` has the influences, if there are any. The noise
    is None if it is the sum of the spreads.
    """
    traits = method.traits
    if traits.exact or traits.no_intervals:
        described = [
            method._described(side) if isinstance(side, VisitedStates) else side for side in sides
        ]
        squares = _squares(method, described[0], described[-1])
        spreads = [_unsampled_spread(method, len(side)) for side in sides]
        return squares, np.full_like(squares, spreads[0].trace[0]), spreads, None
    described = [side for side in sides if isinstance(side, Descriptions)]
    if not described:
        return _leaving_out(method, [side for side in sides if isinstance(side, VisitedStates)])
    known = all("half_noise" in side.arrays for side in described)
    sampled = [
        sampled_rows(method, side, influences, halved=known)
        for side, influences in zip(described, moved, strict=True)
    ]
    rows, spreads = [own for own, _ in sampled], [spread for _, spread in sampled]
    directional = [
        directional_variances(*side) for side in zip(moved, rows, rows[::-1], strict=True)
    ]
    variance = 4.0 * (directional[0] + directional[-1].T)
    return squared_euclidean(rows[0], rows[-1]), variance, spreads, None


def corrected_points(sides: Sequence[Side]) -> list[Array]:
    """Points whose distances are less biased, but noisier; none if that is not known."""
    known = [side for side in sides if isinstance(side, Descriptions)]
    if len(known) < len(sides) or not all("correction" in side.arrays for side in known):
        return []
    return [np.add(*side.values("points", "correction")) for side in known]


def measured_pairs(
    method: Characterization, described: Descriptions, i: Rows, j: Rows, distances: Array
) -> tuple[Array, Array, Spread]:
    """Squares of the distances of pairs, their variances, and the spread of all policies."""
    traits = method.traits
    squares = distances if traits.squared else distances**2
    if traits.exact or traits.no_intervals:
        spread = _unsampled_spread(method, len(described))
        return squares, np.full(len(i), spread.trace[0]), spread
    influences = described.influences
    rows, spread = sampled_rows(method, described, influences)
    if "half_noise" in described.arrays:
        squares = paired_squares(rows, rows, i, j)
    forth = paired_variances(influences, rows, i, j)
    back = paired_variances(influences, rows, j, i)
    return squares, 4.0 * (forth + back), spread


def _unsampled_spread(method: Characterization, n: int) -> Spread:
    """Spread of descriptions that do not depend on episodes (0), or whose noise is not known."""
    values = np.full(n, 0.0 if method.traits.exact else np.nan)
    return Spread(values, values, values, np.ones_like(values))


def sampled_rows(
    method: Characterization, described: Descriptions, influences: Moved, *, halved: bool = True
) -> tuple[Array, Spread]:
    """Rows that distances without noise are measured between, and how far sampling moves them.

    Coordinates, or, if that is known and ``halved``, the `half_points`; the spread follows from the
    influences of episodes.
    """
    [rows] = described.values(method.traits.coordinates)
    spread = spread_of(influences, *described.values("effective_episodes"))
    if halved and "half_noise" in described.arrays:
        rows, noise = unbiased_points(described)
        # The shape of C follows from the influences, its size from the halves.
        size = np.divide(noise, spread.trace, out=np.ones_like(noise), where=spread.trace > 0.0)
        spread = Spread(noise, size * spread.norm, size * spread.unbiased_norm, spread.freedom)
    spread.trace[spread.trace <= _ROUNDING * np.einsum("ij,ij->i", rows, rows)] = 0.0
    return rows, spread


def unbiased_points(described: Descriptions) -> tuple[Array, Array]:
    """Points, (n, n_values), and their noise, (n,), of descriptions with influences.

    Squared distances of these points, minus the noise of both policies, are 0 on average for equal
    behaviour: `intervals(described).distance`.
    """
    points, effective = described.values("points", "effective_episodes")
    if "half_noise" not in described.arrays:
        return points, spread_of(described.influences, effective).trace
    offsets, noise = described.values("half_offsets", "half_noise")
    return points + offsets, noise.copy()


def without_noise(method: Characterization, described: Descriptions, distances: Array) -> Array:
    """Remove sampling noise from all distances: ``intervals(described).distance``.

    Without the rest of `intervals`, which is slow and large for thousands of policies.
    """
    squared = method.traits.squared
    rows, spread = sampled_rows(method, described, described.influences)
    squares = distances.copy() if squared else distances**2
    if "half_noise" in described.arrays:
        squares = squared_euclidean(rows, rows)
    warn_of_spread(method, [described], [spread], squares)
    pairs = paired(method, [described], [described.influences])
    noise = np.add.outer(spread.trace, spread.trace) if pairs is None else pairs[1][0].trace
    np.subtract(squares, noise, out=squares, where=~np.isnan(noise))
    np.fill_diagonal(squares, 0.0)
    return squares if squared else np.sqrt(np.maximum(squares, 0.0))


def _leaving_out(
    method: Characterization, sides: Sequence[VisitedStates]
) -> tuple[Array, Array, list[Spread], Array | None]:
    """Like `measured`, for distances that are not between points (the jackknife, Efron 1982)."""
    described = [method._described(side) for side in sides]
    squares = _squares(method, described[0], described[-1])
    moved = [
        _moved(method, side, other, own)
        for side, other, own in zip(sides, described[::-1], (squares, squares.T), strict=False)
    ]
    (change, variance, _), (changed, varied, _) = moved[0], moved[-1]
    # Half the sum of absolute differences does not behave like a square near 0, but the jackknife
    # shows how it falls with the number of episodes.
    noise = None if method.traits.squared else np.maximum(change + changed.T, 0.0)
    return squares, variance + varied.T, [spread for _, _, spread in moved], noise


def _moved(
    method: Characterization, data: VisitedStates, others: Descriptions, squares: Array
) -> tuple[Array, Array, Spread]:
    """Effect of leaving out episodes on the distances of policies to others.

    The noise that they add to each, (n, m), its variance, and the spread of the policies: the
    distances between the remainders contain the products of influences (as in classical scaling,
    Torgerson 1952).
    """
    noise, variance = np.full((2, *squares.shape), np.nan)
    trace, norm, unbiased = np.full((3, len(data)), np.nan)
    statistics = method._statistics(data) if method.traits.additive else None
    effective = effective_episodes(data, method.traits.by_state)
    for p, (i, j) in enumerate(pairwise(data.policy_starts.tolist())):
        if j - i > 1:
            rest = leave_out(method, data[p], None if statistics is None else statistics[i:j])
            m = len(rest)
            left = _squares(method, rest, others)
            mean = left.mean(axis=0)
            noise[p] = (m - 1) * (mean - squares[p])
            variance[p] = (m - 1) / m * ((left - mean) ** 2).sum(axis=0)
            own = _squares(method, rest, rest)
            own -= own.mean(axis=0)
            gram = -0.5 * (m - 1) ** 2 * (own - own.mean(axis=1)[:, None])
            trace[p], norm[p], unbiased[p] = gram_spread(gram)
            effective[p] = min(effective[p], m)
    freedom = np.maximum(effective - 1.0, 1.0)
    return noise, variance, Spread(trace, norm, unbiased, freedom)


def leave_out(method: Characterization, data: VisitedStates, statistics: Any) -> Descriptions:
    """Describe one policy without each of its episodes, from their statistics if there are any."""
    m = data.n_episodes
    if statistics is None:
        parts = np.array_split(np.arange(m), min(m, GROUPS))
        return method._described(regrouped([data], [np.delete(np.arange(m), g) for g in parts]))
    dense = isinstance(statistics, np.ndarray)
    rests = statistics.sum(axis=0) - statistics if dense else (1.0 - np.eye(m)) @ statistics
    return _anonymous(method, rests)


def _anonymous(method: Characterization, sums: Array) -> Descriptions:
    """Describe sums that belong to no particular policy."""
    data = VisitedStates.from_arrays([[np.zeros((1, 1))]] * len(sums))
    return Descriptions(
        method.name, data.policies, *method._from_statistics(sums), *summarise(data)
    )


def _squares(method: Characterization, a: Descriptions, b: Descriptions) -> Array:
    distances = method._distances(a, b)
    return distances if method.traits.squared else distances**2


def permutation_test(
    method: Characterization,
    a: VisitedStates,
    b: VisitedStates,
    permutations: int,
    seed: int,
    strata: NDArray[Any] | None = None,
) -> PermutationTest:
    """Test by permuting the episodes of two policies."""
    check_single(a, b)
    if method.traits.no_test:
        raise UsageError(f"{method.name} has no test: {method.traits.no_test}")
    distance = float(method.distances(a, b)[0, 0])
    divisions = permuted_divisions(
        a.n_episodes, b.n_episodes, permutations, np.random.default_rng(seed), strata
    )
    permuted = _permuted_distances(method, a, b, divisions)
    return PermutationTest(share_as_large(permuted), distance, permutations)


def check_single(a: Side, b: Side) -> None:
    """Check that there is one policy on each side."""
    if len(a) != 1 or len(b) != 1:
        raise UsageError(f"expected one policy on each side, but got {len(a)} and {len(b)}")


def _permuted_distances(
    method: Characterization, a: VisitedStates, b: VisitedStates, divisions: NDArray[np.bool_]
) -> Array:
    """Distances between the two sides of each division of all episodes."""
    if method.traits.influences:
        statistics = np.concatenate([method._statistics(a), method._statistics(b)])
        influences, _ = jackknife_influences(method, statistics, np.array([0, len(statistics)]))
        return mean_differences(influences, divisions)
    if method.traits.additive:
        statistics = method._statistics(regrouped([a, b], [np.arange(divisions.shape[1])]))
        left, right = (
            _anonymous(method, side.astype(np.float64) @ statistics)
            for side in (divisions, ~divisions)
        )
    else:
        groups = [np.flatnonzero(side) for row in divisions for side in (row, ~row)]
        described = method._described(regrouped([a, b], groups))
        left, right = (described.select(range(side, len(groups), 2)) for side in (0, 1))
    pairs = ((left.select([i]), right.select([i])) for i in range(len(left)))
    return np.array([method._distances(*pair)[0, 0] for pair in pairs])


def warn_of_spread(
    method: Characterization,
    sides: Sequence[Side],
    spreads: Sequence[Spread],
    squares: Array,
    pairs: tuple[Rows, Rows] | None = None,
) -> None:
    """Warn where there is no interval, or one of width 0, and why.

    ``squares`` are those of all pairs, or of these ``pairs`` of one side.
    """
    name = method.name
    if method.traits.exact:
        _warn(f"{name} does not depend on episodes: no sampling noise, intervals have width 0")
        return
    if method.traits.no_intervals:
        _warn(f"{name} has no intervals: {method.traits.no_intervals}")
        return
    labels = [label for side in sides for label in side.labels]
    trace = np.concatenate([spread.trace for spread in spreads])
    reasons = {
        "a single episode, too few for an interval: collect more": np.isnan(trace),
        f"episodes that are all alike to {name} (a deterministic policy in a deterministic "
        "environment?), so that intervals have width 0": trace == 0.0,
    }
    for reason, chosen in reasons.items():
        if chosen.any():
            others = f" and {chosen.sum() - 1} more have" if chosen.sum() > 1 else " has"
            _warn(f"{labels[int(chosen.argmax())]!r}{others} {reason}")
    i, j = np.nonzero(squares == 0.0) if pairs is None else (p[squares == 0.0] for p in pairs)
    if common_strata(sides) is not None:
        return  # identical pairs are no copies
    copies = spreads[0].trace[i] + spreads[-1].trace[j] > 0.0
    if len(sides) == 1:
        copies &= i < j
    vectors = sides[0].vectors if isinstance(sides[0], Descriptions) else None
    if vectors is not None and vectors.shape[1] == 1:
        return  # single numbers coincide now and then
    if copies.any():
        k = int(copies.argmax())
        _warn(
            f"{sides[0].labels[i[k]]!r} and {sides[-1].labels[j[k]]!r} have identical episodes: "
            "copies are not samples, and their distance is meaningless"
        )


def _warn(message: str) -> None:
    warnings.warn(message, PivecWarning, stacklevel=4)
