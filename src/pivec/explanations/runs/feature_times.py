"""Time by features: in which spans of a feature policies spend their time most differently."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pivec.distances.discoveries import RATE
from pivec.explanations.regions.names import Feature
from pivec.explanations.runs.changes import Change, kind_of, p_values
from pivec.explanations.runs.spans import Span, best_span, edges_of, episode_weights, times_below
from pivec.states.visited import VisitedStates

Array = NDArray[np.float64]
_LEAST = 0.05  # a difference of shares of time that is worth telling


@dataclass(frozen=True, eq=False)
class Track:
    """The share of time spent somewhere, at one checkpoint after another, with intervals."""

    where: str  # in words
    share: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class FeatureTimes:
    """How much of their time policies spend at or below edges of every feature."""

    data: VisitedStates
    features: Sequence[Feature]
    edges: Sequence[Array]
    below: Sequence[Array]  # (policies, edges) of each feature
    by_state: bool  # whether a long episode counts more than a short one

    @classmethod
    def of(cls, data: VisitedStates, features: Sequence[Feature], by_state: bool) -> FeatureTimes:
        """Look at all states once."""
        edges = edges_of(data)
        return cls(data, features, edges, times_below(data, edges, by_state), by_state)

    def changes(self, a: int, b: int, level: float, most: int) -> list[Change]:
        """Find the features of which policies spend their time most differently, beyond noise."""
        from scipy.stats import t

        spans = []
        for j, cuts in enumerate(self.edges):
            if len(cuts):
                span, first, last = best_span(j, cuts, self.below[j][a], self.below[j][b])
                more = np.concatenate([[0.0], self.below[j][b] - self.below[j][a], [0.0]])
                spans.append((abs(float(more[last] - more[first])), span))
        spans.sort(key=lambda best: -best[0])
        tried = sum(len(cuts) for cuts in self.edges)  # it is the best of so many, or of more
        result: list[Change] = []
        for size, span in spans:
            if len(result) == most or size < max(_LEAST, spans[0][0] / 2.0):
                break
            x, error_x, n = self._samples(a, span)
            y, error_y, m = self._samples(b, span)
            freedom = max(min(n, m) - 1.0, 1.0)
            half = float(t.ppf((1.0 + level) / 2.0, freedom)) * math.hypot(error_x, error_y)
            p_value = p_values(np.array(y - x), np.array(half), freedom, level)
            if not tried * float(p_value) > RATE:
                named = self.features[span.feature]
                ends = y - x - half, y - x + half
                where = span.words(self.features)
                known = Change(kind_of(x, y), where, None, math.nan, x, y, *ends)
                result.append(replace(known, feature=named.name, unit=named.unit, span=span))
        return result

    def track(self, change: Change, level: float) -> Track:
        """Follow the time spent where something changed through all policies."""
        from scipy.stats import t

        span = change.span or Span(0, -math.inf, math.inf)
        shares, errors, n = np.array([self._samples(p, span) for p in range(len(self.data))]).T
        half = t.ppf((1.0 + level) / 2.0, np.maximum(n - 1.0, 1.0)) * errors
        return Track(
            change.where, shares, np.maximum(shares - half, 0.0), np.minimum(shares + half, 1.0)
        )

    def _samples(self, policy: int, span: Span) -> tuple[float, float, int]:
        """Give the share of time of a policy in a span, its standard error, and its episodes."""
        own = self.data.select([policy])
        times, weights = span.times(own), episode_weights(own, self.by_state)
        n, share = len(times), float(weights @ times)
        moved = n * weights * (times - share)
        error = math.sqrt(float(moved @ moved) / (n * (n - 1))) if n > 1 else math.nan
        return share, error, n
