"""The map of policies as a picture: points coloured by what is known of them, names and keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import east_asian_width

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.figures import (
    HAIRLINE,
    INK,
    LONE_COLOUR,
    MUTED,
    REFERENCE_COLOUR,
    add_heading,
    axes_at,
    literals,
    new_figure,
    quiet_axes,
)
from pivec.report.findings import MAX_CLASS_COLOURS, PolicyRow, PolicyTable
from pivec.text import n_policies, short_number, thousands, without_shared_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Links = Sequence[Sequence[int]]  # pairs of policies
Entry = tuple[str, str, str]  # of a key: words, colour and marker

METHOD_NAMES = {
    "tsne": "t-SNE",
    "pca": "principal components",
    "mds": "classical scaling",
    "single": "a single policy",
    "identical": "identical policies",
}
# Cells along a side of the map of a crowd. A cell is then about as large as the smallest point,
# and at 50 dots an inch and its multiples a whole number of dots, which packs well.
CELLS = 235
KEY_ROWS = 5
LEGEND_ENTRIES = 3 * KEY_ROWS  # of groups; the rest is counted
MAX_LINES = 400  # runs whose lines do not cover the points
MAX_ARROWS = 40
MAX_RINGS = 16
MAX_SIGNED = 800  # points among which arrow heads and rings can be found
MAX_NUMBERED = 200  # points among which numbers of classes can be found
MAX_LINKS_BEHIND = 100  # more links are drawn on the panel of behaviours alone
CROWD = 3000  # more points are drawn with hard edges, for the sake of the size of the file
DENSE = 20_000  # more points would hide each other: cells are drawn instead
MAX_NAMES = 12  # groups, or policies without groups, that have names on the map
_HOLLOW = "hollow"  # a sign that classes of one policy and unknown values share
_LETTERS, _FONT_SIZE = 18, 9.0  # of names beside points
# Directions to try beside a point, the usual ones first, and how far away.
_AROUND = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
_AWAY = (3.0, 10.0, 20.0, 32.0)


class Colouring(NamedTuple):
    """What points are coloured by: names, or numbers along a scale."""

    title: str
    title_of_cells: str
    value: Callable[[PolicyRow], Any]
    scale: str = ""  # of matplotlib
    ends: tuple[float, float] = (0.0, 1.0)  # the part of it that is visible on white
    unknown: str = ""


COLOURINGS = {
    "return": Colouring(
        "Mean return", "Mean return at each spot", lambda row: row.mean_return, "viridis",
        unknown="no return known",
    ),
    "group": Colouring("Group", "Commonest group at each spot", lambda row: row.group),
    "step": Colouring(
        "Training step", "Mean training step at each spot", lambda row: row.step, "plasma",
        (0.0, 0.9), "no training step",
    ),
    "behaviour": Colouring(
        "Behaviour class", "Commonest behaviour class at each spot", lambda row: row.behaviour
    ),
    "density": Colouring(
        "How many policies", "Policies at each spot", lambda _: 1, "YlGnBu", (0.25, 1.0)
    ),
}  # fmt: skip


def map_figure(
    policies: PolicyTable,
    subtitle: str = "",
    colour: str | None = None,
    links: Links = (),
) -> Figure:
    """Draw a map of policies.

    Checkpoints of a run are joined in order of step, from a ring to an arrow head; policies
    without a training step are diamonds; reference policies are small and grey. Without a colour,
    "return", "group", "step", "behaviour" or "density", there is a panel for each of the first four
    that differs between policies. Pale bands join the pairs of ``links``, which cannot be
    distinguished. With more than 20 000 policies, means and counts per grid cell are drawn.
    """
    if colour is not None and colour not in COLOURINGS:
        raise UsageError(f"colour must be one of {', '.join(COLOURINGS)}, but is {colour!r}")
    colours = [colour] if colour is not None else _panels(policies)
    across = 2 if len(colours) > 3 else len(colours)
    side, gap, title, key = 4.7, 0.24, 0.3, 1.12
    top = 0.80 if subtitle else 0.55
    width = 0.56 + across * side + (across - 1) * gap
    height = top + -(-len(colours) // across) * (title + side + key)
    figure = new_figure(width, height)
    add_heading(figure, "Map of policies", subtitle)
    for i, name in enumerate(colours):
        row, column = divmod(i, across)
        left = 0.28 + column * (side + gap)
        above = top + row * (title + side + key)
        bottom = height - above - title - side
        axes = axes_at(figure, left, bottom, side, side, facecolor="#FCFCFD")
        figure.text(
            left / width,
            1 - (above + 0.16) / height,
            getattr(COLOURINGS[name], "title_of_cells" if len(policies) > DENSE else "title"),
            va="center",
            fontsize=11,
            fontweight="bold",
            color=INK,
        )
        key_axes = axes_at(figure, left, bottom - key + 0.12, side, key - 0.24)
        quiet_axes(key_axes, frame=False)
        key_axes.set(xlim=(0, 1), ylim=(0, 1))
        key_axes.patch.set_visible(False)
        places = np.array([(row.x, row.y) for row in policies])
        quiet_axes(axes)
        _set_limits(axes, places)
        if len(policies) > DENSE or name == "density":
            _draw_crowd(axes, key_axes, policies, places, name)
        else:
            _draw_policies(axes, key_axes, policies, places, name, links)
    return figure


def _panels(policies: PolicyTable) -> list[str]:
    """Name the colourings under which policies differ, and their number where there is a crowd."""
    own = policies.compared
    different: dict[str, set[Any]] = {
        "return": {row.mean_return for row in own if math.isfinite(row.mean_return)},
        "group": {row.group for row in own},
        "step": {row.step for row in own if row.step is not None},
    }
    shown = [name for name, values in different.items() if len(values) > 1] or ["group"]
    extra = ["behaviour"] * policies.classes_differ + ["density"] * (len(policies) > DENSE)
    return [*shown, *extra]


def _draw_policies(
    axes: Axes, key: Axes, policies: PolicyTable, places: Array, colour: str, links: Links
) -> None:
    """Draw a point for each policy, and lines between them."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba_array

    size = float(np.clip(58.0 * (60.0 / len(policies)) ** 0.6, 2.5, 58.0))
    behaviour = colour == "behaviour"
    links = links if behaviour or len(links) <= MAX_LINKS_BEHIND else ()
    if len(links):  # pale bands, which lines along runs do not hide
        width = float(np.clip(0.55 * np.sqrt(size), 1.0, 4.0))
        looks: dict[str, Any] = {"colors": HAIRLINE, "zorder": 1.5, "capstyle": "round"}
        bands = LineCollection(list(places[np.asarray(links)]), linewidths=width, **looks)
        axes.add_collection(bands, autolim=False)
    of_group = policies.group_colours
    if not behaviour:
        _draw_runs(axes, policies, places, of_group if colour == "group" else None, size)
    values = np.zeros(len(policies))
    signs = {"pale band: cannot be distinguished": len(links) > 0}
    if colour == "group":
        paints = to_rgba_array([of_group.get(row.group, LONE_COLOUR) for row in policies])
        _draw_group_key(key, policies)
    elif behaviour:
        of_class = policies.class_colours
        paints = to_rgba_array([of_class.get(row.behaviour or 0, "none") for row in policies])
        values[paints[:, 3] == 0] = np.nan
        _draw_class_key(key, policies)
        signs = {"policies of the same class behave alike": True}
    else:
        values = _values(policies, colour)
        # In few steps for a crowd, which packs well.
        scale, low, high = _scale(values, colour, 256 if len(policies) <= CROWD else 20)
        paints = scale((values - low) / (high - low))
        _draw_scale(key, scale, (low, high), colour)
        own = [not row.reference for row in policies]
        signed = colour == "return" and len(policies) <= MAX_SIGNED
        n_runs = len(policies.runs) if signed else 0
        signs = {
            "ring: first checkpoint": 0 < n_runs <= MAX_RINGS,
            "arrow: the last": 0 < n_runs <= MAX_ARROWS,
            f"hollow: {COLOURINGS[colour].unknown}": bool(np.isnan(values[own]).any()),
            **signs,
        }
    if colour != "group":
        _draw_note(key, signs)
    _draw_points(axes, policies, places, values, paints, size, best_on_top=colour == "return")
    anchors = _named(policies, places, colour)
    radius = np.sqrt(size) / 2 + 1.0
    if anchors:
        numbers = list(anchors.values())
        _draw_labels(axes, places[numbers], list(anchors), places, radius, bold=behaviour)


