"""One panel of the map: its points, the lines along runs, and the scale or legend below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.canvas import (
    HAIRLINE,
    INK,
    LONE_COLOUR,
    MUTED,
    REFERENCE_COLOUR,
    literal,
    quiet_axes,
)
from pivec.report.data import PolicyRow, colours_of_groups, compared, training_runs
from pivec.text import short_number, thousands, without_shared_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
Joins = Sequence[Sequence[int]]  # pairs of rows


class Colouring(NamedTuple):
    """What points are coloured by: names, or numbers along a scale."""

    title: str
    value: Callable[[PolicyRow], Any]
    scale: str = ""  # of matplotlib
    end: float = 1.0  # the part of it that can be seen on white
    unknown: str = ""


COLOURINGS = {
    "return": Colouring(
        "Mean return", lambda row: row.mean_return, "viridis", unknown="no return known"
    ),
    "group": Colouring("Group", lambda row: row.group),
    "step": Colouring(
        "Training step", lambda row: row.step, "plasma", 0.9, unknown="no training step"
    ),
}
# Entries of the legend of groups; the rest is counted.
KEY_ROWS = 5
LEGEND_ENTRIES = 3 * KEY_ROWS
# With more runs than this their lines would cover the points.
MAX_LINES = 400
MAX_ARROWS = 40
MAX_RINGS = 16
# More points than this are drawn with hard edges, for the sake of the size of the file.
CROWD = 3000


def draw_panel(
    axes: Axes, key: Axes, rows: Sequence[PolicyRow], colour: str, joins: Joins = ()
) -> None:
    """Draw the map, coloured by return, group or step."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap, to_rgba_array

    of_group = colours_of_groups(rows)
    places = np.array([(row.x, row.y) for row in rows])
    size = float(np.clip(7000.0 / len(rows), 2.5, 58.0))
    quiet_axes(axes)
    quiet_axes(key, frame=False)
    key.set_xlim(0, 1)
    key.set_ylim(0, 1)
    key.patch.set_visible(False)
    _set_limits(axes, places)
    _draw_joins(axes, places, joins)
    _draw_runs(axes, rows, places, of_group if colour == "group" else None, size)
    values = np.zeros(len(rows))
    if colour == "group":
        paints = to_rgba_array([of_group.get(row.group, LONE_COLOUR) for row in rows])
        _draw_group_key(key, rows, of_group)
    else:
        _, value, name, end, _ = COLOURINGS[colour]
        values = np.array([np.nan if row.reference else value(row) for row in rows], np.float64)
        values[~np.isfinite(values)] = np.nan
        # In few steps for a crowd, which packs well.
        steps = np.linspace(0.0, end, 256 if len(rows) <= CROWD else 20)
        scale = ListedColormap(colormaps[name](steps))
        low, high = _value_range(values)
        paints = scale((values - low) / (high - low))
        _draw_scale(key, scale, (low, high), colour)
        key.text(0.0, 0.02, _note(rows, values, colour, joins), fontsize=8.5, color=MUTED)
    _draw_points(axes, rows, places, values, paints, size, best_on_top=colour == "return")


def _draw_points(
    axes: Axes,
    rows: Sequence[PolicyRow],
    places: Array,
    values: Array,
    paints: Array,
    size: float,
    best_on_top: bool,
) -> None:
    reference = np.array([row.reference for row in rows])
    has_step = np.array([row.step is not None for row in rows])

    def scatter(which: NDArray[Any], **looks: Any) -> None:
        if len(places[which]):
            axes.scatter(*places[which].T, **looks)

    scatter(reference, s=0.45 * size, c=REFERENCE_COLOUR, linewidths=0)
    for shape, part, scale in (
        ("o", has_step & ~reference, 1.0),
        ("D", ~has_step & ~reference, 0.8),
    ):
        # Without training steps everywhere the two shapes would say nothing.
        marker = shape if has_step[~reference].any() else "o"
        looks: dict[str, Any] = {"s": scale * size, "marker": marker, "zorder": 3}
        scatter(
            part & np.isnan(values),
            facecolors="white",
            edgecolors=LONE_COLOUR,
            linewidths=0.8,
            **looks,
        )
        known = np.flatnonzero(part & ~np.isnan(values))
        if best_on_top:
            known = known[np.argsort(values[known], kind="stable")]
        scatter(
            known,
            c=paints[known],
            edgecolors="white",
            linewidths=0.7 if size > 20 else 0.0,
            antialiased=len(rows) <= CROWD,
            **looks,
        )


def _value_range(values: Array) -> tuple[float, float]:
    known = values[~np.isnan(values)]
    if len(known) == 0:
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _set_limits(axes: Axes, places: Array) -> None:
    """Show all points in a square with the same scale on both axes."""
    low, high = places.min(axis=0), places.max(axis=0)
    middle = (low + high) / 2
    half = float(max((high - low).max() / 2, 1e-9)) * 1.09
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
    axes.set_aspect("equal")


