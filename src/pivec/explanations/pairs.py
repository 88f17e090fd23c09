"""What differs between two policies: numbers, then frames and clips of their episodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Range, checked
from pivec.characterizations import OFTEN, WHERE, Decomposition, decomposition_figure
from pivec.errors import UsageError
from pivec.explanations.clips import (
    Clip,
    ClipPlan,
    Segment,
    clip_jobs,
    finish_clips,
    frame_jobs,
    picture_json,
    render,
)
from pivec.explanations.folder import ComparisonFolder
from pivec.explanations.names import Feature
from pivec.explanations.regions import Frame, assign_regions, nearest_visits
from pivec.explanations.replay import CannotReplay, Replay, Replayer
from pivec.explanations.spans import interval_p_values
from pivec.files import file_name
from pivec.policies import fingerprint_of
from pivec.results import Result, Row, plain
from pivec.statistics import RATE, benjamini_hochberg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Level = Annotated[float, Range(0.5, most=0.999)]
FOLDER = "explain"  # next to the states of a comparison
_TOP = 6  # regions that are shown
_MAIN_SHARE = 2 / 3  # of the distance, covered by the regions in the headline
_CELL_FEATURES = 4  # in the name of a cell
_NAME_LENGTH = 60  # of a policy in the name of a folder


@dataclass(frozen=True)
class Shift:
    """Difference of the mean of a feature between two policies."""

    feature: int
    part: float  # of the distance
    value: float  # b − a, in the environment's units, with its interval
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class PairExplanation(Result):
    """What differs between two policies; made by `explain_pair`."""

    decomposition: Decomposition
    features: tuple[Feature, ...]
    leading: tuple[int, ...]  # the regions that are shown, largest part first
    environment: str = ""
    episodes: tuple[int, int] = (0, 0)
    mean_returns: tuple[float, float] = (math.nan, math.nan)
    # The state nearest to the centre of a region, by policy and region.
    frames: Mapping[tuple[str, int], Frame] = field(default_factory=dict)
    clips: tuple[Clip, ...] = ()
    notes: tuple[str, ...] = ()  # assumptions, and what could not be made

    @property
    def labels(self) -> tuple[str, str]:
        """The two policies, a and b."""
        return self.decomposition.labels

    @property
    def different(self) -> bool | None:
        """Whether the distance is significant; None if that is not known."""
        p = self.decomposition.p_value
        return None if math.isnan(p) else p <= RATE

    def share(self, region: int) -> float:
        """Share of the measured distance that a region contributes."""
        d = self.decomposition
        return float(d.regions.measured[region]) / d.distance if d.distance > 0 else 0.0

    def significant_shifts(self, region: int) -> list[Shift]:
        """Features whose mean within a region differs significantly, largest part first."""
        d = self.decomposition
        result = []
        for column, (kind, feature) in enumerate(d.columns):
            if kind != WHERE or feature < 0 or d.finest.noise[region, column]:
                continue
            ends = (float(x[region, feature]) for x in (d.shift, d.shift_low, d.shift_high))
            shift = Shift(feature, float(d.finest.measured[region, column]), *ends)
            # A policy that is hardly ever there counts as at the centre, which alone is no shift.
            if shift.low > 0.0 or shift.high < 0.0:
                result.append(shift)
        return sorted(result, key=lambda shift: -shift.part)

    def average_shifts(self) -> list[Shift]:
        """Features whose mean over all time differs significantly, largest first.

        ``part`` is the difference relative to the extent of all regions. About one in twenty of
        these may be chance (false discovery rate).
        """
        d = self.decomposition
        extents = d.ranges[:, :, 1].max(axis=0) - d.ranges[:, :, 0].min(axis=0)
        half = 0.5 * (d.average_shift_high - d.average_shift_low)
        freedom = max(min(self.episodes) - 1.0, 1.0)
        q = benjamini_hochberg(interval_p_values(d.average_shift, half, freedom, d.level))
        shifts = []
        for number in np.flatnonzero((q <= RATE) & (extents > 0.0)).tolist():
            ends = d.average_shift, d.average_shift_low, d.average_shift_high
            value, low, high = (float(values[number]) for values in ends)
            shifts.append(Shift(number, abs(value) / float(extents[number]), value, low, high))
        return sorted(shifts, key=lambda shift: -shift.part)

    def headline(self) -> str:
        """Say how far apart the two are, and how few regions account for most of it."""
        (a, b), d = self.labels, self.decomposition
        if self.different is None:
            return f"{a} and {b} are {d.distance:.3g} apart; its uncertainty is not known"
        found = [region for region in self.leading if not d.regions.noise[region]]
        ends = f"({max(d.low, 0.0):.3g} to {d.high:.3g})"
        if not self.different:
            yet = f"; {len(found)} of the regions may still differ" if found else ""
            return (
                f"{a} and {b} cannot be told apart: chance explains their distance, "
                f"{max(d.estimate, 0.0):.3g} {ends}{yet}"
            )
        apart = f"{a} and {b} are {d.estimate:.3g} apart {ends}"
        if len(d.order) < 2 or not found:
            return apart
        sums = np.cumsum([self.share(region) for region in found])
        n = min(int(np.searchsorted(sums, _MAIN_SHARE)) + 1, len(found))
        regions = "1 region makes" if n == 1 else f"{n} regions make"
        return f"{apart}; {regions} up {100 * min(sums[n - 1], 1.0):.0f} % of it"

    def rows(self) -> list[Row]:
        """Return one row per region: its part of the distance, both shares of time, main shift."""
        return self.decomposition.rows()

    def figure(self) -> Figure:
        """Draw the largest parts of the distance, and the time that both spend there."""
        return decomposition_figure(self.decomposition, self.headline())

    def to_json(self) -> dict[str, Any]:
        """Return plain values; None for NaN."""
        frames = [
            {"region": region, "visit": plain(f.visit), **picture_json(f.path, f.reason)}
            for (_, region), f in self.frames.items()
        ]
        return {
            "headline": self.headline(),
            "significant": self.different,
            "environment": self.environment,
            "features": plain(self.features),
            "leading": list(self.leading),
            "episodes": list(self.episodes),
            "mean_returns": plain(self.mean_returns),
            "explanation": self.decomposition.to_json(),
            "frames": frames,
            "clips": [clip.to_json() for clip in self.clips],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, repr=False)
class Overview(Result):
    """Explanations of notable pairs of a comparison, and clips of its behaviour classes."""

    differences: Sequence[tuple[str, PairExplanation]]  # with what makes each pair notable
    behaviours: Sequence[Clip] = ()  # of the medoid of each class, largest first
    notes: Sequence[str] = ()

    @property
    def environment(self) -> str:
        """Name of the environment."""
        return self.differences[0][1].environment

    def headline(self) -> str:
        """Say how far apart the pairs are."""
        return "; ".join(f"{title}: {pair.headline()}" for title, pair in self.differences)

    def rows(self) -> list[Row]:
        """Return the rows of all pairs."""
        return [
            {"pair": title, "policy": pair.labels[0], "other": pair.labels[1]} | row
            for title, pair in self.differences
            for row in pair.rows()
        ]

    def figure(self) -> Figure:
        """Draw the parts of the last pair, the farthest."""
        return self.differences[-1][1].figure()

    def to_json(self) -> dict[str, Any]:
        """Return plain values; None for NaN."""
        return {
            "pairs": [{"pair": title} | pair.to_json() for title, pair in self.differences],
            "behaviours": [clip.to_json() for clip in self.behaviours],
            "notes": list(self.notes),
        }


@checked
def explain_pair(
    comparison: Any, a: str, b: str, *, top: Count = _TOP, level: Level = 0.95
) -> PairExplanation:
    """Explain what differs between two policies: in which regions, how often and in which features.

    Parameters
    ----------
    comparison : path, Comparison or ComparisonFolder
        A comparison by visitation, supervector, gaussian or discretization.
    a, b : str
        Labels of the policies, or the ends of them.
    top : int
        Maximum number of regions to show.
    level : float
        Confidence level of intervals.

    Returns
    -------
    PairExplanation
        `with_media` adds frames and clips.

    Examples
    --------
    >>> import tempfile, pivec
    >>> policies = {"still": lambda seen: 0 * seen[:, 0].astype(int), "random": "random"}
    >>> folder = tempfile.mkdtemp()
    >>> done = pivec.compare("CartPole-v1", policies, folder, episodes=5, components=4)
    >>> explain_pair(done, "still", "random").different
    True
    """
    comparison = ComparisonFolder.open(comparison)
    labels = [comparison.find(name).label for name in (a, b)]
    if labels[0] == labels[1]:
        raise UsageError(
            f"expected two policies, but {a!r} and {b!r} are both {labels[0]}: name another"
        )
    method, described, features = (
        comparison.space.method,
        comparison.space.descriptions,
        comparison.features,
    )
    rows = [described.labels.index(label) for label in labels]
    there = [label for label in labels if comparison.has_states([label])]
    notes = []
    if len(there) == 2:
        data = comparison.states
        decomposition = method.decompose(data[labels[0]], data[labels[1]], level)
    else:
        first, second = (described.select([row]) for row in rows)
        decomposition = method.decompose(first, second, level)
        missing = " and ".join(label for label in labels if label not in there)
        notes.append(f"the states of {missing} are not stored here: numbers are from the space")
    names, frames = decomposition.words, {}
    leading = leading_regions(decomposition, top)
    if comparison.has_regions:
        names = comparison.region_names
        if comparison.n_fits > 1:
            notes.append(
                f"the regions are those of {comparison.n_fits} fits of the background model; "
                "frames and clips use the first"
            )
        visits = nearest_visits(comparison, there, leading) if there else {}
        frames = {key: Frame(visit) for key, visit in visits.items()}
    else:
        if len(names) > 1:
            names = _cell_names(decomposition, features)
        notes.append(
            f"{method.name} has no regions with states near their centre: compare with --method "
            "visitation for pictures of them"
        )
    return PairExplanation(
        decomposition.named(names, tuple(feature.name for feature in features)),
        features,
        leading,
        environment=comparison.environment,
        episodes=tuple(int(described.n_episodes[row]) for row in rows),  # type: ignore[arg-type]
        mean_returns=tuple(float(described.mean_returns[row]) for row in rows),  # type: ignore[arg-type]
        frames=frames,
        notes=tuple(notes),
    )


def leading_regions(decomposition: Decomposition, most: int = _TOP) -> tuple[int, ...]:
    """Return the regions with the largest significant parts; if there are none, the largest."""
    order = decomposition.order.tolist()
    found = [region for region in order if not decomposition.regions.noise[region]]
    return tuple((found or order[:3])[:most])


def _cell_names(decomposition: Decomposition, features: Sequence[Feature]) -> tuple[str, ...]:
    """Name cells by their ranges in the first features."""
    names = []
    for name, ranges in zip(decomposition.words, decomposition.ranges.tolist(), strict=True):
        ends = [" to ".join(f"{end:.2g}".replace("-", "−") for end in pair) for pair in ranges]
        places = [
            f"{feature.name} {feature.with_unit(place)}"
            for feature, place in zip(features[:_CELL_FEATURES], ends, strict=False)
        ]
        names.append(f"{', '.join(places)} ({name})")
    return tuple(names)


def pair_folder(comparison: ComparisonFolder, explanation: PairExplanation) -> Path:
    """Return the folder for the files of a pair, a different one for every pair."""
    known = Counter(file_name(info.label, _NAME_LENGTH) for info in comparison.policies)
    names = []
    for label in explanation.labels:
        name = file_name(label, _NAME_LENGTH)
        # Labels may differ only in characters that file names cannot have.
        names.append(name if known[name] == 1 else f"{name}-{fingerprint_of(label)[:6]}")
    return comparison.folder / FOLDER / "--".join(names)


# ---- frames and clips: where in the episodes the difference is largest ----

_SECONDS, _MAX_STEPS = 6.0, 150  # of a clip, in the environment's time
_FROM_START = 2  # times as long, if a clip starts with its episode


def with_media(
    explanation: PairExplanation,
    comparison: ComparisonFolder,
    replayer: Replayer,
    folder: Path,
    frames: bool = True,
    n_clips: int = 2,
    progress: bool = False,
) -> PairExplanation:
    """Add frames of both policies in the leading regions, and clips; ``notes`` says what failed."""
    steps: dict[tuple[str, int], list[int]] = {}  # to render, by policy and episode
    for frame in explanation.frames.values() if frames else ():
        steps.setdefault((frame.visit.policy, frame.visit.episode), []).append(frame.visit.step)
    replays = dict(zip(steps, replayer.stored_many(list(steps)), strict=True))
    played = {key: replay for key, replay in replays.items() if isinstance(replay, Replay)}
    plans = _plan_clips(explanation, comparison, replayer, n_clips) if n_clips else []
    jobs = frame_jobs(replayer, [(played[key], steps[key]) for key in played], folder / "frames")
    made = render([*jobs, *clip_jobs(plans, replayer, folder / "clips")], progress)
    rendered = {key: str(replay) for key, replay in replays.items()}
    rendered |= dict(zip(played, made, strict=False))
    shown = dict(explanation.frames)
    for key, frame in explanation.frames.items() if frames else ():
        files = rendered[frame.visit.policy, frame.visit.episode]
        path = None if isinstance(files, str) else files[frame.visit.step]
        shown[key] = replace(frame, path=path, reason=files if path is None else "")
    clips = finish_clips(plans, made[len(jobs) :])
    reasons = [frame.reason for frame in shown.values()] + [clip.reason for clip in clips]
    notes = tuple(dict.fromkeys([*explanation.notes, *filter(None, reasons)]))
    return replace(explanation, frames=shown, clips=clips, notes=notes)


def _plan_clips(
    explanation: PairExplanation, comparison: ComparisonFolder, replayer: Replayer, n_clips: int
) -> list[ClipPlan]:
    """Plan clips of the largest difference, then of both policies from the same seeds."""
    length = _clip_steps(replayer)
    plans = []
    significant = not explanation.decomposition.regions.noise.all()
    if comparison.has_states(explanation.labels) and comparison.has_regions and significant:
        plans.append(_plan_largest(explanation, comparison, replayer, length))
    for number in range(n_clips - len(plans)):
        plans.append(
            _plan_same_seed(explanation, comparison, replayer, number, _FROM_START * length)
        )
    return plans


def _clip_steps(replayer: Replayer) -> int:
    """Return the number of steps that fill a clip in the environment's time."""
    if replayer.problem():
        return _MAX_STEPS  # the clips themselves will say why
    return min(_MAX_STEPS, max(10, round(_SECONDS * replayer.scene.fps)))


