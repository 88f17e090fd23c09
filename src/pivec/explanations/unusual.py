"""Unusual episodes of policies, and states outside of what a space covers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.characterizations import (
    BackgroundModel,
    Characterization,
    Descriptions,
    Space,
    Supervector,
    Visitation,
)
from pivec.errors import PivecWarning, UsageError
from pivec.explanations.clips import Clip, ClipPlan, Segment, make_clips
from pivec.explanations.folder import ComparisonFolder
from pivec.explanations.names import Feature, features_of
from pivec.explanations.regions import assign_regions
from pivec.explanations.replay import CannotReplay, Replayer
from pivec.figures import (
    GROUP_PALETTE,
    HAIRLINE,
    INK,
    LONE_COLOUR,
    MUTED,
    add_heading,
    axes_at,
    lined_axes,
    literal,
    literals,
    new_figure,
)
from pivec.mixtures import FAR, Mixture, kernel, maximise
from pivec.options import ReplayOptions
from pivec.parallel import on_engine
from pivec.results import Result, Row, plain
from pivec.states import VisitedStates
from pivec.text import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
_MIN_EPISODES = 3  # per policy: of two, neither is the unusual one
_ROUNDING = 1e-7  # of the length of a policy's point: influences of equal episodes
_MIN_SHARE = 0.05  # difference of the share of time in a region worth reporting
_REGIONS = 2  # reported per episode
_MAX_CLIPS = 4


@dataclass(frozen=True)
class RegionTime:
    """The share of time of an episode in a region, and that of the policy's other episodes."""

    region: int
    words: str  # its name
    share: float
    usual: float

    def __str__(self) -> str:
        times = f"{percent(self.share)} of its time (others {percent(self.usual)})"
        return f"{times} in region {self.region}: {self.words}"


@dataclass(frozen=True)
class UnusualEpisode:
    """An episode and how far it is from its policy's others."""

    policy: str
    episode: int
    times: float  # as far from the policy's mean as its median episode
    spread: float  # share of the sum of squares of all episodes; on average 1/n
    seed: int | None
    total: float  # the return
    length: int | None  # in states
    feature: Feature | None = None  # whose mean differs most from the others, in deviations
    mean: float = math.nan
    usual_mean: float = math.nan
    regions: tuple[RegionTime, ...] = ()  # with more or less time than the others

    @property
    def reasons(self) -> list[str]:
        """What is unusual about it, in words."""
        lines = [str(region) for region in self.regions]
        if self.feature is None:
            return lines
        if self.feature.is_flag:
            mean, usual = f"{percent(self.mean)} of its time", percent(self.usual_mean)
        else:
            mean, usual = (self.feature.with_unit(f"{x:.3g}") for x in (self.mean, self.usual_mean))
            mean += " on average"
        return [f"{self.feature.name} {mean} (others {usual})".replace("-", "−"), *lines]


@dataclass(frozen=True, eq=False)
class PolicyEpisodes:
    """All episodes of a policy, one value per episode."""

    policy: str
    times: Array  # as far from the policy's mean as its median episode
    returns: Array  # NaN if not known, as lengths
    lengths: Array
    typical: int  # the episode nearest to the policy's mean

    @property
    def usual_return(self) -> float:
        """The median return."""
        return float(np.median(self.returns))

    @property
    def usual_length(self) -> float:
        """The median length, in states."""
        return float(np.median(self.lengths))


