"""The clip ratio of PPO and the distance a policy travels in training, with A2C beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pivec.characterizations import Visitation
from reproduction.clipping.figure import clipping_figure, curves_figure
from reproduction.clipping.findings import findings
from reproduction.clipping.page import EARLIER, remarks_on, table
from reproduction.described import Described, Space, described, space_of, successive_distances
from reproduction.pipeline import Collection, Training, Workshop
from reproduction.published import Array, Rows, column, different, pearson, where
from reproduction.recipes import Need, Recipe, Result, Told
from reproduction.training.runs import settings_for

ENVIRONMENTS = ("BipedalWalker-v3", "LunarLander-v3", "Acrobot-v1", "CartPole-v1", "Pendulum-v1")
MEASURES = (
    *("distance", "correlation", "correlation_beyond_chance", "by_chance", "last_return"),
    *("visitation_distance", "visitation_correlation"),
)


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
    background_policies: int | str = "all"  # earlier results had at most so many


@dataclass(frozen=True, eq=False)
class Run:
    """One run: its n checkpoints, and the n - 1 distances from each to the next."""

    share: Array  # of training, from 0 to 1
    returns: Array
    legs: Array
    chance: Array  # how long the legs would be by sampling alone

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
    return [need for name in counts.environments for need in space(shop, counts, name).needs(shop)]


def space(shop: Workshop, counts: Counts, environment: str) -> Space:
    """Choose which policies are compared in an environment, and in which space."""
    runs = trainings(shop, counts, environment)
    policies = Collection(runs, counts.episodes, counts.policies, shop.seed, kept=False)
    return space_of(policies, None, counts)


def trainings(shop: Workshop, counts: Counts, environment: str) -> tuple[Training, ...]:
    """Describe the runs of PPO with each clip ratio, and those of A2C.

    As in the paper's scripts, the ratio stays the same over training, and the value's clip is the
    policy's. Where the paper's settings have it so at 0.2, recipes share these runs.
    """

    def ppo(ratio: float) -> Training:
        published = settings_for("ppo", environment)["decay"]
        changes: dict[str, Any] = {
            "clip_range": ratio,
            "clip_range_vf": ratio,
            "decay": [name for name in published if not name.startswith("clip_range")],
        }
        name = f"clip {ratio:g}"
        kept = counts.policies
        return shop.training(
            environment, "ppo", counts.runs, name=name, checkpoints=kept, **changes
        )

    return *map(ppo, counts.ratios), shop.training(environment, "a2c", counts.runs)


def make(shop: Workshop, counts: Counts) -> Result:
    """Train, describe, measure the way of every run, and compare."""
    runs: dict[str, dict[str, list[Run]]] = {}
    rows: list[dict[str, Any]] = []
    for environment in counts.environments:
        compared = space(shop, counts, environment)
        policies, visits = described(shop, compared), described(shop, compared, Visitation)
        settings = runs[environment] = {}
        for training in compared.policies.trainings:
            setting = training.name.removeprefix("clip ")
            groups = [f"{training.name}-{number}" for number in range(training.runs)]
            settings[setting] = [run_of(policies, group) for group in groups]
            rows += [
                row_of(environment, setting, number, run, run_of(visits, group))
                for number, (run, group) in enumerate(zip(settings[setting], groups, strict=True))
            ]
    ways = curves(runs)
    figures = {"clipping": clipping_figure(rows), "curves": curves_figure(ways)}
    trained = [trained_as(shop, counts, environment) for environment in counts.environments]
    numbers = {"trained": trained, "runs": rows, "summary": summary(rows), "curves": ways}
    return Result(numbers, figures)


def row_of(environment: str, setting: str, number: int, run: Run, visits: Run) -> dict[str, Any]:
    """Say in numbers what a run did, in the space of supervectors and in that of visitation."""
    return {
        "environment": environment,
        "setting": setting,
        "run": number,
        "distance": run.distance,
        "correlation": run.correlation,
        "correlation_beyond_chance": run.correlation_beyond_chance,
        "by_chance": float(run.chance.sum()),
        "first_return": float(run.returns[0]),
        "last_return": float(run.returns[-1]),
        "visitation_distance": visits.distance,
        "visitation_correlation": visits.correlation,
    }


def trained_as(shop: Workshop, counts: Counts, environment: str) -> dict[str, Any]:
    """Tell how many policies of a run are different networks, and what the scale changes."""
    ppo, *_, a2c = trainings(shop, counts, environment)
    return {
        "environment": environment,
        "different_networks": {
            training.algorithm: training.distinct(counts.policies) for training in (ppo, a2c)
        },
        "changed_settings": {
            algorithm: shop.changed(algorithm, environment) for algorithm in ("ppo", "a2c")
        },
    }


def tell(numbers: Mapping[str, Any], counts: Counts) -> Told:
    """Say what the numbers show."""
    rows = numbers["runs"]
    remarks = remarks_on(numbers, counts.policies, counts.background_states)
    judged = findings(rows, numbers["curves"])
    if "trained" not in numbers:
        judged = [replace(known, why=f"{known.why}; {EARLIER}".lstrip("; ")) for known in judged]
    return Told(rows, table(numbers["summary"], counts.runs), judged, remarks)


def run_of(policies: Described, group: str) -> Run:
    """Follow one run through the space."""
    rows = policies.rows(group)
    legs = successive_distances(policies.points[rows])
    chance = (policies.chance[rows[:-1]] + policies.chance[rows[1:]]) / 2
    steps = policies.steps[rows]
    return Run(steps / max(1, steps[-1]), policies.returns[rows], legs, chance)


def summary(rows: Rows) -> list[dict[str, Any]]:
    """Mean and standard deviation over the runs of each setting."""
    return [
        {
            **pair,
            **{
                f"{name}_{kind}": float(measure(column(rows, name, **pair)))
                for name in MEASURES
                for kind, measure in (("mean", np.mean), ("std", np.std))
            },
        }
        for environment in different(rows, "environment")
        for setting in different(where(rows, environment=environment), "setting")
        for pair in [{"environment": environment, "setting": setting}]
    ]


def curves(runs: Runs) -> list[dict[str, Any]]:
    """Average returns, distances and what chance makes of them over the runs of a setting."""
    return [
        {
            "environment": environment,
            "setting": setting,
            **{
                name: np.mean([getattr(run, name) for run in repeated], axis=0).tolist()
                for name in ("share", "returns", "legs", "chance")
            },
        }
        for environment, settings in runs.items()
        for setting, repeated in settings.items()
    ]


RECIPE = Recipe(
    name="clipping",
    shows=(
        "Table and learning curves of the appendix: how far a policy travels in training with "
        "different clip ratios of PPO, and with A2C"
    ),
    counts={
        "smoke": Counts(("Pendulum-v1",), (0.2, 2), 1, 5, 4, 4),
        "small": Counts(ENVIRONMENTS, (0.1, 0.2, 0.5, 10), 2, 25, 50, 64),
        "paper": Counts(
            ENVIRONMENTS, (0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2, 5, 10), 5, 50, 100, 64
        ),
    },
    needs=needs,
    make=make,
    tell=tell,
)
