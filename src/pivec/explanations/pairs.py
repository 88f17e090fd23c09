"""What differs between two policies: numbers, then frames and clips of their episodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.characterizations import OFTEN, STRATA, WHERE, Decomposition, decomposition_figure
from pivec.errors import UsageError
from pivec.explanations.clips import (
    Clip,
    ClipPlan,
    OnDrawn,
    Replay,
    Segment,
    best_window,
    clip_jobs,
)
from pivec.explanations.differences import CLEARLY, Level, interval_p_values, worth_listing
from pivec.explanations.folder import FOLDER, ComparisonFolder
from pivec.explanations.kinds import EpisodeDifference, compare_episodes
from pivec.explanations.motion import Motion, compare_motion
from pivec.explanations.names import Feature, with_names
from pivec.explanations.regions import (
    Frame,
    assign_regions,
    nearest_visits,
    render_visits,
    times_of,
)
from pivec.explanations.replay import Replayer
from pivec.explanations.rules import Rules, separating_rules
from pivec.files import file_name
from pivec.policies import fingerprint_of
from pivec.results import Explanation, Row, plain
from pivec.states import is_filmed
from pivec.statistics import MARGIN, RATE, benjamini_hochberg
from pivec.text import rounded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOP = 6  # regions that are shown, if need be merged
_LEAST = 0.01  # of the distance, of a region that is shown
_MAIN_SHARE = 2 / 3  # of the distance, covered by the regions in the headline
_SPREADS = 2  # features whose spread is in the summary
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
    features: tuple[Feature, ...]  # and their steps, where moves are described
    leading: tuple[int, ...]  # rows of ``parts`` that are shown, largest part first
    environment: str = ""
    episodes: tuple[int, ...] = (0, 0)
    mean_returns: tuple[float, ...] = (math.nan, math.nan)
    frames: tuple[Frame, ...] = ()  # the states of both nearest to the centres of regions
    clips: tuple[Clip, ...] = ()
    notes: tuple[str, ...] = ()  # assumptions, and what could not be made
    motion: Motion | None = None  # in the same places; None without moves, or without their states
    whole: EpisodeDifference | None = None  # of episodes as a whole; None without regions or states
    rules: Rules | None = None  # that separate both; None with few episodes, or without states

    @property
    def labels(self) -> tuple[str, str]:
        """The two policies, a and b."""
        return self.decomposition.labels

    @property
    def parts(self) -> Decomposition:
        """The parts that are shown: of merged regions, or of all if there are few."""
        return self.decomposition.merged or self.decomposition

    @property
    def different(self) -> bool | None:
        """Whether the distance is significant; None if that is not known."""
        low = self.decomposition.low
        return None if math.isnan(low) else low > 0.0

    def share(self, region: int) -> float:
        """Share of the measured distance that a row of ``parts`` contributes."""
        d = self.parts
        return float(d.regions.measured[region]) / d.distance if d.distance > 0 else 0.0

    def frame(self, label: str, region: int) -> Frame | None:
        """Find the frame of a policy in a row of ``parts``."""
        own, visits = self.parts.members[region], [frame.visit for frame in self.frames]
        found = [visit.policy == label and visit.region in own for visit in visits]
        return next(compress(self.frames, found), None)

    def significant_shifts(self, region: int) -> list[Shift]:
        """Features whose mean in a row of ``parts`` differs significantly, largest part first."""
        d = self.parts
        result = []
        for column, (kind, feature) in enumerate(d.columns):
            if kind != WHERE or feature < 0 or d.finest.noise[region, column]:
                continue
            ends = (float(x[region, feature]) for x in (d.shift, d.shift_low, d.shift_high))
            shift = Shift(feature, float(d.finest.measured[region, column]), *ends)
            # A policy that is hardly ever there counts as at the centre, which alone is no shift.
            if shift.low > 0.0 or shift.high < 0.0:
                result.append(shift)
        return self._without_echoes(result)

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
        excludes = (d.average_shift_low > 0.0) | (d.average_shift_high < 0.0)
        for number in np.flatnonzero((q <= RATE) & (extents > 0.0) & excludes).tolist():
            ends = d.average_shift, d.average_shift_low, d.average_shift_high
            value, low, high = (float(values[number]) for values in ends)
            shifts.append(Shift(number, abs(value) / float(extents[number]), value, low, high))
        return self._without_echoes(shifts)

    def spread_ratios(self) -> list[Shift]:
        """Features whose spread over all time differs significantly, largest ratio first.

        ``value`` is the standard deviation of b relative to that of a; ratios near 1 are left out.
        About one in twenty of these may be chance (false discovery rate).
        """
        d = self.decomposition
        logs, low, high = map(_logs, (d.spread_ratio, d.spread_ratio_low, d.spread_ratio_high))
        freedom = max(min(self.episodes) - 1.0, 1.0)
        q = benjamini_hochberg(interval_p_values(logs, 0.5 * (high - low), freedom, d.level))
        large = (q <= RATE) & (np.abs(logs) >= math.log(CLEARLY)) & ((low > 0.0) | (high < 0.0))
        return self._without_echoes(
            [
                Shift(j, abs(float(logs[j])), *(math.exp(x[j]) for x in (logs, low, high)))
                for j in np.flatnonzero(large).tolist()
            ]
        )

    def _without_echoes(self, shifts: Sequence[Shift]) -> list[Shift]:
        """Sort by part, without steps that add nothing."""
        features = [self.features[shift.feature] for shift in shifts]
        kept = worth_listing([shift.part for shift in shifts], features)
        return sorted(compress(shifts, kept), key=lambda shift: -shift.part)

    def motion_words(self) -> str:
        """Say how both move if they visit the same places; empty if that does not explain it."""
        if self.motion is None or not self.different:
            return ""
        return self.motion.words(self.decomposition.low)

    def spread_words(self) -> list[str]:
        """Say which features have another spread over all time: "twice the spread of speed"."""
        lines, steps = [], not self.motion_words()  # which say how steps differ
        ratios = [r for r in self.spread_ratios() if steps or not self.features[r.feature].is_step]
        for ratio in ratios[:_SPREADS]:
            feature, spreads = self.features[ratio.feature], self.decomposition.spreads
            values = " → ".join(rounded(float(x), 2) for x in spreads[:, ratio.feature])
            times = _times(ratio.value)
            lines.append(f"{times} the spread of {feature.name} ({feature.with_unit(values)})")
        return lines

    def episode_words(self, names: Sequence[str] | None = None) -> list[str]:
        """Say whether their episodes differ as a whole, and in which kinds; empty if unknown."""
        if self.whole is None:
            return []
        on_average = ""
        if self.decomposition.estimate <= MARGIN:
            how = "the same way" if self.different is False else "nearly the same way"
            on_average = f"both spend their time in {how} on average"
        elif self.different is False:
            on_average = "they do not differ significantly on average"
        return self.whole.words(names or self.labels, on_average)

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
        (a, b), d = self.labels, self.parts
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
        if words := self.motion_words():
            apart += f": {words}"
        if len(d.order) < 2 or not found:
            return apart
        sums = np.cumsum([self.share(region) for region in found])
        n = min(int(np.searchsorted(sums, _MAIN_SHARE)) + 1, len(found))
        merged = self.decomposition.merged is not None
        groups = ("group{} of regions" if merged else "region{}").format("s" * (n > 1))
        make = f"{n} {groups} make{'s' * (n == 1)} up"
        return f"{apart}; {make} {100 * min(sums[n - 1], 1.0):.0f} % of it"

    def rows(self) -> list[Row]:
        """Return one row per region: its part of the distance, both shares of time, main shift."""
        return self.parts.rows()

    def figure(self) -> Figure:
        return decomposition_figure(self.parts, self.headline())

    def to_json(self) -> dict[str, Any]:
        words: dict[str, Any] = {"motion_words": self.motion_words()}
        words |= {"spread_words": self.spread_words(), "episode_words": self.episode_words()}
        words |= {"rules_words": self.rules.words() if self.rules else []}
        return super().to_json() | {"significant": self.different} | words


def _logs(ratios: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms of ratios; NaN of those that are not known, or infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(ratios)
    return np.where(np.isfinite(logs), logs, np.nan)


def _times(ratio: float) -> str:
    """Write a ratio in words: "twice", "half", "1.4 times"."""
    text = rounded(ratio, 2)
    return {"2": "twice", "2.0": "twice", "0.5": "half", "0.50": "half"}.get(text, f"{text} times")


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
    comparison: Any, a: str, b: str, *, top: Count = TOP, level: Level = 0.95
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
    method, features = comparison.space.method, comparison.columns
    described = comparison.space.descriptions.select(
        [comparison.space.descriptions.labels.index(label) for label in labels]
    )
    there = [label for label in labels if comparison.has_states([label])]
    notes, motion, rules = [], None, None
    if len(there) == 2:
        both = [comparison.states[label] for label in labels]
        rows = described.select([0]), described.select([1])
        is_paired = STRATA in described.arrays  # which the states do not show
        decomposition = method.decompose(*(rows if is_paired else both), level, top)
        motion = compare_motion(method, both[0], both[1], level)
        rules = separating_rules(method, both[0], both[1], features, level)
    else:
        rows = described.select([0]), described.select([1])
        decomposition = method.decompose(*rows, level, top)
        missing = " and ".join(label for label in labels if label not in there)
        notes.append(f"the states of {missing} are not stored here: numbers come from the space")
    parts = decomposition.merged or decomposition
    leading = leading_regions(parts, top)
    frames: tuple[Frame, ...] = ()
    if comparison.has_regions:
        mixture = comparison.background.background_
        decomposition = with_names(decomposition, mixture, features, comparison.region_names)
        if comparison.n_fits > 1:
            notes.append(
                f"the regions are those of {comparison.n_fits} fits of the background model; "
                "frames and clips use the first"
            )
        if there:
            # Of merged regions, the one in which a policy is most often shows what it does there.
            visits = nearest_visits(comparison, there, range(len(decomposition.words)))
            best = {
                (label, max(parts.members[row], key=lambda r: decomposition.share[side, r]))
                for row in leading
                for side, label in enumerate(labels)
            }
            frames = tuple(Frame(v) for v in visits if (v.policy, v.region) in best)
    else:
        names = decomposition.words
        if len(names) > 1:
            names = _cell_names(decomposition, features)
        decomposition = decomposition.named(names, tuple(feature.name for feature in features))
        notes.append(
            f"{method.name} has no regions with states near their centre: compare with --method "
            "visitation for pictures of them"
        )
    return PairExplanation(
        decomposition,
        features,
        leading,
        comparison.environment,
        tuple(described.n_episodes.tolist()),
        tuple(described.mean_returns.tolist()),
        frames,
        notes=tuple(notes),
        motion=motion,
        whole=compare_episodes(comparison, *labels),
        rules=rules,
    )


def leading_regions(decomposition: Decomposition, most: int = TOP) -> tuple[int, ...]:
    """Return the regions with the largest significant parts; if there are none, the largest.

    Tiny parts are left out.
    """
    order, parts = decomposition.order.tolist(), decomposition.regions
    least = _LEAST * decomposition.distance
    found = [r for r in order if not parts.noise[r] and parts.measured[r] >= least]
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
    on_drawn: OnDrawn | None = None,
) -> PairExplanation:
    """Add frames of both policies in the leading regions, and clips; ``notes`` says what failed."""
    plans = _plan_clips(explanation, comparison, replayer, n_clips) if n_clips else []
    jobs = clip_jobs(plans, replayer, folder / "clips")
    visits = [frame.visit for frame in explanation.frames] if frames else []
    shown, made = render_visits(replayer, visits, folder / "frames", progress, jobs, on_drawn)
    clips = tuple(plan.clip(file) for plan, file in zip(plans, made, strict=True))
    reasons = [frame.reason for frame in shown] + [clip.reason for clip in clips]
    notes = tuple(dict.fromkeys([*explanation.notes, *filter(None, reasons)]))
    kept = tuple(shown) if frames else explanation.frames
    return replace(explanation, frames=kept, clips=clips, notes=notes)


def _plan_clips(
    explanation: PairExplanation, comparison: ComparisonFolder, replayer: Replayer, n_clips: int
) -> list[ClipPlan]:
    """Plan clips of the largest difference, then of both policies from the same seeds."""
    (a, b), length = explanation.labels, _clip_steps(replayer, explanation.labels[0])
    filmed = any(is_filmed(comparison.find(label)) for label in (a, b))

    def largest() -> tuple[str, list[Segment]]:
        """Take the segment of each policy in which it differs most from the other."""
        segments, texts = [], []
        for which, label in enumerate(explanation.labels):
            own = comparison.states[label]
            rows = comparison.background.view(own)
            regions, _ = assign_regions(rows, comparison.mixture)
            values, every = explanation.region_values(which)[regions], own.records[0].every
            apart = 2 * every if every > 1 and rows is not own else every  # steps per row
            window = best_window(values, rows.episode_starts, max(1, length // apart))
            episode, times = window[0], times_of(rows, own)[rows.episode_starts[window[0]] :]
            first, last = times[list(window[1:])].tolist()
            replay = replayer.stored(label, episode)
            last = min(last, replay.last)
            segments.append(Segment.of(comparison, replay, first, last))
            seed = f"episode {episode} ({replay.origin})"
            texts.append(f"{label}, {seed}, steps {first} to {last}")
        caption = (
            f"{texts[0]}; {texts[1]}; two different episodes, chosen because in them "
            "each policy differs most from the other"
        )
        return caption, segments

    def stored(label: str, number: int) -> Replay:
        return replayer.stored(label, min(number, comparison.states[label].n_episodes - 1))

    def same_seed(number: int) -> tuple[str, list[Segment]]:
        """Let both policies play from the seed of the first one's n-th stored episode."""
        if comparison.has_states([a]):
            first = stored(a, number)
            seed = f"the seed of its stored episode {first.episode}"
        else:
            first, seed = replayer.on_seed(a, number), "a seed"
        replays = first, stored(b, number) if filmed else replayer.on_seed(b, first.seed)
        segments = [
            Segment.of(comparison, replay, 0, min(replay.last, _FROM_START * length))
            for replay in replays
        ]
        ends = " and ".join(str(segment.last) for segment in segments)
        which = f"both from seed {first.seed} ({seed}, not chosen for what happens)"
        if filmed:
            which = f"their episodes {number} (not chosen for what happens)"
        caption = f"{a}; {b}; {which}, up to step {ends}"
        return caption, segments

    plans = []
    significant = not explanation.decomposition.regions.noise.all()
    if comparison.has_states(explanation.labels) and comparison.has_regions and significant:
        plans.append(ClipPlan.of("Where the difference is largest", largest))
    own = any(comparison.find(label).own_environment for label in explanation.labels)
    start = f"Both from the same {'seed' if own else 'initial state'}"
    start = "Recorded episodes" if filmed else start
    for number in range(n_clips - len(plans)):
        title = start + (", another episode" if number else "")
        plans.append(ClipPlan.of(title, same_seed, number))
    return plans


