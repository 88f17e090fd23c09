"""Episodes that differ from the others of their policy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.characterizations import Characterization, Descriptions, Supervector, Visitation
from pivec.errors import UsageError
from pivec.explanations.clips import Clip, ClipPlan, Segment, make_clips
from pivec.explanations.coverage import Coverage, measure_coverage
from pivec.explanations.differences import Difference
from pivec.explanations.folder import ComparisonFolder
from pivec.explanations.names import Feature
from pivec.explanations.regions import assign_regions
from pivec.explanations.replay import Replayer
from pivec.options import ReplayOptions
from pivec.parallel import on_engine
from pivec.results import Explanation, Row
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
_MOST_STATES = 1_000_000  # that are described again for a report


def compared_words(feature: Feature, mean: float, usual: float) -> str:
    """Say that a feature has another mean than usual.

    Examples
    --------
    >>> compared_words(Feature("height", "m"), -0.3, 0.25)
    'height −0.3 m on average (others 0.25 m)'
    """
    if feature.is_flag:
        text = f"{feature.name} {percent(mean)} of its time (others {percent(usual)})"
    else:
        own, others = (feature.with_unit(f"{x:.3g}") for x in (mean, usual))
        text = f"{feature.name} {own} on average (others {others})"
    return text.replace("-", "−")


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
    regions: tuple[Difference, ...] = ()  # from the share of time of the others to its own

    @property
    def reasons(self) -> list[str]:
        """What is unusual about it, in words."""
        lines = []
        if self.feature is not None:
            lines.append(compared_words(self.feature, self.mean, self.usual_mean))
        for region in self.regions:
            usual, own = map(percent, region.values)
            times = f"{own} of its time (others {usual})"
            lines.append(f"{times} in region {region.region}: {region.where}")
        return lines


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
class Unusual(Explanation):
    """Episodes by their distance from their own policy's others, and states outside.

    ``times`` is the distance of an episode from the mean of its policy relative to that of the
    policy's median episode, measured by how far leaving it out moves the description.
    """

    environment: str
    method: str
    episodes: tuple[UnusualEpisode, ...]  # the most unusual ones, farthest first
    policies: tuple[PolicyEpisodes, ...]
    outside: Coverage | None  # states outside the space, if the method has regions
    notes: tuple[str, ...]  # what was left out
    clips: tuple[Clip, ...] = ()  # of typical and unusual episodes

    def of(self, policy: str) -> PolicyEpisodes:
        """Return all episodes of a policy."""
        return next(row for row in self.policies if row.policy == policy)

    def headline(self) -> str:
        """Say which episode is farthest off."""
        first = self.episodes[0]
        if first.times <= 1.0:
            return "All episodes of each policy are alike"
        times = "infinitely" if math.isinf(first.times) else f"{first.times:.2g} times as"
        return f"Episode {first.episode} of {first.policy} is {times} far from the others as usual"

    def rows(self) -> list[Row]:
        """Return one row per unusual episode, farthest first."""
        return [
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
            for row in self.episodes
            for own in (self.of(row.policy),)
        ]

    def figure(self) -> Figure:
        from pivec.explanations.plots import unusual_figure

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
    >>> import pivec
    >>> rng = np.random.default_rng(0)
    >>> walks = [rng.normal(0, 1, (50, 2)) + (3.0 if e == 7 else 0.0) for e in range(20)]
    >>> data = VisitedStates.from_arrays([walks], labels=["walk"])
    >>> method = pivec.characterization("visitation", n_components=4).fit(data)
    >>> space = pivec.Space(method, method.describe(data, influences=True))
    >>> result = find_unusual(ComparisonFolder(Path("."), space, data), top=1)
    >>> result.episodes[0].episode, result.episodes[0].times > 3
    (7, True)
    """
    opened = ComparisonFolder.open(comparison)
    labels = [opened.find(name).label for name in policies or ()]
    notes: list[str] = []
    ranked, episodes = _rank(opened, labels, top, notes)
    outside = None
    if opened.data is None:
        notes.append("the states are not stored here, so what is unusual is not known")
    elif opened.has_regions:
        there = [label for label in labels or opened.data.labels if label in opened.data.labels]
        try:
            outside = measure_coverage(opened, there) if there else None
        except UsageError as error:
            notes.append(str(error))
    explained = tuple(_explain(opened, episodes))
    result = Unusual(
        opened.environment, opened.space.method.name, explained, ranked, outside, tuple(notes)
    )
    if clips is None:
        return result
    return _with_clips(result, opened, Replayer(opened, replay), Path(clips), progress)


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
        times, squares = _relative(distances), distances**2
        spread = squares / (squares.sum() or math.nan)
        returns, lengths, seeds = np.full(n, np.nan), np.full(n, np.nan), np.full(n, -1)
        if comparison.has_states([label]):
            data = comparison.states[label]
            if data.n_episodes != n:
                raise UsageError(
                    f"{comparison.folder} has {data.n_episodes} episodes of {label!r}, but {n} "
                    "were described: run the comparison again"
                )
            returns, lengths, seeds = data.returns, data.episode_steps + 1.0, data.seeds
        ranked.append(PolicyEpisodes(label, times, returns, lengths, int(distances.argmin())))
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


