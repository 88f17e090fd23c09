"""Differences in the time spent somewhere: by region, and by spans of a feature."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from pivec.arguments import Range
from pivec.explanations.names import Feature
from pivec.states import VisitedStates, only_features, policy_ranges
from pivec.text import percent, rounded

Array = NDArray[np.float64]
Level = Annotated[float, Range(0.5, most=0.999)]
MIN_DIFFERENCE = 0.01  # of shares of time, worth reporting
CLEARLY = 1.25  # how much larger than another something is that is worth a word of its own
_NEVER, _SOMETIMES = 0.01, 0.03  # shares of time: from the first to the second is "began"
_EDGES = 40  # per feature
_SAMPLE = 50_000  # states that edges are computed from
_TWO_ENDS = 1.3  # how much more two ends must distinguish than one
_NEARLY = 0.95  # of the largest difference, which is as good
_BLOCK = 1 << 18  # states that are looked at together
_BINS = 24  # of a histogram
# Quantiles that bins reach to, but no farther beyond the inner ones than these are apart.
_INNER = 0.005, 0.05, 0.95, 0.995
_FEATURES = 12  # of which there are histograms
_SPREAD = 80_000_000  # values of states that histograms are made of
_VERBS = {"began": "began to be", "stopped": "stopped being"}


@dataclass(frozen=True)
class Difference:
    """A difference between two checkpoints, or between two groups of runs."""

    where: str  # the region or the span of a feature, in words
    region: int | None  # None for a span of a feature
    values: tuple[float, float]  # shares of time; or means of the feature within the region
    low: float = math.nan  # interval of the second value minus the first
    high: float = math.nan
    part: float = math.nan  # of the distance (squared, for groups)
    feature: str = ""  # of the span, or whose mean differs
    unit: str = ""
    runs: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())  # shares of time, by group
    q_value: float = math.nan

    @property
    def size(self) -> float:
        return self.values[1] - self.values[0]

    @property
    def kind(self) -> str:
        """One of "began", "stopped", "more" and "less"; "moved" for the mean of a feature.

        Examples
        --------
        >>> [Difference("", 0, times, 0, 0).kind for times in ((0.0, 0.3), (0.02, 0.001))]
        ['began', 'less']
        """
        if self.region is not None and self.feature:
            return "moved"
        first, second = self.values
        if second > first:
            return "began" if first < _NEVER and second > _SOMETIMES else "more"
        return "stopped" if second < _NEVER and first > _SOMETIMES else "less"

    @property
    def values_text(self) -> str:
        """Both values, as text."""
        if self.kind != "moved":
            return " → ".join(map(percent, self.values))
        means = " → ".join(rounded(value, 2) for value in self.values)
        return f"{means} {self.unit}".rstrip().replace("-", "−")

    @property
    def separation(self) -> int:
        """1 if all runs of the second group exceed those of the first, −1 if the reverse, or 0."""
        a, b = self.runs
        if abs(self.size) < MIN_DIFFERENCE:
            return 0
        return int(min(b) > max(a)) - int(max(b) < min(a))

    @property
    def significant(self) -> bool:
        """Whether the difference is significant: its interval excludes 0 (`adjusted_intervals`)."""
        return self.low > 0.0 or self.high < 0.0

    def sentence(self, groups: tuple[str, str] | None = None) -> str:
        """Describe a change, or a difference between groups with these names.

        Examples
        --------
        >>> Difference("x above 2", 3, (0.002, 0.31), 0.29, 0.33).sentence()
        'began to be where x above 2 (0.2 % → 31 % of the time)'
        >>> Difference("x above 2", 3, (0.1, 0.3), 0.1, 0.3, feature="y", unit="m").sentence()
        'where x above 2: y 0.1 → 0.3 m on average'
        >>> runs = (0.0, 0.04), (0.35, 0.22)
        >>> Difference("x above 2", 3, (0.02, 0.285), 0, 1, runs=runs).sentence(("a2c", "ppo"))
        'both runs of ppo are more often where x above 2 than any of a2c: 22 to 35 % against 0 to
        4.0 % of the time'
        """
        if groups is None and self.kind == "moved":
            return f"where {self.where}: {self.feature} {self.values_text} on average"
        if groups is None:
            verb = _VERBS.get(self.kind, f"{self.kind} often")
            return f"{verb} where {self.where} ({self.values_text} of the time)"
        more = int(self.size > 0)
        a, b = groups[more], groups[1 - more]
        if not self.separation:
            means = f"{percent(self.values[more])} against {percent(self.values[1 - more])}"
            return f"{a} is more often where {self.where} than {b}: {means} of the time on average"
        most, least = self.runs[more], self.runs[1 - more]
        runs = {1: f"the run of {a} is", 2: f"both runs of {a} are"}.get(
            len(most), f"all {len(most)} runs of {a} are"
        )
        others = f"any of {b}" if len(least) > 1 else f"that of {b}"
        times = f"{percent_range(most)} against {percent_range(least)}"
        return f"{runs} more often where {self.where} than {others}: {times} of the time"


def percent_range(shares: Sequence[float]) -> str:
    """Format the smallest and the largest of some shares.

    Examples
    --------
    >>> percent_range([0.351, 0.22]), percent_range([0.5])
    ('22 to 35 %', '50 %')
    """
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


# ---- spans of one feature ----


@dataclass(frozen=True)
class Span:
    """Values of a feature above ``low`` and up to ``high``; either may be infinite."""

    feature: int
    low: float
    high: float

    def describe(self, features: Sequence[Feature]) -> str:
        """Describe it as in "cart position above 0.5 m".

        Examples
        --------
        >>> features = Feature("cart position", "m"), Feature("both legs touch", absent="")
        >>> Span(0, 0.5, math.inf).describe(features), Span(0, -0.2, 0.2).describe(features)
        ('cart position above 0.5 m', 'cart position −0.2 to 0.2 m')
        >>> Span(1, 0.5, math.inf).describe(features), Span(1, -math.inf, 0.5).describe(features)
        ('both legs touch', 'not both legs touch')
        >>> Span(0, -math.inf, -0.5).describe([Feature("height", "m").step])
        'height decreasing by more than 0.5 m per step'
        """
        feature = features[self.feature]
        if feature.is_flag:
            present = math.isinf(self.high)
            return feature.name if present else feature.absent or f"not {feature.name}"
        ways = {"increasing": (self.low, self.high), "decreasing": (-self.high, -self.low)}
        for way, (least, most) in ways.items():
            if feature.is_step and least >= 0.0 and math.isinf(most):
                return f"{feature.name[1:]} {way} by more than {feature.with_unit(f'{least:g}')}"
        low, high = (f"{end:g}".replace("-", "−") for end in (self.low, self.high))
        if math.isinf(self.high):
            return f"{feature.name} above {feature.with_unit(low)}"
        start = "below" if math.isinf(self.low) else f"{low} to"
        return f"{feature.name} {start} {feature.with_unit(high)}"


def round_edges(values: Array) -> Array:
    """Return round numbers that divide values: near quantiles, and evenly spaced."""
    values = np.sort(values)  # once, for all that follows
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


def best_span(feature: int, edges: Array, a: Array, b: Array) -> tuple[Span, int, int]:
    """Find the span in which shares of time differ most, and its ends among −∞, edges, ∞.

    ``a`` and ``b`` are shares of time at or below the edges. Two ends are used only if they
    distinguish much more than one; of above and below, the span is where less time is spent. Of
    nearly equal edges, the one is chosen beyond which one of both hardly ever is.
    """
    cuts = np.concatenate([[-math.inf], edges, [math.inf]])
    a, b = (np.concatenate([[0.0], below, [1.0]]) for below in (a, b))
    more = b - a
    most = float(np.abs(more).max())
    i, j = sorted((int(np.argmin(more)), int(np.argmax(more))))
    if abs(more[j] - more[i]) < _TWO_ENDS * most:
        below = np.maximum(a, b) < np.maximum(1.0 - a, 1.0 - b)
        rarely = np.where(below, np.minimum(a, b), np.minimum(1.0 - a, 1.0 - b))
        k = int(np.argmin(np.where(np.abs(more) >= _NEARLY * most, rarely, math.inf)))
        i, j = (0, k) if below[k] else (k, len(cuts) - 1)
    return Span(feature, float(cuts[i]), float(cuts[j])), i, j


@dataclass(frozen=True)
class FeatureTimes:
    """Shares of time that policies spend at or below edges of every feature."""

    data: VisitedStates
    features: Sequence[Feature]  # of the data: of states, or of moves
    by_state: bool  # whether long episodes count more than short ones

    @cached_property
    def edges(self) -> list[Array]:
        """The edges of each feature."""
        step = max(1, -(-self.data.n_states // _SAMPLE))
        sample = self.data.take(np.arange(0, self.data.n_states, step)).astype(np.float64)
        return [round_edges(column) for column in sample.T]

    @cached_property
    def below(self) -> list[Array]:
        """Shares of time at or below the edges, one (n_policies, n_edges) array per feature."""
        times = times_between(self.data, self.edges, self.by_state)
        return [np.cumsum(own, axis=1)[:, :-1] for own in times]

    @cached_property
    def _ends(self) -> list[Array]:
        """Shares of time at or below −∞, the edges and ∞."""
        return [
            np.pad(below, ((0, 0), (1, 1)), constant_values=((0, 0), (0.0, 1.0)))
            for below in self.below
        ]

    def best_spans(self, first: Array, second: Array) -> Iterator[tuple[Span, Array]]:
        """Yield the span of each feature in which two weighted means of policies differ most.

        With each span come the shares of time of all policies in it.
        """
        for j, (cuts, below) in enumerate(zip(self.edges, self.below, strict=True)):
            if len(cuts):
                span, i, k = best_span(j, cuts, first @ below, second @ below)
                ends = self._ends[j]
                yield span, ends[:, k] - ends[:, i]

    def sample(self, policy: int, span: Span) -> tuple[float, float, int]:
        """Return the share of time of a policy, its standard error, and the number of episodes."""
        states, lengths, weights = self._policy(policy)
        values = states[:, span.feature].astype(np.float64)
        within = (values > span.low) & (values <= span.high)
        starts = np.cumsum([0, *lengths[:-1]])
        times = np.add.reduceat(within, starts, dtype=np.int64) / lengths
        n, share = len(times), float(weights @ times)
        moved = n * weights * (times - share)
        error = math.sqrt(float(moved @ moved) / (n * (n - 1))) if n > 1 else math.nan
        return share, error, n

    @cached_property
    def _policy(self) -> Any:
        return lru_cache(maxsize=2)(self._read)  # two are compared span by span

    def _read(self, policy: int) -> tuple[NDArray[np.float32], NDArray[np.int64], Array]:
        """Return states, and the lengths and weights of episodes of a policy."""
        starts = self.data.policy_starts
        lengths = self.data.lengths[starts[policy] : starts[policy + 1]]
        weights = lengths.astype(np.float64) if self.by_state else np.ones(len(lengths))
        return self.data.policy_states(policy), lengths, weights / weights.sum()


def times_between(data: VisitedStates, cuts: Sequence[Array], by_state: bool) -> list[Array]:
    """Return the shares of time that policies spend between cuts of each feature.

    One (n_policies, n_cuts + 1) array per feature; what equals a cut is below it. Every episode
    counts the same, or with ``by_state`` every state. States are read once, some at a time.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[[[0.0]], [[0.5], [1.0], [2.0], [2.0]]]])
    >>> [times_between(data, [np.array([0.5, 1.0])], by_state)[0].tolist() for by_state in (0, 1)]
    [[[0.625, 0.125, 0.25]], [[0.4, 0.2, 0.4]]]
    """
    n, counts = len(data), np.diff(data.policy_starts)
    weights = np.repeat(1.0 / np.diff(data.state_starts), counts)
    if not by_state:
        weights = 1.0 / (np.repeat(counts, counts) * data.lengths)
    # x > cut for float32 x is x > the largest float32 that is not above the cut.
    floors = [np.asarray(own, np.float32) for own in cuts]
    floors = [
        np.where(low > own, np.nextafter(low, np.float32(-np.inf)), low)
        for low, own in zip(floors, cuts, strict=True)
    ]
    result = [np.zeros((n, len(own) + 1)) for own in cuts]
    for first, last in policy_ranges(data.state_starts, _BLOCK):
        begin, end = data.state_starts[first], data.state_starts[last]
        episodes = slice(data.policy_starts[first], data.policy_starts[last])
        policy = np.repeat(np.arange(first, last), np.diff(data.state_starts[first : last + 1]))
        own_weights = np.repeat(weights[episodes], data.lengths[episodes])
        states = data.rows(begin, end)
        for row in range(0, end - begin, _BLOCK):
            part = slice(row, row + _BLOCK)
            for low, times, column in zip(floors, result, states[part].T, strict=True):
                values, size = np.ascontiguousarray(column), len(low) + 1
                # Comparing with all cuts is several times as fast as searching.
                place = np.zeros(len(values), np.min_scalar_type(size))
                for cut in low:
                    place += values > cut
                flat = (policy[part] - first) * size + place
                found = np.bincount(flat, own_weights[part], (last - first) * size)
                times[first:last] += found.reshape(-1, size)
    return result


@dataclass(frozen=True, eq=False)
class FeatureHistograms:
    """Shares of time that policies spend in bins of features; the first and last bin are open."""

    features: tuple[Feature, ...]
    edges: tuple[Array, ...]  # (n_bins + 1,) per feature
    shares: tuple[Array, ...]  # (n_policies, n_bins) per feature
    notes: tuple[str, ...]  # what was left out

    def select(self, policies: Sequence[int]) -> FeatureHistograms:
        """Select policies by number."""
        return replace(self, shares=tuple(shares[policies] for shares in self.shares))


def feature_histograms(
    data: VisitedStates,
    features: Sequence[Feature],
    numbers: Sequence[int],
    by_state: bool,
    most: int | None = None,
) -> FeatureHistograms | None:
    """Count how much time policies spend in bins of the features with these numbers.

    Of many features, those are used whose means differ most between policies, and of very many
    states those of the first episodes. None if that is still too many, or if there are more than
    ``most`` shares.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[[[0.0], [1.0], [1.0]]], [[[3.0]]]])
    >>> found = feature_histograms(data, [Feature("x")], [0], by_state=False)
    >>> found.edges[0].tolist(), found.shares[0].round(2).tolist()
    ([-0.5, 0.5, 2.0, 4.0], [[0.33, 0.67, 0.0], [0.0, 0.0, 1.0]])
    """
    n, notes = len(data), []
    if most is not None and n * min(len(features), _FEATURES) * _BINS > most:
        return None
    # As many states of each policy, evenly spaced.
    each = max(1, _SAMPLE // n)
    begins, counts = data.state_starts[:-1, None], np.diff(data.state_starts)[:, None]
    rows = data.take((begins + np.arange(each) * counts // each).ravel())[:, list(numbers)]
    sample, chosen = rows.astype(np.float64), list(range(len(features)))
    if len(features) > _FEATURES:
        spread = sample.std(axis=0)
        means = sample.reshape(n, each, -1).mean(axis=1).std(axis=0)
        between = np.divide(means, spread, out=np.zeros_like(means), where=spread > 0.0)
        chosen = sorted(np.argsort(-between, kind="stable")[:_FEATURES].tolist())
        notes.append(
            f"{_FEATURES} of {len(features)} features are shown: those whose means differ most "
            "between policies, relative to their spread"
        )
    place = np.arange(data.n_episodes) - np.repeat(
        data.policy_starts[:-1], np.diff(data.policy_starts)
    )
    states = np.cumsum(np.bincount(place, data.lengths))
    if len(chosen) * states[-1] > _SPREAD:
        first = int(np.searchsorted(states, _SPREAD / len(chosen), side="right"))
        if first == 0:
            return None
        notes.append(
            f"the first {first} of up to {len(states)} episodes of each policy are counted"
        )
        records = [record.first(first) for record in data.records]
        data = VisitedStates(records, data.feature_names, data.environment)
    shown = tuple(features[j] for j in chosen)
    edges = tuple(
        _bins(sample[:, j], feature.is_flag) for j, feature in zip(chosen, shown, strict=True)
    )
    if (own := [numbers[j] for j in chosen]) != list(range(data.n_features)):
        data = only_features(data, own)
    shares = times_between(data, [ends[1:-1] for ends in edges], by_state)
    return FeatureHistograms(shown, edges, tuple(shares), tuple(notes))


def _bins(values: Array, is_flag: bool) -> Array:
    """Return round edges of bins; of few values, each has its own."""
    if is_flag:
        return np.array([0.0, 0.5, 1.0])
    different = np.unique(values)
    if len(different) <= _BINS:
        middles = (different[1:] + different[:-1]) / 2.0
        gaps = (middles - different[:-1], different[1:] - middles) if len(middles) else ([0.5],) * 2
        return np.concatenate([[different[0] - gaps[0][0]], middles, [different[-1] + gaps[1][-1]]])
    low, inner, outer, high = np.quantile(values, _INNER)
    width = outer - inner
    low, high = max(low, inner - width), min(high, outer + width)
    if high <= low:  # nearly all are the same
        low, high = different[[0, -1]]
    size = 10.0 ** (math.floor(math.log10((high - low) / _BINS)) - 2)
    return np.array(
        [float(f"{k * size:.12g}") for k in np.round(np.linspace(low, high, _BINS + 1) / size)]
    )


def worth_listing(sizes: Sequence[float], features: Sequence[Feature]) -> list[bool]:
    """Whether differences of features are listed: all but steps that differ hardly more.

    The step of a position is often another feature of the state, its velocity.

    Examples
    --------
    >>> height = Feature("height")
    >>> worth_listing([0.4, -0.42], [height, height.step])
    [True, False]
    """
    known = list(zip(map(abs, sizes), features, strict=True))
    least = CLEARLY * max((size for size, feature in known if not feature.is_step), default=0.0)
    return [size > least or not feature.is_step for size, feature in known]


# ---- intervals and tests ----


def half_width(level: float, errors: Array | float, freedom: Array | float) -> Array:
    """Half-widths of t intervals, from standard errors and degrees of freedom."""
    return np.asarray(stdtrit(freedom, (1.0 + level) / 2.0) * errors)


def interval_p_values(difference: Array, half: Array, freedom: float, level: float) -> Array:
    """P-values of differences from the half-widths of their t intervals, towards 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        errors = np.abs(difference) * stdtrit(freedom, (1.0 + level) / 2.0) / half
    # Without any variance, a difference of 0 is none.
    errors = np.where((half == 0.0) & (difference == 0.0), 0.0, errors)
    return np.asarray(2.0 * stdtr(freedom, -errors))


