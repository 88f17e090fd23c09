"""The figure of an explanation: parts of the leading regions, and the time spent in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pivec.canvas import (
    GROUP_PALETTE,
    HAIRLINE,
    INK,
    MUTED,
    add_heading,
    add_key,
    add_panel_title,
    axes_at,
    literal,
    new_figure,
)
from pivec.text import told_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pivec.characterizations.explanation import Explanation

LEADING = 10  # regions that are drawn
ROW, LABEL, PANEL = 0.42, 4.4, 3.2
_KINDS = dict(zip(("how often", "where", "how wide"), GROUP_PALETTE[2:], strict=False))


def explanation_figure(explanation: Explanation, headline: str = "") -> Figure:
    """Draw a line a region: its part of the distance by kind, and the time of both policies."""
    from matplotlib.patches import Patch

    order = explanation.order[:LEADING]
    height = 1.75 + ROW * len(order)
    figure = new_figure(LABEL + 2 * PANEL + 0.9, height)
    a, b = told_apart(explanation.labels, 40)
    add_heading(figure, f"What differs between {a} and {b}", headline or explanation.headline())
    kinds = [kind for kind in _KINDS if kind in explanation.kinds]
    colours = [*(_KINDS[kind] for kind in kinds), GROUP_PALETTE[0], GROUP_PALETTE[1]]
    names = [*kinds, f"time of {a}", f"time of {b}"]
    add_key(
        figure,
        [Patch(color=c, label=literal(n)) for c, n in zip(colours, names, strict=True)],
    )
    size = (PANEL, ROW * len(order))
    parts = axes_at(figure, LABEL, 0.35, *size)
    times = axes_at(figure, LABEL + PANEL + 0.45, 0.35, *size)
    _draw_parts(parts, explanation, order, kinds)
    _draw_times(times, explanation, order)
    for axes in (parts, times):
        axes.set_ylim(len(order) - 0.5, -0.5)
        axes.tick_params(length=2.5, width=0.6, labelsize=9, color=MUTED, labelcolor=INK)
        axes.grid(axis="x", color=HAIRLINE, linewidth=0.6)
        axes.set_axisbelow(True)
        for name, spine in axes.spines.items():
            spine.set_visible(name == "left")
            spine.set_color(HAIRLINE)
    times.set_yticks([])
    parts.set_yticks(
        range(len(order)), [literal(explanation.words[r], 58) for r in order], fontsize=9
    )
    return figure


def _draw_parts(axes: Axes, explanation: Explanation, order: np.ndarray, kinds: list[str]) -> None:
    """Stack the kinds of each region's part, in per cent of the distance; noise is pale."""
    scale = 100.0 / (explanation.distance or 1.0)
    for line, r in enumerate(order):
        left = 0.0
        pale = 0.35 if explanation.regions.noise[r] else 1.0
        for kind in kinds:
            width = scale * float(explanation.kinds[kind].measured[r])
            axes.barh(line, width, 0.62, left=left, color=_KINDS[kind], alpha=pale)
            left += width
        ends = [scale * float(x[r]) for x in (explanation.regions.low, explanation.regions.high)]
        if np.isfinite(ends).all():
            axes.plot(ends, [line, line], color=INK, linewidth=1.0)
    axes.set_xlim(left=0.0)
    add_panel_title(axes, "Share of the distance, %", "pale: may be chance")


def _draw_times(axes: Axes, explanation: Explanation, order: np.ndarray) -> None:
    """Draw the share of time of both policies with its interval."""
    for side, (colour, offset) in enumerate(zip(GROUP_PALETTE[:2], (-0.14, 0.14), strict=True)):
        for line, r in enumerate(order):
            ends = 100.0 * np.array(
                [explanation.share_low[side, r], explanation.share_high[side, r]]
            )
            if np.isfinite(ends).all():
                axes.plot(ends, [line + offset] * 2, color=colour, linewidth=1.6)
            value = 100.0 * explanation.share[side, r]
            axes.plot(value, line + offset, "o", color=colour, markersize=5)
    axes.set_xlim(left=0.0)
    add_panel_title(axes, "Time spent there, %", f"with intervals of {100 * explanation.level:g} %")
