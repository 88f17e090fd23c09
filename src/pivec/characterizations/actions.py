"""What policies would do in the same states: their action distributions on common probe states."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive, Seed
from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.characterizations.gaussian import gaussian_distances, gaussians
from pivec.characterizations.views import View, draw_rows
from pivec.errors import UsageError
from pivec.policies import Policy, RecurrentPolicy, UniformPolicy
from pivec.states import VisitedStates
from pivec.statistics import total_variation

# Heads that choose one of n actions: there, the random policy gives each 1/n.
_SINGLE_CHOICE = ("categorical", "epsilon_greedy", "proportional")
_DISCRETE, _GAUSSIAN = "discrete", "gaussian"


@dataclass(eq=False, repr=False)
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
    >>> from pivec.policies import NetworkPolicy
    >>> from pivec.workflows.collect import collect
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
    explanation = (
        "All policies are asked what they would do in the same states, drawn from those that were "
        "visited. The distance of two policies is the difference of their action distributions, "
        "averaged over these states: total variation where actions are discrete, the KL "
        "divergence both ways where they are Gaussian. What the actions lead to does not count."
    )
    formula = "d(p, q) = mean over s of D(p(·|s), q(·|s))"
    needs = frozenset({"policies"})
    learned = ("probes", "kind", "n_actions", "single")
    exact = True
    no_test = "it looks at the policies and not at their episodes"

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
                first, deviations = _answer(policy, data.labels[i], self.probes_[:1])
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
        variances = np.empty(shape if self.kind_ == _GAUSSIAN else 0)
        for i, label in enumerate(data.labels):
            policy = data.policy(i)
            if isinstance(policy, UniformPolicy) and self.single_:
                first[i] = 1.0 / self.n_actions_
                continue
            answer, deviations = _answer(policy, label, self.probes_)
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
        if self.kind_ == _GAUSSIAN:
            return gaussians(flat, variances.reshape(len(data), -1))
        return flat, None, {"probabilities": flat}

    def _distances(self, a: Descriptions, b: Descriptions) -> NDArray[np.float64]:
        n = len(self.probes_)
        if self.kind_ == _GAUSSIAN:
            return gaussian_distances(a, b) / n
        return total_variation(a.arrays["probabilities"], b.arrays["probabilities"]) / n


def _kind(deviations: NDArray[Any] | None) -> str:
    return _DISCRETE if deviations is None else _GAUSSIAN


def _answer(
    policy: Policy, label: str, states: NDArray[np.float32]
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Probabilities and None, or means and deviations, of a policy's actions in these states."""
    if isinstance(policy, RecurrentPolicy):
        raise UsageError(
            f"actions asks policies about single states, but {label!r} has a memory, so that its "
            "actions depend on the episode so far: compare by what the policies visit"
        )
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
    answer = ask(states)
    if isinstance(answer, tuple):
        return answer
    if getattr(policy, "head", "") == "bernoulli":
        answer = np.concatenate([answer, 1.0 - answer], axis=1)  # each switch: on, off
    return answer, None
