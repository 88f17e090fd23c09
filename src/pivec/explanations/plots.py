"""Figures of explanations: runs, groups of runs, regions, unusual episodes, coverage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pivec.explanations.runs import Phase, RunExplanation, Track
from pivec.figures import (
    GROUP_PALETTE,
    HAIRLINE,
    INK,
    LONE_COLOUR,
    MARGIN,
    MUTED,
    PAGE,
    SMALL,
    add_panel_title,
    axes_at,
    group_colours,
    headed_figure,
    label_points,
    lined_axes,
    literal,
    literals,
    name_axes,
    text_width,
    wrapped,
)
from pivec.policies import natural_key
from pivec.text import percent, short_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pivec.explanations.coverage import Coverage
    from pivec.explanations.differences import Difference
    from pivec.explanations.groups import GroupExplanation
    from pivec.explanations.regions import Regions
    from pivec.explanations.unusual import Unusual

_MARKERS = {"began": "^", "more": "^", "stopped": "v", "less": "v", "moved": "D"}
_GOLDEN = 0.6180339887498949  # its multiples modulo 1 are spread evenly


def _titled(
    width: float, height: float, title: str, result: Any, subtitle: str, key: Sequence[Any] = ()
) -> Figure:
    where = f" in {result.environment}" if result.environment else ""
    return headed_figure(width, height, title + where, subtitle, key)


def _beside(axes: Axes, text: str, x: float, y: float, **looks: Any) -> None:
    """Write a text to the right of a point."""
    axes.annotate(text, (x, y), (5, 0), textcoords="offset points", va="center", color=INK,
                  annotation_clip=False, **{"fontsize": SMALL} | looks)  # fmt: skip


def run_figure(result: RunExplanation, n_features: int = 3, n_regions: int = 5) -> Figure:
    """Draw the distance of each phase, and below it the time spent where most changed.

    Features have one scale and regions, which are narrower, another.
    """
    busiest = np.argsort(-result.shares.mean(axis=0), kind="stable").tolist()
    features, regions = list(result.tracks[:n_features]), list[Track]()
    for r in (result.leading or busiest)[:n_regions]:
        ends = result.share_low[:, r], result.share_high[:, r]
        regions.append(Track(result.words[r], result.shares[:, r], *ends))
    scales = [_highest(part) for part in (features, regions)]
    subtitle = (
        f"Share of time, with {100 * result.level:g} % intervals; ▲ ▼ changes, ◆ shifts within a "
        "region" + (f". Single features share a scale up to {percent(scales[0])}, regions "
        f"one up to {percent(scales[1])}" if features and regions else "")
    )  # fmt: skip
    n, left, row = len(result.steps), 3.7, 0.82
    rows: list[Track | None] = [None, *features, *regions]
    height = 0.55 + row * len(rows)
    figure = _titled(PAGE, height, f"What changed along {result.run}", result, subtitle)
    ticks = np.unique(np.linspace(0, n - 1, min(n, 9)).round().astype(int))
    shown = short_numbers(result.steps)
    for k, track in enumerate(rows):
        at = left, height - row * (k + 1) + 0.12, PAGE - left - 0.35, row - 0.2
        axes = axes_at(figure, *at)
        lined_axes(axes)
        axes.grid(visible=False)
        if track is None:
            label = "distance of each phase"
            if not all(phase.changed for phase in result.phases):
                label += ", pale without a change beyond noise"
            _draw_distances(axes, result.phases)
        else:
            label = track.where
            _draw_track(axes, track, result.phases, scales[k > len(features)], result.colour)
        axes.set_ylabel(wrapped(label, left - MARGIN - 0.65), rotation=0, ha="right", va="center",
                        fontsize=SMALL, color=INK, linespacing=1.25)  # fmt: skip
        axes.yaxis.set_label_coords(-0.55 / at[2], 0.5)
        axes.set_xlim(-0.3, n - 0.7)
        axes.set_xticks(ticks, [shown[i] if k == len(rows) - 1 else "" for i in ticks])
    axes.set_xlabel("training step", fontsize=SMALL, color=MUTED)
    return figure


def _highest(tracks: Sequence[Track]) -> float:
    shares = [value for track in tracks for value in (*track.share, *track.high)]
    return float(np.nanmax([0.0, *shares])) or 1.0


def _draw_distances(axes: Axes, phases: Sequence[Phase]) -> None:
    """Draw one bar per phase; those without change are pale."""
    for phase in phases:
        colour, width = LONE_COLOUR if phase.changed else HAIRLINE, phase.last - phase.first
        axes.bar(phase.first, max(phase.distance, 0.0), width, align="edge", color=colour, lw=0.5,
                 edgecolor="white")  # fmt: skip
        axes.vlines((phase.first + phase.last) / 2, phase.low, phase.high, color=INK, lw=1.2)
    highest = float(np.nanmax([0.0, *(end for p in phases for end in (p.high, p.distance))]))
    axes.set_ylim(0.0, 1.08 * highest or 1.0)
    axes.set_yticks([0.0, highest], ["0", f"{highest:.2g}"])


def _draw_track(
    axes: Axes, track: Track, phases: Sequence[Phase], highest: float, colour: str
) -> None:
    """Draw the time spent somewhere with its interval, and mark changes there."""
    x = np.arange(len(track.share))
    if np.isfinite(track.low).all():
        axes.fill_between(x, track.low, track.high, color=colour, alpha=0.22, lw=0)
    axes.plot(x, track.share, color=colour, lw=2.0)
    for phase in phases:
        for change in phase.changes:
            if change.where == track.where:
                axes.plot(phase.last, track.share[phase.last], _MARKERS[change.kind], color=colour,
                          markersize=7.5, mec="white", mew=0.8, clip_on=False)  # fmt: skip
    axes.set_ylim(0.0, 1.08 * highest)
    axes.set_yticks([0.0, highest], ["0", percent(highest)])


def groups_figure(result: GroupExplanation, n_features: int = 4, n_regions: int = 6) -> Figure:
    """Draw the shares of time of all runs, by feature and by region."""
    from matplotlib.lines import Line2D

    rows = result.shown(n_features, n_regions)
    # Separate scales: shares of time in a region are much smaller.
    blocks = [[d for d in rows if (d.region is None) == spans] for spans in (True, False)]
    blocks = [block for block in blocks if block]
    row, below = 0.58, 0.6
    height = sum(below + row * len(block) for block in blocks)
    title = "Where runs of {} and {} spend their time".format(*result.groups)
    # The colours that the same groups have in other figures.
    of_group = dict(zip(sorted(result.groups, key=natural_key), group_colours(2), strict=True))
    colours = [of_group[name] for name in result.groups]
    subtitle = "Dots: runs; lines: means; ✱ significant"
    if len(blocks) > 1:
        subtitle += "; single features and regions have scales of their own"
    key = [
        Line2D([], [], color=colour, marker="o", linestyle="none",
               label=f"{literal(name, 40)} ({len(runs)} {'runs' if len(runs) > 1 else 'run'})")
        for name, runs, colour in zip(result.groups, result.runs, colours, strict=True)
    ]  # fmt: skip
    left, top = 3.6, height
    figure = _titled(10.2, height + 0.08, title, result, subtitle, key)
    for block in blocks:
        tall = row * len(block)
        axes = axes_at(figure, left, top - tall, 10.2 - left - 0.4, tall)
        _draw_block(axes, block, colours, left - MARGIN - 0.12)
        top -= tall + below
    return figure


def _draw_block(
    axes: Axes, rows: Sequence[Difference], colours: Sequence[str], room: float
) -> None:
    most = max(max(map(max, difference.runs)) for difference in rows) or 1.0
    for row, difference in enumerate(rows):
        for k, (times, colour) in enumerate(zip(difference.runs, colours, strict=True)):
            y, mean = row + 0.3 * k - 0.15, difference.values[k]
            axes.plot(times, [y] * len(times), "o", color=colour, markersize=6, alpha=0.65, mew=0)
            axes.vlines(mean, y - 0.13, y + 0.13, color=colour, lw=2.4)
        if difference.significant:
            _beside(axes, "✱", 1.03 * most, row)
        axes.axhline(row - 0.5, color=HAIRLINE, linewidth=0.6)
    lined_axes(axes, across=True)
    axes.set_xlim(-0.01 * most, 1.03 * most)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), [wrapped(difference.where, room) for difference in rows])
    axes.tick_params(axis="y", length=0, pad=8)
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g} %")
    axes.set_xlabel("share of the time", fontsize=SMALL, color=MUTED, labelpad=2)


def regions_figure(result: Regions, most: int = 64) -> Figure:
    """Draw the name of each region, its share of time per policy, and when it is visited."""
    from matplotlib.colors import LinearSegmentedColormap

    large = {region.number for region in result.by_share()[:most]}
    shown = [region for region in result.by_moment() if region.number in large]
    left, room, bottom = 0.78, 5.7, 0.35
    names = [wrapped(region.name, room - 0.1, most=2) for region in shown]
    row = 0.32 if any("\n" in name for name in names) else 0.24
    n, height = len(shown), row * len(shown)
    where = f" of {result.environment}" if result.environment else ""
    less = f" (the {most} with the largest share of time)" if n < len(result) else ""
    title = f"The {len(result)} regions{where}{less}"
    subtitle = "In the order of an episode, from its beginning to its end"
    figure = headed_figure(PAGE, height + bottom + 0.6, title, subtitle)
    words, bars, strip = (
        axes_at(figure, at, bottom, width, height)
        for at, width in ((left, room), (left + room, 1.75), (left + room + 2.0, 1.75))
    )
    blue, orange = GROUP_PALETTE[:2]
    for axes in (words, bars, strip):
        lined_axes(axes, across=True)
        axes.spines["bottom"].set_visible(False)
        axes.set_ylim(n - 0.5, -0.5)
        axes.set_yticks([])
    words.set_xticks([])
    for line, (region, name) in enumerate(zip(shown, names, strict=True)):
        words.axhline(line - 0.5, color=HAIRLINE, linewidth=0.5)
        words.text(-0.02, line, str(region.number), ha="right", va="center", fontsize=SMALL,
                   fontweight="bold", color=blue)  # fmt: skip
        words.text(0, line, name, va="center", fontsize=SMALL, color=INK, linespacing=1.05)
    add_panel_title(words, "Region", "what distinguishes it from all states")
    shares = result.shares[:, [region.number for region in shown]]
    bars.barh(range(n), [region.share for region in shown], 0.62, color=blue, alpha=0.35)
    for line, spent in enumerate(shares.T):
        bars.vlines(spent, line - 0.24, line + 0.24, color=blue, linewidth=0.7,
                    alpha=max(0.15, min(1.0, 12 / len(spent))))  # fmt: skip
    bars.set_xlim(0, float(shares.max()) * 1.02)
    bars.xaxis.set_major_formatter(lambda share, _: percent(share))
    bars.locator_params(axis="x", nbins=3)
    add_panel_title(bars, "Time spent there", "bar: mean; lines: policies")
    spread = np.array([region.when for region in shown])
    if np.isnan(spread).all():
        strip.set_axis_off()
        strip.text(0, (n - 1) / 2, "not known: no states", color=MUTED, fontsize=SMALL)
        return figure
    shades = LinearSegmentedColormap.from_list("when", ["#FFFFFF", orange, "#7A3B00"])
    edges = np.linspace(0, 1, spread.shape[1] + 1), np.arange(n + 1) - 0.5
    strip.pcolormesh(*edges, spread, cmap=shades, vmin=0, vmax=0.5, edgecolors="white")
    strip.set_xlim(0, 1)
    strip.set_xticks([0.0, 1.0], ["beginning", "end"])
    strip.get_xticklabels()[0].set_horizontalalignment("left")
    strip.get_xticklabels()[1].set_horizontalalignment("right")
    strip.tick_params(length=0)
    add_panel_title(strip, "When in an episode", "darker: more of its visits")
    return figure


def unusual_figure(result: Unusual) -> Figure:
    """Draw a strip of episodes per policy, by distance, coloured by return."""
    labels = list(dict.fromkeys(row.policy for row in result.episodes))[:14]
    rows = [result.of(label) for label in labels]
    named = {(row.policy, row.episode) for row in result.episodes[:20]}
    tall = 0.46 * len(rows)
    subtitle = "Each dot is an episode; 1 is the median distance from the policy's other episodes"
    left, width = 0.2 + MARGIN + max(map(text_width, literals(labels, 34))), 9.6
    figure = _titled(width, 0.75 + tall, "Unusual episodes", result, subtitle)
    axes = axes_at(figure, left, 0.55, width - left - 1.2, tall)
    end = 1.05 * max(row.times[np.isfinite(row.times)].max(initial=1.0) for row in rows)
    returns = np.concatenate([row.returns for row in rows])
    scale: dict[str, Any] = {}
    if np.isfinite(returns).any():  # colours span all but the most extreme returns
        low, high = np.nanquantile(returns, (0.02, 0.98)).tolist()
        scale = {"cmap": "viridis", "vmin": low, "vmax": high if high > low else low + 1}
    looks: dict[str, Any] = {"s": 26, "linewidths": 0.4, "edgecolors": "white", "zorder": 3}
    dots, marked = list[tuple[float, float]](), dict[tuple[float, float], str]()
    for place, row in enumerate(rows):
        x = np.minimum(row.times, end)
        y = place + 0.42 * ((np.arange(len(x)) * _GOLDEN) % 1.0 - 0.5)
        known = np.isfinite(row.returns)
        axes.scatter(x[~known], y[~known], color=LONE_COLOUR, **looks)
        if known.any():
            shades = axes.scatter(x[known], y[known], c=row.returns[known], **scale, **looks)
        dots += list(zip(x, y, strict=True))
        for e in np.argsort(-x, kind="stable"):
            if (row.policy, int(e)) in named:
                most = e == row.times.argmax()
                marked[x[e], y[e]] = f"episode {e}" if most else f"{e}"
        axes.axhline(place, color=HAIRLINE, linewidth=0.6, zorder=0)
    _finish(
        axes,
        labels,
        1.14 * end,
        "distance from the policy's other episodes, relative to the median",
    )
    axes.axvline(1.0, color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
    if marked:
        at = np.array(list(marked))
        label_points(axes, at, list(marked.values()), [INK] * len(at), np.array(dots), 3.5, "bold")
    if scale:
        bar = figure.colorbar(shades, cax=axes_at(figure, width - 0.85, 0.55, 0.14, tall))
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=SMALL, length=2, color=MUTED, labelcolor=MUTED)
        bar.ax.set_ylabel("return", fontsize=SMALL, color=MUTED)
    return figure


def coverage_figure(result: Coverage) -> Figure:
    """Draw the share of states outside of each policy as a bar."""
    rows = result.policies[:14]
    tall, labels = 0.36 * len(rows), [row.policy for row in rows]
    left = 0.2 + MARGIN + max(map(text_width, literals(labels, 34)))
    width = 9.6 if any(row.words for row in rows) else 6.5
    subtitle = "Share of each policy's states outside the space"
    figure = headed_figure(width, 0.6 + tall, result.headline(), subtitle)
    axes = axes_at(figure, left, 0.55, (width - left) / 2, tall)
    shares = [100 * row.share for row in rows]
    colours = [GROUP_PALETTE[4] if row.is_notable else LONE_COLOUR for row in rows]
    axes.barh(range(len(rows)), shares, height=0.62, color=colours)
    for place, row in enumerate(rows):
        words = f"{percent(row.share)}  {row.words}"
        _beside(axes, wrapped(words, (width - left) / 2 - 0.4, most=2), shares[place], place)
    _finish(axes, labels, max([*shares, 1.0]), "% of states")
    return figure


def _finish(axes: Axes, labels: Sequence[str], end: float, title: str) -> None:
    """Draw axes with one line per policy."""
    lined_axes(axes)
    axes.grid(visible=False)
    axes.set_yticks(range(len(labels)), literals(labels, 34))
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xlim(0.0, end)
    axes.tick_params(axis="y", length=0)
    name_axes(axes, title)
