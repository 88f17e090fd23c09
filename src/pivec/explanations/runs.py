"""What changed along a training run: from checkpoint to checkpoint, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Range, checked
from pivec.characterizations import BackgroundModel, Descriptions, Visitation, share_ends
from pivec.errors import UsageError, did_you_mean
from pivec.explanations.changes import Change, FeatureTimes, Track, changes_of
from pivec.explanations.folder import ComparisonFolder, Worded
from pivec.explanations.pairs import Clip, shown_clip
from pivec.policies import first_names, natural_key
from pivec.results import Result, Row, plain
from pivec.states import VisitedStates
from pivec.statistics import RATE, Intervals
from pivec.text import rounded, short_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# -----------------------------------------------------------------------------
# The checkpoints of a training run in the order of training, with what is known of them.


Array = NDArray[np.float64]
_MOST = 1000  # checkpoints that are held against each other


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints of a run, described with influences, and their states where these are kept."""

    method: BackgroundModel
    described: Descriptions
    states: VisitedStates | None
    notes: tuple[str, ...]  # what is left out

    @classmethod
    def of(cls, findings: ComparisonFolder, run: str) -> Checkpoints:
        """Find a run by its name, or by the end of it."""
        method, policies = findings.background, findings.policies
        name = _run_called(findings, run)
        own = [i for i, info in enumerate(policies) if info.group == name]
        rows = sorted(
            (i for i in own if policies[i].step is not None),
            key=lambda i: (policies[i].step, policies[i].label),
        )
        if len(rows) < 2:
            raise UsageError(
                f"expected a run of at least two checkpoints with a training step, but {name!r} "
                f"has {len(rows)}: explain two policies by their names instead"
            )
        notes = []
        if lacking := len(own) - len(rows):
            unknown = "1 policy" if lacking == 1 else f"{lacking} policies"
            notes.append(f"without {unknown} of the run that the training step is not known of")
        if len(rows) > _MOST:
            notes.append(f"of {len(rows)} checkpoints {_MOST} are looked at, evenly over the run")
            rows = [rows[k] for k in np.linspace(0, len(rows) - 1, _MOST).round().astype(int)]
        described = findings.space.descriptions.select(rows)
        kept = {} if findings.data is None else dict.fromkeys(findings.data.labels)
        states = None
        if all(label in kept for label in described.labels):
            states = findings.states.select(described.labels)
        if "influences" not in described.arrays:
            described = method.describe(findings.states.select(described.labels), influences=True)
        return cls(method, described, states, tuple(notes))

    @property
    def steps(self) -> tuple[int, ...]:
        """Their training steps."""
        return tuple(step for step in self.described.steps if step is not None)

    @property
    def sides(self) -> Descriptions | VisitedStates:
        """What the distance of two is taken apart by: descriptions if these suffice."""
        if isinstance(self.method, Visitation) or self.states is None:
            return self.described
        return self.states

    def shares(self, level: float) -> tuple[Array, Array, Array]:
        """Shares of time in the regions, (n, R), and from where to where each may lie."""
        from scipy.stats import t

        [effective] = self.described.values("effective_episodes")
        n_fits, episodes = self.method.n_fits, self.described.n_episodes.astype(np.float64)
        shares, variances = self.method.region_shares(self.described)
        variances[episodes == 1] = np.nan
        reach = t.ppf((1.0 + level) / 2.0, np.maximum(effective - 1.0, 1.0))
        shares, variances = n_fits * shares, n_fits**2 * variances  # each has all of the time
        usual = n_fits * self.method.weights_
        return shares, *share_ends(shares, variances, usual, episodes, reach)


def _run_called(findings: ComparisonFolder, run: str) -> str:
    runs = sorted({info.group for info in findings.policies if info.group}, key=natural_key)
    if not runs:
        raise UsageError(
            f"no policy of {findings.folder} belongs to a training run: a run is a folder of "
            "checkpoints, or what `groups` says where states come from Python"
        )
    ending = [name for name in runs if name.endswith(f"/{run}")]
    if run not in runs and len(ending) != 1:
        raise UsageError(
            f"{findings.folder} has no run {run!r}{did_you_mean(run, runs)}: it has "
            f"{first_names(runs)}"
        )
    return run if run in runs else ending[0]


