"""Unusual episodes: how far each lies from its own policy's others, and in what."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.characterizations.background import BackgroundModel
from pivec.characterizations.supervector import Supervector
from pivec.characterizations.visitation import Visitation
from pivec.errors import UsageError
from pivec.explanations.folder import Findings
from pivec.explanations.regions.words import region_words
from pivec.explanations.unusual.episodes import (
    episode_distances,
    episode_means,
    influence_lengths,
    point_of,
    unlike_regions,
)
from pivec.explanations.unusual.outside import Outside, states_of, states_outside
from pivec.explanations.unusual.result import PolicyEpisodes, Unusual, UnusualEpisode
from pivec.states.visited import VisitedStates

Array = NDArray[np.float64]
FEWEST = 3  # episodes of a policy: of two, neither is the unusual one


@checked
def unusual(
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
    where : path, Comparison or Findings
        A folder of `pivec.compare`.
    policies : sequence of str, optional
        Names of policies; if not given, all but those of an earlier space.
    top : int
        How many episodes to give.
    clips : path, optional
        A folder for clips of the most typical and the most unusual episode of policies; none are
        made if it is not given.
    replayer : pivec.explanations.film.replay.Replayer, optional
        Plays episodes again for clips, where the folder alone does not tell how.
    progress : bool
        Draw a progress bar while clips are made.

    Examples
    --------
    >>> from pathlib import Path
    >>> from pivec import Space, VisitedStates, characterization
    >>> rng = np.random.default_rng(0)
    >>> walks = [rng.normal(0, 1, (50, 2)) + (3.0 if e == 7 else 0.0) for e in range(20)]
    >>> data = VisitedStates.from_arrays([walks], labels=["walk"])
    >>> method = characterization("visitation", n_components=4).fit(data)
    >>> space = Space(method, method.describe(data, influences=True))
    >>> result = unusual(Findings(Path("."), space, data), top=1)
    >>> result.episodes[0].episode, result.episodes[0].times > 3
    (7, True)
    """
    findings = Findings.open(where)
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
    from pivec.explanations.unusual.films import with_clips

    return with_clips(result, findings, replayer, Path(clips), progress)


def _ranked(
    findings: Findings, labels: list[str], top: int, notes: list[str]
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
    findings: Findings, labels: list[str], notes: list[str]
) -> Iterator[tuple[str, Array]]:
    """Go through policies and the distances of their episodes."""
    space, method = findings.space, findings.space.method
    if not method.has_statistics:
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


def _policy_episodes(findings: Findings, label: str, distances: Array) -> PolicyEpisodes:
    usual = float(np.median(distances))
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(distances == usual, 1.0, distances / usual)
    returns, lengths = np.full((2, len(distances)), np.nan)
    data = _states_of(findings, label, len(distances))
    if data is not None:
        returns, lengths = data.returns, data.lengths.astype(np.float64)
    return PolicyEpisodes(label, times, returns, lengths, int(distances.argmin()))


def _states_of(findings: Findings, label: str, episodes: int) -> VisitedStates | None:
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
    findings: Findings, mine: PolicyEpisodes, distances: Array, top: int
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


def _explained(findings: Findings, episodes: Sequence[UnusualEpisode]) -> Iterator[UnusualEpisode]:
    """Tell of each episode in which feature and regions it differs from its policy's others."""
    method, known = findings.space.method, dict[str, tuple[Array, Array, Array]]()
    features = findings.features
    words = region_words(method, features) if isinstance(method, BackgroundModel) else ()
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


def _outside(findings: Findings, labels: list[str], notes: list[str]) -> Outside | None:
    """Count states outside, or note why they cannot be counted."""
    kept = () if findings.data is None else findings.data.labels
    chosen = [label for label in labels or kept if label in kept]
    if not chosen or not isinstance(findings.space.method, BackgroundModel):
        return None
    try:
        return states_outside(findings, chosen)
    except UsageError as error:
        notes.append(str(error))
        return None
