"""The map of policies as a picture: points coloured by what is known of them, names and keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.figures import (
    COLUMN,
    HAIRLINE,
    INK,
    LONE_COLOUR,
    MARGIN,
    MUTED,
    REFERENCE_COLOUR,
    SMALL,
    TEXT,
    axes_at,
    headed_figure,
    label_points,
    literals,
    note_lines,
    quiet_axes,
    text_width,
    wrapped,
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
LINE, GAP = 0.165, 0.2  # inches: between lines of text, between panels
MAX_COLOURS = 36  # of groups in a legend, all different; the rest is counted
WIDE = 30.0  # ratio of training steps above which their scale is logarithmic
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


class Scale(NamedTuple):
    """Colours of numbers, evenly or by their logarithms."""

    colours: Any  # of matplotlib
    low: float
    high: float
    least: float = 0.0  # the smallest number above 0 on a logarithmic scale, 0 on an even one

    def place(self, values: Any) -> Any:
        """Where numbers are on the scale; on a logarithmic one, 0 has a place below the rest."""
        if not self.least:
            return values
        return np.log10(np.maximum(values, self.least / 2))

    def __call__(self, values: Array) -> Array:
        """Return the colours of numbers."""
        low, high = self.place(self.low), self.place(self.high)
        return np.asarray(self.colours((self.place(values) - low) / (high - low)))

    @property
    def ticks(self) -> list[float]:
        """Round numbers along it."""
        from matplotlib.ticker import MaxNLocator

        if not self.least:
            ticks = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(self.low, self.high)
            return [float(tick) for tick in ticks if self.low <= tick <= self.high]
        decades = math.log10(self.high / self.least)
        ones = (1, 3) if decades < 1.5 else (1,)
        every = max(1, round(decades / 3))
        found = [m * 10.0**k for k in range(-3, 13, every) for m in ones]
        return [0.0] * (self.low <= 0) + [x for x in found if self.least <= x <= self.high]


class Key(NamedTuple):
    """What stands below a panel: entries of a legend or a scale, and notes."""

    entries: Sequence[Entry] = ()
    scale: Scale | None = None
    notes: Sequence[str] = ()

    def columns(self, width: float) -> list[int]:
        """Numbers of the entries at the top of each column."""
        widest = max((text_width(entry[0]) for entry in self.entries), default=0.0) + 0.32
        rows = -(-len(self.entries) // max(1, int(width / widest)))
        return list(range(0, len(self.entries), rows or 1))

    def height(self, width: float) -> float:
        """Inches that it takes below a panel of this width."""
        starts = [*self.columns(width), len(self.entries)]
        rows = starts[1] if len(starts) > 1 else 0
        return 0.14 + 0.38 * bool(self.scale) + LINE * (rows + len(note_lines(self.notes, width)))


class Panel(NamedTuple):
    """A colouring of the map: of each policy, or of the cells of an image."""

    name: str
    side: float  # inches across
    key: Key
    paints: Array  # (n_policies or rows and columns of cells, 4)
    values: Array  # of the policies; NaN for those that are hollow

    @property
    def title(self) -> str:
        """What it is coloured by, in lines."""
        known = COLOURINGS[self.name]
        words = known.title if self.paints.ndim == 2 else known.title_of_cells
        return wrapped(words, self.side, TEXT, most=4, weight="bold")


def map_figure(
    policies: PolicyTable,
    subtitle: str = "",
    colour: str | None = None,
    links: Links = (),
) -> Figure:
    """Draw a map of policies that is legible in a column of a paper.

    Checkpoints of a run are joined in order of step, from a ring to an arrow head; policies
    without a training step are diamonds; reference policies are small and grey. Without a colour,
    "return", "group", "step", "behaviour" or "density", there is a panel for each of the first four
    that differs between policies: a large one, and small ones of the same part of the map. Pale
    bands join the pairs of ``links``, which cannot be distinguished. With more than 20 000
    policies, means and counts per grid cell are drawn.
    """
    if colour is not None and colour not in COLOURINGS:
        raise UsageError(f"colour must be one of {', '.join(COLOURINGS)}, but is {colour!r}")
    names = [colour] if colour is not None else _panels(policies)
    direct = len(policies) <= MAX_SIGNED and 1 < len(policies.group_colours) <= MAX_NAMES
    figure, is_complete = _draw_map(policies, subtitle, names, links, legend=not direct)
    if not is_complete:  # some names find no room beside the points
        figure, _ = _draw_map(policies, subtitle, names, links, legend=True)
    return figure


def _draw_map(
    policies: PolicyTable, subtitle: str, names: Sequence[str], links: Links, *, legend: bool
) -> tuple[Figure, bool]:
    """Draw panels; return whether all groups have a name, in a legend or beside their points."""
    places = np.array([(row.x, row.y) for row in policies])
    limits = _limits(places)
    ratio = float(np.ptp(limits[1]) / np.ptp(limits[0]))
    whole, n_small = COLUMN - 2 * MARGIN, len(names) - 1
    across = 2 if n_small == 4 else max(1, min(3, n_small))
    panels = []
    for k, name in enumerate(names):
        side = (whole - (across - 1) * GAP) / across if k else whole
        if len(policies) > DENSE or name == "density":
            panels.append(_crowd(policies, places, limits, name, side))
        else:
            panels.append(_coloured(policies, name, side, links if k == 0 else (), legend))
    rows = [panels[:1], *(panels[i : i + across] for i in range(1, len(panels), across))]
    above = [LINE * (1 + max(panel.title.count("\n") for panel in row)) + 0.07 for row in rows]
    below = [max(panel.key.height(panel.side) for panel in row) for row in rows]
    heights = [a + row[0].side * ratio + b for row, a, b in zip(rows, above, below, strict=True)]
    top = sum(heights) + GAP * len(rows)
    figure = headed_figure(COLUMN, top, "Map of policies", subtitle)
    is_complete = True
    for row, over, height in zip(rows, above, heights, strict=True):
        for k, panel in enumerate(row):
            left, tall = MARGIN + k * (panel.side + GAP), panel.side * ratio
            bottom = top - over - tall
            axes = axes_at(figure, left, bottom, panel.side, tall, facecolor="#FCFCFD")
            quiet_axes(axes)
            axes.set(xlim=limits[0], ylim=limits[1], aspect="equal")
            looks: dict[str, Any] = {"fontsize": TEXT, "fontweight": "bold", "color": INK}
            axes.annotate(
                panel.title, (0, 1), (0, 5), "axes fraction", "offset points", va="bottom", **looks
            )
            _draw_key(figure, panel, left, bottom)
            if panel.paints.ndim == 3:
                looks = {"origin": "lower", "interpolation": "nearest", "aspect": "equal"}
                looks["extent"] = tuple(limits.ravel().tolist())
                axes.imshow(panel.paints, zorder=3, **looks)
            else:
                named = _draw_policies(axes, policies, places, panel, links, far=not legend)
                is_complete = is_complete and (named or panel.name != "group" or legend)
        top -= height + GAP
    return figure, is_complete


def _limits(places: Array) -> Array:
    """Ends of both axes around all points, with the same scale: a panel is at most a bit tall."""
    low, high = places.min(axis=0), places.max(axis=0)
    half = (high - low) / 2
    half += 0.09 * max(float(half.max()), 1e-9)
    half[0] = max(half[0], half[1] / 1.1)
    half[1] = max(half[1], half[0] * 0.55)
    middle = (low + high) / 2
    return np.stack([middle - half, middle + half], axis=1)


def _panels(policies: PolicyTable) -> list[str]:
    """Name the colourings under which policies differ, and their number where there is a crowd.

    The first one is drawn large: groups, which have names.
    """
    own = policies.compared
    different: dict[str, set[Any]] = {
        "group": {row.group for row in own},
        "return": {row.mean_return for row in own if math.isfinite(row.mean_return)},
        "step": {row.step for row in own if row.step is not None},
    }
    if len(policies.group_colours) > MAX_COLOURS:  # of which several have the same
        del different["group"]
    shown = [name for name, values in different.items() if len(values) > 1] or ["group"]
    extra = ["behaviour"] * policies.classes_differ + ["density"] * (len(policies) > DENSE)
    return [*shown, *extra]


def _coloured(policies: PolicyTable, name: str, side: float, links: Links, legend: bool) -> Panel:
    """Choose the colours of points and what stands below them; ``links`` are explained there."""
    from matplotlib.colors import to_rgba_array

    is_large = side == COLUMN - 2 * MARGIN
    few = is_large and len(policies) <= MAX_SIGNED and name != "behaviour"
    signs = {
        "ring: first checkpoint": few and 0 < len(policies.runs) <= MAX_RINGS,
        "arrow: last checkpoint": few and 0 < len(policies.runs) <= MAX_ARROWS,
        "pale band: cannot be distinguished": bool(_shown_links(links, name)),
    }
    values = np.zeros(len(policies))
    if name == "group":
        of_group = policies.group_colours
        paints = to_rgba_array([of_group.get(row.group, LONE_COLOUR) for row in policies])
        key = Key(_group_entries(policies, legend))
    elif name == "behaviour":
        of_class = policies.class_colours
        paints = to_rgba_array([of_class.get(row.behaviour or 0, "none") for row in policies])
        values[paints[:, 3] == 0] = np.nan
        key = Key(_class_entries(policies, 15 if is_large else 5))
        signs |= {"policies of the same class behave alike": is_large}
    else:
        values = _values(policies, name)
        # In few steps for a crowd, which packs well.
        scale = _scale(values, name, 256 if len(policies) <= CROWD else 20)
        paints, key = scale(values), Key(scale=scale)
        own = [not row.reference for row in policies]
        signs[f"hollow: {COLOURINGS[name].unknown}"] = bool(np.isnan(values[own]).any())
    notes = [sign for sign, there in signs.items() if there]
    return Panel(name, side, key._replace(notes=notes), paints, values)


def _shown_links(links: Links, name: str) -> Links:
    return links if name == "behaviour" or len(links) <= MAX_LINKS_BEHIND else ()


def _draw_policies(
    axes: Axes, policies: PolicyTable, places: Array, panel: Panel, links: Links, *, far: bool
) -> bool:
    """Draw a point for each policy, lines between them and names; return whether all have room."""
    from matplotlib.collections import LineCollection

    name, is_large = panel.name, panel.side == COLUMN - 2 * MARGIN
    size = float(np.clip(58.0 * (60.0 / len(policies)) ** 0.6, 2.5, 58.0))
    size = max(2.0, size * (panel.side / 4.7) ** 1.2)
    if len(links := _shown_links(links, name)):  # pale bands, which lines along runs do not hide
        width = float(np.clip(0.55 * np.sqrt(size), 1.0, 4.0))
        looks: dict[str, Any] = {"colors": HAIRLINE, "zorder": 1.5, "capstyle": "round"}
        bands = LineCollection(list(places[np.asarray(links)]), linewidths=width, **looks)
        axes.add_collection(bands, autolim=False)
    if name != "behaviour":
        of_group = policies.group_colours if name == "group" else None
        _draw_runs(axes, policies, places, of_group, size, is_large)
    _draw_points(axes, policies, places, panel, size)
    anchors = _named(policies, places, name) if is_large or name == "behaviour" else {}
    if not anchors:
        return len(policies.group_colours) < 2
    numbers, colours = list(anchors.values()), [INK] * len(anchors)
    if name == "group":
        colours = [policies.group_colours.get(policies[i].group, INK) for i in numbers]
    found = label_points(
        axes,
        places[numbers],
        literals(list(anchors), 26),
        colours,
        places,
        np.sqrt(size) / 2 + 1.0,
        "bold" if name == "behaviour" else "normal",
        far=far and is_large,
    )
    return found == len(anchors)


def _crowd(policies: PolicyTable, places: Array, limits: Array, name: str, side: float) -> Panel:
    """Choose the colours of cells: a mean, the commonest group or class, or the number."""
    from matplotlib.colors import to_rgba, to_rgba_array

    # A cell is about as large as the smallest point, and at 50 dots an inch and its multiples a
    # whole number of dots, which packs well.
    across = round(50 * side)
    up = max(1, round(across * float(np.ptp(limits[1]) / np.ptp(limits[0]))))
    own = np.array([not row.reference for row in policies])
    at = (places - limits[:, 0]) / np.ptp(limits, axis=1) * (across, up)
    column, row = np.clip(at.astype(np.intp), 0, (across - 1, up - 1)).T
    cell, n_cells = row * across + column, across * up

    def sums(which: NDArray[np.bool_], values: Array | None = None) -> Array:
        weights = None if values is None else values[which]
        return np.bincount(cell[which], weights, n_cells).astype(np.float64)

    there = sums(own)
    colours = np.zeros((n_cells, 4))  # transparent
    colours[sums(~own) > 0] = to_rgba(REFERENCE_COLOUR)
    colours[there > 0] = to_rgba(LONE_COLOUR)
    if name in ("group", "behaviour"):
        of_name: dict[Any, str] = dict(
            policies.group_colours if name == "group" else policies.class_colours
        )
        number = {name: k for k, name in enumerate(of_name)}
        value, n = COLOURINGS[name].value, len(number) + 1
        numbers = np.array([number.get(value(row), n - 1) for row in policies])
        codes, counts = np.unique(cell[own] * n + numbers[own], return_counts=True)
        # Written in the order of the counts, the largest stays; of equal ones the first number.
        codes = codes[np.lexsort((-codes, counts))]
        table = to_rgba_array([*of_name.values(), LONE_COLOUR])
        colours[codes // n] = table[codes % n]
        key = Key(_group_entries(policies) if name == "group" else _class_entries(policies, 5))
    else:
        values = np.full(n_cells, np.nan)
        if name == "density":
            values[there > 0] = there[there > 0]
        else:
            of_policies = _values(policies, name)
            known = ~np.isnan(of_policies)
            np.divide(sums(known, of_policies), sums(known), out=values, where=sums(known) > 0)
        known = ~np.isnan(values)
        scale = _scale(values, name, 20)
        colours[known] = scale(values[known])
        unknown = bool((~known & (there > 0)).any())
        key = Key(scale=scale, notes=[f"grey: {COLOURINGS[name].unknown}"] * unknown)
    return Panel(name, side, key, colours.reshape(up, across, 4), there)


def _values(policies: PolicyTable, colour: str) -> Array:
    """Numbers to colour by; NaN where they are not known, or the policy is there for context."""
    value = COLOURINGS[colour].value
    values = np.array([np.nan if row.reference else value(row) for row in policies], np.float64)
    values[~np.isfinite(values)] = np.nan
    return values


def _scale(values: Array, colour: str, steps: int) -> Scale:
    """Choose a scale in so many steps; numbers and far training steps have a logarithmic one."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    known = values[~np.isnan(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    least = float(known[known > 0].min(initial=np.inf))
    is_wide = colour == "density" or (colour == "step" and high > WIDE * least)
    if low == high:
        low, high = (low / 2, high * 2) if is_wide else (low - 0.5, high + 0.5)
    shades = np.linspace(*COLOURINGS[colour].ends, steps)
    colours = ListedColormap(colormaps[COLOURINGS[colour].scale](shades))
    return Scale(colours, low, high, least if is_wide else 0.0)


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
    panel: Panel,
    size: float,
) -> None:
    values, paints = panel.values, panel.paints
    reference = np.array([row.reference for row in policies])
    has_step = np.array([row.step is not None for row in policies])
    edged = size > 12

    def scatter(which: NDArray[Any], **looks: Any) -> None:
        if len(places[which]):
            # As shapes, a crowd would make SVG and PDF large.
            axes.scatter(*places[which].T, rasterized=len(policies) > CROWD, **looks)

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
            linewidths=0.8 if edged else 0.5,
            **looks,
        )
        known = np.flatnonzero(part & ~np.isnan(values))
        if panel.name == "return":  # the best on top
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


