"""The distance travelled along each run, as a figure and as a drawing for the page."""

from __future__ import annotations

import html
import math
import os
from collections.abc import Sequence

import numpy as np

from pivec.errors import UsageError
from pivec.report.canvas import (
    HAIRLINE,
    MUTED,
    add_heading,
    literal,
    new_figure,
    save_png,
)
from pivec.report.colours import group_colours
from pivec.report.text import rounded, short_number, without_shared_folder
from pivec.terminal import printable, shortened

Travel = Sequence[tuple[str, Sequence[int], Sequence[float]]]

# With more runs than this, names at the ends of the lines would cover each other.
MAX_NAMES = 24
SVG_NAME = 'aria-label="Distance travelled along each run by training step"'


def draw_travel(
    path: str | os.PathLike[str], travel: Travel, *, title: str = "Distance travelled"
) -> None:
    """Draw how far each run has come, by training step, as a PNG file of at most 300 kB.

    Parameters
    ----------
    path : path
    travel : sequence of (group, steps, cumulative distances)
    title : str

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "travel.png"
    >>> draw_travel(path, [("run", [0, 100, 200], [0.0, 1.0, 1.5])])
    >>> path.stat().st_size < 300_000
    True
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    if not travel:
        raise UsageError("the distance travelled needs at least one run.")
    named = len(travel) <= MAX_NAMES
    names = without_shared_folder([name for name, _, _ in travel])
    right = 0.4 + 0.075 * max(min(len(name), 30) for name in names) if named else 0.3
    width, height, left, top, bottom = 6.6 + right, 4.6, 0.75, 0.75, 0.6
    figure = new_figure(width, height)
    add_heading(figure, title, "sum of the distances between successive checkpoints")
    axes = figure.add_axes(
        (left / width, bottom / height, 1 - (left + right) / width, 1 - (top + bottom) / height)
    )
    colours = group_colours(len(travel))
    ends = []
    for (_, steps, distances), colour in zip(travel, colours, strict=True):
        axes.plot(
            steps,
            distances,
            color=colour,
            linewidth=1.6 if named else 0.7,
            alpha=1.0 if named else 0.5,
            marker="o" if named else "",
            markersize=3.2,
        )
        ends.append(float(distances[-1]) if len(distances) else 0.0)
    axes.set_ylim(0, max([*ends, 0.0]) * 1.05 or 1.0)
    axes.margins(x=0.02)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.set_xlabel("training step", color=MUTED, fontsize=9.5)
    axes.set_ylabel("distance travelled", color=MUTED, fontsize=9.5)
    axes.tick_params(length=0, labelsize=9, labelcolor=MUTED)
    axes.grid(axis="y", color=HAIRLINE, linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(HAIRLINE)
    if named:
        low, high = axes.get_ylim()
        plot_inches = height - top - bottom
        spots = spread_out(
            [(end - low) / (high - low) * plot_inches for end in ends],
            0.165,
            lowest=0.0,
            highest=plot_inches,
        )
        for name, spot, colour, (_, steps, _) in zip(names, spots, colours, travel, strict=True):
            if len(steps):
                axes.text(
                    1.015,
                    spot / plot_inches,
                    literal(name, 30),
                    transform=axes.transAxes,
                    va="center",
                    fontsize=9,
                    color=colour,
                )
    save_png(figure, path)


def spread_out(
    heights: Sequence[float],
    gap: float,
    *,
    lowest: float = -math.inf,
    highest: float = math.inf,
) -> list[float]:
    """Move labels as little as need be so that they keep a distance from each other.

    They stay between ``lowest`` and ``highest``, unless there are too many.

    Examples
    --------
    >>> spread_out([1.0, 1.0, 5.0], 1.0)
    [0.5, 1.5, 5.0]
    """
    order = np.argsort(np.asarray(heights, dtype=np.float64), kind="stable")
    # Pools of labels that touch; each is centred on the mean of where its labels want to be.
    pools: list[tuple[float, int]] = []
    for i in order:
        center, count = min(max(float(heights[i]), lowest), highest), 1
        while pools and center - pools[-1][0] < gap * (count + pools[-1][1]) / 2:
            before, many = pools.pop()
            center = (center * count + before * many) / (count + many)
            count += many
            # A pool that leans over an end is moved back in.
            half = gap * (count - 1) / 2
            center = max(min(center, highest - half), lowest + half)
        pools.append((center, count))
    placed = [center + gap * (k - (count - 1) / 2) for center, count in pools for k in range(count)]
    result = [0.0] * len(heights)
    for i, spot in zip(order, placed, strict=True):
        result[i] = spot
    return result


def travel_svg(travel: Travel, colours: Sequence[str]) -> str:
    """Draw the same lines as an SVG element whose text follows the page's colours.

    Parameters
    ----------
    travel : sequence of (group, steps, cumulative distances)
    colours : sequence of str
        One a run.

    Returns
    -------
    str
        Markup; all names are escaped.
    """
    named = len(travel) <= MAX_NAMES
    width, height, left, top, bottom = 1060.0, 360.0, 58.0, 14.0, 44.0
    names = without_shared_folder([name for name, _, _ in travel])
    longest = max((min(len(name), 26) for name in names), default=0)
    right = 24.0 + (12.0 + 7.0 * longest if named else 0.0)
    last = [float(d[-1]) for _, _, d in travel if len(d)]
    all_steps = [float(s) for _, steps, _ in travel for s in steps]
    y_ticks = round_ticks(0.0, max(last, default=1.0) or 1.0)
    x_low, x_high = min(all_steps, default=0.0), max(all_steps, default=1.0)
    x_ticks = [t for t in round_ticks(x_low, x_high) if x_low <= t <= x_high]
    x_span = (x_high - x_low) or 1.0

    def x(step: float) -> float:
        return left + (step - x_low) / x_span * (width - left - right)

    def y(distance: float) -> float:
        return height - bottom - distance / y_ticks[-1] * (height - top - bottom)

    parts = [f'<svg class="travel" viewBox="0 0 {width:.0f} {height:.0f}" role="img" {SVG_NAME}>']
    for tick in y_ticks:
        parts.append(
            f'<line class="grid" x1="{left}" x2="{width - right}" y1="{y(tick):.1f}" '
            f'y2="{y(tick):.1f}"/><text class="axis" x="{left - 8}" y="{y(tick) + 4:.1f}" '
            f'text-anchor="end">{rounded(tick)}</text>'
        )
    for tick in x_ticks:
        parts.append(
            f'<text class="axis" x="{x(tick):.1f}" y="{height - bottom + 18}" '
            f'text-anchor="middle">{short_number(tick)}</text>'
        )
    parts.append(
        f'<text class="axis" x="{(left + width - right) / 2:.1f}" y="{height - 6}" '
        'text-anchor="middle">training step</text>'
    )
    ends = []
    for (name, steps, distances), colour in zip(travel, colours, strict=True):
        points = [f"{x(s):.1f},{y(d):.1f}" for s, d in zip(steps, distances, strict=True)]
        title = f"<title>{html.escape(printable(name))}</title>"
        parts.append(
            f'<g class="{"run" if named else "run faint"}" style="--run:{colour}">{title}'
            f'<polyline points="{" ".join(points)}"/>'
        )
        if named:
            parts += [
                f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="3"/>' for p in points
            ]
        parts.append("</g>")
        ends.append(y(distances[-1]) if len(distances) else y(0.0))
    if named:
        spots = spread_out(ends, 16, lowest=top, highest=height - bottom)
        for name, colour, spot in zip(names, colours, spots, strict=True):
            label = html.escape(shortened(printable(name), 26))
            parts.append(
                f'<circle style="--run:{colour}" cx="{width - right + 14:.1f}" cy="{spot:.1f}" '
                f'r="4"/><text class="name" x="{width - right + 23:.1f}" y="{spot + 4:.1f}">'
                f"{label}</text>"
            )
    parts.append("</svg>")
    return "".join(parts)


def round_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from at or below ``low`` to at or above ``high``.

    Examples
    --------
    >>> round_ticks(0.0, 0.73)
    [0.0, 0.2, 0.4, 0.6, 0.8]
    """
    span = (high - low) or 1.0
    power = 10.0 ** math.floor(math.log10(span / count))
    size = next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power * count >= span * 0.999)
    first, last = math.floor(low / size + 1e-9), math.ceil(high / size - 1e-9)
    return [float(f"{k * size:.12g}") for k in range(first, max(last, first + 1) + 1)]
