"""The picture of novelty search: the best return over training, and the ways around the walls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pivec.figures import INK, MUTED, add_heading, axes_at, new_figure, quiet_axes
from reproduction.novelty.page import BEST, ES, GAUSSIAN, POCKET, SUPERVECTOR, TERMINAL, VISITATION
from reproduction.novelty.world import START, WALLS
from reproduction.panels import (
    DASHED,
    DOT_DASHED,
    DOTTED,
    PAPER,
    Curves,
    Look,
    add_labels,
    draw_learning_curves,
)
from reproduction.published import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WALL = "#59636E"
LOOKS: dict[str, Look] = {
    ES: (WALL, DOTTED),
    TERMINAL: ("#0072B2", DASHED),
    GAUSSIAN: ("#009E73", DOT_DASHED),
    SUPERVECTOR: ("#D55E00", "-"),
    VISITATION: ("#CC79A7", "-"),
}
_VIEW = (-2.2, 1.4, -1.35, 3.4)  # of the plane: left, right, bottom, top


def novelty_figure(curves: Curves, ways: Mapping[str, Sequence[Array]]) -> Figure:
    """Draw the best mean return so far with its intervals, and the way of each run's best policy.

    Curves are of all generations, by method; so are the ways, arrays of shape (n, 2).
    """
    width, height, top, bottom = 9.2, 4.9, 1.12, 0.62
    figure = new_figure(width, height)
    add_heading(
        figure,
        "Novelty search in the deceptive point",
        "Best generation's mean return so far (mean, 95 % interval), the way of each run's best",
    )
    tall = height - top - bottom
    _draw_curves(axes_at(figure, 0.66, bottom, 5.7, tall), curves)
    wide = tall * (_VIEW[1] - _VIEW[0]) / (_VIEW[3] - _VIEW[2])
    _draw_ways(axes_at(figure, 6.6, bottom, wide, tall), ways)
    return figure


def _draw_curves(axes: Axes, curves: Curves) -> None:
    draw_learning_curves(axes, curves, LOOKS, 3)
    for value, text, above in ((POCKET, "straight up", -9.5), (BEST, "the paper's best", 2)):
        axes.axhline(value, color=PAPER, linewidth=0.8, zorder=1)
        axes.annotate(
            f"{text}, {value}",
            (1, value),
            (-2, above),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            fontsize=8.5,
            color=MUTED,
        )
    axes.set_ylim(bottom=min(0.0, *(min(curve["low"]) for curve in curves.values())), top=4.2)
    add_labels(axes, y="best mean return of a generation so far")


def _draw_ways(axes: Axes, ways: Mapping[str, Sequence[Array]]) -> None:
    from matplotlib.patches import Rectangle

    cell = 2 / len(WALLS)
    for row, column in np.argwhere(WALLS):
        corner = column * cell - 1, row * cell - 1
        axes.add_patch(Rectangle(corner, cell, cell, color=WALL, linewidth=0))
    for method, (colour, dashes) in LOOKS.items():
        for way in ways[method]:
            axes.plot(*way.T, color=colour, linestyle=dashes, linewidth=1.1, alpha=0.85)
    axes.plot(*START, marker="o", markersize=4, color=INK, zorder=4)
    axes.set_xlim(*_VIEW[:2])
    axes.set_ylim(*_VIEW[2:])
    quiet_axes(axes)