def times_as_far(comparison: ComparisonFolder, labels: Sequence[str]) -> dict[str, Array]:
    """Distances of episodes from their policy's mean, relative to that of its median episode.

    By policy; those of fewer than three episodes are left out. None are known if descriptions do
    not say what an episode adds to them, or if these policies have too many states to describe them
    again.
    """
    space = comparison.space
    stored = "influences" in space.descriptions.arrays and not isinstance(space.method, Supervector)
    if not space.method.traits.additive:
        return {}
    if not stored and comparison.states_of(labels).n_states > _MOST_STATES:
        return {}
    found = _all_distances(comparison, labels, [])
    return {label: _relative(own) for label, own in found if len(own) >= _MIN_EPISODES}


def _relative(distances: Array) -> Array:
    """Distances relative to the median, infinite if that is 0."""
    usual = float(np.median(distances))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(distances == usual, 1.0, distances / usual)


def _all_distances(
    comparison: ComparisonFolder, labels: Sequence[str], notes: list[str]
) -> Iterator[tuple[str, Array]]:
    """Yield policies and how far leaving out each episode moves them, up to a factor."""
    space, method = comparison.space, comparison.space.method
    if not method.traits.additive:
        raise UsageError(
            f"{comparison.folder} was described by {method.name}, which does not say what an "
            "episode adds to a description: compare with --method visitation"
        )
    described = space.descriptions
    influences = described.influences if "influences" in described.arrays else None
    if isinstance(method, Supervector) and comparison.data is None:
        notes.append("supervectors only describe means, not an episode that is alone in its region")
    elif isinstance(method, Supervector):
        # Leaving out an episode that is alone in its region does not move the region's mean.
        influences = None
        twin = Visitation(method.n_components, of="states", device=method.device)
        known = {"features": np.array(method.described_features)}
        method = twin.restore(method.feature_names_, method.fitted_arrays() | known)
        notes.append("supervectors only describe means: episodes are compared by visitation")
    references, chosen = space.is_reference, set(labels)
    for row, label in enumerate(described.labels):
        if label not in chosen if chosen else references[row]:
            continue
        if influences is not None:
            yield label, _lengths(method, described, influences[row], row)
            continue
        data = comparison.states_of([label])
        if data.n_episodes < 2:
            yield label, np.zeros(data.n_episodes)
        elif method.traits.influences:
            own = method.describe(data, influences=True)
            yield label, _lengths(method, own, own.influences[0], 0)
        else:
            moved = method.distances(method.leave_one_out(data), data)[:, 0]
            yield label, np.sqrt(np.maximum(moved, 0.0)) if method.traits.squared else moved


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
            known[row.policy] = episode_means(comparison, comparison.states[row.policy])
        means, deviations, shares = known[row.policy]
        others = np.arange(len(means)) != row.episode
        usual, usual_shares = means[others].mean(axis=0), shares[others].mean(axis=0)
        feature = int((np.abs(means[row.episode] - usual) / deviations).argmax())
        own = shares[row.episode]
        more = np.abs(own - usual_shares)
        regions = tuple(
            Difference(comparison.region_names[r], r, (float(usual_shares[r]), float(own[r])))
            for r in np.argsort(-more, kind="stable")[:_REGIONS].tolist()
            if more[r] >= _MIN_SHARE
        )
        yield replace(
            row,
            feature=comparison.features[feature],
            mean=float(means[row.episode, feature]),
            usual_mean=float(usual[feature]),
            regions=regions,
        )


def episode_means(comparison: ComparisonFolder, data: VisitedStates) -> tuple[Array, Array, Array]:
    """Means of features per episode, deviations of states, and shares of time in regions."""
    states = data.states.take(comparison.space.method.described_features, axis=1)
    starts = data.episode_starts
    sums = np.add.reduceat(states, starts[:-1], axis=0, dtype=np.float64)
    deviations = states.std(axis=0, dtype=np.float64)
    deviations[deviations == 0.0] = np.inf  # a constant feature
    shares = np.zeros((data.n_episodes, 0))
    if comparison.has_regions:
        mixture, rows = comparison.mixture, comparison.background.view(data)
        region, _ = assign_regions(rows, mixture)
        counts = [
            np.bincount(region[i:j], minlength=mixture.n_components)
            for i, j in pairwise(rows.episode_starts.tolist())
        ]
        shares = np.array(counts) / rows.lengths[:, None]
    return sums / data.lengths[:, None], deviations, shares


def _with_clips(
    result: Unusual, comparison: ComparisonFolder, replayer: Replayer, folder: Path, progress: bool
) -> Unusual:
    """Make clips of the most typical and the most unusual episode of the first policies."""

    def both(policy: str, typical: int, episode: int) -> tuple[str, list[Segment]]:
        replays = [replayer.stored(policy, n) for n in (typical, episode)]
        caption = (
            f"episode {typical}, the most typical; episode {episode}, the most unusual; the "
            "shorter one stops at its last frame"
        )
        return caption, [Segment.of(comparison, replay, 0, replay.last) for replay in replays]

    farthest: dict[str, int] = {}
    for row in result.episodes:
        farthest.setdefault(row.policy, row.episode)
    plans = [
        ClipPlan.of(f"{name}: typical and unusual", both, name, result.of(name).typical, episode)
        for name, episode in list(farthest.items())[:_MAX_CLIPS]
    ]
    clips = make_clips(plans, replayer, folder, progress)
    reasons = dict.fromkeys(clip.reason for clip in clips if clip.reason)
    return replace(result, clips=clips, notes=(*result.notes, *reasons))
