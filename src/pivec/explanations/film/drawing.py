"""Drawing: an episode is stepped through again, and every state must be the one that is kept.

This runs in processes of its own, which import nothing heavy.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.engines.engine import Tell
from pivec.errors import EnvironmentFailure, PivecError, PivecWarning, UsageError
from pivec.explanations.film.takes import CannotReplay, Take
from pivec.options import Features
from pivec.policies.travelling import unpacked
from pivec.rollouts import spaces
from pivec.rollouts.environment import Environment, close, failure
from pivec.rollouts.features import feature_rows

WIDTH = 320  # of a picture, in points
_WIDE_ENOUGH = 240
_LEAST = 160  # smaller ones are drawn larger
_QUALITY = 80

Frame = NDArray[np.uint8]


@dataclass(frozen=True)
class Studio:
    """What episodes are drawn with."""

    world: Environment
    view: Features | None
    rate: float = 30.0  # pictures a second, as the environment would be shown


Files = dict[Path, bytes]  # what was drawn, by where it belongs
Draw = Callable[[Studio, Any], Files]


@dataclass(frozen=True, eq=False)
class Job:
    """An episode or several to be drawn: a function that does it, and what of."""

    studio: Studio
    draw: Draw
    what: Any

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Name what may be a user's own."""
        yield "the environment", self.studio.world
        yield "features=", self.studio.view


def work(job: Job, _tell: Tell) -> Files | str:
    """Draw, or say why not; in a process that was started for this."""
    # With no screen attached; what the user chose stays.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    return attempt(job)


def attempt(job: Job) -> Files | str:
    """Draw, or say why not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of packages that draw
            warnings.simplefilter("default", PivecWarning)
            return job.draw(job.studio, job.what)
    except PivecError as error:
        return str(error)
    except (Exception, SystemExit) as error:
        return f"{job.studio.world.name} cannot be filmed: {type(error).__name__}: {error}"


def pictures(
    world: Environment, view: Features | None, take: Take, steps: Collection[int]
) -> Iterator[tuple[int, Frame]]:
    """Step through an episode; yield step and picture for each wanted step."""
    env = _rendering(world)
    try:
        if take.seated is not None:
            env.unwrapped.seat_policy(unpacked(take.seated[0]).policy, take.seated[1])
        room = spaces.empty_batch(env.observation_space, 1)
        for step in range(max(steps) + 1):
            try:
                if step == 0:
                    observation, info = env.reset(seed=take.seed)
                else:
                    action = take.actions[step - 1]
                    observation, *_, info = env.step(action.item() if action.ndim == 0 else action)
            except (Exception, SystemExit) as error:
                raise failure(world.name, f"step {step} while it was filmed", error) from error
            spaces.assign(room, 0, observation)
            seen = (
                spaces.flatten(env.observation_space, room)
                if view is None
                else feature_rows(view, room, [info], [env])
            )
            if step == 0 and (late := getattr(view, "late_columns", None)):
                seen[0, late] = take.states[0, late]  # what is not known yet
            if seen[0].tobytes() != take.states[step].tobytes():
                raise CannotReplay(
                    f"step {step} of {take.label} (seed {take.seed}) shows another state when it "
                    "is drawn: the environment does not repeat itself from a seed, or has changed"
                )
            if step in steps:
                yield step, _frame(env, world.name)
    finally:
        close(env, world.name)


def _rendering(world: Environment) -> Any:
    try:
        return world.make(render_mode="rgb_array")
    except EnvironmentFailure as error:
        if not isinstance(error.__cause__, TypeError):
            raise
        raise UsageError(
            f"the function that makes the environment must take render_mode to be filmed: {error}"
        ) from error


def _frame(env: Any, name: str) -> Frame:
    try:
        frame = env.render()
    except (Exception, SystemExit) as error:
        raise failure(name, "render()", error) from error
    is_picture = isinstance(frame, np.ndarray) and frame.ndim == 3 and frame.shape[2] in (3, 4)
    if not is_picture or frame.dtype.kind not in "iu" or not frame.size:
        raise CannotReplay(f"{name} gives no pictures with render_mode=rgb_array")
    return np.ascontiguousarray(frame[..., :3], dtype=np.uint8)


def sized(frame: Frame, width: int = WIDTH) -> Any:
    """Make a picture of a frame, not wider than ``width`` and not tiny."""
    from PIL import Image

    picture = Image.fromarray(frame)
    times = -(-picture.width // width)
    if times > 1 and picture.width // times >= _WIDE_ENOUGH:
        return picture.reduce(times)  # several times as fast as other sizes
    if times > 1:
        height = max(1, round(picture.height * width / picture.width))
        return picture.resize((width, height), Image.Resampling.BILINEAR)
    times = -(-_LEAST // picture.width)
    size = times * picture.width, times * picture.height
    return picture if times == 1 else picture.resize(size, Image.Resampling.NEAREST)


def draw_stills(studio: Studio, job: tuple[Take, Mapping[int, Path]]) -> Files:
    """Draw steps of an episode."""
    take, files = job
    drawn = {}
    for step, frame in pictures(studio.world, studio.view, take, files):
        content = io.BytesIO()
        sized(frame).save(content, format="WEBP", quality=_QUALITY, method=4)
        drawn[files[step]] = content.getvalue()
    return drawn
