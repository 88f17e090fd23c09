"""What is said of the three metrics beside the figure: the tables, the findings, the notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pivec.paper.recipes import PICTURE, Finding
from pivec.paper.rows import Rows, different, markdown, where

STEADY, UNSTEADY = ("supervector", "discretization"), ("gaussian", "discriminator")
_METRICS = (("correlation", "correlation ↑", 2), ("error_percent", "error % ↓", 0),
            ("variance", "variance ↓", 2))  # fmt: skip

Correlations = Mapping[str, Mapping[str, float | None]]  # by environment and method


def tables(summary: Rows) -> str:
    """Write the averages of each environment at the most and the fewest trajectories."""
    parts = []
    for environment in different(summary, "environment"):
        here = where(summary, environment=environment)
        sizes = sorted(different(here, "trajectories"), reverse=True)
        ends = list(dict.fromkeys((sizes[0], sizes[-1])))
        heads = ["", *(f"{title}, {size}" for _, title, _ in _METRICS for size in ends)]
        lines = []
        for method in different(here, "method"):
            at = {row["trajectories"]: row for row in where(here, method=method)}
            cells = [
                _shown(at[size][name], at[size][f"{name}_std"], digits)
                for name, _, digits in _METRICS
                for size in ends
            ]
            lines.append([method, *cells])
        parts.append(f"**{environment}** (columns: metric, trajectories; ± over sets and draws)")
        parts.append(markdown(heads, lines, left=1))
    return "\n\n".join(parts)


def _shown(mean: float | None, std: float | None, digits: int) -> str:
    if mean is None:
        return "–"
    number = f"{mean:.{digits}f}" if abs(mean) < 1e6 else f"{mean:.2g}"
    if std is None or abs(mean) >= 1e6:
        return number
    return f"{number} ± {std:.{digits}f}"


def findings(summary: Rows) -> list[Finding]:
    """What the paper says of this figure, beside what came out."""
    result = []
    correlations: dict[str, dict[str, float | None]] = {}
    for environment in different(summary, "environment"):
        here = where(summary, environment=environment)
        sizes = different(here, "trajectories")
        few, most = min(sizes), max(sizes)
        at = {row["method"]: row for row in where(here, trajectories=few)}
        if {*STEADY, *UNSTEADY} <= at.keys():
            result.append(_steadier(environment, few, at, "variance", "variance", 2))
            result.append(_steadier(environment, few, at, "error_percent", "error", 0))
        with_most = where(here, trajectories=most)
        correlations[environment] = {row["method"]: row["correlation"] for row in with_most}
    methods = {method for by_method in correlations.values() for method in by_method}
    if methods >= set(UNSTEADY):
        result.append(_correlates(correlations))
    if "encoder" in methods and len(methods) > 1:
        result.append(_encoder_is_last(correlations))
    walker = correlations.get("BipedalWalker-v3", {}).get("discretization")
    if walker is not None:
        result.append(
            Finding(
                "metrics-memory",
                "Discretization of BipedalWalker's 24 dimensions does not fit into memory",
                "ran out of 64 GB",
                f"cells are counted sparsely: it fits; correlation {walker:.2f}",
                False,
                "BipedalWalker-v3",
            )
        )
    return result


def _steadier(
    environment: str, few: int, at: dict[str, dict[str, Any]], name: str, called: str, digits: int
) -> Finding:
    numbers = {method: at[method][name] for method in (*STEADY, *UNSTEADY)}
    ours = ", ".join(f"{method} {_shown(value, None, digits)}" for method, value in numbers.items())
    pairs = [(numbers[a], numbers[b]) for a in STEADY for b in UNSTEADY]
    complete = None not in numbers.values()
    won = sum(a < b for a, b in pairs) if complete else 0
    return Finding(
        "metrics-stabler",
        f"{environment}: with {few} trajectories supervectors and discretization are steadier "
        f"(distance {called}) than Gaussian and discriminator",
        PICTURE,
        f"{ours} ({won} of 4 comparisons)",
        won == len(pairs) if complete else None,
        environment,
    )


def _correlates(correlations: Correlations) -> Finding:
    pairs = {
        name: [by_method[method] for method in UNSTEADY] for name, by_method in correlations.items()
    }
    return Finding(
        "metrics-correlate",
        "Gaussian and discriminator correlate with differences of returns",
        PICTURE,
        "; ".join(
            f"{environment} " + ", ".join(_shown(value, None, 2) for value in pair)
            for environment, pair in pairs.items()
        ),
        all(value is not None and value > 0 for pair in pairs.values() for value in pair),
    )


def _encoder_is_last(correlations: Correlations) -> Finding:
    last = []
    for by_method in correlations.values():
        known = {method: value for method, value in by_method.items() if value is not None}
        last.append(bool(known) and min(known, key=known.__getitem__) == "encoder")
    return Finding(
        "metrics-encoder",
        "The encoder performs low: it correlates least of all",
        PICTURE,
        f"in {sum(last)} of {len(last)} environments",
        all(last),
    )
