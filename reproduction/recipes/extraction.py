"""Figure 2: how three Pendulum policies become supervectors.

The states of all policies are pooled, a background model is fitted on them, and its means are
adapted to the states of each policy: the stacked means are its supervector. The policies are those
that ship with pivec, at every scale: they are real ones, nothing need be trained for a picture, and
everybody gets the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from matplotlib.patheffects import Normal, Stroke
from numpy.typing import NDArray

from pivec import figures as base
from pivec.characterizations import Supervector
from pivec.states import VisitedStates
from pivec.workflows import collect
from reproduction.figures import add_labels, arrow
from reproduction.pipeline import Pipeline
from reproduction.published import notes
from reproduction.recipes import Account, Calculation, Finding, Need, Recipe, Result, finding
from reproduction.supervectors import papers_supervector
from reproduction.tables import Array, markdown

RED = "#B3261E"  # the Gaussians, as in the paper
GREY = "#9AA3AD"  # where they were before
DOTS = 2_000  # states of each policy that are drawn
MOST = 1.5  # deviations at the ends of the colour scale

# Inches.
SIDE, GAP, LEFT, RIGHT, TOP, BETWEEN, STRIP, BOTTOM = 2.75, 0.42, 0.9, 0.3, 1.42, 1.42, 0.34, 0.62


@dataclass(frozen=True, eq=False)
class Components:
    """A mixture in the units of the states: weights (K,), means and deviations (K, 2)."""

    weights: Array
    means: Array
    deviations: Array


def extraction_figure(
    data: VisitedStates, background: Components, means: Array, distances: Array
) -> Figure:
    """Draw the way from states, which are angle and speed, to supervectors and distances."""
    n = len(data)
    colours = base.group_colours(n)
    above = BOTTOM + n * STRIP + BETWEEN
    figure = base.new_figure(LEFT + (n + 1) * SIDE + n * GAP + RIGHT, above + SIDE + TOP)
    base.add_heading(
        figure,
        "From the states a policy visits to its supervector",
        "Three policies swing a pendulum. A dot is a state; an ellipse is a Gaussian of the "
        "mixture, one standard deviation to each side.",
    )
    states = [data.policy_states(i) for i in range(n)]
    shown = [visited[:: max(1, len(visited) // DOTS)] for visited in states]
    pool = base.axes_at(figure, LEFT, above, SIDE, SIDE)
    _draw_dots(pool, shown, colours)
    _draw_ellipses(pool, background.means, background.deviations, RED, 1.5)
    halo = [Stroke(linewidth=2.5, foreground="white"), Normal()]
    style: Any = {"ha": "center", "va": "center", "path_effects": halo, "zorder": 4}
    for k, (x, y) in enumerate(background.means):
        pool.text(x, y, str(k + 1), color=RED, fontsize=9.5, fontweight="bold", **style)
    _dress(pool, labelled=True)
    base.add_panel_title(pool, "1  Pool the states, fit a mixture", "the background model")
    for i, colour in enumerate(colours):
        axes = base.axes_at(figure, LEFT + (i + 1) * (SIDE + GAP), above, SIDE, SIDE)
        _draw_dots(axes, shown[i : i + 1], [colour])
        _draw_ellipses(axes, background.means, background.deviations, GREY, 0.9)
        _draw_ellipses(axes, means[i], background.deviations, RED, 1.3)
        _draw_arrows(axes, background.means, means[i])
        _dress(axes)
        title = "2  Adapt its means to each policy" if i == 0 else ""
        returned = f"mean return {data.mean_returns[i]:.0f}".replace("-", "−")
        base.add_panel_title(axes, title, f"{data.labels[i]}, {returned}", colour)
    strips = base.axes_at(figure, LEFT, BOTTOM, 3 * SIDE + 2 * GAP, n * STRIP)
    moved = ((means - background.means) / background.deviations).reshape(n, -1)
    _draw_supervectors(strips, moved, data.labels, colours)
    bars = base.axes_at(figure, LEFT + 3 * (SIDE + GAP) + 0.55, BOTTOM, SIDE - 0.55, n * STRIP)
    _draw_distances(bars, distances, colours)
    return figure


def _draw_dots(axes: Axes, states: Sequence[NDArray[Any]], colours: Sequence[str]) -> None:
    """Draw states in pale colours, in an order in which no policy covers another."""
    paint = np.repeat([to_rgb(c) for c in colours], [len(part) for part in states], axis=0)
    order = np.random.default_rng(0).permutation(len(paint))
    pale = 0.5 + 0.5 * paint[order]  # not transparent: fewer shades make a sharper file
    x, y = np.concatenate(states)[order].T
    axes.scatter(x, y, s=3.0, c=pale, linewidths=0, zorder=1)


def _draw_ellipses(axes: Axes, means: Array, sizes: Array, colour: str, line: float) -> None:
    style: Any = {"fill": False, "edgecolor": colour, "linewidth": line, "zorder": 2}
    for mean, size in zip(means, sizes, strict=True):
        axes.add_patch(Ellipse(tuple(mean), *(2 * size), **style))


def _draw_arrows(axes: Axes, before: Array, after: Array) -> None:
    axes.plot(*before.T, "o", color=GREY, markersize=3.4, zorder=3)
    axes.plot(*after.T, "o", color=RED, markersize=4.6, zorder=4)
    far = np.linalg.norm((after - before) / (2 * np.pi, 16), axis=1) > 0.025  # others have no room
    for start, end in zip(before[far], after[far], strict=True):
        arrow(axes, start, end, base.INK, (0.18, 0.3), 1.3, 12)


def _dress(axes: Axes, *, labelled: bool = False) -> None:
    axes.set_xlim(-3.5, 3.5)
    axes.set_ylim(-9.2, 9.2)
    axes.set_xticks([-np.pi, 0, np.pi], ["upright", "hanging", "upright"])
    axes.set_yticks([-8, -4, 0, 4, 8], ["−8", "−4", "0", "4", "8"] if labelled else [""] * 5)
    axes.tick_params(length=2.5, width=0.6, labelsize=9.5, color=base.MUTED, labelcolor=base.INK)
    add_labels(axes, "angle", "speed, rad/s" if labelled else "", labelpad=2)
    for spine in axes.spines.values():
        spine.set_color(base.HAIRLINE)


def _draw_supervectors(
    axes: Axes, moved: Array, names: Sequence[str], colours: Sequence[str]
) -> None:
    """Draw the vectors as rows of cells: how far each mean moved along angle and speed."""
    n, k = len(moved), moved.shape[1] // 2
    edges = np.arange(2 * k + 1), np.arange(n + 1)
    style: Any = {"cmap": "RdBu_r", "edgecolors": "white", "linewidth": 0.8}
    image = axes.pcolormesh(*edges, moved, vmin=-MOST, vmax=MOST, **style)
    axes.invert_yaxis()
    base.quiet_axes(axes, frame=False)
    for edge in range(0, 2 * k + 1, 2):
        axes.axvline(edge, color="white", linewidth=4)
    axes.set_xticks(np.arange(k) * 2 + 1, [str(i + 1) for i in range(k)])
    axes.set_yticks(np.arange(n) + 0.5, list(names))
    axes.tick_params(length=0, labelsize=9.5, labelcolor=base.INK)
    for label, colour in zip(axes.get_yticklabels(), colours, strict=True):
        label.set_color(colour)
        label.set_fontweight("bold")
    add_labels(axes, "Gaussian: its angle and its speed", labelpad=2)
    base.add_panel_title(
        axes,
        "3  Stack the adapted means: the supervectors",
        "shown as the way from the background's mean, in standard deviations",
    )
    scale = axes.inset_axes((0.78, 1.16, 0.22, 0.1))
    bar = axes.figure.colorbar(image, cax=scale, orientation="horizontal")
    bar.outline.set_visible(False)
    scale.xaxis.set_ticks_position("top")
    scale.set_xticks([-MOST, 0, MOST], [f"−{MOST:g}", "0", f"+{MOST:g}"])
    scale.tick_params(length=0, labelsize=8.5, labelcolor=base.MUTED, pad=1)


def _draw_distances(axes: Axes, distances: Array, colours: Sequence[str]) -> None:
    pairs = list(combinations(range(len(distances)), 2))
    lengths = [float(distances[pair]) for pair in pairs]
    places = np.arange(len(pairs)) + 0.5
    axes.barh(places, lengths, height=0.5, color="#C9CFD6")
    beside: Any = {"transform": axes.get_yaxis_transform(), "clip_on": False}
    for place, length, pair in zip(places, lengths, pairs, strict=True):
        axes.text(length, place, f" {length:.2f}", va="center", fontsize=10, color=base.INK)
        for k, i in enumerate(pair):
            axes.plot((k - 1.6) * 0.1, place, "o", color=colours[i], markersize=9, **beside)
    axes.set_xlim(0, 1.25 * max(lengths))
    axes.set_ylim(len(pairs), 0)
    base.quiet_axes(axes, frame=False)
    axes.axvline(0, color=base.MUTED, linewidth=0.8)
    base.add_panel_title(axes, "4  Measure", "distances, equation 6")


ENVIRONMENT = "Pendulum-v1"
FEATURES = ("angle", "speed")
# What they mostly do, and the file among the shipped policies; chosen for behaving differently.
POLICIES = {
    "spins": "a2c-1/step_80000",
    "swings": "a2c-1/step_2000000",
    "balances": "ppo-0/step_2015232",
}
COMPONENTS = 12  # so few that every one can be seen in the picture
PAPERS_COMPONENTS = 64
KINDS = ("distances", "distances_of_observations")  # in the numbers: ours, and the paper's


@dataclass(frozen=True)
class Counts:
    """How many episodes of each policy."""

    episodes: int


def needs(pipeline: Pipeline, counts: Counts) -> list[Need]:  # noqa: ARG001 - as every recipe's
    """List the episodes; the fit takes a moment."""
    episodes = 2 * len(POLICIES) * counts.episodes
    return [Calculation(f"episodes of {ENVIRONMENT}", episodes, 0.03)]


def make(pipeline: Pipeline, counts: Counts) -> Result:
    """Collect, fit, adapt and draw."""
    # Twice: how far a policy is from itself is what chance alone makes.
    observed, again = (_visited(counts.episodes, pipeline.seed + i) for i in range(2))
    data = in_the_plane(observed)
    space = papers_supervector(COMPONENTS, pipeline.seed).fit(data)
    described = space.describe(data)
    distances, noise = _distances(space, data, in_the_plane(again))
    mixture = space.background_  # of standardised states
    in_units = mixture.means * mixture.scale + mixture.center
    deviations = np.sqrt(mixture.variances) * mixture.scale
    background = Components(mixture.weights, in_units, deviations)
    standardised = np.asarray(described.vectors).reshape(len(data), COMPONENTS, -1)
    means = standardised * space.scale_ + space.center_
    adaptation = described.arrays["counts"] / (described.arrays["counts"] + space.relevance)
    rows = _rows(background, means, adaptation)
    papers = papers_supervector(PAPERS_COMPONENTS, pipeline.seed).fit(observed)
    papers_distances, papers_noise = _distances(papers, observed, again)
    returns = dict(zip(POLICIES, data.mean_returns.tolist(), strict=True))
    pairs = (distances, noise), (papers_distances, papers_noise)
    numbers: dict[str, Any] = {"policies": POLICIES, "mean_returns": returns, "components": rows}
    for kind, (apart, itself) in zip(KINDS, pairs, strict=True):
        numbers |= {kind: apart.tolist(), f"{kind}_to_themselves": itself.tolist()}
    return Result(numbers, {"extraction": extraction_figure(data, background, means, distances)})


def judge(numbers: Mapping[str, Any], _counts: Counts) -> Account:
    """Say what the numbers show."""
    rows = numbers["components"]
    pairs = [
        (np.array(numbers[kind]), np.array(numbers[f"{kind}_to_themselves"])) for kind in KINDS
    ]
    adaptation = np.array([row["adaptation"] for row in rows])
    return Account(
        rows,
        _tables(numbers["mean_returns"], *pairs),
        _findings(*pairs[0], adaptation),
        notes("extraction"),
    )


def angle_and_speed(observations: NDArray[np.float32]) -> NDArray[np.float32]:
    """Turn observations (cos θ, sin θ, speed) into angle, 0 where it hangs, and speed."""
    cos, sin, speed = observations.T
    return np.stack([np.arctan2(-sin, -cos), speed], axis=1)


def in_the_plane(observed: VisitedStates) -> VisitedStates:
    """Turn observations of the pendulum into angle and speed."""
    policies = [observed[i] for i in range(len(observed))]
    return VisitedStates.from_arrays(
        [[angle_and_speed(episode) for episode in policy.episodes()] for policy in policies],
        observed.labels,
        returns=[policy.returns for policy in policies],
        feature_names=FEATURES,
        environment=ENVIRONMENT,
    )


def _visited(episodes: int, seed: int) -> VisitedStates:
    folder = files("pivec") / "demo_policies" / ENVIRONMENT
    paths = {name: f"{folder}/{file}.safetensors" for name, file in POLICIES.items()}
    return collect(ENVIRONMENT, paths, episodes, seed, backend="gymnasium")


def _distances(
    space: Supervector, data: VisitedStates, again: VisitedStates
) -> tuple[Array, Array]:
    """Distances of all policies, (n, n), and of each to itself, collected again, (n,)."""
    return space.distances(data), np.diag(space.distances(data, again))


def _rows(background: Components, means: Array, adaptation: Array) -> list[dict[str, Any]]:
    rows = []
    for i, name in enumerate(POLICIES):
        for k, weight in enumerate(background.weights.tolist()):
            row: dict[str, Any] = {"policy": name, "component": k, "weight": weight}
            row["adaptation"] = float(adaptation[i, k])
            for j, feature in enumerate(FEATURES):
                row[f"background_{feature}"] = float(background.means[k, j])
                row[f"deviation_{feature}"] = float(background.deviations[k, j])
                row[f"adapted_{feature}"] = float(means[i, k, j])
            rows.append(row)
    return rows


def _tables(
    returns: dict[str, float], ours: tuple[Array, Array], papers: tuple[Array, Array]
) -> str:
    heads = [
        "distance (equation 6)",
        f"angle and speed, {COMPONENTS} components",
        f"observations, {PAPERS_COMPONENTS} components",
    ]
    names = list(POLICIES)
    lines = [
        [f"{names[i]} – {names[j]}", *(f"{apart[i, j]:.3f}" for apart, _ in (ours, papers))]
        for i, j in combinations(range(len(names)), 2)
    ]
    lines += [
        [f"{name} – itself, collected again", *(f"{noise[i]:.3f}" for _, noise in (ours, papers))]
        for i, name in enumerate(names)
    ]
    policies = [
        [name, f"`{POLICIES[name]}`", f"{mean_return:.0f}"] for name, mean_return in returns.items()
    ]
    return f"{markdown(heads, lines)}\n\n{markdown(['policy', 'file', 'mean return'], policies)}"


def _findings(distances: Array, noise: Array, adaptation: Array) -> list[Finding]:
    least = float(distances[np.triu_indices(len(distances), 1)].min())
    return [
        finding(
            "extraction-apart",
            f"distances from {least:.3f} on; of a policy to itself, collected again, at most "
            f"{noise.max():.4f}",
            bool(least > noise.max()),
        ),
        finding(
            "extraction-adaptation",
            f"adaptation α from {adaptation.min():.2f} to {adaptation.max():.2f}",
            bool(adaptation.min() < 0.5 < adaptation.max()),
        ),
    ]


RECIPE = Recipe.of("extraction", Counts, needs, make, judge, judged_at_smoke=True)
