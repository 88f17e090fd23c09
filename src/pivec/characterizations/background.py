"""Characterizations by a background model: one Gaussian mixture of the states of all policies.

`Supervector` is the paper's method (Section 4, equations 1 to 6), `Visitation` the default.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pivec.arguments import Count, Positive, Seed
from pivec.characterizations.base import Array, Characterization, Rows, Side, Traits
from pivec.characterizations.decomposition import (
    OFTEN,
    USUAL,
    WHERE,
    WIDE,
    Decomposable,
    RegionStatistics,
)
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.characterizations.sampling import unbiased_points
from pivec.errors import PivecWarning
from pivec.mixtures import (
    Mixture,
    PolicyStatistics,
    fit_mixture,
    map_offsets,
    map_variances,
    map_weights,
    policy_relevance,
    policy_statistics,
)
from pivec.parallel import using
from pivec.states import VisitedStates, distinct_features, move_names, moves_of, only_features, thin
from pivec.statistics import matched_kl, squared_euclidean

_SELDOM = 1e-4  # a share of time that counts as none
_PAIRS = 4096  # processed at a time
_ALIKE = 0.01  # distance, in a space of a single region, below which policies are near-copies
_CRUDE, _OTHERS = 20_000, 1000  # states that it is fitted to, and policies
_LIMITS = ("max_policies", "max_episodes", "max_states", "sampling")
_FIT = ("init", "warm_start", "n_init", "tol", "max_iter", "variance_floor", "device", "progress")


@dataclass(eq=False, repr=False)
class BackgroundModel(Characterization):
    """A characterization by how a policy differs from a Gaussian mixture of all states.

    Parameters
    ----------
    n_components : int
        Number of Gaussians.
    max_states, max_policies, max_episodes : int, optional
        Limits on what the mixture is fitted to; the paper used 10 million states, 500 policies and
        100 episodes. All policies are described anyway.
    sampling : {"even", "uniform"}
        How states are drawn if there are more than ``max_states``: equally many per policy, or
        uniformly, as in the paper's scripts.
    init, warm_start, n_init, tol, max_iter, variance_floor, device
        How the mixture is fitted; see `pivec.mixtures.fit_mixture`.
    random_state : int
        Seed of the fit.
    progress : bool
        Show a progress bar while fitting.

    Attributes
    ----------
    background_ : Mixture
        ``weights`` (K,), ``means`` and ``variances`` (K, n_features) in standardized units.
    center_, scale_ : (n_features,) arrays
        The standardization: (state - center_) / scale_.
    n_iter_ : int
        Passes over the data that the fit took.
    """

    layout: ClassVar[dict[str, str]] = {
        "learned.n_iter": "i8>=0",
        "learned.weights": "f8=1 K",
        "learned.means": "f8 K C",
        "learned.variances": "f8>0 K C",
        "learned.center": "f8 C",
        "learned.scale": "f8>0 C",
        "described.counts": "f8>=0 P K",
        "described.feature_means": "f8 P C",
    }

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
        limits = {name: getattr(self, name) for name in _LIMITS}
        source = thin(self.view(data), rng, weights=self._weights(data), **limits)
        how = {name: getattr(self, name) for name in _FIT}
        fits = [
            fit_mixture(source, self.n_components, random_state=rng, **how)
            for _ in range(self.n_fits)
        ]
        self.n_iter_ = sum(fit.n_iter for fit in fits)
        mixtures = [fit.mixture for fit in fits]
        self.weights_ = np.concatenate([mixture.weights for mixture in mixtures]) / len(fits)
        self.means_ = np.concatenate([mixture.means for mixture in mixtures])
        self.variances_ = np.concatenate([mixture.variances for mixture in mixtures])
        self.center_, self.scale_ = mixtures[0].center, mixtures[0].scale

    def _weights(self, data: VisitedStates) -> Array | None:  # noqa: ARG002
        """Weights of policies in the fit; None if all count the same."""
        return None

    @property
    def n_fits(self) -> int:
        """Number of mixtures fitted side by side."""
        return 1

    def array_sizes(self) -> dict[str, int]:
        columns = len(self.column_names)
        return super().array_sizes() | {"K": self.n_components * self.n_fits, "C": columns}

    @property
    def mixtures_(self) -> list[Mixture]:
        """The fitted mixtures, one by one."""
        n = self.n_fits
        arrays = (self.weights_ * n, self.means_, self.variances_)
        fits = zip(*(np.split(array, n) for array in arrays), strict=True)
        return [Mixture(w, means, v, self.center_, self.scale_) for w, means, v in fits]

    @property
    def background_(self) -> Mixture:
        """The background model; of several fits, all of their components."""
        return Mixture(self.weights_, self.means_, self.variances_, self.center_, self.scale_)

    def region_shares(self, described: Descriptions) -> tuple[Array, Array]:
        """Shares of time in the regions, (n, K), and their variances, NaN where not known."""
        [counts] = described.values("counts")
        shares = counts / counts.sum(axis=1, keepdims=True)
        return shares, np.full_like(shares, np.nan)

    def episode_shares(self, data: VisitedStates) -> Array:
        """Shares of time that single episodes spend in the regions, (n_episodes, K)."""
        rows = self.view(data)
        counts = self._sums(rows, rows.episode_starts)[:, : len(self.means_)]
        return np.asarray(counts / counts.sum(axis=1, keepdims=True))

    def _described(self, data: VisitedStates, influences: bool = False) -> Descriptions:
        with using("serial" if self.device == "cuda" else "auto"):  # one process per card
            return super()._described(data, influences)

    def _statistics(self, data: VisitedStates) -> Array:
        return self._sums(data, data.episode_starts)

    def _sums(self, data: VisitedStates, starts: NDArray[np.int64], squares: bool = False) -> Array:
        """Counts, centred sums and squares of segments of the states, (S, K + K D (+ K D))."""
        fits = [
            policy_statistics(data, starts, mixture, squares=squares, device=self.device)
            for mixture in self.mixtures_
        ]
        columns = [fit.counts for fit in fits] + [fit.sums for fit in fits]
        columns += [fit.squares for fit in fits if fit.squares is not None]
        return np.concatenate([array.reshape(len(starts) - 1, -1) for array in columns], axis=1)

    def _parts(self, sums: Array) -> tuple[Array, ...]:
        """Counts (P, K), centred sums and maybe squares (P, K, D) of rows of `_statistics`."""
        n, (k, d) = len(sums), self.means_.shape
        rest = sums[:, k:].reshape(n, -1, k, d)
        return sums[:, :k], *rest.swapaxes(0, 1)

    def _feature_means(self, counts: Array, centred: Array) -> Array:
        sums = counts @ self.means_ + np.einsum("kd,nkd->nd", np.sqrt(self.variances_), centred)
        return np.asarray(self.center_ + self.scale_ * sums / counts.sum(axis=1, keepdims=True))

    def _feature_spreads(self, counts: Array, centred: Array, squares: Array) -> Array:
        """Standard deviations of the features over all of a policy's time, (n, D)."""
        means = (self._feature_means(counts, centred) - self.center_) / self.scale_
        offsets = self.means_ - means[:, None]
        within = 2.0 * offsets * np.sqrt(self.variances_) * centred + self.variances_ * squares
        total = np.einsum("nk,nkd->nd", counts, offsets**2) + within.sum(axis=1)
        variances = np.maximum(total / counts.sum(axis=1, keepdims=True), 0.0)
        return np.asarray(self.scale_ * np.sqrt(variances))

    def _decomposable(self, sums: Array) -> Decomposable:
        counts, centred, *squares = self._parts(sums)
        shares = self.n_fits * counts / counts.sum(axis=1, keepdims=True)
        there = np.where(shares > _SELDOM, counts, np.nan)[:, :, None]
        places = self.means_ + np.sqrt(self.variances_) * centred / there
        summary = RegionStatistics(
            shares,
            self.n_fits * self.weights_,
            self.center_ + self.scale_ * places,
            self._feature_means(counts, centred),
            region_ranges(self.background_),
            self._feature_spreads(counts, centred, *squares) if squares else None,
        )
        points = self._coordinates(sums)
        names = tuple(f"region {k}" for k in range(len(self.means_)))
        return Decomposable(summary, lambda a, b: self._differences(points[a], points[b]), names)