def _draw_runs(
    axes: Axes,
    policies: PolicyTable,
    places: Array,
    of_group: dict[str, str] | None,
    size: float,
    is_large: bool,
) -> None:
    """Join the checkpoints of each run: a ring at the first, an arrow head at the last."""
    from matplotlib.collections import LineCollection

    runs = policies.runs
    if not runs or len(runs) > MAX_LINES:
        return
    few = is_large and len(runs) <= MAX_ARROWS and len(policies) <= MAX_SIGNED
    lines = [places[numbers] for numbers in runs.values()]
    colours = [of_group[name] if of_group else "#8C959F" for name in runs]
    axes.add_collection(
        LineCollection(
            lines,
            colors=colours,
            linewidths=1.0 if few else 0.5,
            alpha=0.65 if few else 0.3 if len(policies) > MAX_SIGNED else 0.5,
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


def _draw_key(figure: Figure, panel: Panel, left: float, bottom: float) -> None:
    """Draw entries or a scale, and notes, below a panel; places are in inches."""
    key, side = panel.key, panel.side
    height = key.height(side)
    axes = axes_at(figure, left, bottom - height, side, height)
    quiet_axes(axes, frame=False)
    axes.set(xlim=(0, side), ylim=(height, 0))  # inches from the upper left corner
    axes.patch.set_visible(False)
    starts, down = key.columns(side), 0.1
    for k, (words, paint, marker) in enumerate(key.entries):
        column = sum(k >= start for start in starts) - 1
        x, y = column * side / max(1, len(starts)), down + LINE * (k - starts[column] + 0.5)
        looks: dict[str, Any] = {"c": paint, "linewidths": 1.0 if marker == "x" else 0.0}
        if paint == _HOLLOW:
            looks = {"facecolors": "white", "edgecolors": LONE_COLOUR, "linewidths": 0.8}
        if paint != "none":
            axes.scatter([x + 0.06], [y], s=34, marker=marker, **looks)
        x += 0.17 * (paint != "none")
        axes.text(x, y, words, va="center_baseline", fontsize=SMALL, color=INK)
    down += 0.04 + LINE * (starts[1] if len(starts) > 1 else len(key.entries))
    if key.scale:
        _draw_scale(axes, key.scale, side, down, panel.name)
        down += 0.38
    for k, line in enumerate(note_lines(key.notes, side)):
        axes.text(0, down + LINE * k, line, va="top", fontsize=SMALL, color=MUTED)


def _draw_scale(key: Axes, scale: Scale, side: float, down: float, colour: str) -> None:
    """Draw a horizontal colour bar, and as many ticks as have room."""
    low, high = scale.place(scale.low), scale.place(scale.high)
    key.imshow(
        np.linspace(0, 1, 256)[None, :],
        aspect="auto",
        cmap=scale.colours,
        extent=(0, side, down + 0.14, down),
    )
    key.set(xlim=(0, side), ylim=(key.get_ylim()[0], 0))
    free = -1.0
    for tick in scale.ticks:
        words = f"{tick:g}" if colour == "return" else short_number(tick)
        half = text_width(words) / 2
        x = float(np.clip((scale.place(tick) - low) / (high - low) * side, half, side - half))
        if x - half > free:
            free = x + half + 0.08
            key.text(x, down + 0.19, words, ha="center", va="top", fontsize=SMALL, color=MUTED)


def _group_entries(policies: PolicyTable, legend: bool = True) -> list[Entry]:
    """List groups, policies of none and reference policies; groups that do not fit are counted."""
    own = policies.compared
    others = []
    if any(not row.group for row in own):
        with_steps = any(row.step is not None for row in own)
        others.append(("no run", LONE_COLOUR, "D" if with_steps else "o"))
    others += _reference_entry(policies)
    of_group = policies.group_colours
    names = literals(without_shared_folder(list(of_group)), 26)
    entries = [(name, paint, "o") for name, paint in zip(names, of_group.values(), strict=True)]
    room = MAX_COLOURS - len(others)
    if len(entries) > room:
        entries[room - 1 :] = [(f"… and {thousands(len(names) - room + 1)} more", "none", "o")]
    return entries * legend + others


def _class_entries(policies: PolicyTable, room: int) -> list[Entry]:
    """List the largest behaviour classes; the rest is counted."""
    sizes, colours = policies.class_sizes, policies.class_colours
    named = list(colours)[:MAX_CLASS_COLOURS]
    alone = len(sizes) - len(colours)
    unknown = sum(row.behaviour is None for row in policies)
    others = [(f"{thousands(alone)} like no other", _HOLLOW, "o")] if alone else []
    if unknown:
        others.append((f"{thousands(unknown)} not known", MUTED, "x"))
    others += _reference_entry(policies)
    n_named = min(len(named), room - len(others) - (len(colours) > room - len(others)))
    entries = [
        (f"{number}: {n_policies(sizes[number])}", colours[number], "o")
        for number in named[:n_named]
    ]
    if more := len(colours) - n_named:
        grey = n_named == len(named)
        entries.append((f"+ {thousands(more)} smaller", LONE_COLOUR if grey else "none", "o"))
    return [*entries, *others]


def _reference_entry(policies: PolicyTable) -> list[Entry]:
    return [("reference", REFERENCE_COLOUR, "o")] if any(row.reference for row in policies) else []
