"""What changed along a training run, from checkpoint to checkpoint."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.characterizations import (
    OFTEN,
    USUAL,
    WHERE,
    Decomposition,
    Descriptions,
    Visitation,
    share_ends,
)
from pivec.errors import UsageError, did_you_mean
from pivec.explanations.clips import Clip
from pivec.explanations.folder import ComparisonFolder
from pivec.explanations.names import Feature
from pivec.explanations.pairs import Level
from pivec.explanations.spans import (
    Span,
    best_span,
    episode_weights,
    feature_edges,
    interval_p_values,
    times_below,
)
from pivec.figures import (
    HAIRLINE,
    INK,
    MUTED,
    add_heading,
    axes_at,
    group_colours,
    new_figure,
    wrapped,
)
from pivec.policies import first_names, natural_key
from pivec.results import Result, Row, plain
from pivec.states import VisitedStates
from pivec.statistics import RATE, benjamini_hochberg
from pivec.text import percent, rounded, short_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
MAX_PHASES = 40
_MAX_CHECKPOINTS = 1000  # that are compared with each other
_MAX_TRACKS = 4
_NEVER, _SEEN = 0.01, 0.03  # shares of time: from the first to the second is "began"
_MIN_SHIFT = 0.25  # of a region's deviation
_MIN_REGION, _MIN_FEATURE = 0.01, 0.05  # differences of shares of time worth reporting
_VERBS = {
    "began": "began to be",
    "stopped": "stopped being",
    "more": "more often",
    "less": "less often",
}


@dataclass(frozen=True)
class Change:
    """A difference between two checkpoints: in the time spent somewhere, or in a mean there."""

    kind: str  # "began", "stopped", "more", "less"; "moved" for the mean of a feature
    where: str  # in words
    region: int | None  # None for a span of a feature
    part: float  # of the distance; NaN if it is not known
    before: float  # share of time, or mean of the feature
    after: float
    low: float  # interval of after − before
    high: float
    feature: str = ""
    unit: str = ""
    span: Span | None = None

    def sentence(self) -> str:
        """Write it.

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


@dataclass(frozen=True, eq=False)
class Track:
    """The share of time spent somewhere, checkpoint by checkpoint, with intervals."""

    where: str  # in words
    share: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Phase:
    """From one checkpoint of a run to a later one: how far, and what changed significantly."""

    first: int  # numbers of the checkpoints, in the order of training
    last: int
    changed: bool  # significantly
    merged: bool  # from several phases that had changed
    labels: tuple[str, str]
    steps: tuple[int, int]  # of training
    when: str  # the steps in words
    distance: float  # without sampling noise, with its interval
    low: float
    high: float
    features: tuple[Change, ...] = ()  # by feature, the largest first
    regions: tuple[Change, ...] = ()  # by region, the largest part of the distance first
    n_regions: int = 0  # in which something changed, in all

    @property
    def changes(self) -> tuple[Change, ...]:
        """All changes, the simplest first."""
        return self.features + self.regions

    @property
    def quiet(self) -> str:
        """Why there are no changes; empty if there are."""
        if self.changes:
            return ""
        if not self.changed:
            return "nothing changed beyond noise"
        if self.merged:
            return "changed on the way, and came back"
        return "something changed, but in many places a little"