def region_ranges(mixture: Mixture) -> Array:
    """Extent of the regions in the environment's units: 80 % of each, (K, n_features, 2)."""
    reach = USUAL * np.sqrt(mixture.variances)
    ends = np.stack([mixture.means - reach, mixture.means + reach], axis=2)
    return np.asarray(mixture.center[:, None] + mixture.scale[:, None] * ends)


@dataclass(eq=False, repr=False)
class Supervector(BackgroundModel):
    """Policy supervectors: the means of the background model, MAP-adapted to each policy.

    Vectors are the adapted means in standardized units, n_components × n_features values per
    policy. The distance is the paper's equation (6), an upper bound of the KL divergence. If the
    weights (and variances) are adapted as well, vectors have the K weights (and K × n_features
    variances) after the means, and the distance is the same bound in its general form, both ways
    summed: Σ_k w_k (log(w_k/w′_k) + KL(N_k || N′_k)) and the same with the two policies exchanged.

    The other parameters, and the attributes, are those of `BackgroundModel`.

    Parameters
    ----------
    relevance : float
        The relevance factor r of equation (4): how many states move a mean halfway.
    common_total : float, optional
        Adapt as if every policy had visited this many states, so that vectors do not depend on the
        amount of data. None uses the actual number of states, as in the paper.
    adapt : str
        What is adapted: "m", the means as in the paper; "mw", the weights too, which measure how
        often a region is visited; "mwv", the variances too (Reynolds 2000, equations 11-13).

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
    layout = BackgroundModel.layout | {
        "points": "?f8 P K*F",
        "described.half_offsets": "?f4 P K*F",
        "described.half_noise": "?f8~ P",
        "described.weights": "?f8=1 P K",
        "described.offsets": "?f8 P K F",
        "described.variances": "?f8>0 P K F",
    }

    _: KW_ONLY
    relevance: Positive = 16.0
    common_total: Positive | None = None
    adapt: Literal["m", "mw", "mwv"] = "m"

    @property
    def traits(self) -> Traits:
        """Only adapted means have points; squares for variances are not among the sums."""
        return Traits(
            "One Gaussian mixture, the background model, is fitted to the standardized states of "
            "all policies. Its means are then adapted to the states that each policy visited: the "
            "stacked means are the policy's supervector. The distance between two policies is an "
            "upper bound of the KL divergence between the adapted mixtures: 0 for policies that "
            "visit the same states, larger the farther apart the regions are that they visit.",
            "d(p, q) = ½ · Σₖ wₖ · Σⱼ (μₖⱼ(p) − μₖⱼ(q))² / σₖⱼ²",
            additive=self.adapt != "mwv",
            influences=self.adapt == "m",
            halved=self.adapt == "m",
        )

    def _describe(self, data: VisitedStates) -> Description:
        if self.adapt != "mwv":
            return super()._describe(data)
        whole = data, data.state_starts, self.background_
        return self._adapted(policy_statistics(*whole, squares=True, device=self.device))

    def _policy_sums(self, data: VisitedStates) -> Array:
        return self._sums(data, data.state_starts)

    def _from_statistics(self, sums: Array) -> Description:
        return self._adapted(PolicyStatistics(*self._parts(sums)))

    def _adapted(self, statistics: PolicyStatistics) -> Description:
        counts, background, n = statistics.counts, self.background_, len(statistics.counts)
        relevance = policy_relevance(counts, self.relevance, self.common_total)
        offsets = map_offsets(counts, statistics.sums, background, relevance)
        vectors = (background.means + offsets).reshape(n, -1)
        means = self._feature_means(counts, statistics.sums)
        arrays = {"counts": counts, "feature_means": means}
        if self.adapt == "m":
            return vectors, self._points(offsets), arrays
        weights = map_weights(counts, background, relevance)
        arrays |= {"weights": weights, "offsets": offsets}
        parts = [vectors, weights]
        if self.adapt == "mwv":
            variances = map_variances(
                statistics, offsets, background, relevance, self.variance_floor
            )
            arrays["variances"] = variances
            parts.append(variances.reshape(n, -1))
        return np.concatenate(parts, axis=1), None, arrays

    def _coordinates(self, sums: Array) -> Array:
        counts, centred = self._parts(sums)
        relevance = policy_relevance(counts, self.relevance, self.common_total)
        return self._points(map_offsets(counts, centred, self.background_, relevance))

    def _points(self, offsets: Array) -> Array:
        # Equation (6) as a plain squared Euclidean distance, of the offsets from the background
        # instead of the means, so that nearly equal policies keep their digits.
        scale = np.sqrt(self.weights_[:, None] / (2.0 * self.variances_))
        return np.asarray((offsets * scale).reshape(len(offsets), -1))

    @property
    def part_columns(self) -> tuple[tuple[str, int], ...]:
        """One column per feature."""
        return tuple((WHERE, j) for j in range(len(self.center_))) if self.adapt == "m" else ()

    def _differences(self, a: Array, b: Array) -> Array:
        return np.asarray((a - b).reshape(-1, *self.means_.shape))

    def _distances(self, a: Descriptions, b: Descriptions) -> Array:
        if self.adapt == "m":
            return squared_euclidean(*a.values("points"), *b.values("points"), device=self.device)
        names, shared = ["weights", "offsets"], [self.variances_[None]]
        if self.adapt == "mwv":
            names, shared = [*names, "variances"], []
        left, right = (described.values(*names) + shared for described in (a, b))
        return matched_kl(*left, *right)


@dataclass(eq=False, repr=False)
class Visitation(BackgroundModel):
    """Shares of time in the regions of a background model, and where and how widely in them.

    The regions are the components of a Gaussian mixture of the moves x = (s, Δs) of all policies: a
    state, and the step to the next one, so that direction, speed and smoothness count as well as
    places. With ω_k the share of time that a policy spends in region k in an average episode, long
    or short, and m_k and v_k its mean and variance there, relative to those of the region, the
    points are √(ω_k/2) times the unit vector u_k along (1, m_k/2, ℓ_k/√2), where ℓ = ½ ln v. Their
    squared Euclidean distance, 1 − Σ_k √(ω_k(p) ω_k(q)) u_k(p)·u_k(q), is to second order the
    squared Hellinger distance of the two adapted mixtures, component by component, which bounds
    that of the mixtures themselves from above. Unit vectors keep it bounded, however far a policy
    leaves all regions. Unlike the paper's distance it does not depend on the amount of data, so
    that intervals around it are meaningful.

    Parameters
    ----------
    of : {"moves", "states"}
        Moves, or places alone.
    prior : float
        All three are adapted from the background as if a policy had spent this much time there, in
        addition to its own, which counts as 1 (Reynolds 2000, equations 11 to 13): with shares n,
        centred sums f and squares s of the policy, ω = (n + prior · w) / (1 + prior),
        m = f / (n + prior) and v = (s + prior) / (n + prior) − m².
    backgrounds : int
        Number of background models, fitted from different starts: the distance is the mean over
        them, and their variance is part of the intervals.
    n_components and others
        See `BackgroundModel`, also for the attributes.

    Attributes
    ----------
    features_ : (n,) array of int
        Numbers of the features that are described. Copies of others are not, so that they count
        once, see `pivec.states.distinct_features`.

    Notes
    -----
    Near-copies of a policy count as one policy in the fit of the background model: the share of its
    states that a policy contributes is the inverse of the number of policies like it. How alike two
    are is measured in a space of a single region, with sampling noise removed.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> walks = [[rng.normal(place, 1, (50, 2))] for place in (0, 0, 2)]
    >>> data = VisitedStates.from_arrays(walks)
    >>> method = Visitation(n_components=4).fit(data)
    >>> d = method.distances(data)
    >>> bool(d[0, 2] > 5 * d[0, 1])
    True
    """

    name = "visitation"
    layout = BackgroundModel.layout | {
        "learned.features": "i8>=0 G",
        "vectors": "f8 P K+2*K*C",
        "points": "f8 P K+2*K*C",
        "described.correction": "?f8 P K+2*K*C",
    }
    traits = Traits(
        "All moves (a state, and the step to the next one) are divided into regions, the "
        "components of a Gaussian mixture fitted to the moves of all policies. Each policy is "
        "described by the share of its time that it spends in each region in an average episode, "
        "and by its mean and spread there. The distance between two policies is 0 if they move in "
        "the same way through the same places, and about 0.9 if they have nothing in common (a "
        "squared Hellinger distance). The overlap is the share of time that both spend in the same "
        "regions: with an overlap of 69 %, two policies spend 31 % of their time in others.",
        "d(p, q) = 1 − Σₖ √(ωₖ(p) ωₖ(q)) · uₖ(p)·uₖ(q),  "
        "uₖ = (1, mₖ/2, ℓₖ/√2) / ‖(1, mₖ/2, ℓₖ/√2)‖",
        max_distance=1.0,
        by_state=False,
        additive=True,
        influences=True,
        corrected=True,
    )

    _: KW_ONLY
    of: Literal["moves", "states"] = "moves"
    prior: Positive = 0.01
    backgrounds: Count = 1

    @property
    def n_fits(self) -> int:
        """Number of mixtures fitted side by side."""
        return self.backgrounds

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the features of a state, and of its step if moves are described."""
        names = super().column_names
        return move_names(names) if self.of == "moves" else names

    @property
    def described_features(self) -> Sequence[int]:
        """Numbers of the features of a state that are described: all but copies of others."""
        return tuple(self.features_.tolist())

    def view(self, data: VisitedStates) -> VisitedStates:
        """Return the moves, or the states themselves, without copies of features."""
        if len(self.features_) < data.n_features:
            data = only_features(data, self.described_features)
        return moves_of(data) if self.of == "moves" else data

    def _fit(self, data: VisitedStates) -> None:
        self.features_ = distinct_features(data)
        super()._fit(data)

    def _weights(self, data: VisitedStates) -> Array | None:
        """Weights 1 / Σ_q exp(−d(p, q) / (0.01 + noise)), relative to the largest."""
        if self.n_components == 1 or len(data) == 1:
            return None
        crude = clone(self).set_params(
            n_components=1, backgrounds=1, max_states=_CRUDE, max_policies=_OTHERS, progress=False
        )
        crude.feature_names_, crude.features_ = self.feature_names_, self.features_
        BackgroundModel._fit(crude, data)
        points, noise = unbiased_points(crude._described(data, influences=True))
        rng, n = np.random.default_rng(self.random_state), len(data)
        others = np.sort(rng.permutation(n)[:_OTHERS])
        # The noise of a single episode is not known.
        noise = np.nan_to_num(np.add.outer(noise, noise[others]))
        squares = squared_euclidean(points, points[others]) - noise
        alike = np.exp(-np.maximum(squares, 0.0) / (_ALIKE + noise))
        alike[others, np.arange(len(others))] = 0.0
        weights = 1.0 / (1.0 + alike.sum(axis=1) * n / len(others))
        # Rounded, so that all processors draw the same states; with at least one per region.
        weights = np.round(weights / weights.max(), 6)
        return np.asarray(np.maximum(weights, min(self.n_components / data.n_states, 1.0)))

    def _statistics(self, data: VisitedStates) -> Array:
        # Every episode counts the same: one that happens to be ten times as long as the others
        # must not decide where a policy spends its time.
        rows = self.view(data)
        sums = self._sums(rows, rows.episode_starts, squares=True)
        return np.asarray(sums / rows.lengths[:, None])

    def shares_over_time(self, data: VisitedStates, n_parts: int = 4) -> Array:
        """Share of time of each episode in each region and each part of it, (n_episodes, n · K).

        Parts are equally long, as far as an episode of whole steps can be divided.
        """
        rows = self.view(data)
        inner = (
            rows.episode_starts[:-1, None] + rows.lengths[:, None] * np.arange(n_parts) // n_parts
        )
        starts = np.append(inner.ravel(), rows.n_states)
        counts = self._parts(self._sums(rows, starts))[0] / self.backgrounds
        shares = counts / (n_parts * np.maximum(np.diff(starts), 1))[:, None]
        return np.asarray(shares.reshape(rows.n_episodes, -1))

    def _from_statistics(self, sums: Array) -> Description:
        counts, centred, _ = parts = self._parts(sums)
        shares = counts / counts.sum(axis=1, keepdims=True)
        means, variances = self._adapted(*parts)
        means = self.means_ + np.sqrt(self.variances_) * means
        flat = [values.reshape(len(sums), -1) for values in (means, self.variances_ * variances)]
        vectors = np.concatenate([shares, *flat], axis=1)
        arrays = {"counts": counts, "feature_means": self._feature_means(counts, centred)}
        return vectors, self._coordinates(sums), arrays

    def _coordinates(self, sums: Array) -> Array:
        counts, *_ = parts = self._parts(sums)
        n, k = counts.shape
        shares = counts / counts.sum(axis=1, keepdims=True)
        roots = np.sqrt((shares + self.prior * self.weights_) / (2.0 * (1.0 + self.prior)))
        means, variances = self._adapted(*parts)
        points = np.empty((n, k, self._width))
        points[:, :, 0] = 1.0
        d = means.shape[2]
        np.multiply(means, 0.5, out=points[:, :, 1 : 1 + d])
        np.multiply(np.log(variances), 0.5 / np.sqrt(2.0), out=points[:, :, 1 + d :])
        points *= (roots / np.sqrt(np.einsum("nkd,nkd->nk", points, points)))[:, :, None]
        return points.reshape(n, -1)

    @property
    def _width(self) -> int:
        """Coordinates of a region: its share, and the mean and spread of each feature."""
        return 1 + 2 * len(self.center_)

    def _adapted(self, counts: Array, centred: Array, squares: Array) -> tuple[Array, Array]:
        """Means and variances in the regions, relative to theirs and shrunk towards them."""
        total = counts.sum(axis=1, keepdims=True) / self.backgrounds  # each fit has all of the time
        prior = self.prior * total[:, :, None]
        weights = counts[:, :, None] + prior
        means = centred / weights
        variances = (squares + self._floored(counts) + prior) / weights - means**2
        return means, np.maximum(variances, self.variance_floor)

    def _floored(self, counts: Array) -> Array:
        """Squares that are missing where a region has the minimum variance, as of a constant.

        Otherwise, the spread of such a feature would seem smaller the more time is spent there.
        """
        return counts[:, :, None] * (self.variances_ <= self.variance_floor)

    def _sums_at(self, points: Array) -> Array:
        k, d = self.means_.shape
        parts = points.reshape(-1, k, self._width)
        roots = np.einsum("nkd,nkd->nk", parts, parts)
        shares = np.maximum(2.0 * (1.0 + self.prior) * roots - self.prior * self.weights_, 0.0)
        scaled = parts[:, :, 1:] / parts[:, :, :1]
        means, variances = 2.0 * scaled[:, :, :d], np.exp(2.0 * np.sqrt(2.0) * scaled[:, :, d:])
        prior = (self.prior * shares.sum(axis=1, keepdims=True) / self.backgrounds)[:, :, None]
        weights = shares[:, :, None] + prior
        squares = (variances + means**2) * weights - prior - self._floored(shares)
        flat = [values.reshape(len(points), -1) for values in (means * weights, squares)]
        return np.concatenate([shares, *flat], axis=1)

    @property
    def part_columns(self) -> tuple[tuple[str, int], ...]:
        """The share of time, then the mean and the spread of each feature."""
        d = range(len(self.center_))
        return ((OFTEN, -1), *((kind, j) for kind in (WHERE, WIDE) for j in d))

    def _differences(self, a: Array, b: Array) -> Array:
        # |r u − s v|² = (r − s)² + r s |u − v|². The first coordinate of a unit vector follows from
        # the others, which are the features: its part is divided among them.
        left, right = (rows.reshape(-1, len(self.means_), self._width) for rows in (a, b))
        r, s = (np.sqrt(np.einsum("nkd,nkd->nk", rows, rows)) for rows in (left, right))
        moved = left / r[:, :, None] - right / s[:, :, None]
        features = np.einsum("nkd,nkd->nk", moved[:, :, 1:], moved[:, :, 1:])
        rest = np.divide(
            moved[:, :, 0] ** 2, features, out=np.zeros_like(features), where=features > 0.0
        )
        moved *= np.sqrt(r * s * (1.0 + rest))[:, :, None]
        moved[:, :, 0] = r - s
        return np.asarray(moved)

    def _scatter(
        self, sides: Sequence[Side], squares: Callable[[Array, Array], Array]
    ) -> Array | float:
        if self.backgrounds == 1:
            return 0.0
        points = [side.values("points")[0] for side in sides if isinstance(side, Descriptions)]
        fits = [np.split(rows, self.backgrounds, axis=1) for rows in points]
        # Of N fits, each has 1/N of the squared distance, which is their mean.
        distances = [squares(*pair) for pair in zip(fits[0], fits[-1], strict=True)]
        return np.asarray(self.backgrounds * np.var(distances, axis=0, ddof=1))

    def overlap(self, a: Descriptions, b: Descriptions | None = None) -> Array:
        """Share of time that policies spend in the same regions, (n, n) or (n, m), from 0 to 1.

        1 minus the total variation of the shares, from which sampling noise is removed (in squares)
        if the descriptions have influences.
        """
        other = a if b is None else b
        for side in (a, other):
            self._check_described(side)
        i, j = np.indices((len(a), len(other))).reshape(2, -1)
        result = self._overlaps(a, other, i, j).reshape(len(a), len(other))
        if b is None:
            np.fill_diagonal(result, 1.0)
        return result

    def pair_overlap(self, described: Descriptions, i: Rows, j: Rows) -> Array:
        """Like `overlap`, for the pairs of policies i[k], j[k]."""
        return self._overlaps(described, described, i, j)

    def _overlaps(self, a: Descriptions, b: Descriptions, i: Rows, j: Rows) -> Array:
        (mine, variances), (others, errors) = (self.region_shares(side) for side in (a, b))
        result = np.empty(len(i))
        for first in range(0, len(i), _PAIRS):
            p, q = i[first : first + _PAIRS], j[first : first + _PAIRS]
            differing = np.abs(mine[p] - others[q]).sum(axis=1) / 2.0
            # Half the mean of |x| over normal numbers with these variances.
            both = variances[p] + errors[q]
            if "strata" in a.arrays and "strata" in b.arrays:
                both -= 2.0 * self._share_covariances(a, b, p, q)
            noise = np.sqrt(np.maximum(both, 0.0)).sum(axis=1) / np.sqrt(2.0 * np.pi)
            common = 1.0 - np.sqrt(np.maximum(differing**2 - noise**2, 0.0))
            result[first : first + _PAIRS] = common
        return result

    def region_shares(self, described: Descriptions) -> tuple[Array, Array]:
        """Shares of time, (n, K), and their variances from the influences, 0 without those."""
        shares, variances = super().region_shares(described)
        variances = np.zeros_like(shares)
        if "influences" not in described.arrays:
            return shares, variances
        for i, moved in enumerate(self._moved_shares(described)):
            if (m := len(moved)) > 1:
                variances[i] = (moved**2).sum(axis=0) / (m * (m - 1))
        return shares, variances

    def _moved_shares(self, described: Descriptions) -> Iterator[Array]:
        """Yield the influences of a policy's episodes on its shares, (n_episodes, K)."""
        shape = len(self.means_), self._width
        points = described.values("points")[0].reshape(-1, *shape)
        for own, rows in zip(points, described.influences, strict=True):
            # ω_k = 2 (1 + prior) |x_k|² − prior · w_k for the part x_k of the points.
            moved = np.einsum("ekd,kd->ek", rows.reshape(len(rows), *shape), own)
            yield 4.0 * (1.0 + self.prior) * moved

    def _share_covariances(self, a: Descriptions, b: Descriptions, i: Rows, j: Rows) -> Array:
        """Covariances of the shares of pairs of policies with paired episodes, (n, K)."""
        left, right = (list(self._moved_shares(side)) for side in (a, b))
        m = max(len(left[0]), 2)
        products = [(left[p] * right[q]).sum(axis=0) for p, q in zip(i, j, strict=True)]
        return np.array(products) / (m * (m - 1))


