"""The background model: one Gaussian mixture on the states of all policies, which others share."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive, Seed
from pivec.characterizations.base import Characterization
from pivec.characterizations.decomposition import USUAL, Faces
from pivec.characterizations.descriptions import Descriptions
from pivec.mixtures import Mixture, fit_mixture, policy_statistics
from pivec.parallel import using
from pivec.states import VisitedStates, thin

Array = NDArray[np.float64]
SELDOM = 1e-4  # a share of time that is as good as none
_MIXTURE = ("weights", "means", "variances", "center", "scale")


@dataclass(eq=False, repr=False)
class BackgroundModel(Characterization):
    """A characterization by how a policy differs from a Gaussian mixture of all states.

    Parameters
    ----------
    n_components : int
        Gaussians in the background model.
    max_states, max_policies, max_episodes : int, optional
        Caps on what the background model is fitted on; the paper used 10 million states, 500
        policies and 100 episodes. All policies are described anyway.
    sampling : {"even", "uniform"}
        How states are drawn under the cap: as many of every policy, so that those with long
        episodes do not decide the space; or of all states alike, as the paper's scripts do.
    init, warm_start, n_init, tol, max_iter, variance_floor, device
        How the background model is fitted; see `pivec.mixtures.fit.fit_mixture`.
    random_state : int
        Seed of the fit.
    progress : bool
        Draw a bar while fitting.

    Attributes
    ----------
    background_ : Mixture
        ``weights`` (K,), ``means`` and ``variances`` (K, n_features) in standardised units.
    center_, scale_ : (n_features,) arrays
        The standardisation: (state - center_) / scale_.
    n_iter_ : int
        Passes over the data that the fit took.
    """

    learned = (*_MIXTURE, "n_iter")

    n_components: Count = 64
    _: KW_ONLY
    max_states: Count | None = None
    max_policies: Count | None = None
    max_episodes: Count | None = None
    sampling: Literal["even", "uniform"] = "even"
    init: Literal["kmeans++", "kmeans"] = "kmeans++"
    warm_start: bool = True
    n_init: Count | None = None
    tol: Positive = 1e-3
    max_iter: Count = 100
    variance_floor: Positive = 1e-6
    device: str = "auto"
    random_state: Seed = 0
    progress: bool = False

    def _fit(self, data: VisitedStates) -> None:
        rng = np.random.default_rng(self.random_state)
        source = thin(
            data,
            rng,
            max_policies=self.max_policies,
            max_episodes=self.max_episodes,
            max_states=self.max_states,
            sampling=self.sampling,
        )
        fits = [
            fit_mixture(
                source,
                self.n_components,
                random_state=rng,
                init=self.init,
                warm_start=self.warm_start,
                n_init=self.n_init,
                tol=self.tol,
                max_iter=self.max_iter,
                variance_floor=self.variance_floor,
                device=self.device,
                progress=self.progress,
            )
            for _ in range(self._n_fits)
        ]
        self.n_iter_ = sum(fit.n_iter for fit in fits)
        mixtures = [fit.mixture for fit in fits]
        self.weights_ = np.concatenate([mixture.weights for mixture in mixtures]) / len(fits)
        self.means_ = np.concatenate([mixture.means for mixture in mixtures])
        self.variances_ = np.concatenate([mixture.variances for mixture in mixtures])
        self.center_, self.scale_ = mixtures[0].center, mixtures[0].scale

    @property
    def _n_fits(self) -> int:
        """Fits of the mixture that lie side by side."""
        return 1

    @property
    def _mixtures(self) -> list[Mixture]:
        """The fits one by one."""
        n = self._n_fits
        arrays = (self.weights_ * n, self.means_, self.variances_)
        fits = zip(*(np.split(array, n) for array in arrays), strict=True)
        return [Mixture(w, means, v, self.center_, self.scale_) for w, means, v in fits]

    @property
    def background_(self) -> Mixture:
        """The background model; of several fits, all of their components."""
        return Mixture(*(getattr(self, f"{name}_") for name in _MIXTURE))

    def _described(self, data: VisitedStates, influences: bool = False) -> Descriptions:
        with using("serial" if self.device == "cuda" else "auto"):  # the card is this process's
            return super()._described(data, influences)

    def _statistics(self, data: VisitedStates) -> Array:
        return self._sums(data, data.episode_starts)

    def _sums(self, data: VisitedStates, starts: NDArray[np.int64]) -> Array:
        """Counts of components and centred sums of segments of the states, (S, K + K D)."""
        fits = [policy_statistics(data, starts, m, device=self.device) for m in self._mixtures]
        flat = [fit.sums.reshape(len(fit.counts), -1) for fit in fits]
        return np.concatenate([*(fit.counts for fit in fits), *flat], axis=1)

    def _parts(self, sums: Array) -> tuple[Array, Array]:
        """Counts (P, K) and centred sums (P, K, D) of rows of `_statistics`."""
        n, (k, d) = len(sums), self.means_.shape
        return sums[:, :k], sums[:, k:].reshape(n, k, d)

    def _faces(self, counts: Array, centred: Array) -> Faces:
        """What policies of these rows of `_parts` do; means are NaN where they never are."""
        total = counts.sum(axis=1, keepdims=True)
        shares = self._n_fits * counts / total
        there = np.where(shares > SELDOM, counts, np.nan)[:, :, None]
        deviations = np.sqrt(self.variances_)
        means = self.center_ + self.scale_ * (self.means_ + deviations * centred / there)
        sums = counts @ self.means_ + np.einsum("kd,nkd->nd", deviations, centred)
        averages = self.center_ + self.scale_ * sums / total
        ranges = region_ranges(self.background_)
        return Faces(shares, self._n_fits * self.weights_, means, averages, ranges)

    def _words(self) -> tuple[str, ...]:
        return tuple(f"region {k}" for k in range(len(self.means_)))


def region_ranges(mixture: Mixture) -> Array:
    """Where regions are, in the environment's units: from where to where 80 % of a region lie.

    Returns
    -------
    (n_components, n_features, 2) array
    """
    reach = USUAL * np.sqrt(mixture.variances)
    ends = np.stack([mixture.means - reach, mixture.means + reach], axis=2)
    return np.asarray(mixture.center[:, None] + mixture.scale[:, None] * ends)
