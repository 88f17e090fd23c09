"""The matrix of distances as a picture: alike beside alike, runs kept together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import UsageError
from pivec.maps import group_order, leaf_order
from pivec.policies.paths import natural_key
from pivec.report.canvas import (
    INK,
    MUTED,
    add_heading,
    literal,
    new_figure,
    quiet_axes,
    save_png,
)
from pivec.report.colours import LONE_COLOUR, group_colours
from pivec.report.data import MapRows
from pivec.report.text import thousands, without_shared_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Path = str | os.PathLike[str]

# More rows than this are averaged in blocks: a picture has no room for more.
# At 50 dots an inch and its multiples a cell is then a whole number of dots, which packs well.
MAX_CELLS = 280
MAX_GROUP_LABELS = 30
# The tree of more rows takes too long for a picture.
MAX_LEAVES = 4000
MAX_ROW_LABELS = 40


def draw_distances(
    path: Path,
    distances: ArrayLike,
    rows: MapRows,
    *,
    title: str = "Distances between policies",
    subtitle: str | None = None,
) -> None:
    """Draw the matrix of distances as a PNG file of at most 300 kB.

    With groups, policies are sorted by group and training step, and groups that are alike come
    side by side; without, policies that are alike do (up to 4000; beyond, they stay as given).

    Parameters
    ----------
    path : path
    distances : (n, n) array
        In the order of ``rows``.
    rows : MapRows or ReportData
        Positions are not looked at.
    title, subtitle : str
        The subtitle says by default how many policies there are.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "distances.png"
    >>> rows = MapRows(
    ...     ["a", "b"], ["", ""], [None, None], np.zeros((2, 2)), np.array([0.0, 1.0]),
    ...     [10, 10], [500, 700], ["a.zip", "b.zip"], [False, False])
    >>> draw_distances(path, [[0.0, 1.0], [1.0, 0.0]], rows)
    >>> path.stat().st_size < 300_000
    True
    """
    save_png(distances_figure(distances, rows, title=title, subtitle=subtitle), path)


def distances_figure(
    distances: ArrayLike,
    rows: MapRows,
    *,
    title: str = "Distances between policies",
    subtitle: str | None = None,
) -> Figure:
    """Make the figure that `draw_distances` writes."""
    d = np.asarray(distances, dtype=np.float64)
    n, labels, groups = len(rows), rows.labels, rows.groups
    if d.shape != (n, n) or n == 0:
        raise UsageError(f"distances must have shape ({n}, {n}), one row a label, not {d.shape}.")
    grouped = has_groups(groups)
    if grouped:
        order = _grouped_order(d, groups, rows.steps)
    else:
        order = leaf_order(d) if n <= MAX_LEAVES else np.arange(n)
    blocks = sorted_blocks([groups[i] for i in order]) if grouped else []
    ticks: list[tuple[float, str]] = []
    if 0 < len(blocks) <= MAX_GROUP_LABELS:
        names = without_shared_folder([name for name, _, _ in blocks])
        ticks = [
            ((start + stop) / 2, name or "no run")
            for name, (_, start, stop) in zip(names, blocks, strict=True)
        ]
    elif not grouped and n <= MAX_ROW_LABELS:
        ticks = [(i + 0.5, labels[k]) for i, k in enumerate(order)]

    left = 0.46 + 0.08 * max((min(len(text), 30) for _, text in ticks), default=0)
    side, top, bottom, right = 5.6, _room_above(title, subtitle), 0.36, 1.16
    width, height = left + side + right, top + side + bottom
    figure = new_figure(width, height)
    policies = "policy" if n == 1 else "policies"
    add_heading(figure, title, f"{thousands(n)} {policies}" if subtitle is None else subtitle)
    axes = figure.add_axes((left / width, bottom / height, side / width, side / height))
    quiet_axes(axes)
    cells = averaged(d, order, MAX_CELLS)
    high = _upper_limit(cells)
    image = axes.imshow(
        cells, cmap="magma_r", vmin=0.0, vmax=high, extent=(0, n, n, 0), interpolation="nearest"
    )
    _mark_groups(axes, blocks, n)
    _label_rows(axes, ticks, pad=10 if grouped else 3)
    bar_axes = figure.add_axes(
        ((left + side + 0.2) / width, bottom / height, 0.14 / width, side / height)
    )
    beyond = float(cells.max()) > high
    bar = figure.colorbar(image, cax=bar_axes, extend="max" if beyond else "neither")
    bar.outline.set_visible(False)
    bar_axes.tick_params(length=2.5, width=0.6, labelsize=9, color=MUTED, labelcolor=MUTED)
    bar_axes.set_ylabel("distance", color=MUTED, fontsize=9.5)
    return figure


def _room_above(title: str, subtitle: str | None) -> float:
    if subtitle == "":
        return 0.66 if title else 0.30
    return 0.90


def averaged(matrix: Array, order: NDArray[np.intp], size: int) -> Array:
    """Sort rows and columns by ``order``, and average blocks down to at most ``size`` rows.

    Examples
    --------
    >>> averaged(np.arange(16.0).reshape(4, 4), np.arange(4), 2)
    array([[ 2.5,  4.5], [10.5, 12.5]])
    """
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


def sorted_blocks(groups: Sequence[str]) -> list[tuple[str, int, int]]:
    """Stretches of equal groups as (group, first row, row after the last).

    Examples
    --------
    >>> sorted_blocks(["a", "a", "b"])
    [('a', 0, 2), ('b', 2, 3)]
    """
    cuts = [i for i in range(len(groups)) if i == 0 or groups[i] != groups[i - 1]]
    return [(groups[a], a, b) for a, b in zip(cuts, [*cuts[1:], len(groups)], strict=True)]


def has_groups(groups: Sequence[str]) -> bool:
    """Tell whether groups cut the rows into pieces worth keeping together."""
    pieces = len({group for group in groups if group})
    return 1 <= pieces <= max(1, len(groups) / 1.5) and len(set(groups)) > 1


def _grouped_order(
    d: Array, groups: Sequence[str], steps: Sequence[int | None]
) -> NDArray[np.intp]:
    """Order by group and step, with groups of small mean distance side by side."""
    by_name = group_order(groups, steps)
    blocks = sorted_blocks([groups[i] for i in by_name])
    if len(blocks) > MAX_LEAVES:
        return by_name
    starts = np.array([start for _, start, _ in blocks])
    counts = np.array([stop - start for _, start, stop in blocks], dtype=np.float64)
    means = np.array(
        [
            np.add.reduceat(d[by_name[start:stop]].mean(axis=0)[by_name], starts) / counts
            for _, start, stop in blocks
        ]
    )
    pieces = [by_name[start:stop] for _, start, stop in blocks]
    return np.concatenate([pieces[k] for k in leaf_order((means + means.T) / 2)])


def _upper_limit(d: Array) -> float:
    """Take the largest distance, or the 99th percentile where a few are far beyond the rest."""
    others = d[~np.eye(len(d), dtype=bool)]
    if len(others) == 0 or others.max() == 0:
        return 1.0
    most = float(np.percentile(others, 99))
    return most if 0 < most < 0.5 * others.max() else float(others.max())


def _mark_groups(axes: Axes, blocks: list[tuple[str, int, int]], n: int) -> None:
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


def _label_rows(axes: Axes, ticks: list[tuple[float, str]], pad: float) -> None:
    axes.set_yticks([at for at, _ in ticks], [literal(text, 30) for _, text in ticks])
    size = float(np.clip(300.0 / max(1, len(ticks)), 6.0, 9.5))
    axes.tick_params(axis="y", length=0, pad=pad, labelsize=size, labelcolor=INK)
