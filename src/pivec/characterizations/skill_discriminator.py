"""One classifier that names the policy of a state, as DIAYN has it for skills (Eysenbach 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive, Seed
from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.networks import require_torch
from pivec.characterizations.views import View, center_and_scale
from pivec.states.visited import VisitedStates

_WHAT = "the skill-discriminator characterization"


class SkillDiscriminator(Characterization):
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
    batch_size : int
        States in a batch.
    learning_rate : float
        Of Adam.
    random_state : int
        Seed.
    progress : bool
        Draw a bar while fitting.

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

    name: ClassVar[str] = "skill-discriminator"
    explanation: ClassVar[str] = (
        "One neural network is trained to name the policy that a state is from. A policy is "
        "described by the probabilities that the network gives to each policy, averaged over its "
        "states. The distance of two policies is the Jensen-Shannon divergence of these averages: "
        "0 for policies that visit the same states, at most log 2 = 0.69 for policies that the "
        "network never confuses."
    )
    formula: ClassVar[str] = "d(p, q) = JS(E_p[P(· | s)], E_q[P(· | s)])"

    def __init__(
        self,
        n_units: Count = 256,
        *,
        n_layers: Count = 2,
        epochs: Positive = 30,
        max_updates: Count = 5000,
        batch_size: Count = 256,
        learning_rate: Positive = 1e-3,
        random_state: Seed = 0,
        progress: bool = False,
    ) -> None:
        self.n_units = n_units
        self.n_layers = n_layers
        self.epochs = epochs
        self.max_updates = max_updates
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.progress = progress

    def _fit(self, data: VisitedStates) -> None:
        require_torch(_WHAT)
        from pivec.characterizations.networks.classifier import train_classifier

        self.center_, self.scale_ = center_and_scale(View("states"), data)
        self.n_policies_ = len(data)
        wanted = int(np.ceil(self.epochs * data.n_states / self.batch_size))
        self.weights_ = train_classifier(
            [self._standardised(data, i) for i in range(len(data))],
            self._sizes(),
            n_updates=min(self.max_updates, wanted),
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            rng=np.random.default_rng(self.random_state),
            progress=self.progress,
        )

    def _sizes(self) -> list[int]:
        return [len(self.center_), *[self.n_units] * self.n_layers, self.n_policies_]

    def _standardised(self, data: VisitedStates, policy: int) -> NDArray[np.float32]:
        states = (data.policy_states(policy) - self.center_) / self.scale_
        return np.asarray(states, dtype=np.float32)

    def _describe(
        self, data: VisitedStates
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        require_torch(_WHAT)
        from pivec.characterizations.networks.classifier import mean_posterior

        vectors = np.stack(
            [
                mean_posterior(self.weights_, self._sizes(), self._standardised(data, i))
                for i in range(len(data))
            ]
        )
        return vectors, None, {"probabilities": vectors}

    def _distances(self, a: Descriptions, b: Descriptions | None) -> NDArray[np.float64]:
        other = a if b is None else b
        return jensen_shannon(a.arrays["probabilities"], other.arrays["probabilities"])

    def _learned(self) -> dict[str, NDArray[Any]]:
        return {
            "center": self.center_,
            "scale": self.scale_,
            "weights": self.weights_,
            "n_policies": np.array(self.n_policies_),
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.center_, self.scale_ = arrays["center"], arrays["scale"]
        self.weights_ = arrays["weights"]
        self.n_policies_ = int(arrays["n_policies"])


def jensen_shannon(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Jensen-Shannon divergences, in nats, of all rows of ``a`` to all of ``b``.

    Examples
    --------
    >>> jensen_shannon(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])).round(3)
    array([[0.   , 0.693]])
    """
    from scipy.special import rel_entr

    result = np.empty((len(a), len(b)))
    for i, p in enumerate(a):
        middle = 0.5 * (p + b)
        result[i] = 0.5 * (rel_entr(p, middle) + rel_entr(b, middle)).sum(axis=1)
    # Not negative; what is left below is rounding.
    return np.maximum(result, 0.0)
