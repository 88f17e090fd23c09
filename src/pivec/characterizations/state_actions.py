"""An encoder of sets of (state, action) pairs, trained so that sets of one policy agree.

After Grover et al. 2018, who learn embeddings of agents from pieces of their episodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive, Seed
from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.networks import require_torch
from pivec.characterizations.views import View, center_and_scale, restored_view
from pivec.distances.pairwise import squared_euclidean
from pivec.states.visited import VisitedStates

_WHAT = "the state-actions characterization"


class StateActions(Characterization):
    """A learned embedding of what a policy does where: the mean over its (state, action) pairs.

    A network embeds pairs, and a set of pairs is embedded as their mean. It is trained so that a
    set of one policy is nearer to another set of the same policy than to sets of other policies.
    A policy is described by the mean over all its pairs; the distance is the squared Euclidean
    one. With a single policy in the fit the network stays as it starts.

    Parameters
    ----------
    n_units, n_layers : int
        Hidden tanh units in each layer, and hidden layers.
    n_values : int
        Values of an embedding.
    set_size : int
        Pairs in a set.
    batch_size : int
        Policies in a batch, two sets of each.
    n_updates : int
        Updates of the network.
    learning_rate : float
        Of Adam.
    random_state : int
        Seed.
    progress : bool
        Draw a bar while fitting.

    Attributes
    ----------
    weights_ : (n,) float32 array
        All weights of the network.
    center_, scale_ : arrays
        The standardisation of the (state, action) pairs.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> walks = [[rng.normal(0, 1, (101, 2))] for _ in range(3)]
    >>> moves = [[(rng.random(100) < p).astype(int)] for p in (0.2, 0.2, 0.9)]
    >>> data = VisitedStates.from_arrays(walks, actions=moves)
    >>> d = StateActions(n_units=16, n_values=4, n_updates=50).fit(data).distances(data)
    >>> bool(d[0, 2] > d[0, 1])
    True
    """

    name: ClassVar[str] = "state-actions"
    explanation: ClassVar[str] = (
        "A neural network embeds pairs of a state and the action taken there, and is trained so "
        "that sets of pairs of one policy lie near each other and far from those of other "
        "policies. A policy is described by the mean embedding of its pairs. The distance of two "
        "policies is the squared Euclidean distance of these means."
    )
    formula: ClassVar[str] = "d(p, q) = ‖E_p[φ(s, a)] − E_q[φ(s, a)]‖²"

    def __init__(
        self,
        n_units: Count = 128,
        *,
        n_layers: Count = 2,
        n_values: Count = 32,
        set_size: Count = 64,
        batch_size: Count = 16,
        n_updates: Count = 1000,
        learning_rate: Positive = 1e-3,
        random_state: Seed = 0,
        progress: bool = False,
    ) -> None:
        self.n_units = n_units
        self.n_layers = n_layers
        self.n_values = n_values
        self.set_size = set_size
        self.batch_size = batch_size
        self.n_updates = n_updates
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.progress = progress

    @property
    def needs(self) -> frozenset[str]:
        """Actions."""
        return frozenset({"actions"})

    def _fit(self, data: VisitedStates) -> None:
        require_torch(_WHAT)
        from pivec.characterizations.networks.pair_encoder import train_encoder

        self.view_ = View.of_data(data, "state-actions")
        self.center_, self.scale_ = center_and_scale(self.view_, data)
        self.weights_ = train_encoder(
            [self._pairs(data, i) for i in range(len(data))],
            self._sizes(),
            n_updates=self.n_updates,
            set_size=self.set_size,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            rng=np.random.default_rng(self.random_state),
            progress=self.progress,
        )

    def _sizes(self) -> list[int]:
        return [len(self.center_), *[self.n_units] * self.n_layers, self.n_values]

    def _pairs(self, data: VisitedStates, policy: int) -> NDArray[np.float32]:
        pairs = (self.view_.rows(data, policy) - self.center_) / self.scale_
        return np.asarray(pairs, dtype=np.float32)

    def _describe(
        self, data: VisitedStates
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        require_torch(_WHAT)
        from pivec.characterizations.networks.pair_encoder import mean_embedding

        points = np.stack(
            [
                mean_embedding(self.weights_, self._sizes(), self._pairs(data, i))
                for i in range(len(data))
            ]
        )
        return points, points, {}

    def _distances(self, a: Descriptions, b: Descriptions | None) -> NDArray[np.float64]:
        return squared_euclidean(_points(a), None if b is None else _points(b))

    def _learned(self) -> dict[str, NDArray[Any]]:
        return {
            "center": self.center_,
            "scale": self.scale_,
            "weights": self.weights_,
            "n_actions": np.array(self.view_.n_actions),
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.view_ = restored_view("state-actions", arrays)
        self.center_, self.scale_ = arrays["center"], arrays["scale"]
        self.weights_ = arrays["weights"]


def _points(descriptions: Descriptions) -> NDArray[np.float64]:
    if descriptions.points is None:
        raise TypeError("descriptions by state-actions have points")
    return descriptions.points
