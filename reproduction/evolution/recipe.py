"""Figure 4: how PPO, A2C, NEAT and CMA-ES move through behaviours, as maps and as numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.run_log import RUN
from reproduction.described import Described, Space, described, space_of, successive_distances
from reproduction.evolution.figure import Map, algorithms_figure, evolution_figure
from reproduction.evolution.page import ENVIRONMENTS, LEARNERS, NAMES, all_notes, findings, table
from reproduction.pipeline import Collection, Training, Workshop
from reproduction.published import Array
from reproduction.recipes import Need, Recipe, Result, Told
from reproduction.training.evolution import LEDGER

CELLS = 24  # of the grid over a map, along its longer side
DRAWS = 200  # of equally many policies of every run


@dataclass(frozen=True)
class Counts:
    """Which environments, and how much of everything; populations have one run."""

    environments: tuple[str, ...]
    runs: int  # of PPO and of A2C
    episodes: int  # of a policy
    components: int
    background_states: int = 10_000_000
    background_policies: int = 100  # of an algorithm


def needs(shop: Workshop, counts: Counts) -> list[Need]:
    """List what is trained, collected, fitted and laid out."""
    return [need for name in counts.environments for need in space(shop, counts, name).needs(shop)]


def space(shop: Workshop, counts: Counts, environment: str) -> Space:
    """Choose which policies are compared in an environment, and in which space."""
    runs = tuple(
        shop.training(environment, name, counts.runs if name in LEARNERS else 1) for name in NAMES
    )
    policies = Collection(runs, counts.episodes, None, shop.seed, kept=False)
    return space_of(policies, counts.background_policies, counts)


def make(shop: Workshop, counts: Counts) -> Result:
    """Train, describe, lay out, and measure what the picture shows."""
    maps: dict[str, Map] = {}
    rows: list[dict[str, Any]] = []
    for environment in counts.environments:
        compared = space(shop, counts, environment)
        policies = described(shop, compared)
        maps[environment] = Map(policies, layout(shop, policies, compared.key))
        ends = {run.name: ended(shop, run) for run in compared.policies.trainings}
        new = first_times(shop, compared.policies)
        rows += [
            {**row, **ends[row["algorithm"]]}
            for row in measured(environment, maps[environment], new, shop.seed)
        ]
    numbers = {"runs": rows}
    figures = {"evolution": evolution_figure(maps), "algorithms": algorithms_figure(maps)}
    return Result(numbers, figures)


def tell(numbers: Mapping[str, Any], _counts: Counts) -> Told:
    """Say what the numbers show."""
    rows = numbers["runs"]
    return Told(rows, table(rows), findings(rows), all_notes(rows))


def first_times(shop: Workshop, collection: Collection) -> NDArray[np.bool_]:
    """Tell which policies are the first of their kind in a run; others are the same network."""
    known: set[tuple[str, str]] = set()
    new = []
    for training in collection.trainings:
        for named in shop.policies(training, collection.policies, collection.runs):
            kind = str(getattr(named.policy, "fingerprint", named.info.label))
            new.append((named.info.group, kind) not in known)
            known.add((named.info.group, kind))
    return np.array(new)


def ended(shop: Workshop, training: Training) -> dict[str, Any]:
    """Tell after how many generations a search ended, and why; None for PPO and A2C."""
    generations = all_generations = end = None
    if training.algorithm not in LEARNERS:
        folder = shop.run_folder(training, 0)
        with open(folder / "state" / LEDGER, encoding="utf-8") as file:
            generations = sum(1 for _ in file)
        all_generations = training.settings["generations"]
        end = json.loads((folder / RUN).read_text(encoding="utf-8"))["result"]["reason"]
    return {"generations": generations, "all_generations": all_generations, "end": end}


def layout(shop: Workshop, policies: Described, background: str) -> Array:
    """Lay the policies out by t-SNE on scaled supervectors, or take what was laid out before."""

    def tsne() -> dict[str, Array]:
        from pivec.report import tsne_map

        return {"positions": tsne_map(policies.points, random_state=shop.seed).positions}

    inputs = {
        "background": background,
        "groups": policies.groups.tolist(),
        "steps": policies.steps.tolist(),
        "seed": shop.seed,
    }
    return shop.computed("map", inputs, tsne)["positions"]


def measured(
    environment: str, drawn: Map, new: NDArray[np.bool_], seed: int
) -> list[dict[str, Any]]:
    """Measure every run: area on the map, spread among supervectors, and steps along the run.

    Only policies that are ``new`` count: a network that is kept several times counts once. The area
    of a run is that of equally many policies of every run, as many as the run with the fewest has,
    as a mean over draws; that of an algorithm is that of all its policies. Spreads and steps are
    without what sampling adds to them.
    """
    policies, cells = drawn.policies, map_cells(drawn.positions, CELLS)
    kept = {group: policies.rows(group) for group in dict.fromkeys(policies.groups.tolist())}
    runs = {group: rows[new[rows]] for group, rows in kept.items()}
    fewest = min(len(rows) for rows in runs.values())
    rng = np.random.default_rng([seed, 4])
    result = []
    for group, rows in runs.items():
        algorithm, _, number = group.rpartition("-")
        points, chance = policies.points[rows], np.nan_to_num(policies.chance[rows])
        result.append(
            {
                "environment": environment,
                "algorithm": algorithm,
                "run": int(number),
                "policies": len(kept[group]),
                "distinct": len(rows),
                "area": covered(cells[rows], fewest, DRAWS, rng),
                "area_of_algorithm": len(np.unique(cells[drawn.of(algorithm) & new])),
                "spread": mean_distance(points) - float(chance.mean()),
                "step": mean_step(points, chance, policies.steps[rows]),
                "by_chance": float(chance.mean()),
                "compared_policies": fewest,
                "best_return": float(policies.returns[rows].max()),
            }
        )
    return result


def map_cells(positions: Array, cells: int) -> NDArray[np.int64]:
    """Number the square cells of a grid over the map in which policies lie."""
    low = positions.min(axis=0)
    side = float((positions.max(axis=0) - low).max()) / cells or 1.0
    row_column = np.minimum((positions - low) // side, cells - 1).astype(np.int64)
    return np.asarray(row_column[:, 0] * cells + row_column[:, 1])


def covered(cells: NDArray[np.int64], count: int, draws: int, rng: np.random.Generator) -> float:
    """Count the different cells of ``count`` policies, as a mean over random draws of these."""
    counts = [len(np.unique(rng.choice(cells, count, replace=False))) for _ in range(draws)]
    return float(np.mean(counts))


def mean_distance(points: NDArray[Any]) -> float:
    """Mean of the squared Euclidean distances of all pairs, which does not grow with their number.

    For n points it is 2 n / (n - 1) times their mean squared distance from their mean.
    """
    x = points.astype(np.float64)
    n = len(x)
    if n < 2:
        return 0.0
    return float(2 * ((x - x.mean(axis=0)) ** 2).sum() / (n - 1))


def mean_step(points: NDArray[Any], chance: Array, order: NDArray[np.int64]) -> float:
    """Mean distance from a policy to the next, or between the means of successive generations.

    Sampling adds half of ``chance``, the distance between two samples of a policy, to each side of
    a step, and the less to means the more policies they are of; that is taken off.
    """
    mine = [order == generation for generation in np.unique(order)]
    path = np.array([points[rows].mean(axis=0, dtype=np.float64) for rows in mine])
    noise = np.array([chance[rows].mean() / rows.sum() for rows in mine])
    return float(np.mean(successive_distances(path) - (noise[1:] + noise[:-1]) / 2))


RECIPE = Recipe(
    name="evolution",
    shows=(
        "Figure 4 and its complement in the appendix: policies of PPO, A2C, NEAT and CMA-ES during "
        "training, on one map for each environment"
    ),
    counts={
        "smoke": Counts(("CartPole-v1",), 1, 4, 4),
        "small": Counts(ENVIRONMENTS, 2, 20, 64),
        "paper": Counts(ENVIRONMENTS, 5, 100, 64),
    },
    needs=needs,
    make=make,
    tell=tell,
)
