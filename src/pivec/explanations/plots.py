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
    MUTED,
    add_heading,
    add_panel_title,
    axes_at,
    group_colours,
    lined_axes,
    literal,
    literals,
    new_figure,
    wrapped,
)
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
    width: float, height: float, title: str, environment: str, subtitle: str = ""
) -> Figure:
    figure = new_figure(width, height)
    add_heading(figure, f"{title} in {environment}" if environment else title, subtitle)
    return figure


def _beside(axes: Axes, text: str, x: float, y: float, **looks: Any) -> None:
    """Write a text to the right of a point."""
    axes.annotate(text, (x, y), (5, 0), textcoords="offset points", va="center", color=INK,
                  annotation_clip=False, **{"fontsize": 8.5} | looks)  # fmt: skip


def run_figure(result: RunExplanation, n_features: int = 3, n_regions: int = 5) -> Figure:
    """Draw the distance of each phase, and below it the time spent where most changed."""
    busiest = np.argsort(-result.shares.mean(axis=0), kind="stable").tolist()
    tracks = list(result.tracks[:n_features])
    for r in (result.leading or busiest)[:n_regions]:
        ends = result.share_low[:, r], result.share_high[:, r]
        tracks.append(Track(result.words[r], result.shares[:, r], *ends))
    subtitle = (
        f"Share of time spent in each region, with {100 * result.level:g} % intervals; "
        "▲ ▼ changes, ◆ shifts within a region"
    )
    height, n = 1.62 + 0.82 * (len(tracks) + 1), len(result.steps)
    title = f"What changed along {result.run}"
    figure = _titled(11.0, height, title, result.environment, subtitle)
    ticks = np.unique(np.linspace(0, n - 1, min(n, 9)).round().astype(int))
    shown = short_numbers(result.steps)
    for k, colour in enumerate([MUTED, *group_colours(len(tracks))]):
        axes = axes_at(figure, 3.7, height - 1.62 - 0.82 * k, 6.6, 0.62)
        lined_axes(axes, 8.5)
        axes.grid(visible=False)
        if k:
            label = tracks[k - 1].where
            _draw_track(axes, tracks[k - 1], result.phases, colour)
        else:
            label = "distance of each phase (grey: no change beyond noise)"
            _draw_distances(axes, result.phases)
        axes.set_ylabel(wrapped(label, 46), rotation=0, ha="right", va="center", fontsize=8.6,
                        color=colour, linespacing=1.25)  # fmt: skip
        axes.yaxis.set_label_coords(-0.09, 0.5)
        axes.set_xlim(-0.3, n - 0.7)
        axes.set_xticks(ticks, [shown[i] if k == len(tracks) else "" for i in ticks])
    axes.set_xlabel("training step", fontsize=9.5, color=MUTED)
    return figure


def _draw_distances(axes: Axes, phases: Sequence[Phase]) -> None:
    """Draw one bar per phase; those without change are grey."""
    for phase in phases:
        colour, width = MUTED if phase.changed else HAIRLINE, phase.last - phase.first
        axes.bar(phase.first, max(phase.distance, 0.0), width, align="edge", color=colour, lw=0)
        axes.vlines((phase.first + phase.last) / 2, phase.low, phase.high, color=INK, lw=1.2)
    highest = float(np.nanmax([0.0, *(end for p in phases for end in (p.high, p.distance))]))
    axes.set_ylim(0.0, 1.08 * highest or 1.0)
    axes.set_yticks([highest], [f"{highest:.2g}"])


def _draw_track(axes: Axes, track: Track, phases: Sequence[Phase], colour: str) -> None:
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
    highest = float(np.nanmax([*track.share, *track.high]))
    axes.set_ylim(0.0, 1.12 * highest or 1.0)
    axes.set_yticks([highest], [percent(highest)])