_REFITS, _POLICIES, _EPISODES, _STATES = 2, 40, 10, 20_000
_ENOUGH = 0.99  # agreement above which the background model is no concern


def background_words(settings: Mapping[str, Any]) -> str:
    """Return a sentence on the `background_share` of a comparison, if known."""
    if not (share := settings.get("background")):
        return ""
    text = f"Refitting the background model changes distances by {100 * share['moved']:.1f} %"
    agreement = share["agreement"]
    if agreement is not None:
        text += f" (median; correlation {agreement:.3f})"
        if agreement < _ENOUGH:
            return f"{text}: see --backgrounds."
    return f"{text}."


def background_share(
    method: Characterization, data: VisitedStates
) -> dict[str, float | None] | None:
    """Refit from two other starts: how much distances depend on the start.

    ``moved`` is the median over pairs of standard deviation / mean, and ``agreement`` the
    correlation over all pairs, None where it is meaningless. Cheap: fits to at most 20,000 states
    of 1000 policies, distances of at most 40 policies from ten episodes. Fits to few states differ
    more than those to all, so this is an upper estimate. None for a single policy, and without a
    background model.
    """
    if len(data) < 2 or not isinstance(method, BackgroundModel):
        return None
    rng = np.random.default_rng(method.random_state)
    chosen = rng.permutation(len(data))
    some, few = (data.select(np.sort(chosen[:n])) for n in (_OTHERS, _POLICIES))
    part = few.sample_episodes(_EPISODES, rng, at_most=True)
    upper = np.triu_indices(len(part), 1)
    rows = []
    for _ in range(_REFITS):
        other = clone(method).set_params(
            random_state=int(rng.integers(2**31)),
            max_states=max(_STATES, method.n_components),
            progress=False,
        )
        with warnings.catch_warnings():  # those of the fit itself are known
            warnings.simplefilter("ignore", PivecWarning)
            rows.append(other.fit(some).distances(part)[upper])
    mean, deviation = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1)
    moved = np.divide(deviation, mean, out=np.zeros_like(mean), where=mean > 0)
    varies = len(mean) > 1 and (np.ptp(rows, axis=1) > 0).all()
    agreement = float(np.corrcoef(rows)[0, 1]) if varies else None
    return {"moved": float(np.median(moved)), "agreement": agreement}
