"""The picture of cloning: distance to the expert and return over the epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.figures import HAIRLINE, INK, MUTED, add_key
from reproduction.panels import add_labels, add_title, line, panel_grid, patch
from reproduction.published import Rows, column, different, short, where

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DISTANCE, RETURN, OURS, CHANCE = "#0072B2", "#D55E00", "#009E73", "#DDE2E7"
DASHES, DOTS = (0, (4, 1.6)), (0, (1, 1.4))


def imitation_figure(rows: Rows, runs: Rows) -> Figure:
    """Draw a panel for each environment: means over runs, and a deviation around them.

    There is a row for each epoch of a run, and one for each run.
    """
    environments = different(rows, "environment")
    size = (3.9 if len(environments) > 1 else 5.8), 2.9
    heading = (
        "Behavioural cloning, epoch by epoch",
        "Distance to the expert, and return; means over runs, and a standard deviation",
    )
    margins = (0.8, 0.85, 1.3, 0.65)
    figure, panel = panel_grid(heading, (1, len(environments)), size, (1.35, 0.0), margins)
    for j, environment in enumerate(environments):
        axes = panel(0, j)
        chance = column(runs, "by_chance", environment=environment)
        _draw(axes, where(rows, environment=environment), float(np.mean(chance)))
        add_title(axes, short(environment))
    handles = [
        line("distance to the expert", DISTANCE, linewidth=2),
        line("by visitation, scaled", OURS, DOTS, linewidth=2),
        line("return", RETURN, DASHES, linewidth=2),
        patch("of the expert to itself", CHANCE),
    ]
    add_key(figure, handles)
    return figure


def _draw(axes: Axes, rows: Rows, chance: float) -> None:
    epochs = sorted(different(rows, "epoch"))
    axes.axhspan(0, chance, color=CHANCE, linewidth=0, zorder=1)
    _band(axes, rows, epochs, "distance", DISTANCE, "-")
    first = [np.mean(column(rows, name, epoch=epochs[0])) for name in ("distance", "visitation")]
    ours = [np.mean(column(rows, "visitation", epoch=epoch)) for epoch in epochs]
    scaled = np.array(ours) * first[0] / first[1]
    axes.plot(epochs, scaled, color=OURS, linewidth=1.6, linestyle=DOTS, zorder=3)
    axes.set_ylim(bottom=0)
    axes.set_xlim(epochs[0], max(epochs[-1], epochs[0] + 1))
    axes.locator_params(axis="x", integer=True)
    add_labels(axes, "epoch")
    axes.grid(axis="y", color=HAIRLINE, linewidth=0.6)
    axes.set_axisbelow(True)
    other: Any = axes.twinx()
    other.axhline(1, color=RETURN, linewidth=0.8, alpha=0.6)
    _band(other, rows, epochs, "normalised_return", RETURN, DASHES)
    for side, colour, label in (
        (axes, DISTANCE, "distance to the expert"),
        (other, RETURN, "return / return of the expert"),
    ):
        add_labels(side, y=label, color=colour)
        side.tick_params(length=2.5, width=0.6, labelsize=9, color=MUTED, labelcolor=INK)
        side.tick_params(axis="y", labelcolor=colour)
        for spine in side.spines.values():
            spine.set_color(HAIRLINE)
        side.spines["top"].set_visible(False)


def _band(
    axes: Any, rows: Rows, epochs: Sequence[int], name: str, colour: str, dashes: Any
) -> None:
    runs = [column(rows, name, epoch=epoch) for epoch in epochs]
    mean, std = np.mean(runs, axis=1), np.std(runs, axis=1)
    axes.fill_between(epochs, mean - std, mean + std, color=colour, alpha=0.16, linewidth=0)
    axes.plot(epochs, mean, color=colour, linewidth=2, linestyle=dashes, zorder=3)
