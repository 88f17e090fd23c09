"""The figure of regions: a line a region, in the order in which episodes get there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pivec.canvas import (
    GROUP_PALETTE,
    HAIRLINE,
    INK,
    MUTED,
    add_heading,
    add_panel_title,
    axes_at,
    literal,
    new_figure,
)
from pivec.text import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pivec.explanations.regions.regions import Region, Regions

MOST = 80  # lines
_ROW, _WORDS, _BARS, _STRIP = 0.27, 6.3, 2.1, 2.3
_LETTERS = 98  # of the words of a region


def regions_figure(result: Regions) -> Figure:
    """Draw words, the share of time with that of every policy, and when in an episode it is."""
    most = {region.number for region in result.by_share()[:MOST]}
    shown = [region for region in result.by_moment() if region.number in most]
    height = _ROW * len(shown)
    figure = new_figure(_WORDS + _BARS + _STRIP + 1.5, height + 1.75)
    where = f" of {result.environment}" if result.environment else ""
    less = f" (the {MOST} in which most time is spent)" if len(shown) < len(result) else ""
    add_heading(
        figure,
        f"The {len(result)} regions{where}{less}",
        "From the beginning of an episode to its end",
    )
    left = 0.75
    text, bars, strip = (
        axes_at(figure, left + before, 0.3, width, height)
        for before, width in ((0, _WORDS), (_WORDS, _BARS), (_WORDS + _BARS + 0.3, _STRIP))
    )
    for axes in (text, bars, strip):
        axes.set_ylim(len(shown) - 0.5, -0.5)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set_yticks([])
    _draw_words(text, shown)
    _draw_time(bars, result, shown)
    _draw_when(strip, shown)
    return figure


def _draw_words(axes: Axes, shown: Sequence[Region]) -> None:
    axes.set_xlim(0, 1)
    axes.set_xticks([])
    for line, region in enumerate(shown):
        axes.text(-0.02, line, str(region.number), ha="right", va="center", fontsize=9,
                  fontweight="bold", color=GROUP_PALETTE[0])  # fmt: skip
        axes.text(
            0, line, literal(_cut(region.words), _LETTERS), va="center", fontsize=8.5, color=INK
        )
        if line:
            axes.axhline(line - 0.5, color=HAIRLINE, linewidth=0.5)
    add_panel_title(axes, "Region", "what sets it apart from all states")


def _cut(words: str) -> str:
    """Leave out the end, which tells least."""
    return words if len(words) <= _LETTERS else words[: _LETTERS - 1] + "…"


def _draw_time(axes: Axes, result: Regions, shown: Sequence[Region]) -> None:
    """Draw the mean share of time as a bar, and that of each policy as a short line."""
    for line, region in enumerate(shown):
        axes.barh(line, region.share, 0.62, color=GROUP_PALETTE[0], alpha=0.35, linewidth=0)
        spent = result.shares[:, region.number]
        axes.vlines(spent, line - 0.24, line + 0.24, color=GROUP_PALETTE[0], linewidth=0.7,
                    alpha=max(0.15, min(1.0, 12 / len(spent))))  # fmt: skip
    axes.set_xlim(0, float(result.shares[:, [r.number for r in shown]].max()) * 1.02)
    axes.xaxis.set_major_formatter(lambda share, _: percent(share))
    axes.locator_params(axis="x", nbins=3)
    axes.tick_params(length=2.5, width=0.6, labelsize=8.5, color=MUTED, labelcolor=INK)
    axes.grid(axis="x", color=HAIRLINE, linewidth=0.6)
    axes.set_axisbelow(True)
    add_panel_title(axes, "Time spent there", "bar: mean; lines: policies")


def _draw_when(axes: Axes, shown: Sequence[Region]) -> None:
    """Draw how visits are spread over an episode: the darker, the more of them."""
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("when", ["#FFFFFF", GROUP_PALETTE[1], "#7A3B00"])
    spread = np.array([region.when for region in shown])
    if np.isnan(spread).all():
        axes.set_axis_off()
        axes.text(0, (len(shown) - 1) / 2, "not known: no states", color=MUTED, fontsize=9)
        return
    n = spread.shape[1]
    axes.pcolormesh(np.arange(n + 1) / n, np.arange(len(shown) + 1) - 0.5, spread, cmap=shades,
                    vmin=0, vmax=0.5, edgecolors="white", linewidth=0.8)  # fmt: skip
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 1], ["beginning", "end"])
    axes.tick_params(length=0, labelsize=8.5, labelcolor=INK)
    first, last = axes.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")
    add_panel_title(axes, "When in an episode", "the darker, the more of its visits")
