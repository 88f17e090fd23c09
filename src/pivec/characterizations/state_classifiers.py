"""One classifier that names the policy of a state, as DIAYN has it for skills (Eysenbach 2018)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive
from pivec.characterizations.averages import RowMeans
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.characterizations.network_method import NetworkCharacterization
from pivec.states import VisitedStates


@dataclass(eq=False, repr=False)
class SkillDiscriminator(NetworkCharacterization, RowMeans):
    """Which policies of the fit a classifier takes a policy's states for, on average.

    One network with a softmax over the policies of the fit learns which of them a state is from
    (in their canonical order, see `pivec.policies.policy.canonical_order`).
    A policy, seen in the fit or not, is described by the mean of these probabilities over its
    states. The distance is the Jensen-Shannon divergence of two such means, from 0 to log 2.

    The classifier is a channel from states to names of policies, and a channel cannot make
    distributions differ more: the distance is a lower bound of the Jensen-Shannon divergence
    between the states of the two policies. It is defined where a probability vanishes, which the
    KL divergence is not.

    Parameters
    ----------
    n_units, n_layers : int
        Hidden tanh units in each layer, and hidden layers.
    epochs : float
        Passes over as many states as the fit has; every policy is drawn as often.
    max_updates : int
        Updates of the classifier at most, however many states there are.
    batch_size, learning_rate, random_state, progress
        As of `pivec.characterizations.network_method.NetworkCharacterization`.

    Attributes
    ----------
    weights_ : (n,) float32 array
        All weights of the classifier.
    center_, scale_ : (n_features,) arrays
    n_policies_ : int
        Policies of the fit.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> data = VisitedStates.from_arrays([[rng.normal(m, 1, (200, 2))] for m in (0, 0, 3)])
    >>> d = SkillDiscriminator(n_units=16, learning_rate=0.01).fit(data).distances(data)
    >>> bool(d[0, 2] > 5 * d[0, 1])
    True
    """

    name = "skill-discriminator"
    explanation = (
        "One neural network is trained to name the policy that a state is from. A policy is "
        "described by the probabilities that the network gives to each policy, averaged over its "
        "states. The distance of two policies is the Jensen-Shannon divergence of these averages: "
        "0 for policies that visit the same states, at most log 2 = 0.69 for policies that the "
        "network never confuses."
    )
    formula = "d(p, q) = JS(E_p[P(· | s)], E_q[P(· | s)])"
    learned = ("center", "scale", "weights", "n_policies")

    _: KW_ONLY
    n_layers: Count = 2
    epochs: Positive = 30
    max_updates: Count = 5000

    def _fit(self, data: VisitedStates) -> None:
        from pivec.characterizations.torch_mlp import SingleMLP, train_classifier

        super()._fit(data)
        self.n_policies_ = len(data)
        wanted = int(np.ceil(self.epochs * data.n_states / self.batch_size))
        rng = np.random.default_rng(self.random_state)
        self.weights_ = train_classifier(
            SingleMLP(list(self._standardised(data)), self._layers(), rng),
            self.batch_size,
            n_updates=min(self.max_updates, wanted),
            learning_rate=self.learning_rate,
            progress=self.progress,
        )

    def _layers(self) -> list[int]:
        return self._sizes(self.n_layers, self.n_policies_)

    def _sums(self, rows: NDArray[np.float32], cuts: NDArray[np.int64]) -> NDArray[np.float64]:
        from pivec.characterizations.torch_mlp import sum_outputs

        x = self._standardise(rows)
        return sum_outputs(self.weights_, self._layers(), x, cuts, softmax=True)

    def _of_means(self, means: NDArray[np.float64]) -> Description:
        return means, None, {"probabilities": means}

    def _distances(self, a: Descriptions, b: Descriptions) -> NDArray[np.float64]:
        return jensen_shannon(a.arrays["probabilities"], b.arrays["probabilities"])


def jensen_shannon(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Jensen-Shannon divergences, in nats, of all rows of ``a`` to all of ``b``."""
    from scipy.special import rel_entr

    result = np.empty((len(a), len(b)))
    for i, p in enumerate(a):
        middle = 0.5 * (p + b)
        result[i] = 0.5 * (rel_entr(p, middle) + rel_entr(b, middle)).sum(axis=1)
    # Not negative; what is left below is rounding.
    return np.maximum(result, 0.0)


# -----------------------------------------------------------------------------
# An encoder of sets of (state, action) pairs, trained so that sets of one policy agree.
#
# After Grover et al. 2018, who learn embeddings of agents from pieces of their episodes.


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
        As of `pivec.characterizations.network_method.NetworkCharacterization`.

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
        from pivec.characterizations.torch_mlp import SingleMLP, train_encoder

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
        from pivec.characterizations.torch_mlp import sum_outputs

        sizes = self._sizes(self.n_layers, self.n_values)
        return sum_outputs(self.weights_, sizes, self._standardise(rows), cuts)

    def _of_means(self, means: NDArray[np.float64]) -> Description:
        return means, means, {}