def _clip_steps(replayer: Replayer, label: str) -> int:
    """Return the number of steps that fill a clip in the environment's time."""
    if replayer.problem([label]):
        return _MAX_STEPS  # the clips themselves will say why
    return min(_MAX_STEPS, max(10, round(_SECONDS * replayer.scene_of(label).fps)))


def plan_first_episode(
    comparison: ComparisonFolder, replayer: Replayer, label: str, title: str
) -> ClipPlan:
    """Plan a clip of the first stored episode of a policy, from its start."""

    def first_episode() -> tuple[str, list[Segment]]:
        replay = replayer.stored(label, 0)
        last = min(replay.last, _FROM_START * _clip_steps(replayer, label))
        seed = f"{replay.origin}, not chosen for what happens"
        segment = Segment.of(comparison, replay, 0, last)
        return f"{label}, episode 0 ({seed}), up to {last}", [segment]

    return ClipPlan.of(title, first_episode)


def plan_episode(
    comparison: ComparisonFolder, replayer: Replayer, label: str, episode: int
) -> ClipPlan:
    """Plan a clip of a whole stored episode."""

    def whole() -> tuple[str, list[Segment]]:
        replay = replayer.stored(label, episode)
        return f"{replay.origin}, {replay.last} steps", [
            Segment.of(comparison, replay, 0, replay.last)
        ]

    return ClipPlan.of(f"{label}, episode {episode}", whole)
