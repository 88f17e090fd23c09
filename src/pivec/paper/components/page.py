"""What is said of the number of components beside the heatmaps: tables, findings, notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pivec.paper.recipes import Finding

Rows = Sequence[dict[str, Any]]

PICTURE = "the heatmaps, without numbers in the text"
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
    here = [row for row in summary if row["environment"] == environment]
    components = sorted({row["components"] for row in here})
    sizes = sorted({row["trajectories"] for row in here}, reverse=True)
    values = np.full((len(components), len(sizes)), np.nan)
    for row in here:
        if row[metric] is not None:
            place = components.index(row["components"]), sizes.index(row["trajectories"])
            values[place] = row[metric] * (1.0 if metric == "error_percent" else 100.0)
    return components, sizes, values


def tables(summary: Rows) -> str:
    """Write the values of the heatmaps, one table for each environment and metric."""
    parts = []
    for environment in dict.fromkeys(row["environment"] for row in summary):
        for metric, title, _ in METRICS:
            components, sizes, values = grid(summary, environment, metric)
            better = "higher" if metric == "correlation" else "lower"
            heads = " | ".join(f"{size} trajectories" for size in sizes)
            lines = [f"**{environment}: {title}** times a hundred, {better} is better", ""]
            lines += [f"| components | {heads} |", "| ---: |" + " ---: |" * len(sizes)]
            for k, row in zip(components, values, strict=True):
                cells = " | ".join("–" if np.isnan(value) else f"{value:.1f}" for value in row)
                lines.append(f"| {k} | {cells} |")
            parts.append("\n".join(lines))
    return "\n\n".join(parts)


def steadiest(summary: Rows, environment: str, metric: str) -> int | None:
    """Return the number of components with the lowest metric, averaged over trajectories."""
    components, _, values = grid(summary, environment, metric)
    means = values.mean(axis=1)
    return None if np.isnan(means).all() else components[int(np.nanargmin(means))]


def findings(summary: Rows, *, tells: bool) -> list[Finding]:
    """What the paper says of the sweep, beside what came out."""
    environments = list(dict.fromkeys(row["environment"] for row in summary))
    best = {
        (environment, metric): steadiest(summary, environment, metric)
        for environment in environments
        for metric in ("variance", "error_percent")
    }
    told = "; ".join(
        f"{environment} {best[environment, 'variance']} by variance, "
        f"{best[environment, 'error_percent']} by error"
        for environment in environments
    )
    few = [k for k in best.values() if k is not None and k <= FEW]
    most = max(row["components"] for row in summary)
    ranks = overall_ranks(summary)
    first = min(ranks, key=ranks.__getitem__) if ranks else None
    return [
        Finding(
            "The best number of components depends on the environment: in some one to four are "
            "steadiest (by variance or by error)",
            PICTURE,
            told,
            bool(few) if tells else None,
        ),
        Finding(
            f"{most} components have the lowest distance variance and error overall",
            "64",
            f"{first}; mean rank by components: "
            + ", ".join(f"{k}: {rank:.1f}" for k, rank in ranks.items()),
            first == most if tells and first is not None else None,
        ),
    ]


def overall_ranks(summary: Rows) -> dict[int, float]:
    """Return the mean rank of each number of components over all cells of variance and error."""
    ranks = []
    components: list[int] = []
    for environment in dict.fromkeys(row["environment"] for row in summary):
        for metric in ("variance", "error_percent"):
            components, _, values = grid(summary, environment, metric)
            whole = values[:, ~np.isnan(values).any(axis=0)]
            ranks.append(whole.argsort(axis=0).argsort(axis=0) + 1.0)
    together = np.concatenate(ranks, axis=1) if ranks else np.empty((0, 0))
    if not together.size:
        return {}
    return dict(zip(components, together.mean(axis=1).tolist(), strict=True))


def notes() -> list[str]:
    """What a reader must know to read the numbers."""
    text = (
        "Policies, trajectories and draws are those of the recipe `metrics`; its supervectors are "
        "the row of 64 components."
    )
    return [text]
