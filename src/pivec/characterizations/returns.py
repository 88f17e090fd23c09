"""The mean return: how well a policy does, and nothing about how."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.averages import Averaged
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.characterizations.views import Scaled
from pivec.states import VisitedStates
from pivec.statistics import euclidean


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


# -----------------------------------------------------------------------------
# The state an episode ends in, averaged over episodes: where a policy gets to.


class TerminalState(Scaled, Averaged):
    """The mean of the last states of a policy's episodes; the distance is Euclidean.

    As in Conti 2018, where the state is a robot's position. For states of mixed units use
    ``standardise=True`` (see `pivec.characterizations.views.Scaled`), or collect with ``features=``
    that pick the coordinates that matter. An episode that was cut ends in the state it was cut in.

    Examples
    --------
    >>> walks = [[np.zeros((5, 2)), np.ones((3, 2))], [np.full((4, 2), 3.5)]]
    >>> data = VisitedStates.from_arrays(walks)
    >>> TerminalState().fit(data).distances(data).round(3)
    array([[0.   , 4.243],
           [4.243, 0.   ]])
    """

    name = "terminal-state"
    explanation = (
        "Each policy is described by the mean of the states in which its episodes ended. The "
        "distance of two policies is the Euclidean distance of these means: 0 for policies that "
        "end up in the same place, whichever way they took."
    )
    formula = "d(p, q) = ‖s_end(p) − s_end(q)‖"
    euclidean, squared, by_state = True, False, False

    def _statistics(self, data: VisitedStates) -> NDArray[np.float64]:
        last = data.take(data.episode_starts[1:] - 1)
        return np.column_stack([np.ones(len(last)), last])

    def _of_means(self, means: NDArray[np.float64]) -> Description:
        ends = means / self.scale_
        return ends, None, {"ends": ends}

    def _distances(self, a: Descriptions, b: Descriptions) -> NDArray[np.float64]:
        return euclidean(a.arrays["ends"], b.arrays["ends"])
