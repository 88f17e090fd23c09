"""What is said of the maps beside the pictures: the table, the findings, the notes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pivec.paper.recipes import PICTURE, Finding
from pivec.paper.rows import Rows, column, different, markdown, short

NAMES = {"ppo": "PPO", "a2c": "A2C", "neat": "NEAT", "cmaes": "CMA-ES"}
MEASURES = {
    "area_of_algorithm": ("cells of the map that all policies of an algorithm lie in", 0),
    "area": ("cells that equally many policies of every run lie in", 1),
    "spread": ("mean distance between two policies of a run", 2),
    "step": ("mean step along a run", 3),
    "best_return": ("best return of a run", 0),
}


def means(
    rows: Rows, environment: str, measure: str, algorithms: Iterable[str] = NAMES
) -> dict[str, float]:
    """Average over the runs of each algorithm."""
    return {
        name: float(np.mean(column(rows, measure, environment=environment, algorithm=name)))
        for name in algorithms
    }


def table(rows: Rows) -> str:
    """Write what was measured of each algorithm, as Markdown."""
    parts = []
    for name, (title, digits) in MEASURES.items():
        lines = [
            [short(place), *(f"{mean:.{digits}f}" for mean in means(rows, place, name).values())]
            for place in different(rows, "environment")
        ]
        parts.append(f"**{title[0].upper()}{title[1:]}**")
        parts.append(markdown(["environment", *NAMES.values()], lines))
    return "\n\n".join(parts)


def findings(rows: Rows) -> list[Finding]:
    """What the paper says of the figure, beside what came out."""
    environments = different(rows, "environment")
    result = []
    for environment in environments:
        area, spread = (means(rows, environment, name) for name in ("area", "spread"))
        result += [
            Finding(
                "evolution-wide",
                "NEAT and CMA-ES cover a wider area of the map than runs of PPO and A2C: "
                + short(environment),
                PICTURE,
                _listed(area, 1) + " cells",
                _wider(area),
                environment,
            ),
            Finding(
                "",
                "The same among supervectors: policies of a run are farther apart: "
                + short(environment),
                "no numbers",
                _listed(spread, 2),
                _wider(spread),
                environment,
            ),
        ]
    for environment in environments:
        step = means(rows, environment, "step", ("ppo", "a2c"))
        claim = "Successive policies of PPO are closer than those of A2C: "
        closer = step["ppo"] < step["a2c"]
        result.append(
            Finding(
                "evolution-worms",
                claim + short(environment),
                PICTURE,
                _listed(step, 3),
                closer,
                environment,
            )
        )
    return result


def _wider(numbers: dict[str, float]) -> bool:
    """Whether the populations' mean is above that of the runs of reinforcement learning."""
    return numbers["neat"] + numbers["cmaes"] > numbers["ppo"] + numbers["a2c"]


def _listed(numbers: dict[str, float], digits: int) -> str:
    return ", ".join(f"{NAMES[name]} {value:.{digits}f}" for name, value in numbers.items())
