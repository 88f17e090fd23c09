"""Characterizations that are functions of means, whose sums over episodes add up."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Description
from pivec.characterizations.resampling import policy_sums
from pivec.characterizations.views import View
from pivec.states import VisitedStates, over_policies

Array = NDArray[np.float64]


class Averaged(Characterization):
    """A characterization by means over episodes, or over the rows that episodes have.

    The statistics of an episode are the number of its rows and their sum.
    """

    euclidean: ClassVar[bool] = False  # whether the distance is that of the vectors, or its square

    @property
    def has_influences(self) -> bool:
        """Where distances are between vectors, of which each episode moves its policy's."""
        return self.euclidean

    def _rows_of(self, sums: Array) -> Array:
        vectors, _, _ = self._from_statistics(sums)
        return np.asarray(vectors)

    @abstractmethod
    def _of_means(self, means: Array) -> Description:
        """Vectors, points and arrays of policies with these means, (P, n_values)."""

    def _from_statistics(self, sums: Array) -> Description:
        with np.errstate(invalid="ignore"):  # nothing is known of a policy without any row
            return self._of_means(sums[:, 1:] / sums[:, :1])

    def _describe(self, data: VisitedStates) -> Description:
        return self._from_statistics(policy_sums(self, data))


class RowMeans(Averaged):
    """A characterization by means over the rows of a `View`: states, pairs or transitions."""

    @property
    def view_(self) -> View:
        """What the rows are."""
        return View("states")

    @abstractmethod
    def _sums(self, rows: NDArray[np.float32], cuts: NDArray[np.int64]) -> Array:
        """What is averaged, added up over the rows between one cut and the next, (n, n_values)."""

    def _statistics(self, data: VisitedStates) -> Array:
        return np.concatenate(
            [
                self._counted(rows, self.view_.cuts(data, i))
                for i, rows in enumerate(self.view_.all_rows(data))
            ]
        )

    def _describe(self, data: VisitedStates) -> Description:
        return self._from_statistics(np.concatenate(list(over_policies(_policy_sums, data, self))))

    def _counted(self, rows: NDArray[np.float32], cuts: NDArray[np.int64]) -> Array:
        return np.column_stack([np.diff(cuts), self._sums(rows, cuts)])


def _policy_sums(run: VisitedStates, method: RowMeans) -> Array:
    """Statistics of whole policies at once: episodes may be short."""
    rows = method.view_.all_rows(run)
    return np.concatenate([method._counted(own, np.array([0, len(own)])) for own in rows])


def segment_sums(values: NDArray[np.floating], cuts: NDArray[np.int64]) -> Array:
    """Sums of the rows between one cut and the next, in float64; 0 where there are none.

    Examples
    --------
    >>> segment_sums(np.array([[1.0], [2.0], [4.0]]), np.array([0, 1, 1, 3])).ravel()
    array([1., 0., 6.])
    """
    sums = np.zeros((len(cuts) - 1, values.shape[1]))
    filled = np.diff(cuts) > 0
    sums[filled] = np.add.reduceat(values, cuts[:-1][filled], axis=0, dtype=np.float64)
    return sums