@dataclass(frozen=True, repr=False, eq=False)
class Unusual(Result):
    """Episodes by their distance from their own policy's others, and states outside.

    ``times`` is the distance of an episode from the mean of its policy relative to that of the
    policy's median episode, measured by how far leaving it out moves the description.
    """

    environment: str
    method: str
    episodes: tuple[UnusualEpisode, ...]  # the most unusual ones, farthest first
    policies: tuple[PolicyEpisodes, ...]
    outside: Coverage | None  # states where no policy has been, if the method has regions
    notes: tuple[str, ...]  # what was left out
    clips: tuple[Clip, ...] = ()  # of typical and unusual episodes

    def of(self, policy: str) -> PolicyEpisodes:
        """Return all episodes of a policy."""
        return next(row for row in self.policies if row.policy == policy)

    def headline(self) -> str:
        """Say which episode is farthest off."""
        first = self.episodes[0]
        if first.times <= 1.0:
            return "The episodes of each policy are all alike"
        times = "infinitely" if math.isinf(first.times) else f"{first.times:.2g} times as"
        return f"Episode {first.episode} of {first.policy} is {times} far from the others as usual"

    def rows(self) -> list[Row]:
        """Return one row per unusual episode, farthest first."""
        rows = []
        for row in self.episodes:
            own = self.of(row.policy)
            rows.append(
                {
                    "policy": row.policy,
                    "episode": row.episode,
                    "times": row.times,
                    "spread": row.spread,
                    "return": row.total,
                    "usual_return": own.usual_return,
                    "length": row.length,
                    "usual_length": own.usual_length,
                    "seed": row.seed,
                    "typical": own.typical,
                    "words": "; ".join(row.reasons),
                }
            )
        return rows

    def to_json(self) -> dict[str, Any]:
        """Return plain values; None for NaN and infinity."""
        own: dict[str, Any] = plain(vars(self))
        outside = None if self.outside is None else self.outside.to_json()
        clips = [clip.to_json() for clip in self.clips]
        return own | {"headline": self.headline(), "outside": outside, "clips": clips}

    def figure(self) -> Figure:
        """Draw all episodes of the policies with the most unusual ones, which are labelled."""
        return unusual_figure(self)


@on_engine
@checked
def find_unusual(
    comparison: Any,
    policies: Sequence[str] | None = None,
    *,
    top: Count = 10,
    clips: str | Path | None = None,
    replay: ReplayOptions | None = None,
    progress: bool = False,
) -> Unusual:
    """Rank episodes by their distance from the other episodes of their policy.

    Leaving out an episode moves the description of its policy: the farther, the farther the
    episode is from the others. This is compared with the policy's median episode, so that policies
    that vary much and little can be in one list.

    Parameters
    ----------
    comparison : path, Comparison or ComparisonFolder
    policies : sequence of str, optional
        Labels of policies, or the ends of them; by default all but those of an earlier space.
    top : int
        Number of episodes.
    clips : path, optional
        Folder for clips of the most typical and the most unusual episode of policies; by default
        none are made.
    replay : ReplayOptions, optional
        How episodes are replayed, where the folder does not say.
    progress : bool
        Show a progress bar.

    Examples
    --------
    >>> from pivec.characterizations import characterization
    >>> rng = np.random.default_rng(0)
    >>> walks = [rng.normal(0, 1, (50, 2)) + (3.0 if e == 7 else 0.0) for e in range(20)]
    >>> data = VisitedStates.from_arrays([walks], labels=["walk"])
    >>> method = characterization("visitation", n_components=4).fit(data)
    >>> space = Space(method, method.describe(data, influences=True))
    >>> result = find_unusual(ComparisonFolder(Path("."), space, data), top=1)
    >>> result.episodes[0].episode, result.episodes[0].times > 3
    (7, True)
    """
    opened = ComparisonFolder.open(comparison)
    labels = [opened.find(name).label for name in policies or ()]
    notes: list[str] = []
    ranked, episodes = _rank(opened, labels, top, notes)
    if opened.data is None:
        notes.append("the states are not stored here, so what is unusual is not known")
    result = Unusual(
        opened.environment,
        opened.space.method.name,
        tuple(_explain(opened, episodes)),
        ranked,
        _coverage_or_note(opened, labels, notes),
        tuple(notes),
    )
    if clips is None:
        return result
    return _with_clips(result, opened, Replayer.open(opened, replay), Path(clips), progress)


