"""What differs between two policies: numbers, then frames and clips of their episodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.characterizations import OFTEN, WHERE, Decomposition, decomposition_figure
from pivec.errors import UsageError
from pivec.explanations.clips import Clip, ClipPlan, Segment, best_window, clip_jobs
from pivec.explanations.differences import Level, interval_p_values
from pivec.explanations.folder import FOLDER, ComparisonFolder
from pivec.explanations.names import Feature
from pivec.explanations.regions import Frame, assign_regions, nearest_visits, render_visits
from pivec.explanations.replay import Replayer
from pivec.files import file_name
from pivec.policies import fingerprint_of
from pivec.results import Explanation, Row, plain
from pivec.statistics import RATE, benjamini_hochberg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TOP = 6  # regions that are shown
_MAIN_SHARE = 2 / 3  # of the distance, covered by the regions in the headline
_CELL_FEATURES = 4  # in the name of a cell
_NAME_LENGTH = 60  # of a policy in the name of a folder
_SECONDS, _MAX_STEPS = 6.0, 150  # of a clip, in the environment's time
_FROM_START = 2  # times as long, if a clip starts with its episode


@dataclass(frozen=True)
class Shift:
    """Difference of the mean of a feature between two policies."""

    feature: int
    part: float  # of the distance
    value: float  # b − a, in the environment's units, with its interval
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class PairExplanation(Explanation):
    """What differs between two policies; made by `explain_pair`."""

    decomposition: Decomposition
    features: tuple[Feature, ...]
    leading: tuple[int, ...]  # the regions that are shown, largest part first
    environment: str = ""
    episodes: tuple[int, ...] = (0, 0)
    mean_returns: tuple[float, ...] = (math.nan, math.nan)
    frames: tuple[Frame, ...] = ()  # the states of both nearest to the centres of regions
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

    def frame(self, label: str, region: int) -> Frame | None:
        """Find the frame of a policy in a region."""
        key = label, region
        return next((f for f in self.frames if (f.visit.policy, f.visit.region) == key), None)

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

    def region_values(self, which: int) -> NDArray[np.float64]:
        """Return how much of the difference a step in each region shows, (R,), for policy 0 or 1.

        A step in a region that the policy visits more often than the other is worth the region's
        part; where it is less often it counts against, except for differences within the region,
        which show either way. Insignificant parts are worth nothing.
        """
        d, often = self.decomposition, self.decomposition.kinds.get(OFTEN)
        parts = np.where(d.regions.noise, 0.0, np.maximum(d.regions.measured, 0.0))
        if often is None:
            return parts
        frequency = np.where(often.noise, 0.0, often.measured)
        within = np.maximum(parts - often.measured, 0.0)
        more = np.sign(d.share[which] - d.share[1 - which])
        return np.asarray(np.nan_to_num(more) * frequency + within)

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
                f"{a} and {b} do not differ significantly: distance {max(d.estimate, 0.0):.3g} "
                f"{ends}{yet}"
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
        return decomposition_figure(self.decomposition, self.headline())

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"significant": self.different}


@dataclass(frozen=True)
class Overview:
    """Explanations of notable pairs of a comparison, and clips of its behaviour classes."""

    differences: Sequence[tuple[str, PairExplanation]]  # with what makes each pair notable
    behaviours: Sequence[Clip] = ()  # of the medoid of each class, largest first

    @property
    def environment(self) -> str:
        """Name of the environment."""
        return self.differences[0][1].environment

    def figure(self) -> Figure:
        """Draw the parts of the last pair, the farthest."""
        return self.differences[-1][1].figure()

    def to_json(self) -> dict[str, Any]:
        """Return plain values; None for NaN."""
        pairs = [{"pair": title} | pair.to_json() for title, pair in self.differences]
        return {"pairs": pairs, "behaviours": plain(self.behaviours)}


@checked
def explain_pair(
    comparison: Any, a: str, b: str, *, top: Count = _TOP, level: Level = 0.95
) -> PairExplanation:
    """Explain what differs between two policies: in which regions, how often and in which features.

    The comparison must be by visitation, supervector, gaussian or discretization; other parameters
    are those of `Comparison.explain`. `with_media` adds frames and clips.

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
            f"expected two policies, but {a!r} and {b!r} both refer to {labels[0]}: name another "
            "policy"
        )
    method, features = comparison.space.method, comparison.features
    described = comparison.space.descriptions.select(
        [comparison.space.descriptions.labels.index(label) for label in labels]
    )
    there = [label for label in labels if comparison.has_states([label])]
    notes = []
    if len(there) == 2:
        both = [comparison.states[label] for label in labels]
        decomposition = method.decompose(*both, level)
    else:
        decomposition = method.decompose(described.select([0]), described.select([1]), level)
        missing = " and ".join(label for label in labels if label not in there)
        notes.append(f"the states of {missing} are not stored here: numbers come from the space")
    leading = leading_regions(decomposition, top)
    names = decomposition.words
    frames: tuple[Frame, ...] = ()
    if comparison.has_regions:
        names = comparison.region_names
        if comparison.n_fits > 1:
            notes.append(
                f"the regions are those of {comparison.n_fits} fits of the background model; "
                "frames and clips use the first"
            )
        if there:
            frames = tuple(map(Frame, nearest_visits(comparison, there, leading)))
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
        comparison.environment,
        tuple(described.n_episodes.tolist()),
        tuple(described.mean_returns.tolist()),
        frames,
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
        places = [
            f"{feature.name} {feature.with_unit(f'{low:.2g} to {high:.2g}'.replace('-', '−'))}"
            for feature, (low, high) in zip(features[:_CELL_FEATURES], ranges, strict=False)
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
    plans = _plan_clips(explanation, comparison, replayer, n_clips) if n_clips else []
    jobs = clip_jobs(plans, replayer, folder / "clips")
    visits = [frame.visit for frame in explanation.frames] if frames else []
    shown, made = render_visits(replayer, visits, folder / "frames", progress, jobs)
    clips = tuple(plan.clip(file) for plan, file in zip(plans, made, strict=True))
    reasons = [frame.reason for frame in shown] + [clip.reason for clip in clips]
    notes = tuple(dict.fromkeys([*explanation.notes, *filter(None, reasons)]))
    kept = tuple(shown) if frames else explanation.frames
    return replace(explanation, frames=kept, clips=clips, notes=notes)


def _plan_clips(
    explanation: PairExplanation, comparison: ComparisonFolder, replayer: Replayer, n_clips: int
) -> list[ClipPlan]:
    """Plan clips of the largest difference, then of both policies from the same seeds."""
    (a, b), length = explanation.labels, _clip_steps(replayer)

    def largest() -> tuple[str, list[Segment]]:
        """Take the segment of each policy in which it differs most from the other."""
        segments, texts = [], []
        for which, label in enumerate(explanation.labels):
            own = comparison.states[label]
            regions, _ = assign_regions(own, comparison.mixture)
            values, every = explanation.region_values(which)[regions], own.records[0].every
            window = best_window(values, own.episode_starts, max(1, length // every))
            episode, first, last = window[0], every * window[1], every * window[2]
            replay = replayer.stored(label, episode)
            last = min(last, replay.last)
            segments.append(Segment.of(comparison, replay, first, last))
            seed = f"episode {episode} (seed {replay.seed})"
            texts.append(f"{label}, {seed}, steps {first} to {last}")
        caption = (
            f"left: {texts[0]}; right: {texts[1]}; two different episodes, chosen because in them "
            "each policy differs most from the other"
        )
        return caption, segments

    def same_seed(number: int) -> tuple[str, list[Segment]]:
        """Let both policies play from the seed of the first one's n-th stored episode."""
        if comparison.has_states([a]):
            first = replayer.stored(a, min(number, comparison.states[a].n_episodes - 1))
            seed = f"the seed of its stored episode {first.episode}"
        else:
            first, seed = replayer.on_seed(a, number), "a seed"
        replays = first, replayer.on_seed(b, first.seed)
        segments = [
            Segment.of(comparison, replay, 0, min(replay.last, _FROM_START * length))
            for replay in replays
        ]
        ends = " and ".join(str(segment.last) for segment in segments)
        caption = (
            f"left: {a}; right: {b}; both from seed {first.seed} ({seed}, not chosen for what "
            f"happens), up to step {ends}"
        )
        return caption, segments

    plans = []
    significant = not explanation.decomposition.regions.noise.all()
    if comparison.has_states(explanation.labels) and comparison.has_regions and significant:
        plans.append(ClipPlan.of("Where the difference is largest", largest))
    for number in range(n_clips - len(plans)):
        title = "Both from the same initial state" + (", another episode" if number else "")
        plans.append(ClipPlan.of(title, same_seed, number))
    return plans


def _clip_steps(replayer: Replayer) -> int:
    """Return the number of steps that fill a clip in the environment's time."""
    if replayer.problem():
        return _MAX_STEPS  # the clips themselves will say why
    return min(_MAX_STEPS, max(10, round(_SECONDS * replayer.scene.fps)))


def plan_first_episode(
    comparison: ComparisonFolder, replayer: Replayer, label: str, title: str
) -> ClipPlan:
    """Plan a clip of the first stored episode of a policy, from its start."""

    def first_episode() -> tuple[str, list[Segment]]:
        replay = replayer.stored(label, 0)
        last = min(replay.last, _FROM_START * _clip_steps(replayer))
        seed = f"seed {replay.seed}, not chosen for what happens"
        segment = Segment.of(comparison, replay, 0, last)
        return f"{label}, episode 0 ({seed}), up to {last}", [segment]

    return ClipPlan.of(title, first_episode)
