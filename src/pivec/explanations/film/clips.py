"""Clips that people can watch: animated WebP of parts of episodes, two side by side."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pivec.atomic import file_name
from pivec.errors import PivecWarning
from pivec.explanations.film.drawing import Job
from pivec.explanations.film.frames import Order, digests, fulfil
from pivec.explanations.film.montage import Reel, draw_clip
from pivec.explanations.film.replay import Replayer
from pivec.explanations.film.takes import CannotReplay, Scene, Take

__all__ = ["Scene", "clip", "clips", "film_episodes"]

_LOOK = 1  # to be raised when clips look different
_SECONDS, _WHOLE = 10.0, 60.0  # that a clip plays, and a whole episode


def clip(
    replayer: Replayer, scenes: Sequence[Scene], folder: str | Path, seconds: float = _SECONDS
) -> Path:
    """Film one scene, or several side by side; what cannot be filmed is a `CannotReplay`."""
    (result,) = clips(replayer, [scenes], folder, seconds=seconds)
    if isinstance(result, str):
        raise CannotReplay(result)
    return result


def clips(
    replayer: Replayer,
    wanted: Sequence[Sequence[Scene]],
    folder: str | Path,
    progress: bool = False,
    *,
    seconds: float = _SECONDS,
    names: Sequence[str] | None = None,
) -> list[Path | str]:
    """Film many, in processes.

    Below the pictures stand label, step and caption. Scenes go on side by side, step by step, as
    fast as the environment is meant to be shown; a long one is played faster. The shorter one
    stays on its last picture, which says so. As for `pivec.explanations.film.frames.film`, a state
    that differs by a bit from the take's leaves no clip.

    Parameters
    ----------
    replayer : Replayer
        Knows the environment.
    wanted : sequence of sequences of Scene
        The scenes of each clip, from left to right.
    folder : path
        Where to keep the clips. One that is there already is not made again.
    progress : bool
        Draw a progress bar.
    seconds : float
        How long a clip may play.
    names : sequence of str, optional
        Files in the folder, ``.webp`` or ``.gif``, which are made in any case.

    Returns
    -------
    list of Path or str
        For each clip its file, or a sentence that says why there is none.
    """
    return fulfil(clip_orders(replayer, wanted, folder, seconds, names), progress)


def clip_orders(
    replayer: Replayer,
    wanted: Sequence[Sequence[Scene]],
    folder: str | Path,
    seconds: float = _SECONDS,
    names: Sequence[str] | None = None,
) -> list[Order]:
    """Order what `clips` gives, to be fulfilled together with other orders."""
    if reason := replayer.problem():
        return [Order(reason)] * len(wanted)
    orders = []
    for number, scenes in enumerate(wanted):
        name = _name(replayer, scenes, seconds) if names is None else names[number]
        file = Path(folder) / name
        cut = tuple(replace(scene, take=scene.take.until(scene.last)) for scene in scenes)
        reel = Reel(cut, tuple(scene.ends for scene in scenes), file, seconds)
        is_there = names is None and file.exists()
        orders.append(Order(file, None if is_there else Job(replayer.studio, draw_clip, reel)))
    return orders


def film_episodes(
    replayer: Replayer, wanted: Sequence[tuple[str, int]], folder: str | Path, progress: bool
) -> list[Path]:
    """Film whole episodes, (label, number), as GIF files in a folder for each policy.

    What cannot be filmed is warned of; if that is all, it is an error.
    """
    takes = replayer.stored_many(wanted)
    filmed = [(take, pair) for take, pair in zip(takes, wanted, strict=True) if type(take) is Take]
    results: list[Path | str] = [str(take) for take in takes if isinstance(take, CannotReplay)]
    results += clips(
        replayer,
        [[Scene(take, 0, take.last)] for take, _ in filmed],
        folder,
        progress,
        seconds=_WHOLE,
        names=[f"{file_name(name) or 'policy'}/episode-{n}.gif" for _, (name, n) in filmed],
    )
    reasons = list(dict.fromkeys(result for result in results if isinstance(result, str)))
    written = [result for result in results if isinstance(result, Path)]
    if reasons and not written:
        raise CannotReplay(reasons[0])
    for reason in reasons:
        warnings.warn(reason, PivecWarning, stacklevel=2)
    return written


def _name(replayer: Replayer, scenes: Sequence[Scene], seconds: float) -> str:
    """Name a clip by all that it depends on."""
    known = []
    for scene in scenes:
        (until,) = digests(replayer.environment, scene.take, [scene.last]).values()
        known += [until, scene.take.label, scene.first, scene.ends, *(scene.captions or ())]
    text = json.dumps([known, seconds, _LOOK])
    return f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.webp"