def _rank(
    comparison: ComparisonFolder, labels: list[str], top: int, notes: list[str]
) -> tuple[tuple[PolicyEpisodes, ...], list[UnusualEpisode]]:
    """Measure all episodes of policies, and pick the farthest of all."""
    ranked: list[PolicyEpisodes] = []
    candidates: list[UnusualEpisode] = []
    few = 0
    for label, distances in _all_distances(comparison, labels, notes):
        n = len(distances)
        if n < _MIN_EPISODES:
            few += 1
            continue
        usual = float(np.median(distances))
        with np.errstate(divide="ignore", invalid="ignore"):
            times = np.where(distances == usual, 1.0, distances / usual)
        returns, lengths, seeds = np.full(n, np.nan), np.full(n, np.nan), np.full(n, -1)
        if comparison.has_states([label]):
            data = comparison.states[label]
            if data.n_episodes != n:
                raise UsageError(
                    f"{comparison.folder} has {data.n_episodes} episodes of {label!r}, but {n} "
                    "were described: run the comparison again"
                )
            returns, lengths, seeds = data.returns, data.lengths.astype(np.float64), data.seeds
        ranked.append(PolicyEpisodes(label, times, returns, lengths, int(distances.argmin())))
        squares = distances**2
        spread = squares / (squares.sum() or math.nan)
        candidates += [
            UnusualEpisode(
                label,
                e,
                float(times[e]),
                float(spread[e]),
                int(seeds[e]) if seeds[e] >= 0 else None,
                float(returns[e]),
                None if math.isnan(lengths[e]) else int(lengths[e]),
            )
            for e in np.argsort(-distances, kind="stable")[:top].tolist()
        ]
    if few:
        notes.append(
            f"{few} polic{'ies have' if few > 1 else 'y has'} fewer than {_MIN_EPISODES} episodes, "
            "of which none can be called unusual"
        )
    if not ranked:
        raise UsageError(
            f"expected policies with {_MIN_EPISODES} episodes or more, but {notes[-1]}"
        )
    candidates.sort(key=lambda row: (-row.times, -row.spread))
    return tuple(ranked), candidates[:top]


def _all_distances(
    comparison: ComparisonFolder, labels: list[str], notes: list[str]
) -> Iterator[tuple[str, Array]]:
    """Yield policies and the distances of their episodes."""
    space, method = comparison.space, comparison.space.method
    if not method.traits.additive:
        raise UsageError(
            f"{comparison.folder} was described by {method.name}, which does not say what an "
            "episode adds to a description: compare with --method visitation"
        )
    described = space.descriptions
    influences = described.rows("influences") if "influences" in described.arrays else None
    if isinstance(method, Supervector) and comparison.data is None:
        notes.append("supervectors describe means alone, not an episode alone in its region")
    elif isinstance(method, Supervector):
        # Leaving out an episode that is alone in its region does not move the region's mean.
        influences, twin = None, Visitation(method.n_components, device=method.device)
        method = twin.restore(method.feature_names_, method.fitted_arrays())
        notes.append("supervectors describe means alone: episodes are compared by visitation")
    references = space.is_reference
    for row, label in enumerate(described.labels):
        if label not in labels if labels else references[row]:
            continue
        if influences is not None:
            yield label, _lengths(method, described, influences[row], row)
        else:
            yield label, _episode_distances(method, comparison.states_of([label]))


def _episode_distances(method: Characterization, data: VisitedStates) -> Array:
    """How far leaving out each episode of one policy moves its description, up to a factor."""
    m = data.n_episodes
    if m < 2:
        return np.zeros(m)
    if method.traits.influences:
        described = method.describe(data, influences=True)
        return _lengths(method, described, described.rows("influences")[0], 0)
    moved = method.distances(method.leave_one_out(data), data)[:, 0]
    return np.asarray(np.sqrt(np.maximum(moved, 0.0)) if method.traits.squared else moved)


