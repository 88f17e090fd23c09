"""What is said of the maps beside the pictures: the table, the findings, the notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pivec.paper.clipping.page import short
from pivec.paper.recipes import Finding

Rows = Sequence[dict[str, Any]]

NAMES = {"ppo": "PPO", "a2c": "A2C", "neat": "NEAT", "cmaes": "CMA-ES"}
MEASURES = {
    "area_of_algorithm": ("cells of the map that all policies of an algorithm lie in", 0),
    "area": ("cells that equally many policies of every run lie in", 1),
    "spread": ("mean distance between two policies of a run", 2),
    "step": ("mean step along a run", 3),
    "best_return": ("best return of a run", 0),
}


def mean_of(rows: Rows, environment: str, algorithm: str, name: str) -> float:
    """Average over the runs of an algorithm."""
    return float(
        np.mean(
            [
                row[name]
                for row in rows
                if row["environment"] == environment and row["algorithm"] == algorithm
            ]
        )
    )


def table(rows: Rows) -> str:
    """Write what was measured of each algorithm, as Markdown."""
    head = " | ".join(NAMES.values())
    parts = []
    for name, (title, digits) in MEASURES.items():
        lines = [f"**{title[0].upper()}{title[1:]}**", "", f"| environment | {head} |"]
        lines.append("|" + " --- |" * (1 + len(NAMES)))
        for environment in _environments(rows):
            cells = " | ".join(
                f"{mean_of(rows, environment, each, name):.{digits}f}" for each in NAMES
            )
            lines.append(f"| {short(environment)} | {cells} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _environments(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["environment"] for row in rows))


def findings(rows: Rows, *, tell: bool) -> list[Finding]:
    """What the paper says of the figure, beside what came out; ``tell`` whether it can be told."""
    found = []
    for environment in _environments(rows):
        area, spread = (
            {each: mean_of(rows, environment, each, name) for each in NAMES}
            for name in ("area", "spread")
        )
        wider = _wider(area)
        found.append(
            Finding(
                "NEAT and CMA-ES cover a wider area of the map than runs of PPO and A2C: "
                + short(environment),
                "the figure, without numbers",
                _listed(area, 1) + " cells",
                wider if tell else None,
            )
        )
        found.append(
            Finding(
                "The same among supervectors: policies of a run are farther apart: "
                + short(environment),
                "no numbers",
                _listed(spread, 2),
                _wider(spread) if tell else None,
            )
        )
    for environment in _environments(rows):
        step = {each: mean_of(rows, environment, each, "step") for each in ("ppo", "a2c")}
        found.append(
            Finding(
                f"Successive policies of PPO are closer than those of A2C: {short(environment)}",
                "the figure, without numbers",
                _listed(step, 3),
                step["ppo"] < step["a2c"] if tell else None,
            )
        )
    return found


def _wider(values: dict[str, float]) -> bool:
    """Whether the populations' mean is above that of the runs of reinforcement learning."""
    return values["neat"] + values["cmaes"] > values["ppo"] + values["a2c"]


def _listed(values: dict[str, float], digits: int) -> str:
    return ", ".join(f"{NAMES[name]} {value:.{digits}f}" for name, value in values.items())


def notes(rows: Rows) -> list[str]:
    """What a reader must know to read the numbers."""
    fewest = {row["environment"]: row["compared_policies"] for row in rows}
    compared = ", ".join(f"{short(name)} {count}" for name, count in fewest.items())
    return [
        (
            "Colours are returns between the least and the most of the paper's table of reward "
            "ranges. Plots of one environment share their scales."
        ),
        (
            "The area of a run is the number of cells, of a grid of 24 along the longer side of "
            "the map, that equally many policies of every run lie in, as a mean over random "
            f"draws ({compared}). t-SNE gives every policy about the same room, so an algorithm "
            "that keeps more policies has more of the map: the mean distance between the policies "
            "of a run, among supervectors, does not depend on their number."
        ),
        (
            "Distances between and along policies are without what sampling adds to them, as the "
            "even and the odd episodes of each policy tell. On the map that part cannot be taken "
            "off: policies of PPO and A2C draw their actions, and scatter more than those of NEAT "
            "and CMA-ES, the more the fewer episodes there are."
        ),
        (
            "A step along a run is the distance from a checkpoint to the next; along a "
            "population, that between the means of kept generations. Runs of A2C and PPO have "
            "different numbers of steps and of checkpoints: a policy of PPO changes only with "
            "each of its updates."
        ),
        (
            "There is one run of NEAT and of CMA-ES. The search of CMA-ES ends when all of a "
            "population fare alike. A search that has not learned yet, as its best return tells, "
            "has fewer behaviours to show."
        ),
    ]