def _plan_largest(
    explanation: PairExplanation, comparison: ComparisonFolder, replayer: Replayer, length: int
) -> ClipPlan:
    """Take the segment of each policy in which it differs most from the other."""
    title = "Where the difference is largest"
    segments, texts = [], []
    for side, label in enumerate(explanation.labels):
        own = comparison.states[label]
        regions, _ = assign_regions(own, comparison.mixture)
        values = region_values(explanation.decomposition, side)[regions]
        every = own.records[0].every
        best = best_window(values, own.episode_starts, max(1, length // every))
        try:
            replay = replayer.stored(label, best.episode)
        except CannotReplay as error:
            return ClipPlan(title, reason=str(error))
        first, last = best.first * every, min(best.last * every, replay.last)
        segments.append(Segment.of(comparison, replay, first, last))
        texts.append(
            f"{label}, episode {best.episode} (seed {replay.seed}), steps {first} to {last}"
        )
    caption = (
        f"left: {texts[0]}; right: {texts[1]}; two different episodes, chosen because in them each "
        "policy differs most from the other"
    )
    return ClipPlan(title, caption, segments)


def _plan_same_seed(
    explanation: PairExplanation,
    comparison: ComparisonFolder,
    replayer: Replayer,
    number: int,
    length: int,
) -> ClipPlan:
    """Let both policies play from the seed of the first one's n-th stored episode."""
    a, b = explanation.labels
    title = "Both from the same start" + (", once more" if number else "")
    try:
        if comparison.has_states([a]):
            first = replayer.stored(a, min(number, comparison.states[a].n_episodes - 1))
        else:
            first = replayer.on_seed(a, number)
        replays = first, replayer.on_seed(b, first.seed)
    except CannotReplay as error:
        return ClipPlan(title, reason=str(error))
    segments = [Segment.of(comparison, r, 0, min(r.last, length)) for r in replays]
    ends = " and ".join(str(segment.last) for segment in segments)
    seed = "a seed" if first.episode is None else f"the seed of its stored episode {first.episode}"
    caption = (
        f"left: {a}; right: {b}; both from seed {first.seed} ({seed}, not chosen for what "
        f"happens), up to step {ends}"
    )
    return ClipPlan(title, caption, segments)


def plan_first_episode(
    comparison: ComparisonFolder, replayer: Replayer, label: str, title: str
) -> ClipPlan:
    """Plan a clip of the first stored episode of a policy, from its start."""
    try:
        replay = replayer.stored(label, 0)
    except CannotReplay as error:
        return ClipPlan(title, label, reason=str(error))
    last = min(replay.last, _FROM_START * _clip_steps(replayer))
    caption = f"{label}, episode 0 (seed {replay.seed}, not chosen for what happens), up to {last}"
    return ClipPlan(title, caption, [Segment.of(comparison, replay, 0, last)])


class Window(NamedTuple):
    """Rows ``first`` to ``last`` (inclusive) of an episode, and the sum of their values."""

    episode: int
    first: int
    last: int
    value: float


def region_values(decomposition: Decomposition, side: int) -> Array:
    """Return how much of the difference a step in each region shows, (R,), for policy 0 or 1.

    A step in a region that the policy visits more often than the other is worth the region's
    part; where it is less often it counts against, except for differences within the region,
    which show either way. Insignificant parts are worth nothing.
    """
    d, often = decomposition, decomposition.kinds.get(OFTEN)
    parts = np.where(d.regions.noise, 0.0, np.maximum(d.regions.measured, 0.0))
    if often is None:
        return parts
    frequency = np.where(often.noise, 0.0, often.measured)
    within = np.maximum(parts - often.measured, 0.0)
    more = np.sign(d.share[side] - d.share[1 - side])
    return np.asarray(np.nan_to_num(more) * frequency + within)


def best_window(values: Array, starts: NDArray[np.int64], length: int) -> Window:
    """Find the window of at most ``length`` rows within an episode with the largest sum.

    ``values`` has one row per state; episode e has the rows starts[e] to starts[e + 1].

    Examples
    --------
    >>> best_window(np.array([0.0, 1, 0, 0, 1, 1, 0]), np.array([0, 3, 7]), 2)
    Window(episode=1, first=1, last=2, value=2.0)
    """
    best = Window(0, 0, 0, -np.inf)
    for episode, (begin, end) in enumerate(pairwise(starts.tolist())):
        sums = np.concatenate([[0.0], np.cumsum(values[begin:end])])
        n = min(length, end - begin)
        gains = sums[n:] - sums[:-n]
        first = int(gains.argmax())
        # Sums that are equal up to rounding do not count as larger.
        if gains[first] > best.value + 1e-9 * abs(best.value if episode else 0.0):
            best = Window(episode, first, first + n - 1, float(gains[first]))
    return best