def groups_figure(result: GroupExplanation, n_features: int = 4, n_regions: int = 6) -> Figure:
    """Draw the shares of time of all runs, by feature and by region."""
    rows = result.shown(n_features, n_regions)
    # Separate scales: shares of time in a region are much smaller.
    blocks = [[d for d in rows if (d.region is None) == spans] for spans in (True, False)]
    blocks = [block for block in blocks if block]
    height = 0.95 + sum(0.66 + 0.58 * len(block) for block in blocks)
    title = "Where runs of {} and {} spend their time".format(*result.groups)
    figure = _titled(10.2, height, title, result.environment)
    colours = group_colours(2)
    keys = [
        (literal(f"● {name} ({len(runs)} {'runs' if len(runs) > 1 else 'run'})", 40), colour)
        for name, runs, colour in zip(result.groups, result.runs, colours, strict=True)
    ]
    x = 0.28
    for text, colour in (*keys, ("dots: runs; lines: means; ✱ significant", MUTED)):
        figure.text(x / 10.2, 1 - 0.52 / height, text, va="top", fontsize=10, color=colour)
        x += 0.3 + 0.075 * len(text)
    top = height - 0.95
    for block in blocks:
        tall = 0.58 * len(block)
        _draw_block(axes_at(figure, 3.6, top - tall, 6.2, tall), block, colours)
        top -= tall + 0.66
    return figure


def _draw_block(axes: Axes, rows: Sequence[Difference], colours: Sequence[str]) -> None:
    most = max(max(map(max, difference.runs)) for difference in rows) or 1.0
    for row, difference in enumerate(rows):
        for k, (times, colour) in enumerate(zip(difference.runs, colours, strict=True)):
            y, mean = row + 0.3 * k - 0.15, difference.values[k]
            axes.plot(times, [y] * len(times), "o", color=colour, markersize=6, alpha=0.65, mew=0)
            axes.vlines(mean, y - 0.13, y + 0.13, color=colour, lw=2.4)
        if difference.significant:
            _beside(axes, "✱", 1.03 * most, row)
        axes.axhline(row - 0.5, color=HAIRLINE, linewidth=0.6)
    lined_axes(axes, 9, across=True)
    axes.set_xlim(-0.01 * most, 1.03 * most)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), [wrapped(difference.where, 44) for difference in rows])
    axes.tick_params(axis="y", length=0, labelsize=8.6, pad=8)
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g} %")
    axes.set_xlabel("share of the time", fontsize=9, color=MUTED, labelpad=2)