@dataclass(frozen=True, repr=False, eq=False)
class RunExplanation(Result):
    """What changed along a run; made by `explain_run`.

    It has n checkpoints in the order of training, and R regions.
    """

    run: str
    labels: tuple[str, ...]
    steps: tuple[int, ...]
    method: str
    level: float
    environment: str
    words: tuple[str, ...]  # names of the regions
    shares: Array  # (n, R) of time, with intervals
    share_low: Array
    share_high: Array
    tracks: tuple[Track, ...]  # shares of time where single features changed most
    mean_returns: Array
    phases: tuple[Phase, ...]
    notes: tuple[str, ...]  # assumptions
    clips: tuple[Clip, ...] = ()  # of the largest phase

    @property
    def largest_phase(self) -> Phase | None:
        """The phase in which most changed; None if nothing did."""
        changed = [phase for phase in self.phases if phase.changes]
        return max(changed, key=lambda phase: phase.distance, default=None)

    @property
    def largest(self) -> tuple[str, str] | None:
        """The checkpoints before and after the largest change; None if nothing changed."""
        phase = self.largest_phase
        return None if phase is None else phase.labels

    @property
    def leading(self) -> list[int]:
        """The regions with changes, largest sum of parts first."""
        parts: dict[int, float] = {}
        for phase in self.phases:
            for change in phase.regions:
                if change.region is not None:
                    part = change.part * max(phase.distance, 0.0)
                    parts[change.region] = parts.get(change.region, 0.0) + part
        return sorted(parts, key=lambda region: -parts[region])

    def headline(self) -> str:
        """Say when most changed, and what."""
        phase = self.largest_phase
        if phase is None:
            return f"{self.run} did not change beyond noise in {len(self.steps)} checkpoints"
        total = sum(max(phase.distance, 0.0) for phase in self.phases)
        return (
            f"{self.run} changed most from step {phase.when} (distance "
            f"{rounded(phase.distance, 2)} of {rounded(total, 2)} in all): "
            f"{phase.changes[0].sentence()}"
        )

    def rows(self) -> list[Row]:
        """Return one row per change, in the order of training, and one per unchanged phase."""
        rows = []
        for phase in self.phases:
            known = {
                "from": phase.steps[0],
                "to": phase.steps[1],
                "distance": phase.distance,
                "distance_low": phase.low,
                "distance_high": phase.high,
            }
            for change in phase.changes or (Change(phase.quiet, "", None, *(math.nan,) * 5),):
                fields = dict(vars(change))
                del fields["span"]
                rows.append({**known, "change": fields.pop("kind"), **fields})
        return rows

    def figure(self) -> Figure:
        """Draw the time spent in the leading regions along training, with changes marked."""
        return run_figure(self)

    def to_json(self) -> dict[str, Any]:
        """Return plain values; None for NaN."""
        phases = [
            plain(phase)
            | {"quiet": phase.quiet, "sentences": [c.sentence() for c in phase.changes]}
            for phase in self.phases
        ]
        return {
            "headline": self.headline(),
            "largest": plain(self.largest),
            **{name: plain(value) for name, value in vars(self).items()},
            "phases": phases,
            "clips": [clip.to_json() for clip in self.clips],
        }


