"""What is said of the three metrics beside the figure: the tables, the findings, the notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pivec.paper.recipes import Finding

Rows = Sequence[dict[str, Any]]

PICTURE = "the figure, without numbers"
STEADY, UNSTEADY = ("supervector", "discretization"), ("gaussian", "discriminator")
_METRICS = (("correlation", "correlation ↑", 2), ("error_percent", "error % ↓", 0),
            ("variance", "variance ↓", 2))  # fmt: skip


def tables(summary: Rows) -> str:
    """Write the averages of each environment at the most and the fewest trajectories."""
    parts = []
    for environment in dict.fromkeys(row["environment"] for row in summary):
        here = [row for row in summary if row["environment"] == environment]
        sizes = sorted({row["trajectories"] for row in here}, reverse=True)
        ends = list(dict.fromkeys((sizes[0], sizes[-1])))
        heads = [f"{title}, {size}" for _, title, _ in _METRICS for size in ends]
        lines = [f"**{environment}** (columns: metric, trajectories; ± over sets and draws)", ""]
        lines += [f"| | {' | '.join(heads)} |", "| --- |" + " ---: |" * len(heads)]
        for method in dict.fromkeys(row["method"] for row in here):
            at = {row["trajectories"]: row for row in here if row["method"] == method}
            cells = [
                _shown(at[size][name], at[size][f"{name}_std"], digits)
                for name, _, digits in _METRICS
                for size in ends
            ]
            lines.append(f"| {method} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _shown(mean: float | None, std: float | None, digits: int) -> str:
    if mean is None:
        return "–"
    number = f"{mean:.{digits}f}" if abs(mean) < 1e6 else f"{mean:.2g}"
    if std is None or abs(mean) >= 1e6:
        return number
    return f"{number} ± {std:.{digits}f}"


def findings(summary: Rows, *, tells: bool) -> list[Finding]:
    """What the paper says of this figure, beside what came out.

    Parameters
    ----------
    summary : sequence of dict
        As `evaluating.averages` gives it.
    tells : bool
        Whether the scale is large enough to tell.
    """
    found = []
    environments = list(dict.fromkeys(row["environment"] for row in summary))
    for environment in environments:
        here = [row for row in summary if row["environment"] == environment]
        few = min(row["trajectories"] for row in here)
        at = {row["method"]: row for row in here if row["trajectories"] == few}
        if not {*STEADY, *UNSTEADY} <= at.keys():
            continue
        for name, called, digits in (("variance", "variance", 2), ("error_percent", "error", 0)):
            found.append(_steadier(environment, few, at, name, called, digits, tells))
    most = {
        (row["environment"], row["method"]): row["correlation"]
        for row in summary
        if row["trajectories"]
        == max(r["trajectories"] for r in summary if r["environment"] == row["environment"])
    }
    methods = {method for _, method in most}
    if methods >= set(UNSTEADY):
        found.append(_correlates(environments, most, tells))
    if "encoder" in methods and len(methods) > 1:
        found.append(_encoder_is_last(environments, most, tells))
    walker = most.get(("BipedalWalker-v3", "discretization"))
    if walker is not None:
        found.append(
            Finding(
                "Discretization of BipedalWalker's 24 dimensions does not fit into memory",
                "ran out of 64 GB",
                f"cells are counted sparsely: it fits; correlation {walker:.2f}",
                False,
            )
        )
    return found


def _steadier(
    environment: str,
    few: int,
    at: dict[str, dict[str, Any]],
    name: str,
    called: str,
    digits: int,
    tells: bool,
) -> Finding:
    values = {method: at[method][name] for method in (*STEADY, *UNSTEADY)}
    ours = ", ".join(f"{method} {_shown(values[method], None, digits)}" for method in values)
    pairs = [(values[a], values[b]) for a in STEADY for b in UNSTEADY]
    complete = all(a is not None and b is not None for a, b in pairs)
    won = sum(a < b for a, b in pairs) if complete else 0
    return Finding(
        f"{environment}: with {few} trajectories supervectors and discretization are steadier "
        f"(distance {called}) than Gaussian and discriminator",
        PICTURE,
        f"{ours} ({won} of 4 comparisons)",
        won == len(pairs) if tells and complete else None,
    )


def _correlates(
    environments: Sequence[str], most: dict[tuple[str, str], float | None], tells: bool
) -> Finding:
    values = [most[environment, method] for environment in environments for method in UNSTEADY]
    ours = "; ".join(
        f"{environment} "
        + ", ".join(_shown(most[environment, method], None, 2) for method in UNSTEADY)
        for environment in environments
    )
    return Finding(
        "Gaussian and discriminator correlate with differences of returns",
        PICTURE,
        ours,
        all(value is not None and value > 0 for value in values) if tells else None,
    )


def _encoder_is_last(
    environments: Sequence[str], most: dict[tuple[str, str], float | None], tells: bool
) -> Finding:
    last = []
    for environment in environments:
        values = {m: v for (e, m), v in most.items() if e == environment and v is not None}
        last.append(min(values, key=values.__getitem__) == "encoder" if values else False)
    return Finding(
        "The encoder performs low: it correlates least of all",
        PICTURE,
        f"in {sum(last)} of {len(last)} environments",
        all(last) if tells else None,
    )


def notes() -> list[str]:
    """What a reader must know to read the numbers."""
    relative = (
        "Error and variance are relative, after each matrix of distances is scaled to [0, 1] by "
        "its largest: one policy far from all others makes the other distances small, and their "
        "relative errors large."
    )
    empty = (
        "Steady is not yet good: if the latents of the encoder tell nothing (posterior collapse), "
        "all its distances are about the same, with little error and variance, and no correlation."
    )
    versions = (
        "Environments are Gymnasium's of today (the paper: Acrobot-v0, Pendulum-v0, "
        "LunarLander-v2), policies are trained with Stable-Baselines3."
    )
    card = "Networks are trained on a graphics card where there is one; that changes rounding only."
    return [relative, empty, versions, card]