def _lengths(
    method: Characterization, described: Descriptions, influences: NDArray[Any], row: int
) -> Array:
    """Lengths of influences, (n_episodes,); 0 where there is nothing but rounding."""
    point = described.values(method.traits.coordinates)[0][row]
    rows = influences.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    lengths[lengths <= _ROUNDING * math.sqrt(point @ point)] = 0.0
    return np.asarray(lengths)


def _explain(
    comparison: ComparisonFolder, episodes: Sequence[UnusualEpisode]
) -> Iterator[UnusualEpisode]:
    """Find the feature and the regions in which each episode differs from its policy's others."""
    known: dict[str, tuple[Array, Array, Array]] = {}
    for row in episodes:
        if not comparison.has_states([row.policy]):
            yield row
            continue
        if row.policy not in known:
            known[row.policy] = _episode_means(comparison, comparison.states[row.policy])
        means, deviations, shares = known[row.policy]
        others = np.delete(np.arange(len(means)), row.episode)
        usual, usual_shares = means[others].mean(axis=0), shares[others].mean(axis=0)
        feature = int((np.abs(means[row.episode] - usual) / deviations).argmax())
        more = np.abs(shares[row.episode] - usual_shares)
        yield replace(
            row,
            feature=comparison.features[feature],
            mean=float(means[row.episode, feature]),
            usual_mean=float(usual[feature]),
            regions=tuple(
                RegionTime(
                    int(r),
                    comparison.region_names[r],
                    float(shares[row.episode, r]),
                    float(usual_shares[r]),
                )
                for r in np.argsort(-more, kind="stable")[:_REGIONS]
                if more[r] >= _MIN_SHARE
            ),
        )


def _episode_means(comparison: ComparisonFolder, data: VisitedStates) -> tuple[Array, Array, Array]:
    """Means of features per episode, deviations of states, and shares of time in regions."""
    states, starts = data.states, data.episode_starts
    sums = np.add.reduceat(states, starts[:-1], axis=0, dtype=np.float64)
    deviations = states.std(axis=0, dtype=np.float64)
    deviations[deviations == 0.0] = np.inf  # a constant feature
    shares = np.zeros((data.n_episodes, 0))
    if comparison.has_regions:
        mixture = comparison.mixture
        region, _ = assign_regions(data, mixture)
        counts = [
            np.bincount(region[i:j], minlength=mixture.n_components)
            for i, j in pairwise(starts.tolist())
        ]
        shares = np.array(counts) / data.lengths[:, None]
    return sums / data.lengths[:, None], deviations, shares


def _coverage_or_note(
    comparison: ComparisonFolder, labels: list[str], notes: list[str]
) -> Coverage | None:
    there = () if comparison.data is None else comparison.data.labels
    chosen = [label for label in labels or there if label in there]
    if not chosen or not comparison.has_regions:
        return None
    try:
        return measure_coverage(comparison, chosen)
    except UsageError as error:
        notes.append(str(error))
        return None


def _with_clips(
    result: Unusual, comparison: ComparisonFolder, replayer: Replayer, folder: Path, progress: bool
) -> Unusual:
    """Make clips of the most typical and the most unusual episode of the first policies."""
    farthest: dict[str, int] = {}
    for row in result.episodes:
        farthest.setdefault(row.policy, row.episode)
    plans = []
    for policy, episode in list(farthest.items())[:_MAX_CLIPS]:
        typical, title = result.of(policy).typical, f"{policy}: typical and unusual"
        caption = (
            f"left: episode {typical}, the most typical; right: episode {episode}, the most "
            "unusual; the shorter one stops at its last frame"
        )
        try:
            replays = [replayer.stored(policy, n) for n in (typical, episode)]
        except CannotReplay as error:
            plans.append(ClipPlan(title, caption, reason=str(error)))
            continue
        segments = [Segment.of(comparison, replay, 0, replay.last) for replay in replays]
        plans.append(ClipPlan(title, caption, segments))
    clips = make_clips(plans, replayer, folder, progress)
    reasons = dict.fromkeys(clip.reason for clip in clips if clip.reason)
    return replace(result, clips=clips, notes=(*result.notes, *reasons))


