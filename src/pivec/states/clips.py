"""Short films of episodes: replayed from their seeds and actions, with no screen attached."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.atomic import atomic_write, file_name, make_folder
from pivec.errors import EnvironmentFailure, PivecError, UsageError
from pivec.rollouts.environment import Environment, close
from pivec.rollouts.episodes import Episode
from pivec.states.visited import VisitedStates

_FRAMES_A_SECOND = 25  # GIF counts in hundredths of a second; more is shown by few viewers
_WIDTH = 320
_MOST_FRAMES = 1500


def render_clips(
    data: VisitedStates,
    environment: Environment,
    folder: str | Path,
    episodes: Sequence[int] = (0,),
) -> list[Path]:
    """Write a GIF of the chosen episodes of every policy, into a folder for each.

    The data were collected in Gymnasium, in this environment, with actions, and are not thinned.
    """
    if not data.has_actions:
        raise UsageError("clips are replayed from actions: collect with --actions")
    last = int(np.diff(data.policy_starts).min())
    for number in episodes:
        if not 0 <= number < last:
            raise UsageError(f"there is no episode {number} to render: expected 0 to {last - 1}")
    env = _rendering(environment)
    written = []
    try:
        for record in data.records:
            info = record.info
            if info.source.startswith(("npz:", "minari:")):
                continue  # recorded elsewhere: where it began is not known
            if "kept_every" in info.metadata:
                raise UsageError(f"{info.label} is thinned, so its actions are not all there")
            played = list(record.as_episodes())
            for number in episodes:
                frames = _replay(env, played[number], f"episode {number} of {info.label}")
                path = Path(folder) / (file_name(info.label) or "policy") / f"episode-{number}.gif"
                _write(path, frames, float(env.metadata.get("render_fps") or 30))
                written.append(path)
    finally:
        close(env, environment.name)
    return written


def _rendering(environment: Environment) -> Any:
    try:
        return environment.make(render_mode="rgb_array")
    except EnvironmentFailure as error:
        if not isinstance(error.__cause__, TypeError):
            raise
        raise UsageError(
            f"the function that makes the environment must take render_mode to be filmed: {error}"
        ) from error


def _replay(env: Any, episode: Episode, which: str) -> list[NDArray[np.uint8]]:
    """Play known actions again and keep every frame."""
    actions = np.asarray(episode.actions)
    env.reset(seed=episode.seed)
    frames = [_frame(env)]
    for step, action in enumerate(actions):
        move = action.item() if action.ndim == 0 else action
        _, _, terminated, truncated, _ = env.step(move)
        frames.append(_frame(env))
        if (terminated or truncated) and step + 1 < len(actions):
            raise PivecError(
                f"{which} ended after {step + 1} of its {len(actions)} steps when it was played "
                "again: the environment does not repeat itself from a seed, so it cannot be filmed"
            )
        if len(frames) == _MOST_FRAMES:
            break
    return frames


def _frame(env: Any) -> NDArray[np.uint8]:
    frame = env.render()
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise UsageError("the environment gives no pictures with render_mode=rgb_array")
    return frame.astype(np.uint8)


def _write(path: Path, frames: list[NDArray[np.uint8]], rate: float) -> None:
    from PIL import Image

    every = max(1, round(rate / _FRAMES_A_SECOND))
    pictures = []
    for frame in [*frames[:-1:every], frames[-1]]:
        picture = Image.fromarray(frame[..., :3])
        if picture.width > _WIDTH:
            picture = picture.resize((_WIDTH, round(picture.height * _WIDTH / picture.width)))
        pictures.append(picture.quantize(64))
    make_folder(path.parent)
    with atomic_write(path) as file:
        pictures[0].save(
            file,
            format="GIF",
            save_all=True,
            append_images=pictures[1:],
            duration=max(20, round(1000 * every / rate)),
            loop=0,
        )
