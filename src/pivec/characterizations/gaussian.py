"""One diagonal Gaussian a policy, compared by the KL divergence both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.pairwise import symmetric_kl_diagonal
from pivec.states.visited import VisitedStates


class Gaussian(Characterization):
    """Mean and variance of each feature over all states of a policy.

    The distance is KL(a || b) + KL(b || a). Fast, and blind to everything but the first two
    moments of each feature.

    Parameters
    ----------
    floor : float
        Added to every variance, so that a feature that never changes has a defined distance.

    Examples
    --------
    >>> walks = [[np.array([[-1.0], [1.0]])], [np.array([[0.0], [2.0]])]]
    >>> Gaussian().fit(data := VisitedStates.from_arrays(walks)).distances(data).round(3)
    array([[0., 1.],
           [1., 0.]])
    """

    name: ClassVar[str] = "gaussian"
    explanation: ClassVar[str] = (
        "Each policy is described by the mean and the variance of every feature over all states "
        "it visited, a diagonal Gaussian. The distance of two policies is the KL divergence "
        "between their Gaussians, summed both ways."
    )
    formula: ClassVar[str] = "d(p, q) = KL(p ‖ q) + KL(q ‖ p)"

    def __init__(self, *, floor: float = 1e-7) -> None:
        self.floor = floor

    def _fit(self, data: VisitedStates) -> None:
        """Nothing is shared between the policies."""

    def _describe(
        self, data: VisitedStates
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        means = np.empty((len(data), data.n_features))
        variances = np.empty_like(means)
        for i in range(len(data)):
            states = data.policy_states(i)
            means[i] = states.mean(axis=0, dtype=np.float64)
            variances[i] = ((states - means[i]) ** 2).mean(axis=0) + self.floor
        return (
            np.concatenate([means, variances], axis=1),
            None,
            {"means": means, "variances": variances},
        )

    def _distances(self, a: Descriptions, b: Descriptions | None) -> NDArray[np.float64]:
        other = a if b is None else b
        return symmetric_kl_diagonal(
            a.arrays["means"],
            a.arrays["variances"],
            other.arrays["means"],
            other.arrays["variances"],
        )

    def _learned(self) -> dict[str, NDArray[Any]]:
        return {}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Nothing was learned."""
