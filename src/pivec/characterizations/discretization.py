"""Sparse histograms over the cells of a regular grid: of states, or of transitions.

A grid of 10 bins in 24 dimensions has 10²⁴ cells, of which a policy visits some thousands. A cell
is the number that its bins spell in base ``bins``, in as many 64-bit words as that takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Positive, Range
from pivec.characterizations.base import Array, Characterization, Traits
from pivec.characterizations.decomposition import OFTEN, Decomposable, RegionStatistics
from pivec.characterizations.descriptions import Description, Descriptions, pack
from pivec.characterizations.rows import Of, View
from pivec.states import VisitedStates, over_policies, starts_of

Words = NDArray[np.uint64]
Histogram = tuple[Words, Array]  # cells, sorted, and the share of each
_WORD = 2**64


def cell_words(rows: NDArray[np.floating], low: Array, high: Array, bins: int) -> Words:
    """Cell of each row, (n, n_words); values outside [low, high] are in the outer bins."""
    digits = digits_of_word(bins)
    n_columns = rows.shape[1]
    words = np.zeros((len(rows), -(-n_columns // digits)), dtype=np.uint64)
    base = np.uint64(bins)
    # Column by column: temporaries of one column only.
    for column in range(n_columns):
        place = rows[:, column].astype(np.float64)
        place -= low[column]
        place *= bins / (high[column] - low[column])
        np.clip(place, 0, bins - 1, out=place)
        word = words[:, column // digits]
        word *= base
        word += place.astype(np.uint64)
    return words


def digits_of_word(bins: int) -> int:
    """Number of digits in base ``bins`` that fit 64 bits."""
    digits = 1
    while bins ** (digits + 1) <= _WORD:
        digits += 1
    return digits


def cell_places(cells: Words, n_columns: int, bins: int) -> NDArray[np.int64]:
    """Bin of each column that `cell_words` put the rows of these cells into, (n, n_columns)."""
    digits = digits_of_word(bins)
    places = np.empty((len(cells), n_columns), dtype=np.int64)
    rest = cells.copy()
    for column in reversed(range(n_columns)):
        word = rest[:, column // digits]
        places[:, column] = word % np.uint64(bins)
        word //= np.uint64(bins)
    return places


def histogram(words: Words) -> Histogram:
    """Different cells, sorted, and the share of the rows in each."""
    cells, _, counts = _unique(words)
    return cells, counts / len(words)


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Counts of the rows of each episode in each cell; ``weights @ counts`` sums episodes."""

    cells: Words  # (n_cells, n_words), sorted
    counts: Any  # (n_episodes, n_cells), a sparse array of SciPy

    __array_ufunc__ = None  # so that NumPy calls __rmatmul__

    def __len__(self) -> int:
        return int(self.counts.shape[0])

    def __getitem__(self, rows: slice) -> CellCounts:
        return CellCounts(self.cells, self.counts[rows])

    @classmethod
    def of_rows(cls, words: Words, cuts: NDArray[np.int64]) -> Self:
        """Count the rows between one cut and the next."""
        from scipy.sparse import csr_array

        cells, numbers, _ = _unique(words)
        counts = csr_array((np.ones(len(words)), numbers, cuts), shape=(len(cuts) - 1, len(cells)))
        counts.sum_duplicates()
        return cls(cells, counts)

    def __rmatmul__(self, weights: Any) -> CellCounts:
        from scipy.sparse import csr_array

        return CellCounts(self.cells, csr_array(weights) @ self.counts)

    def shares_by_cell(self, rows: Any = slice(None), columns: Any = slice(None)) -> Array:
        """Shares of these cells in these rows, (n_rows, n_cells)."""
        chosen = self.counts[rows]
        totals = np.asarray(chosen.sum(axis=1)).reshape(-1, 1)
        return np.asarray(chosen[:, columns].toarray() / totals)

    def histograms(self) -> list[Histogram]:
        """Cells of each row, sorted, and the share of each."""
        counts = self.counts.copy()
        counts.sort_indices()
        counts.eliminate_zeros()
        rows = (np.split(values, counts.indptr[1:-1]) for values in (counts.indices, counts.data))
        return [(self.cells[own], n / n.sum()) for own, n in zip(*rows, strict=True)]


