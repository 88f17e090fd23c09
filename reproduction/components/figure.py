"""Heatmaps of the three metrics over components and trajectories; brighter is better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.figures import INK, literal
from reproduction.components.page import METRICS, grid
from reproduction.panels import add_labels, add_title, no_frame, panel_grid
from reproduction.published import Rows, different

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def components_figure(summary: Rows, sets: int, repetitions: int) -> Figure:
    """Draw a row of heatmaps for each metric, a column for each environment."""
    environments = different(summary, "environment")
    components, sizes, _ = grid(summary, environments[0], METRICS[0][0])
    n, gap, margins = len(environments), 0.36, (1.2, 0.3, 1.12, 0.66)
    narrowest = (7.2 - 1.2 - 0.3 - (n - 1) * gap) / n
    wide, high = max(0.58 * len(sizes), narrowest), 0.36 * len(components)
    drawn = f"{sets} set{'s' if sets > 1 else ''} of policies an environment, {repetitions} draws"
    heading = (
        "How many components should the background model have?",
        f"{drawn}; values times a hundred, brighter is better",
    )
    figure, panel = panel_grid(heading, (len(METRICS), n), (wide, high), (gap, gap), margins)
    for i, (metric, title, sign) in enumerate(METRICS):
        for j, environment in enumerate(environments):
            axes = panel(i, j)
            _draw(axes, *grid(summary, environment, metric), sign)
            add_title(axes, literal(environment, 30) if i == 0 else "")
            if j == 0:
                add_labels(axes, y="components")
                _, low, _, up = axes.get_position().bounds
                figure.text(0.32 / figure.get_figwidth(), low + up / 2, title, rotation=90,
                            ha="center", va="center", fontsize=10.5, fontweight="bold",
                            color=INK)  # fmt: skip
            else:
                axes.set_yticklabels([])
            if i == len(METRICS) - 1:
                add_labels(axes, "trajectories")
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
    no_frame(axes)
