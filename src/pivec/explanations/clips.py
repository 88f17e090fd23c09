"""Frames of states and clips of episodes, rendered in processes, or from the videos of a dataset.

An environment that crashes there ends nothing here. Every rendered state is compared with the
replayed one, so that no picture shows something else.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import math
import os
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from pivec.errors import EnvironmentFailure, PivecError, PivecWarning, UsageError
from pivec.files import atomic_write, file_name, make_folder
from pivec.parallel import Tell, using
from pivec.rollouts import Environment, close, failure, feature_rows
from pivec.rollouts import observations as spaces
from pivec.terminal import Progress, printable, shortened

if TYPE_CHECKING:  # a process that draws imports nothing of this
    from pivec.explanations.folder import ComparisonFolder
    from pivec.explanations.replay import Replayer
    from pivec.options import Features
    from pivec.states.robots import Film

Pixels = NDArray[np.uint8]
Files = dict[Path, bytes]  # contents by path

_WIDTH, _MIN_WIDTH = 320, 160  # of a frame, in pixels
_WIDE_ENOUGH = 240
_MAX_FPS = 25  # GIF counts in hundredths of a second
_LAYOUT = 3  # to be raised when clips look different
# Of the sheets of a clip. A browser keeps a picture that is shown as four bytes per pixel.
_SHEET_PIXELS, _SHEET_BYTES, _SIDE = 20_000_000, 1_500_000, 16383
_MAX_CRASHES = 3  # of processes, before the rest is given up
_MIN_PANEL = 240  # pixels of width for the text below a frame
_GAP, _MARGIN, _LINE, _BAR = 4, 6, 15, 3
_CAPTION_LINES = 2
_LETTER = 6.3  # pixels of an average character
_MAX_TEXT = 300  # characters
_DRAWING, _ENCODED = 0.5, 0.9  # of the work for a clip: its frames, and the animated picture
_PAPER, _INK, _PALE, _DONE = "#ffffff", "#1a1a1a", "#d9d9d9", "#4c72b0"
# Measured on 150 frames of 644 x 213: method 2 is 1.5 to 2 times as fast as 4 and 5 to 15 %
# larger; no key frames save a fifth, and nobody seeks in a clip. Lossless is twice the size.
_FORMATS: dict[str, dict[str, Any]] = {
    ".webp": {"format": "WEBP", "quality": 75, "method": 2, "kmax": 0},
    ".gif": {"format": "GIF"},
}


class CannotReplay(PivecError):
    """An episode cannot be replayed, or not identically; one sentence says why."""


@dataclass(frozen=True)
class Replay:
    """An episode from its seed or film: all actions, and all states that followed."""

    label: str  # of the policy, as the fingerprint
    fingerprint: str
    seed: int  # -1 if it was recorded elsewhere
    actions: NDArray[Any]  # one row per step
    states: NDArray[np.float32]  # (n_steps + 1, n_features), as in a store; thinned only with film
    episode: int | None = None  # its number in the store; None for a seed that is not stored
    seat: tuple[Any, bool] | None = None  # in games: the policy, and whether it is deterministic
    film: Film | None = None  # what is shown instead of the environment

    @property
    def last(self) -> int:
        """The last step, whose state is the terminal one."""
        return len(self.actions)

    @property
    def origin(self) -> str:
        """Where the episode comes from, in words."""
        return f"seed {self.seed}" if self.seed >= 0 else "recorded"

    def until(self, step: int) -> Replay:
        """Drop everything after a step."""
        return replace(self, actions=self.actions[:step], states=self.states[: step + 1])


@dataclass(frozen=True)
class Scene:
    """What episodes are rendered with: environment, features of a state, frames per second."""

    environment: Environment
    features: Features | None
    fps: float = 30.0


@dataclass(frozen=True)
class Segment:
    """Steps ``first`` to ``last`` of a replay, with a caption for each of them."""

    replay: Replay
    first: int
    last: int
    captions: Sequence[str] = ()
    is_end: bool = False  # whether the episode ends with it

    @classmethod
    def of(
        cls, comparison: ComparisonFolder | None, replay: Replay, first: int, last: int
    ) -> Segment:
        """Make a segment whose captions are the names of the regions that it visits, if any."""
        captions = []
        is_whole = len(replay.states) == replay.last + 1
        if comparison is not None and comparison.has_regions and is_whole:
            regions = comparison.regions_along(replay.states)[first : last + 1]
            captions = [comparison.region_names[k] for k in regions]
        return cls(replay.until(last), first, last, captions, last == replay.last)

    def steps(self, every: int) -> list[int]:
        """List every so many steps from the first on, and the last."""
        return [*range(self.first, self.last, every), self.last]


@dataclass(frozen=True)
class Sheet:
    """The frames of a segment in one picture, row by row, so that a page can show any of them.

    Frame k shows step first + k · every, but the last one shows the last step.
    """

    path: Path
    label: str  # of the policy
    episode: int | None
    seed: int
    first: int
    last: int
    every: int
    is_end: bool  # whether the episode ends with the last frame
    frames: int
    columns: int
    width: int  # of a frame, in pixels
    height: int
    texts: tuple[str, ...]  # the different captions
    captions: tuple[int, ...]  # of each frame: the number of its text; empty if there are none

    @classmethod
    def of(
        cls, segment: Segment, path: Path, every: int, columns: int, width: int, height: int
    ) -> Sheet:
        """Describe the sheet of a segment, from the layout of its file."""
        replay, steps = segment.replay, segment.steps(every)
        shown = [segment.captions[step - segment.first] for step in steps if segment.captions]
        texts = {text: number for number, text in enumerate(dict.fromkeys(shown))}
        return cls(
            path,
            replay.label,
            replay.episode,
            replay.seed,
            segment.first,
            segment.last,
            every,
            segment.is_end,
            len(steps),
            columns,
            width,
            height,
            tuple(texts),
            tuple(texts[text] for text in shown),
        )


@dataclass(frozen=True)
class Clip:
    """A short clip, or why there is none."""

    title: str
    caption: str  # which policy plays which episode, from which step to which
    path: Path | None = None  # of an animated picture
    reason: str = ""
    fps: float = 0.0  # of the sheets, in the environment's time
    sheets: tuple[Sheet, ...] = ()  # one per policy, for a page on which time can be chosen


def best_window(
    values: NDArray[np.float64], starts: NDArray[np.int64], length: int
) -> tuple[int, int, int]:
    """Find the window of at most ``length`` rows within an episode with the largest sum.

    ``values`` has one row per state; episode e has the rows starts[e] to starts[e + 1]. Returns
    the episode, and the first and last row in it.
    """
    best, most = (0, 0, 0), -np.inf
    for episode, (begin, end) in enumerate(pairwise(starts.tolist())):
        sums = np.concatenate([[0.0], np.cumsum(values[begin:end])])
        n = min(length, end - begin)
        gains = sums[n:] - sums[:-n]
        first = int(gains.argmax())
        # Sums that are equal up to rounding do not count as larger.
        if gains[first] > most + 1e-9 * abs(most if episode else 0.0):
            best, most = (episode, first, first + n - 1), float(gains[first])
    return best


@dataclass(frozen=True)
class ClipPlan:
    """A clip to be made of segments side by side, or why it cannot be made."""

    title: str
    caption: str = ""
    segments: Sequence[Segment] = ()
    reason: str = ""
    file: str = ""  # a name, ``.webp`` or ``.gif``; by default a digest of what the clip shows
    seconds: float = 10.0  # longest duration

    @classmethod
    def of(
        cls, title: str, plan: Callable[..., tuple[str, Sequence[Segment]]], *arguments: Any
    ) -> ClipPlan:
        """Call a function that returns caption and segments, or raises `CannotReplay`."""
        try:
            return cls(title, *plan(*arguments))
        except CannotReplay as error:
            return cls(title, reason=str(error))

    def clip(self, made: Path | str) -> Clip:
        """Return the clip with its file, or with the reason why there is none."""
        if isinstance(made, str):
            return Clip(self.title, self.caption, reason=made)
        return Clip(self.title, self.caption, made, "", *self.sheets(made))

    def sheets(self, file: Path) -> tuple[float, tuple[Sheet, ...]]:
        """Describe the sheets beside a clip, with their frames per second; none if it has none."""
        try:
            known = json.loads(file.with_suffix(".json").read_bytes())
            fps, every, layouts = float(known["fps"]), index(known["every"]), known["layouts"]
            paths = [sheet_path(file, number) for number in range(len(self.segments))]
            if not (fps > 0.0 and every > 0 and all(path.is_file() for path in paths)):
                return 0.0, ()
            sheets = []
            for segment, path, layout in zip(self.segments, paths, layouts, strict=True):
                columns, width, height = map(index, layout)
                sheets.append(Sheet.of(segment, path, every, columns, width, height))
            return fps, tuple(sheets)
        except (OSError, ValueError, KeyError, TypeError):
            return 0.0, ()


@dataclass(frozen=True)
class FirstFrame:
    """The first frame of a segment, as WebP."""

    content: bytes
    width: int
    height: int


@dataclass(frozen=True)
class Drawn:
    """How far a job is, and, before anything else, the first frame of each segment."""

    share: float
    first: tuple[FirstFrame, ...] = ()


OnDrawn = Callable[[ClipPlan | None, Drawn], None]  # without a plan, frames were drawn


def _ignore(_: Drawn) -> None:
    """Report to nobody."""


@dataclass(frozen=True, eq=False)
class RenderJob:
    """A function that draws files, and the result to return once they are written."""

    environment: str
    draw: Callable[[Callable[[Drawn], None]], Files]
    result: Any
    plan: ClipPlan | None = None

    def run(self, tell: Callable[[Drawn], None]) -> Files | str:
        """Draw, or say why not."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of rendering libraries
                warnings.simplefilter("default", PivecWarning)
                return self.draw(tell)
        except PivecError as error:
            return str(error)
        except (Exception, SystemExit) as error:
            return f"{self.environment} cannot be rendered: {type(error).__name__}: {error}"


