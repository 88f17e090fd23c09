"""What is worth knowing of all distances, in memory that does not grow with their number.

Up to some thousand policies the whole matrix is kept, and how sure each distance is. Beyond, it is
gone through by rows: each policy keeps its nearest others, exactly, and the whole keeps its most
notable pairs.
"""

from __future__ import annotations

import heapq
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import PivecWarning
from pivec.parallel import make_engine, run_tasks, single_threaded_blas
from pivec.policies import PolicyInfo, canonical_order
from pivec.states import VisitedStates, engine_for
from pivec.statistics.intervals import RATE, Intervals, benjamini_hochberg

# -----------------------------------------------------------------------------
# The nearest and the farthest pairs of policies, and how sure their distances are.


Array = NDArray[np.float64]
Pair = tuple[int, int, float]
LEVEL = 0.95  # of the intervals that are shown


@dataclass(frozen=True)
class Pairs:
    """Pairs of policies in columns; NaN where something is not known.

    Attributes
    ----------
    i, j : int arrays
        Numbers of the two policies, i < j.
    distance : array
        At least 0; where there is an interval, without the noise of sampling.
    low, high : arrays
        Ends of the interval of the distance.
    overlap : array
        Share of their time that the two spend in the same places.
    p, q : arrays
        p-value of "the same behaviour", and what it is among many (Benjamini-Hochberg).

    Examples
    --------
    >>> pairs = Pairs.of([0, 0], [1, 2], [0.01, 0.3], q=[0.4, 0.001])
    >>> pairs.alike
    array([ True, False])
    >>> pairs.take([1]).distance
    array([0.3])
    """

    i: NDArray[np.intp]
    j: NDArray[np.intp]
    distance: Array
    low: Array
    high: Array
    overlap: Array
    p: Array
    q: Array

    @classmethod
    def of(
        cls, i: ArrayLike = (), j: ArrayLike = (), distance: ArrayLike = (), **known: ArrayLike
    ) -> Pairs:
        """Make pairs of which some columns are not known."""
        columns = {"distance": distance} | known
        n = np.size(i)
        return cls(
            np.asarray(i, np.intp),
            np.asarray(j, np.intp),
            *(np.asarray(columns.get(c.name, np.full(n, np.nan)), float) for c in fields(cls)[2:]),
        )

    def __len__(self) -> int:
        return len(self.i)

    def take(self, which: ArrayLike) -> Pairs:
        """Pick pairs by number."""
        rows = np.asarray(which, np.intp)
        return Pairs(*(getattr(self, column.name)[rows] for column in fields(self)))

    @property
    def alike(self) -> NDArray[np.bool_]:
        """Whether the two cannot be told apart: chance explains their distance."""
        return self.q > RATE


def nearest_pairs(distances: Array, count: int = 10, *, first: int = 0) -> list[Pair]:
    """Find the ``count`` pairs (i, j, distance) that are closest, nearest first.

    ``distances`` are rows of a symmetric matrix from ``first`` on; only pairs i < j count.

    Examples
    --------
    >>> d = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 3.0], [5.0, 3.0, 0.0]])
    >>> nearest_pairs(d, 1), farthest_pairs(d, 1)
    ([(0, 1, 1.0)], [(0, 2, 5.0)])
    """
    return _pairs(distances, count, first, 1.0)


def farthest_pairs(distances: Array, count: int = 10, *, first: int = 0) -> list[Pair]:
    """Find the ``count`` pairs (i, j, distance) that are farthest apart, farthest first."""
    return _pairs(distances, count, first, -1.0)


def _pairs(distances: Array, count: int, first: int, sign: float) -> list[Pair]:
    """Row by row, so that a large matrix is never copied."""
    best: list[tuple[float, int, int]] = []
    for i, row in enumerate(distances, start=first):
        others = sign * row[i + 1 :]
        if len(best) == count and not (others < best[-1][0]).any():
            continue  # as nearly all rows of many
        chosen = np.argpartition(others, count)[:count] if len(others) > count else others.argsort()
        best = heapq.nsmallest(
            count, best + [(float(others[j]), i, i + 1 + j) for j in chosen.tolist()]
        )
    return [(i, j, sign * d) for d, i, j in best]


