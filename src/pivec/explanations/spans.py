"""Spans of one feature in which policies spend different shares of their time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pivec.explanations.names import Feature
from pivec.states import VisitedStates

Array = NDArray[np.float64]
_EDGES = 40  # per feature
_SAMPLE = 50_000  # states that edges are computed from
_TWO_ENDS = 1.3  # how much more two ends must distinguish than one
_NEARLY = 0.95  # of the largest difference, which is as good


@dataclass(frozen=True)
class Span:
    """Values of a feature above ``low`` and up to ``high``; either may be infinite."""

    feature: int
    low: float
    high: float

    def describe(self, features: Sequence[Feature]) -> str:
        """Write it as "cart position above 0.5 m".

        Examples
        --------
        >>> features = Feature("cart position", "m"), Feature("both legs touch", absent="")
        >>> Span(0, 0.5, math.inf).describe(features), Span(0, -0.2, 0.2).describe(features)
        ('cart position above 0.5 m', 'cart position −0.2 to 0.2 m')
        >>> Span(1, 0.5, math.inf).describe(features), Span(1, -math.inf, 0.5).describe(features)
        ('both legs touch', 'not both legs touch')
        """
        feature = features[self.feature]
        if feature.absent is not None:
            absent = feature.absent or f"not {feature.name}"
            return feature.name if math.isinf(self.high) else absent
        low, high = (f"{end:g}".replace("-", "−") for end in (self.low, self.high))
        if math.isinf(self.high):
            return f"{feature.name} above {feature.with_unit(low)}"
        if math.isinf(self.low):
            return f"{feature.name} below {feature.with_unit(high)}"
        return f"{feature.name} {low} to {feature.with_unit(high)}"

    def times(self, data: VisitedStates) -> Array:
        """Return the share of each episode that is within it."""
        values = data.states[:, self.feature].astype(np.float64)
        within = (values > self.low) & (values <= self.high)
        counts = np.add.reduceat(within, data.episode_starts[:-1], dtype=np.int64)
        return np.asarray(counts / data.lengths)


def round_edges(values: Array) -> Array:
    """Return round numbers that divide values: near quantiles, and evenly spaced.

    Examples
    --------
    >>> round_edges(np.linspace(-1, 1, 1001))[:4]
    array([-0.9, -0.8, -0.7, -0.6])
    >>> round_edges(np.array([0.0, 1.0, 1.0])), round_edges(np.ones(3))
    (array([0.5]), array([], dtype=float64))
    """
    different = np.unique(values)
    if len(different) < 3:
        return (different[1:] + different[:-1]) / 2.0
    ends = np.quantile(values, [0.05, 0.95])
    spread = float(ends[1] - ends[0]) or float(different[-1] - different[0])
    size = 10.0 ** math.floor(math.log10(spread / 10.0))
    size *= max(m for m in (1.0, 2.0, 5.0) if m * size <= spread / 10.0)
    even = np.arange(ends[0], ends[1], size)  # there are no quantiles within gaps
    edges = np.concatenate([np.quantile(values, np.arange(1, _EDGES + 1) / (_EDGES + 1)), even])
    rounded = [float(f"{k * size:.12g}") for k in np.unique(np.round(edges / size) + 0.0)]
    return np.array([x for x in rounded if different[0] < x < different[-1]])


def feature_edges(data: VisitedStates) -> list[Array]:
    """Return the edges of all features."""
    step = max(1, -(-data.n_states // _SAMPLE))
    sample = data.take(np.arange(0, data.n_states, step)).astype(np.float64)
    return [round_edges(column) for column in sample.T]


def episode_weights(data: VisitedStates, by_state: bool) -> Array:
    """Return the weights of episodes within their policy: all equal, or by length."""
    weights = data.lengths.astype(np.float64) if by_state else np.ones(data.n_episodes)
    counts = np.diff(data.policy_starts)
    sums = np.add.reduceat(weights, data.policy_starts[:-1])
    return np.asarray(weights / np.repeat(sums, counts))


def times_below(data: VisitedStates, edges: Sequence[Array], by_state: bool) -> list[Array]:
    """Return shares of time at or below each edge, one (n_policies, n_edges) array per feature."""
    result = [np.zeros((len(data), len(own))) for own in edges]
    weights = episode_weights(data, by_state) / data.lengths
    for p in range(len(data)):
        states = data.policy_states(p)
        episodes = slice(data.policy_starts[p], data.policy_starts[p + 1])
        own = np.repeat(weights[episodes], data.lengths[episodes])
        for j, cuts in enumerate(edges):
            if len(cuts):
                bins = np.searchsorted(cuts, states[:, j])
                times = np.bincount(bins, weights=own, minlength=len(cuts) + 1)
                result[j][p] = np.cumsum(times)[:-1]
    return result


def best_span(feature: int, edges: Array, a: Array, b: Array) -> tuple[Span, int, int]:
    """Find the span in which shares of time differ most, and its ends among −∞, edges, ∞.

    ``a`` and ``b`` are shares of time at or below the edges. Two ends are used only if they
    distinguish much more than one; of above and below, the span is where less time is spent. Of
    nearly equal edges, the one is chosen beyond which one of both hardly ever is.

    Examples
    --------
    >>> edges = np.array([0.0, 1.0, 2.0])
    >>> best_span(0, edges, np.array([0.1, 0.9, 1.0]), np.array([0.1, 0.3, 0.4]))
    (Span(feature=0, low=2.0, high=inf), 3, 4)
    """
    cuts = np.concatenate([[-math.inf], edges, [math.inf]])
    a, b = (np.concatenate([[0.0], side, [1.0]]) for side in (a, b))
    more = b - a
    most = float(np.abs(more).max())
    i, j = sorted((int(np.argmin(more)), int(np.argmax(more))))
    if abs(more[j] - more[i]) < _TWO_ENDS * most:
        below = np.maximum(a, b) < np.maximum(1.0 - a, 1.0 - b)
        rarely = np.where(below, np.minimum(a, b), np.minimum(1.0 - a, 1.0 - b))
        k = int(np.argmin(np.where(np.abs(more) >= _NEARLY * most, rarely, math.inf)))
        i, j = (0, k) if below[k] else (k, len(cuts) - 1)
    return Span(feature, float(cuts[i]), float(cuts[j])), i, j


def interval_p_values(difference: Array, half: Array, freedom: float, level: float) -> Array:
    """P-values of differences from the half-widths of their t intervals, towards 0."""
    from scipy.stats import t

    with np.errstate(invalid="ignore", divide="ignore"):
        errors = np.abs(difference) * t.ppf((1.0 + level) / 2.0, freedom) / half
    # Without any variance, a difference of 0 is none.
    errors = np.where((half == 0.0) & (difference == 0.0), 0.0, errors)
    return np.asarray(2.0 * t.sf(errors, freedom))
