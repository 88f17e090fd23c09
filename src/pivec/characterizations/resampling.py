"""How episodes move descriptions: leaving them out and exchanging them, by sums where it can.

Many descriptions are functions of sums over episodes (``_statistics``): a policy without one of its
episodes is then its sums less those of the episode, and no state is looked at again.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.descriptions import Description, Descriptions, summarise
from pivec.errors import PivecWarning, UsageError
from pivec.states import Span, VisitedStates, over_policies, regrouped, runs_of
from pivec.statistics import (
    PermutationTest,
    Spread,
    directional_variances,
    gram_spread,
    mean_differences,
    share_as_large,
    sides,
    spread_of,
    squared_euclidean,
)

if TYPE_CHECKING:
    from pivec.characterizations.base import Characterization

Array = NDArray[np.float64]
_RUN_BYTES = 4 << 20
GROUPS = 20  # of episodes to leave out, where describing has to be done again for each
_ROUNDING = 1e-15  # of squared points: that is how far equal episodes may seem to differ
_SINGLE = "a single episode, which does not tell how sure a distance is: play more for intervals"
_ALIKE = (
    "episodes that are all alike to {} (as of a deterministic policy in a deterministic "
    "environment), so that intervals are 0 wide"
)


def effective_episodes(data: VisitedStates, by_state: bool) -> Array:
    """Episodes of each policy that count: with weights w, (Σw)² / Σw² (Kish 1965)."""
    weights = data.lengths.astype(np.float64) if by_state else np.ones(data.n_episodes)
    starts = data.policy_starts[:-1]
    sums = np.add.reduceat(weights, starts)
    return np.asarray(sums**2 / np.add.reduceat(weights**2, starts))


def left_out(method: Characterization, statistics: Array, starts: NDArray[Any]) -> Array:
    """Jackknife influences of episodes on the rows of their policy: (M − 1)(mean − left out).

    Leaving out rather than differentiating: the root of a share that one episode alone has is far
    from linear, and its derivative would tell a quarter of the variance there is.
    """
    counts = np.diff(starts)
    owner = np.repeat(np.arange(len(counts)), counts)
    sums = np.add.reduceat(statistics, starts[:-1], axis=0)
    rest = sums[owner] - statistics
    alone = counts[owner] == 1  # nothing is left: whatever stands there is not used
    rest[alone] = statistics[alone]
    rows = method._rows_of(rest)
    rows -= rows[starts[:-1]][owner]  # so that equal episodes have exactly none
    means = np.add.reduceat(rows, starts[:-1], axis=0) / counts[:, None]
    rows -= means[owner]
    rows *= 1 - counts[owner, None]
    return rows


def describe_with_influences(method: Characterization, data: VisitedStates) -> Description:
    """Describe policies, with the influence of each of their episodes, in runs of policies."""
    sums: list[Array] = []
    influences, first = np.empty((0, 0), np.float32), 0
    for own, moved in over_policies(_sums_and_influences, data, method, runs=_runs(data)):
        sums.append(own)
        if not first:
            influences = np.empty((data.n_episodes, moved.shape[1]), np.float32)
        influences[first : first + len(moved)] = moved
        first += len(moved)
    vectors, points, arrays = method._from_statistics(np.concatenate(sums))
    packed: dict[str, NDArray[Any]] = {
        "influences": influences,
        "influences.starts": data.policy_starts.astype(np.int64),
        "effective_episodes": effective_episodes(data, method.by_state),
    }
    return vectors, points, {**arrays, **packed}


def policy_sums(method: Characterization, data: VisitedStates) -> Array:
    """Statistics of each policy, the sums over its episodes', in runs of policies."""
    return np.concatenate(list(over_policies(_sums, data, method, runs=_runs(data))))


def _sums(run: VisitedStates, method: Characterization) -> Array:
    return np.add.reduceat(method._statistics(run), run.policy_starts[:-1], axis=0)


def _sums_and_influences(
    run: VisitedStates, method: Characterization
) -> tuple[Array, NDArray[np.float32]]:
    statistics, starts = method._statistics(run), run.policy_starts
    sums = np.add.reduceat(statistics, starts[:-1], axis=0)
    return sums, left_out(method, statistics, starts).astype(np.float32)


