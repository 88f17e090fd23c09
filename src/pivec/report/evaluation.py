"""The paper's Figure 3: three metrics over the number of trajectories, one line per method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

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
)
from pivec.statistics import Evaluation, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Styles = Mapping[str, Mapping[str, Any]]  # of the line of each method

# Colour, dashes and marker together: any two of 16 methods differ in more than the colour.
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LINE = {"linewidth": 1.7, "markeredgecolor": "white", "markeredgewidth": 0.6}
_WIDE = 30.0  # ratio of values above which the scale is logarithmic
_WIDTH, _HEIGHT, _GAP, _LEFT, _TOP, _BOTTOM = 3.1, 2.35, 0.68, 0.86, 1.32, 0.62  # inches


# Metrics: title, which direction is better, field.
PANELS = (
    ("Correlation with return difference", "higher is better", "correlation"),
    ("Distance error, %", "lower is better", "error"),
    ("Distance variance, std / mean", "lower is better", "variance"),
)


def evaluation_figure(evaluation: Evaluation, *, across: bool = False) -> Figure:
    """Draw the three metrics: means over sets and repetitions, with bands of one deviation.

    Environments are rows; with ``across`` they are columns, as in the paper. Methods without a
    result are named below the legend.
    """
    environments, methods = evaluation.environments, evaluation.methods
    styles = {
        name: {
            "color": colour,
            "linestyle": _DASHES[i // 4 % 4],
            "marker": _MARKERS[i % 7],
            **_LINE,
        }
        for i, (name, colour) in enumerate(zip(methods, group_colours(len(methods)), strict=True))
    }
    legend = max(1.4, 0.75 + 0.078 * max(len(literal(name, 34)) for name in methods))
    rows, columns = (3, len(environments)) if across else (len(environments), 3)
    step = _HEIGHT + (0.34 if across else 0.74)
    bottom_row = _TOP + (rows - 1) * step + _HEIGHT
    height = max(bottom_row + _BOTTOM, _TOP + 0.24 * (len(methods) + 2) + 0.2)
    width = _LEFT + columns * (_WIDTH + _GAP) - _GAP + 0.25 + legend
    figure = new_figure(width, height)
    add_heading(figure, "How well do characterizations measure behaviour?", _subtitle(evaluation))

    for i, j in np.ndindex(rows, columns):
        title, better, field = PANELS[i if across else j]
        environment = environments[j if across else i]
        left, bottom = _LEFT + j * (_WIDTH + _GAP), height - _TOP - _HEIGHT - i * step
        axes = axes_at(figure, left, bottom, _WIDTH, _HEIGHT)
        _draw_panel(axes, field, evaluation.summary(environment), styles)
        _add_ticks(axes, evaluation.sizes)
        if i == rows - 1:
            axes.set_xlabel("trajectories per policy", fontsize=10.5, color=MUTED)
        if i == 0 and across:
            add_panel_title(axes, literal(environment, 40))
        elif i == 0:
            add_panel_title(axes, title, better)
        if j == 0 and (across or rows > 1):
            figure.text(
                0.22 / width,
                (bottom + _HEIGHT / 2) / height,
                f"{title}\n({better})" if across else literal(environment, 32),
                rotation=90,
                ha="center",
                va="center",
                fontsize=9.5 if across else 11,
                fontweight="bold",
                color=INK,
            )
    _add_legend(figure, evaluation, styles, (1 - legend / width, 1 - _TOP / height))
    return figure


def _draw_panel(axes: Axes, field: str, summary: Sequence[Summary], styles: Styles) -> None:
    lines, positive = [], field != "correlation"
    for name, style in styles.items():
        rows = sorted((row for row in summary if row.method == name), key=lambda row: row.size)
        averages = [(row.size, getattr(row, field)) for row in rows]
        values = [(size, value.mean, value.std) for size, value in averages if value.n]
        if values:
            lines.append((style, *np.array(values).T))
    if not lines:
        place = axes.transAxes
        axes.text(0.5, 0.5, "no values", transform=place, ha="center", color=MUTED, fontsize=10)
        axes.set_yticks([])
        return
    floor = -np.inf
    above = np.concatenate([mean[mean > 0] for _, _, mean, _ in lines])
    logarithmic = positive and len(above) and above.max() > _WIDE * above.min()
    if logarithmic:
        axes.set_yscale("log")
        floor = 0.5 * above.min()  # a band that reaches 0 ends at the lower edge
    for style, x, mean, std in lines:
        low = np.maximum(mean - std, floor)
        axes.fill_between(x, low, mean + std, color=style["color"], alpha=0.12, linewidth=0)
        axes.plot(x, mean, markersize=4.6, **style)
    if not positive:
        axes.set_ylim(top=min(1.02, axes.get_ylim()[1]))
    elif not logarithmic:
        axes.set_ylim(bottom=0.0)


def _add_ticks(axes: Axes, sizes: Sequence[int]) -> None:
    """Put ticks at the numbers of trajectories."""
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
    figure: Figure, evaluation: Evaluation, styles: Styles, corner: tuple[float, float]
) -> None:
    from matplotlib.lines import Line2D

    done = {row.method for row in evaluation.rows if not row.problem}
    shown = [name for name in styles if name in done]
    missing = [f"no result: {literal(name, 34)}" for name in styles if name not in done]
    handles = [Line2D([], [], markersize=5, label=literal(n, 34), **styles[n]) for n in shown]
    handles += [Line2D([], [], linestyle="none", label=text) for text in missing]
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
    return f"{names[0]}: {sets}, {text}" if len(names) == 1 else f"{sets} per environment, {text}"