def make_clips(
    plans: Sequence[ClipPlan],
    replayer: Replayer,
    folder: Path,
    progress: bool = False,
    on_drawn: OnDrawn | None = None,
) -> tuple[Clip, ...]:
    """Make the clips that can be made, in processes.

    A clip is an animated picture, to be shown anywhere, and a sheet of frames per segment. In the
    animated one, label, step and caption are below the frames. Segments run side by side at the
    environment's frame rate, long ones faster; the shorter one stops at its last frame, which says
    so. Clips that exist already are not made again, unless their file is named.
    """
    made = render(clip_jobs(plans, replayer, folder), progress, on_drawn)
    return tuple(plan.clip(result) for plan, result in zip(plans, made, strict=True))


def clip_jobs(plans: Sequence[ClipPlan], replayer: Replayer, folder: Path) -> list[Any]:
    """List what `render` takes for clips."""
    jobs: list[Any] = []
    for plan in plans:
        labels = [segment.replay.label for segment in plan.segments]
        if reason := plan.reason or replayer.problem(labels):
            jobs.append(reason)
            continue
        file = folder / (plan.file or _clip_name(replayer, plan))
        if not plan.file and file.exists() and plan.sheets(file)[1]:
            jobs.append(file)
            continue
        scenes = [replayer.scene_of(label) for label in labels]
        draw = partial(draw_clip, scenes, plan.segments, file, plan.seconds)
        jobs.append(RenderJob(scenes[0].environment.name, draw, file, plan))
    return jobs