# -----------------------------------------------------------------------------
# Stretches of a run: which checkpoints can be told apart, and which are joined.


@dataclass(frozen=True)
class Stretch:
    """From one checkpoint to a later one, by their numbers in the order of training."""

    first: int
    last: int
    changed: bool  # beyond noise
    joined: bool = False  # of several that had changed


def stretches(p_value: Array, rate: float) -> list[Stretch]:
    """Cut a run where checkpoints can be told apart.

    A step is a stretch by itself if its p-value is at most ``rate``. Others are joined, until a
    checkpoint can be told from the first of them. Where p-values are not known, nothing is joined.

    Parameters
    ----------
    p_value : (n, n) array
        Of "these two checkpoints behave the same".

    Examples
    --------
    >>> x = np.array([0, 0, 5, 6, 7, 8, 8])
    >>> stretches(np.where(np.abs(x[:, None] - x) > 1, 0.0, 1.0), 0.01)
    [Stretch(first=0, last=1, changed=False, joined=False),
     Stretch(first=1, last=2, changed=True, joined=False),
     Stretch(first=2, last=4, changed=True, joined=False),
     Stretch(first=4, last=6, changed=False, joined=False)]
    """
    differ = ~(p_value > rate)
    result: list[Stretch] = []
    start, n = 0, len(p_value)
    for here in range(1, n):
        if differ[here - 1, here]:
            if start < here - 1:
                result.append(Stretch(start, here - 1, False))
            result.append(Stretch(here - 1, here, True))
            start = here
        elif differ[start, here]:
            result.append(Stretch(start, here, True))
            start = here
    if start < n - 1:
        result.append(Stretch(start, n - 1, False))
    return result


def joined(parts: Sequence[Stretch], distances: Array, most: int) -> list[Stretch]:
    """Join neighbouring stretches until there are so many at most, the shortest ways first.

    Examples
    --------
    >>> x = np.array([0.0, 1.0, 2.0, 9.0])
    >>> way = [Stretch(0, 1, True), Stretch(1, 2, True), Stretch(2, 3, True)]
    >>> joined(way, np.abs(x[:, None] - x), 2)
    [Stretch(first=0, last=2, changed=True, joined=True),
     Stretch(first=2, last=3, changed=True, joined=False)]
    """
    result = list(parts)
    lengths = [max(float(distances[part.first, part.last]), 0.0) for part in parts]
    while len(result) > most:
        k = int(np.argmin([a + b for a, b in pairwise(lengths)]))
        a, b = result[k : k + 2]
        both = a.joined or b.joined or (a.changed and b.changed)
        result[k : k + 2] = [Stretch(a.first, b.last, a.changed or b.changed, both)]
        lengths[k : k + 2] = [lengths[k] + lengths[k + 1]]
    return result


MAX_PHASES = 40  # that are told: nobody reads more
_MOST_TRACKS = 4


@dataclass(frozen=True)
class Phase:
    """From one checkpoint of a run to a later one: how far, and what changed beyond noise."""

    first: int  # numbers of the checkpoints in the order of training
    last: int
    changed: bool  # beyond noise
    joined: bool  # of several phases that had changed
    labels: tuple[str, str]
    steps: tuple[int, int]  # of training
    when: str  # that in words
    distance: float  # without what sampling adds, with its interval
    low: float
    high: float
    features: tuple[Change, ...] = ()  # on the whole, feature by feature, the largest first
    regions: tuple[Change, ...] = ()  # region by region, the largest part of the distance first
    n_regions: int = 0  # in which something changed, in all

    @property
    def changes(self) -> tuple[Change, ...]:
        """All that is told, the plainest first."""
        return self.features + self.regions

    @property
    def quiet(self) -> str:
        """Say why no change is told; empty if one is."""
        if self.changes:
            return ""
        if not self.changed:
            return "nothing changed beyond noise"
        if self.joined:
            return "changed on the way, and came back"
        return "something changed, but in many places a little"


