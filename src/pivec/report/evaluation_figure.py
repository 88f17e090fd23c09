"""The paper's Figure 3: three metrics over the number of trajectories, one line a method."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.figures import (
    INK,
    MUTED,
    add_heading,
    add_panel_title,
    axes_at,
    group_colours,
    lined_axes,
    literal,
    new_figure,
    save_png,
)
from pivec.statistics import Average, Evaluation, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Looks = Mapping[str, Mapping[str, Any]]  # of the line of each method

# Colour, dashes and marker together: any two of 16 methods differ in more than the colour.
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINE = {"linewidth": 1.7, "markeredgecolor": "white", "markeredgewidth": 0.6}
# Values that spread over more than this are shown on a logarithmic scale.
WIDE = 30.0

# Inches.
PANEL_WIDTH, PANEL_HEIGHT, GAP, LEFT, TOP, BOTTOM = 3.1, 2.35, 0.68, 0.86, 1.32, 0.62


class _Panel(NamedTuple):
    title: str
    better: str
    field: str
    may_be_logarithmic: bool


PANELS = (
    _Panel("Correlation with return difference", "higher is better", "correlation", False),
    _Panel("Distance error, %", "lower is better", "error", True),
    _Panel("Distance variance, std / mean", "lower is better", "variance", True),
)


def draw_evaluation(path: str | os.PathLike[str], evaluation: Evaluation) -> None:
    """Draw the three metrics as a PNG file of at most 300 kB.

    Means over sets of policies and repetitions, with a band of one standard deviation; a row for
    each environment. Methods without a result are named below the legend.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from pivec.statistics import Row
    >>> rows = [Row("Walk-v0", "gaussian", "a", n, 1, 0.5, 10.0, 0.1) for n in (100, 10)]
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "evaluation.png"
    >>> draw_evaluation(path, Evaluation(tuple(rows)))
    >>> path.stat().st_size < 300_000
    True
    """
    save_png(evaluation_figure(evaluation), path)


def evaluation_figure(evaluation: Evaluation, *, across: bool = False) -> Figure:
    """Make the figure that `draw_evaluation` writes.

    Environments are its rows; with ``across`` they are its columns, as in the paper.
    """
    environments, methods = evaluation.environments, evaluation.methods
    looks = {
        name: {"color": colour, "linestyle": DASHES[i // 4 % 4], "marker": MARKERS[i % 7], **LINE}
        for i, (name, colour) in enumerate(zip(methods, group_colours(len(methods)), strict=True))
    }
    legend = max(1.4, 0.75 + 0.078 * max(len(literal(name, 34)) for name in methods))
    rows, columns = (3, len(environments)) if across else (len(environments), 3)
    step = PANEL_HEIGHT + (0.34 if across else 0.74)
    bottom_row = TOP + (rows - 1) * step + PANEL_HEIGHT
    height = max(bottom_row + BOTTOM, TOP + 0.24 * (len(methods) + 2) + 0.2)
    width = LEFT + columns * (PANEL_WIDTH + GAP) - GAP + 0.25 + legend
    figure = new_figure(width, height)
    add_heading(figure, "How well do characterizations measure behaviour?", _subtitle(evaluation))

    for i, j in np.ndindex(rows, columns):
        panel, environment = PANELS[i if across else j], environments[j if across else i]
        left, bottom = LEFT + j * (PANEL_WIDTH + GAP), height - TOP - PANEL_HEIGHT - i * step
        axes = axes_at(figure, left, bottom, PANEL_WIDTH, PANEL_HEIGHT)
        _draw_panel(axes, panel, evaluation.summary(environment), looks)
        _add_ticks(axes, evaluation.sizes)
        if i == rows - 1:
            axes.set_xlabel("trajectories of each policy", fontsize=10.5, color=MUTED)
        if i == 0 and across:
            add_panel_title(axes, literal(environment, 40))
        elif i == 0:
            add_panel_title(axes, panel.title, panel.better)
        if j == 0 and (across or rows > 1):
            figure.text(
                0.22 / width,
                (bottom + PANEL_HEIGHT / 2) / height,
                f"{panel.title}\n({panel.better})" if across else literal(environment, 32),
                rotation=90,
                ha="center",
                va="center",
                fontsize=9.5 if across else 11,
                fontweight="bold",
                color=INK,
            )
    _add_legend(figure, evaluation, looks, (1 - legend / width, 1 - TOP / height))
    return figure


def _draw_panel(axes: Axes, panel: _Panel, summary: Sequence[Summary], looks: Looks) -> None:
    lines = []
    for name, look in looks.items():
        rows = sorted((row for row in summary if row.method == name), key=lambda row: row.size)
        averages: list[tuple[int, Average]] = [
            (row.size, getattr(row, panel.field)) for row in rows if getattr(row, panel.field).n
        ]
        if averages:
            values = np.array([(size, value.mean, value.std) for size, value in averages])
            lines.append((look, *values.T))
    if not lines:
        axes.text(
            0.5, 0.5, "no values", transform=axes.transAxes, ha="center", color=MUTED, fontsize=10
        )
        axes.set_yticks([])
        return
    floor = -np.inf
    positive = np.concatenate([mean[mean > 0] for _, _, mean, _ in lines])
    logarithmic = (
        panel.may_be_logarithmic and len(positive) and positive.max() > WIDE * positive.min()
    )
    if logarithmic:
        axes.set_yscale("log")
        floor = 0.5 * positive.min()  # a band that reaches 0 ends at the lower edge
    for look, x, mean, std in lines:
        low = np.maximum(mean - std, floor)
        axes.fill_between(x, low, mean + std, color=look["color"], alpha=0.12, linewidth=0)
    for look, x, mean, _ in lines:
        axes.plot(x, mean, markersize=4.6, **look)
    if not panel.may_be_logarithmic:
        axes.set_ylim(top=min(1.02, axes.get_ylim()[1]))
    elif not logarithmic:
        axes.set_ylim(bottom=0.0)


def _add_ticks(axes: Axes, sizes: Sequence[int]) -> None:
    """Put ticks at the numbers of trajectories that were drawn."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log")
    axes.set_xlim(0.88 * min(sizes), 1.14 * max(sizes))
    axes.set_xticks(list(sizes), [str(size) for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    if axes.get_yscale() == "log":
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
    lined_axes(axes, 10)


def _add_legend(
    figure: Figure, evaluation: Evaluation, looks: Looks, corner: tuple[float, float]
) -> None:
    from matplotlib.lines import Line2D

    done = {row.method for row in evaluation.rows if not row.problem}
    shown = [name for name in looks if name in done]
    missing = [name for name in looks if name not in done]
    handles = [Line2D([], [], markersize=5, label=literal(n, 34), **looks[n]) for n in shown]
    handles += [
        Line2D([], [], linestyle="none", label=f"no result: {literal(n, 34)}") for n in missing
    ]
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=corner,
        frameon=False,
        fontsize=10,
        handlelength=2.9,
        labelspacing=0.55,
        borderaxespad=0.0,
        labelcolor=[INK] * len(shown) + [MUTED] * len(missing),
    )


def _subtitle(evaluation: Evaluation) -> str:
    names = evaluation.environments
    stores = max(
        len({row.store for row in evaluation.rows if row.environment == name}) for name in names
    )
    repetitions = max(row.repetition for row in evaluation.rows)
    sets = "1 set of policies" if stores == 1 else f"{stores} sets of policies"
    draws = "1 draw" if repetitions == 1 else f"{repetitions} draws"
    text = f"{draws} of the trajectories; band: ± one standard deviation"
    if len(names) == 1:
        return f"{names[0]}: {sets}, {text}"
    return f"{sets} an environment, {text}"
