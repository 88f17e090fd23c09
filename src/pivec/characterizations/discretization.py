"""A histogram over cells of equal size, kept sparse: which cells a policy visits, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Positive, Range
from pivec.characterizations.base import Characterization
from pivec.characterizations.cells import (
    CellCounts,
    Words,
    cell_places,
    cell_words,
    count_cells,
    half_l1,
)
from pivec.characterizations.descriptions import Description, Descriptions, pack
from pivec.characterizations.explaining import Anatomy, Faces
from pivec.characterizations.explanation import OFTEN
from pivec.characterizations.views import Of, View
from pivec.errors import UsageError
from pivec.states.parts import over_policies
from pivec.states.record import starts_of
from pivec.states.visited import VisitedStates

MOST_CELLS = 2000  # that are told apart


@dataclass(eq=False, repr=False)
class Discretization(Characterization):
    """Shares of the states in each cell of a regular grid.

    The distance is half the L1 distance of two histograms: the share of states that would have to
    move for the two to be equal, from 0 to 1. Only cells with states are kept, so that memory
    follows the number of states and not that of cells.

    Parameters
    ----------
    bins : int
        Bins of each feature, between its smallest and largest value over all states of the fit.
    margin : float
        How far the grid reaches beyond those. States outside count to the outermost bins.

    Attributes
    ----------
    low_, high_ : (n_features,) arrays
        Where the grid begins and ends.

    Examples
    --------
    >>> walks = [[np.array([[0.0], [0.1], [5.0], [9.9]])], [np.array([[0.2], [5.1], [5.2], [9.9]])]]
    >>> data = VisitedStates.from_arrays(walks)
    >>> Discretization().fit(data).distances(data)
    array([[0.  , 0.25],
           [0.25, 0.  ]])
    """

    name = "discretization"
    explanation = (
        "The state space is cut into cells, and each policy is described by the share of its "
        "states in every cell. The distance of two policies is half the sum of the differences of "
        "these shares: 0 for policies that visit all cells equally often, 1 for policies that "
        "have no cell in common."
    )
    largest = 1.0
    formula = "d(p, q) = ½ · Σ_c |p(c) − q(c)|"
    learned = ("low", "high")
    squared = False
    _of: ClassVar[Of] = "states"

    bins: Annotated[int, Range(2, most=2**32)] = 10
    _: KW_ONLY
    margin: Positive = 1e-4

    def _fit(self, data: VisitedStates) -> None:
        ends = np.array(list(over_policies(_ends, data)), dtype=np.float64)
        self.low_ = ends[:, 0].min(axis=0) - self.margin
        self.high_ = ends[:, 1].max(axis=0) + self.margin

    def _describe(self, data: VisitedStates) -> Description:
        counted = chain.from_iterable(over_policies(_counts, data, self))
        cells, shares = zip(*counted, strict=True)
        return None, None, pack("cells", cells) | pack("shares", shares)

    def _statistics(self, data: VisitedStates) -> CellCounts:
        lengths = [np.diff(View(self._of).cuts(data, i)) for i in range(len(data))]
        return CellCounts.of_rows(
            np.concatenate(list(self._words(data))), starts_of(np.concatenate(lengths))
        )

    def _from_statistics(self, sums: CellCounts) -> Description:
        cells, shares = sums.shares()
        return None, None, pack("cells", cells) | pack("shares", shares)

    def _anatomy(self, sums: CellCounts) -> Anatomy:
        """Take apart by cells, the first two rows' most different ones; all others are one more."""
        if self._of != "states":
            raise UsageError(f"{self.name} cannot tell what differs: use discretization")
        pair = sums.shares_by_cell(slice(0, 2))
        apart = np.abs(pair[0] - pair[1])
        order = np.argsort(-apart, kind="stable")[: np.count_nonzero(apart)]
        leading, rest = order[:MOST_CELLS], order[MOST_CELLS:]
        places = cell_places(sums.cells[leading], len(self.low_), self.bins)
        edges = np.stack([places, places + 1], axis=2) / self.bins
        ranges = self.low_[:, None] + (self.high_ - self.low_)[:, None] * edges
        words = [f"cell {','.join(map(str, place))}" for place in places.tolist()]
        shares = sums.shares_by_cell(columns=leading)
        others = np.zeros((2, len(shares)))  # half the sum of sizes in the other cells, to both
        for first in range(0, len(rest), MOST_CELLS):
            block = sums.shares_by_cell(columns=rest[first : first + MOST_CELLS])
            others += [np.abs(block - block[i]).sum(axis=1) / 2.0 for i in (0, 1)]
        alone = bool(len(leading)) and not len(rest)
        if not alone:
            words.append(f"{len(rest)} other cells")
            ranges = np.concatenate([ranges, np.full((1, *ranges.shape[1:]), np.nan)])
            left = np.maximum(1.0 - shares.sum(axis=1, keepdims=True), 0.0)
            shares = np.concatenate([shares, left], axis=1)

        def differences(a: slice, b: slice) -> NDArray[np.float64]:
            halves = (shares[a] - shares[b]) / 2.0
            if not alone:
                halves[:, -1] = others[1, a] if b == slice(1, 2) else others[0, b]
            return halves[:, :, None]

        means = np.full((*shares.shape, len(self.low_)), np.nan)
        faces = Faces(shares, shares[:2].mean(axis=0), means, means[:, 0], ranges)
        return Anatomy(faces, ((OFTEN, -1),), differences, tuple(words))

    def _words(self, data: VisitedStates) -> Iterator[Words]:
        """Cells of the rows of one policy after another."""
        repeats = 2 if self._of == "transitions" else 1
        low, high = np.tile(self.low_, repeats), np.tile(self.high_, repeats)
        return (cell_words(rows, low, high, self.bins) for rows in View(self._of).all_rows(data))

    def _distances(self, a: Descriptions, b: Descriptions) -> NDArray[np.float64]:
        left = a.rows("cells"), a.rows("shares")
        return half_l1(*left) if b is a else half_l1(*left, b.rows("cells"), b.rows("shares"))


def _ends(run: VisitedStates) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Smallest and largest value of each feature."""
    ends = [(own.min(axis=0), own.max(axis=0)) for own in View("states").all_rows(run)]
    low, high = zip(*ends, strict=True)
    return np.min(low, axis=0), np.max(high, axis=0)


def _counts(run: VisitedStates, method: Discretization) -> list[tuple[Words, NDArray[np.float64]]]:
    """Cells of each policy, and their shares."""
    return list(map(count_cells, method._words(run)))
