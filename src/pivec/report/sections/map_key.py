"""What stands below a panel of the map: a scale or a legend, and what the signs mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pivec.canvas import INK, LONE_COLOUR, MUTED, REFERENCE_COLOUR, literals, quiet_axes
from pivec.report.data import PolicyRow, colours_of_groups, compared
from pivec.report.sections.map_classes import MAX_CLASS_COLOURS, class_colours, class_sizes
from pivec.text import n_policies, short_number, thousands, without_shared_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Colouring(NamedTuple):
    """What points are coloured by: names, or numbers along a scale."""

    title: str
    value: Callable[[PolicyRow], Any]
    scale: str = ""  # of matplotlib
    ends: tuple[float, float] = (0.0, 1.0)  # the part of it that can be seen on white
    unknown: str = ""


COLOURINGS = {
    "return": Colouring(
        "Mean return", lambda row: row.mean_return, "viridis", unknown="no return known"
    ),
    "group": Colouring("Group", lambda row: row.group),
    "step": Colouring(
        "Training step", lambda row: row.step, "plasma", (0.0, 0.9), unknown="no training step"
    ),
    "behaviour": Colouring("Behaviour class", lambda row: row.behaviour),
    "density": Colouring("How many policies", lambda _: 1, "YlGnBu", (0.25, 1.0)),
}
# Entries of the legend of groups; the rest is counted.
KEY_ROWS = 5
LEGEND_ENTRIES = 3 * KEY_ROWS
# Hollow, a sign that classes of one policy and unknown values share.
_HOLLOW = "hollow"

Entry = tuple[str, str, str]  # words, colour and marker


def empty_key(key: Axes) -> None:
    """Prepare the axes for a key: coordinates from 0 to 1, and no frame."""
    quiet_axes(key, frame=False)
    key.set_xlim(0, 1)
    key.set_ylim(0, 1)
    key.patch.set_visible(False)


def draw_note(key: Axes, signs: dict[str, bool]) -> None:
    """Say in the last line what signs mean, as far as they are there."""
    note = " · ".join(sign for sign, there in signs.items() if there)
    key.text(0.0, 0.02, note, fontsize=8.5, color=MUTED)


def draw_scale(key: Axes, scale: Any, ends: tuple[float, float], colour: str) -> None:
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


def draw_group_key(key: Axes, rows: Sequence[PolicyRow]) -> None:
    """Draw a legend of groups in columns; groups that do not fit are counted."""
    own = compared(rows)
    others = []
    if any(not row.group for row in own):
        with_steps = any(row.step is not None for row in own)
        others.append(("no run", LONE_COLOUR, "D" if with_steps else "o"))
    others += _reference_entry(rows)
    of_group = colours_of_groups(rows)
    names = without_shared_folder(list(of_group))
    entries = [(name, paint, "o") for name, paint in zip(names, of_group.values(), strict=True)]
    room = LEGEND_ENTRIES - len(others)
    if len(entries) > room:
        entries[room - 1 :] = [(f"… and {thousands(len(names) - room + 1)} more", "none", "o")]
    _draw_entries(key, entries + others, KEY_ROWS)


def draw_class_key(key: Axes, rows: Sequence[PolicyRow]) -> None:
    """Draw a legend of the largest behaviour classes; the rest is counted."""
    sizes, colours = class_sizes(rows), class_colours(rows)
    named = list(colours)[:MAX_CLASS_COLOURS]
    entries = [(f"{number}: {n_policies(sizes[number])}", colours[number], "o") for number in named]
    more, alone = len(colours) - len(named), len(sizes) - len(colours)
    unknown = sum(row.behaviour is None for row in rows)
    room = 3 * (KEY_ROWS - 1)
    others = [(f"+ {thousands(more)} smaller", LONE_COLOUR, "o")] if more else []
    if alone:
        others.append((f"{thousands(alone)} like no other", _HOLLOW, "o"))
    if unknown:
        others.append((f"{thousands(unknown)} not known", MUTED, "x"))
    others += _reference_entry(rows)
    _draw_entries(key, [*entries[: room - len(others)], *others], KEY_ROWS - 1)


def _reference_entry(rows: Sequence[PolicyRow]) -> list[Entry]:
    return [("reference", REFERENCE_COLOUR, "o")] if any(row.reference for row in rows) else []


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
