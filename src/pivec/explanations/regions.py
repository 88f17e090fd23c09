"""The regions of a space: their names, who visits them and when, and states near their centres."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.characterizations import region_ranges
from pivec.explanations.clips import render_frames
from pivec.explanations.folder import ComparisonFolder
from pivec.explanations.names import Feature
from pivec.explanations.replay import CannotReplay, Replay, Replayer
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
from pivec.mixtures import Mixture
from pivec.options import ReplayOptions
from pivec.parallel import on_engine
from pivec.results import Result, Row, plain
from pivec.states import VisitedStates
from pivec.terminal import Progress
from pivec.text import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Numbers = NDArray[np.integer[Any]]
_BLOCK = 1 << 18
_TENTHS = 10  # parts of an episode


@dataclass(frozen=True)
class Visit:
    """A state that a policy visited.

    Attributes
    ----------
    policy : str
        Its label.
    episode, step : int
        Number of the episode, and the environment's step in it, both from 0.
    seed : int or None
        Of the episode; None if it is not known.
    distance : float
        From the centre of the region, in standard deviations (root mean square over features).
    """

    policy: str
    episode: int
    step: int
    seed: int | None
    distance: float


@dataclass(frozen=True)
class Frame:
    """A state that a policy visited, and its picture or why there is none."""

    visit: Visit
    path: Path | None = None
    reason: str = ""


@dataclass(frozen=True)
class RegionSummary:
    """A region of a space.

    Attributes
    ----------
    number : int
        Of the component of the background model, from 0.
    name : str
        The features that distinguish it from all states.
    share : float
        Share of time, averaged over policies.
    highest, lowest : (str, float)
        The policies with the largest and the smallest share of time, and these shares.
    when : tuple of 10 floats
        How its visits are distributed over an episode, by tenths; NaN if there are no states.
    begins, ends : float
        Shares of episodes that begin there, and that end there.
    visits : tuple of Visit
        The states nearest to its centre, of different policies, nearest first.
    ranges : tuple of (float, float)
        For each feature, the range of 80 % of the region, in the environment's units.
    frame : Frame or None
        A picture of a state near its centre.
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
        """Mean position of its visits within an episode, from 0 to 1; NaN if it is not known."""
        return float(np.dot(self.when, np.arange(0.5, len(self.when)) / len(self.when)))

    @property
    def when_words(self) -> str:
        """When in an episode it is visited: "at the end", "throughout"; empty if not known."""
        shares = np.asarray(self.when)
        if np.isnan(shares).any():
            return ""
        for words, part, least in (
            ("at the beginning", slice(0, 2), 0.6),
            ("at the end", slice(8, 10), 0.6),
            ("in the middle", slice(3, 7), 0.7),
            ("in the first half", slice(0, 5), 0.75),
            ("in the second half", slice(5, 10), 0.75),
        ):
            if shares[part].sum() >= least:
                return words
        return "throughout"


