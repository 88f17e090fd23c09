"""Pictures of the clip ratio: distance travelled and Corr(R, d), and the curves over training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.figures import INK, MUTED, add_key, colour_scale, lined_axes
from reproduction.clipping.page import A2C
from reproduction.panels import PAPER, add_labels, add_title, line, no_frame, panel_grid, patch
from reproduction.published import Rows, column, different, published, scaled_return, short, where

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_COLUMNS = 7  # of panels side by side
OURS, BASELINE, CHANCE, VISITS = "#0072B2", "#D55E00", "#E4E8EC", "#009E73"
DASHES: Any = (0, (3, 1.6))


def clipping_figure(rows: Rows) -> Figure:
    """Draw distance travelled and Corr(R, d) over the clip ratio, the paper's beside ours."""
    environments, settings = different(rows, "environment"), different(rows, "setting")
    n, gap, margins = len(environments), 0.5, (0.85, 0.3, 1.35, 0.75)
    wide = max(2.35, (7.6 - 0.85 - 0.3 + gap) / n - gap)
    heading = (
        "The clip ratio of PPO, and how far a policy travels",
        "Distance travelled in training, and its correlation with the return along the way",
    )
    figure, panel = panel_grid(heading, (2, n), (wide, 2.0), (gap, 0.42), margins)
    for j, environment in enumerate(environments):
        mine = where(rows, environment=environment)
        above, below = panel(0, j), panel(1, j)
        for axes, name in ((above, "distance"), (below, "correlation")):
            _draw_settings(axes, mine, settings, published()["clipping"][name][environment], name)
        add_title(above, short(environment))
        above.set_ylim(bottom=0)
        above.set_xticklabels([])
        below.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
        below.set_ylim(-1, 1)
        below.set_yticks([-1, -0.5, 0, 0.5, 1])
        labels = ["A2C" if setting == A2C else setting.lstrip("0") for setting in settings]
        below.set_xticklabels(labels, rotation=90 if len(settings) > 8 else 0)
        add_labels(below, "clip ratio")
        if j == 0:
            add_labels(above, y="distance travelled")
            add_labels(below, y="Corr(R, d)")
    hollow = {"marker": "D", "markersize": 4, "markerfacecolor": "white"}
    handles = [
        line("PPO, mean", OURS, marker="o", markersize=6, linewidth=1.8),
        line("A2C", BASELINE, "none", marker="o", markersize=6),
        line("a run", OURS, "none", marker="o", markersize=3),
        line("visitation, its mean as ours", VISITS, DASHES, linewidth=1.3),
        line("paper (mean, deviation)", PAPER, "none", **hollow),
    ]
    add_key(figure, handles)
    return figure


def _draw_settings(
    axes: Axes, rows: Rows, settings: Sequence[str], theirs: dict[str, list[float]], name: str
) -> None:
    places = np.array([i + (0.5 if s == A2C else 0.0) for i, s in enumerate(settings)])
    runs = [column(rows, name, setting=setting) for setting in settings]
    means = np.array([np.mean(numbers) for numbers in runs])
    ratio = np.array([setting != A2C for setting in settings])
    paper = np.array([theirs[setting] for setting in settings])
    axes.errorbar(places + 0.22, paper[:, 0], paper[:, 1], fmt="D", markersize=3.6, color=PAPER,
                  markerfacecolor="white", linewidth=1.0, zorder=2)  # fmt: skip
    axes.plot(places[ratio], means[ratio], color=OURS, linewidth=1.8, zorder=3)
    visits = np.array([np.mean(column(rows, f"visitation_{name}", setting=s)) for s in settings])
    if name == "distance":
        visits *= means.mean() / visits.mean()
    axes.plot(places, visits, color=VISITS, linewidth=1.3, linestyle=DASHES, zorder=2)
    for place, numbers, mean, ppo in zip(places, runs, means, ratio, strict=True):
        colour = OURS if ppo else BASELINE
        axes.scatter([place] * len(numbers), numbers, s=11, color=colour, alpha=0.55, linewidths=0)
        axes.scatter([place], [mean], s=34, color=colour, edgecolors="white", zorder=4)
    axes.set_xticks(places)
    axes.set_xlim(-0.5, places[-1] + 0.6)
    lined_axes(axes, 9)


def curves_figure(curves: Rows) -> Figure:
    """Draw return and distance to the next policy over training, for every setting."""
    environments, settings = different(curves, "environment"), different(curves, "setting")
    columns = len(settings) if len(settings) <= MOST_COLUMNS else -(-len(settings) // 2)
    lines = -(-len(settings) // columns)  # of panels, for each environment
    shape = len(environments) * lines, columns
    heading = (
        "Change of behaviour, and return, over training",
        "Distance to the next policy, on a logarithmic scale, and return; means over runs",
    )
    margins = (0.95, 0.43, 1.4, 0.62)
    figure, panel = panel_grid(heading, shape, (1.5, 1.15), (0.13, 0.3), margins, 7.6)
    # Colours from dark to bright, without the palest, which cannot be seen on white.
    scale = colour_scale("viridis")
    shades = [scale[round(k)] for k in np.linspace(0, 12, len(settings))]
    for i, environment in enumerate(environments):
        mine = where(curves, environment=environment)
        lengths = np.concatenate(column(mine, "legs"))
        lengths = lengths[lengths > 0]
        limits = float(np.quantile(lengths, 0.01)) / 2, float(lengths.max()) * 1.5
        for k, (curve, shade) in enumerate(zip(mine, shades, strict=True)):
            row, j = i * lines + k // columns, k % columns
            axes = panel(row, j)
            a2c = curve["setting"] == A2C
            colour, name = (BASELINE, "A2C") if a2c else (shade, f"clip {curve['setting']}")
            _draw_curve(axes, curve, colour, limits)
            add_title(axes, name, "center", fontsize=9.5, color=colour, pad=4)
            if row < shape[0] - 1:
                axes.set_xticklabels([])
            if j > 0:
                axes.set_yticklabels([])
            else:
                add_labels(axes, y=short(environment), color=INK, fontweight="bold")
    handles = [
        line("distance to the next policy", scale[5], linewidth=1.8),
        patch("what sampling alone gives", CHANCE),
        line("return, 0 to 1", INK, DASHES, linewidth=1.1),
    ]
    add_key(figure, handles)
    width, height = figure.get_size_inches()
    middle = (0.95 + columns * 1.63 / 2) / width
    figure.text(middle, 0.16 / height, "share of training", ha="center", fontsize=10, color=MUTED)
    return figure


def _draw_curve(
    axes: Axes, curve: dict[str, Any], colour: str, limits: tuple[float, float]
) -> None:
    share = np.array(curve["share"])
    middle = (share[1:] + share[:-1]) / 2
    axes.set_yscale("log")
    chance = np.maximum(curve["chance"], limits[0])
    axes.fill_between(middle, limits[0], chance, color=CHANCE, linewidth=0, zorder=1)
    axes.plot(middle, np.maximum(curve["legs"], limits[0]), color=colour, linewidth=1.5, zorder=3)
    axes.set_ylim(*limits)
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["0", "½", "1"])
    axes.minorticks_off()
    lined_axes(axes, 9)
    axes.tick_params(labelsize=8)
    returns = scaled_return(curve["environment"], np.array(curve["returns"]))
    scale: Any = axes.twinx()
    scale.plot(share, returns, color=INK, linewidth=1.0, linestyle=DASHES)
    scale.set_ylim(-0.05, 1.1)
    scale.set_yticks([])
    no_frame(scale)