def half_l1(a: Sequence[Histogram], b: Sequence[Histogram] | None = None) -> Array:
    """½ Σ |p − q| for all pairs of sparse histograms, (n, m); symmetric without ``b``.

    As both sum to 1, it is Σ max(p − q, 0) over the cells of p: nothing cancels, and equal
    histograms have distance exactly 0. Cells that only one histogram has, in many dimensions nearly
    all, are summed once.
    """
    cells, shares = zip(*a, *(b or ()), strict=True)
    n, n_all = len(a), len(cells)
    owners = np.repeat(np.arange(n_all), list(map(len, cells)))
    _, numbers, visitors = _unique(np.concatenate(cells))
    values = np.concatenate(shares)
    private = visitors[numbers] == 1
    alone = np.bincount(owners[private], values[private], minlength=n_all)
    # The rest, renumbered without gaps.
    shared = np.cumsum(visitors > 1) - 1
    owners, numbers, values = owners[~private], shared[numbers[~private]], values[~private]
    starts = np.searchsorted(owners, np.arange(n_all + 1))
    first = 0 if b is None else n  # the columns begin here
    result = np.empty((n, n_all - first))
    dense = np.zeros(int(shared[-1]) + 1)
    right = slice(starts[first], starts[-1])
    columns = owners[right] - first
    for i in range(n):
        mine = slice(starts[i], starts[i + 1])
        dense[numbers[mine]] = values[mine]
        excess = np.maximum(values[right] - dense[numbers[right]], 0.0)
        result[i] = np.bincount(columns, excess, minlength=result.shape[1])
        dense[numbers[mine]] = 0.0
    result += alone[first:]
    if b is not None:
        return result
    np.fill_diagonal(result, 0.0)  # a histogram's own cells were counted as those of another
    # The excess of q over p equals that of p over q up to rounding.
    return (result + result.T) / 2