@dataclass(frozen=True, repr=False, eq=False)
class Regions(Result):
    """The regions of a space, by number.

    Attributes
    ----------
    environment : str
    method : str
        The characterization with the background model.
    features : tuple of Feature
    labels : tuple of str
        The policies.
    shares : (n_policies, n_regions) array
        Of their time in each region.
    regions : tuple of RegionSummary
    notes : tuple of str
        Assumptions, and what is not known.
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
        """Sort regions by their share of time, largest first."""
        return sorted(self.regions, key=lambda region: (-region.share, region.number))

    def by_moment(self) -> list[RegionSummary]:
        """Sort regions in the order in which episodes reach them, unknown moments last."""
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
        """Return one row per region, largest share of time first."""
        rows = []
        for region in self.by_share():
            nearest = region.visits[0] if region.visits else None
            rows.append(
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
                    "policy": nearest and nearest.policy,
                    "episode": nearest and nearest.episode,
                    "step": nearest and nearest.step,
                }
            )
        return rows

    def to_json(self, folder: str | Path | None = None) -> dict[str, Any]:
        """Return plain values, None for NaN; paths of frames are relative to ``folder``."""
        result: dict[str, Any] = plain(self)
        for content, region in zip(result["regions"], self, strict=True):
            content["when_words"] = region.when_words
            path = None if region.frame is None else region.frame.path
            if path is not None and folder is not None:
                content["frame"]["path"] = Path(os.path.relpath(path, folder)).as_posix()
        return result

    def figure(self) -> Figure:
        """Draw names, shares of time and moments, in the order in which episodes get there."""
        return regions_figure(self)


@on_engine
@checked
def summarize_regions(
    comparison: Any,
    *,
    visits: Count = 3,
    frames: str | Path | None = None,
    replay: ReplayOptions | None = None,
    progress: bool = False,
) -> Regions:
    """Describe the regions of a space: by name, shares of time, and visited states.

    Parameters
    ----------
    comparison : path, Comparison or ComparisonFolder
        A comparison by visitation or supervector.
    visits : int
        Number of states near the centre of each region, of different policies.
    frames : path, optional
        Folder for a picture of a state near the centre of each region; episodes are replayed for
        it. ``notes`` says what could not be rendered.
    replay : ReplayOptions, optional
        How episodes are replayed, where the folder does not say.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Regions

    Examples
    --------
    >>> import pivec, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> result = pivec.compare("CartPole-v1", "random", episodes=5, components=3, out=folder,
    ...                        progress=False)
    >>> regions = summarize_regions(folder)
    >>> len(regions), round(sum(region.share for region in regions), 6)
    (3, 1.0)
    >>> regions[0].visits[0].policy
    'random'
    """
    opened = ComparisonFolder.open(comparison)
    result, near = _summaries(opened, visits, 1 if frames is None else _EPISODES, progress)
    if frames is None or near is None:
        return result
    replayer = Replayer.open(opened, replay)
    drawn, reasons = _region_frames(replayer, near, opened.states, frames, progress)
    notes = list(result.notes)
    if missing := len(result) - len(drawn):
        first, *others = reasons or ["no state is stored whose step is known"]
        more = f" (and {len(others)} other reason{'s' * (len(others) > 1)})" if others else ""
        notes.append(f"no picture of {missing} region{'s' * (missing > 1)}: {first}{more}")
    regions = (replace(region, frame=drawn.get(region.number)) for region in result)
    return replace(result, regions=tuple(regions), notes=tuple(notes))


def _summaries(
    comparison: ComparisonFolder, visits: int, most: int, progress: bool
) -> tuple[Regions, NearVisits | None]:
    """Summarize regions without pictures; also return ``most`` near visits per policy."""
    described, mixture = comparison.space.descriptions, comparison.mixture
    labels, n, notes = described.labels, mixture.n_components, comparison.fit_notes()
    counts = described.values("counts")[0][:, :n]
    shares = counts / counts.sum(axis=1, keepdims=True)
    data, near = comparison.data, None
    when, ends = np.full((n, _TENTHS), np.nan), np.full((2, n), np.nan)
    nearest: list[dict[int, Visit]] = [{} for _ in range(n)]
    if data is None:
        notes.append("no states are stored, so when regions are visited is not known")
    else:
        when, ends, near = visit_statistics(data, mixture, most, progress)
        for row in np.lexsort((near.distance, near.region)).tolist():
            policy, own = int(near.policy[row]), nearest[near.region[row]]
            if len(own) < visits and policy not in own:
                own[policy] = near.visit(row, data)
        if missing := len(labels) - data.n_policies:
            notes.append(f"the states of {missing} policies of an earlier space are elsewhere")

    def policy_share(region: int, row: int) -> tuple[str, float]:
        return labels[row], float(shares[row, region])

    ranges = region_ranges(mixture)
    regions = tuple(
        RegionSummary(
            k,
            comparison.region_names[k],
            float(shares[:, k].mean()),
            policy_share(k, int(shares[:, k].argmax())),
            policy_share(k, int(shares[:, k].argmin())),
            tuple(when[k].tolist()),
            float(ends[0, k]),
            float(ends[1, k]),
            tuple(nearest[k].values()),
            tuple((low, high) for low, high in ranges[k].tolist()),
        )
        for k in range(n)
    )
    method, features = comparison.background.name, comparison.features
    return Regions(
        comparison.environment, method, features, tuple(labels), shares, regions, tuple(notes)
    ), near


# ---- visits: the region of every state, and the states nearest to the centres of regions ----


def assign_regions(
    data: VisitedStates, mixture: Mixture
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the likeliest component of each state, and the distance from its centre.

    The distance is the root mean square over features, in standard deviations of the component.

    Examples
    --------
    >>> mixture = Mixture([0.5, 0.5], [[-1.0], [1.0]], [[0.25], [0.25]], [0.0], [2.0])
    >>> data = VisitedStates.from_arrays([[[[-2.0], [3.0]]]])
    >>> assign_regions(data, mixture)
    (array([0, 1], dtype=int32), array([0., 1.], dtype=float32))
    """
    region = np.empty(data.n_states, dtype=np.int32)
    distance = np.empty(data.n_states, dtype=np.float32)
    deviations = np.sqrt(mixture.variances)
    first = 0
    for block in data.blocks(_BLOCK):
        rows = slice(first, first + len(block))
        own, _ = mixture.assign(block)
        z = (mixture.standardise(block) - mixture.means[own]) / deviations[own]
        region[rows] = own
        distance[rows] = np.sqrt(np.einsum("nd,nd->n", z, z) / mixture.n_features)
        first += len(block)
    return region, distance


