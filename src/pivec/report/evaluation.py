"""The paper's Figure 3: three metrics over the number of trajectories, one line per method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.figures import (
    INK,
    MARGIN,
    MUTED,
    PAGE,
    SMALL,
    TEXT,
    add_panel_title,
    axes_at,
    group_colours,
    headed_figure,
    lined_axes,
    literal,
    name_axes,
    wrapped,
)
from pivec.statistics import Evaluation, Summary
from pivec.text import short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Styles = Mapping[str, Mapping[str, Any]]  # of the line of each method
Drawn = tuple[Any, ...]  # of a line: its style, sizes, means and deviations

# Colour, dashes and marker together: any two of 16 methods differ in more than the colour.
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LINE = {"linewidth": 1.7, "markeredgecolor": "white", "markeredgewidth": 0.6}
_WIDE = 30.0  # ratio of values above which the scale is logarithmic
_HEIGHT, _GAP, _LEFT = 2.1, 0.68, 1.1  # inches


# Metrics: title, which direction is better, field.
PANELS = (
    ("Correlation with return difference", "higher is better", "correlation"),
    ("Distance error, %", "lower is better", "error"),
    ("Distance variance, std / mean", "lower is better", "variance"),
)


def evaluation_figure(evaluation: Evaluation, *, across: bool = False) -> Figure:
    """Draw the three metrics: means over sets and repetitions, with bands of one deviation.

    Environments are rows; with ``across`` they are columns, as in the paper. They share the scale
    of a metric. Methods without a result are named in the legend.
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
    rows, columns = (3, len(environments)) if across else (len(environments), 3)
    wide = min(2.6, (PAGE - _LEFT + _GAP - MARGIN) / columns - _GAP) if columns < 5 else 2.0
    step = _HEIGHT + (0.34 if across else 0.62)
    width = _LEFT + columns * (wide + _GAP) - _GAP + MARGIN
    height = 0.6 + (rows - 1) * step + _HEIGHT + 0.62
    title = "How well do characterizations measure behaviour?"
    figure = headed_figure(width, height, title, _subtitle(evaluation), _key(evaluation, styles))
    summaries = {name: evaluation.summary(name) for name in environments}
    for k, (title, better, field) in enumerate(PANELS):
        panels = []
        lines = {name: _lines(summaries[name], field, styles) for name in environments}
        scale = _scale([line for own in lines.values() for line in own], field)
        for j, environment in enumerate(environments):
            row, column = (k, j) if across else (j, k)
            left, bottom = _LEFT + column * (wide + _GAP), height - 0.6 - _HEIGHT - row * step
            axes = axes_at(figure, left, bottom, wide, _HEIGHT)
            _draw_panel(axes, lines[environment], scale)
            _add_ticks(axes, evaluation.sizes)
            panels.append(axes)
            if row == rows - 1:
                name_axes(axes, "trajectories per policy")
            if row == 0 and across:
                add_panel_title(axes, literal(environment, 40))
            elif row == 0:
                add_panel_title(axes, title, better)
            if column == 0 and (across or rows > 1):
                words = wrapped(title if across else environment, _HEIGHT, most=2, weight="bold")
                words += f"\n{better}" * across
                axes.set_ylabel(words, fontsize=SMALL, fontweight="bold", color=INK)
                axes.yaxis.set_label_coords(-0.6 / wide, 0.5)
    return figure


def _lines(summary: Sequence[Summary], field: str, styles: Styles) -> list[Drawn]:
    """Give the style, sizes, means and deviations of each method with values."""
    lines = []
    for name, style in styles.items():
        rows = sorted((row for row in summary if row.method == name), key=lambda row: row.size)
        averages = [(row.size, getattr(row, field)) for row in rows]
        values = [(size, value.mean, value.std) for size, value in averages if value.n]
        if values:
            lines.append((style, *np.array(values).T))
    return lines


def _scale(lines: Sequence[Drawn], field: str) -> tuple[str, float, float]:
    """Choose one scale for the panels of a metric: linear or logarithmic, and its ends."""
    if not lines:
        return "linear", 0.0, 1.0
    low = min(float((mean - std).min()) for _, _, mean, std in lines)
    high = max(float((mean + std).max()) for _, _, mean, std in lines)
    margin = 0.05 * (high - low) or 0.05
    if field == "correlation":
        return "linear", low - margin, min(1.02, high + margin)
    above = np.concatenate([mean[mean > 0] for _, _, mean, _ in lines])
    if len(above) and above.max() > _WIDE * above.min():
        # A band that reaches 0 ends at the lower edge.
        return "log", 0.5 * float(above.min()), 1.3 * high
    return "linear", 0.0, high + margin


def _draw_panel(axes: Axes, lines: Sequence[Drawn], scale: tuple[str, float, float]) -> None:
    if not lines:
        place = axes.transAxes
        axes.text(0.5, 0.5, "no values", transform=place, ha="center", color=MUTED, fontsize=TEXT)
        axes.set_yticks([])
        return
    kind, low, high = scale
    axes.set_yscale(kind)
    for style, x, mean, std in lines:
        below = np.maximum(mean - std, low)
        axes.fill_between(x, below, mean + std, color=style["color"], alpha=0.12, linewidth=0)
        axes.plot(x, mean, markersize=4.6, **style)
    axes.set_ylim(low, high)


def _add_ticks(axes: Axes, sizes: Sequence[int]) -> None:
    """Put ticks at the numbers of trajectories."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log")
    axes.set_xlim(0.88 * min(sizes), 1.14 * max(sizes))
    axes.set_xticks(list(sizes), [str(size) for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    if axes.get_yscale() == "log":
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 300 * low else (1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
        axes.yaxis.set_minor_locator(NullLocator())
    lined_axes(axes)


def _key(evaluation: Evaluation, styles: Styles) -> list[Any]:
    """List the methods, and those without a result."""
    from matplotlib.lines import Line2D

    done = {row.method for row in evaluation.rows if not row.problem}
    names = {name: literal(name, 34) for name in styles}
    key = [Line2D([], [], markersize=5, label=names[n], **styles[n]) for n in styles if n in done]
    missing = [f"no result: {names[name]}" for name in styles if name not in done]
    return key + [Line2D([], [], linestyle="none", label=text) for text in missing]


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