def _draw_joins(axes: Axes, places: Array, joins: Joins) -> None:
    """Join policies that cannot be told apart by pale bands, which lines along runs do not hide."""
    from matplotlib.collections import LineCollection

    if len(joins):
        lines = LineCollection(
            list(places[np.asarray(joins)]),
            colors=HAIRLINE,
            linewidths=4.0,
            zorder=1.5,
            capstyle="round",
        )
        axes.add_collection(lines, autolim=False)


def _draw_runs(
    axes: Axes,
    rows: Sequence[PolicyRow],
    places: Array,
    of_group: dict[str, str] | None,
    size: float,
) -> None:
    """Join the checkpoints of each run: a ring at the first, an arrow head at the last."""
    from matplotlib.collections import LineCollection

    runs = training_runs(rows)
    if not runs or len(runs) > MAX_LINES:
        return
    few = len(runs) <= MAX_ARROWS
    lines = [places[numbers] for numbers in runs.values()]
    colours = [of_group[name] if of_group else "#8C959F" for name in runs]
    axes.add_collection(
        LineCollection(
            lines,
            colors=colours,
            linewidths=1.0 if few else 0.5,
            alpha=0.65 if few else 0.3,
            zorder=2,
            capstyle="round",
        ),
        autolim=False,
    )
    for line, colour in zip(lines, colours, strict=True):
        moved = np.flatnonzero(np.linalg.norm(np.diff(line, axis=0), axis=1) > 0)
        if not few or len(moved) == 0:
            continue
        axes.annotate(
            "",
            xy=tuple(line[-1]),
            xytext=tuple(line[moved[-1]]),
            arrowprops={
                "arrowstyle": "-|>,head_length=0.55,head_width=0.24",
                "color": colour if of_group else INK,
                "linewidth": 0,
                "shrinkA": 0,
                "shrinkB": np.sqrt(size) / 2 + 0.5,
            },
            zorder=4,
        )
    if len(runs) <= MAX_RINGS:
        starts = np.array([line[0] for line in lines])
        looks: dict[str, Any] = {"facecolors": "none", "edgecolors": INK, "linewidths": 0.8}
        axes.scatter(starts[:, 0], starts[:, 1], size * 2.2, zorder=4, **looks)


def _draw_scale(key: Axes, scale: Any, ends: tuple[float, float], colour: str) -> None:
    """Draw a horizontal colour bar with a few ticks."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    bar = key.inset_axes((0.0, 0.68, 1.0, 0.17))
    bar.imshow(
        np.linspace(0, 1, 256)[None, :],
        aspect="auto",
        cmap=scale,
        extent=(*ends, 0, 1),
    )
    bar.set_yticks([])
    bar.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    if colour == "step":
        bar.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    bar.tick_params(length=2.5, width=0.6, labelsize=9, color=MUTED, labelcolor=MUTED, pad=2)
    for spine in bar.spines.values():
        spine.set_visible(False)


def _note(rows: Sequence[PolicyRow], values: Array, colour: str, joins: Joins) -> str:
    """Say what the signs on the map mean, as far as they are there."""
    own = [not row.reference for row in rows]
    n_runs = len(training_runs(rows)) if colour == "return" else 0
    signs = {
        "ring: first checkpoint": 0 < n_runs <= MAX_RINGS,
        "arrow: the last": 0 < n_runs <= MAX_ARROWS,
        f"hollow: {COLOURINGS[colour].unknown}": np.isnan(values[own]).any(),
        "pale band: cannot be told apart": len(joins) > 0,
    }
    return " · ".join(sign for sign, there in signs.items() if there)


def _draw_group_key(key: Axes, rows: Sequence[PolicyRow], of_group: dict[str, str]) -> None:
    """Draw a legend of groups in columns; groups that do not fit are counted."""
    own = compared(rows)
    others = []
    if any(not row.group for row in own):
        with_steps = any(row.step is not None for row in own)
        others.append(("no run", LONE_COLOUR, "D" if with_steps else "o"))
    if len(own) < len(rows):
        others.append(("reference", REFERENCE_COLOUR, "o"))
    names = without_shared_folder(list(of_group))
    entries = [(name, paint, "o") for name, paint in zip(names, of_group.values(), strict=True)]
    room = LEGEND_ENTRIES - len(others)
    if len(entries) > room:
        entries[room - 1 :] = [(f"… and {thousands(len(names) - room + 1)} more", "none", "o")]
    entries += others
    short = all(len(label) <= 18 for label, _, _ in entries)
    columns, in_column = 3, KEY_ROWS
    if len(entries) <= 2 * KEY_ROWS and not short:
        columns, in_column = 2, -(-len(entries) // 2)
    for k, (label, paint, marker) in enumerate(entries):
        column, line = divmod(k, in_column)
        x, y = column / columns, 0.90 - 0.205 * line
        key.scatter([x + 0.014], [y], s=34, marker=marker, c=paint, linewidths=0)
        key.text(
            x + (0.04 if paint != "none" else 0.0),
            y - 0.008,
            literal(label, 18 if columns == 3 else 30),
            va="center",
            fontsize=8.8,
            color=INK,
        )
