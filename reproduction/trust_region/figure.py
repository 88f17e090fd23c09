"""The picture of trust regions: learning curves, and the search for thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.figures import add_heading, axes_at, lined_axes, new_figure
from reproduction.panels import DASHED, DOT_DASHED, DOTTED, Curves, add_labels, draw_learning_curves
from reproduction.trust_region.findings import TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "max-tv": "#0072B2",
    "gaussian": "#009E73",
    "supervector": "#D55E00",
    "visitation": "#E69F00",
    "none": "#59636E",
    "clipped": "#CC79A7",
}
DASHES: Mapping[str, Any] = {
    "max-tv": DASHED,
    "gaussian": DOT_DASHED,
    "supervector": "-",
    "visitation": DASHED,
    "none": DOTTED,
    "clipped": "-",
}


def trust_region_figure(
    curves: Curves,
    sweep: Sequence[Mapping[str, Any]],
    chosen: Mapping[str, float],
    summary: Mapping[str, Mapping[str, Any]],
) -> Figure:
    """Draw the learning curves with their intervals, and the area under them by threshold.

    All are what the recipe keeps as numbers; methods that have a colour are shown.
    """
    width, height, top, bottom = 9.6, 6.6, 1.2, 0.62
    figure = new_figure(width, height)
    add_heading(
        figure,
        "PPO on the dangerous path, its updates stopped by a constraint",
        "Return in training (mean and 95 % interval over paths), and the search for thresholds",
    )
    tall = height - top - bottom
    axes = axes_at(figure, 0.62, bottom, 5.3, tall)
    labels = {
        name: TITLES[name] + (f" ({chosen[name]:g})" if name in chosen else "")
        for name in COLOURS
        if name in curves
    }
    shown = {label: curves[name] for name, label in labels.items()}
    looks = {label: (COLOURS[name], DASHES[name]) for name, label in labels.items()}
    draw_learning_curves(axes, shown, looks, 3, width=1.7, band=0.13)
    axes.set_ylim(bottom=0)
    add_labels(axes, y="mean return, of 25")
    rules = [name for name in COLOURS if name in chosen]
    gap = 0.62
    high = (tall + 0.35 - gap * (len(rules) - 1)) / len(rules)
    for i, rule in enumerate(rules):
        low = bottom + (len(rules) - 1 - i) * (high + gap)
        panel = axes_at(figure, 6.55, low, 2.8, high)
        mine = [entry for entry in sweep if entry["method"] == rule]
        _draw_sweep(panel, rule, mine, chosen[rule], summary["none"]["area"][0])
    return figure


def _draw_sweep(
    axes: Axes, rule: str, entries: Sequence[Mapping[str, Any]], chosen: float, none: float
) -> None:
    thresholds = np.array([entry["threshold"] for entry in entries])
    mean, low, high = np.array([entry["area"] for entry in entries]).T
    places = np.arange(len(thresholds))
    axes.axhline(none, color=COLOURS["none"], linestyle=DASHES["none"], linewidth=1.0, zorder=1)
    axes.vlines(places, low, high, color=COLOURS[rule], alpha=0.4, linewidth=2.4)
    axes.plot(places, mean, color=COLOURS[rule], marker="o", markersize=3.4, linewidth=1.0)
    best = thresholds.tolist().index(chosen)
    axes.plot(best, mean[best], marker="o", markersize=7.5, color=COLOURS[rule], zorder=3)
    shown = places[:: -(-len(places) // 10)]  # so that their numbers do not overlap
    axes.set_xticks(shown, [f"{value:g}".lstrip("0") for value in thresholds[shown]])
    axes.set_ylim(0, 1.1 * max(none, high.max()))
    axes.set_title(
        f"{TITLES[rule][0].upper()}{TITLES[rule][1:]}, mean return by threshold",
        loc="left",
        fontsize=9.5,
        color=COLOURS[rule],
        pad=3,
    )
    lined_axes(axes, 8.5)
