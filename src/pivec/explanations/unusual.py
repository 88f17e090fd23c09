"""Unusual episodes: how far each lies from its own policy's others, and in what."""

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
from pivec.characterizations import (
    BackgroundModel,
    Characterization,
    Descriptions,
    Supervector,
    Visitation,
)
from pivec.errors import UsageError
from pivec.explanations.films import Wanted, scene_of, shot
from pivec.explanations.folder import ComparisonFolder
from pivec.explanations.names import Feature, region_names
from pivec.explanations.outside import Coverage, measure_coverage, states_of
from pivec.explanations.pairs import Clip, shown_clip
from pivec.explanations.replay import CannotReplay, Replayer
from pivec.explanations.visits import assign
from pivec.results import Result, Row, plain
from pivec.states import VisitedStates
from pivec.text import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# -----------------------------------------------------------------------------
# How far each episode of a policy lies from its others, and in which regions and features.


Array = NDArray[np.float64]
_ALIKE = 1e-7  # of the length of a policy's point: so little is the rounding of equal episodes
_NOTABLE = 0.05  # share of time by which an episode differs in a region that is worth telling
_REGIONS = 2  # told of an episode


@dataclass(frozen=True)
class RegionTime:
    """How much of its time an episode spends in a region, and the policy's others."""

    region: int
    words: str
    share: float
    usual: float

    def __str__(self) -> str:
        times = f"{percent(self.share)} of its time (others {percent(self.usual)})"
        return f"{times} in region {self.region}: {self.words}"


def episode_distances(method: Characterization, data: VisitedStates) -> Array:
    """How far leaving out each episode of one policy moves its description, up to a factor."""
    m = data.n_episodes
    if m < 2:
        return np.zeros(m)
    if method.traits.influences:
        rows = method.describe(data, influences=True)
        return influence_lengths(rows.rows("influences")[0], point_of(method, rows, 0))
    moved = method.distances(method.leave_one_out(data), data)[:, 0]
    return np.asarray(np.sqrt(np.maximum(moved, 0.0)) if method.traits.squared else moved)


def influence_lengths(influences: NDArray[Any], point: Array) -> Array:
    """Lengths of influences, (n_episodes,); 0 where there is nothing but rounding."""
    rows = influences.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    lengths[lengths <= _ALIKE * math.sqrt(point @ point)] = 0.0
    return np.asarray(lengths)


def point_of(method: Characterization, described: Descriptions, row: int) -> Array:
    """Give what the influences on a policy are on."""
    return np.asarray(described.values(method.traits.coordinates)[0][row])


def episode_means(method: Characterization, data: VisitedStates) -> tuple[Array, Array, Array]:
    """Means of features and shares of time in regions of each episode, and states' deviations."""
    states = data.states
    starts = data.episode_starts
    sums = np.add.reduceat(states, starts[:-1], axis=0, dtype=np.float64)
    deviations = states.std(axis=0, dtype=np.float64)
    deviations[deviations == 0.0] = np.inf  # a feature that is the same everywhere
    shares = np.zeros((data.n_episodes, 0))
    if isinstance(method, BackgroundModel):
        mixture = method.mixtures_[0]
        region = assign(data, mixture).region
        counts = [
            np.bincount(region[i:j], minlength=mixture.n_components)
            for i, j in pairwise(starts.tolist())
        ]
        shares = np.array(counts) / data.lengths[:, None]
    return sums / data.lengths[:, None], deviations, shares


def unlike_regions(shares: Array, usual: Array, words: Sequence[str]) -> tuple[RegionTime, ...]:
    """The regions in which an episode spends most time more, or less, than the others."""
    more = shares - usual
    order = np.argsort(-np.abs(more), kind="stable")[:_REGIONS]
    return tuple(
        RegionTime(int(r), words[r], float(shares[r]), float(usual[r]))
        for r in order
        if abs(more[r]) >= _NOTABLE
    )


# -----------------------------------------------------------------------------
# What `unusual` gives: episodes by how far they are from their policy's others.


