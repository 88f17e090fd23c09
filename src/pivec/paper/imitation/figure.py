"""The picture of cloning: distance to the expert and return over the epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.paper.clipping.page import short
from pivec.report.canvas import HAIRLINE, INK, MUTED, add_heading, add_key, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = Sequence[dict[str, Any]]

DISTANCE, RETURN, CHANCE = "#0072B2", "#D55E00", "#DDE2E7"


def imitation_figure(rows: Rows, runs: Rows) -> Figure:
    """Draw a panel for each environment: means over runs, and a deviation around them.

    Parameters
    ----------
    rows : sequence of mappings
        One an epoch of a run, with ``environment``, ``run``, ``epoch``, ``distance`` and
        ``normalised_return``.
    runs : sequence of mappings
        One a run, with ``environment`` and ``by_chance``.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    environments = list(dict.fromkeys(row["environment"] for row in rows))
    tall, gap, left, right, top, bottom = 2.9, 1.35, 0.8, 0.85, 1.3, 0.65
    side = 3.9 if len(environments) > 1 else 5.8
    width = left + len(environments) * (side + gap) - gap + right
    height = top + tall + bottom
    figure = new_figure(width, height)
    add_heading(
        figure,
        "Behavioural cloning, epoch by epoch",
        "Distance to the expert, and return; means over runs, and a standard deviation",
    )
    for i, environment in enumerate(environments):
        box = (
            (left + i * (side + gap)) / width,
            bottom / height,
            side / width,
            tall / height,
        )
        axes = figure.add_axes(box)
        mine = [row for row in rows if row["environment"] == environment]
        chance = [run["by_chance"] for run in runs if run["environment"] == environment]
        _draw(axes, mine, float(np.mean(chance)))
        axes.set_title(short(environment), loc="left", fontsize=11.5, fontweight="bold")
    handles = [
        Line2D([], [], color=DISTANCE, linewidth=2, label="distance to the expert"),
        Line2D([], [], color=RETURN, linewidth=2, linestyle=(0, (4, 1.6)), label="return"),
        Patch(color=CHANCE, label="distance of the expert to itself, by sampling"),
    ]
    add_key(figure, handles)
    return figure


def _draw(axes: Axes, rows: Rows, chance: float) -> None:
    epochs = sorted({row["epoch"] for row in rows})
    axes.axhspan(0, chance, color=CHANCE, linewidth=0, zorder=1)
    _band(axes, rows, epochs, "distance", DISTANCE, "-")
    axes.set_ylim(bottom=0)
    axes.set_xlim(epochs[0], max(epochs[-1], epochs[0] + 1))
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("epoch", fontsize=10, color=MUTED)
    axes.set_ylabel("distance to the expert", fontsize=10, color=DISTANCE)
    axes.grid(axis="y", color=HAIRLINE, linewidth=0.6)
    axes.set_axisbelow(True)
    other: Any = axes.twinx()
    other.axhline(1, color=RETURN, linewidth=0.8, alpha=0.6)
    _band(other, rows, epochs, "normalised_return", RETURN, (0, (4, 1.6)))
    other.set_ylabel("return / return of the expert", fontsize=10, color=RETURN)
    for each, colour in ((axes, DISTANCE), (other, RETURN)):
        each.tick_params(length=2.5, width=0.6, labelsize=9, color=MUTED, labelcolor=INK)
        each.tick_params(axis="y", labelcolor=colour)
        for spine in each.spines.values():
            spine.set_color(HAIRLINE)
        each.spines["top"].set_visible(False)


def _band(
    axes: Any, rows: Rows, epochs: Sequence[int], name: str, colour: str, dashes: Any
) -> None:
    values = [[row[name] for row in rows if row["epoch"] == epoch] for epoch in epochs]
    mean, std = np.mean(values, axis=1), np.std(values, axis=1)
    axes.fill_between(epochs, mean - std, mean + std, color=colour, alpha=0.16, linewidth=0)
    axes.plot(epochs, mean, color=colour, linewidth=2, linestyle=dashes, zorder=3)
