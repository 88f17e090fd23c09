"""The mean return: how well a policy does, and nothing about how."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.averages import Averaged
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.states.visited import VisitedStates


class Returns(Averaged):
    """The mean return over a policy's episodes; the distance is the absolute difference.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[[[0.0]]], [[[0.0]]]], returns=[3.0, 5.0])
    >>> Returns().fit(data).distances(data)
    array([[0., 2.],
           [2., 0.]])
    """

    name = "returns"
    explanation = (
        "Each policy is described by its mean return alone. The distance of two policies is the "
        "absolute difference of their mean returns: 0 for policies that do equally well, however "
        "differently they do it."
    )
    formula = "d(p, q) = |R(p) − R(q)|"
    needs = frozenset({"returns"})
    euclidean, squared, by_state = True, False, False

    def _statistics(self, data: VisitedStates) -> NDArray[np.float64]:
        return np.column_stack([np.ones(data.n_episodes), data.returns])

    def _of_means(self, means: NDArray[np.float64]) -> Description:
        return means, None, {"returns": means[:, 0]}

    def _distances(self, a: Descriptions, b: Descriptions) -> NDArray[np.float64]:
        gaps = np.subtract.outer(a.arrays["returns"], b.arrays["returns"])
        return np.asarray(np.abs(gaps))