@dataclass(frozen=True, eq=False)
class NearVisits:
    """The state nearest to the centre of a region in an episode: one row per episode and region."""

    policy: Numbers  # numbers, as all of these
    episode: Numbers  # of the policy
    region: Numbers
    step: Numbers
    distance: NDArray[np.float32]

    def visit(self, row: int, data: VisitedStates) -> Visit:
        """Return a row with the label of its policy and the seed of its episode."""
        policy, episode = int(self.policy[row]), int(self.episode[row])
        seed = int(data.seeds[data.policy_starts[policy] + episode])
        known = None if seed < 0 else seed
        step, distance = int(self.step[row]), float(self.distance[row])
        return Visit(data.labels[policy], episode, step, known, distance)


def visit_statistics(
    data: VisitedStates, mixture: Mixture, most: int = 1, progress: bool = False
) -> tuple[Array, Array, NearVisits]:
    """Count when regions are visited; policies have equal weight, and so do their episodes.

    Returns the shares of the time in each region that fall into each tenth of an episode,
    (K, 10), NaN if it is never visited; the shares of episodes that begin and that end there,
    (2, K); and the ``most`` nearest episodes of each policy and region.
    """
    n_regions, n = mixture.n_components, data.n_policies
    time = np.zeros(n_regions * _TENTHS)
    ends = np.zeros((2, n_regions))
    parts: list[tuple[NDArray[Any], ...]] = []
    with Progress("regions of states", n, unit="policies", show=progress) as bar:
        for number in range(n):
            own = data.select([number])
            assigned, distances = assign_regions(own, mixture)
            lengths, starts = own.lengths, own.episode_starts
            place = np.arange(own.n_states) - np.repeat(starts[:-1], lengths)
            length = np.repeat(lengths, lengths)
            tenths = assigned * _TENTHS + place * _TENTHS // length
            time += np.bincount(tenths, 1.0 / (len(lengths) * n * length), len(time))
            for which, rows in enumerate((starts[:-1], starts[1:] - 1)):
                counts = np.bincount(assigned[rows], minlength=n_regions)
                ends[which] += counts / len(lengths) / n
            every = own.records[0].every
            # The step of the last state of a thinned episode is not known.
            known = np.flatnonzero((every == 1) | (place < length - 1))
            episode, step = np.repeat(np.arange(len(lengths)), lengths), place * every
            rows = known[_nearest(assigned[known], distances[known], episode[known], most)]
            columns = episode[rows], assigned[rows], step[rows], distances[rows]
            parts.append((np.full(len(rows), number), *columns))
            bar.advance()
    when = time.reshape(n_regions, _TENTHS)
    with np.errstate(invalid="ignore"):
        when /= when.sum(axis=1, keepdims=True)
    return when, ends, NearVisits(*map(np.concatenate, zip(*parts, strict=True)))