# ---- coverage: states outside of what a space was fitted on ----
#
# The log-density would be a poor measure: it is low everywhere in a wide region with few states,
# and for all states of policies that live there. Distances from the nearest region treat regions
# alike.

COVERED = 0.99  # of the states of each policy that a space was fitted on are within its radius
NOTABLE = 0.03  # share of states outside: three times that of such a policy
_MIN_OUTSIDE = 5  # states, for a share to mean something
_WIDENED = 0.1  # deviations of all states, so that no region is too thin to be met twice
_TOLERANCE = 1e-3  # deviations: states that are met again are not farther than before
_MAX_STATES, _MAX_VALUES = 1 << 16, 1 << 24  # sampled for the radius, evenly from all policies
_MIN_STATES = 100  # of each policy
_PASSES = 3  # of EM
_BLOCK, _COUNT_BLOCK = 1 << 15, 1 << 17


@dataclass(frozen=True)
class PolicyCoverage:
    """How many states of a policy are outside of a space, and by which feature."""

    policy: str
    states: int
    outside: int
    episodes: int  # with such states
    feature: str  # that is farthest off, over all states outside; empty if there are none
    deviations: float  # of the nearest region by which it is off: root mean square
    above: float  # share of states outside in which it is above the region

    @property
    def share(self) -> float:
        """Share of the policy's states that are outside."""
        return self.outside / self.states

    @property
    def is_notable(self) -> bool:
        """Whether there are more of them than chance explains."""
        return self.share > NOTABLE and self.outside >= _MIN_OUTSIDE

    @property
    def words(self) -> str:
        """Which feature is off, in which direction, and by how much."""
        if not self.outside:
            return ""
        side = "above" if self.above > 0.9 else "below" if self.above < 0.1 else "off"
        return f"{self.feature} {self.deviations:.2g} deviations {side}"


@dataclass(frozen=True, repr=False, eq=False)
class Coverage(Result):
    """The states of policies outside of what a space covers.

    A state is outside if it is farther from the nearest region than ``radius``, which contains
    99 % of the states of each policy that the space was fitted on (in deviations of regions).
    """

    radius: float
    policies: tuple[PolicyCoverage, ...]  # most outside first, but those with few states last
    placed: bool  # whether the policies came after the space was fitted

    def headline(self) -> str:
        """Say which policy has most states outside."""
        first = self.policies[0]
        if not first.outside:
            return "No policy has states outside of the space"
        share = percent(first.share)
        if not first.is_notable:
            return f"No policy has more than {share} of its states outside of the space"
        return f"{share} of the states of {first.policy} are where no policy has been"

    def rows(self) -> list[Row]:
        """Return one row per policy, most states outside first."""
        names = ("policy", "share", "outside", "states", "episodes", "feature", "deviations")
        return [{name: getattr(row, name) for name in names} for row in self.policies]

    def to_json(self) -> dict[str, Any]:
        """Return plain values; None for NaN."""
        rows = plain(self.rows())
        return {"radius": plain(self.radius), "placed": self.placed, "policies": rows}

    def figure(self) -> Figure:
        """Draw the shares as bars."""
        return coverage_figure(self)


