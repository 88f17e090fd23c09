"""The picture of trust regions: learning curves, and the search for thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.paper.trust_region.findings import TITLES
from pivec.report.canvas import MUTED, add_curve_key, add_heading, lined_axes, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "max-tv": "#0072B2",
    "gaussian": "#009E73",
    "supervector": "#D55E00",
    "none": "#59636E",
    "clipped": "#CC79A7",
}
DASHES: Mapping[str, Any] = {
    "max-tv": (0, (5, 1.6)),
    "gaussian": (0, (3, 1.2, 1.2, 1.2)),
    "supervector": "-",
    "none": (0, (1.2, 1.2)),
    "clipped": "-",
}


def trust_region_figure(
    curves: Mapping[str, Mapping[str, Sequence[float]]],
    sweep: Sequence[Mapping[str, Any]],
    chosen: Mapping[str, float],
    summary: Mapping[str, Mapping[str, Any]],
) -> Figure:
    """Draw the learning curves with their intervals, and the area under them by threshold.

    Parameters
    ----------
    curves : mapping of method to mapping
        ``steps``, ``mean``, ``low`` and ``high``, one for each iteration; `COLOURS` are shown.
    sweep : sequence of mappings
        ``method``, ``threshold`` and ``area`` (mean, low, high) of every threshold.
    chosen : mapping of method to threshold
    summary : mapping of method to mapping
        ``area`` of "none" is the line to compare with.
    """
    width, height, top, bottom = 9.6, 5.2, 1.2, 0.62
    figure = new_figure(width, height)
    add_heading(
        figure,
        "PPO on the dangerous path, its updates stopped by a constraint",
        "Return in training (mean and 95 % interval over paths), and the search for thresholds",
    )
    tall = height - top - bottom
    axes = figure.add_axes((0.62 / width, bottom / height, 5.3 / width, tall / height))
    for name, colour in COLOURS.items():
        curve = curves[name]
        steps = np.asarray(curve["steps"]) / 1e6
        axes.fill_between(steps, curve["low"], curve["high"], color=colour, alpha=0.13, linewidth=0)
        label = TITLES[name] + (f" ({chosen[name]:g})" if name in chosen else "")
        axes.plot(steps, curve["mean"], color=colour, linestyle=DASHES[name], lw=1.7, label=label)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("environment steps, millions", fontsize=10, color=MUTED)
    axes.set_ylabel("mean return, of 25", fontsize=10, color=MUTED)
    lined_axes(axes)
    add_curve_key(axes, 3)
    rules = [name for name in COLOURS if name in chosen]
    gap = 0.62
    each = (tall + 0.35 - gap * (len(rules) - 1)) / len(rules)
    for i, rule in enumerate(rules):
        low = bottom + (len(rules) - 1 - i) * (each + gap)
        panel = figure.add_axes((6.55 / width, low / height, 2.8 / width, each / height))
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
    axes.set_xticks(places, [f"{value:g}".lstrip("0") for value in thresholds])
    axes.set_ylim(0, 1.1 * max(none, high.max()))
    axes.set_title(
        f"{TITLES[rule][0].upper()}{TITLES[rule][1:]}, mean return by threshold",
        loc="left",
        fontsize=9.5,
        color=COLOURS[rule],
        pad=3,
    )
    lined_axes(axes, 8.5)