def _draw_crowd(axes: Axes, key: Axes, policies: PolicyTable, places: Array, colour: str) -> None:
    """Draw what lies at each spot: a mean, the commonest group or class, or the number."""
    from matplotlib.colors import to_rgba, to_rgba_array

    own = np.array([not row.reference for row in policies])
    ends = np.array([axes.get_xlim(), axes.get_ylim()])
    at = (places - ends[:, 0]) / np.ptp(ends, axis=1) * CELLS
    column, row = np.clip(at.astype(np.intp), 0, CELLS - 1).T
    cell = row * CELLS + column

    def sums(which: NDArray[np.bool_], values: Array | None = None) -> Array:
        weights = None if values is None else values[which]
        return np.bincount(cell[which], weights, CELLS * CELLS).astype(np.float64)

    there = sums(own)
    colours = np.zeros((CELLS * CELLS, 4))  # transparent
    colours[sums(~own) > 0] = to_rgba(REFERENCE_COLOUR)
    colours[there > 0] = to_rgba(LONE_COLOUR)
    if colour in ("group", "behaviour"):
        of_name: dict[Any, str] = dict(
            policies.group_colours if colour == "group" else policies.class_colours
        )
        number = {name: k for k, name in enumerate(of_name)}
        value, n = COLOURINGS[colour].value, len(number) + 1
        numbers = np.array([number.get(value(row), n - 1) for row in policies])
        codes, counts = np.unique(cell[own] * n + numbers[own], return_counts=True)
        # Written in the order of the counts, the largest stays; of equal ones the first number.
        codes = codes[np.lexsort((-codes, counts))]
        table = to_rgba_array([*of_name.values(), LONE_COLOUR])
        colours[codes // n] = table[codes % n]
        (_draw_group_key if colour == "group" else _draw_class_key)(key, policies)
    else:
        values = np.full(CELLS * CELLS, np.nan)
        if colour == "density":
            values[there > 0] = np.log10(there[there > 0])
        else:
            of_policies = _values(policies, colour)
            known = ~np.isnan(of_policies)
            np.divide(sums(known, of_policies), sums(known), out=values, where=sums(known) > 0)
        known = ~np.isnan(values)
        scale, low, high = _scale(values, colour, 20)
        colours[known] = scale((values[known] - low) / (high - low))
        _draw_scale(key, scale, (low, high), colour)
        unknown = bool((~known & (there > 0)).any())
        _draw_note(key, {f"grey: {COLOURINGS[colour].unknown}": unknown})
    image, extent = colours.reshape(CELLS, CELLS, 4), tuple(ends.ravel().tolist())
    axes.imshow(image, extent=extent, origin="lower", interpolation="nearest", zorder=3)
    axes.set(xlim=ends[0], ylim=ends[1])


def _values(policies: PolicyTable, colour: str) -> Array:
    """Numbers to colour by; NaN where they are not known, or the policy is there for context."""
    value = COLOURINGS[colour].value
    values = np.array([np.nan if row.reference else value(row) for row in policies], np.float64)
    values[~np.isfinite(values)] = np.nan
    return values


def _scale(values: Array, colour: str, steps: int) -> tuple[Any, float, float]:
    """Return a colour map in so many steps, and the values at its ends."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    known = values[~np.isnan(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    shades = np.linspace(*COLOURINGS[colour].ends, steps)
    return ListedColormap(colormaps[COLOURINGS[colour].scale](shades)), low, high


def _named(policies: PolicyTable, places: Array, colour: str) -> dict[str, int]:
    """Choose what to name on a panel, and the row that each name stands beside.

    A run has its name at its end, another group and a behaviour class in its middle; few policies
    without groups have their own.
    """
    members: dict[str, list[int]] = {}
    for i, row in enumerate(policies):
        if row.reference:
            continue
        if colour == "behaviour":
            members.setdefault(str(row.behaviour), []).append(i)
        elif colour == "group" and row.group:
            members.setdefault(row.group, []).append(i)
    if colour == "behaviour":
        if len(policies) > MAX_NUMBERED:
            return {}
        named = [str(number) for number in policies.class_colours][:MAX_CLASS_COLOURS]
        return {name: _middle(places, members[name]) for name in named if name in members}
    own = [i for i, row in enumerate(policies) if not row.reference]
    if not any(policies[i].group for i in own) and len(own) <= MAX_NAMES:
        return {policies[i].label: i for i in own}
    if not 1 < len(members) <= MAX_NAMES:
        return {}
    runs = policies.runs
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
    policies: PolicyTable,
    places: Array,
    values: Array,
    paints: Array,
    size: float,
    best_on_top: bool,
) -> None:
    reference = np.array([row.reference for row in policies])
    has_step = np.array([row.step is not None for row in policies])
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
            antialiased=len(policies) <= CROWD,
            **looks,
        )


def _set_limits(axes: Axes, places: Array) -> None:
    """Show all points in a square with the same scale on both axes."""
    low, high = places.min(axis=0), places.max(axis=0)
    middle = (low + high) / 2
    half = float(max((high - low).max() / 2, 1e-9)) * 1.09
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
    axes.set_aspect("equal")


def _draw_runs(
    axes: Axes,
    policies: PolicyTable,
    places: Array,
    of_group: dict[str, str] | None,
    size: float,
) -> None:
    """Join the checkpoints of each run: a ring at the first, an arrow head at the last."""
    from matplotlib.collections import LineCollection

    runs = policies.runs
    if not runs or len(runs) > MAX_LINES:
        return
    few = len(runs) <= MAX_ARROWS and len(policies) <= MAX_SIGNED
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


def _draw_note(key: Axes, signs: dict[str, bool]) -> None:
    """Say in the last line what signs mean, as far as they are there."""
    note = " · ".join(sign for sign, there in signs.items() if there)
    key.text(0.0, 0.02, note, fontsize=8.5, color=MUTED)


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
    if colour == "density":
        # The scale is of logarithms.
        numbers = [m * 10**k for k in range(9) for m in ((1, 3) if ends[1] < 3 else (1,))]
        ticks = [n for n in numbers if ends[0] <= np.log10(n) <= ends[1]]
        bar.set_xticks(np.log10(ticks), [short_number(n) for n in ticks])
    else:
        bar.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    if colour == "step":
        bar.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    bar.tick_params(length=2.5, width=0.6, labelsize=9, color=MUTED, labelcolor=MUTED, pad=2)
    for spine in bar.spines.values():
        spine.set_visible(False)


def _draw_group_key(key: Axes, policies: PolicyTable) -> None:
    """Draw a legend of groups in columns; groups that do not fit are counted."""
    own = policies.compared
    others = []
    if any(not row.group for row in own):
        with_steps = any(row.step is not None for row in own)
        others.append(("no run", LONE_COLOUR, "D" if with_steps else "o"))
    others += _reference_entry(policies)
    of_group = policies.group_colours
    names = without_shared_folder(list(of_group))
    entries = [(name, paint, "o") for name, paint in zip(names, of_group.values(), strict=True)]
    room = LEGEND_ENTRIES - len(others)
    if len(entries) > room:
        entries[room - 1 :] = [(f"… and {thousands(len(names) - room + 1)} more", "none", "o")]
    _draw_entries(key, entries + others, KEY_ROWS)


def _draw_class_key(key: Axes, policies: PolicyTable) -> None:
    """Draw a legend of the largest behaviour classes; the rest is counted."""
    sizes, colours = policies.class_sizes, policies.class_colours
    named = list(colours)[:MAX_CLASS_COLOURS]
    entries = [(f"{number}: {n_policies(sizes[number])}", colours[number], "o") for number in named]
    more, alone = len(colours) - len(named), len(sizes) - len(colours)
    unknown = sum(row.behaviour is None for row in policies)
    room = 3 * (KEY_ROWS - 1)
    others = [(f"+ {thousands(more)} smaller", LONE_COLOUR, "o")] if more else []
    if alone:
        others.append((f"{thousands(alone)} like no other", _HOLLOW, "o"))
    if unknown:
        others.append((f"{thousands(unknown)} not known", MUTED, "x"))
    others += _reference_entry(policies)
    _draw_entries(key, [*entries[: room - len(others)], *others], KEY_ROWS - 1)


def _reference_entry(policies: PolicyTable) -> list[Entry]:
    return [("reference", REFERENCE_COLOUR, "o")] if any(row.reference for row in policies) else []


def _draw_entries(key: Axes, entries: Sequence[Entry], key_rows: int) -> None:
    """Draw a legend, down its columns; long names get wide columns while there is room."""
    short = all(len(words) <= 18 for words, _, _ in entries)
    columns, in_column = 3, key_rows
    if len(entries) <= 2 * key_rows and not short:
        columns, in_column = 2, -(-len(entries) // 2)
    shown = literals([words for words, _, _ in entries], 18 if columns == 3 else 27)
    for k, (_, paint, marker) in enumerate(entries):
        column, line = divmod(k, in_column)
        x, y = column / columns, 0.90 - 0.205 * line
        looks: dict[str, Any] = {"c": paint, "linewidths": 1.0 if marker == "x" else 0.0}
        if paint == _HOLLOW:
            looks = {"facecolors": "white", "edgecolors": LONE_COLOUR, "linewidths": 0.8}
        key.scatter([x + 0.014], [y], s=34, marker=marker, **looks)
        key.text(
            x + (0.04 if paint != "none" else 0.0),
            y - 0.008,
            shown[k],
            va="center",
            fontsize=8.8,
            color=INK,
        )


def _draw_labels(
    axes: Axes, anchors: Array, texts: Sequence[str], places: Array, radius: float, bold: bool
) -> None:
    """Write texts beside their anchors so that they cover no point of ``places`` and no other text.

    Those that find no room are left out. A label that is not close to its anchor gets a thin line
    to it. The limits of the axes must be set.
    """
    from matplotlib.patheffects import withStroke

    # All in points of 1/72 inch.
    size = axes.get_figure().get_size_inches() * 72 * axes.get_position().size  # type: ignore[union-attr]
    low = np.array([axes.get_xlim()[0], axes.get_ylim()[0]])
    scale = np.array([np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())]) / size
    dots, taken = (places - low) / scale, list[tuple[Array, Array]]()
    for anchor, text in zip((anchors - low) / scale, literals(texts, _LETTERS), strict=True):
        # Fonts that lack a letter cannot be asked for its width.
        ems = sum(1.05 if east_asian_width(letter) in "WF" else 0.62 for letter in text)
        half = _FONT_SIZE * np.array([max(ems, 0.7), 1.1]) / 2
        box = _free_box(anchor, half, dots, radius, taken, size)
        if box is None:
            continue
        taken.append(box)
        nearest = np.clip(anchor, *box)
        if np.linalg.norm(nearest - anchor) > radius + 2 * _AWAY[0]:
            ends = np.array([anchor, nearest]) * scale + low
            axes.plot(*ends.T, color=MUTED, linewidth=0.6, zorder=4.5)
        x, y = ((box[0] + box[1]) / 2 * scale + low).tolist()
        axes.text(
            x,
            y,
            text,
            ha="center",
            va="center",
            fontsize=_FONT_SIZE,
            fontweight="bold" if bold else "normal",
            color=INK,
            zorder=5,
            path_effects=[withStroke(linewidth=2.2, foreground="white", alpha=0.85)],
        )


def _free_box(
    anchor: Array,
    half: Array,
    dots: Array,
    radius: float,
    taken: Sequence[tuple[Array, Array]],
    frame: Array,
) -> tuple[Array, Array] | None:
    """Find the nearest box beside an anchor that is in the frame and covers nothing."""
    for away, direction in product(_AWAY, np.array(_AROUND)):
        middle = anchor + direction * ((away + radius) / np.linalg.norm(direction) + half)
        low, high = middle - half, middle + half
        if (low < 2).any() or (high > frame - 2).any():
            continue
        if any((low < other[1]).all() and (other[0] < high).all() for other in taken):
            continue
        if (np.maximum(low - dots, dots - high).max(axis=1) > radius).all():
            return low, high
    return None
