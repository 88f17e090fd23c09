"""Policy supervectors: the means of a background mixture, MAP-adapted to each policy.

The paper's Section 4, equations (1)-(6).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive, Seed
from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.distances.pairwise import matched_kl, squared_euclidean
from pivec.mixtures.adapt import (
    map_offsets,
    map_variances,
    map_weights,
    policy_relevance,
    policy_statistics,
)
from pivec.mixtures.fit import fit_mixture
from pivec.mixtures.mixture import Mixture
from pivec.states.derived import thin
from pivec.states.visited import VisitedStates

_MIXTURE = ("weights", "means", "variances", "center", "scale")


@dataclass(eq=False, repr=False)
class Supervector(Characterization):
    """Adapted means of a Gaussian mixture fitted on the states of all policies.

    Vectors are the adapted means in standardised units, n_components × n_features values a
    policy. The distance is the paper's equation (6), an upper bound of the KL divergence. With
    weights (and variances) adapted too, vectors have the K weights (and K × n_features variances)
    behind the means, and the distance is the same bound in its general form, both ways summed:
    Σ_k w_k (log(w_k/w′_k) + KL(N_k || N′_k)) and the same with the two policies exchanged.

    Parameters
    ----------
    n_components : int
        Gaussians in the background model.
    relevance : float
        The relevance factor r of equation (4): how many states it takes to move a mean half way.
    common_total : float, optional
        Adapt as if every policy had visited so many states: a vector then tells where a policy is,
        and not how much data there is of it. None takes the states as they are, as the paper does.
    adapt : str
        What is adapted: "m", the means as in the paper; "mw", the weights too, which tell how
        often a region is visited; "mwv", the variances too (Reynolds 2000, equations 11-13).
    max_states, max_policies, max_episodes : int, optional
        Caps on what the background model is fitted on, drawn evenly over the policies; the paper
        used 10 million states, 500 policies and 100 episodes. All policies are described anyway.
    init, warm_start, n_init, tol, max_iter, variance_floor, device
        How the background model is fitted; see `pivec.mixtures.fit_mixture`.
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

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> walks = [[rng.normal(place, 1, (50, 2))] for place in (0, 0, 2)]
    >>> data = VisitedStates.from_arrays(walks)
    >>> d = Supervector(n_components=2).fit(data).distances(data)
    >>> bool(d[0, 2] > 10 * d[0, 1])
    True
    """

    name = "supervector"
    explanation = (
        "One Gaussian mixture, the background model, is fitted on the standardised states of all "
        "policies. Its means are then adapted to the states that each policy visited: the stacked "
        "means are the policy's supervector. The distance of two policies is an upper bound of "
        "the KL divergence between the adapted mixtures: 0 for policies that visit the same "
        "states, larger the farther apart the regions are that they visit."
    )
    formula = "d(p, q) = ½ · Σₖ wₖ · Σⱼ (μₖⱼ(p) − μₖⱼ(q))² / σₖⱼ²"
    learned = ("weights", "means", "variances", "center", "scale", "n_iter")

    n_components: Count = 64
    _: KW_ONLY
    relevance: Positive = 16.0
    common_total: Positive | None = None
    adapt: Literal["m", "mw", "mwv"] = "m"
    max_states: Count | None = None
    max_policies: Count | None = None
    max_episodes: Count | None = None
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
        )
        result = fit_mixture(
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
        self.n_iter_ = result.n_iter
        for name in _MIXTURE:
            setattr(self, f"{name}_", getattr(result.mixture, name))

    @property
    def background_(self) -> Mixture:
        """The background model."""
        return Mixture(*(getattr(self, f"{name}_") for name in _MIXTURE))

    def _describe(self, data: VisitedStates) -> Description:
        background, n = self.background_, len(data)
        statistics = policy_statistics(
            data, data.state_starts, background, squares="v" in self.adapt, device=self.device
        )
        counts = statistics.counts
        relevance = policy_relevance(counts, self.relevance, self.common_total)
        offsets = map_offsets(counts, statistics.sums, background, relevance)
        vectors = (background.means + offsets).reshape(n, -1)
        if self.adapt == "m":
            # Equation (6) as a plain squared Euclidean distance, of the offsets from the background
            # rather than of the means, so that nearly equal policies keep their digits.
            scale = np.sqrt(background.weights[:, None] / (2.0 * background.variances))
            return vectors, (offsets * scale).reshape(n, -1), {"counts": counts}
        weights = map_weights(counts, background, relevance)
        arrays = {"counts": counts, "weights": weights, "offsets": offsets}
        parts = [vectors, weights]
        if self.adapt == "mwv":
            variances = map_variances(
                statistics, offsets, background, relevance, self.variance_floor
            )
            arrays["variances"] = variances
            parts.append(variances.reshape(n, -1))
        return np.concatenate(parts, axis=1), None, arrays

    def _distances(self, a: Descriptions, b: Descriptions) -> NDArray[np.float64]:
        if self.adapt == "m":
            return squared_euclidean(*a.values("points"), *b.values("points"), device=self.device)
        names, shared = ["weights", "offsets"], [self.variances_[None]]
        if self.adapt == "mwv":
            names, shared = [*names, "variances"], []
        left, right = (described.values(*names) + shared for described in (a, b))
        return matched_kl(*left, *right)
