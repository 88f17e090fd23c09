"""The regions of a space: their names, who visits them and when, and states near their centres."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.characterizations import BackgroundModel, region_ranges
from pivec.explanations.clips import OnDrawn, frame_jobs, render
from pivec.explanations.folder import ComparisonFolder
from pivec.explanations.names import Feature
from pivec.explanations.replay import Replayer
from pivec.mixtures import Mixture
from pivec.options import ReplayOptions
from pivec.parallel import on_engine
from pivec.results import Explanation, Row
from pivec.states import VisitedStates, move_rows
from pivec.terminal import Progress
from pivec.text import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
_BLOCK = 1 << 18
_TENTHS = 10  # parts of an episode
_EPISODES = 8  # candidates for a frame per policy and region
_SIMILAR = 0.25  # standard deviations: a state that is no farther shows the region as well
_ROUNDS = 3  # in which other policies are tried if some cannot be replayed
# The state nearest to the centre of a region in an episode: one row per episode and region.
NEAR = np.dtype(
    [("policy", "i8"), ("episode", "i8"), ("region", "i8"), ("step", "i8"), ("distance", "f4")]
)


@dataclass(frozen=True)
class Visit:
    """A state that a policy visited."""

    policy: str  # its label
    region: int
    episode: int  # its number, from 0
    step: int  # of the environment in the episode, from 0
    seed: int | None  # of the episode; None if it is not known
    distance: float  # from the region's centre, in deviations (root mean square over features)


@dataclass(frozen=True)
class Frame:
    """A state that a policy visited, and its picture or why there is none."""

    visit: Visit
    path: Path | None = None
    reason: str = ""


@dataclass(frozen=True)
class RegionSummary:
    """A region of a space."""

    number: int  # of the component of the background model, from 0
    name: str  # the features that distinguish it from all states
    share: float  # of time, averaged over policies
    highest: tuple[str, float]  # the policy with the largest share of time, and this share
    lowest: tuple[str, float]
    when: tuple[float, ...]  # shares of its visits in the tenths of an episode; NaN if not known
    begins: float  # shares of episodes that begin and end there
    ends: float
    visits: tuple[Visit, ...]  # the states nearest to its centre, of different policies
    ranges: tuple[tuple[float, float], ...]  # of 80 % of the region, of each column
    frame: Frame | None = None  # a state near its centre

    @property
    def moment(self) -> float:
        """Mean position of its visits within an episode, from 0 to 1; NaN if it is not known."""
        return float(np.dot(self.when, np.arange(0.5, len(self.when)) / len(self.when)))

    @property
    def period(self) -> str:
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
class Regions(Explanation):
    """The regions of a space, by number."""

    environment: str
    method: str  # the characterization with the background model
    features: tuple[Feature, ...]  # of a state
    labels: tuple[str, ...]  # of the policies
    shares: Array  # (n_policies, n_regions), of their time in each region
    regions: tuple[RegionSummary, ...]
    notes: tuple[str, ...] = ()  # assumptions, and what is not known
    columns: tuple[Feature, ...] = ()  # of the ranges: features, and their steps

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
        return [
            {
                "region": region.number,
                "name": region.name,
                "share": region.share,
                "when": region.period,
                "begins": region.begins,
                "ends": region.ends,
                "highest": region.highest[0],
                "highest_share": region.highest[1],
                "lowest": region.lowest[0],
                "lowest_share": region.lowest[1],
            }
            | {
                name: getattr(region.visits[0], name) if region.visits else None
                for name in ("policy", "episode", "step")
            }
            for region in self.by_share()
        ]

    def to_json(self) -> dict[str, Any]:
        content = super().to_json()
        for own, region in zip(content["regions"], self, strict=True):
            own["period"] = region.period
        return content

    def figure(self) -> Figure:
        from pivec.explanations.plots import regions_figure

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
    described, mixture, data = opened.space.descriptions, opened.mixture, opened.data
    labels, n, notes = described.labels, mixture.n_components, opened.fit_notes()
    counts = described.values("counts")[0][:, :n]
    shares = counts / counts.sum(axis=1, keepdims=True)
    when, ends = np.full((n, _TENTHS), np.nan), np.full((2, n), np.nan)
    nearest: list[dict[str, Visit]] = [{} for _ in range(n)]
    drawn: dict[int, Frame] = {}
    if data is None:
        notes.append("no states are stored, so it is not known when regions are visited")
    else:
        most = 1 if frames is None else _EPISODES
        when, ends, near = visit_statistics(data, opened.background, most, progress)
        for visit in _visits(near[np.lexsort((near["distance"], near["region"]))], data):
            own = nearest[visit.region]
            if len(own) < visits:
                own.setdefault(visit.policy, visit)
        if missing := len(labels) - data.n_policies:
            notes.append(f"the states of {missing} policies of an earlier space are elsewhere")
        if frames is not None:
            replayer = Replayer(opened, replay)
            drawn, reasons = _region_frames(replayer, near, data, frames, progress)
            if missing := n - len(drawn):
                first, *others = reasons or ["no stored state has a known step"]
                more = len(others)
                also = f" (and {more} other reason{'s' * (more > 1)})" if others else ""
                notes.append(f"no picture of {missing} region{'s' * (missing > 1)}: {first}{also}")
    high, low, ranges = shares.argmax(axis=0), shares.argmin(axis=0), region_ranges(mixture)
    regions = tuple(
        RegionSummary(
            k,
            opened.region_names[k],
            float(shares[:, k].mean()),
            (labels[high[k]], float(shares[high[k], k])),
            (labels[low[k]], float(shares[low[k], k])),
            tuple(when[k].tolist()),
            float(ends[0, k]),
            float(ends[1, k]),
            tuple(nearest[k].values()),
            tuple(map(tuple, ranges[k].tolist())),
            drawn.get(k),
        )
        for k in range(n)
    )
    known = opened.background.name, opened.features, labels, shares, regions, tuple(notes)
    return Regions(opened.environment, *known, opened.columns)


def assign_regions(
    data: VisitedStates, mixture: Mixture
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the likeliest component of each row, and the distance from its centre.

    Rows are what the mixture was fitted to: states, or their moves (`BackgroundModel.view`). The
    distance is the root mean square over features, in standard deviations of the component.
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


def times_of(rows: VisitedStates, states: VisitedStates) -> NDArray[np.int64]:
    """Return the steps of the rows that a policy is described by: its states, or its moves."""
    record = states.records[0]
    return record.times if rows is states else record.times[move_rows(record)]


def visit_statistics(
    data: VisitedStates, method: BackgroundModel, most: int = 1, progress: bool = False
) -> tuple[Array, Array, NDArray[Any]]:
    """Count when regions are visited; policies have equal weight, and so do their episodes.

    Returns the shares of the time in each region that fall into each tenth of an episode,
    (K, 10), NaN if it is never visited; the shares of episodes that begin and that end there,
    (2, K); and the ``most`` nearest episodes of each policy and region, as rows of `NEAR`.
    """
    mixture, n = method.mixtures_[0], data.n_policies
    n_regions = mixture.n_components
    time = np.zeros(n_regions * _TENTHS)
    ends = np.zeros((2, n_regions))
    parts = []
    with Progress("regions of states", n, unit="policies", show=progress) as bar:
        for number in range(n):
            states = data.select([number])
            own = method.view(states)
            assigned, distances = assign_regions(own, mixture)
            lengths, starts = own.lengths, own.episode_starts
            length = np.repeat(lengths, lengths)
            times = times_of(own, states)
            last = np.maximum(times, np.repeat(times[starts[1:] - 1], lengths))
            tenths = assigned * _TENTHS + times * _TENTHS // (last + 1)
            time += np.bincount(tenths, 1.0 / (len(lengths) * n * length), len(time))
            for which, rows in enumerate((starts[:-1], starts[1:] - 1)):
                counts = np.bincount(assigned[rows], minlength=n_regions)
                ends[which] += counts / len(lengths) / n
            near = np.empty(own.n_states, NEAR)
            near["policy"], near["region"], near["step"] = number, assigned, times
            near["episode"] = np.repeat(np.arange(len(lengths)), lengths)
            near["distance"] = distances
            parts.append(_nearest(near, most))
            bar.advance()
    when = time.reshape(n_regions, _TENTHS)
    with np.errstate(invalid="ignore"):
        when /= when.sum(axis=1, keepdims=True)
    return when, ends, np.concatenate(parts)


def _nearest(near: NDArray[Any], most: int) -> NDArray[Any]:
    """Choose the nearest state per episode and region, of ``most`` episodes per region."""
    near = near[np.lexsort((near["distance"], near["episode"], near["region"]))]
    key = near["region"] * (near["episode"].max(initial=0) + 1) + near["episode"]
    near = near[np.diff(key, prepend=-1) != 0]
    near = near[np.lexsort((near["distance"], near["region"]))]
    rank = np.arange(len(near)) - np.searchsorted(near["region"], near["region"])
    return np.asarray(near[rank < most])


def _visits(near: NDArray[Any], data: VisitedStates) -> Iterator[Visit]:
    """Go through rows of `NEAR` with the labels of policies and the seeds of episodes."""
    for policy, episode, region, step, distance in near.tolist():
        seed = int(data.seeds[data.policy_starts[policy] + episode])
        known = None if seed < 0 else seed
        yield Visit(data.labels[policy], region, episode, step, known, distance)


def nearest_visits(
    comparison: ComparisonFolder, labels: Sequence[str], regions: Collection[int]
) -> list[Visit]:
    """Find the state of each policy nearest to the centre of each region that it visits."""
    data = comparison.states.select(list(labels))
    _, _, near = visit_statistics(data, comparison.background)
    return list(_visits(near[np.isin(near["region"], list(regions))], data))


def render_visits(
    replayer: Replayer,
    visits: Sequence[Visit],
    folder: str | Path,
    progress: bool = False,
    jobs: Sequence[Any] = (),
    on_drawn: OnDrawn | None = None,
) -> tuple[list[Frame], list[Any]]:
    """Render visited states; run other jobs of `render` before them, and return their results."""
    steps: dict[tuple[str, int], list[int]] = {}  # by policy and episode
    for visit in visits:
        steps.setdefault((visit.policy, visit.episode), []).append(visit.step)
    wanted = list(zip(replayer.stored_many(list(steps)), steps.values(), strict=True))
    made = render([*jobs, *frame_jobs(replayer, wanted, folder)], progress, on_drawn)
    files = dict(zip(steps, made[len(jobs) :], strict=True))
    frames = []
    for visit in visits:
        found = files[visit.policy, visit.episode]
        failed = isinstance(found, str)
        frames.append(Frame(visit, None, found) if failed else Frame(visit, found[visit.step]))
    return frames, made[: len(jobs)]


def _region_frames(
    replayer: Replayer, near: NDArray[Any], data: VisitedStates, folder: str | Path, progress: bool
) -> tuple[dict[int, Frame], list[str]]:
    """Render a state near the centre of each region; also return why others could not be."""
    frames: dict[int, Frame] = {}
    reasons: dict[str, None] = {}  # an ordered set
    refused: list[int] = []  # policies
    for _ in range(_ROUNDS):
        usable = ~np.isin(near["region"], list(frames)) & ~np.isin(near["policy"], refused)
        visits = list(_visits(near[choose_visits(near, usable)], data))
        for frame in render_visits(replayer, visits, folder, progress)[0]:
            if frame.path is None:
                refused.append(data.labels.index(frame.visit.policy))
                reasons.setdefault(frame.reason)
            else:
                frames[frame.visit.region] = frame
    return frames, list(reasons)


def choose_visits(near: NDArray[Any], usable: NDArray[np.bool_]) -> list[int]:
    """Choose a row per region from few episodes: those that show several regions come first.

    A state qualifies if it is hardly farther from the centre than the nearest usable one.
    """
    rows = np.flatnonzero(usable)
    excess = np.full(int(near["region"].max(initial=0)) + 1, np.inf)
    np.minimum.at(excess, near["region"][rows], near["distance"][rows])
    excess = near["distance"] - excess[near["region"]]
    rows = rows[excess[rows] <= _SIMILAR]
    episodes = near["policy"] * (near["episode"].max(initial=0) + 1) + near["episode"]
    _, episodes = np.unique(episodes, return_inverse=True)
    result: dict[int, int] = {}
    while len(rows):
        # An episode is worth the regions that it shows, a little less where it is farther away.
        own = episodes[rows] == np.bincount(episodes[rows], 1.0 - excess[rows]).argmax()
        result |= dict(zip(near["region"][rows[own]].tolist(), rows[own].tolist(), strict=True))
        rows = rows[~np.isin(near["region"][rows], list(result))]
    return list(result.values())