def _nearest(region: Numbers, distance: NDArray[Any], episode: Numbers, most: int) -> Numbers:
    """Return the row of the nearest state per episode and region, for ``most`` episodes each."""

    def is_first(*columns: NDArray[Any]) -> NDArray[np.bool_]:
        """Mark the sorted rows that differ from the one before."""
        differs = np.zeros(len(columns[0]), dtype=np.bool_)
        differs[:1] = True
        for column in columns:
            differs[1:] |= column[1:] != column[:-1]
        return differs

    order = np.lexsort((distance, episode, region))
    order = order[is_first(region[order], episode[order])]
    order = order[np.lexsort((distance[order], region[order]))]
    begins = np.flatnonzero(is_first(region[order]))
    rank = np.arange(len(order)) - np.repeat(begins, np.diff([*begins, len(order)]))
    return np.asarray(order[rank < most])


def nearest_visits(
    comparison: ComparisonFolder, labels: Sequence[str], regions: Collection[int]
) -> dict[tuple[str, int], Visit]:
    """Find the state of each policy nearest to the centre of each region that it visits."""
    data = comparison.states.select(list(labels))
    _, _, near = visit_statistics(data, comparison.mixture)
    rows = enumerate(zip(near.policy.tolist(), near.region.tolist(), strict=True))
    return {
        (data.labels[policy], region): near.visit(row, data)
        for row, (policy, region) in rows
        if region in regions
    }


# ---- frames of regions, from as few replayed episodes as possible ----

_EPISODES = 8  # candidates per policy and region
_SIMILAR = 0.25  # standard deviations: a state that is no farther shows the region as well
_ROUNDS = 3  # in which other policies are tried if some cannot be replayed


def _region_frames(
    replayer: Replayer, near: NearVisits, data: VisitedStates, folder: str | Path, progress: bool
) -> tuple[dict[int, Frame], list[str]]:
    """Render a state near the centre of each region; also return why others could not be."""

    def episode_of(row: int) -> tuple[int, int]:
        return int(near.policy[row]), int(near.episode[row])

    replays: dict[tuple[int, int], Replay] = {}
    chosen: dict[int, int] = {}  # the row of `near` that shows a region
    reasons: dict[str, None] = {}  # an ordered set
    refused: set[int] = set()  # policies
    wanted = set(near.region.tolist())
    for _ in range(_ROUNDS):
        rows = choose_visits(near, wanted - set(chosen), refused)
        new = sorted({episode_of(row) for row in rows.values()} - set(replays))
        played = replayer.stored_many([(data.labels[policy], number) for policy, number in new])
        for pair, replayed in zip(new, played, strict=True):
            if isinstance(replayed, CannotReplay):
                refused.add(pair[0])
                reasons.setdefault(str(replayed))
            else:
                replays[pair] = replayed
        chosen |= {region: row for region, row in rows.items() if episode_of(row) in replays}
    steps: dict[tuple[int, int], dict[int, int]] = {}  # the step by region, of each replay
    for region, row in chosen.items():
        steps.setdefault(episode_of(row), {})[region] = int(near.step[row])
    jobs = [(replays[pair], sorted(set(own.values()))) for pair, own in steps.items()]
    frames: dict[int, Frame] = {}
    made = render_frames(replayer, jobs, folder, progress)
    for own, files in zip(steps.values(), made, strict=True):
        if isinstance(files, str):
            reasons.setdefault(files)
            continue
        for region, step in own.items():
            frames[region] = Frame(near.visit(chosen[region], data), files[step])
    return frames, list(reasons)


