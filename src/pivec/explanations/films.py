"""Pictures and clips of a difference; what cannot be filmed says why, and the rest stays whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import OFTEN, BackgroundModel, Decomposition
from pivec.explanations.clips import clip_orders
from pivec.explanations.folder import ComparisonFolder
from pivec.explanations.frames import Order, fulfil, still_orders
from pivec.explanations.pairs import Clip, PairExplanation
from pivec.explanations.replay import CannotReplay, Replayer, Scene, Take
from pivec.explanations.visits import Frame, assign

# -----------------------------------------------------------------------------
# Where in its episodes a difference shows most: what a step is worth, and the best cut.


Array = NDArray[np.float64]


@dataclass(frozen=True)
class Cut:
    """Rows ``first`` to ``last`` (inclusive) of an episode, and what they are worth together."""

    episode: int
    first: int
    last: int
    worth: float


def worth_of_regions(explanation: Decomposition, side: int) -> Array:
    """Give what a step in each region shows of the difference, (R,), for policy 0 or 1.

    A step where a policy is more often than the other is worth the part of the region; where it is
    less often it counts against, but for what differs within the region, which shows either way.
    Parts that may be chance are worth nothing.
    """
    often = explanation.kinds.get(OFTEN)
    parts = np.where(explanation.regions.noise, 0.0, np.maximum(explanation.regions.measured, 0.0))
    if often is None:
        return parts
    frequency = np.where(often.noise, 0.0, often.measured)
    within = np.maximum(parts - often.measured, 0.0)
    more = np.sign(explanation.share[side] - explanation.share[1 - side])
    return np.asarray(np.nan_to_num(more) * frequency + within)


def best_cut(worth: Array, starts: NDArray[np.int64], length: int) -> Cut:
    """Find the cut of at most ``length`` rows, within an episode, that is worth most.

    ``worth`` has a row a state; episode e has the rows starts[e] to starts[e + 1].

    Examples
    --------
    >>> best_cut(np.array([0.0, 1, 0, 0, 1, 1, 0]), np.array([0, 3, 7]), 2)
    Cut(episode=1, first=1, last=2, worth=2.0)
    """
    best = Cut(0, 0, 0, -np.inf)
    for episode, (begin, end) in enumerate(pairwise(starts.tolist())):
        sums = np.concatenate([[0.0], np.cumsum(worth[begin:end])])
        n = min(length, end - begin)
        gains = sums[n:] - sums[:-n]
        first = int(gains.argmax())
        # Sums of other episodes that are equal but for rounding do not count as larger.
        if gains[first] > best.worth + 1e-9 * abs(best.worth if episode else 0.0):
            best = Cut(episode, first, first + n - 1, float(gains[first]))
    return best


SECONDS, MOST_STEPS = 6.0, 150  # of a clip, in the environment's time
_FROM_START = 2  # times that, of a clip that begins with the episode
LARGEST, SAME_SEED = "Where the difference is largest", "Both from the same start"


def with_media(
    difference: PairExplanation,
    findings: ComparisonFolder,
    replayer: Replayer,
    folder: Path,
    frames: bool = True,
    n_clips: int = 2,
    progress: bool = False,
) -> PairExplanation:
    """Draw the states of both in the leading regions, and film both, in one round of processes."""
    steps = steps_by_episode(difference) if frames else {}
    takes = dict(zip(steps, replayer.stored_many(list(steps)), strict=True))
    played = {place: take for place, take in takes.items() if isinstance(take, Take)}
    states = [(take, steps[place]) for place, take in played.items()]
    wanted = wanted_clips(difference, findings, replayer, n_clips) if n_clips else []
    orders = still_orders(replayer, states, folder / "frames")
    orders += orders_of(wanted, replayer, folder / "clips")
    made = fulfil(orders, progress)
    drawn = {place: str(take) for place, take in takes.items()} | dict(
        zip(played, made, strict=False)
    )
    if frames:
        shown = {place: _shown(frame, drawn) for place, frame in difference.frames.items()}
        difference = replace(difference, frames=shown)
    difference = replace(difference, clips=_filmed(wanted, made[len(states) :]))
    reasons = [frame.reason for frame in difference.frames.values()]
    reasons += [clip.reason for clip in difference.clips]
    notes = [*difference.notes, *filter(None, reasons)]
    return replace(difference, notes=tuple(dict.fromkeys(notes)))


def steps_by_episode(difference: PairExplanation) -> dict[tuple[str, int], list[int]]:
    """Give the steps to draw of each (policy, episode)."""
    steps: dict[tuple[str, int], list[int]] = {}
    for frame in difference.frames.values():
        steps.setdefault((frame.visit.policy, frame.visit.episode), []).append(frame.visit.step)
    return steps


def _shown(frame: Frame, drawn: Mapping[tuple[str, int], dict[int, Path] | str]) -> Frame:
    """Put in the picture of a state, or why there is none."""
    made = drawn[frame.visit.policy, frame.visit.episode]
    if isinstance(made, str):
        return replace(frame, reason=made)
    return replace(frame, path=made[frame.visit.step])


# A clip that is wanted, with its scenes, or why they cannot be played.
Wanted = tuple[Clip, Sequence[Scene]]


def shot(
    wanted: Sequence[Wanted], replayer: Replayer, folder: Path, progress: bool
) -> tuple[Clip, ...]:
    """Film what can be filmed."""
    return _filmed(wanted, fulfil(orders_of(wanted, replayer, folder), progress))


def orders_of(wanted: Sequence[Wanted], replayer: Replayer, folder: Path) -> list[Order]:
    """Order the clips that can be filmed."""
    return clip_orders(replayer, [scenes for clip, scenes in wanted if not clip.reason], folder)


def _filmed(wanted: Sequence[Wanted], made: Sequence[Path | str]) -> tuple[Clip, ...]:
    """Put in the files of clips, or why there are none."""
    files = iter(made)
    result = []
    for clip, _ in wanted:
        file = clip.reason or next(files)
        where = {"reason": file} if isinstance(file, str) else {"path": file}
        result.append(replace(clip, **where))
    return tuple(result)


def wanted_clips(
    difference: PairExplanation, findings: ComparisonFolder, replayer: Replayer, n_clips: int
) -> list[Wanted]:
    """Choose what is filmed: the largest difference, then both from the same seeds."""
    length = steps_of_a_clip(replayer)
    wanted = []
    if _shows(difference, findings):
        wanted.append(_largest(difference, findings, replayer, length))
    for number in range(n_clips - len(wanted)):
        wanted.append(_same_seed(difference, findings, replayer, number, _FROM_START * length))
    return wanted


def _shows(difference: PairExplanation, findings: ComparisonFolder) -> bool:
    """Tell whether there are steps that show the difference more than others."""
    kept = findings.data is not None and set(difference.labels) <= set(findings.data.labels)
    regions = isinstance(findings.space.method, BackgroundModel)
    return kept and regions and not difference.decomposition.regions.noise.all()


def steps_of_a_clip(replayer: Replayer) -> int:
    """Give so many steps as fill a clip in the environment's time."""
    if replayer.problem():
        return MOST_STEPS  # the clips themselves will say why
    return min(MOST_STEPS, max(10, round(SECONDS * replayer.studio.rate)))


