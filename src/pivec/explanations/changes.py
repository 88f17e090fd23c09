"""Changes between two checkpoints that are worth telling, in words."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import OFTEN, USUAL, WHERE, Decomposition
from pivec.explanations.names import Feature
from pivec.figures import (
    HAIRLINE,
    INK,
    MUTED,
    add_heading,
    axes_at,
    group_colours,
    literal,
    new_figure,
)
from pivec.states import VisitedStates
from pivec.statistics import RATE, benjamini_hochberg
from pivec.text import percent, rounded, short_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pivec.explanations.runs import RunExplanation

# -----------------------------------------------------------------------------
# Spans of one feature in which two behaviours spend their time most differently.


Array = NDArray[np.float64]
_EDGES = 40  # of a feature that are tried
_SAMPLE = 50_000  # states that these are made of
_WORTH = 1.3  # how much more two ends must tell than one
_NEARLY = 0.95  # of the largest difference, which is as good


@dataclass(frozen=True)
class Span:
    """From ``low`` to ``high`` of a feature; either may be infinite."""

    feature: int
    low: float
    high: float

    def words(self, features: Sequence[Feature]) -> str:
        """Tell it, as "cart position above 0.5 m".

        Examples
        --------
        >>> features = Feature("cart position", "m"), Feature("both legs touch", absent="")
        >>> Span(0, 0.5, math.inf).words(features), Span(0, -0.2, 0.2).words(features)
        ('cart position above 0.5 m', 'cart position −0.2 to 0.2 m')
        >>> Span(1, 0.5, math.inf).words(features), Span(1, -math.inf, 0.5).words(features)
        ('both legs touch', 'not both legs touch')
        """
        feature = features[self.feature]
        if feature.absent is not None:
            absent = feature.absent or f"not {feature.name}"
            return feature.name if math.isinf(self.high) else absent
        unit = f" {feature.unit}" if feature.unit else ""
        low, high = (f"{end:g}".replace("-", "−") + unit for end in (self.low, self.high))
        if math.isinf(self.high):
            return f"{feature.name} above {low}"
        if math.isinf(self.low):
            return f"{feature.name} below {high}"
        return f"{feature.name} {low.removesuffix(unit)} to {high}"

    def times(self, data: VisitedStates) -> Array:
        """Give the share of each episode that is within it."""
        values = data.states[:, self.feature].astype(np.float64)
        within = (values > self.low) & (values <= self.high)
        counts = np.add.reduceat(within, data.episode_starts[:-1], dtype=np.int64)
        return np.asarray(counts / data.lengths)


def round_edges(values: Array, n: int = _EDGES) -> Array:
    """Round numbers at which values may be cut: about so many quantiles, and evenly between.

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
    even = np.arange(ends[0], ends[1], size)  # where there are gaps, quantiles have none
    cuts = np.concatenate([np.quantile(values, np.arange(1, n + 1) / (n + 1)), even])
    rounded = [float(f"{k * size:.12g}") for k in np.unique(np.round(cuts / size) + 0.0)]
    return np.array([x for x in rounded if different[0] < x < different[-1]])