def choose_visits(
    near: NearVisits, regions: Collection[int], refused: Collection[int]
) -> dict[int, int]:
    """Choose a row per region from few episodes: those that show several regions come first.

    A state qualifies if it is hardly farther from the centre than the nearest.
    """
    rows = np.flatnonzero(
        np.isin(near.region, list(regions)) & ~np.isin(near.policy, list(refused))
    )
    nearest = np.full(int(near.region.max(initial=0)) + 1, np.inf)
    np.minimum.at(nearest, near.region[rows], near.distance[rows])
    rows = rows[near.distance[rows] <= nearest[near.region[rows]] + _SIMILAR]
    episodes: NDArray[np.intp] = near.policy[rows] * (near.episode.max(initial=0) + 1)
    _, episodes = np.unique(episodes + near.episode[rows], return_inverse=True)
    result: dict[int, int] = {}
    while len(rows):
        excess = near.distance[rows] - nearest[near.region[rows]]
        # An episode is worth the regions that it shows, a little less where it is farther away.
        own = episodes == np.bincount(episodes, 1.0 - excess).argmax()
        result |= dict(zip(near.region[rows[own]].tolist(), rows[own].tolist(), strict=True))
        left = ~np.isin(near.region[rows], list(result))
        rows, episodes = rows[left], episodes[left]
    return result


# ---- the figure ----

_MAX_LINES = 80
_ROW, _NAMES, _BARS, _STRIP = 0.27, 6.3, 2.1, 2.3  # inches
_NAME_LENGTH = 98


def regions_figure(result: Regions) -> Figure:
    """Draw the name of each region, its share of time per policy, and when it is visited."""
    most = {region.number for region in result.by_share()[:_MAX_LINES]}
    shown = [region for region in result.by_moment() if region.number in most]
    height = _ROW * len(shown)
    figure = new_figure(_NAMES + _BARS + _STRIP + 1.5, height + 1.75)
    where = f" of {result.environment}" if result.environment else ""
    less = f" (the {_MAX_LINES} with the largest share of time)" if len(shown) < len(result) else ""
    add_heading(
        figure,
        f"The {len(result)} regions{where}{less}",
        "From the beginning of an episode to its end",
    )
    text, bars, strip = (
        axes_at(figure, 0.75 + left, 0.3, width, height)
        for left, width in ((0, _NAMES), (_NAMES, _BARS), (_NAMES + _BARS + 0.3, _STRIP))
    )
    for axes in (text, bars, strip):
        axes.set_ylim(len(shown) - 0.5, -0.5)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set_yticks([])
    _draw_names(text, shown)
    _draw_shares(bars, result, shown)
    _draw_moments(strip, shown)
    return figure


def _draw_names(axes: Axes, shown: Sequence[RegionSummary]) -> None:
    axes.set_xlim(0, 1)
    axes.set_xticks([])
    for line, region in enumerate(shown):
        axes.text(-0.02, line, str(region.number), ha="right", va="center", fontsize=9,
                  fontweight="bold", color=GROUP_PALETTE[0])  # fmt: skip
        name = region.name
        if len(name) > _NAME_LENGTH:  # the end says least
            name = name[: _NAME_LENGTH - 1] + "…"
        axes.text(0, line, literal(name, _NAME_LENGTH), va="center", fontsize=8.5, color=INK)
        if line:
            axes.axhline(line - 0.5, color=HAIRLINE, linewidth=0.5)
    add_panel_title(axes, "Region", "what distinguishes it from all states")


def _draw_shares(axes: Axes, result: Regions, shown: Sequence[RegionSummary]) -> None:
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


def _draw_moments(axes: Axes, shown: Sequence[RegionSummary]) -> None:
    """Draw how visits are distributed over an episode; darker means more of them."""
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
    add_panel_title(axes, "When in an episode", "darker: more of its visits")
