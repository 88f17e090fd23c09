"""The paper's Figure 3: three metrics over the number of trajectories, one line a method."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from pivec.evaluation.result import Average, Evaluation, Summary
from pivec.report.canvas import (
    HAIRLINE,
    INK,
    MUTED,
    add_heading,
    group_colours,
    literal,
    new_figure,
    save_png,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

# Colour, dashes and marker together: any two of 16 methods differ in more than the colour.
Dashes = tuple[float, Sequence[float]] | Literal["-"]
DASHES: tuple[Dashes, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# Values that spread over more than this are shown on a logarithmic scale.
WIDE = 30.0

# Inches.
PANEL_WIDTH, PANEL_HEIGHT, GAP, LEFT, TOP, BOTTOM = 3.1, 2.35, 0.68, 0.86, 1.32, 0.62


@dataclass(frozen=True)
class _Panel:
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
    >>> from pivec.evaluation import Row
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
    summary = evaluation.summary()
    environments, methods = evaluation.environments, evaluation.methods
    shown = [name for name in methods if any(row.done for row in summary if row.method == name)]
    looks = _looks(methods)

    legend = max(1.4, 0.75 + 0.078 * max(len(_short(name)) for name in methods))
    rows, columns = (3, len(environments)) if across else (len(environments), 3)
    step = PANEL_HEIGHT + (0.34 if across else 0.74)
    bottom_row = TOP + (rows - 1) * step + PANEL_HEIGHT
    height = max(bottom_row + BOTTOM, TOP + 0.24 * (len(methods) + 2) + 0.2)
    width = LEFT + columns * (PANEL_WIDTH + GAP) - GAP + 0.25 + legend
    figure = new_figure(width, height)
    add_heading(figure, "How well do characterizations measure behaviour?", _subtitle(evaluation))

    for i, j in np.ndindex(rows, columns):
        panel, environment = (
            (PANELS[i], environments[j]) if across else (PANELS[j], environments[i])
        )
        left, bottom = LEFT + j * (PANEL_WIDTH + GAP), height - TOP - PANEL_HEIGHT - i * step
        axes = figure.add_axes(
            (left / width, bottom / height, PANEL_WIDTH / width, PANEL_HEIGHT / height)
        )
        here = [row for row in summary if row.environment == environment]
        _draw_panel(axes, panel, here, looks)
        _dress(axes, evaluation.sizes, labelled=i == rows - 1)
        if i == 0:
            _title(axes, *((environment, "") if across else (panel.title, panel.better)))
        if j == 0 and (across or rows > 1):
            named = f"{panel.title}\n({panel.better})" if across else literal(environment, 32)
            middle = (bottom + PANEL_HEIGHT / 2) / height
            _name_row(figure, (0.22 / width, middle), named, 9.5 if across else 11)
    _add_legend(figure, shown, methods, looks, (1 - legend / width, 1 - TOP / height))
    return figure


def _name_row(figure: Figure, place: tuple[float, float], text: str, size: float) -> None:
    figure.text(
        *place,
        text,
        rotation=90,
        ha="center",
        va="center",
        fontsize=size,
        fontweight="bold",
        color=INK,
    )


@dataclass(frozen=True)
class _Look:
    colour: str
    dashes: Dashes
    marker: str


def _looks(methods: Sequence[str]) -> dict[str, _Look]:
    colours = group_colours(len(methods))
    return {
        name: _Look(colours[i], DASHES[(i // 4) % len(DASHES)], MARKERS[i % len(MARKERS)])
        for i, name in enumerate(methods)
    }


def _draw_panel(
    axes: Axes, panel: _Panel, rows: Sequence[Summary], looks: dict[str, _Look]
) -> None:
    lines = []
    for name, look in looks.items():
        mine = sorted((row for row in rows if row.method == name), key=lambda row: row.size)
        values: list[Average] = [getattr(row, panel.field) for row in mine]
        known = [i for i, value in enumerate(values) if value.n]
        if known:
            x = np.array([mine[i].size for i in known], dtype=np.float64)
            mean = np.array([values[i].mean for i in known])
            lines.append((look, x, mean, np.array([values[i].std for i in known])))
    logarithmic = panel.may_be_logarithmic and _is_wide([mean for _, _, mean, _ in lines])
    floor = 0.0
    if logarithmic:
        axes.set_yscale("log")
        floor = 0.5 * min(float(mean[mean > 0].min()) for _, _, mean, _ in lines if mean.any())
    for look, x, mean, std in lines:
        # On a logarithmic scale a band that reaches 0 ends at the lower edge.
        low = np.maximum(mean - std, floor) if logarithmic else mean - std
        axes.fill_between(x, low, mean + std, color=look.colour, alpha=0.12, linewidth=0)
    for look, x, mean, _ in lines:
        axes.plot(
            x,
            mean,
            color=look.colour,
            linestyle=look.dashes,
            marker=look.marker,
            linewidth=1.7,
            markersize=4.6,
            markeredgecolor="white",
            markeredgewidth=0.6,
        )
    if not lines:
        axes.text(
            0.5, 0.5, "no values", transform=axes.transAxes, ha="center", color=MUTED, fontsize=10
        )
        axes.set_yticks([])
    elif panel.may_be_logarithmic and not logarithmic:
        axes.set_ylim(bottom=0.0)
    elif not panel.may_be_logarithmic:
        axes.set_ylim(top=min(1.02, axes.get_ylim()[1]))


def _is_wide(means: Sequence[Array]) -> bool:
    values = np.concatenate([mean[mean > 0] for mean in means]) if means else np.empty(0)
    return bool(len(values)) and bool(values.max() > WIDE * values.min())


def _dress(axes: Axes, sizes: Sequence[int], *, labelled: bool) -> None:
    """Ticks at the numbers of trajectories that were drawn, and a quiet frame."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log")
    axes.set_xlim(0.88 * min(sizes), 1.14 * max(sizes))
    axes.set_xticks(list(sizes), [str(size) for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    if axes.get_yscale() == "log":
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
    axes.tick_params(length=2.5, width=0.6, labelsize=10, color=MUTED, labelcolor=INK)
    axes.grid(axis="y", color=HAIRLINE, linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(HAIRLINE)
    if labelled:
        axes.set_xlabel("trajectories of each policy", fontsize=10.5, color=MUTED)


def _title(axes: Axes, title: str, below: str) -> None:
    axes.annotate(
        literal(title, 40),
        (0, 1),
        (0, 21 if below else 8),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=11.5,
        fontweight="bold",
        color=INK,
    )
    axes.annotate(
        below,
        (0, 1),
        (0, 8),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=9.5,
        color=MUTED,
    )


def _add_legend(
    figure: Figure,
    shown: Sequence[str],
    methods: Sequence[str],
    looks: dict[str, _Look],
    corner: tuple[float, float],
) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=looks[name].colour,
            linestyle=looks[name].dashes,
            marker=looks[name].marker,
            linewidth=1.7,
            markersize=5,
            markeredgecolor="white",
            markeredgewidth=0.6,
            label=_short(name),
        )
        for name in shown
    ]
    missing = [name for name in methods if name not in shown]
    handles += [Line2D([], [], linestyle="none", label=f"no result: {_short(n)}") for n in missing]
    legend = figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=corner,
        frameon=False,
        fontsize=10,
        handlelength=2.9,
        labelspacing=0.55,
        borderaxespad=0.0,
    )
    for text in legend.get_texts()[: len(shown)]:
        text.set_color(INK)
    for text in legend.get_texts()[len(shown) :]:
        text.set_color(MUTED)


def _short(name: str) -> str:
    return literal(name, 34)


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
