"""The appendix' heatmaps: supervectors of more and fewer components, with more and less data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pivec.figures import INK, literal
from reproduction import evaluations
from reproduction.figures import add_labels, add_title, no_frame, panel_grid
from reproduction.pipeline import Pipeline
from reproduction.published import notes, short
from reproduction.recipes import Account, Finding, Need, Recipe, Result, SetCounts, finding
from reproduction.supervectors import PAPERS_FIT
from reproduction.tables import Rows, different, markdown, where

FEW = 4  # "one to four components"
METRICS = (
    ("correlation", "Correlation", 1.0),
    ("error_percent", "Distance error", -1.0),
    ("variance", "Distance variance", -1.0),
)


def grid(summary: Rows, environment: str, metric: str) -> tuple[list[int], list[int], Any]:
    """Return components, trajectories and the (components, trajectories) values of a metric."""
    here = where(summary, environment=environment)
    components = sorted(different(here, "components"))
    sizes = sorted(different(here, "trajectories"), reverse=True)
    values = np.full((len(components), len(sizes)), np.nan)
    for row in here:
        if row[metric] is not None:
            place = components.index(row["components"]), sizes.index(row["trajectories"])
            values[place] = row[metric] * (1.0 if metric == "error_percent" else 100.0)
    return components, sizes, values


def tables(summary: Rows) -> str:
    """Write the values of the heatmaps, one table for each environment and metric."""
    parts = []
    for environment in different(summary, "environment"):
        for metric, title, sign in METRICS:
            components, sizes, values = grid(summary, environment, metric)
            better = "higher" if sign > 0 else "lower"
            parts.append(f"**{environment}: {title}** times a hundred, {better} is better")
            heads = ["components", *(f"{size} trajectories" for size in sizes)]
            lines = [
                [str(k), *("–" if np.isnan(value) else f"{value:.1f}" for value in row)]
                for k, row in zip(components, values, strict=True)
            ]
            parts.append(markdown(heads, lines, left=0))
    return "\n\n".join(parts)


def steadiest(summary: Rows, environment: str, metric: str) -> int | None:
    """Return the number of components with the lowest metric, averaged over trajectories."""
    components, _, values = grid(summary, environment, metric)
    means = values.mean(axis=1)
    return None if np.isnan(means).all() else components[int(np.nanargmin(means))]


def findings(summary: Rows) -> list[Finding]:
    """What the paper says of the sweep, beside what came out."""
    most = max(different(summary, "components"))
    ranks = overall_ranks(summary)
    first = min(ranks, key=ranks.__getitem__) if ranks else None
    return [
        _few("components-few", summary, "variance"),
        _few("components-few-error", summary, "error_percent"),
        finding(
            "components-most",
            f"{first}; mean rank by components: "
            + ", ".join(f"{k}: {rank:.1f}" for k, rank in ranks.items()),
            first == most if first is not None else None,
            most=most,
        ),
    ]


def _few(key: str, summary: Rows, metric: str) -> Finding:
    """Variance is what the paper calls stable; the error stands beside it."""
    best = {name: steadiest(summary, name, metric) for name in different(summary, "environment")}
    known = [k for k in best.values() if k is not None]
    ours = ", ".join(f"{short(name)} {k}" for name, k in best.items())
    return finding(key, ours, any(k <= FEW for k in known) if known else None)


def overall_ranks(summary: Rows) -> dict[int, float]:
    """Return the mean rank of each number of components over all cells of variance and error."""
    ranks = []
    components: list[int] = []
    for environment in different(summary, "environment"):
        for metric in ("variance", "error_percent"):
            components, _, values = grid(summary, environment, metric)
            whole = values[:, ~np.isnan(values).any(axis=0)]
            ranks.append(whole.argsort(axis=0).argsort(axis=0) + 1.0)
    together = np.concatenate(ranks, axis=1) if ranks else np.empty((0, 0))
    if not together.size:
        return {}
    return dict(zip(components, together.mean(axis=1).tolist(), strict=True))


def components_figure(summary: Rows, sets: int, repetitions: int) -> Figure:
    """Draw a row of heatmaps for each metric, a column for each environment."""
    environments = different(summary, "environment")
    components, sizes, _ = grid(summary, environments[0], METRICS[0][0])
    n, gap, margins = len(environments), 0.36, (1.2, 0.3, 1.12, 0.66)
    narrowest = (7.2 - 1.2 - 0.3 - (n - 1) * gap) / n
    wide, high = max(0.58 * len(sizes), narrowest), 0.36 * len(components)
    drawn = f"{sets} set{'s' if sets > 1 else ''} of policies an environment, {repetitions} draws"
    heading = (
        "How many components should the background model have?",
        f"{drawn}; values times a hundred, brighter is better",
    )
    figure, panel = panel_grid(heading, (len(METRICS), n), (wide, high), (gap, gap), margins)
    for i, (metric, title, sign) in enumerate(METRICS):
        for j, environment in enumerate(environments):
            axes = panel(i, j)
            _draw(axes, *grid(summary, environment, metric), sign)
            add_title(axes, literal(environment, 30) if i == 0 else "")
            if j == 0:
                add_labels(axes, y="components")
                _, low, _, up = axes.get_position().bounds
                figure.text(0.32 / figure.get_figwidth(), low + up / 2, title, rotation=90,
                            ha="center", va="center", fontsize=10.5, fontweight="bold",
                            color=INK)  # fmt: skip
            else:
                axes.set_yticklabels([])
            if i == len(METRICS) - 1:
                add_labels(axes, "trajectories")
            else:
                axes.set_xticklabels([])
    return figure


def _draw(axes: Axes, components: list[int], sizes: list[int], values: Any, sign: float) -> None:
    """Draw one heatmap; where values spread widely, colours follow their logarithm."""
    known = values[~np.isnan(values)]
    spread = known.size and known.min() > 0 and known.max() > 10 * known.min()
    shades = sign * (np.log(values) if spread else values)
    axes.imshow(shades, cmap="viridis", aspect="auto", origin="lower")
    low, high = (np.nanmin(shades), np.nanmax(shades)) if known.size else (0.0, 0.0)
    for (y, x), value in np.ndenumerate(values):
        if not np.isnan(value):
            bright = high == low or (shades[y, x] - low) / (high - low) > 0.6
            axes.text(x, y, f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}", ha="center",
                      va="center", fontsize=9, color=INK if bright else "white")  # fmt: skip
    axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axes.set_yticks(range(len(components)), [str(k) for k in components])
    axes.tick_params(length=0, labelsize=9.5, labelcolor=INK)
    no_frame(axes)


@dataclass(frozen=True, kw_only=True)
class Counts(SetCounts):
    """Components of the background model, beside the counts of the sets of policies."""

    components: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)


def methods_of(counts: Counts) -> dict[str, evaluations.Method]:
    """Return supervectors of every number of components, which is their label."""
    return {str(k): ("supervector", {"n_components": k, **PAPERS_FIT}) for k in counts.components}


def needs(pipeline: Pipeline, counts: Counts) -> list[Need]:
    """List the runs and the sets of policies, which are those of `metrics`, and the fits."""
    return evaluations.needs(pipeline, counts, methods_of(counts), " components")


def make(pipeline: Pipeline, counts: Counts) -> Result:
    """Evaluate supervectors of every number of components on every set of policies."""
    methods = methods_of(counts)
    evaluation = evaluations.evaluated(pipeline, counts, methods)
    # Labels of methods are numbers of components.
    summary, rows = (
        [
            {("components" if name == "method" else name): value for name, value in row.items()}
            | {"components": int(row["method"])}
            for row in table
        ]
        for table in (evaluations.averages(evaluation), evaluations.unit_rows(evaluation))
    )
    remarks = evaluations.problems(evaluation)
    numbers = {"methods": methods, "averages": summary, "units": rows, "remarks": remarks}
    return Result(
        numbers, {"components": components_figure(summary, counts.sets, counts.repetitions)}
    )


def judge(numbers: Mapping[str, Any], _counts: Counts) -> Account:
    """Say what the numbers show."""
    summary = numbers["averages"]
    remarks = [*notes("components"), *numbers["remarks"]]
    return Account(numbers["units"], tables(summary), findings(summary), remarks)


RECIPE = Recipe.of("components", Counts, needs, make, judge)
