"""What changed along a training run: from checkpoint to checkpoint, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Range, checked
from pivec.characterizations.visitation import Visitation
from pivec.distances.discoveries import RATE
from pivec.distances.intervals import Intervals
from pivec.explanations.folder import Findings
from pivec.explanations.pairs.difference import Clip, shown_clip
from pivec.explanations.runs.changes import Change, changes_of
from pivec.explanations.runs.checkpoints import Checkpoints
from pivec.explanations.runs.feature_times import FeatureTimes, Track
from pivec.explanations.runs.stretches import Stretch, joined, stretches
from pivec.explanations.worded import Worded
from pivec.results import Result, Row, plain
from pivec.text import rounded, short_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
MOST_STRETCHES = 40  # that are told: nobody reads more
_MOST_TRACKS = 4


@dataclass(frozen=True)
class RunStep:
    """From one checkpoint of a run to a later one: how far, and what changed beyond noise."""

    stretch: Stretch
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
        if not self.stretch.changed:
            return "nothing changed beyond noise"
        if self.stretch.joined:
            return "changed on the way, and came back"
        return "something changed, but in many places a little"


@dataclass(frozen=True, repr=False, eq=False)
class RunChanges(Result):
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
    parts: tuple[RunStep, ...]
    notes: tuple[str, ...]  # what had to be assumed
    clips: tuple[Clip, ...] = ()  # of the largest step

    @property
    def largest_step(self) -> RunStep | None:
        """The step in which most changed; None if nothing did."""
        changed = [part for part in self.parts if part.changes]
        return max(changed, key=lambda part: part.distance, default=None)

    @property
    def largest(self) -> tuple[str, str] | None:
        """The checkpoints before and after the largest change; None if nothing changed."""
        step = self.largest_step
        return None if step is None else step.labels

    @property
    def leading(self) -> list[int]:
        """The regions that changes are told of, the one with the largest parts in all first."""
        parts: dict[int, float] = {}
        for step in self.parts:
            for change in step.regions:
                if change.region is not None:
                    part = change.part * max(step.distance, 0.0)
                    parts[change.region] = parts.get(change.region, 0.0) + part
        return sorted(parts, key=lambda region: -parts[region])

    def headline(self) -> str:
        """Say when most changed, and what."""
        step = self.largest_step
        if step is None:
            return f"{self.run} did not change beyond noise in {len(self.steps)} checkpoints"
        total = sum(max(part.distance, 0.0) for part in self.parts)
        return (
            f"{self.run} changed most from step {step.when} (distance {rounded(step.distance, 2)} "
            f"of {rounded(total, 2)} in all): {step.changes[0].sentence()}"
        )

    def rows(self) -> list[Row]:
        """Give a row a change, in the order of training; and one where nothing changed."""
        rows = []
        for step in self.parts:
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
        from pivec.explanations.runs.figure import run_figure

        return run_figure(self)

    def to_json(self) -> dict[str, Any]:
        """Give all of it as strict JSON can hold it: what is not known is None."""
        steps = [
            plain(step) | {"quiet": step.quiet, "sentences": [c.sentence() for c in step.changes]}
            for step in self.parts
        ]
        known = {name: plain(value) for name, value in vars(self).items()}
        return {
            "headline": self.headline(),
            "largest": plain(self.largest),
            **known,
            "parts": steps,
            "clips": [shown_clip(clip) for clip in self.clips],
        }


@checked
def explain_run(
    where: Any,
    run: str,
    *,
    level: Annotated[float, Range(0.5, most=0.999)] = 0.95,
    top: Count = 3,
) -> RunChanges:
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
    RunChanges

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
    >>> changes = explain_run(Findings(Path(), space, data), "a")
    >>> [(step.when, step.quiet) for step in changes.parts]
    [('1 k to 2 k', 'nothing changed beyond noise'), ('2 k to 3 k', '')]
    """
    findings = Findings.open(where)
    points, worded = Checkpoints.of(findings, run), Worded.of(findings)
    method, described = points.method, points.described
    sure = method.intervals(described, level=level)
    parts = stretches(sure.p_value, RATE / (len(described) - 1))
    notes = _notes(points, sure, len(parts))
    times = None
    if points.states is not None:
        times = FeatureTimes.of(points.states, worded.features, method.by_state)
    parts = joined(parts, sure.distance, MOST_STRETCHES)
    steps = tuple(_step(points, sure, part, worded, times, top) for part in parts)
    return RunChanges(
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
) -> RunStep:
    """Take a stretch apart, if something changed in it."""
    method, described, level = points.method, points.described, sure.level
    i, j = part.first, part.last
    features: list[Change] = []
    regions: list[Change] = []
    if part.changed:
        a, b = (points.sides.select([k]) for k in (i, j))
        explanation = method.explain(a, b, level).named(worded.regions, method.feature_names_)
        n_episodes = int(described.n_episodes[[i, j]].min())
        regions = changes_of(explanation, worded.features, n_episodes, method._n_fits)
        features = times.changes(i, j, level, top) if times else []
    shown = short_numbers(points.steps)
    return RunStep(
        part,
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


def _tracks(times: FeatureTimes, steps: Sequence[RunStep], level: float) -> tuple[Track, ...]:
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
    if n_parts > MOST_STRETCHES:
        notes.append(
            f"{len(points.described)} checkpoints are told in {MOST_STRETCHES} stretches: "
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
    if points.method._n_fits > 1:
        notes.append(
            f"regions are those of the first of {points.method._n_fits} fits of the background"
        )
    return notes
