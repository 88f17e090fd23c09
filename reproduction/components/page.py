"""What is said of the number of components beside the heatmaps: tables and findings."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduction.published import Rows, different, markdown, short, where
from reproduction.recipes import Finding

FEW = 4  # "one to four components"
METRICS = (
    ("correlation", "Correlation", 1.0),
    ("error_percent", "Distance error", -1.0),
    ("variance", "Distance variance", -1.0),
)


def grid(summary: Rows, environment: str, metric: str) -> tuple[list[int], list[int], Any]:
    """Return components, trajectories and the (components, trajectories) values of a metric.

    Values are times a hundred, as in the paper: an error in percent is that already.
    """
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
        _few("components-few", summary, "variance", "variance"),
        _few("", summary, "error_percent", "error"),
        Finding(
            "components-most",
            f"{most} components have the lowest distance variance and error overall",
            "64",
            f"{first}; mean rank by components: "
            + ", ".join(f"{k}: {rank:.1f}" for k, rank in ranks.items()),
            first == most if first is not None else None,
        ),
    ]


def _few(of: str, summary: Rows, metric: str, called: str) -> Finding:
    """Variance is what the paper calls stable; the error stands beside it."""
    best = {name: steadiest(summary, name, metric) for name in different(summary, "environment")}
    known = [k for k in best.values() if k is not None]
    return Finding(
        of,
        f"In some environments one to four components are stablest (lowest distance {called}, "
        "averaged over trajectories)",
        "the heatmaps, without numbers in the text",
        ", ".join(f"{short(name)} {k}" for name, k in best.items()),
        any(k <= FEW for k in known) if known else None,
    )


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
