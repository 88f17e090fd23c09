"""What figures of recipes share: panels measured in inches, their labels, curves with bands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from pivec.figures import INK, MUTED, add_heading, axes_at, lined_axes, new_figure

Look = tuple[str, Any]  # colour and dashes of a curve
Curves = Mapping[str, Mapping[str, Sequence[float]]]  # by label: steps, mean, low, high

DASHED, DOTTED, DOT_DASHED = (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (3, 1.2, 1.2, 1.2))
PAPER = "#9AA4AE"  # the paper's numbers beside ours


def panel_grid(
    heading: tuple[str, str],
    shape: tuple[int, int],
    size: tuple[float, float],
    gaps: tuple[float, float],
    margins: tuple[float, float, float, float],
    narrowest: float = 0.0,
) -> tuple[Figure, Callable[[int, int], Axes]]:
    """Make a figure of equal panels, sizes in inches, and a function that adds one of them."""
    (rows, columns), (wide, high), (across, over) = shape, size, gaps
    left, right, top, bottom = margins
    width = max(left + columns * (wide + across) - across + right, narrowest)
    figure = new_figure(width, top + rows * (high + over) - over + bottom)
    add_heading(figure, *heading)

    def panel(row: int, column: int) -> Axes:
        low = bottom + (rows - 1 - row) * (high + over)
        return axes_at(figure, left + column * (wide + across), low, wide, high)

    return figure, panel


def add_title(axes: Axes, text: str, place: Any = "left", **style: Any) -> None:
    """Put a bold title above a panel."""
    look = {"fontsize": 11.5, "fontweight": "bold", "color": INK, **style}
    axes.set_title(text, loc=place, **look)


def add_labels(axes: Axes, x: str = "", y: str = "", **style: Any) -> None:
    """Say in grey what is along the axes."""
    look = {"fontsize": 10, "color": MUTED, **style}
    if x:
        axes.set_xlabel(x, **look)
    if y:
        axes.set_ylabel(y, **look)


def no_frame(axes: Axes) -> None:
    """Draw no lines around a panel."""
    for spine in axes.spines.values():
        spine.set_visible(False)


def line(label: str, colour: str, dashes: Any = "-", **style: Any) -> Any:
    """Return an entry of a key: a line, or with ``marker`` a line with marks."""
    return Line2D([], [], color=colour, linestyle=dashes, label=label, **style)


def patch(label: str, colour: str) -> Any:
    """Return an entry of a key: an area."""
    return Patch(color=colour, label=label)


def add_legend(figure: Figure, handles: Sequence[Any], place: Any, **style: Any) -> None:
    """Put a legend in one line at a corner of the figure, ``bbox_to_anchor`` in its shares."""
    look = {"frameon": False, "fontsize": 10, "borderaxespad": 0.0, **style}
    figure.legend(handles=handles, loc=place, ncols=len(handles), **look)


def draw_learning_curves(
    axes: Axes,
    curves: Curves,
    looks: Mapping[str, Look],
    columns: int,
    width: float = 1.9,
    band: float = 0.14,
) -> None:
    """Draw ``mean`` between ``low`` and ``high`` over ``steps``, a curve for each look by label."""
    for label, (colour, dashes) in looks.items():
        curve = curves[label]
        steps = np.asarray(curve["steps"]) / 1e6
        axes.fill_between(steps, curve["low"], curve["high"], color=colour, alpha=band, linewidth=0)
        axes.plot(steps, curve["mean"], color=colour, linestyle=dashes, lw=width, label=label)
    axes.set_xlim(left=0)
    add_labels(axes, "environment steps, millions")
    lined_axes(axes)
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.005, 1.0),
        ncols=columns,
        handlelength=2.4,
        columnspacing=1.4,
        labelspacing=0.25,
        borderaxespad=0.2,
        frameon=False,
        fontsize=9.5,
        labelcolor=INK,
    )


def arrow(
    axes: Axes,
    tail: Any,
    head: Any,
    colour: str,
    size: tuple[float, float],
    width: float,
    scale: float,
    **style: Any,
) -> None:
    """Draw an arrow whose head has this width and length, times ``scale``."""
    look = {
        "arrowstyle": f"-|>,head_width={size[0]},head_length={size[1]}",
        "color": colour,
        "linewidth": width,
        "shrinkA": 0,
        "shrinkB": 0,
        "mutation_scale": scale,
        **style,
    }
    axes.annotate("", tuple(head), tuple(tail), arrowprops=look, zorder=5)