def _unique(words: Words) -> tuple[Words, NDArray[np.int64], NDArray[np.int64]]:
    """Like `numpy.unique` with axis=0, inverse and counts, but several times as fast."""
    order = np.argsort(words[:, 0]) if words.shape[1] == 1 else np.lexsort(words.T)
    ordered = words[order]
    new = np.ones(len(words), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    numbers = np.empty(len(words), dtype=np.int64)
    numbers[order] = np.cumsum(new) - 1
    return ordered[new], numbers, np.bincount(numbers)


_MAX_CELLS = 2000  # that are listed one by one


@dataclass(eq=False, repr=False)
class Discretization(Characterization):
    """Shares of the states in each cell of a regular grid.

    The distance is half the L1 distance of two histograms: the share of states that would have to
    move for the two to be equal, from 0 to 1. Only cells with states are stored.

    Parameters
    ----------
    bins : int
        Bins per feature, between its smallest and largest value over all states of the fit.
    margin : float
        How far the grid extends beyond those. States outside are counted in the outermost bins.

    Examples
    --------
    >>> walks = [[np.array([[0.0], [0.1], [5.0], [9.9]])], [np.array([[0.2], [5.1], [5.2], [9.9]])]]
    >>> data = VisitedStates.from_arrays(walks)
    >>> Discretization().fit(data).distances(data)
    array([[0.  , 0.25],
           [0.25, 0.  ]])
    """

    name = "discretization"
    layout: ClassVar[dict[str, str]] = {
        "learned.low": "f8 F",
        "learned.high": "f8 F",
        "described.cells": "u8 *N W",
        "described.shares": "f8>=0 *N",
    }
    traits = Traits(
        "The state space is cut into cells, and each policy is described by the share of its "
        "states in every cell. The distance between two policies is half the sum of the absolute "
        "differences of these shares: 0 for policies that visit all cells equally often, 1 for "
        "policies that have no cell in common.",
        "d(p, q) = ½ · Σ_c |p(c) − q(c)|",
        squared=False,
        max_distance=1.0,
        additive=True,
    )
    _of: ClassVar[Of] = "states"

    bins: Annotated[int, Range(2, most=2**32)] = 10
    _: KW_ONLY
    margin: Positive = 1e-4

    def _fit(self, data: VisitedStates) -> None:
        ends = np.array(list(over_policies(_ends, data)), dtype=np.float64)
        self.low_ = ends[:, 0].min(axis=0) - self.margin
        self.high_ = ends[:, 1].max(axis=0) + self.margin

    def _describe(self, data: VisitedStates) -> Description:
        return _packed(chain.from_iterable(over_policies(_histograms, data, self)))

    def _statistics(self, data: VisitedStates) -> CellCounts:
        lengths = [np.diff(View(self._of).cuts(data, i)) for i in range(len(data))]
        return CellCounts.of_rows(
            np.concatenate(list(self._words(data))), starts_of(np.concatenate(lengths))
        )

    def _from_statistics(self, sums: CellCounts) -> Description:
        return _packed(sums.histograms())

    @property
    def part_columns(self) -> tuple[tuple[str, int], ...]:
        """A single column: how often."""
        return ((OFTEN, -1),) if self._of == "states" else ()

    def _decomposable(self, sums: CellCounts) -> Decomposable:
        """Decompose by cells, those in which the first two rows differ most; the rest is one."""
        pair = sums.shares_by_cell(slice(0, 2))
        apart = np.abs(pair[0] - pair[1])
        order = np.argsort(-apart, kind="stable")[: np.count_nonzero(apart)]
        leading, rest = order[:_MAX_CELLS], order[_MAX_CELLS:]
        places = cell_places(sums.cells[leading], len(self.low_), self.bins)
        edges = np.stack([places, places + 1], axis=2) / self.bins
        ranges = self.low_[:, None] + (self.high_ - self.low_)[:, None] * edges
        words = [f"cell {','.join(map(str, place))}" for place in places.tolist()]
        shares = sums.shares_by_cell(columns=leading)
        others = np.zeros((2, len(shares)))  # half the L1 distance in the other cells, to both
        for first in range(0, len(rest), _MAX_CELLS):
            block = sums.shares_by_cell(columns=rest[first : first + _MAX_CELLS])
            others += [np.abs(block - block[i]).sum(axis=1) / 2.0 for i in (0, 1)]
        alone = bool(len(leading)) and not len(rest)
        if not alone:
            words.append(f"{len(rest)} other cells")
            ranges = np.concatenate([ranges, np.full((1, *ranges.shape[1:]), np.nan)])
            left = np.maximum(1.0 - shares.sum(axis=1, keepdims=True), 0.0)
            shares = np.concatenate([shares, left], axis=1)

        def differences(a: slice, b: slice) -> Array:
            halves = (shares[a] - shares[b]) / 2.0
            if not alone:
                halves[:, -1] = others[1, a] if b == slice(1, 2) else others[0, b]
            return halves[:, :, None]

        means = np.full((*shares.shape, len(self.low_)), np.nan)
        summary = RegionStatistics(shares, shares[:2].mean(axis=0), means, means[:, 0], ranges)
        return Decomposable(summary, differences, tuple(words))

    def _words(self, data: VisitedStates) -> Iterator[Words]:
        """Cells of the rows of each policy."""
        repeats = 2 if self._of == "transitions" else 1
        low, high = np.tile(self.low_, repeats), np.tile(self.high_, repeats)
        return (cell_words(rows, low, high, self.bins) for rows in View(self._of).all_rows(data))

    def _distances(self, a: Descriptions, b: Descriptions) -> Array:
        left, right = (
            list(zip(described.rows("cells"), described.rows("shares"), strict=True))
            for described in (a, b)
        )
        return half_l1(left, None if b is a else right)


def _ends(run: VisitedStates) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Smallest and largest value of each feature."""
    ends = [(own.min(axis=0), own.max(axis=0)) for own in View("states").all_rows(run)]
    low, high = zip(*ends, strict=True)
    return np.min(low, axis=0), np.max(high, axis=0)


def _histograms(run: VisitedStates, method: Discretization) -> list[Histogram]:
    """Cells of each policy, sorted, and the share of each."""
    return list(map(histogram, method._words(run)))


def _packed(histograms: Iterable[Histogram]) -> Description:
    cells, shares = zip(*histograms, strict=True)
    return None, None, pack("cells", cells) | pack("shares", shares)


class Transitions(Discretization):
    """Shares of the transitions from each cell of a regular grid to each other.

    After the discretized transition matrices of Matusch 2020, stored sparsely. The distance is half
    the L1 distance of the joint distributions of (cell, next cell). A policy needs at least one
    episode of two states.

    Parameters and attributes are those of `Discretization`.

    Examples
    --------
    >>> there, back = np.array([[0.0], [9.0], [5.0]]), np.array([[5.0], [9.0], [0.0]])
    >>> data = VisitedStates.from_arrays([[there], [back]])
    >>> Transitions().fit(data).distances(data)
    array([[0., 1.],
           [1., 0.]])
    """

    name = "transitions"
    traits = replace(
        Discretization.traits,
        explanation="The state space is cut into cells, and each policy is described by the share "
        "of its steps that lead from one cell to another (or stay in it), for every pair of cells. "
        "The distance between two policies is half the sum of the absolute differences of these "
        "shares: 0 for policies that make the same steps equally often, 1 for policies without a "
        "common step.",
        formula="d(p, q) = ½ · Σ_c Σ_c′ |p(c, c′) − q(c, c′)|",
    )
    _of: ClassVar[Of] = "transitions"
