"""The parameters of a policy's network, flattened: what it is made of, not what it does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.errors import UsageError
from pivec.policies import NetworkPolicy
from pivec.states import VisitedStates
from pivec.statistics import euclidean


class Parameters(Characterization):
    """Weights, biases and (of Gaussian actions) log-deviations; the distance is Euclidean.

    All policies must be networks of one shape. The states are not looked at.

    Attributes
    ----------
    shape_ : str
        Widths of the layers, activation and head that all policies share.

    Examples
    --------
    >>> from pivec.workflows.collect import collect
    >>> weak, strong = (
    ...     NetworkPolicy(((np.full((4, 2), size), np.zeros(2)),), "tanh", "categorical")
    ...     for size in (1.0, 2.0)
    ... )
    >>> data = collect("CartPole-v1", {"weak": weak, "strong": strong}, episodes=1)
    >>> Parameters().fit(data).distances(data).round(3)
    array([[0.   , 2.828],
           [2.828, 0.   ]])
    """

    name = "parameters"
    explanation = (
        "Each policy is described by the parameters of its network, one after another. The "
        "distance of two policies is the Euclidean distance of these vectors. It tells how far "
        "training moved the weights; equal behaviour can come from very different weights."
    )
    formula = "d(p, q) = ‖θ(p) − θ(q)‖"
    needs = frozenset({"policies"})
    learned = ("shape", "shaped_like")
    squared = False
    exact = True
    no_test = "it looks at the policies and not at their episodes"

    def _fit(self, data: VisitedStates) -> None:
        self.shape_ = _shape(_network(data, 0))
        self.shaped_like_ = data.labels[0]

    def _describe(self, data: VisitedStates) -> Description:
        rows = []
        for i in range(len(data)):
            policy = _network(data, i)
            if _shape(policy) != self.shape_:
                raise UsageError(
                    f"parameters can only be compared between networks of one shape, but "
                    f"{self.shaped_like_!r} is {self.shape_} and {data.labels[i]!r} is "
                    f"{_shape(policy)}: compare them by another characterization"
                )
            rows.append(_flat(policy))
        return np.stack(rows), None, {}

    def _distances(self, a: Descriptions, b: Descriptions) -> NDArray[np.float64]:
        return euclidean(*a.values("vectors"), *b.values("vectors"))


def _network(data: VisitedStates, number: int) -> NetworkPolicy:
    policy = data.policy(number)
    if not isinstance(policy, NetworkPolicy):
        raise UsageError(
            f"parameters needs policies that are networks, but {data.labels[number]!r} is a "
            f"{type(policy).__name__}: leave it out, or compare by what the policies visit"
        )
    return policy


def _shape(policy: NetworkPolicy) -> str:
    return f"{'-'.join(map(str, policy.sizes))} ({policy.activation}, {policy.head})"


def _flat(policy: NetworkPolicy) -> NDArray[np.float64]:
    parts = [part.ravel() for layer in policy.layers for part in layer]
    parts += [part.ravel() for part in (policy.log_std, policy.state_std) if part is not None]
    return np.concatenate(parts).astype(np.float64)
