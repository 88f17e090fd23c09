"""Policy supervectors: the means of a background mixture, MAP-adapted to each policy.

The paper's Section 4, equations (1)-(6).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Positive
from pivec.characterizations.background import Array, BackgroundModel
from pivec.characterizations.decomposition import WHERE, Anatomy
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.errors import UsageError
from pivec.mixtures import (
    PolicyStatistics,
    map_offsets,
    map_variances,
    map_weights,
    policy_relevance,
    policy_statistics,
)
from pivec.states import VisitedStates
from pivec.statistics import matched_kl, squared_euclidean


@dataclass(eq=False, repr=False)
class Supervector(BackgroundModel):
    """Adapted means of a Gaussian mixture fitted on the states of all policies.

    Vectors are the adapted means in standardised units, n_components × n_features values a
    policy. The distance is the paper's equation (6), an upper bound of the KL divergence. With
    weights (and variances) adapted too, vectors have the K weights (and K × n_features variances)
    behind the means, and the distance is the same bound in its general form, both ways summed:
    Σ_k w_k (log(w_k/w′_k) + KL(N_k || N′_k)) and the same with the two policies exchanged.

    Parameters
    ----------
    relevance : float
        The relevance factor r of equation (4): how many states it takes to move a mean half way.
    common_total : float, optional
        Adapt as if every policy had visited so many states: a vector then tells where a policy is,
        and not how much data there is of it. None takes the states as they are, as the paper does.
    adapt : str
        What is adapted: "m", the means as in the paper; "mw", the weights too, which tell how
        often a region is visited; "mwv", the variances too (Reynolds 2000, equations 11-13).
    n_components and others
        Of the background model, see `pivec.characterizations.background.BackgroundModel`, as is
        what `fit` learns.

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

    _: KW_ONLY
    relevance: Positive = 16.0
    common_total: Positive | None = None
    adapt: Literal["m", "mw", "mwv"] = "m"

    @property
    def has_influences(self) -> bool:
        """With adapted means alone, which have points."""
        return self.adapt == "m"

    @property
    def has_statistics(self) -> bool:
        """Without variances: their squares are not among the sums."""
        return self.adapt != "mwv"

    def _describe(self, data: VisitedStates) -> Description:
        squares = "v" in self.adapt
        return self._adapted(
            policy_statistics(
                data, data.state_starts, self.background_, squares=squares, device=self.device
            )
        )

    def _policy_sums(self, data: VisitedStates) -> Array:
        return self._sums(data, data.state_starts)

    def _from_statistics(self, sums: Array) -> Description:
        return self._adapted(PolicyStatistics(*self._parts(sums)))

    def _adapted(self, statistics: PolicyStatistics) -> Description:
        counts, background, n = statistics.counts, self.background_, len(statistics.counts)
        relevance = policy_relevance(counts, self.relevance, self.common_total)
        offsets = map_offsets(counts, statistics.sums, background, relevance)
        vectors = (background.means + offsets).reshape(n, -1)
        if self.adapt == "m":
            return vectors, self._points(offsets), {"counts": counts}
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

    def _rows_of(self, sums: Array) -> Array:
        counts, centred = self._parts(sums)
        relevance = policy_relevance(counts, self.relevance, self.common_total)
        return self._points(map_offsets(counts, centred, self.background_, relevance))

    def _anatomy(self, sums: Array) -> Anatomy:
        if self.adapt != "m":
            raise UsageError(
                "what differs is told of adapted means, but this supervector adapts "
                f"{self.adapt!r}: use adapt='m'"
            )
        points = self._rows_of(sums).reshape(-1, *self.means_.shape)
        columns = tuple((WHERE, j) for j in range(points.shape[2]))
        faces = self._faces(*self._parts(sums))
        return Anatomy(faces, columns, lambda a, b: points[a] - points[b], self._words())

    def _points(self, offsets: Array) -> Array:
        # Equation (6) as a plain squared Euclidean distance, of the offsets from the background
        # rather than of the means, so that nearly equal policies keep their digits.
        scale = np.sqrt(self.weights_[:, None] / (2.0 * self.variances_))
        return np.asarray((offsets * scale).reshape(len(offsets), -1))

    def _distances(self, a: Descriptions, b: Descriptions) -> NDArray[np.float64]:
        if self.adapt == "m":
            return squared_euclidean(*a.values("points"), *b.values("points"), device=self.device)
        names, shared = ["weights", "offsets"], [self.variances_[None]]
        if self.adapt == "mwv":
            names, shared = [*names, "variances"], []
        left, right = (described.values(*names) + shared for described in (a, b))
        return matched_kl(*left, *right)