@checked
def explain_run(
    comparison: Any, run: str, *, level: Level = 0.95, top: Count = 3
) -> RunExplanation:
    """Explain what changed along a training run, from checkpoint to checkpoint.

    Checkpoints that do not differ significantly are merged into a phase until one differs from the
    first of them, so that slow changes are found too. About 5 of 100 runs that do not change at
    all seem to.

    Parameters
    ----------
    comparison : path, Comparison or ComparisonFolder
    run : str
        Name of the run, or the end of it.
    level : float
        Confidence level of intervals.
    top : int
        Maximum number of features and of regions per phase: the features with the largest
        differences of time, the regions with the largest parts of the distance.

    Returns
    -------
    RunExplanation

    Examples
    --------
    >>> from pathlib import Path
    >>> import pivec
    >>> rng = np.random.default_rng(0)
    >>> places = [[0, 0, 0, 9], [0, 0, 0, 9], [0, 9, 9, 9]]
    >>> walks = [[rng.normal(x, 1, (40, 1)) for x in row for _ in range(9)] for row in places]
    >>> data = pivec.VisitedStates.from_arrays(walks, groups=["a"] * 3, steps=[1000, 2000, 3000])
    >>> method = pivec.characterization("visitation", n_components=2).fit(data)
    >>> space = pivec.Space(method, method.describe(data, influences=True))
    >>> changes = explain_run(ComparisonFolder(Path(), space, data), "a")
    >>> [(phase.when, phase.quiet) for phase in changes.phases]
    [('1 k to 2 k', 'nothing changed beyond noise'), ('2 k to 3 k', '')]
    """
    opened = ComparisonFolder.open(comparison)
    method = opened.background
    described, states, notes = _checkpoints(opened, run)
    intervals = method.intervals(described, level=level)
    bounds = split_phases(intervals.p_value, RATE / (len(described) - 1))
    n, times = len(described), None
    if len(bounds) > MAX_PHASES:
        notes.append(f"{n} checkpoints are shown in {MAX_PHASES} phases: small steps are merged")
    if states is None:
        notes.append("the states are not stored here: changes are by region, not by feature")
    else:
        times = FeatureTimes.of(states, opened.features, method.traits.by_state)
    if np.isnan(intervals.p_value).any():
        notes.append("checkpoints with a single episode have unknown noise: collect more")
    if not isinstance(method, Visitation):
        notes.append(f"{method.name} may miss changes of time alone, which visitation detects")
    notes += opened.fit_notes()
    # Descriptions suffice for visitation, and are faster.
    sides = described if states is None or isinstance(method, Visitation) else states
    steps = tuple(step for step in described.steps if step is not None)
    shown = short_numbers(steps)
    phases = []
    for first, last, changed, merged in merge_phases(bounds, intervals.distance, MAX_PHASES):
        features: list[Change] = []
        regions: list[Change] = []
        if changed:
            decomposition = method.decompose(sides.select([first]), sides.select([last]), level)
            decomposition = decomposition.named(opened.region_names, method.feature_names_)
            n_episodes = int(described.n_episodes[[first, last]].min())
            regions = region_changes(decomposition, opened.features, n_episodes, opened.n_fits)
            features = times.changes(first, last, level, top) if times else []
        phases.append(
            Phase(
                first,
                last,
                changed,
                merged,
                (described.labels[first], described.labels[last]),
                (steps[first], steps[last]),
                f"{shown[first]} to {shown[last]}",
                float(intervals.distance[first, last]),
                float(intervals.low[first, last]),
                float(intervals.high[first, last]),
                tuple(features),
                tuple(regions[:top]),
                len(regions),
            )
        )
    return RunExplanation(
        described.groups[0],
        described.labels,
        steps,
        method.name,
        level,
        opened.environment,
        opened.region_names,
        *_shares(opened, described, level),
        () if times is None else _tracks(times, phases, level),
        described.mean_returns,
        tuple(phases),
        tuple(notes),
    )


def _checkpoints(
    comparison: ComparisonFolder, run: str
) -> tuple[Descriptions, VisitedStates | None, list[str]]:
    """Find a run: its checkpoints with influences, their states if stored, what is left out."""
    policies = comparison.policies
    runs = sorted({info.group for info in policies if info.group}, key=natural_key)
    if not runs:
        raise UsageError(
            f"no policy of {comparison.folder} belongs to a training run: a run is a folder of "
            "checkpoints, or `groups` for states from Python"
        )
    ending = [name for name in runs if name.endswith(f"/{run}")]
    if run not in runs and len(ending) != 1:
        raise UsageError(
            f"{comparison.folder} has no run {run!r}{did_you_mean(run, runs)}: it has "
            f"{first_names(runs)}"
        )
    name = run if run in runs else ending[0]
    own = [i for i, info in enumerate(policies) if info.group == name]
    rows = sorted(
        (i for i in own if policies[i].step is not None),
        key=lambda i: (policies[i].step, policies[i].label),
    )
    if len(rows) < 2:
        raise UsageError(
            f"expected a run of at least two checkpoints with a training step, but {name!r} has "
            f"{len(rows)}: explain two policies by their labels instead"
        )
    notes = []
    if lacking := len(own) - len(rows):
        unknown = "1 policy" if lacking == 1 else f"{lacking} policies"
        notes.append(f"without {unknown} of the run whose training step is not known")
    if len(rows) > _MAX_CHECKPOINTS:
        notes.append(f"{_MAX_CHECKPOINTS} of {len(rows)} checkpoints are used, evenly spaced")
        chosen = np.linspace(0, len(rows) - 1, _MAX_CHECKPOINTS).round().astype(int)
        rows = [rows[k] for k in chosen]
    described = comparison.space.descriptions.select(rows)
    labels = described.labels
    states = comparison.states.select(labels) if comparison.has_states(labels) else None
    if "influences" not in described.arrays:
        described = comparison.background.describe(
            comparison.states.select(labels), influences=True
        )
    return described, states, notes