@dataclass(frozen=True, repr=False, eq=False)
class RunExplanation(Result):
    """What changed along a run; made by `explain_run`.

    n checkpoints in the order of training, R regions.
    """

    run: str
    labels: tuple[str, ...]
    steps: tuple[int, ...]
    method: str
    level: float
    environment: str
    words: tuple[str, ...]  # that tell the regions
    shares: Array  # (n, R) of time, with intervals
    share_low: Array
    share_high: Array
    tracks: tuple[Track, ...]  # time along the run where single features changed most
    mean_returns: Array
    phases: tuple[Phase, ...]
    notes: tuple[str, ...]  # what had to be assumed
    clips: tuple[Clip, ...] = ()  # of the largest step

    @property
    def largest_phase(self) -> Phase | None:
        """The step in which most changed; None if nothing did."""
        changed = [part for part in self.phases if part.changes]
        return max(changed, key=lambda part: part.distance, default=None)

    @property
    def largest(self) -> tuple[str, str] | None:
        """The checkpoints before and after the largest change; None if nothing changed."""
        step = self.largest_phase
        return None if step is None else step.labels

    @property
    def leading(self) -> list[int]:
        """The regions that changes are told of, the one with the largest parts in all first."""
        parts: dict[int, float] = {}
        for step in self.phases:
            for change in step.regions:
                if change.region is not None:
                    part = change.part * max(step.distance, 0.0)
                    parts[change.region] = parts.get(change.region, 0.0) + part
        return sorted(parts, key=lambda region: -parts[region])

    def headline(self) -> str:
        """Say when most changed, and what."""
        step = self.largest_phase
        if step is None:
            return f"{self.run} did not change beyond noise in {len(self.steps)} checkpoints"
        total = sum(max(part.distance, 0.0) for part in self.phases)
        return (
            f"{self.run} changed most from step {step.when} (distance {rounded(step.distance, 2)} "
            f"of {rounded(total, 2)} in all): {step.changes[0].sentence()}"
        )

    def rows(self) -> list[Row]:
        """Give a row a change, in the order of training; and one where nothing changed."""
        rows = []
        for step in self.phases:
            known = {
                "from": step.steps[0],
                "to": step.steps[1],
                "distance": step.distance,
                "distance_low": step.low,
                "distance_high": step.high,
            }
            nothing = Change(step.quiet, "", None, *(math.nan,) * 5)
            rows += [
                {**known, "change": change.kind}
                | {
                    name: value
                    for name, value in vars(change).items()
                    if name not in ("kind", "span")
                }
                for change in step.changes or (nothing,)
            ]
        return rows

    def figure(self) -> Figure:
        """Draw the time spent in the leading regions along training, told changes marked."""
        from pivec.explanations.changes import run_figure

        return run_figure(self)

    def to_json(self) -> dict[str, Any]:
        """Give all of it as strict JSON can hold it: what is not known is None."""
        steps = [
            plain(step) | {"quiet": step.quiet, "sentences": [c.sentence() for c in step.changes]}
            for step in self.phases
        ]
        known = {name: plain(value) for name, value in vars(self).items()}
        return {
            "headline": self.headline(),
            "largest": plain(self.largest),
            **known,
            "phases": steps,
            "clips": [shown_clip(clip) for clip in self.clips],
        }


