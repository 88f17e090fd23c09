"""One Gaussian a policy, diagonal or full, compared by the KL divergence both ways."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Positive
from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.characterizations.views import View
from pivec.distances.pairwise import symmetric_kl_diagonal, symmetric_kl_full
from pivec.states.moments import center_and_scale
from pivec.states.visited import VisitedStates


@dataclass(eq=False, repr=False)
class Gaussian(Characterization):
    """Mean and variance (or covariance) of the features over all states of a policy.

    The distance is KL(a || b) + KL(b || a). Fast, and blind to everything but the first two
    moments.

    Parameters
    ----------
    covariance : str
        "diagonal" as in the paper, each feature by itself; or "full", which also sees how
        features go together.
    floor : float
        Added to every variance, so that a feature that never changes has a defined distance. With
        "full" it is a share of the variance of all states of the fit.

    Attributes
    ----------
    center_, scale_ : (n_features,) arrays
        With "full", states are described as (state - center_) / scale_, which leaves the KL
        divergence as it is and keeps covariances of features of any unit well conditioned.

    Examples
    --------
    >>> walks = [[np.array([[-1.0], [1.0]])], [np.array([[0.0], [2.0]])]]
    >>> Gaussian().fit(data := VisitedStates.from_arrays(walks)).distances(data).round(3)
    array([[0., 1.],
           [1., 0.]])
    """

    name = "gaussian"
    explanation = (
        "Each policy is described by the mean and the variance of every feature over all states "
        "it visited, a Gaussian (with the covariances of the features, too, where that was asked "
        "for). The distance of two policies is the KL divergence between their Gaussians, summed "
        "both ways."
    )
    formula = "d(p, q) = KL(p ‖ q) + KL(q ‖ p)"
    learned = ("center", "scale")

    _: KW_ONLY
    covariance: Literal["diagonal", "full"] = "diagonal"
    floor: Positive = 1e-7

    def _fit(self, data: VisitedStates) -> None:
        self.center_, self.scale_ = np.zeros(data.n_features), np.ones(data.n_features)
        if self.covariance == "full":
            self.center_, self.scale_ = center_and_scale(View("states").all_rows(data))

    def _describe(self, data: VisitedStates) -> Description:
        if self.covariance == "full":
            return self._describe_full(data)
        means = np.empty((len(data), data.n_features))
        variances = np.empty_like(means)
        for i in range(len(data)):
            states = data.policy_states(i)
            means[i] = states.mean(axis=0, dtype=np.float64)
            variances[i] = ((states - means[i]) ** 2).mean(axis=0) + self.floor
        return gaussians(means, variances)

    def _describe_full(self, data: VisitedStates) -> Description:
        d = data.n_features
        means, covariances = np.empty((len(data), d)), np.empty((len(data), d, d))
        for i in range(len(data)):
            states = (data.policy_states(i) - self.center_) / self.scale_
            means[i] = states.mean(axis=0)
            states -= means[i]
            # A copy: x.T @ x takes BLAS's SYRK path, which crashes in some builds.
            covariances[i] = states.T @ states.copy() / len(states)
        covariances += self.floor * np.eye(d)
        vectors = np.concatenate([means, covariances[:, *np.triu_indices(d)]], axis=1)
        return vectors, None, {"means": means, "covariances": covariances}

    def _distances(self, a: Descriptions, b: Descriptions) -> NDArray[np.float64]:
        if self.covariance == "diagonal":
            return gaussian_distances(a, b)
        left, right = (described.values("means", "covariances") for described in (a, b))
        return symmetric_kl_full(*left, *right)


def gaussians(means: NDArray[np.float64], variances: NDArray[np.float64]) -> Description:
    """Describe each policy by a diagonal Gaussian: a row of means and one of variances."""
    vectors = np.concatenate([means, variances], axis=1)
    return vectors, None, {"means": means, "variances": variances}


def gaussian_distances(a: Descriptions, b: Descriptions) -> NDArray[np.float64]:
    """KL(a || b) + KL(b || a) of the diagonal Gaussians that `gaussians` made."""
    left, right = (described.values("means", "variances") for described in (a, b))
    return symmetric_kl_diagonal(*left, *right)