@dataclass(frozen=True)
class UnusualEpisode:
    """An episode and how it differs from its policy's others."""

    policy: str
    episode: int  # its number among the policy's, from 0
    times: float  # as far from the policy's mean as its usual episode is, at most n − 1
    spread: float  # its share of the policy's spread, from 0 to 1: of n alike ones each has 1/n
    seed: int | None
    total: float  # the return
    length: int | None  # in states
    feature: Feature | None = None  # whose mean differs most from the others', in deviations
    mean: float = math.nan
    usual_mean: float = math.nan
    regions: tuple[RegionTime, ...] = ()  # in which it spends more or less time than the others

    @property
    def reasons(self) -> list[str]:
        """Say what is unusual about it, a sentence each."""
        lines = [str(region) for region in self.regions]
        if self.feature is None:
            return lines
        if self.feature.is_flag:
            mean, usual = f"{percent(self.mean)} of its time", percent(self.usual_mean)
        else:
            unit = f" {self.feature.unit}" * bool(self.feature.unit)
            mean, usual = f"{self.mean:.3g}{unit} on average", f"{self.usual_mean:.3g}{unit}"
        numbers = f"{mean} (others {usual})".replace("-", "−")
        return [f"{self.feature.name} {numbers}", *lines]


@dataclass(frozen=True, eq=False)
class PolicyEpisodes:
    """All episodes of a policy: how far each is from the others; a row an episode."""

    policy: str
    times: Array
    returns: Array  # NaN where they are not known, as are the lengths
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
    """Episodes by how far they lie from their own policy's others, and states outside.

    ``times`` tells how many times as far an episode is from the mean of its policy as the policy's
    usual (median) episode: lengths of what leaving it out does to the description.
    """

    environment: str
    method: str
    episodes: tuple[UnusualEpisode, ...]  # the most unusual ones, farthest first
    policies: tuple[PolicyEpisodes, ...]
    outside: Coverage | None  # states where no policy has been, where the method tells
    notes: tuple[str, ...]  # what had to be left out
    clips: tuple[Clip, ...] = ()  # of the most typical and the most unusual episode of policies

    def of(self, policy: str) -> PolicyEpisodes:
        """Give all episodes of a policy."""
        return next(row for row in self.policies if row.policy == policy)

    def headline(self) -> str:
        """Say which episode is farthest off."""
        first = self.episodes[0]
        if first.times <= 1.0:
            return "The episodes of each policy are all alike"
        times = "infinitely" if math.isinf(first.times) else f"{first.times:.2g} times as"
        return f"Episode {first.episode} of {first.policy} is {times} far from the others as usual"

    def rows(self) -> list[Row]:
        """One row an unusual episode, farthest first."""
        return [
            {
                "policy": row.policy,
                "episode": row.episode,
                "times": row.times,
                "spread": row.spread,
                "return": row.total,
                "usual_return": self.of(row.policy).usual_return,
                "length": row.length,
                "usual_length": self.of(row.policy).usual_length,
                "seed": row.seed,
                "typical": self.of(row.policy).typical,
                "words": "; ".join(row.reasons),
            }
            for row in self.episodes
        ]

    def to_json(self) -> dict[str, Any]:
        """Give everything as JSON can hold it; what is not known, or infinite, is None."""
        own: dict[str, Any] = plain(vars(self))
        outside = None if self.outside is None else self.outside.to_json()
        clips = [shown_clip(clip) for clip in self.clips]
        return own | {"headline": self.headline(), "outside": outside, "clips": clips}

    def figure(self) -> Figure:
        """Draw all episodes of the policies with the most unusual ones, which have names."""
        from pivec.explanations.outside import unusual_figure

        return unusual_figure(self)


FEWEST = 3  # episodes of a policy: of two, neither is the unusual one


