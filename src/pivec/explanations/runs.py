"""What changed along a training run, from checkpoint to checkpoint."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.characterizations import (
    OFTEN,
    USUAL,
    WHERE,
    BackgroundModel,
    Decomposition,
    Descriptions,
    Visitation,
    share_ends,
)
from pivec.errors import UsageError, did_you_mean
from pivec.explanations.clips import Clip
from pivec.explanations.differences import (
    MIN_DIFFERENCE,
    Difference,
    FeatureTimes,
    Level,
    Span,
    half_width,
    interval_p_values,
    worth_listing,
)
from pivec.explanations.folder import ComparisonFolder
from pivec.explanations.names import Feature
from pivec.figures import LONE_COLOUR, group_colours
from pivec.policies import first_names, natural_key
from pivec.results import Explanation, Row
from pivec.states import VisitedStates
from pivec.statistics import LEVEL, RATE, benjamini_hochberg
from pivec.terminal import printable
from pivec.text import rounded, short_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
_MAX_PHASES = 40
_MAX_CHECKPOINTS = 1000  # that are compared with each other
_MAX_TRACKS = 4
_MIN_SHIFT = 0.25  # of a region's deviation
_MIN_FEATURE = 0.05  # difference of the share of time in a span worth reporting


@dataclass(frozen=True, eq=False)
class Track:
    """The share of time spent somewhere, checkpoint by checkpoint, with intervals."""

    where: str
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
    features: tuple[Difference, ...] = ()  # by feature, the largest first
    regions: tuple[Difference, ...] = ()  # by region, the largest part of the distance first
    n_regions: int = 0  # in which something changed, in all

    @property
    def changes(self) -> tuple[Difference, ...]:
        """All changes, the simplest first."""
        return self.features + self.regions

    @property
    def unchanged(self) -> str:
        """Why there are no changes; empty if there are."""
        if self.changes:
            return ""
        if not self.changed:
            return "nothing changed beyond noise"
        if self.merged:
            return "changed in between, and changed back"
        return "many small changes, none of them large"


@dataclass(frozen=True, repr=False, eq=False)
class RunExplanation(Explanation):
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
    colour: str = LONE_COLOUR  # of the run, as in other figures

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
            f"{rounded(phase.distance, 2)} of {rounded(total, 2)} in total): "
            f"{phase.changes[0].sentence()}"
        )

    def rows(self) -> list[Row]:
        """Return one row per change, in the order of training, and one per unchanged phase."""
        nothing = Difference("", None, (np.nan, np.nan))
        names = ("where", "region", "part", "low", "high", "feature", "unit")
        return [
            {
                "from": phase.steps[0],
                "to": phase.steps[1],
                "distance": max(phase.distance, 0.0),
                "distance_low": phase.low,
                "distance_high": phase.high,
                "change": phase.unchanged or change.kind,
                "before": change.values[0],
                "after": change.values[1],
            }
            | {name: getattr(change, name) for name in names}
            for phase in self.phases
            for change in phase.changes or (nothing,)
        ]

    def figure(self) -> Figure:
        from pivec.explanations.plots import run_figure

        return run_figure(self)

    def to_json(self) -> dict[str, Any]:
        content = super().to_json()
        for phase, own in zip(self.phases, content["phases"], strict=True):
            own["unchanged"] = phase.unchanged
            own["sentences"] = [change.sentence() for change in phase.changes]
        return content | {"largest": self.largest}


@checked
def explain_run(
    comparison: Any,
    run: str,
    *,
    level: Level = 0.95,
    top: Count = 3,
    by_region: Count | None = None,
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
    by_region : int, optional
        Number of phases, the largest, whose changes are given by region too, which takes most of
        the time; all by default. Of the others, only those in which no feature changed are.

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
    >>> [(phase.when, phase.unchanged) for phase in changes.phases]
    [('1 k to 2 k', 'nothing changed beyond noise'), ('2 k to 3 k', '')]
    """
    opened = ComparisonFolder.open(comparison)
    method = opened.background
    described, states, notes = _checkpoints(opened, run)
    intervals = method.intervals(described, level=level)
    few = intervals.p_value > RATE / (len(described) - 1)  # Bonferroni
    bounds = _split(few | (intervals.low <= 0.0))
    times = None
    if len(bounds) > _MAX_PHASES:
        notes.append(
            f"{len(described)} checkpoints are shown in {_MAX_PHASES} phases: small steps are "
            "merged"
        )
    if states is None:
        notes.append("the states are not stored here: changes are given by region, not by feature")
    else:
        times = FeatureTimes(method.view(states), opened.columns, method.traits.by_state)
    if np.isnan(intervals.p_value).any():
        notes.append("checkpoints with a single episode have unknown noise: collect more")
    if not isinstance(method, Visitation):
        notes.append(
            f"{method.name} may miss changes in time spent alone, which visitation detects"
        )
    # Descriptions suffice for visitation, and are faster.
    source = described if states is None or isinstance(method, Visitation) else states
    steps = tuple(step for step in described.steps if step is not None)
    shown = short_numbers(steps)
    phases: list[Phase] = []
    spans: dict[Difference, Span] = {}
    kept = _merge(bounds, intervals.distance, _MAX_PHASES)
    lengths = [
        intervals.distance[first, last] if changed else 0.0 for first, last, changed, _ in kept
    ]
    largest = np.argsort(-np.array(lengths), kind="stable")[:by_region].tolist()
    if len(largest) < np.count_nonzero(lengths) and times:
        notes.append(f"changes are given by region for the {len(largest)} largest phases only")
    for number, (first, last, changed, merged) in enumerate(kept):
        features: dict[Difference, Span] = {}
        regions: list[Difference] = []
        if changed and times:
            features = _feature_changes(times, first, last, level, top)
        if changed and (number in largest or not features):
            decomposition = method.decompose(source.select([first]), source.select([last]), level)
            decomposition = decomposition.named(opened.region_names, method.column_names)
            n_episodes = int(described.n_episodes[[first, last]].min())
            regions = _region_changes(decomposition, opened.columns, n_episodes, opened.n_fits)
        spans |= features
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
                float(intervals.low[first, last]) if changed else 0.0,
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
        *share_intervals(method, described, level),
        () if times is None else _tracks(times, spans, level),
        described.mean_returns,
        tuple(phases),
        (*notes, *opened.fit_notes()),
        colour=_colour(opened, described.groups[0]),
    )


