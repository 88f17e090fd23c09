"""The clip ratio of PPO and the distance a policy travels in training, with A2C beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.paper.clipping.figure import clipping_figure, curves_figure
from pivec.paper.clipping.page import findings, notes, table
from pivec.paper.described import (
    Background,
    Described,
    background_of,
    described,
    description_needs,
)
from pivec.paper.recipes import Need, Recipe, Result
from pivec.paper.workshop import Collection, Training, Workshop

Array = NDArray[np.float64]

ENVIRONMENTS = ("BipedalWalker-v3", "LunarLander-v3", "Acrobot-v1", "CartPole-v1", "Pendulum-v1")
MEASURES = ("distance", "correlation", "correlation_beyond_chance", "by_chance", "last_return")
PUBLISHED_RATIO = 0.2  # of the paper's settings: these runs are shared with other recipes


@dataclass(frozen=True)
class Counts:
    """Which environments and clip ratios, and how much of everything."""

    environments: tuple[str, ...]
    ratios: tuple[float, ...]
    runs: int
    policies: int  # of a run
    episodes: int  # of a policy
    components: int
    background_states: int = 10_000_000
    background_policies: int = 500


@dataclass(frozen=True, eq=False)
class Run:
    """One run: its checkpoints, and the distances from each to the next.

    Attributes
    ----------
    share : (n,) array
        Of training, from 0 to 1.
    returns : (n,) array
    legs : (n - 1,) array
    chance : (n - 1,) array
        How long the legs would be by sampling alone.
    """

    share: Array
    returns: Array
    legs: Array
    chance: Array

    @property
    def distance(self) -> float:
        """Distance travelled in all."""
        return float(self.legs.sum())

    @property
    def correlation(self) -> float:
        """Corr(R, d): of the return of a checkpoint and the distance from it to the next."""
        return pearson(self.returns[:-1], self.legs)

    @property
    def correlation_beyond_chance(self) -> float:
        """The same of the part of the distances that sampling does not explain."""
        return pearson(self.returns[:-1], self.legs - self.chance)


Runs = Mapping[str, Mapping[str, list[Run]]]  # by environment and setting: "0.2", ..., "a2c"


def needs(shop: Workshop, counts: Counts) -> list[Need]:
    """List what is trained, collected and fitted."""
    return [
        need
        for environment in counts.environments
        for need in description_needs(*plan_of(shop, counts, environment))
    ]


def plan_of(shop: Workshop, counts: Counts, environment: str) -> tuple[Collection, Background]:
    """Describe which policies are compared in an environment, and in which space."""
    runs = trainings(shop, counts, environment)
    collection = Collection(runs, counts.episodes, counts.policies, shop.seed, kept=False)
    each = counts.background_policies // len(runs)
    return collection, background_of(collection, each, counts.components, counts.background_states)


def trainings(shop: Workshop, counts: Counts, environment: str) -> tuple[Training, ...]:
    """Describe the runs of PPO with each clip ratio, and those of A2C.

    Only the policy's ratio is changed; the clip of the value stays what it is. Where the settings
    let the ratio decay, the changed one decays, too.
    """
    return (
        *(ratio_training(shop, counts, environment, ratio) for ratio in counts.ratios),
        shop.training(environment, "a2c", counts.runs),
    )


def ratio_training(shop: Workshop, counts: Counts, environment: str, ratio: float) -> Training:
    """Describe the runs with one clip ratio."""
    name = f"clip {ratio:g}"
    if ratio == PUBLISHED_RATIO:
        return shop.training(environment, "ppo", counts.runs, name=name)
    return shop.training(
        environment, "ppo", counts.runs, name=name, checkpoints=counts.policies, clip_range=ratio
    )


def make(shop: Workshop, counts: Counts) -> Result:
    """Train, describe, measure the way of every run, and compare."""
    runs: dict[str, dict[str, list[Run]]] = {}
    for environment in counts.environments:
        collection, background = plan_of(shop, counts, environment)
        found = described(shop, collection, background)
        runs[environment] = {
            one.name.removeprefix("clip "): [
                run_of(found, f"{one.name}-{number}") for number in range(one.runs)
            ]
            for one in collection.trainings
        }
    rows = [
        {
            "environment": environment,
            "setting": setting,
            "run": number,
            "distance": run.distance,
            "correlation": run.correlation,
            "correlation_beyond_chance": run.correlation_beyond_chance,
            "by_chance": float(run.chance.sum()),
            "first_return": float(run.returns[0]),
            "last_return": float(run.returns[-1]),
        }
        for environment, settings in runs.items()
        for setting, several in settings.items()
        for number, run in enumerate(several)
    ]
    tell = shop.scale != "smoke"
    return Result(
        numbers={"runs": rows, "summary": summary(rows), "curves": curves(runs)},
        rows=rows,
        figures={"clipping": clipping_figure(rows), "curves": curves_figure(curves(runs))},
        tables=table(summary(rows)),
        findings=findings(rows, tell=tell),
        notes=notes(rows),
    )


def run_of(found: Described, group: str) -> Run:
    """Follow one run through the space."""
    rows = found.rows(group)
    legs = successive_distances(found.points[rows])
    chance = (found.chance[rows[:-1]] + found.chance[rows[1:]]) / 2
    steps = found.steps[rows]
    return Run(steps / max(1, steps[-1]), found.returns[rows], legs, chance)


def successive_distances(points: NDArray[Any]) -> Array:
    """Squared Euclidean distances from each row to the next, which are the paper's distances.

    Examples
    --------
    >>> successive_distances(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]]))
    array([25.,  1.])
    """
    steps: Array = np.diff(points.astype(np.float64), axis=0)
    return np.asarray((steps * steps).sum(axis=1))


def pearson(a: Array, b: Array) -> float:
    """Pearson correlation; NaN where one of them does not vary.

    Examples
    --------
    >>> round(pearson(np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.0, -1.0])), 6)
    -1.0
    """
    a, b = a - a.mean(), b - b.mean()
    size = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / size) if size > 0 else float("nan")


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and standard deviation over the runs of each setting."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["environment"], row["setting"]), []).append(row)
    return [
        {
            "environment": environment,
            "setting": setting,
            **{
                f"{name}_{kind}": float(measure([row[name] for row in several]))
                for name in MEASURES
                for kind, measure in (("mean", np.mean), ("std", np.std))
            },
        }
        for (environment, setting), several in groups.items()
    ]


def curves(runs: Runs) -> list[dict[str, Any]]:
    """Average returns, distances and what chance makes of them over the runs of a setting."""
    return [
        {
            "environment": environment,
            "setting": setting,
            **{
                name: np.mean([getattr(run, name) for run in several], axis=0).tolist()
                for name in ("share", "returns", "legs", "chance")
            },
        }
        for environment, settings in runs.items()
        for setting, several in settings.items()
    ]


RECIPE = Recipe(
    name="clipping",
    shows=(
        "Table and learning curves of the appendix: how far a policy travels in training with "
        "different clip ratios of PPO, and with A2C"
    ),
    counts={
        "smoke": Counts(("CartPole-v1", "Pendulum-v1"), (0.2, 2), 1, 5, 4, 4),
        "small": Counts(ENVIRONMENTS, (0.1, 0.2, 0.5, 10), 2, 25, 50, 64),
        "paper": Counts(
            ENVIRONMENTS, (0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2, 5, 10), 5, 50, 100, 64
        ),
    },
    needs=needs,
    make=make,
)
