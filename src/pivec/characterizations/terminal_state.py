"""The state an episode ends in, averaged over episodes: where a policy gets to."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.characterizations.views import View
from pivec.distances.pairwise import euclidean
from pivec.states.moments import center_and_scale
from pivec.states.visited import VisitedStates


@dataclass(eq=False, repr=False)
class TerminalState(Characterization):
    """The mean of the last states of a policy's episodes; the distance is Euclidean.

    As in Conti 2018, where the state is a robot's position: in raw units, so that a feature with
    large values outweighs the others. For states of mixed units use ``standardise=True``, or
    collect with ``features=`` that pick the coordinates that matter. An episode that was cut
    ends in the state it was cut in.

    Parameters
    ----------
    standardise : bool
        Divide each feature by its deviation over all states of the fit.

    Attributes
    ----------
    scale_ : (n_features,) array
        What features are divided by.

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
    learned = ("scale",)

    _: KW_ONLY
    standardise: bool = False

    def _fit(self, data: VisitedStates) -> None:
        self.scale_ = np.ones(data.n_features)
        if self.standardise:
            _, self.scale_ = center_and_scale(View("states").all_rows(data))

    def _describe(self, data: VisitedStates) -> Description:
        ends = np.empty((len(data), data.n_features))
        for i in range(len(data)):
            last = data.policy_states(i)[data[i].episode_starts[1:] - 1]
            ends[i] = last.mean(axis=0, dtype=np.float64) / self.scale_
        return ends, None, {"ends": ends}

    def _distances(self, a: Descriptions, b: Descriptions) -> NDArray[np.float64]:
        return euclidean(a.arrays["ends"], b.arrays["ends"])