def edges_of(data: VisitedStates) -> list[Array]:
    """Edges of all features."""
    step = max(1, -(-data.n_states // _SAMPLE))
    sample = data.take(np.arange(0, data.n_states, step)).astype(np.float64)
    return [round_edges(column) for column in sample.T]


def episode_weights(data: VisitedStates, by_state: bool) -> Array:
    """Weights of episodes within their policy, with sum 1: that of an average one, or by length."""
    weights = data.lengths.astype(np.float64) if by_state else np.ones(data.n_episodes)
    counts = np.diff(data.policy_starts)
    sums = np.add.reduceat(weights, data.policy_starts[:-1])
    return np.asarray(weights / np.repeat(sums, counts))


def times_below(data: VisitedStates, edges: Sequence[Array], by_state: bool) -> list[Array]:
    """Shares of time that policies spend at or below each edge, (n, edges) for each feature."""
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
    """Find where times differ most: the span, and the numbers of its ends among 0, edges, ∞.

    ``a`` and ``b`` are shares of time at or below the edges. Two ends are given only if they tell
    much more than one; of above and below, what is told is where less time is spent. Of edges that
    tell nearly as much that one is taken beyond which one of both hardly ever is.

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
    if abs(more[j] - more[i]) < _WORTH * most:
        below = np.maximum(a, b) < np.maximum(1.0 - a, 1.0 - b)
        rarely = np.where(below, np.minimum(a, b), np.minimum(1.0 - a, 1.0 - b))
        k = int(np.argmin(np.where(np.abs(more) >= _NEARLY * most, rarely, math.inf)))
        i, j = (0, k) if below[k] else (k, len(cuts) - 1)
    return Span(feature, float(cuts[i]), float(cuts[j])), i, j


_NEVER, _SEEN = 0.01, 0.03  # shares of time: one who goes from the first to the second began to
_LEAST_SHIFT = 0.25  # of a region's deviation
_LEAST = 0.01  # a difference of shares that is worth telling, and a share of the distance


@dataclass(frozen=True)
class Change:
    """How two checkpoints differ: in the time spent somewhere, or in a feature's mean there."""

    kind: str  # "began", "stopped", "more", "less", or "moved" of a feature
    where: str  # in words
    region: int | None  # None where it is not about a region
    part: float  # of the distance; NaN where it is not known
    before: float  # share of time, or mean of the feature
    after: float
    low: float  # from where to where after − before may lie
    high: float
    feature: str = ""  # that it is about, if it is about one
    unit: str = ""
    span: Span | None = None  # of that feature, where it is about the time spent there

    def sentence(self) -> str:
        """Say it.

        Examples
        --------
        >>> Change("began", "x is above 2", 3, 0.5, 0.002, 0.31, 0.29, 0.33).sentence()
        'began to be where x is above 2 (0.2 % → 31 % of the time)'
        >>> Change("moved", "x is above 2", 3, 0.5, 0.1, 0.3, 0.1, 0.3, "y", "m").sentence()
        'where x is above 2: y 0.1 → 0.3 m on average'
        """
        if self.kind == "moved":
            unit = f" {self.unit}" if self.unit else ""
            means = f"{rounded(self.before, 2)} → {rounded(self.after, 2)}{unit}"
            return f"where {self.where}: {self.feature} {means} on average".replace("-", "−")
        return f"{_VERBS[self.kind]} where {self.where} ({self.times} of the time)"

    @property
    def times(self) -> str:
        """The shares of time before and after."""
        return f"{percent(self.before)} → {percent(self.after)}"


_VERBS = {
    "began": "began to be",
    "stopped": "stopped being",
    "more": "more often",
    "less": "less often",
}


def kind_of(before: float, after: float) -> str:
    """Say in a word how a share of time changed.

    Examples
    --------
    >>> kind_of(0.002, 0.3), kind_of(0.2, 0.3), kind_of(0.3, 0.02), kind_of(0.3, 0.002)
    ('began', 'more', 'less', 'stopped')
    """
    if after > before:
        return "began" if before < _NEVER and after > _SEEN else "more"
    return "stopped" if after < _NEVER and before > _SEEN else "less"


def changes_of(
    explanation: Decomposition, features: Sequence[Feature], n_episodes: int, n_fits: int = 1
) -> list[Change]:
    """Find the regions in which something changed beyond noise, that of the largest part first.

    Parameters
    ----------
    explanation : Decomposition
    features : sequence of Feature
    n_episodes : int
        The smaller number of both policies.
    n_fits : int
        Fits of the background that lie side by side; changes are told of the first.
    """
    e, freedom = explanation, max(n_episodes - 1.0, 1.0)
    share = e.share
    difference, low, high = difference_of_shares(share, e.share_low, e.share_high)
    towards_none = np.where(difference > 0.0, difference - low, high - difference)
    q_value = benjamini_hochberg(p_values(difference, towards_none, freedom, e.level))
    whole = float(e.distance) / n_fits or 1.0
    often = e.kinds[OFTEN].measured if OFTEN in e.kinds else e.regions.measured
    result = []
    for r in e.order[e.order < len(e.words) // n_fits].tolist():
        part = float(e.regions.measured[r]) / whole
        if part < _LEAST:
            break
        time = None
        if not q_value[r] > RATE and abs(difference[r]) >= _LEAST:
            before, after = share[:, r].tolist()
            ends = float(low[r]), float(high[r])
            time = Change(kind_of(before, after), e.words[r], r, part, before, after, *ends)
        moved = _main_shift(e, r, part, features)
        # What most of the part is about comes first.
        inside = float(e.regions.measured[r] - often[r])
        change = (time or moved) if often[r] >= inside else (moved or time)
        if change is not None:
            result.append(change)
    return result


def difference_of_shares(share: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Second less first of shares, (2, R), and from where to where it may lie.

    Ends come from those of both shares, which need not lie evenly about them (Zou and Donner 2008).

    Examples
    --------
    >>> share, low, high = np.array([[[0.1], [0.5]], [[0.1], [0.4]], [[0.3], [0.7]]])
    >>> [end.round(2).item() for end in difference_of_shares(share, low, high)]
    [0.4, 0.18, 0.6]
    """
    difference = share[1] - share[0]
    down, up = share - low, high - share
    return difference, difference - np.hypot(down[1], up[0]), difference + np.hypot(up[1], down[0])


def p_values(difference: Array, half: Array, freedom: float, level: float) -> Array:
    """P-values of differences whose intervals reach so far, towards 0."""
    from scipy.stats import t

    with np.errstate(invalid="ignore", divide="ignore"):
        errors = np.abs(difference) * t.ppf((1.0 + level) / 2.0, freedom) / half
    # Without any scatter a difference is a difference, and none is none.
    errors = np.where((half == 0.0) & (difference == 0.0), 0.0, errors)
    return np.asarray(2.0 * t.sf(errors, freedom))


def _main_shift(
    e: Decomposition, region: int, part: float, features: Sequence[Feature]
) -> Change | None:
    """Find the feature whose mean within a region moved, if one did beyond noise."""
    columns = [
        (float(e.finest.measured[region, c]), feature)
        for c, (kind, feature) in enumerate(e.columns)
        if kind == WHERE and not e.finest.noise[region, c]
    ]
    for _, j in sorted(columns, reverse=True):
        ends = float(e.shift_low[region, j]), float(e.shift_high[region, j])
        width = float(e.ranges[region, j, 1] - e.ranges[region, j, 0]) / (2.0 * USUAL)
        worth = abs(float(e.shift[region, j])) >= _LEAST_SHIFT * width
        if worth and (ends[0] > 0.0 or ends[1] < 0.0):
            before, after = e.means[:, region, j].tolist()
            named = features[j].name, features[j].unit
            return Change("moved", e.words[region], region, part, before, after, *ends, *named)
    return None


# -----------------------------------------------------------------------------
# Time by features: in which spans of a feature policies spend their time most differently.


_LEAST_FEATURE_TIMES = 0.05  # a difference of shares of time that is worth telling


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
            if len(result) == most or size < max(_LEAST_FEATURE_TIMES, spans[0][0] / 2.0):
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


# -----------------------------------------------------------------------------
# The picture of a training run: how far each step went, and where time was spent on the way.


_FEATURES, _REGIONS = 3, 5
_LEFT, _WIDTH, _PANEL, _GAP, _TOP, _BOTTOM = 3.7, 6.6, 0.62, 0.2, 1.0, 0.62
_TICKS = 9
_SIGNS = {"began": "^", "more": "^", "stopped": "v", "less": "v", "moved": "D"}


def run_figure(result: RunExplanation) -> Figure:
    """Draw the distance of each step, and below it the time spent where most changed."""
    regions = result.leading[:_REGIONS] or _busiest(result)
    panels = [(track, _changes_at(result, track.where)) for track in result.tracks[:_FEATURES]]
    panels += [
        (
            Track(
                result.words[r],
                result.shares[:, r],
                result.share_low[:, r],
                result.share_high[:, r],
            ),
            _changes_at(result, result.words[r]),
        )
        for r in regions
    ]
    height = _TOP + _BOTTOM + (len(panels) + 1) * (_PANEL + _GAP)
    figure = new_figure(_LEFT + _WIDTH + 0.7, height)
    title = f"What changed along {result.run}"
    add_heading(figure, f"{title} in {result.environment}" if result.environment else title)
    figure.text(
        0.28 / figure.get_figwidth(),
        1 - 0.5 / height,
        f"Share of the time spent at each place, with {100 * result.level:g} % intervals; "
        "▲ ▼ told changes, ◆ told shifts within a place",
        va="top",
        fontsize=10,
        color=MUTED,
    )
    colours = group_colours(len(panels))
    for k in range(len(panels) + 1):
        bottom = height - _TOP - _PANEL - k * (_PANEL + _GAP)
        axes = axes_at(figure, _LEFT, bottom, _WIDTH, _PANEL)
        if k:
            track, changes = panels[k - 1]
            _draw_track(axes, track, changes, colours[k - 1])
        else:
            _draw_steps(axes, result)
        _finish(axes, result.steps, last=k == len(panels))
    return figure


def _busiest(result: RunExplanation) -> list[int]:
    """Give the regions in which most time is spent, where nothing changed."""
    return [int(r) for r in np.argsort(-result.shares.mean(axis=0), kind="stable")[:_REGIONS]]


def _changes_at(result: RunExplanation, where: str) -> list[tuple[int, Change]]:
    """Find the told changes of a place, and the checkpoints behind them."""
    return [
        (step.last, change)
        for step in result.phases
        for change in step.changes
        if change.where == where
    ]


def _draw_steps(axes: Axes, result: RunExplanation) -> None:
    """Draw a bar a step; those in which nothing changed are grey."""
    for step in result.phases:
        first, last = step.first, step.last
        colour = MUTED if step.changed else HAIRLINE
        distance = max(step.distance, 0.0)
        axes.bar(first, distance, last - first, align="edge", color=colour, lw=0)
        axes.plot([(first + last) / 2] * 2, [step.low, step.high], color=INK, lw=1.2)
    highest = max([step.high for step in result.phases if np.isfinite(step.high)], default=0.0)
    highest = max([highest, *(step.distance for step in result.phases)])
    axes.set_ylim(0.0, 1.08 * highest or 1.0)
    axes.set_yticks([highest], [f"{highest:.2g}"])
    _label(axes, "distance of each step (grey: nothing beyond noise)")


def _draw_track(
    axes: Axes, track: Track, changes: Sequence[tuple[int, Change]], colour: str
) -> None:
    """Draw the time spent somewhere with its interval, and mark what is told of it."""
    x = np.arange(len(track.share))
    if np.isfinite(track.low).all():
        axes.fill_between(x, track.low, track.high, color=colour, alpha=0.22, lw=0)
    axes.plot(x, track.share, color=colour, lw=2.0)
    for at, change in changes:
        axes.plot(
            at, track.share[at], _SIGNS[change.kind], color=colour, markersize=7.5,
            markeredgecolor="white", markeredgewidth=0.8, clip_on=False, zorder=4,
        )  # fmt: skip
    highest = float(np.nanmax([track.share.max(), np.nanmax(np.append(track.high, 0.0))]))
    axes.set_ylim(0.0, 1.12 * highest or 1.0)
    axes.set_yticks([highest], [percent(highest)])
    _label(axes, track.where, colour)


def _label(axes: Axes, text: str, colour: str = "") -> None:
    """Put the words of a panel to its left, a condition a line where there is room."""
    axes.annotate(
        wrapped(text, 46), (0, 0.5), (-48 if colour else -42, 0),
        xycoords="axes fraction", textcoords="offset points", ha="right", va="center",
        fontsize=8.6, color=INK if colour else MUTED, linespacing=1.25,
    )  # fmt: skip
    if colour:
        axes.annotate(
            "■", (0, 0.5), (-41, 0), xycoords="axes fraction", textcoords="offset points",
            ha="center", va="center", fontsize=9, color=colour,
        )  # fmt: skip


def wrapped(text: str, width: int, most: int = 3) -> str:
    """Break a text for matplotlib, after commas if that gives few lines.

    Examples
    --------
    >>> print(wrapped("height below 0.5 m, angle 0 to 1 rad", 20))
    height below 0.5 m,
    angle 0 to 1 rad
    """
    parts = text.replace(", ", ",\n").splitlines()
    if len(parts) > most or max(map(len, parts), default=0) > width:
        parts = textwrap.wrap(text, width, max_lines=most, placeholder=" …")
    return "\n".join(literal(part, width) for part in parts)


def _finish(axes: Axes, steps: Sequence[int], *, last: bool) -> None:
    """Give a panel its axes; training steps stand below the last one."""
    n = len(steps)
    axes.set_xlim(-0.3, n - 0.7)
    looks: dict[str, Any] = {"length": 2.5, "width": 0.6, "color": MUTED, "labelcolor": INK}
    axes.tick_params(labelsize=8.5, **looks)
    shown = short_numbers(steps)
    ticks = np.unique(np.linspace(0, n - 1, min(n, _TICKS)).round().astype(int))
    axes.set_xticks(ticks, [shown[k] for k in ticks] if last else [""] * len(ticks))
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(HAIRLINE)
    if last:
        axes.set_xlabel("training step", fontsize=9.5, color=MUTED)
