"""Figures: episodes by how far they are from their policy's others, and states outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.canvas import (
    GROUP_PALETTE,
    HAIRLINE,
    INK,
    LONE_COLOUR,
    MUTED,
    add_heading,
    axes_at,
    lined_axes,
    literal,
    literals,
    new_figure,
)
from pivec.text import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pivec.explanations.unusual.outside import Outside
    from pivec.explanations.unusual.result import PolicyEpisodes, Unusual

_MOST, _NAMED = 14, 20  # policies in a figure, and episodes with names
_ROW = 0.46  # inches
_WIDE = 9.6
_GOLDEN = 0.6180339887498949  # multiples of it modulo 1 are spread evenly


def unusual_figure(result: Unusual) -> Figure:
    """Draw a strip of episodes for each policy, by distance, coloured by return."""
    labels = list(dict.fromkeys(row.policy for row in result.episodes))[:_MOST]
    rows = [result.of(label) for label in labels]
    height = 1.85 + _ROW * len(rows)
    figure = new_figure(_WIDE, height)
    subtitle = "Each dot is an episode; 1 is the usual distance from its policy's others"
    where = f" in {result.environment}" if result.environment else ""
    add_heading(figure, f"Unusual episodes{where}", subtitle)
    axes = axes_at(figure, 2.5, 0.75, _WIDE - 4.0, _ROW * len(rows))
    finite = [row.times[np.isfinite(row.times)].max(initial=1.0) for row in rows]
    end = 1.05 * max(finite)
    named = {(row.policy, row.episode) for row in result.episodes[:_NAMED]}
    dots = None
    scale = _return_scale(rows)
    for place, row in enumerate(rows):
        up = place + 0.42 * ((np.arange(len(row.times)) * _GOLDEN) % 1.0 - 0.5)
        across = np.minimum(row.times, end)
        known = np.isfinite(row.returns)
        looks: dict[str, Any] = {"s": 26, "linewidths": 0.4, "edgecolors": "white", "zorder": 3}
        axes.scatter(across[~known], up[~known], color=LONE_COLOUR, **looks)
        if known.any():
            dots = axes.scatter(across[known], up[known], c=row.returns[known], **scale, **looks)
        for episode in np.flatnonzero([(row.policy, e) in named for e in range(len(across))]):
            axes.annotate(
                f"episode {episode}" if episode == row.times.argmax() else f"{episode}",
                (across[episode], up[episode]),
                (5, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
                fontweight="bold",
                color=INK,
            )
    _finish_strips(axes, literals(labels, 34), end)
    if dots is not None:
        bar = figure.colorbar(dots, cax=axes_at(figure, _WIDE - 1.15, 0.75, 0.14, _ROW * len(rows)))
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=8.5, length=2, color=MUTED, labelcolor=INK)
        bar.ax.set_title("return", fontsize=9, color=MUTED, loc="left")
    return figure


def _return_scale(rows: list[PolicyEpisodes]) -> dict[str, Any]:
    """Span the colours over all but the most extreme returns."""
    returns: NDArray[np.float64] = np.concatenate([row.returns for row in rows])
    returns = returns[np.isfinite(returns)]
    if not len(returns):
        return {}
    low, high = np.quantile(returns, (0.02, 0.98))
    return {"cmap": "viridis", "vmin": float(low), "vmax": float(high if high > low else low + 1)}


def _finish_strips(axes: Axes, labels: list[str], end: float) -> None:
    lined_axes(axes)
    axes.grid(visible=False)
    axes.axvline(1.0, color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
    for place in range(len(labels)):
        axes.axhline(place, color=HAIRLINE, linewidth=0.6, zorder=0)
    axes.set_yticks(range(len(labels)), labels, fontsize=9)
    axes.set_ylim(len(labels) - 0.45, -0.55)
    axes.set_xlim(0.0, 1.14 * end)
    axes.set_xlabel("times as far from the policy's others as its usual episode", fontsize=9.5)


def outside_figure(result: Outside) -> Figure:
    """Draw the share of states outside of each policy as a bar."""
    rows = result.policies[:_MOST]
    figure = new_figure(_WIDE, 1.45 + 0.34 * len(rows))
    add_heading(figure, result.headline(), "Share of each policy's states outside of the space")
    axes = axes_at(figure, 2.5, 0.6, _WIDE - 5.6, 0.34 * len(rows))
    shares = [100 * row.share for row in rows]
    colours = [GROUP_PALETTE[4] if row.is_notable else LONE_COLOUR for row in rows]
    axes.barh(range(len(rows)), shares, height=0.62, color=colours)
    for place, row in enumerate(rows):
        words = f"{percent(row.share)}  {literal(row.words, 44)}"
        axes.annotate(words, (shares[place], place), (5, 0), textcoords="offset points",
                      va="center", fontsize=8.5, color=INK)  # fmt: skip
    lined_axes(axes)
    axes.grid(visible=False)
    axes.set_yticks(range(len(rows)), literals([row.policy for row in rows], 34), fontsize=9)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0.0, max([*shares, 1.0]))
    axes.set_xlabel("% of states", fontsize=9.5)
    return figure
