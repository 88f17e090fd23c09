"""The regions of a space: in words, who visits them and when, and what was seen in their middle."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.characterizations import region_ranges
from pivec.explanations.folder import ComparisonFolder, Worded
from pivec.explanations.frames import EPISODES, region_frames
from pivec.explanations.names import Feature
from pivec.explanations.replay import Replayer
from pivec.explanations.visits import Frame, Near, Visit, sightings, words_of_when
from pivec.figures import (
    GROUP_PALETTE,
    HAIRLINE,
    INK,
    MUTED,
    add_heading,
    add_panel_title,
    axes_at,
    literal,
    new_figure,
)
from pivec.options import ReplayOptions
from pivec.parallel import on_engine
from pivec.results import Result, Row, plain
from pivec.states import VisitedStates
from pivec.text import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RegionSummary:
    """A region of a space, with a face.

    Attributes
    ----------
    number : int
        Of the component of the background model, from 0 on.
    name : str
        What sets it apart from all states.
    share : float
        Of time that the policies spend there; policies count the same.
    highest, lowest : (str, float)
        Who spends most and least time there, and the share of it.
    when : tuple of 10 floats
        How the visits are spread over an episode, by tenths; NaN if there are no states.
    begins, ends : float
        Shares of episodes that begin there, and that end there.
    visits : tuple of Visit
        The states nearest to its middle, of different policies, nearest first.
    ranges : tuple of (float, float)
        Of every feature, from where to where 80 % of the region lie, in the environment's units.
    frame : Frame or None
        A picture of a state near its middle: ``visit`` and ``path``.
    """

    number: int
    name: str
    share: float
    highest: tuple[str, float]
    lowest: tuple[str, float]
    when: tuple[float, ...]
    begins: float
    ends: float
    visits: tuple[Visit, ...]
    ranges: tuple[tuple[float, float], ...]
    frame: Frame | None = None

    @property
    def moment(self) -> float:
        """The mean place of its visits in an episode, from 0 to 1; NaN if it is not known."""
        return float(np.dot(self.when, np.arange(0.5, len(self.when)) / len(self.when)))

    @property
    def when_words(self) -> str:
        """When in an episode it is visited."""
        return words_of_when(self.when)


@dataclass(frozen=True, repr=False, eq=False)
class Regions(Result):
    """The regions of a space, by their numbers.

    Attributes
    ----------
    environment : str
    method : str
        The characterization whose background model they are of.
    features : tuple of Feature
        What the numbers of a state mean.
    labels : tuple of str
        The policies.
    shares : (n_policies, n_regions) array
        Of their time in each region.
    regions : tuple of RegionSummary
    notes : tuple of str
        What had to be assumed, or is not known.
    """

    environment: str
    method: str
    features: tuple[Feature, ...]
    labels: tuple[str, ...]
    shares: Array
    regions: tuple[RegionSummary, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.regions)

    def __iter__(self) -> Iterator[RegionSummary]:
        return iter(self.regions)

    def __getitem__(self, number: int) -> RegionSummary:
        return self.regions[number]

    def by_share(self) -> list[RegionSummary]:
        """Give the regions in which most time is spent first."""
        return sorted(self.regions, key=lambda region: (-region.share, region.number))

    def by_moment(self) -> list[RegionSummary]:
        """Give the regions in the order in which episodes get there, unknown moments last."""
        moments = np.array([region.moment for region in self])
        return [self.regions[number] for number in np.argsort(moments, kind="stable")]

    def headline(self) -> str:
        """Say where most time is spent."""
        first = self.by_share()[0]
        where = f" of {self.environment}" if self.environment else ""
        return (
            f"{len(self)} regions{where}; most time, {percent(first.share)}, is spent in region "
            f"{first.number}: {first.name}"
        )

    def rows(self) -> list[Row]:
        """One row a region, that in which most time is spent first."""
        return [
            {
                "region": region.number,
                "name": region.name,
                "share": region.share,
                "when": region.when_words,
                "begins": region.begins,
                "ends": region.ends,
                "highest": region.highest[0],
                "highest_share": region.highest[1],
                "lowest": region.lowest[0],
                "lowest_share": region.lowest[1],
                **dict(zip(("policy", "episode", "step"), _nearest(region), strict=True)),
            }
            for region in self.by_share()
        ]

    def to_json(self, folder: str | Path | None = None) -> dict[str, Any]:
        """Give everything as JSON can hold it; what is not known is None.

        The paths of pictures are those from ``folder``, if it is given.
        """
        result: dict[str, Any] = plain(self)
        for content, region in zip(result["regions"], self, strict=True):
            content["when_words"] = region.when_words
            if region.frame is not None and region.frame.path is not None and folder is not None:
                path = os.path.relpath(region.frame.path, folder)
                content["frame"]["path"] = Path(path).as_posix()
        return result

    def figure(self) -> Figure:
        """Draw a line a region, in the order in which episodes get there: time, and when."""
        return regions_figure(self)


@checked
def summarize_regions(
    where: Any,
    *,
    visits: Count = 3,
    frames: str | Path | None = None,
    progress: bool = False,
    **options: Any,
) -> Regions:
    """Give the regions of a space a face.

    Parameters
    ----------
    where : path, Comparison or ComparisonFolder
        A folder of `pivec.compare` (or what it returned), by visitation or supervector.
    visits : int
        How many states near the middle of each region to name, of different policies.
    frames : path, optional
        Draw a state near the middle of each region, and keep the pictures in this folder: an
        episode is played again from its seed. What cannot be drawn is said in ``notes``.
    progress : bool
        Draw a bar.
    **options
        How episodes are played again, where the folder does not tell: the fields of
        `pivec.options.ReplayOptions`, as ``env`` and ``policies``, and ``engine`` and ``jobs``.

    Returns
    -------
    Regions
        With ``.table()``, ``.figure()`` and, for each region, words, shares of time, when in an
        episode it is visited, and the nearest states that were really visited.

    Examples
    --------
    >>> import pivec, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> result = pivec.compare("CartPole-v1", "random", episodes=5, components=3, out=folder,
    ...                        progress=False)
    >>> faces = summarize_regions(folder)
    >>> len(faces), round(sum(region.share for region in faces), 6)
    (3, 1.0)
    >>> faces[0].visits[0].policy
    'random'
    """
    return _regions(
        ComparisonFolder.open(where), ReplayOptions(**options), visits, frames, progress
    )


@on_engine
def _regions(
    findings: ComparisonFolder,
    replay: ReplayOptions,
    visits: int,
    frames: str | Path | None,
    progress: bool,
) -> Regions:
    most = 1 if frames is None else EPISODES
    result, near = _faces(findings, visits, most, progress)
    if frames is None or near is None:
        return result
    replayer = Replayer(findings, replay.env, replay.policies or None, replay.collecting)
    numbers = range(len(result))
    drawn, reasons = region_frames(replayer, near, findings.states, numbers, frames, progress)
    notes = list(result.notes)
    if missing := len(result) - len(drawn):
        first, *others = reasons or ["no state is kept whose step is known"]
        more = f" (and {len(others)} other reason{'s' * (len(others) > 1)})" if others else ""
        notes.append(f"no picture of {missing} region{'s' * (missing > 1)}: {first}{more}")
    faces = (replace(region, frame=drawn.get(region.number)) for region in result)
    return replace(result, regions=tuple(faces), notes=tuple(notes))


def _faces(
    findings: ComparisonFolder, visits: int, most: int, progress: bool
) -> tuple[Regions, Near | None]:
    """Make regions without pictures, and give the visits: ``most`` episodes of a policy."""
    background, described = findings.background, findings.space.descriptions
    worded, mixture = Worded.of(findings), background.mixtures_[0]
    n, notes = mixture.n_components, []
    if len(background.weights_) > n:
        notes.append(
            f"of {len(background.weights_) // n} fits of the background these are the regions of "
            "the first"
        )
    counts = described.values("counts")[0][:, :n]
    shares = counts / counts.sum(axis=1, keepdims=True)
    labels = described.labels
    near: Near | None = None
    when, begins, ends = np.full((n, 10), np.nan), *np.full((2, n), np.nan)
    nearest: list[tuple[Visit, ...]] = [()] * n
    if findings.data is None:
        notes.append("there are no states beside the space: when and where is not known")
    else:
        seen = sightings(findings.data, mixture, most, progress)
        when, begins, ends, near = seen.when, seen.begins, seen.ends, seen.near
        nearest = _few(near, visits, findings.data, n)
        if missing := len(labels) - findings.data.n_policies:
            notes.append(f"the states of {missing} policies of an earlier space are elsewhere")
    ranges = region_ranges(mixture)
    faces = tuple(
        RegionSummary(
            k,
            worded.regions[k],
            float(shares[:, k].mean()),
            _spender(labels, shares[:, k], int(shares[:, k].argmax())),
            _spender(labels, shares[:, k], int(shares[:, k].argmin())),
            tuple(when[k].tolist()),
            float(begins[k]),
            float(ends[k]),
            nearest[k],
            tuple((low, high) for low, high in ranges[k].tolist()),
        )
        for k in range(n)
    )
    environment = str(findings.space.collected.get("environment", ""))
    return Regions(
        environment, background.name, worded.features, tuple(labels), shares, faces, tuple(notes)
    ), near


def _spender(labels: Sequence[str], shares: Array, number: int) -> tuple[str, float]:
    return labels[number], float(shares[number])


def _few(near: Near, most: int, data: VisitedStates, n: int) -> list[tuple[Visit, ...]]:
    """Give the nearest visits of each region, each of another policy."""
    nearest: list[dict[int, Visit]] = [{} for _ in range(n)]
    for row in np.lexsort((near.distance, near.region)).tolist():
        policy, mine = int(near.policy[row]), nearest[near.region[row]]
        if len(mine) < most and policy not in mine:
            mine[policy] = near.visit(row, data)
    return [tuple(mine.values()) for mine in nearest]


def _nearest(region: RegionSummary) -> tuple[str | None, int | None, int | None]:
    if not region.visits:
        return None, None, None
    visit = region.visits[0]
    return visit.policy, visit.episode, visit.step


# -----------------------------------------------------------------------------
# The figure of regions: a line a region, in the order in which episodes get there.


MOST = 80  # lines
_ROW, _WORDS, _BARS, _STRIP = 0.27, 6.3, 2.1, 2.3
_LETTERS = 98  # of the words of a region


def regions_figure(result: Regions) -> Figure:
    """Draw words, the share of time with that of every policy, and when in an episode it is."""
    most = {region.number for region in result.by_share()[:MOST]}
    shown = [region for region in result.by_moment() if region.number in most]
    height = _ROW * len(shown)
    figure = new_figure(_WORDS + _BARS + _STRIP + 1.5, height + 1.75)
    where = f" of {result.environment}" if result.environment else ""
    less = f" (the {MOST} in which most time is spent)" if len(shown) < len(result) else ""
    add_heading(
        figure,
        f"The {len(result)} regions{where}{less}",
        "From the beginning of an episode to its end",
    )
    left = 0.75
    text, bars, strip = (
        axes_at(figure, left + before, 0.3, width, height)
        for before, width in ((0, _WORDS), (_WORDS, _BARS), (_WORDS + _BARS + 0.3, _STRIP))
    )
    for axes in (text, bars, strip):
        axes.set_ylim(len(shown) - 0.5, -0.5)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set_yticks([])
    _draw_words(text, shown)
    _draw_time(bars, result, shown)
    _draw_when(strip, shown)
    return figure


def _draw_words(axes: Axes, shown: Sequence[RegionSummary]) -> None:
    axes.set_xlim(0, 1)
    axes.set_xticks([])
    for line, region in enumerate(shown):
        axes.text(-0.02, line, str(region.number), ha="right", va="center", fontsize=9,
                  fontweight="bold", color=GROUP_PALETTE[0])  # fmt: skip
        axes.text(
            0, line, literal(_cut(region.name), _LETTERS), va="center", fontsize=8.5, color=INK
        )
        if line:
            axes.axhline(line - 0.5, color=HAIRLINE, linewidth=0.5)
    add_panel_title(axes, "Region", "what sets it apart from all states")


def _cut(words: str) -> str:
    """Leave out the end, which tells least."""
    return words if len(words) <= _LETTERS else words[: _LETTERS - 1] + "…"


def _draw_time(axes: Axes, result: Regions, shown: Sequence[RegionSummary]) -> None:
    """Draw the mean share of time as a bar, and that of each policy as a short line."""
    for line, region in enumerate(shown):
        axes.barh(line, region.share, 0.62, color=GROUP_PALETTE[0], alpha=0.35, linewidth=0)
        spent = result.shares[:, region.number]
        axes.vlines(spent, line - 0.24, line + 0.24, color=GROUP_PALETTE[0], linewidth=0.7,
                    alpha=max(0.15, min(1.0, 12 / len(spent))))  # fmt: skip
    axes.set_xlim(0, float(result.shares[:, [r.number for r in shown]].max()) * 1.02)
    axes.xaxis.set_major_formatter(lambda share, _: percent(share))
    axes.locator_params(axis="x", nbins=3)
    axes.tick_params(length=2.5, width=0.6, labelsize=8.5, color=MUTED, labelcolor=INK)
    axes.grid(axis="x", color=HAIRLINE, linewidth=0.6)
    axes.set_axisbelow(True)
    add_panel_title(axes, "Time spent there", "bar: mean; lines: policies")


def _draw_when(axes: Axes, shown: Sequence[RegionSummary]) -> None:
    """Draw how visits are spread over an episode: the darker, the more of them."""
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("when", ["#FFFFFF", GROUP_PALETTE[1], "#7A3B00"])
    spread = np.array([region.when for region in shown])
    if np.isnan(spread).all():
        axes.set_axis_off()
        axes.text(0, (len(shown) - 1) / 2, "not known: no states", color=MUTED, fontsize=9)
        return
    n = spread.shape[1]
    axes.pcolormesh(np.arange(n + 1) / n, np.arange(len(shown) + 1) - 0.5, spread, cmap=shades,
                    vmin=0, vmax=0.5, edgecolors="white", linewidth=0.8)  # fmt: skip
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 1], ["beginning", "end"])
    axes.tick_params(length=0, labelsize=8.5, labelcolor=INK)
    first, last = axes.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")
    add_panel_title(axes, "When in an episode", "the darker, the more of its visits")