def _colour(comparison: ComparisonFolder, run: str) -> str:
    """The colour of a run among those of the comparison, in the order of their names."""
    own = comparison.policies[: len(comparison.policies) - comparison.space.n_reference]
    runs = sorted({info.group for info in own if info.group}, key=natural_key)
    return group_colours(len(runs))[runs.index(run)] if run in runs else LONE_COLOUR


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
    run = printable(run)  # as names are kept
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


def share_intervals(
    method: BackgroundModel, described: Descriptions, level: float = LEVEL
) -> tuple[Array, Array, Array]:
    """Return shares of time in the regions, (n, R), and the ends of their intervals.

    The descriptions must have influences. Ends are NaN where they are not known.
    """
    n_fits = method.n_fits
    [effective] = described.values("effective_episodes")
    episodes = described.n_episodes.astype(np.float64)
    shares, variances = method.region_shares(described)
    variances[episodes == 1] = np.nan
    half = half_width(level, 1.0, np.maximum(effective - 1.0, 1.0))
    shares, variances = n_fits * shares, n_fits**2 * variances  # shares of each fit sum to 1
    return shares, *share_ends(shares, variances, n_fits * method.weights_, episodes, half)


Bounds = tuple[int, int, bool, bool]  # of a phase: first, last, changed, merged


def _split(alike: NDArray[np.bool_]) -> list[Bounds]:
    """Split a run where checkpoints differ; ``alike``, (n, n), are those that do not.

    A step between checkpoints that differ is a phase of its own. Others are merged until a
    checkpoint differs from the first of them.
    """
    differ = ~alike
    result: list[Bounds] = []
    start, n = 0, len(alike)
    for here in range(1, n):
        if differ[here - 1, here]:
            if start < here - 1:
                result.append((start, here - 1, False, False))
            result.append((here - 1, here, True, False))
            start = here
        elif differ[start, here]:
            result.append((start, here, True, False))
            start = here
    if start < n - 1:
        result.append((start, n - 1, False, False))
    return result


def _merge(phases: Sequence[Bounds], distances: Array, most: int) -> list[Bounds]:
    """Merge neighbouring phases, the shortest distances first, until at most ``most`` are left."""
    result = list(phases)
    lengths = [max(float(distances[first, last]), 0.0) for first, last, _, _ in phases]
    while len(result) > most:
        k = int(np.argmin([a + b for a, b in pairwise(lengths)]))
        (first, _, a, a_merged), (_, last, b, b_merged) = result[k : k + 2]
        result[k : k + 2] = [(first, last, a or b, a_merged or b_merged or (a and b))]
        lengths[k : k + 2] = [lengths[k] + lengths[k + 1]]
    return result


