"""Characterizations of the policies themselves: their actions, their parameters."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive, Seed
from pivec.characterizations.base import Array, Characterization, Traits
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.characterizations.distributions import gaussian_distances, gaussians
from pivec.characterizations.rows import View, draw_rows
from pivec.errors import UsageError
from pivec.policies import NetworkPolicy, Policy, RecurrentPolicy, UniformPolicy
from pivec.states import VisitedStates
from pivec.statistics import euclidean, total_variation

# Heads that choose one of n actions: there, the random policy gives each 1/n.
_SINGLE_CHOICE = ("categorical", "epsilon_greedy", "proportional")
_NO_TEST = "it depends on the policies and not on their episodes"


@dataclass(eq=False, repr=False)
class Actions(Characterization):
    """Action distributions in a common set of states, drawn from those that were visited.

    The distance is averaged over these states: the total variation of discrete actions, from 0 to
    1, or KL(a || b) + KL(b || a) of Gaussian actions, before they are clipped to their box.
    Requires the policies themselves, and states that are the policies' observations.

    Parameters
    ----------
    n_probes : int
        Number of states, equally many from each policy of the fit.
    floor : float
        Added to the variances of Gaussian actions.
    random_state : int
        Seed of the draw.

    Examples
    --------
    >>> from pivec.workflows import collect
    >>> weights = np.zeros((4, 2))
    >>> left, both = (
    ...     NetworkPolicy(((weights, np.array([pull, 0.0])),), "tanh", "categorical")
    ...     for pull in (9.0, 0.0)
    ... )
    >>> data = collect("CartPole-v1", {"left": left, "both": both}, episodes=2)
    >>> Actions().fit(data).distances(data).round(2)
    array([[0. , 0.5],
           [0.5, 0. ]])
    """

    name = "actions"
    layout: ClassVar[dict[str, str]] = {
        "learned.probes": "f4 Q F",
        "learned.kind": "U",
        "learned.n_actions": "i8>0",
        "learned.single": "b1",
        "described.probabilities": "?f8>=0 P Q*n_actions_",
        "described.means": "?f8 P Q*n_actions_",
        "described.variances": "?f8>0 P Q*n_actions_",
    }
    traits = Traits(
        "All policies are evaluated in the same states, drawn from those that were visited. The "
        "distance between two policies is the difference of their action distributions, averaged "
        "over these states: total variation for discrete actions, the KL divergence both ways for "
        "Gaussian ones. The consequences of the actions do not count.",
        "d(p, q) = mean over s of D(p(·|s), q(·|s))",
        exact=True,
        needs=frozenset({"policies"}),
        no_test=_NO_TEST,
    )

    n_probes: Count = 256
    _: KW_ONLY
    floor: Positive = 1e-7
    random_state: Seed = 0

    def _fit(self, data: VisitedStates) -> None:
        rng = np.random.default_rng(self.random_state)
        self.probes_ = draw_rows(View("states"), data, self.n_probes, rng).astype(np.float32)
        for i in range(len(data)):
            policy = data.policy(i)
            if not isinstance(policy, UniformPolicy):
                first, deviations = _distribution(policy, data.labels[i], self.probes_[:1])
                self.kind_ = _kind(deviations)
                self.n_actions_ = int(first.shape[1])
                self.single_ = getattr(policy, "head", "categorical") in _SINGLE_CHOICE
                return
        raise UsageError(
            "actions needs at least one policy that is a network: all of these are random"
        )

    def _describe(self, data: VisitedStates) -> Description:
        shape = (len(data), len(self.probes_), self.n_actions_)
        first = np.empty(shape)  # probabilities or means
        variances = np.empty(shape if self.kind_ == "gaussian" else 0)
        for i, label in enumerate(data.labels):
            policy = data.policy(i)
            if isinstance(policy, UniformPolicy) and self.single_:
                first[i] = 1.0 / self.n_actions_
                continue
            answer, deviations = _distribution(policy, label, self.probes_)
            if _kind(deviations) != self.kind_ or answer.shape[1] != self.n_actions_:
                raise UsageError(
                    f"actions compares policies with the same actions, but those of {label!r} are "
                    f"{_kind(deviations)} of {answer.shape[1]}, and those of the fit {self.kind_} "
                    f"of {self.n_actions_}"
                )
            first[i] = answer
            if deviations is not None:
                variances[i] = np.square(deviations.astype(np.float64)) + self.floor
        flat = first.reshape(len(data), -1)
        if self.kind_ == "gaussian":
            return gaussians(flat, variances.reshape(len(data), -1))
        return flat, None, {"probabilities": flat}

    def _distances(self, a: Descriptions, b: Descriptions) -> Array:
        n = len(self.probes_)
        if self.kind_ == "gaussian":
            return gaussian_distances(a, b) / n
        return total_variation(*a.values("probabilities"), *b.values("probabilities")) / n


def _kind(deviations: NDArray[Any] | None) -> str:
    return "discrete" if deviations is None else "gaussian"


def _distribution(
    policy: Policy, label: str, states: NDArray[np.float32]
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Probabilities and None, or means and deviations, of a policy's actions in these states."""
    if isinstance(policy, RecurrentPolicy):
        raise UsageError(
            f"actions evaluates policies in single states, but {label!r} is recurrent, so that its "
            "actions depend on the episode so far: compare by the states that policies visit"
        )
    distribution = getattr(policy, "distribution", None)
    if distribution is None:
        raise UsageError(
            f"actions needs policies with an action distribution, as networks have, but {label!r} "
            f"is a {type(policy).__name__}: leave it out"
        )
    width = getattr(policy, "n_inputs", states.shape[1])
    if width != states.shape[1]:
        raise UsageError(
            f"actions evaluates policies in the recorded states, but {label!r} expects {width} "
            f"values and a state has {states.shape[1]}: collect observations without features="
        )
    answer = distribution(states)
    if isinstance(answer, tuple):
        return answer
    if getattr(policy, "head", "") == "bernoulli":
        answer = np.concatenate([answer, 1.0 - answer], axis=1)  # each switch: on, off
    return answer, None


