"""Sparse histograms: cells that were visited and their shares, and half the L1 distance of them.

A grid of 10 bins in 24 dimensions has 10²⁴ cells, of which a policy visits some thousands. A cell
is the number its bins spell in base ``bins``, in as many 64-bit words as that takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
_WORD = 2**64


def cell_words(
    rows: NDArray[np.floating],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    bins: int,
) -> Words:
    """Cell of each row, (n, n_words); what lies outside [low, high] counts to the outer bins."""
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
    """Give the number of digits in base ``bins`` that surely fit 64 bits."""
    digits = 1
    while bins ** (digits + 1) <= _WORD:
        digits += 1
    return digits


def cell_places(cells: Words, n_columns: int, bins: int) -> NDArray[np.int64]:
    """Bin of each column that `cell_words` put the rows of these cells into, (n, n_columns).

    Examples
    --------
    >>> low, high = np.zeros(3), np.ones(3)
    >>> cell_places(cell_words(np.array([[0.15, 0.5, 0.99]]), low, high, 10), 3, 10)
    array([[1, 5, 9]])
    """
    digits = digits_of_word(bins)
    places = np.empty((len(cells), n_columns), dtype=np.int64)
    rest = cells.copy()
    for column in reversed(range(n_columns)):
        word = rest[:, column // digits]
        places[:, column] = word % np.uint64(bins)
        word //= np.uint64(bins)
    return places


def count_cells(words: Words) -> tuple[Words, NDArray[np.float64]]:
    """Different cells, sorted, and the share of the rows in each."""
    cells, _, counts = _unique(words)
    return cells, counts / len(words)


@dataclass(frozen=True, eq=False)
class CellCounts:
    """How often rows of each episode (or of sums of episodes) are in each cell, kept sparse.

    ``weights @ counts`` adds episodes up, as with an array of one row an episode.
    """

    cells: Words  # (n_cells, n_words), sorted
    counts: Any  # (n_episodes, n_cells), a sparse array of SciPy

    __array_ufunc__ = None  # so that NumPy leaves a product to __rmatmul__

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

    def shares_by_cell(
        self, rows: Any = slice(None), columns: Any = slice(None)
    ) -> NDArray[np.float64]:
        """Shares of these cells in these rows, (n_rows, n_cells)."""
        chosen = self.counts[rows]
        totals = np.asarray(chosen.sum(axis=1)).reshape(-1, 1)
        return np.asarray(chosen[:, columns].toarray() / totals)

    def shares(self) -> tuple[list[Words], list[NDArray[np.float64]]]:
        """Cells of each row, sorted, and the share of each."""
        counts = self.counts.copy()
        counts.sort_indices()
        counts.eliminate_zeros()
        cuts = counts.indptr[1:-1]
        values = [row / row.sum() for row in np.split(counts.data, cuts)]
        return [self.cells[own] for own in np.split(counts.indices, cuts)], values


def half_l1(
    cells_a: list[Words],
    shares_a: list[NDArray[np.float64]],
    cells_b: list[Words] | None = None,
    shares_b: list[NDArray[np.float64]] | None = None,
) -> NDArray[np.float64]:
    """½ Σ |p − q| for all pairs of sparse histograms, (n, m); symmetric without a second list.

    As both sum to 1, it is Σ max(p − q, 0) over the cells of p: nothing cancels, and equal
    histograms are exactly 0 apart. Cells that only one histogram has are added up once and
    never looked at again: in many dimensions these are nearly all.
    """
    both_cells = cells_a if cells_b is None else cells_a + cells_b
    both_shares = shares_a if shares_b is None else shares_a + shares_b
    owners = np.repeat(np.arange(len(both_cells)), [len(cells) for cells in both_cells])
    _, numbers, visitors = _unique(np.concatenate(both_cells))
    values = np.concatenate(both_shares)
    private = visitors[numbers] == 1
    alone = np.bincount(owners[private], values[private], minlength=len(both_cells))
    # What is left, numbered anew without the gaps.
    shared = np.cumsum(visitors > 1) - 1
    owners, numbers, values = owners[~private], shared[numbers[~private]], values[~private]
    starts = np.searchsorted(owners, np.arange(len(both_cells) + 1))
    n = len(cells_a)
    first = 0 if cells_b is None else n  # the columns begin here
    result = np.empty((n, len(both_cells) - first))
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
    if cells_b is not None:
        return result
    np.fill_diagonal(result, 0.0)  # a histogram's own cells were counted as another's
    # The excess of q over p equals that of p over q but for rounding.
    return (result + result.T) / 2


def _unique(words: Words) -> tuple[Words, NDArray[np.int64], NDArray[np.int64]]:
    """Different cells, the number of each row's among them, and how often each occurs.

    As numpy.unique with axis=0, which takes several times as long.
    """
    order = np.argsort(words[:, 0]) if words.shape[1] == 1 else np.lexsort(words.T)
    ordered = words[order]
    new = np.ones(len(words), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    numbers = np.empty(len(words), dtype=np.int64)
    numbers[order] = np.cumsum(new) - 1
    return ordered[new], numbers, np.bincount(numbers)