def measure_coverage(comparison: Any, policies: Sequence[str] | None = None) -> Coverage:
    """Count the states of policies that are outside of what their space covers.

    Parameters
    ----------
    comparison : path, Comparison or ComparisonFolder
        With states.
    policies : sequence of str, optional
        Labels of policies; by default all whose states are stored.

    Examples
    --------
    >>> from pivec.characterizations import characterization
    >>> rng = np.random.default_rng(0)
    >>> data = VisitedStates.from_arrays([[rng.normal(0, 1, (500, 2))] for _ in "ab"])
    >>> method = characterization("visitation", n_components=4).fit(data)
    >>> walk = rng.normal(0, 1, (100, 2)) + np.where(np.arange(100) < 20, 9, 0)[:, None]
    >>> new = VisitedStates.from_arrays([[walk]], labels=["new"])
    >>> space = Space(method, method.describe(new), reach=coverage_radius(method, data))
    >>> measure_coverage(ComparisonFolder(Path("."), space, new)).headline()
    '20 % of the states of new are where no policy has been'
    """
    opened = ComparisonFolder.open(comparison)
    space, data, radius = opened.space, opened.states, opened.space.reach
    placed = space.n_reference > 0 or space.n_placed > 0
    if not math.isfinite(radius):
        raise UsageError(f"the space of {opened.folder} has no radius of coverage: fit it again")
    if policies:
        data = opened.states_of([opened.find(name).label for name in policies])
    rows = policy_coverage(data, space)
    rows.sort(key=lambda row: (not row.is_notable, -row.share))
    return Coverage(radius, tuple(rows), placed)


def policy_coverage(data: VisitedStates, space: Space) -> list[PolicyCoverage]:
    """Count the states of each policy outside of a space; none if it has no regions."""
    method = space.method
    if not isinstance(method, BackgroundModel) or not math.isfinite(space.reach):
        return []
    mixture = method.mixtures_[0]
    names = [feature.name for feature in features_of(space.collected, method.feature_names_)]
    result = []
    for number, record in enumerate(data.records):
        states = data.policy_states(number)
        is_outside = np.empty(len(states), dtype=bool)
        squares, above = np.zeros((2, data.n_features))
        for first in range(0, len(states), _COUNT_BLOCK):
            rows = slice(first, first + _COUNT_BLOCK)
            nearest = nearest_regions(states[rows], mixture)
            far = is_outside[rows] = nearest.distance > space.reach + _TOLERANCE
            squares += (nearest.offset[far] ** 2).sum(axis=0)
            above += (nearest.offset[far] > 0.0).sum(axis=0)
        starts = np.cumsum([0, *record.episodes["length"][:-1]])
        count, feature = int(is_outside.sum()), int(squares.argmax())
        result.append(
            PolicyCoverage(
                record.info.label,
                len(states),
                count,
                int(np.logical_or.reduceat(is_outside, starts).sum()),
                names[feature] if count else "",
                math.sqrt(squares[feature] / count) if count else math.nan,
                float(above[feature] / count) if count else math.nan,
            )
        )
    return result


def warn_uncovered(space: Space, data: VisitedStates) -> None:
    """Warn of policies placed in an earlier space that visit states it does not cover."""
    rows = policy_coverage(data, space)
    notable = sorted((row for row in rows if row.is_notable), key=lambda row: -row.share)
    if not notable:
        return
    first, more = notable[0], len(notable) - 1
    others = ""
    if more:
        many = f"{more} other policies" if more > 1 else "another policy"
        others = f", and more than {100 * NOTABLE:g} % of those of {many}"
    warnings.warn(
        f"{percent(first.share)} of the states of {first.policy!r} are where no policy of the "
        f"space has been (farther from all regions than {percent(COVERED)} of the states of each; "
        f"{first.words}){others}: the space says little about such states, so fit one with these "
        "policies to compare them",
        PivecWarning,
        stacklevel=2,
    )


def coverage_radius(method: Characterization, data: VisitedStates) -> float:
    """Return the distance from the nearest region that contains 99 % of every policy's states.

    NaN if the characterization has no regions. It is the largest of the policies' own quantiles:
    with a quantile of all states, rare policies would be outside of their own space. Episodes are
    measured against regions that EM has adapted to the other half of the episodes, since regions
    are nearer to the episodes they were fitted on than to any new ones.
    """
    if not isinstance(method, BackgroundModel):
        return math.nan
    mixture = method.mixtures_[0]
    states, half, starts = _sample_states(data)
    distance = nearest_regions(states, mixture).distance
    for held in (0, 1):
        rows = half == held
        if rows.any():
            adapted = _adapted(mixture, states[~rows])
            distance[rows] = nearest_regions(states[rows], adapted).distance
    return max(float(np.quantile(distance[i:j], COVERED)) for i, j in pairwise(starts))