# -----------------------------------------------------------------------------
# What distances are measured with: as much of a characterization as this folder needs.


class Described(Protocol):
    """Descriptions of policies, as `pivec.characterizations.descriptions.Descriptions`."""

    @property
    def policies(self) -> tuple[PolicyInfo, ...]:
        """Name, run and training step of each."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The runs the policies came from."""

    @property
    def steps(self) -> tuple[int | None, ...]:
        """The policies' training steps."""

    @property
    def points(self) -> NDArray[np.float64] | None:
        """Vectors whose squared Euclidean distance is the distance, where there are such."""

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """What else is known of them; "influences" are how each episode moves the points."""

    def rows(self, name: str) -> list[NDArray[Any]]:
        """Give what is packed under ``name``, one array a policy."""

    def __len__(self) -> int: ...

    def select(self, rows: Sequence[int] | NDArray[Any]) -> Self:
        """Pick policies by number."""

    def without_influences(self) -> Self:
        """Leave out how each episode moves a policy."""


class Method(Protocol):
    """A fitted way to describe policies, as `pivec.characterizations.base.Characterization`."""

    name: ClassVar[str]
    exact: ClassVar[bool]  # whether episodes play no part
    no_intervals: ClassVar[str]  # why there are none, where there are none

    @property
    def squared(self) -> bool:
        """Whether the distance is, or is like, a squared one."""

    @property
    def has_influences(self) -> bool:
        """Whether it can say how each episode moves a description."""

    @property
    def has_statistics(self) -> bool:
        """Whether a description is a function of sums over episodes."""

    def describe(self, data: VisitedStates) -> Any:
        """Describe each policy of ``data``."""

    def distances(self, a: Any, b: Any = None) -> NDArray[np.float64]:
        """Distances of all policies of ``a`` to each other, or to those of ``b``."""

    def intervals(self, a: Any, b: Any = None, level: float = 0.95) -> Intervals:
        """Distances without the noise of sampling, and how sure they are."""

    def pair_intervals(
        self,
        described: Any,
        i: NDArray[np.intp],
        j: NDArray[np.intp],
        distances: NDArray[np.float64],
        level: float = 0.95,
    ) -> Intervals:
        """As `intervals`, of some pairs of policies whose distances are known, a value a pair."""


# -----------------------------------------------------------------------------
# The distance a training run travels: the sum over successive checkpoints, and how sure it is.


@dataclass(frozen=True)
class Travel:
    """One run: its checkpoints in order of training, and the distance from each to the next."""

    group: str
    rows: tuple[int, ...]
    steps: tuple[int, ...]
    legs: Array
    half_widths: Array | None = None  # of the intervals of ``cumulative``, where they are known

    @property
    def total(self) -> float:
        """Distance travelled in all."""
        return float(self.cumulative[-1])

    @property
    def cumulative(self) -> Array:
        """Distance travelled up to each checkpoint, starting with 0.

        Of legs that noise was taken off, some are a little below 0; their sums are not.
        """
        return np.concatenate([[0.0], np.maximum(np.cumsum(self.legs), 0.0)])