@checked
def find_unusual(
    where: Any,
    policies: Sequence[str] | None = None,
    *,
    top: Count = 10,
    clips: str | Path | None = None,
    replayer: Any = None,
    progress: bool = False,
) -> Unusual:
    """Rank episodes by how far they lie from their own policy's others.

    Leaving out an episode moves the description of its policy: the farther, the farther the episode
    is from the others. That is compared with what the policy's usual (median) episode does, so that
    policies that vary much and little can stand in one list.

    Parameters
    ----------
    where : path, Comparison or ComparisonFolder
        A folder of `pivec.compare`.
    policies : sequence of str, optional
        Names of policies; if not given, all but those of an earlier space.
    top : int
        How many episodes to give.
    clips : path, optional
        A folder for clips of the most typical and the most unusual episode of policies; none are
        made if it is not given.
    replayer : pivec.explanations.replay.Replayer, optional
        Plays episodes again for clips, where the folder alone does not tell how.
    progress : bool
        Draw a progress bar while clips are made.

    Examples
    --------
    >>> from pathlib import Path
    >>> from pivec.characterizations import Space
    >>> from pivec.states import VisitedStates
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
    findings = ComparisonFolder.open(where)
    labels = [findings.find(name).label for name in policies or ()]
    notes: list[str] = []
    ranked, candidates = _ranked(findings, labels, top, notes)
    if findings.data is None:
        notes.append("the states are not there, so that nothing tells what is unusual")
    result = Unusual(
        str(findings.space.collected.get("environment", "")),
        findings.space.method.name,
        tuple(_explained(findings, candidates)),
        ranked,
        _outside(findings, labels, notes),
        tuple(notes),
    )
    if clips is None:
        return result

    return with_clips(result, findings, replayer, Path(clips), progress)


def _ranked(
    findings: ComparisonFolder, labels: list[str], top: int, notes: list[str]
) -> tuple[tuple[PolicyEpisodes, ...], list[UnusualEpisode]]:
    """Measure all episodes of policies, and pick the farthest of all."""
    ranked: list[PolicyEpisodes] = []
    candidates: list[UnusualEpisode] = []
    few = 0
    for label, distances in _all_distances(findings, labels, notes):
        if len(distances) < FEWEST:
            few += 1
            continue
        mine = _policy_episodes(findings, label, distances)
        ranked.append(mine)
        candidates += _first_episodes(findings, mine, distances, top)
    if few:
        notes.append(
            f"{few} polic{'ies have' if few > 1 else 'y has'} fewer than {FEWEST} episodes, of "
            "which none can be called unusual"
        )
    if not ranked:
        raise UsageError(f"expected policies with {FEWEST} episodes or more, but {notes[-1]}")
    candidates.sort(key=lambda row: (-row.times, -row.spread))
    return tuple(ranked), candidates[:top]


def _all_distances(
    findings: ComparisonFolder, labels: list[str], notes: list[str]
) -> Iterator[tuple[str, Array]]:
    """Go through policies and the distances of their episodes."""
    space, method = findings.space, findings.space.method
    if not method.traits.additive:
        raise UsageError(
            f"{findings.folder} was described by {method.name}, which does not tell what an "
            "episode adds to a description: compare with --method visitation"
        )
    described = space.descriptions
    kept = described.rows("influences") if "influences" in described.arrays else None
    if isinstance(method, Supervector) and findings.data is None:
        notes.append("supervectors see means alone, not an episode that is alone in its region")
    elif isinstance(method, Supervector):
        # Means of regions are where they were without an episode that was alone in its region.
        kept, twin = None, Visitation(method.n_components, device=method.device)
        method = twin.restore(method.feature_names_, method.fitted_arrays())
        notes.append("supervectors see means alone: episodes are compared by visitation instead")
    references = space.is_reference
    for row, label in enumerate(described.labels):
        if label not in labels if labels else references[row]:
            continue
        if kept is not None:
            yield label, influence_lengths(kept[row], point_of(method, described, row))
        else:
            yield label, episode_distances(method, states_of(findings, [label]))


def _policy_episodes(findings: ComparisonFolder, label: str, distances: Array) -> PolicyEpisodes:
    usual = float(np.median(distances))
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(distances == usual, 1.0, distances / usual)
    returns, lengths = np.full((2, len(distances)), np.nan)
    data = _states_of(findings, label, len(distances))
    if data is not None:
        returns, lengths = data.returns, data.lengths.astype(np.float64)
    return PolicyEpisodes(label, times, returns, lengths, int(distances.argmin()))


def _states_of(findings: ComparisonFolder, label: str, episodes: int) -> VisitedStates | None:
    """Give the states of a policy, if they are there and are those that were described."""
    if findings.data is None or label not in findings.data.labels:
        return None
    data = findings.data[label]
    if data.n_episodes != episodes:
        raise UsageError(
            f"{findings.folder} has {data.n_episodes} episodes of {label!r}, but {episodes} were "
            "described: run the comparison again"
        )
    return data


def _first_episodes(
    findings: ComparisonFolder, mine: PolicyEpisodes, distances: Array, top: int
) -> list[UnusualEpisode]:
    """The most unusual episodes of a policy, without what is unusual about them."""
    squares = distances**2
    spread = squares / (squares.sum() or math.nan)
    data = _states_of(findings, mine.policy, len(distances))
    seeds = np.full(len(distances), -1) if data is None else data.seeds
    return [
        UnusualEpisode(
            mine.policy,
            episode,
            float(mine.times[episode]),
            float(spread[episode]),
            int(seeds[episode]) if seeds[episode] >= 0 else None,
            float(mine.returns[episode]),
            int(mine.lengths[episode]) if data is not None else None,
        )
        for episode in np.argsort(-distances, kind="stable")[:top].tolist()
    ]


def _explained(
    findings: ComparisonFolder, episodes: Sequence[UnusualEpisode]
) -> Iterator[UnusualEpisode]:
    """Tell of each episode in which feature and regions it differs from its policy's others."""
    method, known = findings.space.method, dict[str, tuple[Array, Array, Array]]()
    features = findings.features
    words = region_names(method, features) if isinstance(method, BackgroundModel) else ()
    for row in episodes:
        if findings.data is None or row.policy not in findings.data.labels:
            yield row
            continue
        if row.policy not in known:
            known[row.policy] = episode_means(method, findings.data[row.policy])
        means, deviations, shares = known[row.policy]
        others = np.delete(np.arange(len(means)), row.episode)
        usual = means[others].mean(axis=0)
        feature = int((np.abs(means[row.episode] - usual) / deviations).argmax())
        yield replace(
            row,
            feature=features[feature],
            mean=float(means[row.episode, feature]),
            usual_mean=float(usual[feature]),
            regions=unlike_regions(shares[row.episode], shares[others].mean(axis=0), words),
        )


