"""Behaviour classes in figures: which there are, and their colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pivec.canvas import LONE_COLOUR, group_colours
from pivec.report.data import PolicyRow

# So many classes have a colour of their own, which readers can still tell apart.
MAX_CLASS_COLOURS = 10


def class_sizes(rows: Sequence[PolicyRow]) -> dict[int, int]:
    """Count the policies of each class, the largest first; those without a class are left out."""
    sizes = Counter(row.behaviour for row in rows if row.behaviour is not None)
    return dict(sorted(sizes.items(), key=lambda item: (-item[1], item[0])))


def class_colours(rows: Sequence[PolicyRow]) -> dict[int, str]:
    """Colour the classes of two or more policies: the largest ones differ, the rest is grey."""
    shared = [number for number, size in class_sizes(rows).items() if size > 1]
    own = group_colours(min(len(shared), MAX_CLASS_COLOURS))
    return dict(zip(shared, own + [LONE_COLOUR] * (len(shared) - len(own)), strict=True))


def classes_differ(rows: Sequence[PolicyRow]) -> bool:
    """Tell whether classes say something: some policies share one, and not all the same."""
    sizes = class_sizes(rows)
    return len(sizes) > 1 and max(sizes.values()) > 1