def _region_changes(
    d: Decomposition, features: Sequence[Feature], n_episodes: int, n_fits: int
) -> list[Difference]:
    """Find the regions with significant changes, largest part first; of several fits, the first.

    ``n_episodes`` is the smaller number of both policies.
    """
    difference = d.share[1] - d.share[0]
    # The ends come from those of both shares, which need not be symmetric (Zou and Donner 2008).
    down, up = d.share - d.share_low, d.share_high - d.share
    below, above = np.hypot(down[1], up[0]), np.hypot(up[1], down[0])
    half, freedom = np.where(difference > 0.0, below, above), max(n_episodes - 1.0, 1.0)
    q_value = benjamini_hochberg(interval_p_values(difference, half, freedom, d.level))
    whole = float(d.distance) / n_fits or 1.0
    often = d.kinds[OFTEN].measured if OFTEN in d.kinds else d.regions.measured
    result = []
    for r in d.order[d.order < len(d.words) // n_fits].tolist():
        part = float(d.regions.measured[r]) / whole
        if part < MIN_DIFFERENCE:
            break
        time = None
        ends = float(difference[r] - below[r]), float(difference[r] + above[r])
        chance = q_value[r] > RATE or ends[0] <= 0.0 <= ends[1]
        if not chance and abs(difference[r]) >= MIN_DIFFERENCE:
            before, after = d.share[:, r].tolist()
            time = Difference(d.words[r], r, (before, after), *ends, part)
        moved = _main_shift(d, r, part, features)
        # Report what most of the part is about.
        within = float(d.regions.measured[r] - often[r])
        change = (time or moved) if often[r] >= within else (moved or time)
        if change is not None:
            result.append(change)
    return result


def _main_shift(
    d: Decomposition, region: int, part: float, features: Sequence[Feature]
) -> Difference | None:
    """Find the feature whose mean within a region shifted most, if one did significantly."""
    columns = [
        (float(d.finest.measured[region, c]), feature)
        for c, (kind, feature) in enumerate(d.columns)
        if kind == WHERE and not d.finest.noise[region, c]
    ]
    kept = worth_listing([part for part, _ in columns], [features[j] for _, j in columns])
    for _, j in sorted(compress(columns, kept), reverse=True):
        low, high = float(d.shift_low[region, j]), float(d.shift_high[region, j])
        width = float(d.ranges[region, j, 1] - d.ranges[region, j, 0]) / (2.0 * USUAL)
        large = abs(float(d.shift[region, j])) >= _MIN_SHIFT * width
        if large and (low > 0.0 or high < 0.0):
            before, after = d.means[:, region, j].tolist()
            named = features[j].name, features[j].unit
            return Difference(d.words[region], region, (before, after), low, high, part, *named)
    return None


def _feature_changes(
    times: FeatureTimes, a: int, b: int, level: float, most: int
) -> dict[Difference, Span]:
    """Find the features with the largest significant differences of time, and their spans."""
    one = np.eye(len(times.data))
    found = [(float(t[b] - t[a]), span) for span, t in times.best_spans(one[a], one[b])]
    features = [times.features[span.feature] for _, span in found]
    found = list(compress(found, worth_listing([size for size, _ in found], features)))
    found.sort(key=lambda best: -abs(best[0]))
    tried = sum(map(len, times.edges))  # Bonferroni: it is the best of so many
    result: dict[Difference, Span] = {}
    for size, span in found:
        if len(result) == most or abs(size) < max(_MIN_FEATURE, abs(found[0][0]) / 2.0):
            break
        x, error_x, n = times.sample(a, span)
        y, error_y, m = times.sample(b, span)
        freedom = max(min(n, m) - 1.0, 1.0)
        half = float(half_width(level, np.hypot(error_x, error_y), freedom))
        p_value = interval_p_values(np.array(y - x), np.array(half), freedom, level)
        if not (tried * p_value > RATE or abs(y - x) <= half):
            feature, where = times.features[span.feature], span.describe(times.features)
            ends = y - x - half, y - x + half
            change = Difference(where, None, (x, y), *ends, math.nan, feature.name, feature.unit)
            result[change] = span
    return result


def _tracks(times: FeatureTimes, spans: dict[Difference, Span], level: float) -> tuple[Track, ...]:
    """Follow the largest change of each feature through the run, the largest of all first."""
    largest: dict[int, tuple[str, Span]] = {}
    for change, span in sorted(spans.items(), key=lambda item: -abs(item[0].size)):
        largest.setdefault(span.feature, (change.where, span))
    result, followed = [], list(largest.values())[:_MAX_TRACKS]
    samples = np.array(
        [[times.sample(policy, span) for _, span in followed] for policy in range(len(times.data))]
    )
    for number, (where, _) in enumerate(followed):
        shares, errors, n = samples[:, number].T
        half = half_width(level, errors, np.maximum(n - 1.0, 1.0))
        low, high = np.maximum(shares - half, 0.0), np.minimum(shares + half, 1.0)
        result.append(Track(where, shares, low, high))
    return tuple(result)
