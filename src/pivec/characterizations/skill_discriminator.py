"""One classifier that names the policy of a state, as DIAYN has it for skills (Eysenbach 2018)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive
from pivec.characterizations.averages import RowMeans
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.characterizations.networks.method import NetworkCharacterization
from pivec.states.visited import VisitedStates


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
        As of `pivec.characterizations.networks.method.NetworkCharacterization`.

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
        from pivec.characterizations.networks.single_mlp import SingleMLP, train_classifier

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
        from pivec.characterizations.networks.single_mlp import sum_outputs

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