def _shares(
    comparison: ComparisonFolder, described: Descriptions, level: float
) -> tuple[Array, Array, Array]:
    """Return shares of time in the regions, (n, R), and the ends of their intervals."""
    from scipy.stats import t

    method, n_fits = comparison.background, comparison.n_fits
    [effective] = described.values("effective_episodes")
    episodes = described.n_episodes.astype(np.float64)
    shares, variances = method.region_shares(described)
    variances[episodes == 1] = np.nan
    half = t.ppf((1.0 + level) / 2.0, np.maximum(effective - 1.0, 1.0))
    shares, variances = n_fits * shares, n_fits**2 * variances  # shares of each fit sum to 1
    return shares, *share_ends(shares, variances, n_fits * method.weights_, episodes, half)


# ---- phases ----


class PhaseBounds(NamedTuple):
    """Numbers of two checkpoints, and whether a phase between them changed or was merged."""

    first: int
    last: int
    changed: bool
    merged: bool = False


def split_phases(p_value: Array, rate: float) -> list[PhaseBounds]:
    """Split a run where checkpoints differ.

    A step is a phase of its own if its p-value is at most ``rate``. Others are merged until a
    checkpoint differs from the first of them. Where p-values are not known, nothing is merged.

    Parameters
    ----------
    p_value : (n, n) array
        Of equal behaviour of two checkpoints.

    Examples
    --------
    >>> x = np.array([0, 0, 5, 6, 7, 8, 8])
    >>> phases = split_phases(np.where(np.abs(x[:, None] - x) > 1, 0.0, 1.0), 0.01)
    >>> [phase[:3] for phase in phases]
    [(0, 1, False), (1, 2, True), (2, 4, True), (4, 6, False)]
    """
    differ = ~(p_value > rate)
    result: list[PhaseBounds] = []
    start, n = 0, len(p_value)
    for here in range(1, n):
        if differ[here - 1, here]:
            if start < here - 1:
                result.append(PhaseBounds(start, here - 1, False))
            result.append(PhaseBounds(here - 1, here, True))
            start = here
        elif differ[start, here]:
            result.append(PhaseBounds(start, here, True))
            start = here
    if start < n - 1:
        result.append(PhaseBounds(start, n - 1, False))
    return result


def merge_phases(phases: Sequence[PhaseBounds], distances: Array, most: int) -> list[PhaseBounds]:
    """Merge neighbouring phases, the shortest distances first, until at most ``most`` are left.

    Examples
    --------
    >>> x = np.array([0.0, 1.0, 2.0, 9.0])
    >>> steps = [PhaseBounds(0, 1, True), PhaseBounds(1, 2, True), PhaseBounds(2, 3, True)]
    >>> [tuple(phase) for phase in merge_phases(steps, np.abs(x[:, None] - x), 2)]
    [(0, 2, True, True), (2, 3, True, False)]
    """
    result = list(phases)
    lengths = [max(float(distances[phase.first, phase.last]), 0.0) for phase in phases]
    while len(result) > most:
        k = int(np.argmin([a + b for a, b in pairwise(lengths)]))
        a, b = result[k : k + 2]
        merged = a.merged or b.merged or (a.changed and b.changed)
        result[k : k + 2] = [PhaseBounds(a.first, b.last, a.changed or b.changed, merged)]
        lengths[k : k + 2] = [lengths[k] + lengths[k + 1]]
    return result


# ---- changes by region ----


