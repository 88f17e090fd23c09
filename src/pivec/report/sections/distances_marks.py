"""Signs around the matrix of distances: groups, behaviour classes, and what signs mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pivec.canvas import INK, LONE_COLOUR, MUTED, group_colours
from pivec.policies.paths import natural_key

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
