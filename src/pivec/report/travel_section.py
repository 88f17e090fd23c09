"""The distance travelled along each run, as lines and as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pivec.figures import (
    LONE_COLOUR,
    MUTED,
    add_heading,
    add_key,
    axes_at,
    lined_axes,
    literals,
    new_figure,
)
from pivec.report.findings import ReportData, colours_of_groups
from pivec.report.markup import (
    MAX_ROWS,
    count_cell,
    cut_note,
    dot,
    filled,
    number_cell,
    paper_note,
    section,
    shown_text,
    table,
)
from pivec.statistics import Travel
from pivec.statistics.measure import LEVEL
from pivec.text import percent, rounded, short_number, told_apart, without_shared_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

ABOUT = (
    '<p class="about">The sum of the distances between successive checkpoints of a run: how much '
    "its behaviour changed on the way, which may be far more than from start to end.{}</p>"
)
HEADS = (
    "Run", "Checkpoints", "First step", "Last step", "Distance travelled", "Mean a checkpoint",
)  # fmt: skip
# With more lines than this, names at their ends would cover each other.
MAX_LINES = 24
MAX_NAMES = 5  # that stand in one line under the heading of a figure
FARTHEST = f"Drawn are the {MAX_LINES} runs that travelled farthest."
BAND = (
    " What chance adds to each step has been taken off, and a run that only looks as if it moved "
    f"stays near 0. ± and the bands are {percent(LEVEL)} intervals."
)
SVG_NAME = 'aria-label="Distance travelled along each run by training step"'


def travel_section(report: ReportData) -> str:
    """Show how far each run has come, by training step; without its script, of some runs."""
    travels = sorted(report.measured.travels, key=lambda run: -run.total)
    if not travels:
        return ""
    known = colours_of_groups(report.rows)
    colours = [known.get(run.group, "var(--lone)") for run in travels]
    lines = (_line(run, colour) for run, colour in zip(travels[:MAX_ROWS], colours, strict=False))
    runs = table(HEADS, range(1, 6), lines, ' class="sortable"')
    drawn = travel_svg(travels[:MAX_LINES], colours[:MAX_LINES])
    drawn += f'<p class="note">{FARTHEST}</p>' if len(travels) > MAX_LINES else ""
    return section(
        "travel",
        "Distance travelled",
        ABOUT.format(BAND if any(run.half_widths is not None for run in travels) else ""),
        filled("travel.html", {"picture": drawn}),
        f'<div class="scroll tall">{runs}</div>',
        cut_note(len(travels), "runs"),
        paper_note(len(travels), "runs"),
    )


def _line(run: Travel, colour: str) -> str:
    n, mean = len(run.steps), run.total / (len(run.steps) - 1)
    total = rounded(run.total, 3)
    if run.half_widths is not None:
        total += f' <span class="pm">± {rounded(float(run.half_widths[-1]), 2)}</span>'
    return (
        f'<tr><th scope="row">{dot(colour)}{shown_text(run.group)}</th>'
        f"{number_cell(str(n), n)}"
        f"{count_cell(run.steps[0])}{count_cell(run.steps[-1])}"
        f"{number_cell(total, run.total)}{number_cell(rounded(mean, 3), mean)}</tr>"
    )


def travel_svg(travels: Sequence[Travel], colours: Sequence[str]) -> str:
    """Draw a line a run as an SVG element whose text follows the page's colours."""
    names = told_apart(without_shared_folder([run.group for run in travels]), 26)
    width, height, left, top, bottom = 1060.0, 360.0, 58.0, 14.0, 44.0
    right = 36.0 + 7.0 * max(len(name) for name in names)
    steps = [float(step) for run in travels for step in run.steps]
    first, last = min(steps), max(steps)
    ticks = round_ticks(0.0, max(_band(run)[1].max() for run in travels) or 1.0)

    def x(step: float) -> float:
        return left + (step - first) / ((last - first) or 1.0) * (width - left - right)

    def y(distance: float) -> float:
        return height - bottom - distance / ticks[-1] * (height - top - bottom)

    def text(x: float, y: float, shown: str, anchor: str = "middle") -> str:
        return f'<text class="axis" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{shown}</text>'

    parts = [f'<svg class="travel" viewBox="0 0 {width:.0f} {height:.0f}" role="img" {SVG_NAME}>']
    for tick in ticks:
        at = f'x1="{left}" x2="{width - right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"'
        parts.append(f'<line class="grid" {at}/>')
        parts.append(text(left - 8, y(tick) + 4, rounded(tick), "end"))
    for tick in round_ticks(first, last):
        if first <= tick <= last:
            parts.append(text(x(tick), height - bottom + 18, short_number(tick)))
    parts.append(text((left + width - right) / 2, height - 6, "training step"))
    for run, colour in zip(travels, colours, strict=True):
        points = [(x(s), y(d)) for s, d in zip(run.steps, run.cumulative.tolist(), strict=True)]
        dots = (f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in points)
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        band = ""
        if run.half_widths is not None:
            low, high = (
                [f"{x(s):.1f},{y(d):.1f}" for s, d in zip(run.steps, end.tolist(), strict=True)]
                for end in _band(run)
            )
            band = f'<polygon class="band" points="{" ".join(low + high[::-1])}"/>'
        parts.append(
            f'<g class="run" style="--run:{colour}"><title>{shown_text(run.group)}</title>'
            f'{band}<polyline points="{line}"/>{"".join(dots)}</g>'
        )
    spots = spread_out([y(run.total) for run in travels], 16, top, height - bottom)
    for run, name, colour, spot in zip(travels, names, colours, spots, strict=True):
        whole = "" if name == run.group else f"<title>{shown_text(run.group)}</title>"
        parts.append(
            f'<circle style="--run:{colour}" cx="{width - right + 14:.1f}" cy="{spot:.1f}" '
            f'r="4"/><text class="name" x="{width - right + 23:.1f}" y="{spot + 4:.1f}">'
            f"{shown_text(name)}{whole}</text>"
        )
    return "".join([*parts, "</svg>"])