class Parameters(Characterization):
    """Weights, biases and (of Gaussian actions) log-deviations; the distance is Euclidean.

    All policies must be networks of one shape. The states are not used.

    Examples
    --------
    >>> from pivec.workflows import collect
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
    layout: ClassVar[dict[str, str]] = {
        "learned.shape": "U",
        "learned.shaped_like": "U",
        "vectors": "f8 P V",
    }
    traits = Traits(
        "Each policy is described by the parameters of its network, flattened. The distance "
        "between two policies is the Euclidean distance of these vectors. It measures how far "
        "training moved the weights; equal behaviour can come from very different weights.",
        "d(p, q) = ‖θ(p) − θ(q)‖",
        squared=False,
        exact=True,
        needs=frozenset({"policies"}),
        no_test=_NO_TEST,
    )

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
                    f"{_shape(policy)}: use another characterization"
                )
            parts = [part.ravel() for layer in policy.layers for part in layer]
            parts += [
                part.ravel() for part in (policy.log_std, policy.state_std) if part is not None
            ]
            rows.append(np.concatenate(parts).astype(np.float64))
        return np.stack(rows), None, {}

    def _distances(self, a: Descriptions, b: Descriptions) -> Array:
        return euclidean(*a.values("vectors"), *b.values("vectors"))


def _network(data: VisitedStates, number: int) -> NetworkPolicy:
    policy = data.policy(number)
    if not isinstance(policy, NetworkPolicy):
        raise UsageError(
            f"parameters needs policies that are networks, but {data.labels[number]!r} is a "
            f"{type(policy).__name__}: leave it out, or compare by the states that policies visit"
        )
    return policy


def _shape(policy: NetworkPolicy) -> str:
    return f"{'-'.join(map(str, policy.sizes))} ({policy.activation}, {policy.head})"
