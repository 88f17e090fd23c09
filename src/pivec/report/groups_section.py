"""The figure of groups of runs: distances within and between them, and how diverse each one is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pivec.figures import (
    HAIRLINE,
    INK,
    MUTED,
    add_heading,
    add_panel_title,
    axes_at,
    group_colours,
    literals,
    new_figure,
)
from pivec.report.findings import ReportData
from pivec.report.groups import GroupComparison
from pivec.report.markup import count_cell, number_cell, picture, section, shown_text, table
from pivec.statistics import Estimate, Permanova
from pivec.terminal import shortened
from pivec.text import rounded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# A line of a panel: its name, its colours (one for a group, two for a pair), numbers, small dots.
Line = tuple[str, Sequence[str], Estimate, Sequence[float]]
MAX_LINES = 30
ROW, PANEL, GAP = 0.46, 4.2, 0.35


def words_of_test(test: Permanova) -> str:
    """Say what a test of groups found, in one sentence."""
    explained, by_chance, _ = figures_of_test(test)
    least = f"; so few runs cannot give less than {rounded(test.least_p, 2)}"
    return (
        f"groups explain {explained} of the variance between runs ({by_chance} by chance), "
        f"p = {rounded(test.p_value, 2)}{least if test.least_p > 0.01 else ''}"
    )


def groups_section(report: ReportData) -> str:
    """Show whether groups of runs differ, how far apart they are and how diverse each one is."""
    result = report.groups
    if result is None:
        return ""
    words = words_of_test(result.test) if result.test else "too few runs for a test"
    about = (
        f"<strong>{words[0].upper()}{words[1:]}.</strong> Groups are made {result.grouping}; runs "
        "are the samples here, not policies. A run is the mean behaviour of its policies; "
        "intervals are about other runs of the same kind. The effective number of behaviours is "
        f"that of as many with nothing in common (similarity {shown_text(result.similarity)})."
    )
    image = (
        f'<img class="paper" src="{picture(groups_figure(result))}" '
        'alt="Distances within and between groups of runs, and the diversity of each group">'
    )
    within = table(
        ("Group", "Runs", "Policies", "Distance of runs", "Distance of policies", "Behaviours"),
        (2, 3, 4, 5),
        (
            f'<tr><th scope="row">{shown_text(group.name)}</th>'
            f'<td class="name">{shown_text(shortened(", ".join(group.runs), 200))}</td>'
            f"{count_cell(group.n_policies)}"
            + "".join(
                number_cell(with_interval(estimate), estimate.value)
                for estimate in (group.distance, group.policy_distance, group.behaviours)
            )
            + "</tr>"
            for group in result.groups
        ),
    )
    between = table(
        ("Groups", "Distance of runs", "Explained", "By chance", "p"),
        (1, 2, 3, 4),
        (
            f'<tr><th scope="row">{shown_text(" and ".join(pair.groups))}</th>'
            f"{number_cell(with_interval(pair.distance), pair.distance.value)}"
            + "".join(
                f'<td class="n">{figure}</td>'
                for figure in (figures_of_test(pair.test) if pair.test else ("–",) * 3)
            )
            + "</tr>"
            for pair in result.pairs
        ),
    )
    tables = f'<div class="scroll">{within}</div><div class="scroll">{between}</div>'
    return section("groups", "Groups of runs", f'<p class="about">{about}</p>', image, tables)


def figures_of_test(test: Permanova) -> tuple[str, str, str]:
    """Give the share explained, that by chance, and the p-value with the least that is possible."""
    least = f" (least {rounded(test.least_p, 2)})" if test.least_p > 0.01 else ""
    explained, by_chance = f"{100 * test.r2:.0f} %", f"{100 * test.chance_r2:.0f} %"
    return explained, by_chance, f"{rounded(test.p_value, 2)}{least}"


def with_interval(estimate: Estimate, digits: int = 2) -> str:
    """Write a number with its interval.

    Examples
    --------
    >>> with_interval(Estimate(0.12345, 0.1, 0.2)), with_interval(Estimate(2.0))
    ('0.12 (0.1 to 0.2)', '2')
    """
    shown = rounded(estimate.value, digits)
    if math.isnan(estimate.low):
        return shown
    return f"{shown} ({rounded(estimate.low, digits)} to {rounded(estimate.high, digits)})"


def groups_figure(result: GroupComparison, environment: str = "") -> Figure:
    """Draw distances within and between groups with their intervals, and the diversity of each.

    Small dots are pairs of runs. An interval that goes beyond the panel ends in an arrow head.
    """
    colours = dict(
        zip([g.name for g in result.groups], group_colours(len(result.groups)), strict=True)
    )
    number = {run: k for k, run in enumerate(result.runs)}
    members = {group.name: [number[run] for run in group.runs] for group in result.groups}

    def apart(a: str, b: str) -> list[float]:
        return [
            result.run_distances[i][j]
            for i in members[a]
            for j in members[b]
            if a != b or i < j
        ]  # fmt: skip

    within: list[Line] = [
        (f"within {g.name}", [colours[g.name]], g.distance, apart(g.name, g.name))
        for g in result.groups
        if len(g.runs) > 1
    ]
    between: list[Line] = [
        (" – ".join(p.groups), [colours[name] for name in p.groups], p.distance, apart(*p.groups))
        for p in result.pairs
    ]
    diverse: list[Line] = [
        (g.name, [colours[g.name]], g.behaviours, []) for g in result.groups[:MAX_LINES]
    ]
    distances = (within + between)[:MAX_LINES]
    lefts = [
        0.42 + 0.082 * max(min(len(name), 34) for name, *_ in lines)
        for lines in (distances, diverse)
    ]
    top, bottom = 1.35, 0.62
    height = top + bottom + ROW * max(2, len(distances))
    figure = new_figure(sum(lefts) + 2 * PANEL + GAP, height)
    words = (
        words_of_test(result.test) if result.test else "too few runs for a test of the difference"
    )
    heading = f"Groups of runs in {environment}" if environment else "Groups of runs"
    add_heading(figure, heading, words[0].upper() + words[1:])
    for k, (lines, title, subtitle, label) in enumerate(
        (
            (distances, "Distance between runs", "dots are pairs of runs", "distance"),
            (diverse, "Diversity", "as many behaviours with nothing in common", "behaviours"),
        )
    ):
        tall = ROW * max(2, len(lines))
        left = sum(lefts[: k + 1]) + k * PANEL
        axes = axes_at(figure, left, height - top - tall, PANEL, tall)
        _draw(axes, lines, 1.0 if k else 0.0)
        add_panel_title(axes, title, subtitle)
        axes.set_xlabel(label, fontsize=9.5, color=MUTED)
    return figure


def _draw(axes: Axes, lines: Sequence[Line], start: float) -> None:
    """Draw a line a group or pair, from above to below."""
    known = [x for _, _, e, dots in lines for x in (e.value, *dots) if math.isfinite(x)]
    most = max([start, *known])
    ends = [e.high for _, _, e, _ in lines if math.isfinite(e.high)]
    # Three runs give intervals of which nothing else in the picture could be seen beside.
    edge = min(max([most, *ends]), start + 2.2 * (most - start)) * 1.04 or 1.0
    for row, (_, colours, estimate, dots) in enumerate(lines):
        two = len(colours) > 1
        below = [row + 0.28] * len(dots)
        axes.plot(dots, below, "o", markersize=4.2, color=colours[-1], alpha=0.5, mew=0)
        if math.isfinite(estimate.high):
            axes.hlines(
                row, estimate.low, min(estimate.high, edge), color=colours[0], linewidth=2.2
            )
            if estimate.high > edge:
                axes.plot(edge, row, ">", color=colours[0], markersize=6, clip_on=False)
        axes.plot(
            estimate.value, row, "o", markersize=8.5, color=colours[0], zorder=3, clip_on=False,
            markerfacecolor=colours[1] if two else colours[0], markeredgewidth=2.2 if two else 0.0,
        )  # fmt: skip
    axes.set_xlim(start, edge)
    axes.set_ylim(max(2, len(lines)) - 0.5, -0.5)
    axes.set_yticks(range(len(lines)), literals([name for name, *_ in lines], 34))
    axes.tick_params(axis="y", length=0, labelsize=10, labelcolor=INK, pad=8)
    axes.tick_params(axis="x", length=2.5, width=0.6, labelsize=9, color=MUTED, labelcolor=INK)
    axes.grid(axis="x", color=HAIRLINE, linewidth=0.6)
    axes.set_axisbelow(True)
    for name, spine in axes.spines.items():
        spine.set_visible(name == "bottom")
        spine.set_color(HAIRLINE)
