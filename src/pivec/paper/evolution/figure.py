"""Maps of policies in training: by algorithm and environment, and all algorithms on one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.paper.clipping.page import short
from pivec.paper.evolution.page import NAMES
from pivec.paper.published import scaled_return
from pivec.report.canvas import INK, MUTED, add_heading, add_key, new_figure, quiet_axes
from pivec.report.text import thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"ppo": "#0072B2", "a2c": "#56B4E9", "neat": "#D55E00", "cmaes": "#E69F00"}
OTHERS = "#E3E7EB"
CROWD = 3000  # more points than this are drawn with hard edges, for the size of the file


@dataclass(frozen=True, eq=False)
class Places:
    """The policies of an environment: where they lie, and what they are.

    Attributes
    ----------
    positions : (n, 2) array
    returns : (n,) array
    groups : (n,) array of str
        ``ppo-0``, ...
    order : (n,) array
        Environment steps of training, or generations.
    """

    positions: NDArray[np.float64]
    returns: NDArray[np.float64]
    groups: NDArray[np.str_]
    order: NDArray[np.int64]

    def of(self, algorithm: str) -> NDArray[np.bool_]:
        """Tell which policies an algorithm made."""
        return np.char.startswith(self.groups, f"{algorithm}-")


def evolution_figure(maps: Mapping[str, Places]) -> Figure:
    """Draw rows of algorithms and columns of environments, coloured by return."""
    side, gap, left, right, top, bottom = 2.15, 0.14, 0.95, 0.3, 1.3, 0.75
    columns, rows = len(maps), len(NAMES)
    width = max(left + columns * (side + gap) - gap + right, 7.2)
    height = top + rows * (side + gap) - gap + bottom
    figure = new_figure(width, height)
    total = sum(len(one.returns) for one in maps.values())
    add_heading(
        figure,
        "Policies during training, by the states they visit",
        f"{thousands(total)} policies, t-SNE of supervectors; grey: the other algorithms",
    )
    for j, (environment, places) in enumerate(maps.items()):
        for i, algorithm in enumerate(NAMES):
            x = left + j * (side + gap)
            y = bottom + (rows - 1 - i) * (side + gap)
            axes = figure.add_axes((x / width, y / height, side / width, side / height))
            _draw_algorithm(axes, places, algorithm, environment)
            if i == 0:
                axes.set_title(short(environment), fontsize=11.5, fontweight="bold", color=INK)
            if j == 0:
                axes.set_ylabel(NAMES[algorithm], fontsize=11.5, fontweight="bold", color=INK)
    _add_scale(figure, width, height, left)
    return figure


def _draw_algorithm(axes: Axes, places: Places, algorithm: str, environment: str) -> None:
    mine = places.of(algorithm)
    size = _point_size(len(places.returns))
    crisp = len(places.returns) <= CROWD
    x, y = places.positions.T
    axes.scatter(x[~mine], y[~mine], s=0.6 * size, c=OTHERS, linewidths=0, antialiased=crisp)
    if algorithm in ("ppo", "a2c") and crisp:
        for group in np.unique(places.groups[mine]):
            rows = np.flatnonzero(places.groups == group)
            rows = rows[np.argsort(places.order[rows], kind="stable")]
            axes.plot(x[rows], y[rows], color="#8C959F", linewidth=0.6, alpha=0.6)
    share = np.clip(scaled_return(environment, places.returns[mine]), 0, 1)
    best_last = np.argsort(share, kind="stable")
    axes.scatter(
        x[mine][best_last],
        y[mine][best_last],
        s=size,
        c=share[best_last],
        cmap=_colours(crisp),
        vmin=0,
        vmax=1,
        linewidths=0,
        antialiased=crisp,
        zorder=3,
    )
    _frame(axes, places.positions)


def _point_size(n: int) -> float:
    return float(np.clip(3000.0 / max(1, n), 1.2, 14.0))


def _colours(smooth: bool) -> Any:
    """Viridis without its palest, in few steps for a crowd, which packs well."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["viridis"](np.linspace(0, 0.95, 256 if smooth else 12)))


def _frame(axes: Axes, positions: NDArray[np.float64]) -> None:
    """Show all points of the environment in a square."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    middle, half = (low + high) / 2, max(float((high - low).max()) / 2, 1e-9) * 1.06
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
    axes.set_aspect("equal")
    quiet_axes(axes)


def _add_scale(figure: Figure, width: float, height: float, left: float) -> None:
    bar = figure.add_axes((left / width, 0.38 / height, 2.6 / width, 0.13 / height))
    bar.imshow(np.linspace(0, 1, 256)[None, :], aspect="auto", cmap=_colours(True))
    bar.set_yticks([])
    bar.set_xticks([0, 255], ["least return", "most return"])
    bar.tick_params(length=0, labelsize=9, labelcolor=MUTED, pad=2)
    least, most = bar.get_xticklabels()
    least.set_horizontalalignment("left")
    most.set_horizontalalignment("right")
    for spine in bar.spines.values():
        spine.set_visible(False)


def algorithms_figure(maps: Mapping[str, Places]) -> Figure:
    """Draw one map for each environment, coloured by algorithm."""
    from matplotlib.lines import Line2D

    side, gap, left, right, top, bottom = 2.6, 0.14, 0.28, 0.28, 1.35, 0.25
    width = max(left + len(maps) * (side + gap) - gap + right, 7.2)
    height = top + side + bottom
    figure = new_figure(width, height)
    add_heading(
        figure,
        "Which algorithm goes where",
        "The same maps, coloured by the algorithm that made a policy",
    )
    for j, (environment, places) in enumerate(maps.items()):
        box = ((left + j * (side + gap)) / width, bottom / height, side / width, side / height)
        axes = figure.add_axes(box)
        # In a random order, so that no algorithm covers another.
        order = np.random.default_rng(0).permutation(len(places.returns))
        makers = np.array([group.rpartition("-")[0] for group in places.groups])
        axes.scatter(
            places.positions[order, 0],
            places.positions[order, 1],
            s=_point_size(len(order)),
            c=[COLOURS[maker] for maker in makers[order]],
            linewidths=0,
            alpha=0.85 if len(order) <= CROWD else None,
            antialiased=len(order) <= CROWD,
        )
        _frame(axes, places.positions)
        axes.set_title(short(environment), fontsize=11.5, fontweight="bold", color=INK)
    handles = [
        Line2D([], [], color=colour, marker="o", linestyle="none", label=NAMES[name])
        for name, colour in COLOURS.items()
    ]
    add_key(figure, handles)
    return figure
