"""Clips that people can watch: animated WebP of parts of episodes, two side by side."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pivec.errors import PivecWarning
from pivec.explanations.frames import Order, digests, fulfil
from pivec.explanations.replay import (
    CannotReplay,
    Files,
    Job,
    Replayer,
    Scene,
    Studio,
    Take,
    pictures,
    sized,
)
from pivec.files import file_name
from pivec.terminal import printable, shortened

# -----------------------------------------------------------------------------
# A clip put together: pictures side by side, what they show burnt in, as one animated file.
#
# As `drawing`, this runs in processes of its own, which import nothing heavy.


_RATE = 25  # pictures a second at most; GIF counts in hundredths of a second
_LEAST = 240  # points of width for the text below a picture
_GAP, _MARGIN, _LINE, _BAR = 4, 6, 15, 3
_CAPTION_LINES = 2
_LONGEST = 300  # letters that are looked at
_PAPER, _INK, _PALE, _DONE = "#ffffff", "#1a1a1a", "#d9d9d9", "#4c72b0"
# Measured on 150 pictures of 644 x 213: method 2 is 1.5 to 2 times as fast as 4 and 5 to 15 %
# larger; no key frames save a fifth, and nobody seeks in a clip. Lossless is twice the size.
_FORMATS: dict[str, dict[str, Any]] = {
    ".webp": {"format": "WEBP", "quality": 75, "method": 2, "kmax": 0},
    ".gif": {"format": "GIF"},
}


@dataclass(frozen=True)
class Reel:
    """A clip to be made: scenes side by side, which of them end with their episodes, its file."""

    scenes: tuple[Scene, ...]
    ends: tuple[bool, ...]
    file: Path
    seconds: float  # that it may play

    @property
    def steps(self) -> int:
        """Steps of the longest scene."""
        return max(scene.last - scene.first for scene in self.scenes)

    def pace(self, rate: float) -> tuple[int, float]:
        """Give k of the every k-th step that is shown, and for how many milliseconds.

        Examples
        --------
        >>> import numpy as np
        >>> from pivec.explanations.replay import Take
        >>> take = Take("a", "", 0, np.zeros(300), np.zeros((301, 1), np.float32))
        >>> Reel((Scene(take, 0, 300),), (True,), Path("x.webp"), 10.0).pace(50.0)
        (2, 40.0)
        >>> Reel((Scene(take, 0, 300),), (True,), Path("x.webp"), 3.0).pace(50.0)
        (4, 40.0)
        """
        steps = max(1, self.steps)
        lasts = min(steps / rate, self.seconds)
        every = max(1, math.ceil(steps / (_RATE * lasts) - 1e-9))
        return every, 1000 * lasts * every / steps


def draw_clip(studio: Studio, reel: Reel) -> Files:
    """Make a clip."""
    every, duration = reel.pace(studio.rate)
    panels = [list(_panels(studio, reel, side, every)) for side in range(len(reel.scenes))]
    n = max(map(len, panels))
    shown = [_side_by_side([panel[min(k, len(panel) - 1)] for panel in panels]) for k in range(n)]
    style = _FORMATS[reel.file.suffix]
    if style["format"] == "GIF":
        shown = [picture.quantize(64) for picture in shown]
    # The last picture stays for a while, before it begins again.
    times = [max(20, round(duration))] * (n - 1) + [1000]
    (first, *rest), content = shown, io.BytesIO()
    first.save(content, save_all=True, append_images=rest, duration=times, loop=0, **style)
    return {reel.file: content.getvalue()}


def _panels(studio: Studio, reel: Reel, side: int, every: int) -> Iterator[Any]:
    """Draw a scene step by step; where another goes on for longer, its end is marked."""
    from PIL import Image

    scene = reel.scenes[side]
    texts = {text for other in reel.scenes for text in other.captions or ()}
    steps = {*range(scene.first, scene.last + 1, every), scene.last}
    picture: Any = None
    for step, frame in pictures(studio.world, studio.view, scene.take, steps):
        picture = sized(frame)
        width = max(_LEAST, picture.width)
        lines = max((len(_wrapped(text, width - 2 * _MARGIN)) for text in texts), default=0)
        share = (step - scene.first) / max(1, reel.steps)
        yield _panel(picture, scene, f"step {step}", step, (width, lines, share))
    if scene.last - scene.first < reel.steps:
        how = "ended" if reel.ends[side] else "cut"
        pale = Image.blend(picture, Image.new("RGB", picture.size, _PAPER), 0.5)
        yield _panel(pale, scene, f"{how}, step {scene.last}", scene.last, (width, lines, share))


def _panel(picture: Any, scene: Scene, when: str, step: int, shape: tuple[int, int, float]) -> Any:
    """Put a bar below a picture, as wide and of as many lines of caption as ``shape`` says."""
    from PIL import Image, ImageDraw

    width, lines, share = shape
    top = picture.height
    panel = Image.new("RGB", (width, top + _BAR + _LINE * (1 + lines) + _MARGIN), _PAPER)
    panel.paste(picture, ((width - picture.width) // 2, 0))
    draw = ImageDraw.Draw(panel)
    draw.rectangle((0, top, width, top + _BAR - 1), fill=_PALE)
    draw.rectangle((0, top, round(share * width), top + _BAR - 1), fill=_DONE)
    top += _BAR + 1
    used = _font(bold=True).getlength(when)
    room = width - 3 * _MARGIN - used
    draw.text((width - _MARGIN - used, top), when, _INK, font=_font(bold=True))
    draw.text((_MARGIN, top), _label(scene.take.label, room), _INK, font=_font(bold=True))
    caption = scene.captions[step - scene.first] if scene.captions else ""
    for number, line in enumerate(_wrapped(caption, width - 2 * _MARGIN), 1):
        draw.text((_MARGIN, top + number * _LINE), line, _INK, font=_font())
    return panel


def _side_by_side(panels: list[Any]) -> Any:
    from PIL import Image

    if len(panels) == 1:
        return panels[0]
    width = sum(panel.width for panel in panels) + _GAP * (len(panels) - 1)
    both = Image.new("RGB", (width, max(panel.height for panel in panels)), _PAPER)
    left = 0
    for panel in panels:
        both.paste(panel, (left, 0))
        left += panel.width + _GAP
    return both


@lru_cache
def _font(*, bold: bool = False) -> Any:
    """Give the font of matplotlib, which has most alphabets, without importing that."""
    from PIL import ImageFont

    spec = importlib.util.find_spec("matplotlib")
    folder = Path(str(spec and spec.origin)).parent / "mpl-data" / "fonts" / "ttf"
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(str(folder / name), 11, layout_engine=ImageFont.Layout.BASIC)


@lru_cache(maxsize=1024)
def _label(text: str, room: float) -> str:
    """Cut the middle out of a label that is too long."""
    text = shortened(printable(text), _LONGEST)
    length = len(text)
    while length > 1 and _font(bold=True).getlength(shortened(text, length)) > room:
        length -= 1
    return shortened(text, length)


@lru_cache(maxsize=1024)
def _wrapped(text: str, room: float) -> tuple[str, ...]:
    """Break a caption into lines; what does not fit is left out."""
    lines: list[str] = []
    for word in printable(text)[:_LONGEST].split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and _font().getlength(longer) <= room:
            lines[-1] = longer
        elif len(lines) < _CAPTION_LINES:
            lines.append(word)
        else:
            lines[-1] += " …"
            break
    return tuple(_cut(line, room) for line in lines)


def _cut(line: str, room: float) -> str:
    while _font().getlength(line) > room:
        line = line.rstrip(" …")[:-1] + "…"
    return line


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
    stays on its last picture, which says so. As for `pivec.explanations.frames.film`, a state
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


def record_episodes(
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
