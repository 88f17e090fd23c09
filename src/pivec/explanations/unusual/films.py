"""Clips of the most typical and the most unusual episode of policies, side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pivec.characterizations.background import BackgroundModel
from pivec.explanations.film.replay import Replayer
from pivec.explanations.film.takes import CannotReplay
from pivec.explanations.folder import Findings
from pivec.explanations.pairs.difference import Clip
from pivec.explanations.pairs.films import Wanted, scene_of, shot
from pivec.explanations.regions.words import region_words

if TYPE_CHECKING:
    from pivec.explanations.unusual.result import Unusual, UnusualEpisode

MOST = 4  # policies that are filmed


def with_clips(
    result: Unusual,
    findings: Findings,
    replayer: Replayer | None,
    folder: Path,
    progress: bool = False,
) -> Unusual:
    """Film the most unusual episode of the first policies beside the most typical, all of both."""
    replayer = replayer or Replayer(findings)
    method, words = findings.space.method, tuple[str, ...]()
    if isinstance(method, BackgroundModel):
        features = findings.features
        words = region_words(method, features)
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
    findings: Findings,
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