class NearestRegions(NamedTuple):
    """The region nearest to each state."""

    region: NDArray[np.intp]  # (n,)
    offset: Array  # (n, D), from its centre, in its deviations, which are widened a little

    @property
    def distance(self) -> Array:
        """Root mean square of the offsets, (n,)."""
        squares = np.einsum("nd,nd->n", self.offset, self.offset)
        return np.asarray(np.sqrt(squares / self.offset.shape[1]))


def nearest_regions(states: NDArray[Any], mixture: Mixture) -> NearestRegions:
    """Find the nearest region of each state, in deviations of regions.

    Examples
    --------
    >>> mixture = Mixture([0.5, 0.5], [[-1.0], [1.0]], [[0.24], [0.24]], [0.0], [2.0])
    >>> nearest = nearest_regions(np.array([[-2.0], [4.0]]), mixture)
    >>> nearest.region, nearest.distance
    (array([0, 1]), array([0., 2.]))
    """
    variances = mixture.variances + _WIDENED**2
    squares, linear = 1.0 / variances, -2.0 * mixture.means / variances
    constants = (mixture.means**2 / variances).sum(axis=1)
    region = np.empty(len(states), dtype=np.intp)
    offset = np.empty(states.shape)
    for first in range(0, len(states), _BLOCK):
        rows = slice(first, first + _BLOCK)
        z = np.clip(mixture.standardise(states[rows]), -FAR, FAR)
        own = region[rows] = (z**2 @ squares.T + z @ linear.T + constants).argmin(axis=1)
        # Recomputed from the difference, which has all its digits.
        offset[rows] = (z - mixture.means[own]) / np.sqrt(variances[own])
    return NearestRegions(region, offset)


