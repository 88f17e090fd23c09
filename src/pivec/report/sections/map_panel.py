"""One panel of the map: its points or, of a crowd, its spots, and the lines between policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.canvas import HAIRLINE, INK, LONE_COLOUR, REFERENCE_COLOUR, quiet_axes
from pivec.report.data import PolicyRow, colours_of_groups, training_runs
from pivec.report.sections.map_classes import MAX_CLASS_COLOURS, class_colours
from pivec.report.sections.map_density import Spots
from pivec.report.sections.map_key import (
    COLOURINGS,
    draw_class_key,
    draw_group_key,
    draw_note,
    draw_scale,
    empty_key,
)
from pivec.report.sections.map_labels import draw_labels
from pivec.text import without_shared_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
Joins = Sequence[Sequence[int]]  # pairs of rows

# With more runs than this their lines would cover the points.
MAX_LINES = 400
MAX_ARROWS = 40
MAX_RINGS = 16
# Among more points arrow heads would be lost, and names of classes.
MAX_SIGNED = 800
MAX_NUMBERED = 200
# More pairs that cannot be told apart are joined on the panel of behaviours alone.
MAX_JOINS_BEHIND = 100
# More points than this are drawn with hard edges, for the sake of the size of the file.
CROWD = 3000
# More would hide each other, so it is drawn what lies at each spot.
DENSE = 20_000
# Names are written on the map of so many groups, or so many policies without groups.
MAX_NAMES = 12


def draw_panel(
    axes: Axes, key: Axes, rows: Sequence[PolicyRow], colour: str, joins: Joins = ()
) -> None:
    """Draw the map, coloured by one of `COLOURINGS`."""
    places = np.array([(row.x, row.y) for row in rows])
    quiet_axes(axes)
    empty_key(key)
    _set_limits(axes, places)
    if is_crowd(rows) or colour == "density":
        _draw_crowd(axes, key, rows, places, colour)
    else:
        _draw_policies(axes, key, rows, places, colour, joins)


def is_crowd(rows: Sequence[PolicyRow]) -> bool:
    """Tell whether points would hide each other, so that spots are drawn in their place."""
    return len(rows) > DENSE


def _draw_policies(
    axes: Axes, key: Axes, rows: Sequence[PolicyRow], places: Array, colour: str, joins: Joins
) -> None:
    """Draw a point for each policy, and lines between them."""
    from matplotlib.colors import to_rgba_array

    size = float(np.clip(58.0 * (60.0 / len(rows)) ** 0.6, 2.5, 58.0))
    behaviour = colour == "behaviour"
    joins = joins if behaviour or len(joins) <= MAX_JOINS_BEHIND else ()
    _draw_joins(axes, places, joins, size)
    of_group = colours_of_groups(rows)
    if not behaviour:
        _draw_runs(axes, rows, places, of_group if colour == "group" else None, size)
    values = np.zeros(len(rows))
    signs = {"pale band: cannot be told apart": len(joins) > 0}
    if colour == "group":
        paints = to_rgba_array([of_group.get(row.group, LONE_COLOUR) for row in rows])
        draw_group_key(key, rows)
    elif behaviour:
        of_class = class_colours(rows)
        paints = to_rgba_array([of_class.get(row.behaviour or 0, "none") for row in rows])
        values[paints[:, 3] == 0] = np.nan
        draw_class_key(key, rows)
        signs = {"within a class, no two policies can be told apart": True}
    else:
        values = _values(rows, colour)
        # In few steps for a crowd, which packs well.
        scale = _scale(colour, 256 if len(rows) <= CROWD else 20)
        low, high = _value_range(values)
        paints = scale((values - low) / (high - low))
        draw_scale(key, scale, (low, high), colour)
        signs = _signs(rows, values, colour) | signs
    if colour != "group":
        draw_note(key, signs)
    _draw_points(axes, rows, places, values, paints, size, best_on_top=colour == "return")
    anchors = _named(rows, places, colour)
    radius = np.sqrt(size) / 2 + 1.0
    if anchors:
        numbers = list(anchors.values())
        draw_labels(axes, places[numbers], list(anchors), places, radius, bold=behaviour)


def _draw_crowd(
    axes: Axes, key: Axes, rows: Sequence[PolicyRow], places: Array, colour: str
) -> None:
    """Draw what lies at each spot: a mean, the commonest group or class, or the number."""
    from matplotlib.colors import to_rgba, to_rgba_array

    own = np.array([not row.reference for row in rows])
    spots = Spots(axes, places)
    there = spots.counts(own)
    colours = np.zeros((*there.shape, 4))
    colours[spots.counts(~own) > 0] = to_rgba(REFERENCE_COLOUR)
    colours[there > 0] = to_rgba(LONE_COLOUR)
    if colour in ("group", "behaviour"):
        of_name: dict[Any, str] = dict(
            colours_of_groups(rows) if colour == "group" else class_colours(rows)
        )
        number = {name: k for k, name in enumerate(of_name)}
        value = COLOURINGS[colour].value
        numbers = np.array([number.get(value(row), len(number)) for row in rows])
        values = spots.commonest(numbers, own)
        table = to_rgba_array([*of_name.values(), LONE_COLOUR])
        colours[there > 0] = table[values[there > 0].astype(int)]
        (draw_group_key if colour == "group" else draw_class_key)(key, rows)
    else:
        if colour == "density":
            values = np.full(there.shape, np.nan)
            values[there > 0] = np.log10(there[there > 0])
        else:
            of_policies = _values(rows, colour)
            values = spots.means(np.nan_to_num(of_policies), ~np.isnan(of_policies))
        known = ~np.isnan(values)
        scale = _scale(colour, 20)
        low, high = _value_range(values)
        colours[known] = scale((values[known] - low) / (high - low))
        draw_scale(key, scale, (low, high), colour)
        unknown = bool((~known & (there > 0)).any())
        draw_note(key, {f"grey: {COLOURINGS[colour].unknown}": unknown})
    spots.paint(axes, colours)


def _values(rows: Sequence[PolicyRow], colour: str) -> Array:
    """Numbers to colour by; NaN where they are not known, or the policy is there for context."""
    value = COLOURINGS[colour].value
    values = np.array([np.nan if row.reference else value(row) for row in rows], np.float64)
    values[~np.isfinite(values)] = np.nan
    return values


def _scale(colour: str, steps: int) -> Any:
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(
        colormaps[COLOURINGS[colour].scale](np.linspace(*COLOURINGS[colour].ends, steps))
    )


def _named(rows: Sequence[PolicyRow], places: Array, colour: str) -> dict[str, int]:
    """Choose what to name on a panel, and the row that each name stands beside.

    A run has its name at its end, another group and a behaviour class in its middle; few policies
    without groups have their own.
    """
    members: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        if row.reference:
            continue
        if colour == "behaviour":
            members.setdefault(str(row.behaviour), []).append(i)
        elif colour == "group" and row.group:
            members.setdefault(row.group, []).append(i)
    if colour == "behaviour":
        if len(rows) > MAX_NUMBERED:
            return {}
        named = [str(number) for number in class_colours(rows)][:MAX_CLASS_COLOURS]
        return {name: _middle(places, members[name]) for name in named if name in members}
    own = [i for i, row in enumerate(rows) if not row.reference]
    if not any(rows[i].group for i in own) and len(own) <= MAX_NAMES:
        return {rows[i].label: i for i in own}
    if not 1 < len(members) <= MAX_NAMES:
        return {}
    runs = training_runs(rows)
    names = without_shared_folder(list(members))
    return {
        short: runs[name][-1] if name in runs else _middle(places, members[name])
        for short, name in zip(names, members, strict=True)
    }


def _middle(places: Array, rows: list[int]) -> int:
    """Find the row that is nearest to the mean place of several."""
    away = np.linalg.norm(places[rows] - places[rows].mean(axis=0), axis=1)
    return rows[int(away.argmin())]


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
    edged = size > 12

    def scatter(which: NDArray[Any], **looks: Any) -> None:
        if len(places[which]):
            axes.scatter(*places[which].T, **looks)

    scatter(reference, s=0.45 * size, c=REFERENCE_COLOUR, linewidths=0, zorder=2.5)
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
            facecolors=paints[known],
            # Pale colours need an edge to be seen on white.
            edgecolors=0.72 * paints[known, :3] if edged else "none",
            linewidths=0.5 if edged else 0.0,
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


def _draw_joins(axes: Axes, places: Array, joins: Joins, size: float) -> None:
    """Join policies that cannot be told apart by pale bands, which lines along runs do not hide."""
    from matplotlib.collections import LineCollection

    if len(joins):
        lines = LineCollection(
            list(places[np.asarray(joins)]),
            colors=HAIRLINE,
            linewidths=float(np.clip(0.55 * np.sqrt(size), 1.0, 4.0)),
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
    few = len(runs) <= MAX_ARROWS and len(rows) <= MAX_SIGNED
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
    if few and len(runs) <= MAX_RINGS:
        starts = np.array([line[0] for line in lines])
        looks: dict[str, Any] = {"facecolors": "none", "edgecolors": INK, "linewidths": 0.8}
        axes.scatter(starts[:, 0], starts[:, 1], size * 2.2, zorder=4, **looks)


def _signs(rows: Sequence[PolicyRow], values: Array, colour: str) -> dict[str, bool]:
    """Say what the signs on the map mean, and whether they are there."""
    own = [not row.reference for row in rows]
    signed = colour == "return" and len(rows) <= MAX_SIGNED
    n_runs = len(training_runs(rows)) if signed else 0
    return {
        "ring: first checkpoint": 0 < n_runs <= MAX_RINGS,
        "arrow: the last": 0 < n_runs <= MAX_ARROWS,
        f"hollow: {COLOURINGS[colour].unknown}": bool(np.isnan(values[own]).any()),
    }
