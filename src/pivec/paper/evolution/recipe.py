"""Figure 4: how PPO, A2C, NEAT and CMA-ES move through behaviours, as maps and as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.paper.clipping.recipe import successive_distances
from pivec.paper.described import (
    Background,
    Described,
    background_of,
    described,
    description_needs,
)
from pivec.paper.evolution.figure import Places, algorithms_figure, evolution_figure
from pivec.paper.evolution.page import findings, notes, table
from pivec.paper.recipes import Need, Recipe, Result
from pivec.paper.workshop import Collection, Training, Workshop

Array = NDArray[np.float64]

ENVIRONMENTS = ("BipedalWalker-v3", "LunarLander-v3", "Acrobot-v1", "CartPole-v1", "Pendulum-v1")
REINFORCEMENT, POPULATIONS = ("ppo", "a2c"), ("neat", "cmaes")
ALGORITHMS = (*REINFORCEMENT, *POPULATIONS)
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
    return [
        need
        for environment in counts.environments
        for need in description_needs(*plan_of(shop, counts, environment))
    ]


def plan_of(shop: Workshop, counts: Counts, environment: str) -> tuple[Collection, Background]:
    """Describe which policies are compared in an environment, and in which space."""
    runs = trainings(shop, counts, environment)
    collection = Collection(runs, counts.episodes, None, shop.seed, kept=False)
    return collection, background_of(
        collection, counts.background_policies, counts.components, counts.background_states
    )


def trainings(shop: Workshop, counts: Counts, environment: str) -> tuple[Training, ...]:
    """Describe the runs of all algorithms."""
    return tuple(
        shop.training(environment, name, counts.runs if name in REINFORCEMENT else 1)
        for name in ALGORITHMS
    )


def make(shop: Workshop, counts: Counts) -> Result:
    """Train, describe, lay out, and measure what the picture shows."""
    maps: dict[str, Places] = {}
    rows: list[dict[str, Any]] = []
    for environment in counts.environments:
        collection, background = plan_of(shop, counts, environment)
        found = described(shop, collection, background)
        maps[environment] = Places(
            layout(shop, found, background), found.returns, found.groups, found.steps
        )
        rows += measured(environment, found, maps[environment], shop.seed)
    return Result(
        numbers={"runs": rows, "policies": sum(len(one.returns) for one in maps.values())},
        rows=rows,
        figures={"evolution": evolution_figure(maps), "algorithms": algorithms_figure(maps)},
        tables=table(rows),
        findings=findings(rows, tell=shop.scale != "smoke"),
        notes=notes(rows),
    )


def layout(shop: Workshop, found: Described, background: Background) -> Array:
    """Lay the policies out by t-SNE on scaled supervectors, or take what was laid out before."""

    def tsne() -> dict[str, Array]:
        from pivec.maps import tsne_map

        return {"positions": tsne_map(found.points, random_state=shop.seed).positions}

    inputs = {
        "background": background.key,
        "groups": found.groups.tolist(),
        "steps": found.steps.tolist(),
        "seed": shop.seed,
    }
    return shop.computed("map", inputs, tsne)["positions"]


def measured(environment: str, found: Described, places: Places, seed: int) -> list[dict[str, Any]]:
    """Measure every run: area on the map, spread among supervectors, and steps along the run.

    The area of a run is that of equally many policies of every run, as many as the run with the
    fewest has, as a mean over draws; that of an algorithm is that of all its policies. Spreads and
    steps are without what sampling adds to them.
    """
    cells = map_cells(places.positions, CELLS)
    groups = list(dict.fromkeys(found.groups.tolist()))
    whole = {name: len(np.unique(cells[places.of(name)])) for name in ALGORITHMS}
    runs = {group: found.rows(group) for group in groups}
    fewest = min(len(rows) for rows in runs.values())
    rng = np.random.default_rng([seed, 4])
    result = []
    for group, rows in runs.items():
        algorithm, _, number = group.rpartition("-")
        points, chance = found.points[rows], np.nan_to_num(found.chance[rows])
        result.append(
            {
                "environment": environment,
                "algorithm": algorithm,
                "run": int(number),
                "policies": len(rows),
                "area": covered(cells[rows], fewest, DRAWS, rng),
                "area_of_algorithm": whole[algorithm],
                "spread": mean_distance(points) - float(chance.mean()),
                "step": mean_step(points, chance, found.steps[rows]),
                "by_chance": float(chance.mean()),
                "compared_policies": fewest,
                "best_return": float(found.returns[rows].max()),
            }
        )
    return result


def map_cells(positions: Array, cells: int) -> NDArray[np.int64]:
    """Number the square cells of a grid over the map in which policies lie.

    Examples
    --------
    >>> map_cells(np.array([[0.0, 0.0], [0.1, 0.0], [4.0, 2.0]]), 4).tolist()
    [0, 0, 14]
    """
    low = positions.min(axis=0)
    side = float((positions.max(axis=0) - low).max()) / cells or 1.0
    row_column = np.minimum((positions - low) // side, cells - 1).astype(np.int64)
    return np.asarray(row_column[:, 0] * cells + row_column[:, 1])


def covered(cells: NDArray[np.int64], count: int, draws: int, rng: np.random.Generator) -> float:
    """Count the different cells of ``count`` policies, as a mean over random draws of these.

    Examples
    --------
    >>> covered(np.array([3, 3, 3, 7]), 4, 10, np.random.default_rng(0))
    2.0
    """
    found = [len(np.unique(rng.choice(cells, count, replace=False))) for _ in range(draws)]
    return float(np.mean(found))


def mean_distance(points: NDArray[Any]) -> float:
    """Mean of the squared Euclidean distances of all pairs, which does not grow with their number.

    For n points it is 2 n / (n - 1) times their mean squared distance from their mean.

    Examples
    --------
    >>> mean_distance(np.array([[0.0], [1.0], [3.0]]))  # of 1, 9 and 4
    4.666666666666667
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

    Examples
    --------
    >>> points, chance = np.array([[0.0], [2.0], [5.0]]), np.array([0.4, 0.4, 0.2])
    >>> mean_step(points, chance, np.array([0, 0, 10]))  # from 1 to 5
    15.8
    """
    times = np.unique(order)
    mine = [order == each for each in times]
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
        "smoke": Counts(("CartPole-v1", "Pendulum-v1"), 1, 4, 4),
        "small": Counts(ENVIRONMENTS, 2, 20, 64),
        "paper": Counts(ENVIRONMENTS, 5, 100, 64),
    },
    needs=needs,
    make=make,
)
