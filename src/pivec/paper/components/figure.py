"""Heatmaps of the three metrics over components and trajectories; brighter is better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.paper.components.page import METRICS, Rows, grid
from pivec.report.canvas import INK, MUTED, add_heading, literal, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches.
NARROWEST = 7.2
CELL_WIDTH, CELL_HEIGHT, LEFT, TOP, BOTTOM, GAP, RIGHT = 0.58, 0.36, 1.2, 1.12, 0.66, 0.36, 0.3


def components_figure(summary: Rows, sets: int, repetitions: int) -> Figure:
    """Draw a row of heatmaps for each metric, a column for each environment."""
    environments = list(dict.fromkeys(row["environment"] for row in summary))
    components, sizes, _ = grid(summary, environments[0], METRICS[0][0])
    n = len(environments)
    room = (NARROWEST - LEFT - RIGHT - (n - 1) * GAP) / n
    wide, high = max(CELL_WIDTH * len(sizes), room), CELL_HEIGHT * len(components)
    width = LEFT + n * (wide + GAP) - GAP + RIGHT
    height = TOP + len(METRICS) * (high + GAP) - GAP + BOTTOM
    figure = new_figure(width, height)
    several = "s" if sets > 1 else ""
    add_heading(
        figure,
        "How many components should the background model have?",
        f"{sets} set{several} of policies an environment, {repetitions} draws; values times a "
        "hundred, brighter is better",
    )
    for i, (metric, title, sign) in enumerate(METRICS):
        bottom = height - TOP - high - i * (high + GAP)
        for j, environment in enumerate(environments):
            left = LEFT + j * (wide + GAP)
            axes = figure.add_axes((left / width, bottom / height, wide / width, high / height))
            _draw(axes, *grid(summary, environment, metric), sign)
            axes.set_title(literal(environment, 30) if i == 0 else "", fontsize=11.5,
                           fontweight="bold", color=INK, loc="left")  # fmt: skip
            if j == 0:
                axes.set_ylabel("components", fontsize=10, color=MUTED)
                figure.text(0.32 / width, (bottom + high / 2) / height, title, rotation=90,
                            ha="center", va="center", fontsize=10.5, fontweight="bold",
                            color=INK)  # fmt: skip
            else:
                axes.set_yticklabels([])
            if i == len(METRICS) - 1:
                axes.set_xlabel("trajectories", fontsize=10, color=MUTED)
            else:
                axes.set_xticklabels([])
    return figure


def _draw(axes: Axes, components: list[int], sizes: list[int], values: Any, sign: float) -> None:
    """Draw one heatmap; where values spread widely, colours follow their logarithm."""
    known = values[~np.isnan(values)]
    spread = known.size and known.min() > 0 and known.max() > 10 * known.min()
    shades = sign * (np.log(values) if spread else values)
    axes.imshow(shades, cmap="viridis", aspect="auto", origin="lower")
    low, high = (np.nanmin(shades), np.nanmax(shades)) if known.size else (0.0, 0.0)
    for (y, x), value in np.ndenumerate(values):
        if not np.isnan(value):
            bright = high == low or (shades[y, x] - low) / (high - low) > 0.6
            axes.text(x, y, f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}", ha="center",
                      va="center", fontsize=9, color=INK if bright else "white")  # fmt: skip
    axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axes.set_yticks(range(len(components)), [str(k) for k in components])
    axes.tick_params(length=0, labelsize=9.5, labelcolor=INK)
    for spine in axes.spines.values():
        spine.set_visible(False)