def travels(
    groups: Sequence[str],
    steps: Sequence[int | None],
    distance: Array | Callable[[Sequence[int]], Array],
) -> list[Travel]:
    """Follow every group that has at least two checkpoints with a training step.

    ``distance`` is the matrix, or a function that gives the distance from each of some policies,
    by their numbers, to the next.

    Examples
    --------
    >>> d = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 3.0], [5.0, 3.0, 0.0]])
    >>> [run] = travels(["a", "a", "a"], [0, 100, 200], d)
    >>> run.total, run.cumulative
    (4.0, array([0., 1., 4.]))
    """
    runs: dict[str, list[tuple[int, int]]] = {}
    for row, (group, step) in enumerate(zip(groups, steps, strict=True)):
        if step is not None:
            runs.setdefault(group, []).append((step, row))
    result = []
    for group, stops in runs.items():
        if len(stops) < 2:
            continue
        stops.sort()
        rows = tuple(row for _, row in stops)
        legs = distance(rows) if callable(distance) else distance[rows[:-1], rows[1:]]
        result.append(Travel(group, rows, tuple(step for step, _ in stops), legs))
    return result


def sampled_travel(
    points: Array, influences: Sequence[NDArray[np.floating]]
) -> tuple[Array, Array]:
    """Take the noise of sampling off the legs of a way, and tell how sure their sums are.

    A leg is the squared distance of successive points. Legs that share a checkpoint share its
    error, so the variance of their sum is not the sum of their variances. The sum is the quadratic
    form xᵀLx of the points, with L the Laplacian of the way; where point i has an error of
    covariance Cᵢ, its variance is Σᵢ 4 (Lx)ᵢᵀ Cᵢ (Lx)ᵢ + 2 Σᵢⱼ Lᵢⱼ² tr CᵢCⱼ.

    Parameters
    ----------
    points : (n, n_values) array
        Of the checkpoints, in order.
    influences : n arrays of (n_episodes, n_values)
        How each episode moves its checkpoint's point.

    Returns
    -------
    legs : (n - 1,) array
        Less the noise; may be a little below 0.
    deviations : (n,) array
        Standard errors of the sums up to each checkpoint, the first of which is 0.
    """
    # C = AᵀA is the covariance of a checkpoint's point.
    roots = [
        np.asarray(rows, np.float64) / np.sqrt(len(rows) * (len(rows) - 1)) for rows in influences
    ]
    own = np.array([np.sum((root @ root.T) ** 2) for root in roots])  # tr CC
    shared = np.array([np.sum((a @ b.T) ** 2) for a, b in pairwise(roots)])  # tr CC' of neighbours
    noise = np.array([np.sum(root**2) for root in roots])
    moves = np.diff(points, axis=0)

    def spread(root: Array, pull: Array) -> float:
        return float(np.sum((root @ pull) ** 2))

    # Lᵢᵢ is 1 at both ends of the way so far, and 2 between them.
    ended = np.array([spread(*pair) for pair in zip(roots[1:], moves, strict=True)])
    turns = moves[:-1] - moves[1:]
    passed = np.array([spread(*pair) for pair in zip(roots[1:-1], turns, strict=True)])
    first = 4 * (spread(roots[0], moves[0]) + _sums_before(passed) + ended)
    second = 2 * (own[0] + _sums_before(4 * own[1:-1]) + own[1:] + 2 * np.cumsum(shared))
    # Points with errors make the first term too large, by twice the second on average.
    variances = np.maximum(first - second, second)
    return (
        np.sum(moves**2, axis=1) - noise[1:] - noise[:-1],
        np.sqrt(np.concatenate([[0.0], variances])),
    )


def _sums_before(values: Array) -> Array:
    return np.concatenate([[0.0], np.cumsum(values)])


# 4000² float64 distances are 128 MB.
WHOLE = 4000
# Six matrices of 2000² are 192 MB.
WHOLE_INTERVALS = 2000
# Intervals by leaving episodes out measure all distances as often as a policy has episodes.
MAX_LEFT_OUT = 300
# Of more pairs only the notable ones are listed: each policy's nearest others, and the farthest.
MAX_PAIRS = 100_000
_ROWS_BYTES = 128 << 20
_SEARCHED_BYTES = 2 << 20  # of distances that a core looks through at a time
_LEGS = 64  # of a run, measured together
_NO_DISTANCE = 1e-9  # a distance that is rounding


