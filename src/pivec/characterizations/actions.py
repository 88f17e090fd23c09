"""What policies would do in the same states: their action distributions on common probe states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive, Seed
from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.views import View, draw_rows
from pivec.distances.pairwise import symmetric_kl_diagonal, total_variation
from pivec.errors import UsageError
from pivec.policies.policy import Policy
from pivec.policies.uniform import UniformPolicy
from pivec.states.visited import VisitedStates

# Heads that choose one of n actions: there, the random policy gives each 1/n.
_SINGLE_CHOICE = ("categorical", "epsilon_greedy")
_DISCRETE, _GAUSSIAN = "discrete", "gaussian"


class Actions(Characterization):
    """Action distributions on a common set of states, drawn from those that were visited.

    The distance is averaged over these states: the total variation of discrete actions, from 0 to
    1, or KL(a || b) + KL(b || a) of Gaussian actions, before they are clipped to their box. Needs
    the policies themselves, and states that are the observations as the policies see them.

    Parameters
    ----------
    n_probes : int
        States to ask the policies about, as many from each policy of the fit.
    floor : float
        Added to the variances of Gaussian actions.
    random_state : int
        Seed of the drawing.

    Attributes
    ----------
    probes_ : (n_probes, n_features) array
    kind_ : str
        "discrete" or "gaussian".
    n_actions_ : int
        Discrete actions, or values of an action.

    Examples
    --------
    >>> from pivec.policies.network import NetworkPolicy
    >>> from pivec.collection import collect
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

    name: ClassVar[str] = "actions"
    explanation: ClassVar[str] = (
        "All policies are asked what they would do in the same states, drawn from those that were "
        "visited. The distance of two policies is the difference of their action distributions, "
        "averaged over these states: total variation where actions are discrete, the KL "
        "divergence both ways where they are Gaussian. What the actions lead to does not count."
    )
    formula: ClassVar[str] = "d(p, q) = mean over s of D(p(·|s), q(·|s))"

    def __init__(
        self, n_probes: Count = 256, *, floor: Positive = 1e-7, random_state: Seed = 0
    ) -> None:
        self.n_probes = n_probes
        self.floor = floor
        self.random_state = random_state

    @property
    def needs(self) -> frozenset[str]:
        """The policies themselves."""
        return frozenset({"policies"})

    def _fit(self, data: VisitedStates) -> None:
        rng = np.random.default_rng(self.random_state)
        self.probes_ = draw_rows(View("states"), data, self.n_probes, rng).astype(np.float32)
        for i in range(len(data)):
            policy = data.policy(i)
            if not isinstance(policy, UniformPolicy):
                answer = _answer(policy, data.labels[i], self.probes_[:1])
                self.kind_ = _GAUSSIAN if isinstance(answer, tuple) else _DISCRETE
                self.n_actions_ = int((answer[0] if isinstance(answer, tuple) else answer).shape[1])
                self.single_ = getattr(policy, "head", "categorical") in _SINGLE_CHOICE
                return
        raise UsageError(
            "actions needs at least one policy that is a network: all of these are random"
        )

    def _describe(
        self, data: VisitedStates
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        shape = (len(data), len(self.probes_), self.n_actions_)
        gaussian = self.kind_ == _GAUSSIAN
        means = np.empty(shape)  # or probabilities
        variances = np.empty(shape if gaussian else (len(data), 0))
        for i in range(len(data)):
            policy, label = data.policy(i), data.labels[i]
            if isinstance(policy, UniformPolicy) and self.single_:
                means[i] = 1.0 / self.n_actions_
                continue
            answer = _answer(policy, label, self.probes_)
            first = answer[0] if isinstance(answer, tuple) else answer
            if isinstance(answer, tuple) != gaussian or first.shape[1] != self.n_actions_:
                raise UsageError(
                    f"actions compares policies with the same actions, but those of {label!r} are "
                    f"{_GAUSSIAN if isinstance(answer, tuple) else _DISCRETE} of "
                    f"{first.shape[1]}, and those of the fit {self.kind_} of {self.n_actions_}"
                )
            means[i] = first
            if isinstance(answer, tuple):
                variances[i] = np.square(answer[1].astype(np.float64)) + self.floor
        flat, spread = means.reshape(len(data), -1), variances.reshape(len(data), -1)
        if not gaussian:
            return flat, None, {"probabilities": flat}
        return np.concatenate([flat, spread], axis=1), None, {"means": flat, "variances": spread}

    def _distances(self, a: Descriptions, b: Descriptions | None) -> NDArray[np.float64]:
        other = a if b is None else b
        n = len(self.probes_)
        if self.kind_ == _DISCRETE:
            return total_variation(a.arrays["probabilities"], other.arrays["probabilities"]) / n
        both = (*_gaussians(a), *_gaussians(other))
        return symmetric_kl_diagonal(*both) / n

    def _learned(self) -> dict[str, NDArray[Any]]:
        return {
            "probes": self.probes_,
            "kind": np.array(self.kind_),
            "n_actions": np.array(self.n_actions_),
            "single": np.array(self.single_),
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.probes_ = arrays["probes"]
        self.kind_, self.n_actions_ = str(arrays["kind"]), int(arrays["n_actions"])
        self.single_ = bool(arrays["single"])


def _gaussians(described: Descriptions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return described.arrays["means"], described.arrays["variances"]


def _answer(
    policy: Policy, label: str, states: NDArray[np.float32]
) -> NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]:
    """Probabilities, or means and deviations, of a policy's actions in these states."""
    ask = getattr(policy, "distribution", None)
    if ask is None:
        raise UsageError(
            f"actions needs policies that tell the distribution of their actions, as networks do, "
            f"but {label!r} is a {type(policy).__name__}: leave it out"
        )
    width = getattr(policy, "n_inputs", states.shape[1])
    if width != states.shape[1]:
        raise UsageError(
            f"actions asks the policies about the states, but {label!r} expects {width} values "
            f"and a state has {states.shape[1]}: collect the observations as they are, without "
            "features="
        )
    answer: NDArray[Any] | tuple[NDArray[Any], NDArray[Any]] = ask(states)
    if getattr(policy, "head", "") == "bernoulli" and isinstance(answer, np.ndarray):
        return np.concatenate([answer, 1.0 - answer], axis=1)  # each switch: on, off
    return answer
