"""A histogram over cells of equal size, kept sparse: which cells a policy visits, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Positive, Range
from pivec.characterizations.base import Characterization
from pivec.characterizations.cells import cell_words, count_cells, half_l1
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.ragged import pack, unpack
from pivec.characterizations.views import Of, View
from pivec.states.visited import VisitedStates


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

    name: ClassVar[str] = "discretization"
    explanation: ClassVar[str] = (
        "The state space is cut into cells, and each policy is described by the share of its "
        "states in every cell. The distance of two policies is half the sum of the differences of "
        "these shares: 0 for policies that visit all cells equally often, 1 for policies that "
        "have no cell in common."
    )
    formula: ClassVar[str] = "d(p, q) = ½ · Σ_c |p(c) − q(c)|"
    _of: ClassVar[Of] = "states"

    def __init__(
        self, bins: Annotated[int, Range(2, most=2**32)] = 10, *, margin: Positive = 1e-4
    ) -> None:
        self.bins = bins
        self.margin = margin

    def _fit(self, data: VisitedStates) -> None:
        low = np.full(data.n_features, np.inf)
        high = -low
        for policy in range(len(data)):
            states = data.policy_states(policy)
            low = np.minimum(low, states.min(axis=0))
            high = np.maximum(high, states.max(axis=0))
        self.low_, self.high_ = low - self.margin, high + self.margin

    def _describe(
        self, data: VisitedStates
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        view = View(self._of)
        cells, shares = [], []
        for rows in view.all_rows(data):
            repeats = rows.shape[1] // len(self.low_)
            low, high = np.tile(self.low_, repeats), np.tile(self.high_, repeats)
            some, share = count_cells(cell_words(rows, low, high, self.bins))
            cells.append(some)
            shares.append(share)
        return None, None, pack("cells", cells) | pack("shares", shares)

    def _distances(self, a: Descriptions, b: Descriptions | None) -> NDArray[np.float64]:
        left = unpack(a.arrays, "cells"), unpack(a.arrays, "shares")
        if b is None:
            return half_l1(*left)
        return half_l1(*left, unpack(b.arrays, "cells"), unpack(b.arrays, "shares"))

    def _learned(self) -> dict[str, NDArray[Any]]:
        return {"low": self.low_, "high": self.high_}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.low_, self.high_ = arrays["low"], arrays["high"]
