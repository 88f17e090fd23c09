"""Measuring all distances between policies, in memory that does not grow with their number.

For up to a few thousand policies the whole matrix is kept, with intervals. Beyond that, it is
processed by rows: each policy keeps its nearest neighbours, exactly, and the most notable pairs of
all are kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.base import Array, Characterization, Rows, Side
from pivec.characterizations.descriptions import STRATA, Descriptions
from pivec.characterizations.sampling import unbiased_points
from pivec.errors import PivecWarning
from pivec.parallel import make_engine, single_threaded_blas
from pivec.policies import canonical_order
from pivec.states import VisitedStates, engine_for
from pivec.statistics import (
    LEVEL,
    Intervals,
    Pair,
    Pairs,
    Travel,
    adjusted_intervals,
    farthest_pairs,
    nearest_of_rows,
    sampled_travel,
    travels,
)

WHOLE = 4000  # policies: 4000² float64 distances are 128 MB
WHOLE_INTERVALS = 2000  # policies: six matrices of 2000² are 192 MB
MAX_LEFT_OUT = 300  # policies: leaving episodes out computes all distances once per episode
MAX_PAIRS = 100_000  # of more, only each policy's nearest neighbours and notable pairs are listed
_ROWS_BYTES = 128 << 20
_LEGS = 64  # of a run, measured together
_NO_DISTANCE = 1e-9  # a distance that is rounding


@dataclass(frozen=True, repr=False)
class Measured:
    """Distances of policies to each other."""

    matrix: Array | None  # all distances; None for too many policies
    neighbours: Rows  # the k nearest others of each policy, nearest first
    neighbour_distances: Array
    nearest: Pairs = field(default_factory=Pairs.of)  # the most notable pairs
    farthest: Pairs = field(default_factory=Pairs.of)
    travels: list[Travel] = field(default_factory=list)  # the distance along each run
    # All pairs, nearest first; if too many, each policy's nearest others and the most notable.
    pairs: Pairs = field(default_factory=Pairs.of)
    # Of all distances, where the whole matrix of them is kept; ``low`` is 0 exactly for pairs that
    # do not differ significantly among all pairs.
    intervals: Intervals | None = None

    def __repr__(self) -> str:
        return f"Measured({len(self.neighbours)} policies, {len(self.pairs.i)} pairs)"

    @cached_property
    def estimates(self) -> Array | None:
        """The matrix, without sampling noise where that is known."""
        if self.matrix is None or self.intervals is None:
            return self.matrix
        return np.maximum(self.intervals.distance, 0.0)

    @cached_property
    def certain(self) -> NDArray[np.bool_] | None:
        """Whether two policies differ significantly, (n, n); None if not known."""
        if self.intervals is None or not self.n_known:
            return None
        return np.asarray((self.intervals.low > 0.0) | np.eye(len(self.intervals.low), dtype=bool))

    @cached_property
    def alike(self) -> Pairs:
        """Pairs that do not differ significantly, of all, or of ``pairs`` if not all are known."""
        if self.intervals is None:
            return self.pairs.take(np.flatnonzero(self.pairs.alike))
        i, j = np.nonzero(np.triu(self.intervals.low <= 0.0, 1))
        return Pairs.of(i, j, np.maximum(self.intervals.distance[i, j], 0.0))

    @cached_property
    def n_known(self) -> int:
        """Number of pairs whose interval is known."""
        low = self.pairs.low
        if self.intervals is not None:
            low = self.intervals.low[np.triu_indices(len(self.intervals.low), 1)]
        return int(np.isfinite(low).sum())


def measure(
    method: Characterization,
    described: Descriptions,
    data: VisitedStates | None = None,
    *,
    k: int = 20,
    pairs: int = 10,
    whole: int = WHOLE,
    whole_intervals: int = WHOLE_INTERVALS,
) -> Measured:
    """Measure all distances between policies that ``method`` described.

    Keeps the ``k`` nearest others of each policy, this many nearest and farthest ``pairs``, the
    whole matrix for up to ``whole`` policies and all intervals for up to ``whole_intervals``.
    ``data`` has the states of the same policies, for methods whose intervals need them.
    """
    n = len(described)
    matrix = method.distances(described) if n <= whole else None
    source = _interval_source(method, described, data)
    intervals = q = None
    if source is not None and matrix is not None and n <= whole_intervals:
        intervals, q = _adjusted(method.intervals(source, level=LEVEL))
    # The nearest pairs of all are among as many nearest others.
    least = min(max(k, pairs), n - 1)
    neighbours, distances, farthest = _by_rows(method, described, matrix, least, pairs)
    if matrix is not None and n * (n - 1) // 2 <= MAX_PAIRS:
        i, j = np.triu_indices(n, 1)
        listed = Pairs.of(i, j, matrix[i, j])
    else:
        chosen = np.zeros(distances.shape, dtype=bool)
        chosen[:, : 1 + MAX_PAIRS // n] = True
        chosen.flat[np.argsort(distances, axis=None)[: 2 * pairs]] = True  # each is there twice
        own, place = np.nonzero(chosen)
        far_i, far_j, far = zip(*farthest, strict=True)
        i, j = np.append(own, far_i), np.append(neighbours[own, place], far_j)
        ends = np.stack([np.minimum(i, j), np.maximum(i, j)], axis=1)
        ends, first = np.unique(ends, axis=0, return_index=True)
        listed = Pairs.of(ends[:, 0], ends[:, 1], np.append(distances[own, place], far)[first])
    if n > 1 and listed.distance.max() <= _NO_DISTANCE:
        warnings.warn(
            f"all distances are 0: {method.name} finds no difference between the {n} policies; "
            "check which features of their states are collected (--features)",
            PivecWarning,
            stacklevel=2,
        )
    known = _uncertainty(listed, method, described, source, intervals)
    listed = _listed(listed, known, q)
    numbers = np.arange(len(listed))
    return Measured(
        matrix,
        neighbours[:, :k],
        distances[:, :k],
        listed.take(numbers[:pairs]),
        listed.take(numbers[::-1][:pairs]),
        _travels(method, described, matrix, intervals),
        listed,
        intervals,
    )


def _by_rows(
    method: Characterization, described: Descriptions, matrix: Array | None, k: int, pairs: int
) -> tuple[Rows, Array, list[Pair]]:
    """Find each policy's k nearest others with their distances, and the farthest pairs."""
    if matrix is not None:
        return *nearest_of_rows(matrix, 0, k), farthest_pairs(matrix, pairs)
    n, order = len(described), canonical_order(described.policies)
    rows = max(1, _ROWS_BYTES // (8 * n))
    ordered = described.without_influences().select(order)
    blocks = [range(start, min(start + rows, n)) for start in range(0, n, rows)]
    on_card = getattr(method, "device", "") == "cuda"  # which is this process's
    engine = make_engine("serial") if on_card else engine_for(blocks)
    parts = engine.in_order(_of_rows, blocks, engine.share((method, ordered)), k, pairs)
    near, distances, far = zip(*parts, strict=True)
    back = np.argsort(order)
    farthest = sorted((pair for part in far for pair in part), key=lambda pair: -pair[2])[:pairs]
    given = [(int(order[i]), int(order[j]), distance) for i, j, distance in farthest]
    return order[np.concatenate(near)[back]], np.concatenate(distances)[back], given


def _of_rows(
    rows: range, measured: tuple[Characterization, Descriptions], k: int, pairs: int
) -> tuple[Rows, Array, list[Pair]]:
    """Nearest others and farthest pairs in these rows of all distances."""
    method, described = measured
    block, first = method.distances(described.select(rows), described), rows.start
    return *nearest_of_rows(block, first, k), farthest_pairs(block, pairs, first=first)


def _interval_source(
    method: Characterization, described: Descriptions, data: VisitedStates | None
) -> Side | None:
    """What intervals are computed from; None, with a warning, if there is nothing."""
    if len(described) < 2:
        return None
    if "influences" in described.arrays or method.traits.exact:
        return described
    if method.traits.influences:
        reason = "these descriptions have no influences: describe the states with influences=True"
    elif method.traits.no_intervals:
        reason = f"{method.name} has none, {method.traits.no_intervals}"
    elif len(described) > MAX_LEFT_OUT:
        reason = (
            f"{method.name} would have to compare all {len(described)} policies without each of "
            "their episodes; from Python, method.intervals(data) does"
        )
    elif data is None:
        reason = f"{method.name} needs the visited states for them"
    else:
        return data
    warnings.warn(f"no intervals: {reason}", PivecWarning, stacklevel=3)
    return None


def _uncertainty(
    pairs: Pairs,
    method: Characterization,
    described: Descriptions,
    source: Side | None,
    intervals: Intervals | None,
) -> dict[str, Array]:
    """Overlap, distance, interval and p-value of the pairs, where known."""
    if not len(pairs):
        return {}
    pair_overlap = getattr(method, "pair_overlap", None)
    known = {} if pair_overlap is None else {"overlap": pair_overlap(described, pairs.i, pairs.j)}
    at: Any = pairs.i, pairs.j
    if intervals is None and isinstance(source, VisitedStates):
        intervals = method.intervals(source, level=LEVEL)
    elif intervals is None and isinstance(source, Descriptions):
        intervals = method.pair_intervals(source, pairs.i, pairs.j, pairs.distance, LEVEL)
        at = ...
    if intervals is not None:
        known |= {name: getattr(intervals, name)[at] for name in ("distance", "low", "high")}
        known["p"] = intervals.p_value[at]
    return known


def _adjusted(intervals: Intervals) -> tuple[Intervals, Array]:
    """Return intervals that agree with the q-values among all pairs, and these."""
    low, q = intervals.low.copy(), np.full(intervals.low.shape, np.nan)
    above = np.triu_indices(len(q), 1)
    ends = intervals.low[above], intervals.high[above]
    q[above], low[above], _ = adjusted_intervals(intervals.p_value[above], *ends)
    low.T[above] = low[above]
    return replace(intervals, low=low), q


def _listed(pairs: Pairs, known: dict[str, Array], q: Array | None) -> Pairs:
    """Add what is known and q-values among all pairs; nearest pairs first."""
    if q is not None:
        known["q"] = q[pairs.i, pairs.j]
    elif "p" in known:
        names = "q", "low", "high"
        ends = known["low"], known["high"]
        known |= zip(names, adjusted_intervals(known["p"], *ends), strict=True)
    estimates = known.get("distance", pairs.distance)
    known["distance"] = np.maximum(estimates, 0.0)
    return Pairs.of(pairs.i, pairs.j, **known).take(
        np.lexsort((pairs.j, pairs.i, pairs.distance, estimates))
    )


def _travels(
    method: Characterization,
    described: Descriptions,
    matrix: Array | None,
    intervals: Intervals | None,
) -> list[Travel]:
    """Follow each run, without sampling noise where that is known."""
    from scipy.stats import t

    plain = described.without_influences()

    def distances(rows: Sequence[int]) -> Array:
        """Distance from each row to the next, some at a time."""
        parts = (plain.select(rows[i : i + _LEGS + 1]) for i in range(0, len(rows) - 1, _LEGS))
        return np.concatenate([np.diag(method.distances(part), 1) for part in parts])

    if intervals is not None:
        matrix = intervals.distance
    runs = travels(described.groups, described.steps, distances if matrix is None else matrix)
    if (
        not method.traits.squared
        or described.points is None
        or "influences" not in described.arrays
        or STRATA in described.arrays  # errors of paired checkpoints are not independent
    ):
        return runs
    influences, points, noise = described.influences, described.points, None
    if "half_noise" in described.arrays:
        points, noise = unbiased_points(described)
    effective = described.arrays["effective_episodes"]
    for number, run in enumerate(runs):
        rows = list(run.rows)
        moved = [influences[row] for row in rows]
        if min(map(len, moved)) > 1:
            with single_threaded_blas():  # the products are small
                own = None if noise is None else noise[rows]
                legs, errors = sampled_travel(points[rows], moved, own)
            freedom = max(1.0, float(effective[rows].min()) - 1.0)
            half_widths = t.ppf((1.0 + LEVEL) / 2.0, freedom) * errors
            runs[number] = replace(run, legs=legs, half_widths=half_widths)
    return runs
