"""Seconds and memory of every characterization, coloured by the paper's rating."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pivec.figures import HAIRLINE, INK, MUTED, add_heading, axes_at, literal, new_figure
from reproduction.cost.page import RATINGS, at_most_policies, of_method
from reproduction.panels import add_labels, add_legend, patch
from reproduction.published import Rows, different

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = dict(zip(RATINGS, ("#0072B2", "#E69F00", "#D55E00", "#8C959F", "#57606A"), strict=True))
# Inches.
LINE, LEFT, TOP, BOTTOM, SECONDS, MEMORY, GAP = 0.33, 1.75, 1.2, 0.66, 4.8, 2.3, 0.4


def cost_figure(rows: Rows, environment: str, episodes: int) -> Figure:
    """Draw seconds as a line from few to many policies, and memory as bars, fastest on top."""
    last = at_most_policies(rows)
    counts = sorted(different(rows, "policies"))
    tall = LINE * len(last)
    figure = new_figure(LEFT + SECONDS + GAP + MEMORY + 0.5, TOP + tall + BOTTOM)
    policies = " to ".join(str(n) for n in counts)
    add_heading(
        figure,
        "What does it cost to compare policies?",
        f"{environment}, {policies} policies, {episodes} episodes each; colour: the paper's rating",
    )
    left = axes_at(figure, LEFT, BOTTOM, SECONDS, tall)
    right = axes_at(figure, LEFT + SECONDS + GAP, BOTTOM, MEMORY, tall)
    for place, row in enumerate(last):
        _draw_method(left, right, place, of_method(rows, row["method"]))
    left.set_xscale("log")
    left.set_xlim(right=6 * left.get_xlim()[1])  # room for the numbers
    left.set_yticks(range(len(last)), [literal(row["method"], 24) for row in last])
    _dress(left, len(last), f"seconds, ○ {counts[0]} and ● {counts[-1]} policies")
    right.set_yticks([])
    right.set_xlim(0, 1.2 * max(1.0, *(row["added_mb"] for row in last)))
    _dress(right, len(last), f"memory added, MB, {counts[-1]} policies")
    _add_legend(figure, {row["paper"] for row in last})
    return figure


def _draw_method(left: Axes, right: Axes, place: int, rows: Rows) -> None:
    colour = COLOURS[rows[-1]["paper"]]
    seconds = [row["seconds"] for row in rows]
    left.plot(seconds, [place] * len(rows), color=colour, linewidth=2.2, solid_capstyle="round")
    left.plot(seconds[0], place, "o", color=colour, markerfacecolor="white", markersize=7)
    left.plot(seconds[-1], place, "o", color=colour, markersize=7)
    slowest = seconds[-1]
    _say(left, slowest, place, f"{slowest:.2g} s" if slowest < 10 else f"{slowest:,.0f} s")
    added = max(rows[-1]["added_mb"], 0.0)
    right.barh(place, added, height=0.62, color=colour)
    _say(right, added, place, f"{added:.0f}")


def _say(axes: Axes, x: float, place: int, text: str) -> None:
    axes.annotate(text, (x, place), (8, 0), textcoords="offset points", va="center", fontsize=9,
                  color=MUTED)  # fmt: skip


def _dress(axes: Axes, n_lines: int, label: str) -> None:
    from matplotlib.ticker import NullLocator

    axes.set_ylim(n_lines - 0.4, -0.6)
    add_labels(axes, label, fontsize=10.5)
    axes.tick_params(length=0, labelsize=10, labelcolor=INK)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="x", color=HAIRLINE, linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "left")
        spine.set_color(HAIRLINE)


def _add_legend(figure: Figure, used: set[str]) -> None:
    width, height = figure.get_size_inches()
    handles = [
        patch(rating or "not in the table", COLOURS[rating]) for rating in RATINGS if rating in used
    ]
    corner = LEFT / width, 1 - 0.78 / height
    style: Any = {"bbox_to_anchor": corner, "handlelength": 1.0, "columnspacing": 1.4}
    add_legend(figure, handles, "upper left", **style)