def _runs(data: VisitedStates) -> list[Span]:
    """Cut policies into runs whose episodes' statistics are small beside the states."""
    return runs_of(data.policy_starts, max(1, _RUN_BYTES // (8 * 64 * (data.n_features + 1))))


def measured(
    method: Characterization, sides: Sequence[VisitedStates | Descriptions]
) -> tuple[Array, Array, list[Spread], Array | None]:
    """Squares of all distances, their variances, the spread of each side, and the noise.

    A single side is compared with itself. Noise is None where it is what the spreads add up to.
    """
    if method.exact or method.no_intervals:
        return _without_episodes(method, sides)
    described = [side for side in sides if isinstance(side, Descriptions)]
    if not described:
        states = [side for side in sides if isinstance(side, VisitedStates)]
        return _leaving_out(method, states)
    rows = [side.values("points" if method.squared else "vectors")[0] for side in described]
    moved = [side.values("influences", "influences.starts") for side in described]
    spreads = [described_spread(*pair) for pair in zip(described, rows, strict=True)]
    (own, starts), (others, other_starts) = moved[0], moved[-1]
    variance = directional_variances(own, starts, rows[0], rows[-1])
    back = variance  # of a set with itself
    if len(moved) > 1:
        back = directional_variances(others, other_starts, rows[-1], rows[0])
    variance = variance + back.T
    return squared_euclidean(rows[0], rows[-1]), 4.0 * variance, spreads, None


def described_spread(described: Descriptions, rows: Array) -> Spread:
    """How far sampling moves the rows of policies, from the influences of their episodes."""
    influences = described.values("influences", "influences.starts", "effective_episodes")
    spread = spread_of(*influences)
    spread.trace[spread.trace <= _ROUNDING * np.einsum("ij,ij->i", rows, rows)] = 0.0
    return spread


def without_noise(method: Characterization, described: Descriptions, distances: Array) -> Array:
    """Take off all distances, as measured, what sampling adds: ``intervals(described).distance``.

    Without the rest of `intervals`, which of thousands of policies takes long and much memory.
    """
    [rows] = described.values("points" if method.squared else "vectors")
    spread = described_spread(described, rows)
    squares = distances.copy() if method.squared else distances**2
    warn_of_spread(method, [described], [spread], squares)
    noise = np.add.outer(spread.trace, spread.trace)
    np.subtract(squares, noise, out=squares, where=~np.isnan(noise))
    np.fill_diagonal(squares, 0.0)
    return squares if method.squared else np.sqrt(np.maximum(squares, 0.0))


def _without_episodes(
    method: Characterization, sides: Sequence[VisitedStates | Descriptions]
) -> tuple[Array, Array, list[Spread], None]:
    """As `measured`, without looking at episodes: no noise, or none that is known."""
    described = [
        method._described(side) if isinstance(side, VisitedStates) else side for side in sides
    ]
    squares = _squares(method, described[0], described[-1])
    value = 0.0 if method.exact else np.nan
    flat = [np.full(len(side), value) for side in sides]
    spreads = [Spread(values, values, values, np.ones_like(values)) for values in flat]
    return squares, np.full_like(squares, value), spreads, None


def _leaving_out(
    method: Characterization, sides: Sequence[VisitedStates]
) -> tuple[Array, Array, list[Spread], Array | None]:
    """As `measured`, of distances that are not between points (the jackknife, Efron 1982)."""
    described = [method._described(side) for side in sides]
    squares = _squares(method, described[0], described[-1])
    moved = [_moved(method, sides[0], described[-1], squares)]
    if len(sides) > 1:
        moved.append(_moved(method, sides[1], described[0], squares.T))
    (change, variance, _), (changed, varied, _) = moved[0], moved[-1]
    # Half the sum of absolute differences is nothing like a square where the two are alike, but
    # the jackknife knows how it falls with the number of episodes.
    noise = None if method.squared else np.maximum(change + changed.T, 0.0)
    return squares, variance + varied.T, [spread for _, _, spread in moved], noise


def _moved(
    method: Characterization, data: VisitedStates, others: Descriptions, squares: Array
) -> tuple[Array, Array, Spread]:
    """What leaving out episodes does to the distances of policies to others.

    The noise that they add to each, (n, m), its variance, and the spread of the policies: the
    distances of what is left to each other have the products of influences in them (as in
    classical scaling, Torgerson 1952).
    """
    noise, variance = np.full((2, *squares.shape), np.nan)
    trace, norm, unbiased = np.full((3, len(data)), np.nan)
    statistics = method._statistics(data) if method.has_statistics else None
    effective = effective_episodes(data, method.by_state)
    for p, (i, j) in enumerate(pairwise(data.policy_starts.tolist())):
        if j - i > 1:
            rest = rests(method, data[p], None if statistics is None else statistics[i:j])
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


def rests(method: Characterization, data: VisitedStates, statistics: Any) -> Descriptions:
    """Describe one policy without each of its episodes (or groups of them, if there are many)."""
    m = data.n_episodes
    if statistics is None:
        parts = np.array_split(np.arange(m), min(m, GROUPS))
        return method._described(regrouped([data], [np.delete(np.arange(m), g) for g in parts]))
    if isinstance(statistics, np.ndarray):
        return _anonymous(method, statistics.sum(axis=0) - statistics)
    return _anonymous(method, (1.0 - np.eye(m)) @ statistics)


def _squares(method: Characterization, a: Descriptions, b: Descriptions) -> Array:
    distances = method._distances(a, b)
    return distances if method.squared else distances**2


def exchanged(
    method: Characterization, a: VisitedStates, b: VisitedStates, permutations: int, seed: int
) -> PermutationTest:
    """Test by exchanging the episodes of two policies."""
    if len(a) != 1 or len(b) != 1:
        raise UsageError(f"expected one policy on each side, but got {len(a)} and {len(b)}")
    if method.no_test:
        raise UsageError(f"{method.name} has no test of the same behaviour: {method.no_test}")
    distance = float(method.distances(a, b)[0, 0])
    p_value = _exchanged(method, a, b, permutations, np.random.default_rng(seed))
    return PermutationTest(p_value, distance, permutations)


def _exchanged(
    method: Characterization,
    a: VisitedStates,
    b: VisitedStates,
    permutations: int,
    rng: np.random.Generator,
) -> float:
    divisions = sides(a.n_episodes, b.n_episodes, permutations, rng)
    if not method.has_statistics:
        return share_as_large(_regrouped_distances(method, [a, b], divisions))
    if method.has_influences:
        statistics = np.concatenate([method._statistics(a), method._statistics(b)])
        influences = left_out(method, statistics, np.array([0, len(statistics)]))
        return share_as_large(mean_differences(influences, divisions))
    statistics = method._statistics(regrouped([a, b], [np.arange(divisions.shape[1])]))
    pair = [
        _anonymous(method, side.astype(np.float64) @ statistics) for side in (divisions, ~divisions)
    ]
    return share_as_large(_matched_distances(method, *pair))


def _anonymous(method: Characterization, sums: Array) -> Descriptions:
    """Describe sums of nobody in particular."""
    data = VisitedStates.from_arrays([[np.zeros((1, 1))]] * len(sums))
    return Descriptions(
        method.name, data.policies, *method._from_statistics(sums), *summarise(data)
    )


def _regrouped_distances(
    method: Characterization, parts: Sequence[VisitedStates], divisions: NDArray[np.bool_]
) -> Array:
    groups = [np.flatnonzero(side) for row in divisions for side in (row, ~row)]
    described = method._described(regrouped(parts, groups))
    n = len(divisions)
    return _matched_distances(
        method, described.select(range(0, 2 * n, 2)), described.select(range(1, 2 * n, 2))
    )


def _matched_distances(method: Characterization, a: Descriptions, b: Descriptions) -> Array:
    """Distances of the i-th row of a to the i-th of b."""
    return np.array([method._distances(a.select([i]), b.select([i]))[0, 0] for i in range(len(a))])


def warn_of_spread(
    method: Characterization,
    sides: Sequence[VisitedStates | Descriptions],
    spreads: Sequence[Spread],
    squares: Array,
    pairs: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None,
) -> None:
    """Say where there is no interval, or one that is 0 wide, and why.

    ``squares`` are those of all pairs, or of these ``pairs`` of one side.
    """
    if method.exact:
        _warn(
            f"{method.name} looks at the policies and not at their episodes: its distances have no "
            "noise, so that intervals are 0 wide"
        )
        return
    if method.no_intervals:
        _warn(f"{method.name} has no intervals: {method.no_intervals}")
        return
    labels = [label for side in sides for label in side.labels]
    trace = np.concatenate([spread.trace for spread in spreads])
    for chosen, words in ((np.isnan(trace), _SINGLE), (trace == 0.0, _ALIKE.format(method.name))):
        if chosen.any():
            others = f" and {chosen.sum() - 1} more have" if chosen.sum() > 1 else " has"
            _warn(f"{labels[int(chosen.argmax())]!r}{others} {words}")
    i, j = np.nonzero(squares == 0.0) if pairs is None else (p[squares == 0.0] for p in pairs)
    copies = spreads[0].trace[i] + spreads[-1].trace[j] > 0.0
    if len(sides) == 1:
        copies &= i < j
    vectors = sides[0].vectors if isinstance(sides[0], Descriptions) else None
    single = vectors is not None and vectors.shape[1] == 1  # numbers are equal now and then
    if copies.any() and not single:
        k = int(copies.argmax())
        _warn(
            f"{sides[0].labels[i[k]]!r} and {sides[-1].labels[j[k]]!r} have the very same "
            "episodes: copies are not samples, and their distance says nothing"
        )


def _warn(message: str) -> None:
    warnings.warn(message, PivecWarning, stacklevel=4)
