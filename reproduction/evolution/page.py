"""What is said of the maps beside the pictures: the table, the findings, the notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from pivec.text import thousands
from reproduction.published import Rows, column, different, markdown, notes, short, where
from reproduction.recipes import PICTURE, Finding

NAMES = {"ppo": "PPO", "a2c": "A2C", "neat": "NEAT", "cmaes": "CMA-ES"}
LEARNERS, POPULATIONS = ("ppo", "a2c"), ("neat", "cmaes")
ENVIRONMENTS = ("BipedalWalker-v3", "LunarLander-v3", "Acrobot-v1", "CartPole-v1", "Pendulum-v1")
PAPERS_POLICIES, PAPERS_RUNS = 30_000, 5  # runs of PPO and of A2C
MEASURES = {
    "area_of_algorithm": ("cells of the map that all policies of an algorithm lie in", 0),
    "area": ("cells that equally many policies of every run lie in", 1),
    "spread": ("mean distance between two policies of a run", 2),
    "step": ("mean step along a run", 3),
    "best_return": ("best return of a run", 0),
    "policies": ("policies of a run", 0),
    "distinct": ("different policies of a run", 0),
    "generations": ("generations of a search", 0),
}

EARLIER = (
    "An earlier version made these numbers: actions of NEAT and CMA-ES were their largest outputs, "
    "CMA-ES had biases in all layers and a first step size of 0.5, NEAT neat-python's usual "
    "settings but for the probabilities of new structure, and of PPO and A2C a network was kept "
    "once. There is one run of NEAT and of CMA-ES."
)


def means(
    rows: Rows, environment: str, measure: str, algorithms: Iterable[str] = NAMES
) -> dict[str, float]:
    """Average over the runs of each algorithm; NaN where that was not measured."""
    result = {}
    for name in algorithms:
        mine = where(rows, environment=environment, algorithm=name)
        values = np.array([row.get(measure) for row in mine], np.float64)
        result[name] = float(values.mean())
    return result


def table(rows: Rows) -> str:
    """Write what was measured of each algorithm, as Markdown."""
    parts = []
    for name, (title, digits) in MEASURES.items():
        lines = [
            [short(place), *(_shown(mean, digits) for mean in means(rows, place, name).values())]
            for place in different(rows, "environment")
        ]
        parts.append(f"**{title[0].upper()}{title[1:]}**")
        parts.append(markdown(["environment", *NAMES.values()], lines))
    return "\n\n".join(parts)


def findings(rows: Rows) -> list[Finding]:
    """What the paper says of the figure, beside what came out."""
    places = different(rows, "environment")
    of_places = [
        *(_wide(rows, place, name) for place in places for name in POPULATIONS),
        *(_apart(rows, place) for place in places),
        *(_worms(rows, place) for place in places),
        *(_stops(rows, place) for place in places),
    ]
    return [*of_places, _count(rows)]


def _wide(rows: Rows, place: str, name: str) -> Finding:
    area, best = (means(rows, place, measure) for measure in ("area", "best_return"))
    holds, why = _above(area, name), ""
    if not holds:
        why = f"its best return is {_shown(best[name], 0)}, that of PPO {_shown(best['ppo'], 0)}"
    return Finding(
        "evolution-wide",
        f"{NAMES[name]} covers a wider area of the map than runs of PPO and than runs of A2C",
        PICTURE,
        _listed(area, 1) + " cells",
        holds,
        place,
        why,
    )


def _apart(rows: Rows, place: str) -> Finding:
    spread = means(rows, place, "spread")
    return Finding(
        "",
        "The same of both among supervectors: policies of a run are farther apart",
        "no numbers",
        _listed(spread, 2),
        all(_above(spread, name) for name in POPULATIONS),
        place,
    )


def _worms(rows: Rows, place: str) -> Finding:
    step = means(rows, place, "step", LEARNERS)
    holds, why = step["ppo"] < step["a2c"], ""
    unseen = " and ".join(NAMES[name] for name, mean in step.items() if mean <= 0)
    if not holds and unseen:
        why = f"what sampling adds hides the steps of {unseen}"
    elif not holds:
        why = "the paper says it of more complicated environments"
    return Finding(
        "evolution-worms",
        "Successive policies of PPO are closer than those of A2C",
        PICTURE,
        _listed(step, 3),
        holds,
        place,
        why,
    )


def _stops(rows: Rows, place: str) -> Finding:
    """Judge the end of CMA-ES; results of earlier versions do not tell it."""
    (mine,) = where(rows, environment=place, algorithm="cmaes")
    (other,) = where(rows, environment=place, algorithm="neat")
    kept = f"{mine['policies']:,} policies, NEAT {other['policies']:,}"
    ours, holds, why = kept, None, "these numbers were made before the end was kept"
    if mine.get("generations") is not None:
        ours = f"after {mine['generations']:,} of {mine['all_generations']:,} generations; {kept}"
        early = mine["generations"] < mine["all_generations"]
        holds, why = early and mine["policies"] < other["policies"], mine["end"]
    return Finding(
        "evolution-stops",
        "CMA-ES stops before its generations are over, and leaves fewer policies than NEAT",
        "no numbers",
        ours,
        holds,
        place,
        why,
    )


def _count(rows: Rows) -> Finding:
    """Judge the number of policies; "roughly" is taken as a fifth more or less."""
    total, places = sum(column(rows, "policies")), different(rows, "environment")
    distinct = [row["distinct"] for row in rows if row.get("distinct") is not None]
    different_ones = thousands(sum(distinct)) if distinct else "–"
    whole = set(places) >= set(ENVIRONMENTS) and max(column(rows, "run")) + 1 >= PAPERS_RUNS
    return Finding(
        "evolution-count",
        "The policies of all environments are 30 000, a fifth more or less",
        thousands(PAPERS_POLICIES),
        f"{thousands(total)}, of which {different_ones} are different, in {len(places)} of "
        f"{len(ENVIRONMENTS)} environments",
        abs(total / PAPERS_POLICIES - 1) <= 0.2 if whole else None,
        why="" if whole else "not all environments were run, or fewer runs than the paper's five",
    )


def all_notes(rows: Rows) -> list[str]:
    """What a reader must know to read the numbers."""
    places = different(rows, "environment")
    fewest = {place: column(rows, "compared_policies", environment=place)[0] for place in places}
    distinct = {
        place: " and ".join(
            f"{NAMES[name]} {_shown(means(rows, place, 'distinct')[name], 0)} of "
            f"{_shown(means(rows, place, 'policies')[name], 0)}"
            for name in LEARNERS
        )
        for place in places
    }
    parts = notes("evolution", compared=_by_place(fewest), distinct=_by_place(distinct))
    if all("end" not in row for row in rows):
        parts = [EARLIER if "paper's scripts" in part else part for part in parts]
    return list(dict.fromkeys(parts))


def _by_place(values: Mapping[str, object]) -> str:
    return ", ".join(f"{short(place)} {value}" for place, value in values.items())


def _above(numbers: dict[str, float], name: str) -> bool:
    """Whether a population's number is above those of both kinds of reinforcement learning."""
    return all(numbers[name] > numbers[other] for other in LEARNERS)


def _shown(value: float, digits: int) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}f}"


def _listed(numbers: dict[str, float], digits: int) -> str:
    return ", ".join(f"{NAMES[name]} {_shown(value, digits)}" for name, value in numbers.items())