@dataclass(frozen=True, repr=False)
class Measured:
    """Distances of policies to each other."""

    matrix: Array | None  # all distances; None where there are too many policies
    neighbours: NDArray[np.intp]  # the k nearest others of each policy, nearest first
    neighbour_distances: Array
    nearest: Pairs = field(default_factory=Pairs.of)  # the most notable pairs
    farthest: Pairs = field(default_factory=Pairs.of)
    travels: list[Travel] = field(default_factory=list)  # the distance along each run
    # All pairs, nearest first, or of too many each policy's nearest others and the most notable.
    pairs: Pairs = field(default_factory=Pairs.of)
    intervals: Intervals | None = None  # of all distances, where the whole matrix of them is kept

    def __repr__(self) -> str:
        return f"Measured({len(self.neighbours)} policies, {len(self.pairs.i)} pairs)"

    @cached_property
    def estimates(self) -> Array | None:
        """The matrix, without the noise of sampling where that is known."""
        if self.matrix is None or self.intervals is None:
            return self.matrix
        return np.maximum(self.intervals.distance, 0.0)

    @cached_property
    def certain(self) -> NDArray[np.bool_] | None:
        """Whether two policies are told apart, (n, n); None where that is not known."""
        if self.intervals is None or not self.n_known:
            return None
        n = len(self.intervals.p_value)
        i, j = np.triu_indices(n, 1)
        certain = np.eye(n, dtype=bool)
        certain[i, j] = certain[j, i] = benjamini_hochberg(self.intervals.p_value[i, j]) <= RATE
        return certain

    @cached_property
    def alike(self) -> Pairs:
        """Pairs that cannot be told apart, of all, or of ``pairs`` where not all are known."""
        if self.intervals is None or self.certain is None:
            return self.pairs.take(np.flatnonzero(self.pairs.alike))
        i, j = np.nonzero(np.triu(~self.certain & ~np.isnan(self.intervals.p_value), 1))
        return Pairs.of(i, j, np.maximum(self.intervals.distance[i, j], 0.0))

    @cached_property
    def n_known(self) -> int:
        """Number of pairs whose interval is known."""
        low = self.pairs.low
        if self.intervals is not None:
            low = self.intervals.low[np.triu_indices(len(self.intervals.low), 1)]
        return int(np.isfinite(low).sum())


def measure(
    method: Method,
    described: Described,
    data: VisitedStates | None = None,
    *,
    k: int = 20,
    pairs: int = 10,
    whole: int = WHOLE,
    whole_intervals: int = WHOLE_INTERVALS,
) -> Measured:
    """Measure all distances between policies that ``method`` described.

    Kept are the ``k`` nearest others of each policy, so many nearest and farthest pairs, the whole
    matrix for up to ``whole`` policies and all intervals for up to ``whole_intervals``. ``data``
    are the states of the same policies, for intervals of a method that needs them.
    """
    n = len(described)
    matrix = method.distances(described) if n <= whole else None
    source = _interval_source(method, described, data)
    intervals = None
    if source is not None and matrix is not None and n <= whole_intervals:
        intervals = method.intervals(source, level=LEVEL)
    neighbours, distances, notable = _by_rows(method, described, matrix, min(k, n - 1), pairs)
    if matrix is not None and n * (n - 1) // 2 <= MAX_PAIRS:
        i, j = np.triu_indices(n, 1)
        listed = Pairs.of(i, j, matrix[i, j])
    else:
        near = 1 + MAX_PAIRS // n
        listed = _joined(neighbours[:, :near], distances[:, :near], notable)
    if n > 1 and listed.distance.max() <= _NO_DISTANCE:
        warnings.warn(
            f"all distances are 0: {method.name} sees no difference between the {n} policies; look "
            "at what is kept of their states (--features)",
            PivecWarning,
            stacklevel=2,
        )
    known = _sureness(listed, method, described, source, intervals)
    listed = _listed(listed, known, intervals)
    numbers = np.arange(len(listed))
    return Measured(
        matrix,
        neighbours,
        distances,
        listed.take(numbers[:pairs]),
        listed.take(numbers[::-1][:pairs]),
        _travels(method, described, matrix, intervals),
        listed,
        intervals,
    )


