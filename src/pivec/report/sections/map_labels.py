"""Names beside points of the map, where there is room for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

import numpy as np
from numpy.typing import NDArray

from pivec.canvas import INK, MUTED, literals

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
Box = tuple[float, float, float, float]  # left, bottom, right, top, in points of 1/72 inch

LETTERS = 18
_SIZE = 9.0
# Directions to try beside a point, the usual ones first, and how far away.
_AROUND = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
_AWAY = (3.0, 10.0, 20.0, 32.0)


def draw_labels(
    axes: Axes, anchors: Array, texts: Sequence[str], places: Array, radius: float, bold: bool
) -> list[str]:
    """Write texts beside their anchors so that they cover no point of ``places`` and no other text.

    Those that find no room are left out; the rest is returned. A label that is not close to its
    anchor gets a thin line to it. Call it when the limits of the axes stand.
    """
    from matplotlib.patheffects import withStroke

    width, height = axes.get_figure().get_size_inches() * 72 * axes.get_position().size  # type: ignore[union-attr]
    low = np.array([axes.get_xlim()[0], axes.get_ylim()[0]])
    span = np.array([np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())])
    size = np.array([width, height])
    dots = (places - low) / span * size
    taken: list[Box] = []
    drawn = []
    shown_texts = literals(texts, LETTERS)
    for anchor, text, shown in zip((anchors - low) / span * size, texts, shown_texts, strict=True):
        box = _free_box(anchor, _extent(shown), dots, radius, taken, (width, height))
        if box is None:
            continue
        taken.append(box)
        drawn.append(text)
        nearest = np.clip(anchor, box[:2], box[2:])
        if np.linalg.norm(nearest - anchor) > radius + 2 * _AWAY[0]:
            ends = np.array([anchor, nearest]) / size * span + low
            axes.plot(*ends.T, color=MUTED, linewidth=0.6, zorder=4.5)
        x, y = np.array([box[0] + box[2], box[1] + box[3]]) / 2 / size * span + low
        axes.text(
            float(x),
            float(y),
            shown,
            ha="center",
            va="center",
            fontsize=_SIZE,
            fontweight="bold" if bold else "normal",
            color=INK,
            zorder=5,
            path_effects=[withStroke(linewidth=2.2, foreground="white", alpha=0.85)],
        )
    return drawn


def _extent(text: str) -> tuple[float, float]:
    """Estimate the width and height of a text: fonts that lack a letter cannot be asked."""
    ems = sum(1.05 if east_asian_width(letter) in "WF" else 0.62 for letter in text)
    return _SIZE * max(ems, 0.7), _SIZE * 1.1


def _free_box(
    anchor: Array,
    extent: tuple[float, float],
    dots: Array,
    radius: float,
    taken: Sequence[Box],
    frame: tuple[float, float],
) -> Box | None:
    """Find the nearest box beside an anchor that is in the frame and covers nothing."""
    width, height = extent
    for away in _AWAY:
        for across, up in _AROUND:
            reach = (away + radius) / np.hypot(across, up)
            x = anchor[0] + across * (reach + width / 2)
            y = anchor[1] + up * (reach + height / 2)
            box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            if box[0] < 2 or box[1] < 2 or box[2] > frame[0] - 2 or box[3] > frame[1] - 2:
                continue
            if any(_overlap(box, other) for other in taken):
                continue
            gap = np.maximum(np.array(box[:2]) - dots, dots - np.array(box[2:])).max(axis=1)
            if (gap > radius).all():
                return box
    return None


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