@checked
def explain_run(
    where: Any,
    run: str,
    *,
    level: Annotated[float, Range(0.5, most=0.999)] = 0.95,
    top: Count = 3,
) -> RunExplanation:
    """Tell what changed along a training run, from checkpoint to checkpoint.

    Checkpoints that cannot be told apart are joined, until one can be told from the first of them:
    what changes too slowly for two checkpoints is told all the same. Of 100 runs that do not change
    at all, about 5 seem to.

    Parameters
    ----------
    where : path or Comparison
        A folder of `pivec.compare`, or what it returned.
    run : str
        Its name, or the end of it.
    level : float
        Of the intervals.
    top : int
        So many features and so many regions of a step are told at most: the features in which time
        is spent most differently, the regions with the largest part of the distance.

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
    >>> [(step.when, step.quiet) for step in changes.phases]
    [('1 k to 2 k', 'nothing changed beyond noise'), ('2 k to 3 k', '')]
    """
    findings = ComparisonFolder.open(where)
    points, worded = Checkpoints.of(findings, run), Worded.of(findings)
    method, described = points.method, points.described
    sure = method.intervals(described, level=level)
    parts = stretches(sure.p_value, RATE / (len(described) - 1))
    notes = _notes(points, sure, len(parts))
    times = None
    if points.states is not None:
        times = FeatureTimes.of(points.states, worded.features, method.traits.by_state)
    parts = joined(parts, sure.distance, MAX_PHASES)
    steps = tuple(_step(points, sure, part, worded, times, top) for part in parts)
    return RunExplanation(
        described.groups[0],
        described.labels,
        points.steps,
        method.name,
        level,
        str(findings.space.collected.get("environment", "")),
        worded.regions,
        *points.shares(level),
        () if times is None else _tracks(times, steps, level),
        described.mean_returns,
        steps,
        tuple(notes),
    )


def _step(
    points: Checkpoints,
    sure: Intervals,
    part: Stretch,
    worded: Worded,
    times: FeatureTimes | None,
    top: int,
) -> Phase:
    """Take a stretch apart, if something changed in it."""
    method, described, level = points.method, points.described, sure.level
    i, j = part.first, part.last
    features: list[Change] = []
    regions: list[Change] = []
    if part.changed:
        a, b = (points.sides.select([k]) for k in (i, j))
        explanation = method.decompose(a, b, level).named(worded.regions, method.feature_names_)
        n_episodes = int(described.n_episodes[[i, j]].min())
        regions = changes_of(explanation, worded.features, n_episodes, method.n_fits)
        features = times.changes(i, j, level, top) if times else []
    shown = short_numbers(points.steps)
    return Phase(
        part.first,
        part.last,
        part.changed,
        part.joined,
        (described.labels[i], described.labels[j]),
        (points.steps[i], points.steps[j]),
        f"{shown[i]} to {shown[j]}",
        float(sure.distance[i, j]),
        float(sure.low[i, j]),
        float(sure.high[i, j]),
        tuple(features),
        tuple(regions[:top]),
        len(regions),
    )


def _tracks(times: FeatureTimes, steps: Sequence[Phase], level: float) -> tuple[Track, ...]:
    """Follow the largest change of each feature through the run, the largest of all first."""
    changes = sorted(
        (change for step in steps for change in step.features),
        key=lambda change: -abs(change.after - change.before),
    )
    by_feature: dict[str, Change] = {}
    for change in changes:
        by_feature.setdefault(change.feature, change)
    return tuple(times.track(c, level) for c in list(by_feature.values())[:_MOST_TRACKS])


def _notes(points: Checkpoints, sure: Intervals, n_parts: int) -> list[str]:
    """Say what was assumed or left out."""
    notes = list(points.notes)
    if n_parts > MAX_PHASES:
        notes.append(
            f"{len(points.described)} checkpoints are told in {MAX_PHASES} stretches: "
            "neighbouring steps in which little changed are joined"
        )
    if points.states is None:
        notes.append("the states are not here: what changed is told by region, not by feature")
    if np.isnan(sure.p_value).any():
        notes.append(
            "some checkpoints have a single episode, which does not tell what is noise: play more"
        )
    if not isinstance(points.method, Visitation):
        notes.append(
            f"{points.method.name} tells where in regions a policy is, and hardly how often: a "
            "change of time alone may be missed, which visitation tells"
        )
    if points.method.n_fits > 1:
        notes.append(
            f"regions are those of the first of {points.method.n_fits} fits of the background"
        )
    return notes
