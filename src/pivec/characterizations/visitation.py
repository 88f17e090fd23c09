"""Visitation: in which regions a policy spends its time, and where in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive
from pivec.characterizations.background import Array, BackgroundModel
from pivec.characterizations.decomposition import OFTEN, WHERE, Anatomy
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.characterizations.resampling import policy_sums
from pivec.errors import UsageError
from pivec.states import VisitedStates
from pivec.statistics import squared_euclidean

_PAIRS = 4096  # looked at together


@dataclass(eq=False, repr=False)
class Visitation(BackgroundModel):
    """Shares of time in the regions of a background model, and where in them a policy is.

    The regions are the components of a Gaussian mixture fitted on the states of all policies. With
    ω_k the share of time that a policy spends in region k in an average episode, long or short, and
    m_k its mean place there, in units of the region's deviation and seen from its middle, the
    points are √ω_k u_k / √2 with the unit vector u_k along (1, m_k / 2). Their squared Euclidean
    distance, 1 − Σ_k √(ω_k(p) ω_k(q)) u_k(p)·u_k(q), is to second order the squared Hellinger
    distance of the two adapted mixtures, component by component,

        h²(p, q) = 1 − Σ_k √(ω_k(p) ω_k(q)) · exp(−|m_k(p) − m_k(q)|² / 8),

    which bounds that of the mixtures themselves from above. Unit vectors keep it bounded, however
    far outside of all regions a policy gets. Unlike the paper's distance it does not depend on how
    much data there is of a policy, so that intervals around it mean something.

    Parameters
    ----------
    prior : float
        Both are adapted from the background as if a policy had spent so much time there, beside
        its own, which counts as 1: ω = (n/Σn + prior · w) / (1 + prior), and m_k is the sum of
        places divided by (n_k/Σn + prior). Little seen regions then say little.
    backgrounds : int
        Fits of the background model from different starts, side by side: the distance is the mean
        over them, and their scatter is part of the intervals.
    n_components and others
        Of the background model, see `pivec.characterizations.background.BackgroundModel`, as is
        what `fit` learns.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> walks = [[rng.normal(place, 1, (50, 2))] for place in (0, 0, 2)]
    >>> data = VisitedStates.from_arrays(walks)
    >>> method = Visitation(n_components=4).fit(data)
    >>> d = method.distances(data)
    >>> bool(d[0, 2] > 10 * d[0, 1])
    True
    >>> method.overlap(method.describe(data)).round(1)
    array([[1. , 0.9, 0.3],
           [0.9, 1. , 0.3],
           [0.3, 0.3, 1. ]])
    """

    name = "visitation"
    explanation = (
        "All states are divided into regions (the components of a Gaussian mixture that is fitted "
        "on the states of all policies). Each policy is described by the share of its time that it "
        "spends in each region in an average episode, and by where in the region it is. The "
        "distance of two policies is 0 if they spend their time in the same places, and 0.6 to 0.8 "
        "if they have no place in common (a squared Hellinger distance, in which all policies are "
        "drawn a little to their average). The overlap beside it is the share of time that both "
        "spend in the same regions: with an overlap of 69 % two policies spend 31 % of their time "
        "in different places."
    )
    largest = 1.0
    formula = "d(p, q) = 1 − Σₖ √(ωₖ(p) ωₖ(q)) · uₖ(p)·uₖ(q),  uₖ = (1, mₖ/2) / ‖(1, mₖ/2)‖"

    by_state = False

    _: KW_ONLY
    prior: Positive = 0.1
    backgrounds: Count = 1

    @property
    def _n_fits(self) -> int:
        return self.backgrounds

    def _describe(self, data: VisitedStates) -> Description:
        return self._from_statistics(policy_sums(self, data))

    def _statistics(self, data: VisitedStates) -> Array:
        # Episodes are the samples, so each counts the same: were states to count the same, one that
        # happens to be ten times as long as the others would decide where a policy spends its time.
        return np.asarray(super()._statistics(data) / data.lengths[:, None])

    def _from_statistics(self, sums: Array) -> Description:
        counts, centred = self._parts(sums)
        shares = counts / counts.sum(axis=1, keepdims=True)
        offsets = np.sqrt(self.variances_) * self._places(counts, centred)
        means = (self.means_ + offsets).reshape(len(sums), -1)
        vectors = np.concatenate([shares, means], axis=1)
        return vectors, self._rows_of(sums), {"counts": counts}

    def _rows_of(self, sums: Array) -> Array:
        counts, centred = self._parts(sums)
        n, k, d = centred.shape
        shares = counts / counts.sum(axis=1, keepdims=True)
        roots = np.sqrt((shares + self.prior * self.weights_) / (2.0 * (1.0 + self.prior)))
        points = np.empty((n, k, 1 + d))
        points[:, :, 0] = 1.0
        points[:, :, 1:] = self._places(counts, centred)
        points[:, :, 1:] *= 0.5
        points *= (roots / np.sqrt(np.einsum("nkd,nkd->nk", points, points)))[:, :, None]
        return points.reshape(n, -1)

    def _places(self, counts: Array, centred: Array) -> Array:
        """Mean places in the regions, in units of their deviations, drawn to the middle."""
        total = counts.sum(axis=1, keepdims=True) / self.backgrounds  # each fit has all of the time
        return np.asarray(centred / (counts + self.prior * total)[:, :, None])

    def _sums_at(self, points: Array) -> Array:
        k, d = self.means_.shape
        parts = points.reshape(-1, k, 1 + d)
        squares = np.einsum("nkd,nkd->nk", parts, parts)
        shares = np.maximum(2.0 * (1.0 + self.prior) * squares - self.prior * self.weights_, 0.0)
        places = 2.0 * parts[:, :, 1:] / parts[:, :, :1]
        total = shares.sum(axis=1, keepdims=True) / self.backgrounds
        centred = places * (shares + self.prior * total)[:, :, None]
        return np.concatenate([shares, centred.reshape(len(points), -1)], axis=1)

    def _anatomy(self, sums: Array) -> Anatomy:
        k, d = self.means_.shape
        points = self._rows_of(sums).reshape(-1, k, 1 + d)
        roots = np.sqrt(np.einsum("nkd,nkd->nk", points, points))
        units = points / roots[:, :, None]

        def differences(a: slice, b: slice) -> Array:
            # |r u − s v|² = (r − s)² + r s |u − v|². The first coordinate of a unit vector follows
            # from the others, which are the features: they share what it adds.
            moved = units[a] - units[b]
            features = np.einsum("nkd,nkd->nk", moved[:, :, 1:], moved[:, :, 1:])
            rest = np.divide(
                moved[:, :, 0] ** 2, features, out=np.zeros_like(features), where=features > 0.0
            )
            moved *= np.sqrt(roots[a] * roots[b] * (1.0 + rest))[:, :, None]
            moved[:, :, 0] = roots[a] - roots[b]
            return np.asarray(moved)

        columns = ((OFTEN, -1), *((WHERE, j) for j in range(d)))
        return Anatomy(self._faces(*self._parts(sums)), columns, differences, self._words())

    def _scatter(
        self,
        sides: Sequence[VisitedStates | Descriptions],
        squares: Callable[[Array, Array], Array] = squared_euclidean,
    ) -> Array | float:
        if self.backgrounds == 1:
            return 0.0
        points = [side.values("points")[0] for side in sides if isinstance(side, Descriptions)]
        fits = [np.split(rows, self.backgrounds, axis=1) for rows in points]
        # Of N fits, each has 1/N of the squared distance, which is their mean.
        distances = [squares(*pair) for pair in zip(fits[0], fits[-1], strict=True)]
        return np.asarray(self.backgrounds * np.var(distances, axis=0, ddof=1))

    def overlap(self, a: Descriptions, b: Descriptions | None = None) -> Array:
        """Shares of time that policies spend in the same regions, (n, n) or (n, m), from 0 to 1.

        1 less half the sum of differences of the shares (total variation). Chance alone makes
        shares differ: where influences tell by how much, that is taken off (in squares).
        """
        sides = [a] if b is None else [a, b]
        for side in sides:
            if side.method != self.name:
                raise UsageError(f"expected descriptions by {self.name}, but got {side.method}")
        (mine, variances), (others, errors) = (
            self._sampled_shares(side) for side in (a, sides[-1])
        )
        result = np.empty((len(a), len(others)))
        for i in range(len(a)):
            result[i] = _common(mine[i], variances[i], others, errors)
        if b is None:
            np.fill_diagonal(result, 1.0)
        return result

    def pair_overlap(
        self, described: Descriptions, i: NDArray[np.intp], j: NDArray[np.intp]
    ) -> Array:
        """As `overlap`, of some pairs of policies, a value a pair."""
        shares, variances = self._sampled_shares(described)
        result = np.empty(len(i))
        for first in range(0, len(i), _PAIRS):
            p, q = i[first : first + _PAIRS], j[first : first + _PAIRS]
            result[first : first + _PAIRS] = _common(
                shares[p], variances[p], shares[q], variances[q]
            )
        return result

    def _sampled_shares(self, described: Descriptions) -> tuple[Array, Array]:
        """Shares of time, (n, K), and their variances, from the influences on the points."""
        [counts] = described.values("counts")
        shares = counts / counts.sum(axis=1, keepdims=True)
        variances = np.zeros_like(shares)
        if "influences" not in described.arrays:
            return shares, variances
        k, d = self.means_.shape
        points = described.values("points")[0].reshape(-1, k, 1 + d)
        for i, rows in enumerate(described.rows("influences")):
            m = len(rows)
            if m > 1:
                # ω_k = 2 (1 + prior) |x_k|² − prior · w_k for the part x_k of the points.
                moved = np.einsum("ekd,kd->ek", rows.reshape(m, k, 1 + d), points[i])
                moved *= 4.0 * (1.0 + self.prior)
                variances[i] = (moved**2).sum(axis=0) / (m * (m - 1))
        return shares, variances


def _common(mine: Array, variances: Array, others: Array, errors: Array) -> Array:
    """Shares of time in common, of shares (n, K) and their variances."""
    differing = np.abs(mine - others).sum(axis=1) / 2.0
    # Half the mean of |x| over normal numbers of these variances.
    noise = np.sqrt(variances + errors).sum(axis=1) / np.sqrt(2.0 * np.pi)
    return np.asarray(1.0 - np.sqrt(np.maximum(differing**2 - noise**2, 0.0)))
