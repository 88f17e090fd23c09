"""The picture of a training run: how far each step went, and where time was spent on the way."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.canvas import (
    HAIRLINE,
    INK,
    MUTED,
    add_heading,
    axes_at,
    group_colours,
    literal,
    new_figure,
)
from pivec.explanations.runs.changes import Change
from pivec.explanations.runs.feature_times import Track
from pivec.text import percent, short_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pivec.explanations.runs.runs import RunChanges

_FEATURES, _REGIONS = 3, 5
_LEFT, _WIDTH, _PANEL, _GAP, _TOP, _BOTTOM = 3.7, 6.6, 0.62, 0.2, 1.0, 0.62
_TICKS = 9
_SIGNS = {"began": "^", "more": "^", "stopped": "v", "less": "v", "moved": "D"}


def run_figure(result: RunChanges) -> Figure:
    """Draw the distance of each step, and below it the time spent where most changed."""
    regions = result.leading[:_REGIONS] or _busiest(result)
    panels = [(track, _changes_at(result, track.where)) for track in result.tracks[:_FEATURES]]
    panels += [
        (
            Track(
                result.words[r],
                result.shares[:, r],
                result.share_low[:, r],
                result.share_high[:, r],
            ),
            _changes_at(result, result.words[r]),
        )
        for r in regions
    ]
    height = _TOP + _BOTTOM + (len(panels) + 1) * (_PANEL + _GAP)
    figure = new_figure(_LEFT + _WIDTH + 0.7, height)
    title = f"What changed along {result.run}"
    add_heading(figure, f"{title} in {result.environment}" if result.environment else title)
    figure.text(
        0.28 / figure.get_figwidth(),
        1 - 0.5 / height,
        f"Share of the time spent at each place, with {100 * result.level:g} % intervals; "
        "▲ ▼ told changes, ◆ told shifts within a place",
        va="top",
        fontsize=10,
        color=MUTED,
    )
    colours = group_colours(len(panels))
    for k in range(len(panels) + 1):
        bottom = height - _TOP - _PANEL - k * (_PANEL + _GAP)
        axes = axes_at(figure, _LEFT, bottom, _WIDTH, _PANEL)
        if k:
            track, changes = panels[k - 1]
            _draw_track(axes, track, changes, colours[k - 1])
        else:
            _draw_steps(axes, result)
        _finish(axes, result.steps, last=k == len(panels))
    return figure


def _busiest(result: RunChanges) -> list[int]:
    """Give the regions in which most time is spent, where nothing changed."""
    return [int(r) for r in np.argsort(-result.shares.mean(axis=0), kind="stable")[:_REGIONS]]


def _changes_at(result: RunChanges, where: str) -> list[tuple[int, Change]]:
    """Find the told changes of a place, and the checkpoints behind them."""
    return [
        (step.stretch.last, change)
        for step in result.parts
        for change in step.changes
        if change.where == where
    ]


def _draw_steps(axes: Axes, result: RunChanges) -> None:
    """Draw a bar a step; those in which nothing changed are grey."""
    for step in result.parts:
        first, last = step.stretch.first, step.stretch.last
        colour = MUTED if step.stretch.changed else HAIRLINE
        distance = max(step.distance, 0.0)
        axes.bar(first, distance, last - first, align="edge", color=colour, lw=0)
        axes.plot([(first + last) / 2] * 2, [step.low, step.high], color=INK, lw=1.2)
    highest = max([step.high for step in result.parts if np.isfinite(step.high)], default=0.0)
    highest = max([highest, *(step.distance for step in result.parts)])
    axes.set_ylim(0.0, 1.08 * highest or 1.0)
    axes.set_yticks([highest], [f"{highest:.2g}"])
    _label(axes, "distance of each step (grey: nothing beyond noise)")


def _draw_track(
    axes: Axes, track: Track, changes: Sequence[tuple[int, Change]], colour: str
) -> None:
    """Draw the time spent somewhere with its interval, and mark what is told of it."""
    x = np.arange(len(track.share))
    if np.isfinite(track.low).all():
        axes.fill_between(x, track.low, track.high, color=colour, alpha=0.22, lw=0)
    axes.plot(x, track.share, color=colour, lw=2.0)
    for at, change in changes:
        axes.plot(
            at, track.share[at], _SIGNS[change.kind], color=colour, markersize=7.5,
            markeredgecolor="white", markeredgewidth=0.8, clip_on=False, zorder=4,
        )  # fmt: skip
    highest = float(np.nanmax([track.share.max(), np.nanmax(np.append(track.high, 0.0))]))
    axes.set_ylim(0.0, 1.12 * highest or 1.0)
    axes.set_yticks([highest], [percent(highest)])
    _label(axes, track.where, colour)


def _label(axes: Axes, text: str, colour: str = "") -> None:
    """Put the words of a panel to its left, a condition a line where there is room."""
    axes.annotate(
        wrapped(text, 46), (0, 0.5), (-48 if colour else -42, 0),
        xycoords="axes fraction", textcoords="offset points", ha="right", va="center",
        fontsize=8.6, color=INK if colour else MUTED, linespacing=1.25,
    )  # fmt: skip
    if colour:
        axes.annotate(
            "■", (0, 0.5), (-41, 0), xycoords="axes fraction", textcoords="offset points",
            ha="center", va="center", fontsize=9, color=colour,
        )  # fmt: skip


def wrapped(text: str, width: int, most: int = 3) -> str:
    """Break a text for matplotlib, after commas if that gives few lines.

    Examples
    --------
    >>> print(wrapped("height below 0.5 m, angle 0 to 1 rad", 20))
    height below 0.5 m,
    angle 0 to 1 rad
    """
    parts = text.replace(", ", ",\n").splitlines()
    if len(parts) > most or max(map(len, parts), default=0) > width:
        parts = textwrap.wrap(text, width, max_lines=most, placeholder=" …")
    return "\n".join(literal(part, width) for part in parts)


def _finish(axes: Axes, steps: Sequence[int], *, last: bool) -> None:
    """Give a panel its axes; training steps stand below the last one."""
    n = len(steps)
    axes.set_xlim(-0.3, n - 0.7)
    looks: dict[str, Any] = {"length": 2.5, "width": 0.6, "color": MUTED, "labelcolor": INK}
    axes.tick_params(labelsize=8.5, **looks)
    shown = short_numbers(steps)
    ticks = np.unique(np.linspace(0, n - 1, min(n, _TICKS)).round().astype(int))
    axes.set_xticks(ticks, [shown[k] for k in ticks] if last else [""] * len(ticks))
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(HAIRLINE)
    if last:
        axes.set_xlabel("training step", fontsize=9.5, color=MUTED)
