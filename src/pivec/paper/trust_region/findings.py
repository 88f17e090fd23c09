"""What the paper says of trust regions, beside what came out: intervals, tables, findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.paper.published import notes
from pivec.paper.recipes import Finding
from pivec.paper.rows import bootstrap_interval

Array = NDArray[np.float64]

# What the paper calls them, and the thresholds it chose.
TITLES = {
    "max-tv": "Max TV",
    "gaussian": "Gaussian",
    "supervector": "supervector",
    "gaussian-once": "Gaussian, old policy played once",
    "supervector-once": "supervector, old policy played once",
    "none": "no constraint",
    "clipped": "clipped PPO",
}
PAPER_THRESHOLDS = {"max-tv": 0.4, "gaussian": 10.0, "supervector": 0.05}
PAPER_CLIPPED = 10.0
NOTES = notes("trust_region")


def interval(values: Array, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Mean over the first axis with its 95 % interval, by the bootstrap.

    Examples
    --------
    >>> interval(np.array([2.0, 2.0]), np.random.default_rng(0))
    (2.0, 2.0, 2.0)
    """
    rows = values if values.ndim > 1 else values[:, None]
    low, high = bootstrap_interval(rows, rng)
    if values.ndim > 1:
        return values.mean(axis=0), low, high
    return float(values.mean()), float(low[0]), float(high[0])


def tables(
    summary: Mapping[str, Mapping[str, Any]],
    sweep: Sequence[Mapping[str, Any]],
    chosen: Mapping[str, float],
) -> str:
    """Write the methods, and the search for thresholds, as Markdown."""
    heading = (
        "| method | threshold: paper | ours | mean return, all of training | last tenth "
        "| updates an iteration | against itself |"
    )
    lines = [heading, "| --- | --- | --- | --- | --- | --- | --- |"]
    for name, row in summary.items():
        thresholds = "| "
        if name in chosen:
            paper = PAPER_THRESHOLDS.get(name)
            thresholds = f"{'' if paper is None else f'{paper:g}'} | {chosen[name]:g}"
        alone = f"{row['self_stops']:.0%}" if name in chosen else ""
        lines.append(
            f"| {TITLES[name]} | {thresholds} | {_spoken(row['area'])} | {_spoken(row['end'])} "
            f"| {row['updates']:.0f} | {alone} |"
        )
    explanation = (
        "*Against itself*: share of the iterations in which the policy that collected the data "
        "exceeds the threshold against a second sample of its own episodes. All thresholds:"
    )
    lines += [
        *("", explanation, ""),
        "| method | threshold | mean return | updates an iteration | against itself |",
        "| --- | --- | --- | --- | --- |",
    ]
    for entry in sweep:
        mean = f"{entry['area'][0]:.2f}"
        if chosen[entry["method"]] == entry["threshold"]:
            mean = f"**{mean}**"
        lines.append(
            f"| {TITLES[entry['method']]} | {entry['threshold']:g} | {mean} "
            f"| {entry['updates']:.1f} | {entry['self_stops']:.0%} |"
        )
    return "\n".join(lines)


def _spoken(values: tuple[float, float, float]) -> str:
    mean, low, high = values
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


def findings(
    areas: Mapping[str, Array],
    ends: Mapping[str, Array],
    rng: np.random.Generator,
) -> list[Finding]:
    """Compare repetition by repetition, which have the same path."""

    def compare(
        of: str,
        claim: str,
        paper: str,
        values: Mapping[str, Array],
        better: str,
        others: Sequence[str],
    ) -> Finding:
        gaps = {other: interval(values[better] - values[other], rng) for other in others}
        holds: bool | None = None
        if any(high < 0 for _, _, high in gaps.values()):
            holds = False
        elif all(low > 0 for _, low, _ in gaps.values()):
            holds = True
        spoken = "; ".join(
            f"{mean:+.2f} (95 %: {low:+.2f} to {high:+.2f}) over {TITLES[other]}"
            for other, (mean, low, high) in gaps.items()
        )
        ours = f"{values[better].mean():.2f}: {spoken}"
        return Finding(of, claim, paper, ours, holds)

    return [
        compare(
            "trust-actions",
            "Max TV is the best of the constraints",
            "best suited",
            areas,
            "max-tv",
            ["gaussian", "supervector"],
        ),
        compare(
            "trust-gaussian",
            "Gaussian outperforms no constraint",
            "yes",
            areas,
            "gaussian",
            ["none"],
        ),
        compare(
            "trust-supervector",
            "Supervector outperforms no constraint",
            "yes",
            areas,
            "supervector",
            ["none"],
        ),
        compare(
            "trust-slow",
            "Gaussian improves slowly, and ends above no constraint (last tenth)",
            "to the highest score overall",
            ends,
            "gaussian",
            ["none"],
        ),
        compare(
            "trust-clipped",
            "PPO with ratio clipping and 640 updates reaches notably higher results",
            f"above {PAPER_CLIPPED:g}",
            areas,
            "clipped",
            ["max-tv", "gaussian", "supervector"],
        ),
    ]
