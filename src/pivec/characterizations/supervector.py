"""Policy supervectors: the means of a background mixture, MAP-adapted to each policy.

The paper's Section 4, equations (1)-(6).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive, Seed
from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Descriptions
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
from pivec.states.thinning import thin
from pivec.states.visited import VisitedStates


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

    name: ClassVar[str] = "supervector"
    explanation: ClassVar[str] = (
        "One Gaussian mixture, the background model, is fitted on the standardised states of all "
        "policies. Its means are then adapted to the states that each policy visited: the stacked "
        "means are the policy's supervector. The distance of two policies is an upper bound of "
        "the KL divergence between the adapted mixtures: 0 for policies that visit the same "
        "states, larger the farther apart the regions are that they visit."
    )
    formula: ClassVar[str] = "d(p, q) = ½ · Σₖ wₖ · Σⱼ (μₖⱼ(p) − μₖⱼ(q))² / σₖⱼ²"

    def __init__(
        self,
        n_components: Count = 64,
        *,
        relevance: Positive = 16.0,
        common_total: Positive | None = None,
        adapt: Literal["m", "mw", "mwv"] = "m",
        max_states: Count | None = None,
        max_policies: Count | None = None,
        max_episodes: Count | None = None,
        init: Literal["kmeans++", "kmeans"] = "kmeans++",
        warm_start: bool = True,
        n_init: Count | None = None,
        tol: Positive = 1e-3,
        max_iter: Count = 100,
        variance_floor: Positive = 1e-6,
        device: str = "auto",
        random_state: Seed = 0,
        progress: bool = False,
    ) -> None:
        self.n_components = n_components
        self.relevance = relevance
        self.common_total = common_total
        self.adapt = adapt
        self.max_states = max_states
        self.max_policies = max_policies
        self.max_episodes = max_episodes
        self.init = init
        self.warm_start = warm_start
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.variance_floor = variance_floor
        self.device = device
        self.random_state = random_state
        self.progress = progress

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
        self._adopt(result.mixture)
        self.n_iter_ = result.n_iter

    def _adopt(self, mixture: Mixture) -> None:
        self.background_ = mixture
        self.center_, self.scale_ = mixture.center, mixture.scale

    def _describe(
        self, data: VisitedStates
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        background = self.background_
        if self.adapt == "mwv":
            return self._describe_with_variances(data)
        statistics = policy_statistics(data, data.state_starts, background, device=self.device)
        relevance = policy_relevance(statistics.counts, self.relevance, self.common_total)
        offsets = map_offsets(statistics.counts, statistics.sums, background, relevance)
        vectors = (background.means + offsets).reshape(len(data), -1)
        if self.adapt == "mw":
            weights = map_weights(statistics.counts, background, relevance)
            arrays = {"counts": statistics.counts, "weights": weights, "offsets": offsets}
            return np.concatenate([vectors, weights], axis=1), None, arrays
        # Equation (6) as a plain squared Euclidean distance, of the offsets from the background
        # rather than of the means, so that nearly equal policies keep their digits.
        scale = np.sqrt(background.weights[:, None] / (2.0 * background.variances))
        points = (offsets * scale).reshape(len(data), -1)
        return vectors, points, {"counts": statistics.counts}

    def _describe_with_variances(
        self, data: VisitedStates
    ) -> tuple[NDArray[Any], None, dict[str, NDArray[Any]]]:
        background, n = self.background_, len(data)
        statistics = policy_statistics(
            data, data.state_starts, background, squares=True, device=self.device
        )
        relevance = policy_relevance(statistics.counts, self.relevance, self.common_total)
        offsets = map_offsets(statistics.counts, statistics.sums, background, relevance)
        weights = map_weights(statistics.counts, background, relevance)
        variances = map_variances(statistics, offsets, background, relevance, self.variance_floor)
        means = background.means + offsets
        vectors = [means.reshape(n, -1), weights, variances.reshape(n, -1)]
        arrays = {"counts": statistics.counts, "weights": weights, "offsets": offsets}
        return np.concatenate(vectors, axis=1), None, arrays | {"variances": variances}

    def _distances(self, a: Descriptions, b: Descriptions | None) -> NDArray[np.float64]:
        if self.adapt == "m":
            other = None if b is None else _points(b)
            return squared_euclidean(_points(a), other, device=self.device)
        shared = self.background_.variances[None]
        left, right = (
            (
                described.arrays["weights"],
                described.arrays["offsets"],
                shared if self.adapt == "mw" else described.arrays["variances"],
            )
            for described in (a, a if b is None else b)
        )
        return matched_kl(*left, *right)

    def _learned(self) -> dict[str, NDArray[Any]]:
        background = self.background_
        return {
            "weights": background.weights,
            "means": background.means,
            "variances": background.variances,
            "center": background.center,
            "scale": background.scale,
            "n_iter": np.array(self.n_iter_),
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        names = ("weights", "means", "variances", "center", "scale")
        self._adopt(Mixture(*(arrays[name] for name in names)))
        self.n_iter_ = int(arrays["n_iter"])


def _points(descriptions: Descriptions) -> NDArray[np.float64]:
    if descriptions.points is None:
        raise TypeError("descriptions by supervectors have points")
    return descriptions.points
