"""One Gaussian a policy, diagonal or full, compared by the KL divergence both ways."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Positive
from pivec.characterizations.averages import RowMeans, segment_sums
from pivec.characterizations.decomposition import USUAL, WHERE, WIDE, Anatomy, Faces
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.characterizations.views import center_and_scale
from pivec.errors import UsageError
from pivec.parallel import single_threaded_blas
from pivec.states import VisitedStates
from pivec.statistics import symmetric_kl_diagonal, symmetric_kl_full


@dataclass(eq=False, repr=False)
class Gaussian(RowMeans):
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
        Moments are added up of (state - center_) / scale_. With "full" they stay so, which leaves
        the KL divergence as it is and keeps covariances of features of any unit well conditioned.

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
        self.center_, self.scale_ = center_and_scale(self.view_, data)

    def _sums(self, rows: NDArray[np.float32], cuts: NDArray[np.int64]) -> NDArray[np.float64]:
        # About the centre of all states and in units of their deviation, squares lose no digits
        # that count when the mean's are taken off.
        z = (rows - self.center_) / self.scale_
        if self.covariance == "diagonal":
            return np.concatenate([segment_sums(z, cuts), segment_sums(z**2, cuts)], axis=1)
        upper = np.triu_indices(z.shape[1])
        # A copy: x.T @ x takes BLAS's SYRK path, which crashes in some builds.
        with single_threaded_blas():  # the same bits wherever it runs
            products = [(z[i:j].T @ z[i:j].copy())[upper] for i, j in pairwise(cuts)]
        return np.concatenate([segment_sums(z, cuts), products], axis=1)

    def _of_means(self, means: NDArray[np.float64]) -> Description:
        d = len(self.center_)
        z, squares = means[:, :d], means[:, d:]
        if self.covariance == "diagonal":
            variances = np.maximum(squares - z**2, 0.0) * self.scale_**2
            return gaussians(self.center_ + z * self.scale_, variances + self.floor)
        upper, lower = np.triu_indices(d), np.tril_indices(d, -1)
        covariances = np.empty((len(means), d, d))
        covariances[:, *upper] = squares
        covariances -= z[:, :, None] * z[:, None, :]
        covariances[:, *lower] = covariances.swapaxes(1, 2)[:, *lower]
        covariances += self.floor * np.eye(d)
        vectors = np.concatenate([z, covariances[:, *upper]], axis=1)
        return vectors, None, {"means": z, "covariances": covariances}

    def _anatomy(self, sums: NDArray[np.float64]) -> Anatomy:
        if self.covariance != "diagonal":
            raise UsageError(
                "what differs is told feature by feature, but these Gaussians have covariances: "
                "use covariance='diagonal'"
            )
        means, variances = (
            self._from_statistics(sums)[2][name][:, None] for name in ("means", "variances")
        )

        def differences(a: slice, b: slice) -> NDArray[np.float64]:
            # KL both ways is ½ Σ (Δμ)² (1/σ² + 1/τ²) + ½ Σ (σ/τ − τ/σ)².
            precisions = 1.0 / variances[a] + 1.0 / variances[b]
            ratios = np.sqrt(variances[a] / variances[b])
            shifts = (means[a] - means[b]) * np.sqrt(precisions)
            parts = np.concatenate([shifts, ratios - 1.0 / ratios], axis=2)
            return np.asarray(parts / np.sqrt(2.0))

        n, _, d = means.shape
        columns = tuple((kind, j) for kind in (WHERE, WIDE) for j in range(d))
        ends = self.center_[:, None] + USUAL * self.scale_[:, None] * np.array([-1.0, 1.0])
        shares = np.ones((n, 1))
        faces = Faces(shares, shares[0], means, means[:, 0], ends[None])
        return Anatomy(faces, columns, differences, ("all states",))

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
