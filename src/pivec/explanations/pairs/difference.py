"""The difference of two policies: which regions make up their distance, with pictures and clips."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.explanation import WHERE, Explanation
from pivec.distances.discoveries import RATE, benjamini_hochberg
from pivec.explanations.regions.names import Feature
from pivec.explanations.regions.visits import Visit
from pivec.explanations.runs.changes import p_values
from pivec.results import Result, Row, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
MOST = 6  # regions that are shown
_MAIN_SHARE = 2 / 3  # of the distance, that the headline's regions make up


@dataclass(frozen=True)
class Still:
    """A state that a policy visited, and its picture or why there is none."""

    visit: Visit
    picture: Path | None = None
    reason: str = ""


@dataclass(frozen=True)
class Clip:
    """A short film, or why there is none."""

    title: str
    words: str  # who plays which episode, and from which step to which
    picture: Path | None = None
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
class Difference(Result):
    """What differs between two policies; made by `pivec.explain`."""

    explanation: Explanation
    features: tuple[Feature, ...]  # names and units
    leading: tuple[int, ...]  # the regions that are shown, the largest part first
    environment: str = ""
    episodes: tuple[int, int] = (0, 0)
    mean_returns: tuple[float, float] = (math.nan, math.nan)
    # The state nearest to the middle of a region, by policy and region.
    stills: Mapping[tuple[str, int], Still] = field(default_factory=dict)
    clips: tuple[Clip, ...] = ()
    notes: tuple[str, ...] = ()  # what had to be assumed, and what could not be made

    @property
    def labels(self) -> tuple[str, str]:
        """The two policies, as a and b everywhere."""
        return self.explanation.labels

    @property
    def told_apart(self) -> bool | None:
        """Whether chance does not explain the distance; None where that is not known."""
        p = self.explanation.p_value
        return None if math.isnan(p) else p <= RATE

    def share(self, region: int) -> float:
        """Share of the distance, as it was measured, that a region has."""
        e = self.explanation
        return float(e.regions.measured[region]) / e.distance if e.distance > 0 else 0.0

    def sure_shifts(self, region: int) -> list[Shift]:
        """How features differ within a region, if more than by chance; what matters most first."""
        e = self.explanation
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
        e = self.explanation
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
        (a, b), e = self.labels, self.explanation
        if self.told_apart is None:
            return f"{a} and {b} are {e.distance:.3g} apart; how sure that is, is not known"
        sure = [region for region in self.leading if not e.regions.noise[region]]
        spread = f"({max(e.low, 0.0):.3g} to {e.high:.3g})"
        if not self.told_apart:
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
        return self.explanation.rows()

    def figure(self) -> Figure:
        """Draw the largest parts of the distance, and the time that both spend there."""
        from pivec.characterizations.explanation_figure import explanation_figure

        return explanation_figure(self.explanation, self.headline())

    def to_json(self) -> dict[str, Any]:
        """Give all numbers as plain values; NaN is None."""
        stills = [
            {"region": region, "visit": plain(still.visit), **_picture(still)}
            for (_, region), still in self.stills.items()
        ]
        return {
            "headline": self.headline(),
            "told_apart": self.told_apart,
            "environment": self.environment,
            "features": plain(self.features),
            "leading": list(self.leading),
            "episodes": list(self.episodes),
            "mean_returns": plain(self.mean_returns),
            "explanation": self.explanation.to_json(),
            "stills": stills,
            "clips": [shown_clip(clip) for clip in self.clips],
            "notes": list(self.notes),
        }


def leading_regions(explanation: Explanation, most: int = MOST) -> tuple[int, ...]:
    """Give the regions with the largest parts that are not chance; if all are, the largest."""
    order = explanation.order.tolist()
    sure = [region for region in order if not explanation.regions.noise[region]]
    return tuple((sure or order[:3])[:most])


def shown_clip(clip: Clip) -> dict[str, Any]:
    """Give a clip as plain values."""
    return {"title": clip.title, "words": clip.words, **_picture(clip)}


def _picture(made: Still | Clip) -> dict[str, Any]:
    """Name a picture from the folder above its own, where explain.json is."""
    file = made.picture
    return {
        "picture": None if file is None else f"{file.parent.name}/{file.name}",
        "reason": made.reason,
    }