def frame_jobs(
    replayer: Replayer,
    wanted: Sequence[tuple[Replay | CannotReplay, Sequence[int]]],
    folder: str | Path,
) -> list[Any]:
    """List what `render` takes for some steps of replays; step 0 shows the first state.

    The results are the files of each replay by step. Those that exist are not made again.
    """
    jobs: list[Any] = []
    for replay, steps in wanted:
        if isinstance(replay, CannotReplay) or (problem := replayer.problem([replay.label])):
            jobs.append(str(replay) if isinstance(replay, CannotReplay) else problem)
            continue
        scene = replayer.scene_of(replay.label)
        files = {
            step: Path(folder) / f"{frame_name(scene.environment, replay, step)}.webp"
            for step in sorted(set(steps))
        }
        missing = {step: file for step, file in files.items() if not file.exists()}
        if missing:
            draw = partial(draw_frames, scene, replay.until(max(missing)), missing)
            jobs.append(RenderJob(scene.environment.name, draw, files))
        else:
            jobs.append(files)
    return jobs


def record_episodes(
    replayer: Replayer, wanted: Sequence[tuple[str, int]], folder: str | Path, progress: bool
) -> list[Path]:
    """Write whole episodes, (label, number), as GIF files, in one folder per policy.

    Episodes that cannot be rendered cause a warning; if that is all of them, an error.
    """
    plans = []
    for (label, number), found in zip(wanted, replayer.stored_many(wanted), strict=True):
        if isinstance(found, CannotReplay):
            plans.append(ClipPlan(label, reason=str(found)))
        else:
            file = f"{file_name(label) or 'policy'}/episode-{number}.gif"
            whole = [Segment.of(None, found, 0, found.last)]
            plans.append(ClipPlan(label, segments=whole, file=file, seconds=60.0))
    clips = make_clips(plans, replayer, Path(folder), progress)
    reasons = list(dict.fromkeys(clip.reason for clip in clips if clip.reason))
    written = [clip.path for clip in clips if clip.path is not None]
    if reasons and not written:
        raise CannotReplay(reasons[0])
    for reason in reasons:
        warnings.warn(reason, PivecWarning, stacklevel=2)
    return written


