"""The matrix of distances as a picture: alike beside alike, runs kept together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import UsageError
from pivec.maps import group_order, leaf_order
from pivec.report.canvas import (
    HAIRLINE,
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Rectangle

Array = NDArray[np.float64]
Path = str | os.PathLike[str]

# More rows than this are averaged in blocks: a picture has no room for more.
MAX_CELLS = 400
MAX_GROUP_LABELS = 30
MAX_ROW_LABELS = 40


def draw_distances(
    path: Path,
    distances: ArrayLike,
    rows: MapRows,
    *,
    title: str = "Distances between policies",
    subtitle: str = "",
) -> None:
    """Draw the matrix of distances as a PNG file of at most 300 kB.

    With groups, policies are sorted by group and training step, and groups that are alike come
    side by side; without, policies that are alike do.

    Parameters
    ----------
    path : path
    distances : (n, n) array
        In the order of ``rows``.
    rows : MapRows
    title, subtitle : str

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
    from matplotlib import colormaps

    d = np.asarray(distances, dtype=np.float64)
    n = len(rows)
    if d.shape != (n, n) or n == 0:
        raise UsageError(f"distances must have shape ({n}, {n}), one row a policy, not {d.shape}.")
    grouped = _has_groups(rows)
    order = _grouped_order(d, rows) if grouped else leaf_order(d)
    d = d[np.ix_(order, order)]
    blocks = sorted_blocks([rows.groups[i] for i in order]) if grouped else []
    names = [] if grouped or n > MAX_ROW_LABELS else [rows.labels[i] for i in order]
    if 0 < len(blocks) <= MAX_GROUP_LABELS:
        names = [name for name, _, _ in blocks]

    longest = max((min(len(name), 30) for name in names), default=0)
    left = 0.45 + 0.075 * longest
    side, top, bottom, right = 5.6, 0.90 if subtitle else 0.65, 0.35, 1.15
    width, height = left + side + right, top + side + bottom
    figure = new_figure(width, height)
    add_heading(figure, title, subtitle)
    axes = figure.add_axes((left / width, bottom / height, side / width, side / height))
    quiet_axes(axes)
    high = _upper_limit(d)
    image = axes.imshow(
        averaged(d, MAX_CELLS),
        cmap=colormaps["magma_r"],
        vmin=0.0,
        vmax=high,
        extent=(0, n, n, 0),
        interpolation="nearest",
    )
    if blocks:
        names_in_order = rows.group_names()
        colours = dict(zip(names_in_order, group_colours(len(names_in_order)), strict=True))
        for name, start, stop in blocks:
            if start and len(blocks) <= 60:
                for line in (axes.axhline, axes.axvline):
                    line(start, color="white", linewidth=0.9)
            axes.add_patch(_strip(start, stop, n, colours.get(name, LONE_COLOUR)))
        if names:
            _label_rows(axes, [((a + b) / 2, name or "no run") for name, a, b in blocks], pad=10)
    elif names:
        _label_rows(axes, [(i + 0.5, name) for i, name in enumerate(names)], pad=3)

    bar_axes = figure.add_axes(
        ((left + side + 0.2) / width, bottom / height, 0.14 / width, side / height)
    )
    bar = figure.colorbar(image, cax=bar_axes, extend="max" if d.max() > high else "neither")
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar_axes.tick_params(length=2.5, width=0.6, labelsize=9, color=MUTED, labelcolor=MUTED)
    bar_axes.set_ylabel("distance", color=MUTED, fontsize=9.5)
    save_png(figure, path)


def averaged(matrix: Array, size: int) -> Array:
    """Average a square matrix in equal blocks, down to at most ``size`` rows.

    Examples
    --------
    >>> averaged(np.arange(16.0).reshape(4, 4), 2)
    array([[ 2.5,  4.5], [10.5, 12.5]])
    """
    n = len(matrix)
    if n <= size:
        return matrix
    edges = np.arange(size) * n // size
    counts = np.diff(np.append(edges, n)).astype(np.float64)
    sums = np.add.reduceat(np.add.reduceat(matrix, edges, axis=0), edges, axis=1)
    return np.asarray(sums / np.outer(counts, counts))


def sorted_blocks(groups: Sequence[str]) -> list[tuple[str, int, int]]:
    """Stretches of equal groups as (group, first row, row after the last).

    Examples
    --------
    >>> sorted_blocks(["a", "a", "b"])
    [('a', 0, 2), ('b', 2, 3)]
    """
    cuts = [i for i in range(len(groups)) if i == 0 or groups[i] != groups[i - 1]]
    return [(groups[a], a, b) for a, b in zip(cuts, [*cuts[1:], len(groups)], strict=True)]


def _has_groups(rows: MapRows) -> bool:
    """Tell whether groups cut the rows into pieces worth keeping together."""
    pieces = len({group for group in rows.groups if group})
    return 1 <= pieces <= max(1, len(rows) / 1.5) and len(set(rows.groups)) > 1


def _grouped_order(d: Array, rows: MapRows) -> NDArray[np.intp]:
    """Order by group and step, with groups of small mean distance side by side."""
    by_name = group_order(rows.groups, rows.steps)
    blocks = sorted_blocks([rows.groups[i] for i in by_name])
    starts = np.array([start for _, start, _ in blocks])
    counts = np.array([stop - start for _, start, stop in blocks], dtype=np.float64)
    sums = np.add.reduceat(d[np.ix_(by_name, by_name)], starts, axis=0)
    means = np.add.reduceat(sums, starts, axis=1) / np.outer(counts, counts)
    pieces = [by_name[start:stop] for _, start, stop in blocks]
    return np.concatenate([pieces[k] for k in leaf_order((means + means.T) / 2)])


def _upper_limit(d: Array) -> float:
    """The largest distance, or the 99th percentile where a few are far beyond the rest."""
    others = d[~np.eye(len(d), dtype=bool)]
    if len(others) == 0 or others.max() == 0:
        return 1.0
    most = float(np.percentile(others, 99))
    return most if 0 < most < 0.5 * others.max() else float(others.max())


def _strip(start: int, stop: int, n: int, colour: str) -> Rectangle:
    from matplotlib import patches

    return patches.Rectangle(
        (-0.018 * n, start), 0.011 * n, stop - start, color=colour, linewidth=0, clip_on=False
    )


def _label_rows(axes: Axes, labels: list[tuple[float, str]], pad: float) -> None:
    axes.set_yticks([at for at, _ in labels], [literal(text, 30) for _, text in labels])
    size = float(np.clip(300.0 / max(1, len(labels)), 6.0, 9.5))
    axes.tick_params(axis="y", length=0, pad=pad, labelsize=size, labelcolor=INK, color=HAIRLINE)
