"""Maps of policies in training: by algorithm and environment, and all algorithms on one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.figures import INK, MUTED, add_key, axes_at, quiet_axes
from pivec.text import thousands
from reproduction.described import Described
from reproduction.evolution.page import NAMES
from reproduction.panels import add_labels, add_title, line, no_frame, panel_grid
from reproduction.published import Array, scaled_return, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"ppo": "#0072B2", "a2c": "#56B4E9", "neat": "#D55E00", "cmaes": "#E69F00"}
OTHERS = "#E3E7EB"
CROWD = 3000  # more points than this are drawn with hard edges, for the size of the file


@dataclass(frozen=True, eq=False)
class Map:
    """The policies of an environment, and where they lie, (n, 2)."""

    policies: Described
    positions: Array

    def of(self, algorithm: str) -> NDArray[np.bool_]:
        """Tell which policies an algorithm made."""
        return np.char.startswith(self.policies.groups, f"{algorithm}-")

    @property
    def point_size(self) -> float:
        """How large a policy is drawn."""
        return float(np.clip(3000.0 / max(1, len(self.positions)), 1.2, 14.0))

    @property
    def crisp(self) -> bool:
        """Whether there are few enough policies to draw them with soft edges."""
        return len(self.positions) <= CROWD


def evolution_figure(maps: Mapping[str, Map]) -> Figure:
    """Draw rows of algorithms and columns of environments, coloured by return."""
    total = sum(len(drawn.positions) for drawn in maps.values())
    heading = (
        "Policies during training, by the states they visit",
        f"{thousands(total)} policies, t-SNE of supervectors; grey: the other algorithms",
    )
    shape, margins = (len(NAMES), len(maps)), (0.95, 0.3, 1.3, 0.75)
    figure, panel = panel_grid(heading, shape, (2.15, 2.15), (0.14, 0.14), margins, 7.2)
    for j, (environment, drawn) in enumerate(maps.items()):
        for i, (algorithm, name) in enumerate(NAMES.items()):
            axes = panel(i, j)
            _draw_algorithm(axes, drawn, algorithm, environment)
            if i == 0:
                add_title(axes, short(environment), "center")
            if j == 0:
                add_labels(axes, y=name, fontsize=11.5, fontweight="bold", color=INK)
    _add_scale(axes_at(figure, 0.95, 0.38, 2.6, 0.13))
    return figure


def _draw_algorithm(axes: Axes, drawn: Map, algorithm: str, environment: str) -> None:
    mine, policies = drawn.of(algorithm), drawn.policies
    x, y = drawn.positions.T
    style: dict[str, Any] = {"linewidths": 0, "antialiased": drawn.crisp}
    axes.scatter(x[~mine], y[~mine], s=0.6 * drawn.point_size, c=OTHERS, **style)
    if algorithm in ("ppo", "a2c") and drawn.crisp:
        for group in np.unique(policies.groups[mine]):
            rows = policies.rows(group)
            axes.plot(x[rows], y[rows], color="#8C959F", linewidth=0.6, alpha=0.6)
    share = np.clip(scaled_return(environment, policies.returns[mine]), 0, 1)
    best_last = np.argsort(share, kind="stable")
    axes.scatter(
        x[mine][best_last],
        y[mine][best_last],
        s=drawn.point_size,
        c=share[best_last],
        cmap=_colours(drawn.crisp),
        vmin=0,
        vmax=1,
        zorder=3,
        **style,
    )
    _frame(axes, drawn.positions)


def _colours(smooth: bool) -> Any:
    """Viridis without its palest, in few steps for a crowd, which packs well."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps["viridis"](np.linspace(0, 0.95, 256 if smooth else 12)))


def _frame(axes: Axes, positions: Array) -> None:
    """Show all points of the environment in a square."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    middle, half = (low + high) / 2, max(float((high - low).max()) / 2, 1e-9) * 1.06
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
    axes.set_aspect("equal")
    quiet_axes(axes)


def _add_scale(bar: Axes) -> None:
    bar.imshow(np.linspace(0, 1, 256)[None, :], aspect="auto", cmap=_colours(True))
    bar.set_yticks([])
    bar.set_xticks([0, 255], ["least return", "most return"])
    bar.tick_params(length=0, labelsize=9, labelcolor=MUTED, pad=2)
    least, most = bar.get_xticklabels()
    least.set_horizontalalignment("left")
    most.set_horizontalalignment("right")
    no_frame(bar)


def algorithms_figure(maps: Mapping[str, Map]) -> Figure:
    """Draw one map for each environment, coloured by algorithm."""
    heading = (
        "Which algorithm goes where",
        "The same maps, coloured by the algorithm that made a policy",
    )
    margins = (0.28, 0.28, 1.35, 0.25)
    figure, panel = panel_grid(heading, (1, len(maps)), (2.6, 2.6), (0.14, 0.14), margins, 7.2)
    for j, (environment, drawn) in enumerate(maps.items()):
        axes = panel(0, j)
        # In a random order, so that no algorithm covers another.
        order = np.random.default_rng(0).permutation(len(drawn.positions))
        x, y = drawn.positions[order].T
        axes.scatter(
            x,
            y,
            s=drawn.point_size,
            c=[COLOURS[group.rpartition("-")[0]] for group in drawn.policies.groups[order]],
            linewidths=0,
            alpha=0.85 if drawn.crisp else None,
            antialiased=drawn.crisp,
        )
        _frame(axes, drawn.positions)
        add_title(axes, short(environment), "center")
    add_key(figure, [line(NAMES[name], COLOURS[name], "none", marker="o") for name in COLOURS])
    return figure
