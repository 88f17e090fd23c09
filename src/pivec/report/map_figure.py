"""The map of policies as a picture, coloured by what is known about them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.report.canvas import (
    INK,
    MUTED,
    add_heading,
    literal,
    new_figure,
    quiet_axes,
    save_png,
)
from pivec.report.colours import LONE_COLOUR, REFERENCE_COLOUR, group_colours
from pivec.report.data import MapRows, ReportData
from pivec.report.text import short_number, thousands, without_shared_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Path = str | os.PathLike[str]
COLOURINGS = ("return", "group", "step")
PANEL_TITLES = {
    "return": "Mean return",
    "group": "Group",
    "step": "Training step",
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


def draw_map(
    path: Path,
    rows: MapRows,
    *,
    colour: str | None = None,
    title: str = "Map of policies",
    subtitle: str | None = None,
) -> None:
    """Draw a map of policies as a PNG file of at most 300 kB.

    Checkpoints of a run are joined in order of step, from a ring to an arrow head; policies
    without a training step are diamonds; reference policies are small and grey.

    Parameters
    ----------
    path : path
    rows : MapRows or ReportData
    colour : {"return", "group", "step"}, optional
        What colours the points; by default one panel for each that tells policies apart.
    title, subtitle : str
        The subtitle says by default what was compared, and how the map was made.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "map.png"
    >>> rows = MapRows(
    ...     ["a", "b"], ["run", "run"], [1, 2], np.array([[0.0, 0.0], [1.0, 1.0]]),
    ...     np.array([0.0, 1.0]), [10, 10], [500, 700], ["a.zip", "b.zip"], [False, False])
    >>> draw_map(path, rows)
    >>> path.stat().st_size < 300_000
    True
    """
    figure = map_figure(rows, colour=colour, title=title, subtitle=subtitle)
    save_png(figure, path)


def map_figure(
    rows: MapRows,
    *,
    colour: str | None = None,
    title: str = "Map of policies",
    subtitle: str | None = None,
) -> Figure:
    """Make the figure that `draw_map` writes."""
    if colour is not None and colour not in COLOURINGS:
        raise UsageError(f"colour must be one of {', '.join(COLOURINGS)}, not {colour!r}.")
    if len(rows) == 0:
        raise UsageError("a map needs at least one policy.")
    subtitle = what_is_shown(rows) if subtitle is None else subtitle
    colours = [colour] if colour is not None else informative_colourings(rows)
    side, gap, key = 4.7, 0.24, 1.12
    top = 0.80 if subtitle else 0.55
    width = 0.56 + len(colours) * side + (len(colours) - 1) * gap
    height = top + 0.3 + side + key
    figure = new_figure(width, height)
    add_heading(figure, title, subtitle)
    for i, name in enumerate(colours):
        left = 0.28 + i * (side + gap)
        axes = figure.add_axes(
            (left / width, key / height, side / width, side / height), facecolor="#FCFCFD"
        )
        figure.text(
            left / width,
            1 - (top + 0.16) / height,
            PANEL_TITLES[name],
            va="center",
            fontsize=11,
            fontweight="bold",
            color=INK,
        )
        key_box = (left / width, 0.12 / height, side / width, (key - 0.24) / height)
        _draw_panel(axes, figure.add_axes(key_box), rows, name)
    return figure


def informative_colourings(rows: MapRows) -> list[str]:
    """Colourings under which policies differ; ``group`` where there is none."""
    own = ~np.asarray(rows.is_reference, dtype=bool)
    returns = rows.mean_returns[own]
    finite = returns[np.isfinite(returns)]
    found = []
    if len(np.unique(finite)) > 1:
        found.append("return")
    if len({g for g, mine in zip(rows.groups, own, strict=True) if mine}) > 1:
        found.append("group")
    if len({s for s, mine in zip(rows.steps, own, strict=True) if mine and s is not None}) > 1:
        found.append("step")
    return found or ["group"]


def what_is_shown(rows: MapRows) -> str:
    """Say in one line what was compared, and how the map was made."""
    n_own = len(rows) - sum(map(bool, rows.is_reference))
    parts = [f"{thousands(n_own)} {'policy' if n_own == 1 else 'policies'}"]
    if n_own < len(rows):
        parts.append(f"{thousands(len(rows) - n_own)} of an earlier map")
    if isinstance(rows, ReportData):
        parts = [rows.environment, *parts, rows.method_name()]
    return " · ".join(part for part in parts if part)


def _draw_panel(axes: Axes, key: Axes, rows: MapRows, colour: str) -> None:
    """Draw one colouring of the map, and its scale or legend below."""
    names = rows.group_names()
    of_group = dict(zip(names, group_colours(len(names)), strict=True))
    reference = np.asarray(rows.is_reference, dtype=bool)
    has_step = np.array([step is not None for step in rows.steps], dtype=bool)
    size = float(np.clip(7000.0 / max(1, len(rows)), 2.5, 58.0))
    edge = 0.7 if size > 20 else 0.0

    quiet_axes(axes)
    quiet_axes(key, frame=False)
    key.set_xlim(0, 1)
    key.set_ylim(0, 1)
    key.patch.set_visible(False)
    _set_limits(axes, rows.positions)
    if reference.any():
        axes.scatter(
            rows.positions[reference, 0],
            rows.positions[reference, 1],
            s=0.45 * size,
            c=REFERENCE_COLOUR,
            linewidths=0,
        )
    _draw_runs(axes, rows, of_group if colour == "group" else None, size)

    values, colours = _point_colours(rows, colour, of_group)
    has_colour = np.isfinite(values)
    for shape, part, scale in (
        ("o", has_step & ~reference, 1.0),
        ("D", ~has_step & ~reference, 0.8),
    ):
        # Without training steps everywhere the two shapes would say nothing.
        marker = shape if has_step[~reference].any() else "o"
        known = part & has_colour
        unknown = part & ~known
        if unknown.any():
            axes.scatter(
                rows.positions[unknown, 0],
                rows.positions[unknown, 1],
                s=scale * size,
                marker=marker,
                facecolors="white",
                edgecolors=LONE_COLOUR,
                linewidths=0.8,
                zorder=3,
            )
        if known.any():
            order = np.flatnonzero(known)
            if colour == "return":  # the best on top
                order = order[np.argsort(values[order], kind="stable")]
            axes.scatter(
                rows.positions[order, 0],
                rows.positions[order, 1],
                s=scale * size,
                marker=marker,
                c=colours[order],
                edgecolors="white",
                linewidths=edge,
                antialiased=len(rows) <= CROWD,
                zorder=3,
            )
    if colour == "group":
        _draw_group_key(key, rows, of_group)
    else:
        _draw_scale(key, rows, values, colour)


def _point_colours(
    rows: MapRows, colour: str, of_group: dict[str, str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the values behind the colours (NaN where there is none) and (n, 4) colours."""
    from matplotlib.colors import to_rgba_array

    if colour == "group":
        palette = to_rgba_array([*of_group.values(), LONE_COLOUR])
        number = {name: k for k, name in enumerate(of_group)}
        return np.zeros(len(rows)), palette[[number.get(g, -1) for g in rows.groups]]
    if colour == "return":
        values = np.where(np.isfinite(rows.mean_returns), rows.mean_returns, np.nan)
    else:
        values = np.array([np.nan if s is None else float(s) for s in rows.steps])
    values = np.where(np.asarray(rows.is_reference, dtype=bool), np.nan, values)
    low, high = _value_range(values)
    return values, _colour_map(colour, len(rows))((values - low) / (high - low))


