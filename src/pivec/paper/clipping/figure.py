"""Pictures of the clip ratio: distance travelled and Corr(R, d), and the curves over training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.paper.clipping.page import A2C, short
from pivec.paper.published import published, scaled_return
from pivec.report.canvas import (
    INK,
    MUTED,
    add_heading,
    add_key,
    colour_scale,
    lined_axes,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = Sequence[dict[str, Any]]

MOST_COLUMNS = 7  # of panels side by side
OURS, BASELINE, PAPER = "#0072B2", "#D55E00", "#9AA4AE"


def clipping_figure(rows: Rows) -> Figure:
    """Draw distance travelled and Corr(R, d) over the clip ratio, the paper's beside ours.

    Parameters
    ----------
    rows : sequence of mappings
        One a run, with ``environment``, ``setting``, ``distance`` and ``correlation``.
    """
    environments = list(dict.fromkeys(row["environment"] for row in rows))
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    gap, left, right, top, bottom, between = 0.5, 0.85, 0.3, 1.35, 0.75, 0.42
    n = len(environments)
    side = max(2.35, (7.6 - left - right + gap) / n - gap)
    width = left + n * (side + gap) - gap + right
    height = top + 2 * 2.0 + between + bottom
    figure = new_figure(width, height)
    add_heading(
        figure,
        "The clip ratio of PPO, and how far a policy travels",
        "Distance travelled in training, and its correlation with the return along the way",
    )
    for i, environment in enumerate(environments):
        x = (left + i * (side + gap)) / width
        for j, name in enumerate(("distance", "correlation")):
            y = (bottom + (1 - j) * (2.0 + between)) / height
            axes = figure.add_axes((x, y, side / width, 2.0 / height))
            mine = [row for row in rows if row["environment"] == environment]
            _draw_settings(axes, mine, settings, environment, name)
            if j == 0:
                axes.set_title(short(environment), loc="left", fontsize=11.5, fontweight="bold")
                axes.set_ylim(bottom=0)
            else:
                axes.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
                axes.set_ylim(-1, 1)
                axes.set_yticks([-1, -0.5, 0, 0.5, 1])
                axes.set_xlabel("clip ratio", fontsize=10, color=MUTED)
            axes.set_xticklabels(
                [] if j == 0 else ["A2C" if s == A2C else s.lstrip("0") for s in settings],
                rotation=90 if len(settings) > 8 else 0,
            )
            if i == 0:
                label = "distance travelled" if j == 0 else "Corr(R, d)"
                axes.set_ylabel(label, fontsize=10, color=MUTED)
    _add_key(figure)
    return figure


def _draw_settings(
    axes: Axes, rows: Rows, settings: Sequence[str], environment: str, name: str
) -> None:
    places = np.array([i + (0.5 if s == A2C else 0.0) for i, s in enumerate(settings)])
    theirs = published()["clipping"][name][environment]
    values = [[row[name] for row in rows if row["setting"] == s] for s in settings]
    means = np.array([np.mean(each) for each in values])
    ratio = np.array([s != A2C for s in settings])
    paper = np.array([theirs[s] for s in settings])
    axes.errorbar(
        places + 0.22,
        paper[:, 0],
        paper[:, 1],
        fmt="D",
        markersize=3.6,
        color=PAPER,
        markerfacecolor="white",
        linewidth=1.0,
        zorder=2,
    )
    axes.plot(places[ratio], means[ratio], color=OURS, linewidth=1.8, zorder=3)
    for place, each, setting in zip(places, values, settings, strict=True):
        colour = BASELINE if setting == A2C else OURS
        axes.scatter([place] * len(each), each, s=11, color=colour, alpha=0.55, linewidths=0)
        axes.scatter([place], [np.mean(each)], s=34, color=colour, edgecolors="white", zorder=4)
    axes.set_xticks(places)
    axes.set_xlim(-0.5, places[-1] + 0.6)
    lined_axes(axes, 9)


def _add_key(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=OURS, marker="o", markersize=6, linewidth=1.8, label="PPO, mean"),
        Line2D([], [], color=BASELINE, marker="o", markersize=6, linestyle="none", label="A2C"),
        Line2D([], [], color=OURS, marker="o", markersize=3, linestyle="none", label="a run"),
        Line2D(
            [],
            [],
            color=PAPER,
            marker="D",
            markersize=4,
            markerfacecolor="white",
            linestyle="none",
            label="paper (mean, deviation)",
        ),
    ]
    add_key(figure, handles)


def curves_figure(curves: Rows) -> Figure:
    """Draw return and distance to the next policy over training, for every setting.

    Parameters
    ----------
    curves : sequence of mappings
        One a setting, with ``environment``, ``setting``, ``share`` (n), ``returns`` (n), ``legs``
        (n - 1) and ``chance`` (n - 1), averaged over runs.
    """
    environments = list(dict.fromkeys(row["environment"] for row in curves))
    settings = list(dict.fromkeys(row["setting"] for row in curves))
    columns = len(settings) if len(settings) <= MOST_COLUMNS else -(-len(settings) // 2)
    lines = -(-len(settings) // columns)  # of panels, for each environment
    side, tall, gap, over, left, right, top, bottom = 1.5, 1.15, 0.13, 0.3, 0.95, 0.3, 1.1, 0.62
    width = max(left + columns * (side + gap) + right, 7.6)
    height = top + len(environments) * lines * (tall + over) + bottom
    figure = new_figure(width, height)
    add_heading(
        figure,
        "Change of behaviour, and return, over training",
        "Distance to the next policy, on a logarithmic scale, and return; means over runs",
    )
    shades = dict(zip(settings, _shades(len(settings)), strict=True)) | {A2C: BASELINE}
    for i, environment in enumerate(environments):
        mine = {row["setting"]: row for row in curves if row["environment"] == environment}
        lengths = np.concatenate([row["legs"] for row in mine.values()])
        lengths = lengths[lengths > 0]
        limits = float(np.quantile(lengths, 0.01)) / 2, float(lengths.max()) * 1.5
        for k, setting in enumerate(settings):
            line, j = divmod(k, columns)
            below = len(environments) * lines - 1 - (i * lines + line)
            box = (
                (left + j * (side + gap)) / width,
                (bottom + below * (tall + over)) / height,
                side / width,
                tall / height,
            )
            axes = figure.add_axes(box)
            _draw_curve(axes, mine[setting], shades[setting], limits, environment)
            name = "A2C" if setting == A2C else f"clip {setting}"
            axes.set_title(name, fontsize=9.5, color=shades[setting], fontweight="bold", pad=4)
            if below:
                axes.set_xticklabels([])
            if j > 0:
                axes.set_yticklabels([])
            else:
                axes.set_ylabel(short(environment), fontsize=10, color=INK, fontweight="bold")
    _add_curve_key(figure)
    figure.text(
        (left + columns * (side + gap) / 2) / width,
        0.16 / height,
        "share of training",
        ha="center",
        fontsize=10,
        color=MUTED,
    )
    return figure


def _shades(n: int) -> list[str]:
    """Colours from dark to bright, without the palest, which cannot be seen on white."""
    scale = colour_scale("viridis")
    return [scale[round(k)] for k in np.linspace(0, 12, n)]


def _draw_curve(
    axes: Axes, row: dict[str, Any], colour: str, limits: tuple[float, float], environment: str
) -> None:
    share = np.array(row["share"])
    middle = (share[1:] + share[:-1]) / 2
    axes.set_yscale("log")
    chance = np.maximum(row["chance"], limits[0])
    axes.fill_between(middle, limits[0], chance, color="#E4E8EC", linewidth=0, zorder=1)
    axes.plot(middle, np.maximum(row["legs"], limits[0]), color=colour, linewidth=1.5, zorder=3)
    axes.set_ylim(*limits)
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.5, 1], ["0", "½", "1"])
    axes.minorticks_off()
    lined_axes(axes, 9)
    axes.tick_params(labelsize=8)
    scale: Any = axes.twinx()
    scale.plot(
        share,
        scaled_return(environment, np.array(row["returns"])),
        color=INK,
        linewidth=1.0,
        linestyle=(0, (3, 1.6)),
    )
    scale.set_ylim(-0.05, 1.1)
    scale.set_yticks([])
    for spine in scale.spines.values():
        spine.set_visible(False)


def _add_curve_key(figure: Figure) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Line2D(
            [],
            [],
            color=colour_scale("viridis")[5],
            linewidth=1.8,
            label="distance to the next policy",
        ),
        Patch(color="#E4E8EC", label="what sampling alone gives"),
        Line2D([], [], color=INK, linewidth=1.1, linestyle=(0, (3, 1.6)), label="return, 0 to 1"),
    ]
    add_key(figure, handles)
