"""The matrix of distances as a picture: alike beside alike, runs kept together; what is certain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.characterizations import Space
from pivec.errors import UsageError
from pivec.figures import (
    INK,
    LONE_COLOUR,
    MUTED,
    add_heading,
    axes_at,
    group_colours,
    literals,
    new_figure,
    quiet_axes,
)
from pivec.policies import natural_key
from pivec.report.findings import PolicyRow, ReportData, in_order, policy_rows
from pivec.report.map_figure import class_colours, classes_differ
from pivec.report.markup import filled, picture, section
from pivec.report.order import leaf_order
from pivec.report.pairs_section import UNSURE, count_alike, pairs_tables
from pivec.report.tables import words_of_file
from pivec.statistics import RATE, Measured
from pivec.statistics.measure import LEVEL
from pivec.text import percent, rounded, without_shared_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# -----------------------------------------------------------------------------
# Signs around the matrix of distances: groups, behaviour classes, and what signs mean.


Block = tuple[str, int, int]

MAX_GROUP_LABELS = 30
# The strip of classes has their numbers while a cell is as high as a digit.
MAX_NUMBERED_CELLS = 60


def blocks_of(groups: Sequence[str]) -> list[Block]:
    """Stretches of equal groups as (group, first row, row after the last).

    Examples
    --------
    >>> blocks_of(["a", "a", "b"])
    [('a', 0, 2), ('b', 2, 3)]
    """
    cuts = [i for i in range(len(groups)) if i == 0 or groups[i] != groups[i - 1]]
    return [(groups[a], a, b) for a, b in zip(cuts, [*cuts[1:], len(groups)], strict=True)]


def mark_groups(axes: Axes, blocks: Sequence[Block], n: int) -> None:
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


def write_notes(figure: Figure, left: float, notes: Sequence[str]) -> None:
    """Say what signs mean: the first note above, the others below it."""
    width, height = figure.get_size_inches()
    for note, up in zip((*notes[:1], " · ".join(notes[1:])), (0.32, 0.12), strict=False):
        figure.text(left / width, up / height, note, fontsize=8.5, color=MUTED)


def mark_classes(axes: Axes, numbers: Sequence[int | None], colours: dict[int, str]) -> None:
    """Draw a strip of behaviour classes at the right, and frames around neighbours of a class."""
    from matplotlib.patches import Rectangle

    n = len(numbers)
    looks: dict[str, Any] = {"clip_on": False, "linewidth": 0}
    for name, start, stop in blocks_of([str(number) for number in numbers]):
        number = numbers[start]
        if number not in colours:
            continue
        colour = colours[number]
        strip = (1.012 * n, start), 0.016 * n, stop - start
        axes.add_patch(Rectangle(*strip, color=colour, **looks))
        if colour != LONE_COLOUR and n <= MAX_NUMBERED_CELLS:
            words: dict[str, Any] = {"va": "center", "fontsize": 7.5, "color": INK}
            axes.text(1.034 * n, (start + stop) / 2, name, **words)
        if stop - start > 1:
            square = (start, start), stop - start, stop - start
            axes.add_patch(Rectangle(*square, fill=False, edgecolor=INK, linewidth=0.9, zorder=3))


Array = NDArray[np.float64]

# More rows than this are averaged in blocks: a picture has no room for more.
# At 50 dots an inch and its multiples a cell is then a whole number of dots, which packs well.
MAX_CELLS = 280
# Of more policies than have a matrix, so many are shown.
MAX_SHOWN = 5 * MAX_CELLS
# The tree of more rows takes too long for a picture.
MAX_LEAVES = 4000
MAX_ROW_LABELS = 40
# In smaller cells a hatch would not be seen.
MAX_HATCHED = 100
ALT = "Heatmap of the distances between all policies"


def matrix_figure(space: Space, measured: Measured, subtitle: str = "") -> Figure:
    """Draw the matrix of a space; of more policies than have one, that of 1 in so many."""
    rows, matrix = policy_rows(space, measured), measured.estimates
    if matrix is None:
        k = -(-len(rows) // MAX_SHOWN)
        shown = in_order(rows)[::k]
        matrix = space.method.distances(space.descriptions.select(shown))
        rows = [rows[i] for i in shown]
        subtitle += f" · 1 in {k} is shown, by group and training step"
    return distances_figure(matrix, rows, "Distances between policies", subtitle, measured.certain)


def distances_figure(
    distances: ArrayLike,
    rows: Sequence[PolicyRow],
    title: str = "",
    subtitle: str = "",
    certain: NDArray[np.bool_] | None = None,
) -> Figure:
    """Draw the matrix of distances, in the order of the rows.

    Cells that are not ``certain`` are hatched, small ones white; of several policies in one cell,
    where most are not. A strip at the right has the colours of behaviour classes, as on the map;
    frames on the diagonal are around neighbours of one class.

    With groups, policies are sorted by group and training step, and groups that are alike come
    side by side; without, policies that are alike do (up to 4000; beyond, they stay as given).
    """
    d = np.asarray(distances, dtype=np.float64)
    n = len(rows)
    if d.shape != (n, n) or n == 0:
        raise UsageError(
            f"distances must have shape ({n}, {n}), one row a label, but are {d.shape}"
        )
    order = heatmap_order(d, rows)
    if has_groups(rows):
        blocks = blocks_of([rows[i].group for i in order])
        ticks = _group_ticks(blocks)
    else:
        blocks = []
        ticks = [(i + 0.5, rows[k].label) for i, k in enumerate(order) if n <= MAX_ROW_LABELS]

    left = 0.46 + 0.08 * max((min(len(text), 30) for _, text in ticks), default=0)
    classes = class_colours(rows) if classes_differ(rows) else {}
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
    mark_groups(axes, blocks, n)
    axes.set_yticks([at for at, _ in ticks], literals([text for _, text in ticks], 30))
    size = float(np.clip(300.0 / max(1, len(ticks)), 6.0, 9.5))
    axes.tick_params(axis="y", length=0, pad=10 if blocks else 3, labelsize=size, labelcolor=INK)
    if classes:
        mark_classes(axes, [rows[i].behaviour for i in order], classes)
    beyond = float(cells.max()) > high
    bar_axes = axes_at(figure, left + side + right - 0.96, bottom, 0.14, side)
    _draw_bar(figure, bar_axes, image, beyond)
    notes = {
        f"{'hatched' if hatched else 'white'}: {UNSURE} (q > {RATE:g})": shown is not cells,
        "how certain distances are is not shown": certain is None and n > 1,
        "right: classes of policies that cannot be told apart": bool(classes),
        f"the scale leaves out the largest 1 %, up to {rounded(cells.max(), 3)}": beyond,
        f"each cell is the mean of about {rounded((n / MAX_CELLS) ** 2, 2)} pairs": n > MAX_CELLS,
    }
    write_notes(figure, left, [note for note, there in notes.items() if there])
    return figure


def _draw_bar(figure: Figure, bar_axes: Axes, image: Any, beyond: bool) -> None:
    """Draw the scale of distances; an arrow at its end says that some are larger."""
    bar = figure.colorbar(image, cax=bar_axes, extend="max" if beyond else "neither")
    bar.outline.set_visible(False)
    bar_axes.tick_params(length=2.5, width=0.6, labelsize=9, color=MUTED, labelcolor=MUTED)
    bar_axes.set_ylabel("distance", color=MUTED, fontsize=9.5)


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


def has_groups(rows: Sequence[PolicyRow]) -> bool:
    """Tell whether groups cut the rows into pieces worth keeping together."""
    groups = {row.group for row in rows}
    pieces = len(groups - {""})
    return 1 <= pieces <= max(1, len(rows) / 1.5) and len(groups) > 1


def heatmap_order(d: Array | None, rows: Sequence[PolicyRow]) -> NDArray[np.intp]:
    """Put alike beside alike, runs kept together; without distances by run and step."""
    if d is None:
        return in_order(rows)
    if has_groups(rows):
        return _grouped_order(d, rows)
    return leaf_order(d) if len(rows) <= MAX_LEAVES else np.arange(len(rows))


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


# -----------------------------------------------------------------------------
# Distances on the page: a heatmap that the script measures, a picture without it, and pairs.


SWITCH = '<label class="tick"><input type="checkbox" id="certain"> Only what is certain</label>'
TOO_MANY = (
    '<p class="note print-only">There are too many policies for a picture of all distances; '
    "distances.png shows some of them.</p>"
    "<noscript><p>With scripts allowed, this page measures distances itself.</p></noscript>"
)


def distances_section(report: ReportData) -> str:
    """Show distances as a heatmap, and the nearest and the farthest pairs."""
    measured = report.measured
    if len(report.rows) < 2:
        return ""
    about = ["What is near fades into the page, what is far stands out."]
    if not has_groups(report.rows):
        about.append("Policies that are alike are neighbours.")
    elif measured.estimates is not None:
        about.append(
            "Policies of one run stand together, in order of training; runs that are alike are "
            "neighbours."
        )
    else:
        about.append("Policies of one run stand together, in order of training.")
    if measured.n_known:
        about.append(
            f"Under each distance in the tables is its {percent(LEVEL)} interval, see "
            '<a href="#sure">how sure a distance is</a>. '
            f"{count_alike(report)} pairs {UNSURE} with these episodes."
        )
    if words := words_of_file(measured):
        about.append(f"The file {words}.")
    parts = {"switch": SWITCH if measured.n_known else "", "picture": _picture(report)}
    tables = pairs_tables(report)
    return section(
        "distances",
        "Distances",
        f'<p class="about">{" ".join(about)}</p>',
        f'<div class="pair"><div>{filled("heatmap.html", parts)}</div><div>{tables}</div></div>',
    )


def _picture(report: ReportData) -> str:
    """Make the picture that paper and a page without its script show."""
    measured = report.measured
    if measured.estimates is None:
        return TOO_MANY
    figure = distances_figure(measured.estimates, report.rows, certain=measured.certain)
    return f'<img class="paper" id="heat-static" src="{picture(figure)}" alt="{ALT}">'