def _largest(
    difference: PairExplanation, findings: ComparisonFolder, replayer: Replayer, length: int
) -> Wanted:
    """Cut from an episode of each where it is most what the other is not."""
    scenes, words = [], []
    mixture = findings.background.mixtures_[0]
    for side, label in enumerate(difference.labels):
        own = findings.states[label]
        worth = worth_of_regions(difference.decomposition, side)[assign(own, mixture).region]
        every = own.records[0].every
        cut = best_cut(worth, own.episode_starts, max(1, length // every))
        try:
            take = replayer.stored(label, cut.episode)
        except CannotReplay as error:
            return Clip(LARGEST, "", None, str(error)), ()
        first, last = cut.first * every, min(cut.last * every, take.last)
        scenes.append(scene_of(difference.decomposition.words, findings, take, first, last))
        words.append(f"{label}, episode {cut.episode} (seed {take.seed}), steps {first} to {last}")
    about = (
        f"left: {words[0]}; right: {words[1]}; two different episodes, chosen because in them each "
        "policy differs most from the other"
    )
    return Clip(LARGEST, about), scenes


def _same_seed(
    difference: PairExplanation,
    findings: ComparisonFolder,
    replayer: Replayer,
    number: int,
    length: int,
) -> Wanted:
    """Let both play from the seed of a stored episode, the first ones, which nobody chose."""
    a, b = difference.labels
    seed = number
    title = SAME_SEED if not number else f"{SAME_SEED}, once more"
    try:
        if findings.data is not None and a in findings.data.labels:
            own = findings.data[a]
            take = replayer.stored(a, min(number, own.n_episodes - 1))
            seed = take.seed
        else:
            take = replayer.on_seed(a, seed)
        takes = (take, replayer.on_seed(b, seed))
    except CannotReplay as error:
        return Clip(title, "", None, str(error)), ()
    scenes = []
    for take in takes:
        last = min(take.last, length)
        scenes.append(scene_of(difference.decomposition.words, findings, take, 0, last))
    ends = " and ".join(str(scene.last) for scene in scenes)
    chosen = (
        f"the seed of its stored episode {takes[0].episode}"
        if takes[0].episode is not None
        else "a seed"
    )
    about = (
        f"left: {a}; right: {b}; both from seed {seed} ({chosen}, not chosen for what happens), "
        f"up to step {ends}"
    )
    return Clip(title, about), scenes


def alone(
    findings: ComparisonFolder, replayer: Replayer, label: str, title: str, words: Sequence[str]
) -> Wanted:
    """Film the first stored episode of a policy from its start."""
    try:
        take = replayer.stored(label, 0)
    except CannotReplay as error:
        return Clip(title, label, None, str(error)), ()
    last = min(take.last, _FROM_START * steps_of_a_clip(replayer))
    about = f"{label}, episode 0 (seed {take.seed}, not chosen for what happens), up to step {last}"
    return Clip(title, about), [scene_of(words, findings, take, 0, last)]


def scene_of(
    words: Sequence[str], findings: ComparisonFolder, take: Take, first: int, last: int
) -> Scene:
    """Cut a take, with the region of each step in words."""
    method = findings.space.method
    if not isinstance(method, BackgroundModel):
        return Scene(take, first, last, None)
    regions, _ = method.mixtures_[0].assign(np.ascontiguousarray(take.states[first : last + 1]))
    return Scene(take, first, last, [words[region] for region in regions.tolist()])
