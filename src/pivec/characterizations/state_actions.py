"""An encoder of sets of (state, action) pairs, trained so that sets of one policy agree.

After Grover et al. 2018, who learn embeddings of agents from pieces of their episodes.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count
from pivec.characterizations.averages import RowMeans
from pivec.characterizations.descriptions import Description
from pivec.characterizations.networks.method import NetworkCharacterization
from pivec.states.visited import VisitedStates


@dataclass(eq=False, repr=False)
class StateActions(NetworkCharacterization, RowMeans):
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
    learning_rate, random_state, progress
        As of `pivec.characterizations.networks.method.NetworkCharacterization`.

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

    name = "state-actions"
    explanation = (
        "A neural network embeds pairs of a state and the action taken there, and is trained so "
        "that sets of pairs of one policy lie near each other and far from those of other "
        "policies. A policy is described by the mean embedding of its pairs. The distance of two "
        "policies is the squared Euclidean distance of these means."
    )
    formula = "d(p, q) = ‖E_p[φ(s, a)] − E_q[φ(s, a)]‖²"
    learned = ("center", "scale", "weights", "n_actions")
    of = "state-actions"
    euclidean = True

    n_units: Count = 128
    _: KW_ONLY
    n_layers: Count = 2
    n_values: Count = 32
    set_size: Count = 64
    batch_size: Count = 16
    n_updates: Count = 1000

    def _fit(self, data: VisitedStates) -> None:
        from pivec.characterizations.networks.single_mlp import SingleMLP, train_encoder

        super()._fit(data)
        rng = np.random.default_rng(self.random_state)
        sizes = self._sizes(self.n_layers, self.n_values)
        self.weights_ = train_encoder(
            SingleMLP(list(self._standardised(data)), sizes, rng),
            self.batch_size,
            self.set_size,
            n_updates=self.n_updates,
            learning_rate=self.learning_rate,
            progress=self.progress,
        )

    def _sums(self, rows: NDArray[np.float32], cuts: NDArray[np.int64]) -> NDArray[np.float64]:
        from pivec.characterizations.networks.single_mlp import sum_outputs

        sizes = self._sizes(self.n_layers, self.n_values)
        return sum_outputs(self.weights_, sizes, self._standardise(rows), cuts)

    def _of_means(self, means: NDArray[np.float64]) -> Description:
        return means, means, {}