def _outside(findings: ComparisonFolder, labels: list[str], notes: list[str]) -> Coverage | None:
    """Count states outside, or note why they cannot be counted."""
    kept = () if findings.data is None else findings.data.labels
    chosen = [label for label in labels or kept if label in kept]
    if not chosen or not isinstance(findings.space.method, BackgroundModel):
        return None
    try:
        return measure_coverage(findings, chosen)
    except UsageError as error:
        notes.append(str(error))
        return None


# -----------------------------------------------------------------------------
# Clips of the most typical and the most unusual episode of policies, side by side.


MOST = 4  # policies that are filmed


def with_clips(
    result: Unusual,
    findings: ComparisonFolder,
    replayer: Replayer | None,
    folder: Path,
    progress: bool = False,
) -> Unusual:
    """Film the most unusual episode of the first policies beside the most typical, all of both."""
    replayer = replayer or Replayer(findings)
    method, words = findings.space.method, tuple[str, ...]()
    if isinstance(method, BackgroundModel):
        features = findings.features
        words = region_names(method, features)
    farthest: dict[str, UnusualEpisode] = {}
    for episode in result.episodes:
        farthest.setdefault(episode.policy, episode)
    chosen = list(farthest.values())[:MOST]
    wanted = [_wanted(result, findings, replayer, episode, words) for episode in chosen]
    made = shot(wanted, replayer, folder, progress)
    reasons = dict.fromkeys(clip.reason for clip in made if clip.reason)
    return replace(result, clips=made, notes=(*result.notes, *reasons))


def _wanted(
    result: Unusual,
    findings: ComparisonFolder,
    replayer: Replayer,
    episode: UnusualEpisode,
    words: tuple[str, ...],
) -> Wanted:
    typical = result.of(episode.policy).typical
    title = f"{episode.policy}: typical and unusual"
    about = (
        f"left: episode {typical}, the most typical; right: episode {episode.episode}, the most "
        "unusual; the shorter one stays on its last picture"
    )
    try:
        takes = [replayer.stored(episode.policy, n) for n in (typical, episode.episode)]
    except CannotReplay as error:
        return Clip(title, about, None, str(error)), ()
    return Clip(title, about), [scene_of(words, findings, take, 0, take.last) for take in takes]
