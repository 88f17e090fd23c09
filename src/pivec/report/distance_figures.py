"""Figures of distances: the heatmap, the distance travelled along runs, and groups of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import UsageError
from pivec.figures import (
    INK,
    LONE_COLOUR,
    MARGIN,
    MUTED,
    SMALL,
    add_panel_title,
    axes_at,
    group_colours,
    headed_figure,
    label_points,
    lined_axes,
    literals,
    name_axes,
    note_lines,
    quiet_axes,
    text_width,
)
from pivec.report.findings import UNSURE, Findings, PolicyTable
from pivec.report.groups import GroupComparison, permanova_sentence
from pivec.report.layout import blocks_of, has_groups, heatmap_order
from pivec.statistics import RATE, Estimate, Travel
from pivec.text import rounded, short_number, without_shared_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Block = tuple[str, int, int]  # a group, its first row, the row after its last

MAX_GROUP_LABELS = 30
MAX_ROW_LABELS = 40
MAX_NUMBERED_CELLS = 50  # up to here a cell is as high as the number of its behaviour class
MAX_HATCHED = 100  # in smaller cells a hatch would not be visible
# More rows than this are averaged in blocks: a picture has no room for more.
# At 50 dots an inch and its multiples a cell is then a whole number of dots, which packs well.
MAX_CELLS = 280
MAX_SHOWN = 5 * MAX_CELLS  # of more policies than have a matrix


def heatmap_figure(findings: Findings) -> Figure:
    """Draw the matrix of distances; if there are too many policies, that of every k-th policy."""
    policies, measured, subtitle = findings.policies, findings.measured, findings.subtitle
    matrix, order = measured.estimates, findings.heatmap_order
    if matrix is None:
        if findings.space is None:
            raise UsageError(f"the heatmap of {len(policies)} policies needs their descriptions")
        k = -(-len(policies) // MAX_SHOWN)
        shown = policies.order[::k]
        matrix = findings.space.method.distances(findings.space.descriptions.select(shown))
        policies = PolicyTable(policies[i] for i in shown)
        order = heatmap_order(matrix, [row.group for row in policies], policies.order)
        subtitle += f" · 1 in {k} is shown, by group and training step"
    title = "Distances between policies"
    colours = findings.policies.group_colours
    return matrix_figure(matrix, policies, order, title, subtitle, measured.certain, colours)


def matrix_figure(
    distances: ArrayLike,
    policies: PolicyTable,
    order: NDArray[np.intp],
    title: str = "",
    subtitle: str = "",
    certain: NDArray[np.bool_] | None = None,
    colours: Mapping[str, str] | None = None,
) -> Figure:
    """Draw a matrix of distances with its rows and columns in an order.

    Cells that are not ``certain`` are hatched, small ones white; a cell of several pairs is hatched
    where most of them are. A strip at the right has the colours of behaviour classes, as on the
    map; frames on the diagonal surround neighbours of one class.
    """
    d, n = np.asarray(distances, dtype=np.float64), len(policies)
    if d.shape != (n, n):
        raise UsageError(f"distances must have shape ({n}, {n}), but have {d.shape}")
    ordered = [policies[i] for i in order]
    blocks, ticks = [], []
    if has_groups([row.group for row in policies]):
        blocks = blocks_of([row.group for row in ordered])
        if len(blocks) <= MAX_GROUP_LABELS:
            short = without_shared_folder([name for name, _, _ in blocks])
            middles = [(start + stop) / 2 for _, start, stop in blocks]
            ticks = [(at, name or "no run") for at, name in zip(middles, short, strict=True)]
    elif n <= MAX_ROW_LABELS:
        ticks = [(i + 0.5, row.label) for i, row in enumerate(ordered)]

    names = literals([text for _, text in ticks], 30)
    # Rows are as high as cells: the text of many is smaller.
    size = float(np.clip(300.0 / max(1, len(ticks)), 7.0, SMALL))
    left = 0.46 + max((text_width(name, size) for name in names), default=0.0)
    classes = policies.class_colours if policies.classes_differ else {}
    side, right = 5.6, 1.34 if classes else 1.16
    cells = averaged(d, order, MAX_CELLS)
    high = _upper_limit(cells)
    beyond = float(cells.max()) > high
    shown = cells
    hatched = n <= MAX_HATCHED
    if certain is not None and not certain.all():
        shown = np.ma.masked_where(averaged(certain.astype(float), order, MAX_CELLS) < 0.5, cells)
    signs = {
        f"{'hatched' if hatched else 'white'}: {UNSURE} (q > {RATE:g})": shown is not cells,
        "the uncertainty of distances is not shown": certain is None and n > 1,
        "right: classes of policies that behave alike": bool(classes),
        f"the scale omits the largest 1 %, up to {rounded(cells.max(), 3)}": beyond,
        f"each cell is the mean of about {rounded((n / MAX_CELLS) ** 2, 2)} pairs": n > MAX_CELLS,
    }
    notes = note_lines([note for note, there in signs.items() if there], side + right - MARGIN)
    bottom = 0.22 + 0.17 * len(notes)
    figure = headed_figure(left + side + right, side + bottom, title, subtitle)
    width, height = figure.get_size_inches()
    for line, note in enumerate(notes):
        at = left / width, (bottom - 0.1 - 0.17 * line) / height
        figure.text(*at, note, va="top", fontsize=SMALL, color=MUTED)
    axes = axes_at(figure, left, bottom, side, side)
    quiet_axes(axes)
    if shown is not cells and hatched:
        axes.patch.set(facecolor="#F3F5F7", edgecolor="#C4CBD2", hatch="////", linewidth=0.0)
    image = axes.imshow(
        shown, cmap="magma_r", vmin=0.0, vmax=high, extent=(0, n, n, 0), interpolation="nearest"
    )
    _mark_groups(axes, blocks, n, policies.group_colours if colours is None else colours)
    axes.set_yticks([at for at, _ in ticks], names)
    axes.tick_params(axis="y", length=0, pad=10 if blocks else 3, labelsize=size, labelcolor=INK)
    if classes:
        _mark_classes(axes, [row.behaviour for row in ordered], classes)
    bar_axes = axes_at(figure, left + side + right - 0.96, bottom, 0.14, side)
    bar = figure.colorbar(image, cax=bar_axes, extend="max" if beyond else "neither")
    bar.outline.set_visible(False)
    bar_axes.tick_params(length=2.5, width=0.6, labelsize=SMALL, color=MUTED, labelcolor=MUTED)
    name_axes(bar_axes, y="distance")
    return figure


def averaged(matrix: Array, order: NDArray[np.intp], size: int) -> Array:
    """Sort rows and columns by ``order``, and average blocks down to at most ``size`` rows."""
    n = len(matrix)
    if n <= size:
        return matrix[np.ix_(order, order)]
    edges = np.arange(size + 1) * n // size
    result = np.empty((size, size))
    # A block of rows at a time: a second matrix of this size might not fit.
    for k in range(size):
        columns = matrix[order[edges[k] : edges[k + 1]]].mean(axis=0)[order]
        result[k] = np.add.reduceat(columns, edges[:-1]) / np.diff(edges)
    return result


def _upper_limit(d: Array) -> float:
    """Return the largest distance, or the 99th percentile if a few are far larger than the rest."""
    others = d[~np.eye(len(d), dtype=bool)]
    if len(others) == 0 or others.max() == 0:
        return 1.0
    most = float(np.percentile(others, 99))
    return most if 0 < most < 0.5 * others.max() else float(others.max())


def _mark_groups(axes: Axes, blocks: Sequence[Block], n: int, colours: Mapping[str, str]) -> None:
    """Draw a coloured strip next to each group, and lines between groups if there is room."""
    from matplotlib.patches import Rectangle

    for name, start, stop in blocks:
        if start and len(blocks) <= MAX_GROUP_LABELS:
            axes.axhline(start, color="white", linewidth=0.8)
            axes.axvline(start, color="white", linewidth=0.8)
        colour = colours.get(name, LONE_COLOUR)
        strip = (-0.018 * n, start), 0.011 * n, stop - start
        axes.add_patch(Rectangle(*strip, color=colour, linewidth=0, clip_on=False))


def _mark_classes(axes: Axes, numbers: Sequence[int | None], colours: Mapping[int, str]) -> None:
    """Draw a strip of behaviour classes on the right, and frames around adjacent members."""
    from matplotlib.patches import Rectangle

    n = len(numbers)
    for name, start, stop in blocks_of([str(number) for number in numbers]):
        number = numbers[start]
        if number is None or number not in colours:
            continue
        colour = colours[number]
        strip = (1.012 * n, start), 0.016 * n, stop - start
        axes.add_patch(Rectangle(*strip, color=colour, clip_on=False, linewidth=0))
        if colour != LONE_COLOUR and n <= MAX_NUMBERED_CELLS:
            looks: dict[str, Any] = {"va": "center_baseline", "fontsize": 8.0, "color": INK}
            axes.text(1.034 * n, (start + stop) / 2, name, **looks)
        if stop - start > 1:
            square = (start, start), stop - start, stop - start
            axes.add_patch(Rectangle(*square, fill=False, edgecolor=INK, linewidth=0.9, zorder=3))


MAX_RUNS = 24  # with more lines, names would not fit


def travel_figure(runs: Sequence[Travel], colours: Mapping[str, str], subtitle: str = "") -> Figure:
    """Draw the distance travelled by training step, one line per run, at most `MAX_RUNS`."""
    shown = sorted(runs, key=lambda run: -run.total)[:MAX_RUNS]
    if len(shown) < len(runs):
        subtitle += f" · the {MAX_RUNS} of {len(runs)} runs that travelled farthest"
    names = literals(without_shared_folder([run.group for run in shown]), 30)
    figure = headed_figure(7.5, 4.0, "Distance travelled", subtitle)
    room = 0.2 + max(map(text_width, names))
    axes = axes_at(figure, 0.85, 0.6, 6.4, 3.2)
    lined_axes(axes)
    ink = [colours.get(run.group, LONE_COLOUR) for run in shown]
    along = []
    for run, colour in zip(shown, ink, strict=True):
        axes.plot(run.steps, run.cumulative, "o-", color=colour, ms=3.5)
        half = 0.0 if run.half_widths is None else run.half_widths
        ends = np.maximum(run.cumulative - half, 0.0), run.cumulative + half
        axes.fill_between(run.steps, *ends, color=colour, alpha=0.15, linewidth=0)
        parts = np.linspace(0, len(run.steps) - 1, 200)
        numbers = np.arange(len(run.steps))
        line = [np.interp(parts, numbers, values) for values in (run.steps, run.cumulative)]
        along.append(np.transpose(line))
    first, last = axes.get_xlim()[0], max(run.steps[-1] for run in shown)
    axes.set_ylim(bottom=0.0)
    axes.set_xlim(first, first + (last - first) * 6.4 / (6.4 - room))  # names are on the right
    axes.xaxis.set_major_formatter(lambda step, _: short_number(step))
    name_axes(axes, "training step", "sum of distances")
    spots = np.array([(run.steps[-1], run.total) for run in shown])
    label_points(axes, spots, names, ink, np.concatenate(along))
    return figure


# A line of a panel: its name, its colours (one for a group, two for a pair), numbers, small dots.
GroupLine = tuple[str, Sequence[str], Estimate, Sequence[float]]
MAX_GROUP_LINES = 30
ROW, WIDTH = 0.4, 7.5


def groups_figure(result: GroupComparison, environment: str = "") -> Figure:
    """Draw distances within and between groups with their intervals, and the diversity of each.

    Small dots are pairs of runs. An interval that goes beyond the panel ends in an arrow head.
    """
    names = [group.name for group in result.groups]
    colours = dict(zip(names, group_colours(len(names)), strict=True))
    number = {run: k for k, run in enumerate(result.runs)}
    members = {group.name: [number[run] for run in group.runs] for group in result.groups}

    def apart(a: str, b: str) -> list[float]:
        pairs = ((i, j) for i in members[a] for j in members[b] if a != b or i < j)
        return [result.run_distances[i][j] for i, j in pairs]

    distances: list[GroupLine] = [
        (f"within {g.name}", [colours[g.name]], g.distance, apart(g.name, g.name))
        for g in result.groups
        if len(g.runs) > 1
    ]
    distances += [
        (" – ".join(p.groups), [colours[name] for name in p.groups], p.distance, apart(*p.groups))
        for p in result.pairs
    ]
    diverse: list[GroupLine] = [
        (g.name, [colours[g.name]], g.behaviours, []) for g in result.groups
    ]
    dots = "small dots: pairs of runs"
    panels = [
        panel
        for panel in (
            (distances[:MAX_GROUP_LINES], "Distance between runs", dots, "distance"),
            (diverse[:MAX_GROUP_LINES], "Diversity", "", "effective number of behaviours"),
        )
        if panel[0]
    ]
    texts = [literals([line[0] for line in lines], 34) for lines, *_ in panels]
    left = MARGIN + 0.12 + max(text_width(text) for own in texts for text in own)
    over, below = 0.52, 0.6
    height = sum(over + ROW * len(lines) + below for lines, *_ in panels)
    heading = f"Groups of runs in {environment}" if environment else "Groups of runs"
    figure = headed_figure(WIDTH, height, heading, permanova_sentence(result.test))
    top = height
    for (lines, title, subtitle, label), own in zip(panels, texts, strict=True):
        tall = ROW * len(lines)
        axes = axes_at(figure, left, top - over - tall, WIDTH - left - MARGIN, tall)
        goes_on = ["▶ the interval goes on"] * _draw_groups(
            axes, lines, own, distances=label == "distance"
        )
        add_panel_title(axes, title, "; ".join([*filter(None, [subtitle]), *goes_on]))
        name_axes(axes, label)
        top -= over + tall + below
    return figure


def _draw_groups(
    axes: Axes, lines: Sequence[GroupLine], names: Sequence[str], *, distances: bool
) -> bool:
    """Draw one line per group or pair, from top to bottom; return whether intervals are cut off."""
    known = [x for _, _, e, dots in lines for x in (e.value, *dots) if math.isfinite(x)]
    lows = [e.low for _, _, e, _ in lines if math.isfinite(e.low)]
    ends = [e.high for _, _, e, _ in lines if math.isfinite(e.high)]
    most, start = max([0.0, *known]), min([*known, *lows], default=0.0)
    # Numbers of behaviours far from 0 are drawn without the empty part of the scale.
    is_far = not distances and start > 0.5 * most
    start = start - 0.2 * (max([most, *ends]) - start) if is_far else 0.0
    # Three runs give intervals beside which nothing else in the picture could be seen.
    edge = min(max([most, *ends]), start + 2.2 * (most - start))
    edge += 0.04 * (edge - start) or 1.0
    for row, (_, colours, estimate, dots) in enumerate(lines):
        two = len(colours) > 1
        below = [row + 0.28] * len(dots)
        axes.plot(dots, below, "o", markersize=4.2, color=colours[-1], alpha=0.5, mew=0)
        if math.isfinite(estimate.high):
            axes.hlines(
                row, estimate.low, min(estimate.high, edge), color=colours[0], linewidth=2.2
            )
            if estimate.high > edge:
                axes.plot(edge, row, ">", color=colours[0], markersize=6, clip_on=False)
        axes.plot(
            estimate.value, row, "o", markersize=8.5, color=colours[0], zorder=3, clip_on=False,
            markerfacecolor=colours[1] if two else colours[0], markeredgewidth=2.2 if two else 0.0,
        )  # fmt: skip
    axes.set_xlim(start, edge)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_yticks(range(len(lines)), names)
    lined_axes(axes, across=True)
    axes.tick_params(axis="y", length=0, pad=8)
    return any(end > edge for end in ends)