def kind_of(before: float, after: float) -> str:
    """Classify the change of a share of time.

    Examples
    --------
    >>> kind_of(0.002, 0.3), kind_of(0.2, 0.3), kind_of(0.3, 0.02), kind_of(0.3, 0.002)
    ('began', 'more', 'less', 'stopped')
    """
    if after > before:
        return "began" if before < _NEVER and after > _SEEN else "more"
    return "stopped" if after < _NEVER and before > _SEEN else "less"


def region_changes(
    decomposition: Decomposition, features: Sequence[Feature], n_episodes: int, n_fits: int
) -> list[Change]:
    """Find the regions with significant changes, largest part first; of several fits, the first.

    ``n_episodes`` is the smaller number of both policies.
    """
    d, freedom = decomposition, max(n_episodes - 1.0, 1.0)
    difference, low, high = share_differences(d.share, d.share_low, d.share_high)
    half = np.where(difference > 0.0, difference - low, high - difference)
    q_value = benjamini_hochberg(interval_p_values(difference, half, freedom, d.level))
    whole = float(d.distance) / n_fits or 1.0
    often = d.kinds[OFTEN].measured if OFTEN in d.kinds else d.regions.measured
    result = []
    for r in d.order[d.order < len(d.words) // n_fits].tolist():
        part = float(d.regions.measured[r]) / whole
        if part < _MIN_REGION:
            break
        time = None
        if not q_value[r] > RATE and abs(difference[r]) >= _MIN_REGION:
            before, after = d.share[:, r].tolist()
            ends = float(low[r]), float(high[r])
            time = Change(kind_of(before, after), d.words[r], r, part, before, after, *ends)
        moved = _main_shift(d, r, part, features)
        # Report what most of the part is about.
        within = float(d.regions.measured[r] - often[r])
        change = (time or moved) if often[r] >= within else (moved or time)
        if change is not None:
            result.append(change)
    return result


def share_differences(share: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Second less first of shares, (2, R), with its interval.

    The ends come from those of both shares, which need not be symmetric (Zou and Donner 2008).

    Examples
    --------
    >>> share, low, high = np.array([[[0.1], [0.5]], [[0.1], [0.4]], [[0.3], [0.7]]])
    >>> [end.round(2).item() for end in share_differences(share, low, high)]
    [0.4, 0.18, 0.6]
    """
    difference = share[1] - share[0]
    down, up = share - low, high - share
    return difference, difference - np.hypot(down[1], up[0]), difference + np.hypot(up[1], down[0])


def _main_shift(
    d: Decomposition, region: int, part: float, features: Sequence[Feature]
) -> Change | None:
    """Find the feature whose mean within a region shifted most, if one did significantly."""
    columns = [
        (float(d.finest.measured[region, c]), feature)
        for c, (kind, feature) in enumerate(d.columns)
        if kind == WHERE and not d.finest.noise[region, c]
    ]
    for _, j in sorted(columns, reverse=True):
        ends = float(d.shift_low[region, j]), float(d.shift_high[region, j])
        width = float(d.ranges[region, j, 1] - d.ranges[region, j, 0]) / (2.0 * USUAL)
        large = abs(float(d.shift[region, j])) >= _MIN_SHIFT * width
        if large and (ends[0] > 0.0 or ends[1] < 0.0):
            before, after = d.means[:, region, j].tolist()
            named = features[j].name, features[j].unit
            return Change("moved", d.words[region], region, part, before, after, *ends, *named)
    return None


# ---- changes by feature ----


@dataclass(frozen=True)
class FeatureTimes:
    """Shares of time that policies spend at or below edges of every feature."""

    data: VisitedStates
    features: Sequence[Feature]
    edges: Sequence[Array]
    below: Sequence[Array]  # (policies, edges) of each feature
    by_state: bool  # whether long episodes count more than short ones

    @classmethod
    def of(cls, data: VisitedStates, features: Sequence[Feature], by_state: bool) -> FeatureTimes:
        """Count all states once."""
        edges = feature_edges(data)
        return cls(data, features, edges, times_below(data, edges, by_state), by_state)

    def changes(self, a: int, b: int, level: float, most: int) -> list[Change]:
        """Find the features with the largest significant differences of time."""
        from scipy.stats import t

        spans = []
        for j, cuts in enumerate(self.edges):
            if len(cuts):
                span, first, last = best_span(j, cuts, self.below[j][a], self.below[j][b])
                more = np.concatenate([[0.0], self.below[j][b] - self.below[j][a], [0.0]])
                spans.append((abs(float(more[last] - more[first])), span))
        spans.sort(key=lambda best: -best[0])
        tried = sum(len(cuts) for cuts in self.edges)  # Bonferroni: it is the best of so many
        result: list[Change] = []
        for size, span in spans:
            if len(result) == most or size < max(_MIN_FEATURE, spans[0][0] / 2.0):
                break
            x, error_x, n = self._sample(a, span)
            y, error_y, m = self._sample(b, span)
            freedom = max(min(n, m) - 1.0, 1.0)
            half = float(t.ppf((1.0 + level) / 2.0, freedom)) * math.hypot(error_x, error_y)
            p_value = interval_p_values(np.array(y - x), np.array(half), freedom, level)
            if not tried * float(p_value) > RATE:
                feature, ends = self.features[span.feature], (y - x - half, y - x + half)
                where = span.describe(self.features)
                change = Change(kind_of(x, y), where, None, math.nan, x, y, *ends)
                result.append(replace(change, feature=feature.name, unit=feature.unit, span=span))
        return result

    def track(self, where: str, span: Span, level: float) -> Track:
        """Follow the time spent in a span through all policies."""
        from scipy.stats import t

        shares, errors, n = np.array([self._sample(p, span) for p in range(len(self.data))]).T
        half = t.ppf((1.0 + level) / 2.0, np.maximum(n - 1.0, 1.0)) * errors
        low, high = np.maximum(shares - half, 0.0), np.minimum(shares + half, 1.0)
        return Track(where, shares, low, high)

    def _sample(self, policy: int, span: Span) -> tuple[float, float, int]:
        """Return the share of time of a policy, its standard error, and the number of episodes."""
        own = self.data.select([policy])
        times, weights = span.times(own), episode_weights(own, self.by_state)
        n, share = len(times), float(weights @ times)
        moved = n * weights * (times - share)
        error = math.sqrt(float(moved @ moved) / (n * (n - 1))) if n > 1 else math.nan
        return share, error, n


def _tracks(times: FeatureTimes, phases: Sequence[Phase], level: float) -> tuple[Track, ...]:
    """Follow the largest change of each feature through the run, the largest of all first."""
    changes = [change for phase in phases for change in phase.features]
    by_feature: dict[str, tuple[str, Span]] = {}
    for change in sorted(changes, key=lambda change: -abs(change.after - change.before)):
        if change.span is not None:
            by_feature.setdefault(change.feature, (change.where, change.span))
    return tuple(times.track(*found, level) for found in list(by_feature.values())[:_MAX_TRACKS])


# ---- the figure ----

_FEATURES, _REGIONS = 3, 5
_LEFT, _WIDTH, _PANEL, _GAP, _TOP, _BOTTOM = 3.7, 6.6, 0.62, 0.2, 1.0, 0.62  # inches
_TICKS = 9
_MARKERS = {"began": "^", "more": "^", "stopped": "v", "less": "v", "moved": "D"}


def run_figure(result: RunExplanation) -> Figure:
    """Draw the distance of each phase, and below it the time spent where most changed."""
    busiest = np.argsort(-result.shares.mean(axis=0), kind="stable").tolist()
    shares = result.shares, result.share_low, result.share_high
    tracks = [
        *result.tracks[:_FEATURES],
        *(
            Track(result.words[r], *(x[:, r] for x in shares))
            for r in (result.leading or busiest)[:_REGIONS]
        ),
    ]
    height = _TOP + _BOTTOM + (len(tracks) + 1) * (_PANEL + _GAP)
    figure = new_figure(_LEFT + _WIDTH + 0.7, height)
    where = f" in {result.environment}" if result.environment else ""
    subtitle = (
        f"Share of time spent at each place, with {100 * result.level:g} % intervals; "
        "▲ ▼ changes, ◆ shifts within a place"
    )
    add_heading(figure, f"What changed along {result.run}{where}", subtitle)
    colours = group_colours(len(tracks))
    for k in range(len(tracks) + 1):
        bottom = height - _TOP - _PANEL - k * (_PANEL + _GAP)
        axes = axes_at(figure, _LEFT, bottom, _WIDTH, _PANEL)
        if k:
            _draw_track(axes, tracks[k - 1], result.phases, colours[k - 1])
        else:
            _draw_distances(axes, result.phases)
        _finish(axes, result.steps, last=k == len(tracks))
    return figure


def _draw_distances(axes: Axes, phases: Sequence[Phase]) -> None:
    """Draw one bar per phase; those without change are grey."""
    for phase in phases:
        colour = MUTED if phase.changed else HAIRLINE
        width = phase.last - phase.first
        axes.bar(phase.first, max(phase.distance, 0.0), width, align="edge", color=colour, lw=0)
        middle = (phase.first + phase.last) / 2
        axes.plot([middle, middle], [phase.low, phase.high], color=INK, lw=1.2)
    highest = max([phase.high for phase in phases if np.isfinite(phase.high)], default=0.0)
    highest = max([highest, *(phase.distance for phase in phases)])
    axes.set_ylim(0.0, 1.08 * highest or 1.0)
    axes.set_yticks([highest], [f"{highest:.2g}"])
    _label(axes, "distance of each phase (grey: nothing beyond noise)")


def _draw_track(axes: Axes, track: Track, phases: Sequence[Phase], colour: str) -> None:
    """Draw the time spent somewhere with its interval, and mark changes there."""
    x = np.arange(len(track.share))
    if np.isfinite(track.low).all():
        axes.fill_between(x, track.low, track.high, color=colour, alpha=0.22, lw=0)
    axes.plot(x, track.share, color=colour, lw=2.0)
    for at, change in ((phase.last, change) for phase in phases for change in phase.changes):
        if change.where == track.where:
            axes.plot(
                at, track.share[at], _MARKERS[change.kind], color=colour, markersize=7.5,
                markeredgecolor="white", markeredgewidth=0.8, clip_on=False, zorder=4,
            )  # fmt: skip
    highest = float(np.nanmax([track.share.max(), np.nanmax(np.append(track.high, 0.0))]))
    axes.set_ylim(0.0, 1.12 * highest or 1.0)
    axes.set_yticks([highest], [percent(highest)])
    _label(axes, track.where, colour)


def _label(axes: Axes, text: str, colour: str = "") -> None:
    """Put a text to the left of a panel, with a square of its colour."""
    place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(
        wrapped(text, 46), (0, 0.5), (-48 if colour else -42, 0), ha="right", va="center",
        fontsize=8.6, color=INK if colour else MUTED, linespacing=1.25, **place,
    )  # fmt: skip
    if colour:
        axes.annotate("■", (0, 0.5), (-41, 0), ha="center", va="center", fontsize=9, color=colour,
                      **place)  # fmt: skip


def _finish(axes: Axes, steps: Sequence[int], *, last: bool) -> None:
    """Draw the axes of a panel; training steps are below the last one."""
    n = len(steps)
    axes.set_xlim(-0.3, n - 0.7)
    axes.tick_params(length=2.5, width=0.6, labelsize=8.5, color=MUTED, labelcolor=INK)
    shown = short_numbers(steps)
    ticks = np.unique(np.linspace(0, n - 1, min(n, _TICKS)).round().astype(int))
    axes.set_xticks(ticks, [shown[k] for k in ticks] if last else [""] * len(ticks))
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(HAIRLINE)
    if last:
        axes.set_xlabel("training step", fontsize=9.5, color=MUTED)
