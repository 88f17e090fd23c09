"""What is said of the clip ratio beside pictures and findings: the tables and the notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reproduction.published import Rows, different, markdown, notes, published, short, where

A2C = "a2c"


EARLIER = "Trained with earlier settings, see the page"
OLD = (
    "Made before training was as in the paper's scripts: in CartPole both clips fell to zero over "
    "training, elsewhere the value's clip stayed at 0.2, A2C had PyTorch's RMSprop, policies were "
    "saved from the untrained one on, and the background model was fitted on at most 500 of them "
    "with another start."
)


def table(summary: Rows, runs: int) -> str:
    """Write both halves of the paper's table as Markdown, ours with the paper's in brackets.

    Beside them stands what visitation gives, of which the paper has nothing. One run has no
    deviation.
    """
    kinds = ("mean", "std") if runs > 1 else ("mean",)
    environments = different(summary, "environment")
    parts = []
    for name, title, digits in (
        ("distance", "Distance travelled", 1),
        ("correlation", "Corr(R, d)", 2),
    ):
        theirs = published()["clipping"][name]
        lines = []
        for setting in different(summary, "setting"):
            cells = ["A2C" if setting == A2C else setting]
            for environment in environments:
                [ours] = where(summary, environment=environment, setting=setting)
                pair = [ours[f"{name}_{kind}"] for kind in kinds]
                paper = _shown(theirs[environment][setting], digits)
                cells.append(f"{_shown(pair, digits)} ({paper})")
            lines.append(cells)
        parts.append(f"**{title}**: ours (paper), mean ± standard deviation over runs")
        parts.append(markdown(["clip ratio", *map(short, environments)], lines))
    for name, title, digits in (
        ("visitation_distance", "Distance travelled by visitation", 2),
        ("visitation_correlation", "Corr(R, d) by visitation", 2),
    ):
        if f"{name}_mean" not in summary[0]:  # of earlier versions
            continue
        lines = [
            [
                "A2C" if setting == A2C else setting,
                *(
                    _shown([row[f"{name}_{kind}"] for kind in kinds], digits)
                    for environment in environments
                    for row in where(summary, environment=environment, setting=setting)
                ),
            ]
            for setting in different(summary, "setting")
        ]
        parts.append(f"**{title}**, which the paper does not have: mean ± standard deviation")
        parts.append(markdown(["clip ratio", *map(short, environments)], lines))
    return "\n\n".join(parts)


def _shown(pair: Sequence[float], digits: int) -> str:
    return " ± ".join(f"{number:.{digits}f}" for number in pair)


def remarks_on(numbers: Mapping[str, Any], policies: int, states: int) -> list[str]:
    """Say what a reader must know of the numbers; those of old results are told to be old."""
    rows = numbers["runs"]
    chance = [row["by_chance"] / row["distance"] for row in rows if row["distance"] > 0]
    networks, changes = [], []
    for entry in numbers.get("trained", []):
        place, counted = short(entry["environment"]), entry["different_networks"]
        networks.append(f"{place} {counted['ppo']} (A2C {counted['a2c']})")
        changes += [
            f"{place} {algorithm} {name} {ours:,} ({paper:,})"
            for algorithm, settings in entry["changed_settings"].items()
            for name, (ours, paper) in settings.items()
        ]
    paragraphs = notes(
        "clipping",
        share=100 * float(np.median(chance)),
        policies=policies,
        states=f"{states:,}",
        networks=", ".join(networks),
        changes=", ".join(changes) or "none",
    )
    return paragraphs if "trained" in numbers else [OLD, *paragraphs[-2:]]
