"""The matrix of distances as a picture: alike beside alike, runs kept together; what is certain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.canvas import (
    INK,
    LONE_COLOUR,
    MUTED,
    add_heading,
    axes_at,
    group_colours,
    literal,
    new_figure,
    quiet_axes,
)
from pivec.distances import LEVEL
from pivec.distances.discoveries import RATE
from pivec.errors import UsageError
from pivec.maps import leaf_order
from pivec.policies.paths import natural_key
from pivec.report.data import PolicyRow, ReportData, in_order
from pivec.report.markup import picture, section
from pivec.report.sections.pairs import UNSURE, count_alike, pairs_tables
from pivec.text import percent, without_shared_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Block = tuple[str, int, int]

# More rows than this are averaged in blocks: a picture has no room for more.
# At 50 dots an inch and its multiples a cell is then a whole number of dots, which packs well.
MAX_CELLS = 280
MAX_GROUP_LABELS = 30
# The tree of more rows takes too long for a picture.
MAX_LEAVES = 4000
MAX_ROW_LABELS = 40
ALT = "Heatmap of the distances between all policies"


def distances_section(report: ReportData) -> str:
    """Show the matrix where there is one, the nearest and the farthest pairs."""
    measured = report.measured
    images = ""
    about = []
    if measured.estimates is not None:
        about.append("Light is near, dark is far.")
        about.append(
            "Policies of one group stand together, in order of training; groups that are alike are "
            "neighbours."
            if has_groups(report.rows)
            else "Policies that are alike are neighbours."
        )
        images = _pictures(report, measured.estimates)
    elif not len(measured.nearest):
        return ""
    if measured.n_known:
        about.append(
            f"Under each distance in the tables is its {percent(LEVEL)} interval, see "
            '<a href="#sure">how sure a distance is</a>. '
            f"{count_alike(report)} pairs {UNSURE} with these episodes."
        )
    return section(
        "distances",
        "Distances",
        f'<p class="about">{" ".join(about)}</p>',
        f'<div class="pair"><div>{images}</div><div>{pairs_tables(report)}</div></div>',
    )


def _pictures(report: ReportData, distances: Array) -> str:
    """Show the matrix, and where not all of it is certain, at choice what is."""
    figure = distances_figure(distances, report.rows)
    image = f'<img class="paper all" src="{picture(figure)}" alt="{ALT}">'
    certain = report.measured.certain
    if certain is None or certain.all():
        return image
    figure = distances_figure(distances, report.rows, certain=certain)
    return (
        '<input type="checkbox" id="certain" class="switch"><label class="tick" for="certain">'
        f"Only what is certain</label>{image}"
        f'<img class="paper sure" src="{picture(figure)}" alt="{ALT}; those that are not certain '
        'are hatched">'
    )


def distances_figure(
    distances: ArrayLike,
    rows: Sequence[PolicyRow],
    title: str = "",
    subtitle: str = "",
    certain: NDArray[np.bool_] | None = None,
) -> Figure:
    """Draw the matrix of distances, in the order of the rows.

    Cells that are not ``certain`` are hatched; of several policies in one cell, where most are not.

    With groups, policies are sorted by group and training step, and groups that are alike come
    side by side; without, policies that are alike do (up to 4000; beyond, they stay as given).
    """
    d = np.asarray(distances, dtype=np.float64)
    n = len(rows)
    if d.shape != (n, n) or n == 0:
        raise UsageError(
            f"distances must have shape ({n}, {n}), one row a label, but are {d.shape}"
        )
    if has_groups(rows):
        order = _grouped_order(d, rows)
        blocks = blocks_of([rows[i].group for i in order])
        ticks = _group_ticks(blocks)
    else:
        order = leaf_order(d) if n <= MAX_LEAVES else np.arange(n)
        blocks = []
        ticks = [(i + 0.5, rows[k].label) for i, k in enumerate(order) if n <= MAX_ROW_LABELS]

    left = 0.46 + 0.08 * max((min(len(text), 30) for _, text in ticks), default=0)
    side, bottom, right = 5.6, 0.36, 1.16
    top = 0.90 if subtitle else 0.66 if title else 0.30
    figure = new_figure(left + side + right, top + side + bottom)
    add_heading(figure, title, subtitle)
    axes = axes_at(figure, left, bottom, side, side)
    quiet_axes(axes)
    cells = averaged(d, order, MAX_CELLS)
    high = _upper_limit(cells)
    shown = cells
    if certain is not None and not certain.all():
        shown = np.ma.masked_where(averaged(certain.astype(float), order, MAX_CELLS) < 0.5, cells)
        _hatch(axes, figure, left)
    image = axes.imshow(
        shown, cmap="magma_r", vmin=0.0, vmax=high, extent=(0, n, n, 0), interpolation="nearest"
    )
    _mark_groups(axes, blocks, n)
    axes.set_yticks([at for at, _ in ticks], [literal(text, 30) for _, text in ticks])
    size = float(np.clip(300.0 / max(1, len(ticks)), 6.0, 9.5))
    axes.tick_params(axis="y", length=0, pad=10 if blocks else 3, labelsize=size, labelcolor=INK)
    bar_axes = axes_at(figure, left + side + 0.2, bottom, 0.14, side)
    beyond = float(cells.max()) > high
    bar = figure.colorbar(image, cax=bar_axes, extend="max" if beyond else "neither")
    bar.outline.set_visible(False)
    bar_axes.tick_params(length=2.5, width=0.6, labelsize=9, color=MUTED, labelcolor=MUTED)
    bar_axes.set_ylabel("distance", color=MUTED, fontsize=9.5)
    return figure


def _hatch(axes: Axes, figure: Figure, left: float) -> None:
    """Let what is behind the cells that are left out show that they are, and say what it means."""
    axes.patch.set(facecolor="#F3F5F7", edgecolor="#C4CBD2", hatch="////", linewidth=0.0)
    width, height = figure.get_size_inches()
    note = f"hatched: {UNSURE} (q > {RATE:g})"
    figure.text(left / width, 0.14 / height, note, fontsize=8.5, color=MUTED)


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


def blocks_of(groups: Sequence[str]) -> list[Block]:
    """Stretches of equal groups as (group, first row, row after the last).

    Examples
    --------
    >>> blocks_of(["a", "a", "b"])
    [('a', 0, 2), ('b', 2, 3)]
    """
    cuts = [i for i in range(len(groups)) if i == 0 or groups[i] != groups[i - 1]]
    return [(groups[a], a, b) for a, b in zip(cuts, [*cuts[1:], len(groups)], strict=True)]


def has_groups(rows: Sequence[PolicyRow]) -> bool:
    """Tell whether groups cut the rows into pieces worth keeping together."""
    groups = {row.group for row in rows}
    pieces = len(groups - {""})
    return 1 <= pieces <= max(1, len(rows) / 1.5) and len(groups) > 1


def _grouped_order(d: Array, rows: Sequence[PolicyRow]) -> NDArray[np.intp]:
    """Order by group and step, with groups of small mean distance side by side."""
    by_name = in_order(rows)
    blocks = blocks_of([rows[i].group for i in by_name])
    if len(blocks) > MAX_LEAVES:
        return by_name
    starts = np.array([start for _, start, _ in blocks])
    counts = np.array([stop - start for _, start, stop in blocks], dtype=np.float64)
    pieces = [by_name[start:stop] for _, start, stop in blocks]
    means = np.array(
        [np.add.reduceat(d[piece].mean(axis=0)[by_name], starts) / counts for piece in pieces]
    )
    return np.concatenate([pieces[k] for k in leaf_order((means + means.T) / 2)])


def _group_ticks(blocks: Sequence[Block]) -> list[tuple[float, str]]:
    """Name the groups while there is room."""
    if len(blocks) > MAX_GROUP_LABELS:
        return []
    names = without_shared_folder([name for name, _, _ in blocks])
    middles = [(start + stop) / 2 for _, start, stop in blocks]
    return [(middle, name or "no run") for middle, name in zip(middles, names, strict=True)]


def _upper_limit(d: Array) -> float:
    """Take the largest distance, or the 99th percentile where a few are far beyond the rest."""
    others = d[~np.eye(len(d), dtype=bool)]
    if len(others) == 0 or others.max() == 0:
        return 1.0
    most = float(np.percentile(others, 99))
    return most if 0 < most < 0.5 * others.max() else float(others.max())


def _mark_groups(axes: Axes, blocks: Sequence[Block], n: int) -> None:
    """Draw a coloured strip beside each group, and lines between groups while there is room."""
    from matplotlib.patches import Rectangle

    names = sorted({name for name, _, _ in blocks if name}, key=natural_key)
    colours = dict(zip(names, group_colours(len(names)), strict=True))
    for name, start, stop in blocks:
        if start and len(blocks) <= MAX_GROUP_LABELS:
            axes.axhline(start, color="white", linewidth=0.8)
            axes.axvline(start, color="white", linewidth=0.8)
        strip = Rectangle(
            (-0.018 * n, start),
            0.011 * n,
            stop - start,
            color=colours.get(name, LONE_COLOUR),
            linewidth=0,
            clip_on=False,
        )
        axes.add_patch(strip)