def _sample_states(data: VisitedStates) -> tuple[NDArray[np.float32], NDArray[np.int8], list[int]]:
    """Sample states evenly from each policy; return them, their half, and where policies start.

    Halves are even and odd episodes; −1 for a policy with a single episode, which has none.
    """
    most = max(min(_MAX_STATES, _MAX_VALUES // data.n_features) // len(data), _MIN_STATES)
    states, halves = [], []
    for number, record in enumerate(data.records):
        own = data.policy_states(number)
        rows = np.linspace(0, len(own) - 1, min(most, len(own))).astype(np.intp)
        lengths = record.episodes["length"]
        episode = np.repeat(np.arange(len(lengths)), lengths)[rows]
        states.append(own[rows])
        halves.append(episode % 2 if len(lengths) > 1 else np.full(len(rows), -1))
    starts = np.cumsum([0, *map(len, states)]).tolist()
    return np.concatenate(states), np.concatenate(halves).astype(np.int8), starts


def _adapted(mixture: Mixture, states: NDArray[Any]) -> Mixture:
    """Fit a mixture to other states from where it is, without components that have none."""
    accumulate = kernel().accumulate
    statistics = accumulate(states, mixture)
    for _ in range(_PASSES):
        mixture = maximise(statistics, mixture, _WIDENED**2)
        statistics = accumulate(states, mixture)
    alive = statistics.counts >= 1.0
    weights = mixture.weights[alive]
    return replace(
        mixture,
        weights=weights / weights.sum(),
        means=mixture.means[alive],
        variances=mixture.variances[alive],
    )


# ---- figures ----

_MAX_ROWS, _MAX_LABELS = 14, 20  # policies, and episodes with labels
_ROW, _WIDTH = 0.46, 9.6  # inches
_GOLDEN = 0.6180339887498949  # its multiples modulo 1 are spread evenly


def unusual_figure(result: Unusual) -> Figure:
    """Draw a strip of episodes per policy, by distance, coloured by return."""
    labels = list(dict.fromkeys(row.policy for row in result.episodes))[:_MAX_ROWS]
    rows = [result.of(label) for label in labels]
    tall = _ROW * len(rows)
    figure = new_figure(_WIDTH, 1.85 + tall)
    subtitle = "Each dot is an episode; 1 is the usual distance from its policy's others"
    where = f" in {result.environment}" if result.environment else ""
    add_heading(figure, f"Unusual episodes{where}", subtitle)
    axes = axes_at(figure, 2.5, 0.75, _WIDTH - 4.0, tall)
    end = 1.05 * max(row.times[np.isfinite(row.times)].max(initial=1.0) for row in rows)
    named = {(row.policy, row.episode) for row in result.episodes[:_MAX_LABELS]}
    returns: Array = np.concatenate([row.returns for row in rows])
    returns = returns[np.isfinite(returns)]
    scale: dict[str, Any] = {}
    if len(returns):  # colours span all but the most extreme returns
        low, high = np.quantile(returns, (0.02, 0.98)).tolist()
        scale = {"cmap": "viridis", "vmin": low, "vmax": high if high > low else low + 1}
    looks: dict[str, Any] = {"s": 26, "linewidths": 0.4, "edgecolors": "white", "zorder": 3}
    dots = None
    for place, row in enumerate(rows):
        y = place + 0.42 * ((np.arange(len(row.times)) * _GOLDEN) % 1.0 - 0.5)
        x = np.minimum(row.times, end)
        known = np.isfinite(row.returns)
        axes.scatter(x[~known], y[~known], color=LONE_COLOUR, **looks)
        if known.any():
            dots = axes.scatter(x[known], y[known], c=row.returns[known], **scale, **looks)
        for e in range(len(x)):
            if (row.policy, e) in named:
                text = f"episode {e}" if e == row.times.argmax() else f"{e}"
                axes.annotate(text, (x[e], y[e]), (5, 0), textcoords="offset points", va="center",
                              fontsize=8.5, fontweight="bold", color=INK)  # fmt: skip
        axes.axhline(place, color=HAIRLINE, linewidth=0.6, zorder=0)
    lined_axes(axes)
    axes.grid(visible=False)
    axes.axvline(1.0, color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
    axes.set_yticks(range(len(labels)), literals(labels, 34), fontsize=9)
    axes.set_ylim(len(labels) - 0.45, -0.55)
    axes.set_xlim(0.0, 1.14 * end)
    axes.set_xlabel("times as far from the policy's others as its usual episode", fontsize=9.5)
    if dots is not None:
        bar = figure.colorbar(dots, cax=axes_at(figure, _WIDTH - 1.15, 0.75, 0.14, tall))
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=8.5, length=2, color=MUTED, labelcolor=INK)
        bar.ax.set_title("return", fontsize=9, color=MUTED, loc="left")
    return figure


def coverage_figure(result: Coverage) -> Figure:
    """Draw the share of states outside of each policy as a bar."""
    rows = result.policies[:_MAX_ROWS]
    figure = new_figure(_WIDTH, 1.45 + 0.34 * len(rows))
    add_heading(figure, result.headline(), "Share of each policy's states outside of the space")
    axes = axes_at(figure, 2.5, 0.6, _WIDTH - 5.6, 0.34 * len(rows))
    shares = [100 * row.share for row in rows]
    colours = [GROUP_PALETTE[4] if row.is_notable else LONE_COLOUR for row in rows]
    axes.barh(range(len(rows)), shares, height=0.62, color=colours)
    for place, row in enumerate(rows):
        text = f"{percent(row.share)}  {literal(row.words, 44)}"
        axes.annotate(text, (shares[place], place), (5, 0), textcoords="offset points",
                      va="center", fontsize=8.5, color=INK)  # fmt: skip
    lined_axes(axes)
    axes.grid(visible=False)
    axes.set_yticks(range(len(rows)), literals([row.policy for row in rows], 34), fontsize=9)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0.0, max([*shares, 1.0]))
    axes.set_xlabel("% of states", fontsize=9.5)
    return figure
