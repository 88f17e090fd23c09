"""The map of policies as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.canvas import INK, add_heading, axes_at, new_figure
from pivec.distances import Measured
from pivec.errors import UsageError
from pivec.report.data import PolicyRow, compared
from pivec.report.sections.map_classes import classes_differ
from pivec.report.sections.map_key import COLOURINGS
from pivec.report.sections.map_panel import Joins, draw_panel, is_crowd

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# With more pairs than this their lines would cover the points.
MAX_JOINS = 400
METHOD_NAMES = {
    "tsne": "t-SNE",
    "pca": "principal components",
    "mds": "classical scaling",
    "single": "a single policy",
    "identical": "identical policies",
}


def alike_pairs(measured: Measured) -> Joins:
    """Give pairs to join on the map because they cannot be told apart.

    Of policies that are all alike, so many nearest pairs as join them (a minimal spanning tree);
    none where the lines would cover the map.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    pairs, n = measured.alike, len(measured.neighbours)
    # A length of 0 would mean that there is no line.
    lengths = csr_array((pairs.distance + np.finfo(float).eps, (pairs.i, pairs.j)), shape=(n, n))
    joins = np.argwhere(minimum_spanning_tree(lengths))
    return joins.tolist() if len(joins) <= MAX_JOINS else []


def map_figure(
    rows: Sequence[PolicyRow],
    subtitle: str = "",
    colour: str | None = None,
    joins: Joins = (),
    two_rows: bool = False,
) -> Figure:
    """Draw a map of policies.

    Checkpoints of a run are joined in order of step, from a ring to an arrow head; policies
    without a training step are diamonds; reference policies are small and grey. Without a colour,
    "return", "group", "step", "behaviour" or "density", there is a panel for each of the first four
    that tells policies apart. Pale bands join the pairs of ``joins``, which cannot be told apart.
    Of more than 20 000 policies it is drawn what lies at each spot, and how many there. Four panels
    stand in one row, or in ``two_rows``, for a page.
    """
    if colour is not None and colour not in COLOURINGS:
        raise UsageError(f"colour must be one of {', '.join(COLOURINGS)}, but is {colour!r}")
    if not rows:
        raise UsageError("a map must have at least one policy, but has none")
    colours = [colour] if colour is not None else _panels(rows)
    across = 2 if two_rows and len(colours) > 3 else len(colours)
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
            _panel_title(name, is_crowd(rows)),
            va="center",
            fontsize=11,
            fontweight="bold",
            color=INK,
        )
        key_axes = axes_at(figure, left, bottom - key + 0.12, side, key - 0.24)
        draw_panel(axes, key_axes, rows, name, joins)
    return figure


def informative_colourings(rows: Sequence[PolicyRow]) -> list[str]:
    """Colourings under which policies differ; ``group`` where there is none."""
    own = compared(rows)
    different: dict[str, set[Any]] = {
        "return": {row.mean_return for row in own if math.isfinite(row.mean_return)},
        "group": {row.group for row in own},
        "step": {row.step for row in own if row.step is not None},
    }
    return [name for name, values in different.items() if len(values) > 1] or ["group"]


def _panels(rows: Sequence[PolicyRow]) -> list[str]:
    """Panels of the figure: what tells policies apart, and how many there are of a crowd."""
    extra = ["behaviour"] * classes_differ(rows) + ["density"] * is_crowd(rows)
    return [*informative_colourings(rows), *extra]


def _panel_title(colour: str, crowd: bool) -> str:
    """Name a panel; of a crowd, say what is shown at each spot."""
    shown = {"return": "Mean return at each spot", "step": "Mean training step at each spot"}
    shown |= {
        "group": "Commonest group at each spot",
        "behaviour": "Commonest behaviour class at each spot",
    }
    shown["density"] = "Policies at each spot"
    return shown[colour] if crowd else COLOURINGS[colour].title
