"""Contrasts of two groups of runs: where those of one spend more time than those of the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from pivec.distances.discoveries import RATE, benjamini_hochberg
from pivec.distances.permutation import share_as_large, sides
from pivec.explanations.regions.names import Feature
from pivec.explanations.runs.spans import best_span, edges_of, times_below
from pivec.states.visited import VisitedStates
from pivec.text import percent

Array = NDArray[np.float64]
LEAST = 0.01  # a difference of shares of time that is worth telling
_MOST_DIVISIONS = 20_000  # up to so many, all are tried
_DRAWN = 999


@dataclass(frozen=True)
class Contrast:
    """The time that the runs of two groups spend somewhere."""

    where: str  # in words
    region: int | None  # None where it is a span of a feature
    times: tuple[tuple[float, ...], tuple[float, ...]]  # shares of time of all runs
    difference: float  # of the means, first less second, with its interval
    low: float
    high: float
    q_value: float
    part: float  # of the squared distance of the mean behaviours; NaN of a span

    @property
    def means(self) -> tuple[float, float]:
        """Shares of time of both groups."""
        a, b = (sum(times) / len(times) for times in self.times)
        return a, b

    @property
    def apart(self) -> int:
        """1 if all runs of the first group are there more than all of the second, or −1; or 0."""
        a, b = self.times
        if abs(self.difference) < LEAST:
            return 0
        return int(min(a) > max(b)) - int(max(a) < min(b))

    @property
    def sure(self) -> bool:
        """Whether chance does not explain it."""
        return abs(self.difference) >= LEAST and self.q_value <= RATE

    def sentence(self, groups: tuple[str, str]) -> str:
        """Say it.

        Examples
        --------
        >>> unknown = 4 * (math.nan,)
        >>> Contrast("x above 2", 3, ((0.0, 0.04), (0.35, 0.22)), -0.265, *unknown).sentence(
        ...     ("a2c", "ppo"))
        'both runs of ppo are more often where x above 2 than any of a2c: 22 to 35 % against 0 to
        4.0 % of the time'
        """
        more = int(self.difference < 0)
        a, b = groups[more], groups[1 - more]
        most, least = self.times[more], self.times[1 - more]
        if not self.apart:
            means = f"{percent(self.means[more])} against {percent(self.means[1 - more])}"
            return f"{a} is more often where {self.where} than {b}: {means} of the time on average"
        all_runs = {1: "the run of {} is", 2: "both runs of {} are"}
        runs = all_runs.get(len(most), f"all {len(most)} runs of {{}} are").format(a)
        others = f"any of {b}" if len(least) > 1 else f"that of {b}"
        times = f"{written(most)} against {written(least)}"
        return f"{runs} more often where {self.where} than {others}: {times} of the time"


def written(times: Sequence[float]) -> str:
    """Write from where to where shares go.

    Examples
    --------
    >>> written([0.351, 0.22]), written([0.5])
    ('22 to 35 %', '50 %')
    """
    low, high = percent(min(times)), percent(max(times))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def welch(a: Array, b: Array, level: float = 0.95) -> tuple[Array, Array, Array, Array]:
    """Differences of mean shares in columns, from where to where they may lie, and p-values.

    Rows are samples, of two kinds, which may scatter differently (Welch 1947). Columns without any
    scatter are not tested; with a single row on a side nothing is.

    Examples
    --------
    >>> a, b = np.array([[0.5, 0.0], [0.7, 0.0]]), np.array([[0.1, 0.0], [0.2, 0.0]])
    >>> difference, low, high, p = welch(a, b)
    >>> difference.round(2), low.round(2), high.round(2), p.round(3)
    (array([0.45, 0.  ]), array([-0.24,  0.  ]), array([1., 0.]), array([0.092,   nan]))
    """
    from scipy.stats import t

    difference = a.mean(axis=0) - b.mean(axis=0)
    unknown = np.full_like(difference, np.nan)
    if min(len(a), len(b)) < 2:
        return difference, unknown, unknown, unknown
    errors = [side.var(axis=0, ddof=1) / len(side) for side in (a, b)]
    error = np.sqrt(errors[0] + errors[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = error**4 / sum(e**2 / (len(s) - 1) for e, s in zip(errors, (a, b), strict=True))
        p_value = 2.0 * t.sf(np.abs(difference) / error, freedom)
    reach = np.where(error > 0, t.ppf((1.0 + level) / 2.0, freedom) * error, 0.0)
    low, high = np.maximum(difference - reach, -1.0), np.minimum(difference + reach, 1.0)
    return difference, low, high, p_value


def region_contrasts(
    words: Sequence[str], a: Array, b: Array, parts: Array, level: float
) -> list[Contrast]:
    """Contrasts of all regions, from shares of time of runs, (runs, R), the largest part first."""
    *ends, p_value = welch(a, b, level)
    columns = zip(*(x.tolist() for x in (*ends, benjamini_hochberg(p_value), parts)), strict=True)
    numbers = [list(column) for column in columns]
    return [
        Contrast(words[r], r, (tuple(a[:, r].tolist()), tuple(b[:, r].tolist())), *numbers[r])
        for r in np.argsort(-parts, kind="stable").tolist()
    ]


def feature_contrasts(
    data: VisitedStates,
    features: Sequence[Feature],
    weights: Array,
    n_first: int,
    level: float,
    by_state: bool,
) -> list[Contrast]:
    """Contrasts of the spans of features in which two groups differ most, the largest first.

    ``weights``, (runs, policies), make runs of the policies of ``data``; the first ``n_first`` runs
    are the first group. A span is the best of many: its p-value is how often it is as good when
    runs are exchanged between the groups.
    """
    edges = edges_of(data)
    below = times_below(data, edges, by_state)
    divided = _divisions(n_first, len(weights))
    scales = np.where(divided, 1.0 / n_first, -1.0 / (len(weights) - n_first))
    spans, p_values = [], []
    for j, cuts in enumerate(edges):
        if not len(cuts):
            continue
        runs = weights @ below[j]
        span, i, k = best_span(j, cuts, runs[n_first:].mean(axis=0), runs[:n_first].mean(axis=0))
        ends = np.pad(runs, ((0, 0), (1, 1)), constant_values=((0, 0), (0.0, 1.0)))
        spans.append((span.words(features), ends[:, k] - ends[:, i]))
        apart = np.pad(scales @ runs, ((0, 0), (1, 0)))
        sizes = apart.max(axis=1) - apart.min(axis=1)
        alone = min(n_first, len(weights) - n_first) < 2  # which tells nothing of other runs
        p_values.append(math.nan if alone else share_as_large(sizes))
    q_values = benjamini_hochberg(p_values).tolist()
    result = []
    for (words, times), q_value in zip(spans, q_values, strict=True):
        a, b = times[:n_first], times[n_first:]
        difference, low, high, _ = (float(x[0]) for x in welch(a[:, None], b[:, None], level))
        both = tuple(a.tolist()), tuple(b.tolist())
        result.append(Contrast(words, None, both, difference, low, high, q_value, math.nan))
    return sorted(result, key=lambda contrast: -abs(contrast.difference))


def _divisions(n: int, total: int) -> NDArray[np.bool_]:
    """Give the ways to divide runs into two groups of these sizes, the true one first."""
    if math.comb(total, n) > _MOST_DIVISIONS:
        return sides(n, total - n, _DRAWN, np.random.default_rng(0))
    chosen = np.array(list(combinations(range(total), n)))
    result = np.zeros((len(chosen), total), dtype=bool)
    np.put_along_axis(result, chosen, True, axis=1)
    return result