def _value_range(values: NDArray[np.float64]) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if len(finite) == 0:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _colour_map(colour: str, n: int) -> Any:
    """Return the scale of colours for ``n`` points: in few steps for a crowd, which packs well."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    # The palest tenth of plasma cannot be seen on white.
    name, end = ("viridis", 1.0) if colour == "return" else ("plasma", 0.9)
    return ListedColormap(colormaps[name](np.linspace(0.0, end, 256 if n <= CROWD else 20)))


def _set_limits(axes: Axes, positions: NDArray[np.float64]) -> None:
    """Show all points in a square with the same scale on both axes."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    middle = (low + high) / 2
    half = float(max((high - low).max() / 2, 1e-9)) * 1.09
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
    axes.set_aspect("equal")


def _draw_runs(axes: Axes, rows: MapRows, of_group: dict[str, str] | None, size: float) -> None:
    """Join the checkpoints of each run: a ring at the first, an arrow head at the last."""
    from matplotlib.collections import LineCollection

    runs = rows.runs()
    if not runs or len(runs) > MAX_LINES:
        return
    few = len(runs) <= MAX_ARROWS
    lines = [rows.positions[indices] for indices in runs.values()]
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
    if not few:
        return
    for line, colour in zip(lines, colours, strict=True):
        moved = np.flatnonzero(np.linalg.norm(np.diff(line, axis=0), axis=1) > 0)
        if len(moved) == 0:
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
    if len(runs) > MAX_RINGS:
        return
    starts = np.array([line[0] for line in lines])
    axes.scatter(
        starts[:, 0],
        starts[:, 1],
        s=size * 2.2,
        facecolors="none",
        edgecolors=INK,
        linewidths=0.8,
        zorder=4,
    )


