"""What differs between two policies of a comparison: numbers first, then pictures and clips."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Range, checked
from pivec.characterizations import WHERE, BackgroundModel, Decomposition
from pivec.errors import UsageError
from pivec.explanations.changes import p_values
from pivec.explanations.folder import ComparisonFolder
from pivec.explanations.names import Feature, region_names
from pivec.explanations.visits import Frame, nearest_visits
from pivec.files import file_name
from pivec.options import CollectOptions
from pivec.parallel import Engine, on_engine
from pivec.policies import fingerprint_of
from pivec.results import Result, Row, plain
from pivec.statistics import RATE, benjamini_hochberg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# -----------------------------------------------------------------------------
# The difference of two policies: which regions make up their distance, with pictures and clips.


Array = NDArray[np.float64]
MOST = 6  # regions that are shown
_MAIN_SHARE = 2 / 3  # of the distance, that the headline's regions make up


@dataclass(frozen=True)
class Clip:
    """A short film, or why there is none."""

    title: str
    caption: str  # who plays which episode, and from which step to which
    path: Path | None = None
    reason: str = ""


@dataclass(frozen=True)
class Shift:
    """How the mean of a feature differs between two policies within a region."""

    feature: int
    part: float  # of the distance
    value: float  # b − a, in the environment's units
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class PairExplanation(Result):
    """What differs between two policies; made by `pivec.explain`."""

    decomposition: Decomposition
    features: tuple[Feature, ...]  # names and units
    leading: tuple[int, ...]  # the regions that are shown, the largest part first
    environment: str = ""
    episodes: tuple[int, int] = (0, 0)
    mean_returns: tuple[float, float] = (math.nan, math.nan)
    # The state nearest to the middle of a region, by policy and region.
    frames: Mapping[tuple[str, int], Frame] = field(default_factory=dict)
    clips: tuple[Clip, ...] = ()
    notes: tuple[str, ...] = ()  # what had to be assumed, and what could not be made

    @property
    def labels(self) -> tuple[str, str]:
        """The two policies, as a and b everywhere."""
        return self.decomposition.labels

    @property
    def different(self) -> bool | None:
        """Whether chance does not explain the distance; None where that is not known."""
        p = self.decomposition.p_value
        return None if math.isnan(p) else p <= RATE

    def share(self, region: int) -> float:
        """Share of the distance, as it was measured, that a region has."""
        e = self.decomposition
        return float(e.regions.measured[region]) / e.distance if e.distance > 0 else 0.0

    def significant_shifts(self, region: int) -> list[Shift]:
        """How features differ within a region, if more than by chance; what matters most first."""
        e = self.decomposition
        result = []
        for column, (kind, feature) in enumerate(e.columns):
            part = float(e.finest.measured[region, column])
            if kind != WHERE or feature < 0 or e.finest.noise[region, column]:
                continue
            value, low, high = (
                float(x[region, feature]) for x in (e.shift, e.shift_low, e.shift_high)
            )
            # Where a policy hardly is, its place counts as the middle: the part may be of that.
            if low > 0.0 or high < 0.0:
                result.append(Shift(feature, part, value, low, high))
        return sorted(result, key=lambda shift: -shift.part)

    def average_shifts(self) -> list[Shift]:
        """How features differ over all of the time, if more than by chance; the largest first.

        Largest in proportion to how far the regions are spread; that is their ``part``. As of all
        that is shown as sure, about one in twenty may be chance.
        """
        e = self.decomposition
        extents = e.ranges[:, :, 1].max(axis=0) - e.ranges[:, :, 0].min(axis=0)
        ends = e.average_shift_low, e.average_shift_high
        half = 0.5 * (e.average_shift_high - e.average_shift_low)
        freedom = max(min(self.episodes) - 1.0, 1.0)
        p = p_values(e.average_shift, half, freedom, e.level)
        sure = benjamini_hochberg(p) <= RATE
        shifts = [
            Shift(
                number,
                abs(float(e.average_shift[number])) / float(extents[number]),
                *(float(values[number]) for values in (e.average_shift, *ends)),
            )
            for number in np.flatnonzero(sure & (extents > 0.0)).tolist()
        ]
        return sorted(shifts, key=lambda shift: -shift.part)

    def headline(self) -> str:
        """Say how far apart the two are, and how few regions make up most of it."""
        (a, b), e = self.labels, self.decomposition
        if self.different is None:
            return f"{a} and {b} are {e.distance:.3g} apart; how sure that is, is not known"
        sure = [region for region in self.leading if not e.regions.noise[region]]
        spread = f"({max(e.low, 0.0):.3g} to {e.high:.3g})"
        if not self.different:
            yet = f"; {len(sure)} of the regions may still differ" if sure else ""
            return (
                f"{a} and {b} cannot be told apart: chance explains their distance, "
                f"{max(e.estimate, 0.0):.3g} {spread}{yet}"
            )
        apart = f"{a} and {b} are {e.estimate:.3g} apart {spread}"
        if len(e.order) < 2 or not sure:
            return apart
        sums = np.cumsum([self.share(region) for region in sure])
        n = min(int(np.searchsorted(sums, _MAIN_SHARE)) + 1, len(sure))
        regions = "1 region makes" if n == 1 else f"{n} regions make"
        return f"{apart}; {regions} up {100 * min(sums[n - 1], 1.0):.0f} % of it"

    def rows(self) -> list[Row]:
        """Give a row a region: its part of the distance, the time of both, the main shift."""
        return self.decomposition.rows()

    def figure(self) -> Figure:
        """Draw the largest parts of the distance, and the time that both spend there."""
        from pivec.characterizations import decomposition_figure

        return decomposition_figure(self.decomposition, self.headline())

    def to_json(self) -> dict[str, Any]:
        """Give all numbers as plain values; NaN is None."""
        frames = [
            {"region": region, "visit": plain(frame.visit), **_picture(frame)}
            for (_, region), frame in self.frames.items()
        ]
        return {
            "headline": self.headline(),
            "told_apart": self.different,
            "environment": self.environment,
            "features": plain(self.features),
            "leading": list(self.leading),
            "episodes": list(self.episodes),
            "mean_returns": plain(self.mean_returns),
            "explanation": self.decomposition.to_json(),
            "frames": frames,
            "clips": [shown_clip(clip) for clip in self.clips],
            "notes": list(self.notes),
        }


def leading_regions(explanation: Decomposition, most: int = MOST) -> tuple[int, ...]:
    """Give the regions with the largest parts that are not chance; if all are, the largest."""
    order = explanation.order.tolist()
    sure = [region for region in order if not explanation.regions.noise[region]]
    return tuple((sure or order[:3])[:most])


def shown_clip(clip: Clip) -> dict[str, Any]:
    """Give a clip as plain values."""
    return {"title": clip.title, "words": clip.caption, **_picture(clip)}


def _picture(made: Frame | Clip) -> dict[str, Any]:
    """Name a picture from the folder above its own, where explain.json is."""
    file = made.path
    return {
        "picture": None if file is None else f"{file.parent.name}/{file.name}",
        "reason": made.reason,
    }


FOLDER = "explain"  # beside the states of a comparison
_TOLD = 4  # features of a cell
_NAME = 60  # letters of a policy's name in that of a folder
Level = Annotated[float, Range(0.5, most=0.999)]


@on_engine
@checked
def explain(
    where: Any,
    a: str,
    b: str,
    *,
    frames: bool = True,
    clips: Annotated[int, Range(0, most=20)] = 2,
    top: Count = MOST,
    level: Level = 0.95,
    env: Any = None,
    policies: Any = None,
    out: str | Path | None = None,
    options: CollectOptions | None = None,
    engine: str | Engine = "auto",  # noqa: ARG001  (as the next, of `on_engine`)
    jobs: Count | None = None,  # noqa: ARG001
    progress: bool = False,
) -> PairExplanation:
    """Tell what differs between two policies: where one is and the other is not, with pictures.

    Parameters
    ----------
    where : path, Comparison or ComparisonFolder
        The folder of a comparison by visitation, supervector, gaussian or discretization.
    a, b : str
        Names of the policies, or the ends of them.
    frames : bool
        Draw states of both in the regions that differ most; environments are played again for it.
    clips : int
        Short films of both: the first where the difference is largest, the others side by side
        from the same seeds.
    top : int
        Regions that are shown, at most.
    level : float
        Certainty of intervals.
    env : str, callable or None
        The environment, where the folder does not tell it, as of one that a function makes.
    policies : as in `pivec.collect`, optional
        Those that acted, where the folder does not tell where they are.
    out : path, optional
        The folder for pictures; ``explain/`` in that of the comparison if not given.
    options : CollectOptions, optional
        Arguments of the environment, ``wrappers``, ``imports``, ``features`` and ``trust``.
    engine, jobs : optional
        Where pictures are made, as `pivec.using` takes it; in processes if not given.
    progress : bool
        Draw progress bars.

    Returns
    -------
    PairExplanation

    Examples
    --------
    >>> import tempfile, pivec
    >>> policies = {"frame": lambda seen: 0 * seen[:, 0].astype(int), "random": "random"}
    >>> folder = tempfile.mkdtemp()
    >>> done = pivec.compare("CartPole-v1", policies, folder, episodes=5, components=4)
    >>> explain(done, "frame", "random", frames=False, clips=0).different
    True
    """
    findings = ComparisonFolder.open(where)
    difference = explain_pair(findings, a, b, top=top, level=level)
    if not frames and not clips:
        return difference
    from pivec.explanations.films import with_media
    from pivec.explanations.replay import Replayer

    folder = Path(out) if out is not None else pair_folder(findings, difference)
    replayer = Replayer(findings, env, policies, options)
    return with_media(difference, findings, replayer, folder, frames, clips, progress)


def explain_pair(
    findings: ComparisonFolder, a: str, b: str, *, top: int = MOST, level: float = 0.95
) -> PairExplanation:
    """Take the distance of two policies apart; no pictures yet."""
    infos = [findings.find(name) for name in (a, b)]
    labels = [info.label for info in infos]
    if labels[0] == labels[1]:
        raise UsageError(
            f"expected two policies, but {a!r} and {b!r} are both {labels[0]}: name another"
        )
    explanation, notes = _explained(findings, labels, level)
    method = findings.space.method
    features = findings.features
    words, frames = explanation.words, {}
    leading = leading_regions(explanation, top)
    if isinstance(method, BackgroundModel):
        words = region_names(method, features)
        if len(method.mixtures_) > 1:
            notes.append(
                f"regions of {len(method.mixtures_)} fits of the background model lie side by "
                "side: pictures and clips know those of the first"
            )
        kept = [label for label in labels if findings.data and label in findings.data.labels]
        visits = nearest_visits(findings, kept, leading) if kept else {}
        frames = {place: Frame(visit) for place, visit in visits.items()}
    else:
        if len(words) > 1:
            words = _told_cells(explanation, features)
        notes.append(
            f"{method.name} has no regions that a state could be found for: compare with --method "
            "visitation for pictures of them"
        )
    described = findings.space.descriptions
    rows = [described.labels.index(label) for label in labels]
    return PairExplanation(
        explanation.named(words, tuple(feature.name for feature in features)),
        features,
        leading,
        environment=str(findings.space.collected.get("environment", "")),
        episodes=tuple(int(described.n_episodes[row]) for row in rows),  # type: ignore[arg-type]
        mean_returns=tuple(float(described.mean_returns[row]) for row in rows),  # type: ignore[arg-type]
        frames=frames,
        notes=tuple(notes),
    )


def _told_cells(explanation: Decomposition, features: Sequence[Feature]) -> tuple[str, ...]:
    """Tell cells by where they are; of many features by the first."""
    words = []
    for name, ranges in zip(explanation.words, explanation.ranges.tolist(), strict=True):
        ends = [" to ".join(f"{end:.2g}".replace("-", "−") for end in pair) for pair in ranges]
        places = [
            f"{feature.name} {place}{f' {feature.unit}' if feature.unit else ''}"
            for feature, place in zip(features[:_TOLD], ends, strict=False)
        ]
        words.append(f"{', '.join(places)} ({name})")
    return tuple(words)


def _explained(
    findings: ComparisonFolder, labels: list[str], level: float
) -> tuple[Decomposition, list[str]]:
    """Take the distance apart by the states where they are kept, else by the descriptions."""
    method, described = findings.space.method, findings.space.descriptions
    data = findings.data
    missing = [label for label in labels if data is None or label not in data.labels]
    if data is not None and not missing:
        return method.decompose(data[labels[0]], data[labels[1]], level), []
    first, second = (described.select([described.labels.index(label)]) for label in labels)
    note = f"the states of {' and '.join(missing)} are not kept here: numbers are from the space"
    return method.decompose(first, second, level), [note]


def pair_folder(findings: ComparisonFolder, difference: PairExplanation) -> Path:
    """Give the folder for what is left of a difference: another one for another pair."""
    labels = [info.label for info in findings.policies]
    known = Counter(file_name(label, _NAME) for label in labels)
    names = []
    for label in difference.labels:
        name = file_name(label, _NAME)
        # Labels that differ only in signs that no file may have.
        names.append(name if known[name] == 1 else f"{name}-{fingerprint_of(label)[:6]}")
    return findings.folder / FOLDER / "--".join(names)


# -----------------------------------------------------------------------------
# What differs in a whole comparison: notable pairs, and the policy in the middle of behaviours.


@dataclass(frozen=True, repr=False)
class Overview(Result):
    """Notable pairs of a comparison, each with what differs, and behaviours to watch."""

    differences: Sequence[tuple[str, PairExplanation]]  # with what makes the pair notable
    behaviours: Sequence[Clip] = ()  # of the policy in the middle of each, largest first
    notes: Sequence[str] = ()

    @property
    def environment(self) -> str:
        """Where the policies act."""
        return self.differences[0][1].environment

    def headline(self) -> str:
        """Say how far apart the pairs are."""
        return "; ".join(f"{title}: {pair.headline()}" for title, pair in self.differences)

    def rows(self) -> list[Row]:
        """Give the rows of all pairs, with what makes them notable."""
        return [
            {"pair": title, "policy": pair.labels[0], "other": pair.labels[1]} | row
            for title, pair in self.differences
            for row in pair.rows()
        ]

    def figure(self) -> Figure:
        """Draw the parts of the last pair, the farthest."""
        return self.differences[-1][1].figure()

    def to_json(self) -> dict[str, Any]:
        """Give all numbers as plain values; NaN is None."""
        return {
            "pairs": [{"pair": title} | pair.to_json() for title, pair in self.differences],
            "behaviours": [shown_clip(clip) for clip in self.behaviours],
            "notes": list(self.notes),
        }
