"""The picture of novelty search: the best return over training, and the ways around the walls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.paper.novelty.world import START, WALLS
from pivec.report.canvas import (
    INK,
    MUTED,
    add_curve_key,
    add_heading,
    lined_axes,
    new_figure,
    quiet_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#59636E", "#0072B2", "#009E73", "#D55E00")
DASHES: tuple[Any, ...] = ((0, (1.2, 1.2)), (0, (5, 1.6)), (0, (3, 1.2, 1.2, 1.2)), "-")
WALL, PAPER = "#59636E", "#9AA4AE"
_VIEW = (-2.2, 1.4, -1.35, 3.4)  # of the plane: left, right, bottom, top


def novelty_figure(
    curves: Mapping[str, Mapping[str, Sequence[float]]],
    ways: Mapping[str, Sequence[NDArray[np.float64]]],
) -> Figure:
    """Draw the best mean return so far with its intervals, and the way of each run's best policy.

    Parameters
    ----------
    curves : mapping of method to mapping
        ``steps``, ``mean``, ``low`` and ``high``, one for each generation.
    ways : mapping of method to sequence of (n, 2) arrays
    """
    width, height, top, bottom = 9.2, 4.9, 1.12, 0.62
    figure = new_figure(width, height)
    add_heading(
        figure,
        "Novelty search in the deceptive point",
        "Best mean return so far (mean and 95 % interval of runs), and the way of each run's best",
    )
    tall = height - top - bottom
    axes = figure.add_axes((0.66 / width, bottom / height, 5.7 / width, tall / height))
    _draw_curves(axes, curves)
    wide = tall * (_VIEW[1] - _VIEW[0]) / (_VIEW[3] - _VIEW[2])
    panel = figure.add_axes((6.6 / width, bottom / height, wide / width, tall / height))
    _draw_ways(panel, ways)
    return figure


def _draw_curves(axes: Axes, curves: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    for i, (name, curve) in enumerate(curves.items()):
        steps = np.asarray(curve["steps"]) / 1e6
        axes.fill_between(
            steps, curve["low"], curve["high"], color=COLOURS[i], alpha=0.14, linewidth=0
        )
        axes.plot(
            steps, curve["mean"], color=COLOURS[i], linestyle=DASHES[i], linewidth=1.9, label=name
        )
    for value, text, above in ((0.65, "straight up", -9.5), (3.7, "the paper's best", 2)):
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
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=min(0.0, *(min(each["low"]) for each in curves.values())), top=4.2)
    axes.set_xlabel("environment steps, millions", fontsize=10, color=MUTED)
    axes.set_ylabel("best mean return so far", fontsize=10, color=MUTED)
    lined_axes(axes)
    add_curve_key(axes, 2)


def _draw_ways(axes: Axes, ways: Mapping[str, Sequence[NDArray[np.float64]]]) -> None:
    from matplotlib.patches import Rectangle

    cell = 2 / len(WALLS)
    for row, column in np.argwhere(WALLS):
        axes.add_patch(
            Rectangle((column * cell - 1, row * cell - 1), cell, cell, color=WALL, linewidth=0)
        )
    for several, colour, dashes in zip(ways.values(), COLOURS, DASHES, strict=True):
        for way in several:
            axes.plot(*way.T, color=colour, linestyle=dashes, linewidth=1.1, alpha=0.85)
    axes.plot(*START, marker="o", markersize=4, color=INK, zorder=4)
    axes.set_xlim(*_VIEW[:2])
    axes.set_ylim(*_VIEW[2:])
    quiet_axes(axes)