def welch(
    a: Array, b: Array, level: float = 0.95, *, one_more: bool = False
) -> tuple[Array, Array, Array]:
    """Intervals of differences of mean shares in columns, second less first, and p-values.

    Rows are samples of two populations (Welch 1947). Columns without any variance are not tested;
    with a single row of either nothing is. ``one_more``: variances are those with one more row,
    the mean of both, so that what was never or always the case has an interval too.
    """
    difference = b.mean(axis=0) - a.mean(axis=0)
    if min(len(a), len(b)) < 2:
        unknown = np.full_like(difference, np.nan)
        return unknown, unknown, unknown
    errors = [x.var(axis=0, ddof=1) / len(x) for x in (a, b)]
    if one_more:
        gap = (difference / 2.0) ** 2
        errors = [
            own + gap / (len(x) * (len(x) + 1)) for own, x in zip(errors, (a, b), strict=True)
        ]
    error = np.sqrt(errors[0] + errors[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = error**4 / (errors[0] ** 2 / (len(a) - 1) + errors[1] ** 2 / (len(b) - 1))
        p_values = 2.0 * stdtr(freedom, -np.abs(difference) / error)
    half = np.where(error > 0, half_width(level, error, freedom), 0.0)
    return np.maximum(difference - half, -1.0), np.minimum(difference + half, 1.0), p_values