def frame_name(world: Environment, replay: Replay, step: int) -> str:
    """Name a frame by all it depends on: environment, policy, actions and states until then."""
    known = [world.to_json(), gymnasium.__version__, replay.fingerprint, replay.seed, _WIDTH]
    if replay.film is not None:
        known += [replay.film.start, replay.episode]
    digest = hashlib.sha256(json.dumps(known, default=repr).encode())
    # States and actions count too: the fingerprint of a function is just its name.
    digest.update(replay.states[: step + 1].tobytes() + replay.actions[:step].tobytes())
    return f"{digest.hexdigest()[:24]}-{step}"


def _clip_name(replayer: Replayer, plan: ClipPlan) -> str:
    known = []
    for segment in plan.segments:
        world = replayer.scene_of(segment.replay.label).environment
        name = frame_name(world, segment.replay, segment.last)
        known += [name, segment.replay.label, segment.first, segment.is_end, *segment.captions]
    text = json.dumps([known, plan.seconds, _LAYOUT])
    return f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.webp"


# ---- rendering ----


def run_job(job: RenderJob, tell: Tell) -> Files | str:
    """Run a job in another process, without a screen unless the user chose one."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")

    def report(drawn: Drawn) -> None:
        tell(drawn, seldom=not drawn.first)

    return job.run(report)


def render(
    jobs: Sequence[Any], progress: bool = False, on_drawn: OnDrawn | None = None
) -> list[Any]:
    """Run all jobs in processes; return their results, or why there are none.

    What is not a `RenderJob` is a result already. A job that ends its process costs only itself;
    after a few of them the rest is not tried. What cannot be pickled is drawn in this process.
    ``on_drawn`` is called with the share of all jobs that is done, from time to time.
    """
    results = [job.result if isinstance(job, RenderJob) else job for job in jobs]
    numbers = {job: number for number, job in enumerate(jobs) if isinstance(job, RenderJob)}
    if not numbers:
        return results
    crashes: list[str] = []
    shares = dict.fromkeys(numbers, 0.0)

    def hear(job: RenderJob, drawn: Drawn) -> None:
        shares[job] = drawn.share
        if on_drawn is not None:
            on_drawn(job.plan, Drawn(sum(shares.values()) / len(shares), drawn.first))

    def remaining() -> Iterator[RenderJob]:
        for job, number in numbers.items():
            if len(crashes) < _MAX_CRASHES:
                yield job
            else:
                results[number] = crashes[-1]

    with (
        Progress("rendering", len(numbers), unit="episodes", show=progress) as bar,
        using(default="processes") as engine,
    ):
        for reply in engine.map(
            run_job, remaining(), on_message=hear, name=lambda _: "an episode", threads=1
        ):
            drawn, job = reply.content, reply.item
            if isinstance(reply.failure, UsageError):  # it cannot be pickled
                drawn = job.run(partial(hear, job))
            elif reply.failure is not None:
                drawn = f"{job.environment} cannot be rendered: {reply.failure}"
                crashes.append(drawn)
            if isinstance(drawn, str):
                results[numbers[job]] = drawn
            else:
                for path, content in drawn.items():
                    make_folder(path.parent)
                    with atomic_write(path) as file:
                        file.write(content)
            hear(job, Drawn(1.0))
            bar.advance()
    return results


def pictures(scene: Scene, replay: Replay, steps: Collection[int]) -> Iterator[tuple[int, Pixels]]:
    """Step through a replay, or decode its film; yield each wanted step and its picture."""
    world, view = scene.environment, scene.features
    if replay.film is not None:
        yield from replay.film.pictures(steps)
        return
    try:
        env: Any = world.make(render_mode="rgb_array")
    except EnvironmentFailure as error:
        if not isinstance(error.__cause__, TypeError):
            raise
        raise UsageError(
            "the function that makes the environment must accept render_mode to be rendered: "
            f"{error}"
        ) from error
    try:
        if replay.seat is not None:
            env.unwrapped.set_agent_policy(*replay.seat)
        batch = spaces.empty_batch(env.observation_space, 1)
        for step in range(max(steps) + 1):
            try:
                if step == 0:
                    observation, info = env.reset(seed=replay.seed)
                else:
                    action = replay.actions[step - 1]
                    observation, *_, info = env.step(action.item() if action.ndim == 0 else action)
            except (Exception, SystemExit) as error:
                raise failure(world.name, f"step {step} while rendering", error) from error
            spaces.assign(batch, 0, observation)
            state = (
                spaces.flatten(env.observation_space, batch)
                if view is None
                else feature_rows(view, batch, [info], [env])
            )
            if step == 0 and (late := getattr(view, "late_columns", None)):
                state[0, late] = replay.states[0, late]  # not known yet
            if state[0].tobytes() != replay.states[step].tobytes():
                raise CannotReplay(
                    f"step {step} of {replay.label} (seed {replay.seed}) has another state when it "
                    "is rendered: the environment is not deterministic given a seed, or has changed"
                )
            if step in steps:
                yield step, _render(env, world.name)
    finally:
        close(env, world.name)


def _render(env: Any, name: str) -> Pixels:
    try:
        frame = env.render()
    except (Exception, SystemExit) as error:
        raise failure(name, "render()", error) from error
    is_picture = isinstance(frame, np.ndarray) and frame.ndim == 3 and frame.shape[2] in (3, 4)
    if not is_picture or frame.dtype.kind not in "iu" or not frame.size:
        raise CannotReplay(f"{name} returns no pictures with render_mode=rgb_array")
    return np.ascontiguousarray(frame[..., :3], dtype=np.uint8)


def resized(frame: Pixels) -> Any:
    """Make a PIL image that is neither wider than 320 pixels nor tiny."""
    from PIL import Image

    image = Image.fromarray(frame)
    factor = -(-image.width // _WIDTH)
    if factor > 1 and image.width // factor >= _WIDE_ENOUGH:
        return image.reduce(factor)  # several times as fast as other sizes
    if factor > 1:
        height = max(1, round(image.height * _WIDTH / image.width))
        return image.resize((_WIDTH, height), Image.Resampling.BILINEAR)
    factor = -(-_MIN_WIDTH // image.width)
    size = factor * image.width, factor * image.height
    return image if factor == 1 else image.resize(size, Image.Resampling.NEAREST)


def draw_frames(
    scene: Scene, replay: Replay, files: Mapping[int, Path], tell: Callable[[Drawn], None] = _ignore
) -> Files:
    """Draw steps of a replay."""
    drawn = {}
    for step, frame in pictures(scene, replay, files):
        drawn[files[step]] = _webp(resized(frame), 80, 4)
        tell(Drawn(len(drawn) / len(files)))
    return drawn


def _webp(image: Any, quality: int, method: int) -> bytes:
    content = io.BytesIO()
    image.save(content, format="WEBP", quality=quality, method=method)
    return content.getvalue()


def pace(n_steps: int, fps: float, seconds: float) -> tuple[int, float]:
    """Return k if every k-th step is shown, and for how many milliseconds."""
    steps = max(1, n_steps)
    duration = min(steps / fps, seconds)
    every = max(1, math.ceil(steps / (_MAX_FPS * duration) - 1e-9))
    return every, 1000 * duration * every / steps


def draw_clip(
    scenes: Sequence[Scene],
    segments: Sequence[Segment],
    file: Path,
    seconds: float,
    tell: Callable[[Drawn], None] = _ignore,
) -> Files:
    """Draw segments side by side in an animated picture; those of a WebP also on sheets.

    Each segment has its scene; the frame rate is that of the first.
    """
    fps = scenes[0].fps
    with_sheets = file.suffix == ".webp"
    n_steps = max(segment.last - segment.first for segment in segments)
    every, duration = pace(n_steps, fps, seconds)
    wanted = [{*segment.steps(every)} for segment in segments]
    sparse = 1  # every how many steps there is a frame on a sheet
    if with_sheets:
        # Drawn twice, since a reader waits for them.
        pairs = zip(scenes, segments, strict=True)
        first = [next(_drawn(scene, own, [own.first]))[1] for scene, own in pairs]
        tell(Drawn(0.0, tuple(FirstFrame(_webp(x, 75, 2), *x.size) for x in first)))
        area = max(image.width * image.height for image in first)
        sparse = max(1, math.ceil((n_steps + 1) * area / _SHEET_PIXELS))
        wanted = [own | {*s.steps(sparse)} for own, s in zip(wanted, segments, strict=True)]
    images: list[dict[int, Any]] = [{} for _ in segments]
    for scene, segment, steps, own in zip(scenes, segments, wanted, images, strict=True):
        for step, image in _drawn(scene, segment, steps):
            own[step] = image
            tell(Drawn(_DRAWING * sum(map(len, images)) / sum(map(len, wanted))))
    files = {file: _animation(segments, images, file.suffix, every, duration)}
    if with_sheets:
        tell(Drawn(_ENCODED))
        files |= _sheets(segments, images, file, sparse, fps)
    return files


def _drawn(scene: Scene, segment: Segment, steps: Collection[int]) -> Iterator[tuple[int, Any]]:
    for step, frame in pictures(scene, segment.replay, steps):
        yield step, resized(frame)


def sheet_path(file: Path, number: int) -> Path:
    """Name the sheet of a segment of a clip."""
    return file.with_name(f"{file.stem}-{number}.webp")


def _sheets(
    segments: Sequence[Segment], images: Sequence[Mapping[int, Any]], file: Path, every: int,
    fps: float,
) -> Files:  # fmt: skip
    """Put frames on sheets, with fewer of them where these would be too large."""
    while True:
        pairs = zip(segments, images, strict=True)
        drawn = [_sheet([own[step] for step in segment.steps(every)]) for segment, own in pairs]
        size = sum(len(content) for content, _ in drawn)
        if size <= _SHEET_BYTES or every > max(s.last - s.first for s in segments):
            break
        every *= math.ceil(size / _SHEET_BYTES)
    layouts = [layout for _, layout in drawn]
    known = {"fps": fps / every, "every": every, "layouts": layouts}
    sheets = {sheet_path(file, number): content for number, (content, _) in enumerate(drawn)}
    return sheets | {file.with_suffix(".json"): json.dumps(known).encode()}


def _sheet(images: Sequence[Any]) -> tuple[bytes, tuple[int, int, int]]:
    """Put images on one that is about square; return also its columns and the size of an image."""
    from PIL import Image

    (width, height), n = images[0].size, len(images)
    columns = min(max(1, round(math.sqrt(n * height / width))), _SIDE // width, n)
    sheet = Image.new("RGB", (columns * width, -(-n // columns) * height), _PAPER)
    for k, image in enumerate(images):
        same = image if image.size == (width, height) else image.resize((width, height))
        sheet.paste(same, (k % columns * width, k // columns * height))
    return _webp(sheet, 75, 2), (columns, width, height)


def _animation(
    segments: Sequence[Segment], images: Sequence[Mapping[int, Any]], kind: str, every: int,
    duration: float,
) -> bytes:  # fmt: skip
    """Put panels of segments side by side in an animated picture."""
    from PIL import Image

    n_steps = max(segment.last - segment.first for segment in segments)
    texts = {text for segment in segments for text in segment.captions}
    pairs = zip(segments, images, strict=True)
    rows = [list(_panels(own, segment, n_steps, every, texts)) for segment, own in pairs]
    n = max(map(len, rows))
    width = sum(row[0].width for row in rows) + _GAP * (len(rows) - 1)
    shown = []
    for k in range(n):
        image, left = Image.new("RGB", (width, max(row[0].height for row in rows)), _PAPER), 0
        for row in rows:
            image.paste(row[min(k, len(row) - 1)], (left, 0))
            left += row[0].width + _GAP
        shown.append(image.quantize(64) if kind == ".gif" else image)
    # The last image stays for a second before the clip starts again.
    times = [max(20, round(duration))] * (n - 1) + [1000]
    (first, *rest), content, style = shown, io.BytesIO(), _FORMATS[kind]
    first.save(content, save_all=True, append_images=rest, duration=times, loop=0, **style)
    return content.getvalue()


def _panels(
    images: Mapping[int, Any], segment: Segment, n_steps: int, every: int, texts: set[str]
) -> Iterator[Any]:
    """Draw a segment step by step; if another one is longer, its end is marked."""
    from PIL import Image

    image: Any = None
    for step in segment.steps(every):
        image = images[step]
        width = max(_MIN_PANEL, image.width)
        lines = max((len(_wrap(text, width - 2 * _MARGIN)) for text in texts), default=0)
        shape = width, lines, (step - segment.first) / max(1, n_steps)
        yield _panel(image, segment, f"step {step}", step, shape)
    if segment.last - segment.first < n_steps:
        pale = Image.blend(image, Image.new("RGB", image.size, _PAPER), 0.5)
        end = "ended" if segment.is_end else "cut"
        yield _panel(pale, segment, f"{end}, step {segment.last}", segment.last, shape)


def _panel(
    image: Any, segment: Segment, time: str, step: int, shape: tuple[int, int, float]
) -> Any:
    """Put a progress bar and text below an image: its width, lines of caption, and progress."""
    from PIL import Image, ImageDraw

    width, lines, share = shape
    top = image.height
    panel = Image.new("RGB", (width, top + _BAR + _LINE * (1 + lines) + _MARGIN), _PAPER)
    panel.paste(image, ((width - image.width) // 2, 0))
    draw = ImageDraw.Draw(panel)
    draw.rectangle((0, top, width, top + _BAR - 1), fill=_PALE)
    draw.rectangle((0, top, round(share * width), top + _BAR - 1), fill=_DONE)
    top += _BAR + 1
    bold = _font(bold=True)
    used = bold.getlength(time)
    label = _fit_label(segment.replay.label, width - 3 * _MARGIN - used)
    draw.text((width - _MARGIN - used, top), time, _INK, font=bold)
    draw.text((_MARGIN, top), label, _INK, font=bold)
    caption = segment.captions[step - segment.first] if segment.captions else ""
    for number, line in enumerate(_wrap(caption, width - 2 * _MARGIN), 1):
        draw.text((_MARGIN, top + number * _LINE), line, _INK, font=_font())
    return panel


@lru_cache
def _font(*, bold: bool = False) -> Any:
    """Load the font of matplotlib, which has most alphabets, without importing matplotlib."""
    from PIL import ImageFont

    spec = importlib.util.find_spec("matplotlib")
    folder = Path(str(spec and spec.origin)).parent / "mpl-data" / "fonts" / "ttf"
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(str(folder / name), 11, layout_engine=ImageFont.Layout.BASIC)


@lru_cache(maxsize=1024)
def _fit_label(text: str, width: float) -> str:
    """Shorten a label in the middle until it fits."""
    text = shortened(printable(text), _MAX_TEXT)
    length = len(text)
    while length > 1 and _font(bold=True).getlength(shortened(text, length)) > width:
        length -= 1
    return shortened(text, length)


def _wrap(text: str, width: float) -> list[str]:
    """Break a caption into lines; what does not fit is left out."""
    text, length = printable(text)[:_MAX_TEXT], int(width / _LETTER)
    return textwrap.wrap(text, length, max_lines=_CAPTION_LINES, placeholder=" …")