def regions_figure(result: Regions, most: int = 80) -> Figure:
    """Draw the name of each region, its share of time per policy, and when it is visited."""
    from matplotlib.colors import LinearSegmentedColormap

    large = {region.number for region in result.by_share()[:most]}
    shown = [region for region in result.by_moment() if region.number in large]
    n, height = len(shown), 0.27 * len(shown)
    figure = new_figure(12.2, height + 1.75)
    where = f" of {result.environment}" if result.environment else ""
    less = f" (the {most} with the largest share of time)" if n < len(result) else ""
    title = f"The {len(result)} regions{where}{less}"
    add_heading(figure, title, "From the beginning of an episode to its end")
    names, bars, strip = (
        axes_at(figure, left, 0.3, width, height)
        for left, width in ((0.75, 6.3), (7.05, 2.1), (9.45, 2.3))
    )
    blue, orange = GROUP_PALETTE[:2]
    for axes in (names, bars, strip):
        lined_axes(axes, 8.5, across=True)
        axes.spines["bottom"].set_visible(False)
        axes.set_ylim(n - 0.5, -0.5)
        axes.set_yticks([])
    names.set_xticks([])
    for line, region in enumerate(shown):
        names.axhline(line - 0.5, color=HAIRLINE, linewidth=0.5)
        names.text(-0.02, line, str(region.number), ha="right", va="center", fontsize=9,
                   fontweight="bold", color=blue)  # fmt: skip
        # Where it is too long, the end says least.
        name = region.name if len(region.name) <= 98 else f"{region.name[:97]}…"
        names.text(0, line, literal(name, 98), va="center", fontsize=8.5, color=INK)
    add_panel_title(names, "Region", "what distinguishes it from all states")
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
        strip.text(0, (n - 1) / 2, "not known: no states", color=MUTED, fontsize=9)
        return figure
    shades = LinearSegmentedColormap.from_list("when", ["#FFFFFF", orange, "#7A3B00"])
    edges = np.linspace(0, 1, spread.shape[1] + 1), np.arange(n + 1) - 0.5
    strip.pcolormesh(*edges, spread, cmap=shades, vmin=0, vmax=0.5, edgecolors="white")
    strip.set_xlim(0, 1)
    strip.set_xticks([0.12, 0.94], ["beginning", "end"])
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
    figure = _titled(9.6, 1.85 + tall, "Unusual episodes", result.environment, subtitle)
    axes = axes_at(figure, 2.5, 0.75, 5.6, tall)
    end = 1.05 * max(row.times[np.isfinite(row.times)].max(initial=1.0) for row in rows)
    returns = np.concatenate([row.returns for row in rows])
    scale: dict[str, Any] = {}
    if np.isfinite(returns).any():  # colours span all but the most extreme returns
        low, high = np.nanquantile(returns, (0.02, 0.98)).tolist()
        scale = {"cmap": "viridis", "vmin": low, "vmax": high if high > low else low + 1}
    looks: dict[str, Any] = {"s": 26, "linewidths": 0.4, "edgecolors": "white", "zorder": 3}
    for place, row in enumerate(rows):
        x = np.minimum(row.times, end)
        y = place + 0.42 * ((np.arange(len(x)) * _GOLDEN) % 1.0 - 0.5)
        known = np.isfinite(row.returns)
        axes.scatter(x[~known], y[~known], color=LONE_COLOUR, **looks)
        if known.any():
            dots = axes.scatter(x[known], y[known], c=row.returns[known], **scale, **looks)
        for e in range(len(x)):
            if (row.policy, e) in named:
                text = f"episode {e}" if e == row.times.argmax() else f"{e}"
                _beside(axes, text, x[e], y[e], fontweight="bold")
        axes.axhline(place, color=HAIRLINE, linewidth=0.6, zorder=0)
    _finish(
        axes,
        labels,
        1.14 * end,
        "distance from the policy's other episodes, relative to the median",
    )
    axes.axvline(1.0, color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
    if scale:
        bar = figure.colorbar(dots, cax=axes_at(figure, 8.45, 0.75, 0.14, tall))
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=8.5, length=2, color=MUTED, labelcolor=INK)
        bar.ax.set_title("return", fontsize=9, color=MUTED, loc="left")
    return figure


def coverage_figure(result: Coverage) -> Figure:
    """Draw the share of states outside of each policy as a bar."""
    rows = result.policies[:14]
    figure = new_figure(9.6, 1.45 + 0.34 * len(rows))
    add_heading(figure, result.headline(), "Share of each policy's states outside the space")
    axes = axes_at(figure, 2.5, 0.6, 4.0, 0.34 * len(rows))
    shares = [100 * row.share for row in rows]
    colours = [GROUP_PALETTE[4] if row.is_notable else LONE_COLOUR for row in rows]
    axes.barh(range(len(rows)), shares, height=0.62, color=colours)
    for place, row in enumerate(rows):
        _beside(axes, f"{percent(row.share)}  {literal(row.words, 44)}", shares[place], place)
    _finish(axes, [row.policy for row in rows], max([*shares, 1.0]), "% of states")
    return figure


def _finish(axes: Axes, labels: Sequence[str], end: float, title: str) -> None:
    """Draw axes with one line per policy."""
    lined_axes(axes)
    axes.grid(visible=False)
    axes.set_yticks(range(len(labels)), literals(labels, 34), fontsize=9)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xlim(0.0, end)
    axes.set_xlabel(title, fontsize=9.5)
