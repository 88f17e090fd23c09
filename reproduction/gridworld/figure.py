"""The picture of the grid worlds: both policies as arrows above, the distances below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.figures import (
    HAIRLINE,
    INK,
    MUTED,
    add_heading,
    add_panel_title,
    axes_at,
    lined_axes,
    new_figure,
    quiet_axes,
)
from reproduction.gridworld.scenarios import Scenario
from reproduction.gridworld.world import MOVES
from reproduction.panels import DASHED, DOTTED, add_labels, add_legend, arrow, line
from reproduction.published import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curves = tuple[Array, Array]

BLUE, GREEN = "#0072B2", "#009E73"
WALL, GOAL, BEHIND = "#59636E", "#FFF1C2", "#F0F2F5"
# Name, colour, dashes, marker and its size of the distances; blue and green are the policies'.
DISTANCES: tuple[tuple[str, str, Any, str, float], ...] = (
    ("actions", "#CC79A7", DASHED, "s", 5.0),
    ("states", "#D55E00", "-", "o", 7.5),
    ("returns", "#6B5300", DOTTED, "^", 5.2),
)
MARKS: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.7}

LENGTH = 0.64  # of an arrow, in cells

# Inches.
SIDE, CURVES, GAP, LEFT, RIGHT, TOP, BETWEEN, BOTTOM = 2.9, 1.95, 0.55, 0.78, 0.3, 1.42, 1.0, 0.62


def gridworld_figure(
    worlds: Sequence[Scenario], exact: Curves, simulated: Curves, episodes: int
) -> Figure:
    """Draw the n scenarios side by side.

    Curves are probabilities of a random action, (m,), and at each of them the distances of
    actions, states and returns as shares of the largest possible, (n, m, 3).
    """
    n = len(worlds)
    width = LEFT + n * SIDE + (n - 1) * GAP + RIGHT
    figure = new_figure(width, TOP + SIDE + BETWEEN + CURVES + BOTTOM)
    add_heading(
        figure,
        "Different actions need not mean different behaviour",
        "Two policies in three worlds, and how far apart they are by what they do, "
        "where they are, and what they earn",
    )
    for i, world in enumerate(worlds):
        left = LEFT + i * (SIDE + GAP)
        _draw_world(axes_at(figure, left, BOTTOM + CURVES + BETWEEN, SIDE, SIDE), world)
        axes = axes_at(figure, left, BOTTOM, SIDE, CURVES)
        for k, (_, colour, dashes, marker, size) in enumerate(DISTANCES):
            axes.plot(exact[0], exact[1][i, :, k], color=colour, linestyle=dashes, linewidth=1.9)
            axes.plot(
                simulated[0],
                simulated[1][i, :, k],
                linestyle="none",
                marker=marker,
                color=colour,
                markersize=size,
                clip_on=False,
                zorder=3,
                **MARKS,
            )
        _dress_curves(axes, labelled=i == 0)
    _add_legend(figure, episodes)
    return figure


def _draw_world(axes: Axes, world: Scenario) -> None:
    from matplotlib.patches import Rectangle

    rows, columns = world.walls.shape
    for row, column in np.ndindex(rows, columns):
        colour, edge = "white", HAIRLINE
        if world.walls[row, column]:
            colour = edge = WALL
        elif not world.reachable[row, column]:
            colour = BEHIND
        elif (row, column) == (rows - 1, columns - 1):
            colour = GOAL
        cell = Rectangle((column, row), 1, 1, facecolor=colour, edgecolor=edge, linewidth=0.8)
        axes.add_patch(cell)
    for row, column in np.argwhere(world.acting):
        blue, green = int(world.blue[row, column]), int(world.green[row, column])
        # Where the policies agree their arrows step back.
        alpha = 0.38 if blue == green else 1.0
        tails = np.array([column + 0.5, row + 0.5]) + _tails(blue, green)
        for action, tail, colour in ((blue, tails[0], BLUE), (green, tails[1], GREEN)):
            head = tail + LENGTH * MOVES[action]
            arrow(axes, tail, head, colour, (0.22, 0.38), 1.9, 13, alpha=alpha, joinstyle="miter")
    axes.plot(columns - 0.5, rows - 0.5, marker="*", markersize=17, color="#E69F00")
    axes.text(0.5, -0.1, "start", fontsize=9, color=MUTED, ha="center", va="top")
    axes.set_xlim(0, columns)
    axes.set_ylim(0, rows)
    quiet_axes(axes)
    add_panel_title(axes, world.title, world.remark)


def _tails(blue: int, green: int) -> Array:
    """Where the two arrows of a cell begin, seen from its middle: they never cover each other."""
    a, b = MOVES[blue], MOVES[green]
    if a @ b == 0:  # at right angles, out of one corner
        return np.tile(-LENGTH / 2 * (a + b), (2, 1))
    # Side by side, blue on the left or above.
    aside = 0.17 * np.array([-abs(a[1]), abs(a[0])])
    return np.array([aside - LENGTH / 2 * a, -aside - LENGTH / 2 * b])


def _dress_curves(axes: Axes, *, labelled: bool) -> None:
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(0, 1.03)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
    lined_axes(axes)
    share = "distance, as a share\nof the largest possible"
    add_labels(axes, "probability of a random action", share if labelled else "")


def _add_legend(figure: Figure, episodes: int) -> None:
    """Put the policies beside the subtitle, and the distances above their curves."""
    width, height = figure.get_size_inches()
    right, above = 1 - RIGHT / width, (BOTTOM + CURVES + 0.44) / height
    policies = [
        line(f"{name} policy", colour, marker=">", markersize=6, linewidth=2)
        for name, colour in (("blue", BLUE), ("green", GREEN))
    ]
    distances = [
        line(f"by {name}", colour, dashes, marker=marker, markersize=size, linewidth=1.9, **MARKS)
        for name, colour, dashes, marker, size in DISTANCES
    ]
    style: Any = {"labelcolor": INK, "handlelength": 2.6, "columnspacing": 1.8, "borderpad": 0.0}
    for handles, place, corner in (
        (policies, "upper right", (right, 1 - 0.18 / height)),
        (distances, "upper left", (LEFT / width, above)),
    ):
        add_legend(figure, handles, place, bbox_to_anchor=corner, **style)
    text = f"lines: exact · marks: {episodes:,} episodes".replace(",", " ")
    figure.text(right, above, text, ha="right", va="top", fontsize=9.5, color=MUTED)