def _by_rows(
    method: Method, described: Described, matrix: Array | None, k: int, pairs: int
) -> tuple[NDArray[np.intp], Array, list[Pair]]:
    """Find each policy's k nearest others with their distances, and the most notable pairs."""
    n = len(described)
    order, parts = np.arange(n), []
    if matrix is not None:
        parts = [_notable(matrix, 0, k, pairs)]
    else:
        order = canonical_order(described.policies)
        rows = max(1, _ROWS_BYTES // (8 * n))
        ordered = described.without_influences().select(order)
        blocks = [range(start, min(start + rows, n)) for start in range(0, n, rows)]
        on_card = getattr(method, "device", "") == "cuda"  # which is this process's
        engine = make_engine("serial") if on_card else engine_for(blocks)
        parts = [*engine.in_order(_of_rows, blocks, engine.share((method, ordered)), k, pairs)]
    near = sorted((pair for part in parts for pair in part[2]), key=lambda pair: pair[2])[:pairs]
    far = sorted((pair for part in parts for pair in part[3]), key=lambda pair: -pair[2])[:pairs]
    back = np.argsort(order)
    indices, distances = (np.concatenate([part[which] for part in parts])[back] for which in (0, 1))
    given = [(int(order[i]), int(order[j]), distance) for i, j, distance in near + far]
    return order[indices], distances, given


_Notable = tuple[NDArray[np.intp], Array, list[Pair], list[Pair]]


def _of_rows(rows: range, measured: tuple[Method, Described], k: int, pairs: int) -> _Notable:
    method, described = measured
    return _notable(method.distances(described.select(rows), described), rows.start, k, pairs)


def _notable(block: Array, first: int, k: int, pairs: int) -> _Notable:
    """Nearest others in these rows of all distances, and the nearest and farthest pairs."""
    near = nearest_pairs(block, pairs, first=first), farthest_pairs(block, pairs, first=first)
    return *nearest_of_rows(block, first, k), *near


def _joined(neighbours: NDArray[np.intp], distances: Array, notable: list[Pair]) -> Pairs:
    """List each policy with its nearest others, and the notable pairs; every pair once."""
    own = np.repeat(np.arange(len(neighbours)), neighbours.shape[1])
    ends = np.stack([own, neighbours.ravel()], axis=1)
    ends = np.concatenate([ends, [pair[:2] for pair in notable]]).astype(np.intp)
    ends, first = np.unique(np.sort(ends, axis=1), axis=0, return_index=True)
    raw = np.concatenate([distances.ravel(), [pair[2] for pair in notable]])
    return Pairs.of(ends[:, 0], ends[:, 1], raw[first])


def _interval_source(
    method: Method, described: Described, data: VisitedStates | None
) -> Described | VisitedStates | None:
    """Give what intervals can be made from; where there is nothing, say so."""
    if len(described) < 2:
        return None
    if "influences" in described.arrays or method.exact:
        return described
    if method.has_influences:
        reason = "these descriptions do not hold how each episode moves them, see `pivec describe`"
    elif method.no_intervals:
        reason = f"of {method.name} there are none, {method.no_intervals}"
    elif len(described) > MAX_LEFT_OUT:
        reason = (
            f"{method.name} would compare all policies without each of their episodes for them; "
            "from Python, method.intervals(data) does"
        )
    elif data is None:
        reason = f"those of {method.name} need the visited states, which are not at hand"
    else:
        return data
    warnings.warn(f"no intervals: {reason}", PivecWarning, stacklevel=3)
    return None


def _sureness(
    pairs: Pairs,
    method: Method,
    described: Described,
    source: Described | VisitedStates | None,
    intervals: Intervals | None,
) -> dict[str, Array]:
    """Columns of pairs that say how sure they are."""
    if not len(pairs):
        return {}
    pair_overlap = getattr(method, "pair_overlap", None)  # of what has regions
    known = {} if pair_overlap is None else {"overlap": pair_overlap(described, pairs.i, pairs.j)}
    at: Any = pairs.i, pairs.j
    if intervals is None and isinstance(source, VisitedStates):
        intervals = method.intervals(source, level=LEVEL)
    elif intervals is None and source is not None:
        intervals = method.pair_intervals(source, pairs.i, pairs.j, pairs.distance, LEVEL)
        at = ...
    if intervals is not None:
        known |= {name: getattr(intervals, name)[at] for name in ("distance", "low", "high")}
        known["p"] = intervals.p_value[at]
    return known


def _listed(pairs: Pairs, known: dict[str, Array], intervals: Intervals | None) -> Pairs:
    """Put what is known to the pairs, the nearest first, and q-values among all pairs."""
    if intervals is not None:
        n = len(intervals.p_value)
        above = np.triu_indices(n, 1)
        q = np.full((n, n), np.nan)
        q[above] = benjamini_hochberg(intervals.p_value[above])
        known["q"] = q[pairs.i, pairs.j]
    elif "p" in known:
        known["q"] = benjamini_hochberg(known["p"])
    estimates = known.get("distance", pairs.distance)
    known["distance"] = np.maximum(estimates, 0.0)
    return Pairs.of(pairs.i, pairs.j, **known).take(
        np.lexsort((pairs.j, pairs.i, pairs.distance, estimates))
    )


def _travels(
    method: Method, described: Described, matrix: Array | None, intervals: Intervals | None
) -> list[Travel]:
    """Follow each run, without the noise of sampling where that is known."""
    from scipy.stats import t

    plain = described.without_influences()

    def distances(rows: Sequence[int]) -> Array:
        """Measure from each row to the next, some at a time."""
        parts = (plain.select(rows[i : i + _LEGS + 1]) for i in range(0, len(rows) - 1, _LEGS))
        return np.concatenate([np.diag(method.distances(part), 1) for part in parts])

    if intervals is not None:
        matrix = intervals.distance
    runs = travels(described.groups, described.steps, distances if matrix is None else matrix)
    if not method.squared or described.points is None or "influences" not in described.arrays:
        return runs
    influences = described.rows("influences")
    effective = described.arrays["effective_episodes"]
    for number, run in enumerate(runs):
        rows = list(run.rows)
        moved = [influences[row] for row in rows]
        if min(map(len, moved)) > 1:
            with single_threaded_blas():  # the products are small
                legs, errors = sampled_travel(described.points[rows], moved)
            freedom = max(1.0, float(effective[rows].min()) - 1.0)
            half_widths = t.ppf((1.0 + LEVEL) / 2.0, freedom) * errors
            runs[number] = replace(run, legs=legs, half_widths=half_widths)
    return runs


def nearest_of_rows(block: Array, first: int, k: int) -> tuple[NDArray[np.intp], Array]:
    """Find the k nearest others in rows ``first``, ``first + 1``, ... of a matrix of distances."""
    indices = np.empty((len(block), k), np.intp)
    distances = np.empty((len(block), k))
    rows = max(1, _SEARCHED_BYTES // (8 * max(1, block.shape[1])))

    def work(task: int) -> None:
        part = slice(task * rows, (task + 1) * rows)
        others = block[part].copy()
        own = np.arange(len(others))
        others[own, own + first + part.start] = np.inf
        near = np.argpartition(others, max(k - 1, 0), axis=1)[:, :k]
        apart = np.take_along_axis(others, near, axis=1)
        order = np.lexsort((near, apart), axis=1)
        indices[part] = np.take_along_axis(near, order, axis=1)
        distances[part] = np.take_along_axis(apart, order, axis=1)

    run_tasks(work, -(-len(block) // rows))
    return indices, distances