def _draw_scale(key: Axes, rows: MapRows, values: NDArray[np.float64], colour: str) -> None:
    """Draw a horizontal colour bar with a few ticks."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    low, high = _value_range(values)
    bar = key.inset_axes((0.0, 0.68, 1.0, 0.17))
    gradient = np.linspace(0, 1, 256)[None, :]
    bar.imshow(
        gradient, aspect="auto", cmap=_colour_map(colour, len(rows)), extent=(low, high, 0, 1)
    )
    bar.set_yticks([])
    bar.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    if colour == "step":
        bar.xaxis.set_major_formatter(FuncFormatter(lambda v, _: short_number(v)))
    bar.tick_params(length=2.5, width=0.6, labelsize=9, color=MUTED, labelcolor=MUTED, pad=2)
    for spine in bar.spines.values():
        spine.set_visible(False)
    key.text(0.0, 0.02, _note(rows, values, colour), fontsize=8.5, color=MUTED)


def _note(rows: MapRows, values: NDArray[np.float64], colour: str) -> str:
    """Say what the signs on the map mean, as far as they are there."""
    own = ~np.asarray(rows.is_reference, dtype=bool)
    hollow = bool(np.isnan(values[own]).any())
    if colour == "step":
        return "hollow: no training step" if hollow else ""
    parts = []
    n_runs = len(rows.runs())
    if 0 < n_runs <= MAX_RINGS:
        parts.append("ring: first checkpoint")
    if 0 < n_runs <= MAX_ARROWS:
        parts.append("arrow: towards the last one")
    if hollow:
        parts.append("hollow: no return known")
    return " · ".join(parts)


def _draw_group_key(key: Axes, rows: MapRows, of_group: dict[str, str]) -> None:
    """Draw a legend of groups in columns; groups that do not fit are counted."""
    own = [i for i in range(len(rows)) if not rows.is_reference[i]]
    extra = []
    if any(not rows.groups[i] for i in own):
        with_steps = any(rows.steps[i] is not None for i in own)
        extra.append(("no run", LONE_COLOUR, "D" if with_steps else "o"))
    if len(own) < len(rows):
        extra.append(("reference", REFERENCE_COLOUR, "o"))
    names = list(of_group)
    room = LEGEND_ENTRIES - len(extra)
    shown = names if len(names) <= room else names[: room - 1]
    short = dict(zip(names, without_shared_folder(names), strict=True))
    entries = [(short[name], of_group[name], "o") for name in shown]
    if len(shown) < len(names):
        entries.append((f"… and {thousands(len(names) - len(shown))} more", "none", "o"))
    entries += extra
    if not entries:
        return
    columns = 3 if len(entries) > 2 * KEY_ROWS or max(len(e[0]) for e in entries) <= 18 else 2
    for k, (label, colour, marker) in enumerate(entries):
        column, row = divmod(k, KEY_ROWS) if columns == 3 else divmod(k, -(-len(entries) // 2))
        x, y = column / columns, 0.90 - 0.205 * row
        key.scatter([x + 0.014], [y], s=34, marker=marker, c=colour, linewidths=0)
        key.text(
            x + (0.04 if colour != "none" else 0.0),
            y - 0.008,
            literal(label, 18 if columns == 3 else 30),
            va="center",
            fontsize=8.8,
            color=INK,
        )