def travel_figure(runs: Sequence[Travel], colours: Mapping[str, str], subtitle: str = "") -> Figure:
    """Draw a line a run, for a notebook; the farthest ones of many."""
    shown = sorted(runs, key=lambda run: -run.total)[:MAX_LINES]
    figure = new_figure(8.0, 4.9)
    add_heading(figure, "Distance travelled", subtitle)
    axes = axes_at(figure, 0.72, 0.6, 7.0, 3.2)
    lined_axes(axes)
    names = literals(without_shared_folder([run.group for run in shown]), 30)
    for run, name in zip(shown, names, strict=True):
        colour = colours.get(run.group, LONE_COLOUR)
        axes.plot(run.steps, run.cumulative, "o-", color=colour, ms=3.5, label=name)
        axes.fill_between(run.steps, *_band(run), color=colour, alpha=0.15, linewidth=0)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("training step", color=MUTED)
    axes.set_ylabel("sum of distances", color=MUTED)
    if len(shown) <= MAX_NAMES:
        add_key(figure, axes.get_lines())
    return figure


def _band(run: Travel) -> tuple[Array, Array]:
    """From where to where the distance travelled may lie at each checkpoint."""
    half = 0.0 if run.half_widths is None else run.half_widths
    return np.maximum(run.cumulative - half, 0.0), run.cumulative + half


def spread_out(heights: Sequence[float], gap: float, lowest: float, highest: float) -> list[float]:
    """Move labels as little as need be so that they keep a distance from each other.

    They stay between ``lowest`` and ``highest``, unless there are too many.
    """
    from sklearn.isotonic import isotonic_regression

    # Less the gaps below it, each label must only be no lower than the one before.
    order = np.argsort(heights, kind="stable")
    gaps = gap * np.arange(len(heights))
    room = max(highest - gaps[-1], lowest)
    places = np.empty(len(heights))
    places[order] = gaps + isotonic_regression(
        np.asarray(heights)[order] - gaps, y_min=lowest, y_max=room
    )
    return [float(place) for place in places]


def round_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from at or below ``low`` to at or above ``high``."""
    span = (high - low) or 1.0
    power = 10.0 ** math.floor(math.log10(span / count))
    size = next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power * count >= span * 0.999)
    first, last = math.floor(low / size + 1e-9), math.ceil(high / size - 1e-9)
    return [float(f"{k * size:.12g}") for k in range(first, max(last, first + 1) + 1)]
