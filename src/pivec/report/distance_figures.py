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
    MUTED,
    add_heading,
    add_key,
    add_panel_title,
    axes_at,
    group_colours,
    lined_axes,
    literals,
    new_figure,
    quiet_axes,
)
from pivec.policies import natural_key
from pivec.report.findings import UNSURE, Findings, PolicyTable
from pivec.report.groups import GroupComparison, permanova_sentence
from pivec.report.layout import blocks_of, has_groups, heatmap_order
from pivec.statistics import RATE, Estimate, Travel
from pivec.text import rounded, without_shared_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Block = tuple[str, int, int]  # a group, its first row, the row after its last

MAX_GROUP_LABELS = 30
MAX_ROW_LABELS = 40
MAX_NUMBERED_CELLS = 60  # up to here a cell is as high as the number of its behaviour class
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
    return matrix_figure(matrix, policies, order, title, subtitle, measured.certain)


def matrix_figure(
    distances: ArrayLike,
    policies: PolicyTable,
    order: NDArray[np.intp],
    title: str = "",
    subtitle: str = "",
    certain: NDArray[np.bool_] | None = None,
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
            names = without_shared_folder([name for name, _, _ in blocks])
            middles = [(start + stop) / 2 for _, start, stop in blocks]
            ticks = [(at, name or "no run") for at, name in zip(middles, names, strict=True)]
    elif n <= MAX_ROW_LABELS:
        ticks = [(i + 0.5, row.label) for i, row in enumerate(ordered)]

    left = 0.46 + 0.08 * max((min(len(text), 30) for _, text in ticks), default=0)
    classes = policies.class_colours if policies.classes_differ else {}
    side, bottom, right = 5.6, 0.54, 1.34 if classes else 1.16
    top = 0.90 if subtitle else 0.66 if title else 0.30
    figure = new_figure(left + side + right, top + side + bottom)
    add_heading(figure, title, subtitle)
    axes = axes_at(figure, left, bottom, side, side)
    quiet_axes(axes)
    cells = averaged(d, order, MAX_CELLS)
    high = _upper_limit(cells)
    shown = cells
    hatched = n <= MAX_HATCHED
    if certain is not None and not certain.all():
        shown = np.ma.masked_where(averaged(certain.astype(float), order, MAX_CELLS) < 0.5, cells)
        if hatched:
            axes.patch.set(facecolor="#F3F5F7", edgecolor="#C4CBD2", hatch="////", linewidth=0.0)
    image = axes.imshow(
        shown, cmap="magma_r", vmin=0.0, vmax=high, extent=(0, n, n, 0), interpolation="nearest"
    )
    _mark_groups(axes, blocks, n)
    axes.set_yticks([at for at, _ in ticks], literals([text for _, text in ticks], 30))
    size = float(np.clip(300.0 / max(1, len(ticks)), 6.0, 9.5))
    axes.tick_params(axis="y", length=0, pad=10 if blocks else 3, labelsize=size, labelcolor=INK)
    if classes:
        _mark_classes(axes, [row.behaviour for row in ordered], classes)
    beyond = float(cells.max()) > high
    bar_axes = axes_at(figure, left + side + right - 0.96, bottom, 0.14, side)
    bar = figure.colorbar(image, cax=bar_axes, extend="max" if beyond else "neither")
    bar.outline.set_visible(False)
    bar_axes.tick_params(length=2.5, width=0.6, labelsize=9, color=MUTED, labelcolor=MUTED)
    bar_axes.set_ylabel("distance", color=MUTED, fontsize=9.5)
    signs = {
        f"{'hatched' if hatched else 'white'}: {UNSURE} (q > {RATE:g})": shown is not cells,
        "the uncertainty of distances is not shown": certain is None and n > 1,
        "right: classes of policies that behave alike": bool(classes),
        f"the scale omits the largest 1 %, up to {rounded(cells.max(), 3)}": beyond,
        f"each cell is the mean of about {rounded((n / MAX_CELLS) ** 2, 2)} pairs": n > MAX_CELLS,
    }
    notes = [note for note, there in signs.items() if there]
    width, height = figure.get_size_inches()
    for note, up in zip((*notes[:1], " · ".join(notes[1:])), (0.32, 0.12), strict=False):
        figure.text(left / width, up / height, note, fontsize=8.5, color=MUTED)
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


def _mark_groups(axes: Axes, blocks: Sequence[Block], n: int) -> None:
    """Draw a coloured strip next to each group, and lines between groups if there is room."""
    from matplotlib.patches import Rectangle

    names = sorted({name for name, _, _ in blocks if name}, key=natural_key)
    colours = dict(zip(names, group_colours(len(names)), strict=True))
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
            looks: dict[str, Any] = {"va": "center", "fontsize": 7.5, "color": INK}
            axes.text(1.034 * n, (start + stop) / 2, name, **looks)
        if stop - start > 1:
            square = (start, start), stop - start, stop - start
            axes.add_patch(Rectangle(*square, fill=False, edgecolor=INK, linewidth=0.9, zorder=3))


# With more lines than this, names at their ends would cover each other.
MAX_RUNS = 24
MAX_RUN_NAMES = 5  # that fit in one line under the heading


def travel_figure(runs: Sequence[Travel], colours: Mapping[str, str], subtitle: str = "") -> Figure:
    """Draw the distance travelled by training step, one line per run, at most `MAX_RUNS`."""
    shown = sorted(runs, key=lambda run: -run.total)[:MAX_RUNS]
    figure = new_figure(8.0, 4.9)
    add_heading(figure, "Distance travelled", subtitle)
    axes = axes_at(figure, 0.72, 0.6, 7.0, 3.2)
    lined_axes(axes)
    names = literals(without_shared_folder([run.group for run in shown]), 30)
    for run, name in zip(shown, names, strict=True):
        colour = colours.get(run.group, LONE_COLOUR)
        axes.plot(run.steps, run.cumulative, "o-", color=colour, ms=3.5, label=name)
        axes.fill_between(run.steps, *travel_band(run), color=colour, alpha=0.15, linewidth=0)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("training step", color=MUTED)
    axes.set_ylabel("sum of distances", color=MUTED)
    if len(shown) <= MAX_RUN_NAMES:
        add_key(figure, axes.get_lines())
    return figure


def travel_band(run: Travel) -> tuple[Array, Array]:
    """Ends of the interval of the distance travelled at each checkpoint."""
    half = 0.0 if run.half_widths is None else run.half_widths
    return np.maximum(run.cumulative - half, 0.0), run.cumulative + half


# A line of a panel: its name, its colours (one for a group, two for a pair), numbers, small dots.
Line = tuple[str, Sequence[str], Estimate, Sequence[float]]
MAX_GROUP_LINES = 30
ROW, PANEL, GAP = 0.46, 4.2, 0.35


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

    distances: list[Line] = [
        (f"within {g.name}", [colours[g.name]], g.distance, apart(g.name, g.name))
        for g in result.groups
        if len(g.runs) > 1
    ]
    distances += [
        (" – ".join(p.groups), [colours[name] for name in p.groups], p.distance, apart(*p.groups))
        for p in result.pairs
    ]
    distances = distances[:MAX_GROUP_LINES]
    diverse: list[Line] = [
        (g.name, [colours[g.name]], g.behaviours, []) for g in result.groups[:MAX_GROUP_LINES]
    ]
    lefts = [
        0.42 + 0.082 * max(min(len(name), 34) for name, *_ in lines)
        for lines in (distances, diverse)
    ]
    top, bottom = 1.35, 0.62
    height = top + bottom + ROW * max(2, len(distances))
    figure = new_figure(sum(lefts) + 2 * PANEL + GAP, height)
    heading = f"Groups of runs in {environment}" if environment else "Groups of runs"
    add_heading(figure, heading, permanova_sentence(result.test))
    for k, (lines, title, subtitle, label) in enumerate(
        (
            (distances, "Distance between runs", "dots are pairs of runs", "distance"),
            (diverse, "Diversity", "effective number of behaviours", "behaviours"),
        )
    ):
        tall = ROW * max(2, len(lines))
        left = sum(lefts[: k + 1]) + k * PANEL
        axes = axes_at(figure, left, height - top - tall, PANEL, tall)
        _draw_groups(axes, lines, 1.0 if k else 0.0)
        add_panel_title(axes, title, subtitle)
        axes.set_xlabel(label, fontsize=9.5, color=MUTED)
    return figure


def _draw_groups(axes: Axes, lines: Sequence[Line], start: float) -> None:
    """Draw one line per group or pair, from top to bottom."""
    known = [x for _, _, e, dots in lines for x in (e.value, *dots) if math.isfinite(x)]
    most = max([start, *known])
    ends = [e.high for _, _, e, _ in lines if math.isfinite(e.high)]
    # Three runs give intervals beside which nothing else in the picture could be seen.
    edge = min(max([most, *ends]), start + 2.2 * (most - start)) * 1.04 or 1.0
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
    axes.set_ylim(max(2, len(lines)) - 0.5, -0.5)
    axes.set_yticks(range(len(lines)), literals([name for name, *_ in lines], 34))
    lined_axes(axes, 9, across=True)
    axes.tick_params(axis="y", length=0, labelsize=10, pad=8)
