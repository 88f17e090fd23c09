"""The picture of two groups of runs: a dot a run, where the groups differ most."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from pivec.explanations.runs.figure import wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pivec.explanations.groups.contrasts import Contrast
    from pivec.explanations.groups.groups import GroupDifference

_FEATURES, _REGIONS = 4, 6
_LEFT, _WIDTH, _ROW, _TOP, _BOTTOM = 3.6, 6.2, 0.58, 0.95, 0.66


def groups_figure(result: GroupDifference) -> Figure:
    """Draw the shares of time of all runs, feature by feature and region by region."""
    rows = shown_contrasts(result, _FEATURES, _REGIONS)
    blocks = [[c for c in rows if (c.region is None) == spans] for spans in (True, False)]
    blocks = [block for block in blocks if block]
    height = _TOP + sum(_BOTTOM + _ROW * len(block) for block in blocks)
    figure = new_figure(_LEFT + _WIDTH + 0.4, height)
    a, b = result.groups
    title = f"Where runs of {a} and of {b} spend their time"
    add_heading(figure, f"{title} in {result.environment}" if result.environment else title)
    colours = group_colours(2)
    width = figure.get_figwidth()
    x = 0.28
    for name, runs, colour in zip(result.groups, result.runs, colours, strict=True):
        shown = literal(f"● {name} ({len(runs)} {'runs' if len(runs) > 1 else 'run'})", 40)
        figure.text(x / width, 1 - 0.52 / height, shown, va="top", fontsize=10, color=colour)
        x += 0.3 + 0.075 * len(shown)
    words = "a dot is a run, a line the mean; ✱ beyond chance"
    figure.text(x / width, 1 - 0.52 / height, words, va="top", fontsize=10, color=MUTED)
    top = height - _TOP
    for block in blocks:  # features and regions: the time in a region is less by far
        tall = _ROW * len(block)
        axes = axes_at(figure, _LEFT, top - tall, _WIDTH, tall)
        top -= tall + _BOTTOM
        for row, contrast in enumerate(block):
            _draw_row(axes, row, contrast, colours)
        _finish(axes, block)
    return figure


def shown_contrasts(result: GroupDifference, features: int, regions: int) -> list[Contrast]:
    """Choose what is shown: what sets the groups apart, or else what differs most."""
    leading = result.leading or [*result.features, *result.regions]
    own = [c for c in leading if c.region is None][:features]
    return own + [c for c in leading if c.region is not None][: features + regions - len(own)]


def _draw_row(axes: Axes, row: int, contrast: Contrast, colours: list[str]) -> None:
    for times, mean, colour, offset in zip(
        contrast.times, contrast.means, colours, (-0.15, 0.15), strict=True
    ):
        y = row + offset
        axes.plot(times, [y] * len(times), "o", color=colour, markersize=6, alpha=0.65, mew=0)
        axes.plot([mean, mean], [y - 0.13, y + 0.13], color=colour, lw=2.4)
    if contrast.sure:
        axes.annotate(
            "✱", (1, row), (6, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
            va="center", fontsize=9, color=INK, annotation_clip=False,
        )  # fmt: skip


def _finish(axes: Axes, rows: list[Contrast]) -> None:
    most = max(max(map(max, contrast.times)) for contrast in rows) or 1.0
    axes.set_xlim(-0.01 * most, 1.03 * most)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), [wrapped(contrast.where, 44) for contrast in rows])
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g} %")
    axes.tick_params(axis="y", length=0, labelsize=8.6, labelcolor=INK, pad=8)
    axes.tick_params(axis="x", length=2.5, width=0.6, labelsize=9, color=MUTED, labelcolor=INK)
    axes.set_xlabel("share of the time", fontsize=9, color=MUTED, labelpad=2)
    axes.grid(axis="x", color=HAIRLINE, linewidth=0.6)
    axes.set_axisbelow(True)
    for row in range(1, len(rows)):
        axes.axhline(row - 0.5, color=HAIRLINE, linewidth=0.6)
    for name, spine in axes.spines.items():
        spine.set_visible(name == "bottom")
        spine.set_color(HAIRLINE)
