"""Novelty search in the deceptive point: ES, and NSR-ES with several kinds of behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pivec.policies import load_policies
from pivec.workflows.collect import collect
from reproduction.novelty.figure import novelty_figure
from reproduction.novelty.page import (
    EDGE,
    ES,
    GAUSSIAN,
    SUPERVECTOR,
    TERMINAL,
    VISITATION,
    findings,
    table,
)
from reproduction.pipeline import Training, Workshop
from reproduction.published import Array, bootstrap_interval, column, notes
from reproduction.recipes import Need, Recipe, Result, Told
from reproduction.training.novelty import read_generations

ENVIRONMENT = "pivec/DeceptivePoint-v0"
# What the paper calls them, and the behaviour (None: only returns count).
METHODS = {
    ES: None,
    TERMINAL: "terminal-state",
    GAUSSIAN: "gaussian",
    SUPERVECTOR: "supervector",
    VISITATION: "visitation",  # pivec's own, outside the paper's claims
}


@dataclass(frozen=True)
class Counts:
    """How many repetitions; the generations are those of the scale's settings."""

    runs: int


def needs(shop: Workshop, counts: Counts) -> list[Need]:
    """List what is trained."""
    return list(trainings(shop, counts).values())


def trainings(shop: Workshop, counts: Counts) -> dict[str, Training]:
    """Describe the runs of each method; run i has the same first networks in all of NSR-ES."""
    return {
        name: shop.training(ENVIRONMENT, "es", counts.runs, name=name)
        if behaviour is None
        else shop.training(ENVIRONMENT, "nsr-es", counts.runs, name=name, behaviour=behaviour)
        for name, behaviour in METHODS.items()
    }


def make(shop: Workshop, counts: Counts) -> Result:
    """Train, follow the best return so far, and compare."""
    planned = trainings(shop, counts)
    shop.train(list(planned.values()))
    histories = {name: history(shop, training) for name, training in planned.items()}
    ways = {name: best_ways(shop, training) for name, training in planned.items()}
    rng = np.random.default_rng(shop.seed)
    curves = {name: curve(steps, best, rng) for name, (steps, best, _) in histories.items()}
    rows = [
        {
            "method": name,
            "run": run,
            "best_batch_return": float(best[run, -1]),
            "best_return": float(policies[run, -1]),
            "out_of_pocket_in_generation": _first_above(best[run], EDGE),
            "steps": int(steps[run, -1]),
        }
        for name, (steps, best, policies) in histories.items()
        for run in range(len(best))
    ]
    return Result({"runs": rows, "curves": curves}, {"novelty": novelty_figure(curves, ways)})


def tell(numbers: Mapping[str, Any], _counts: Counts) -> Told:
    """Say what the numbers show."""
    rows, curves = numbers["runs"], numbers["curves"]
    finals, policies = (
        {name: np.array(column(rows, measure, method=name)) for name in curves}
        for measure in ("best_batch_return", "best_return")
    )
    rng = np.random.default_rng(0)  # of the bootstrap
    text = table(curves, finals, policies)
    judged = findings(curves, finals, policies, rng)
    return Told(rows, text, judged, notes("novelty", best=max(map(np.max, policies.values()))))


def history(shop: Workshop, training: Training) -> tuple[Array, Array, Array]:
    """Steps, and the best mean return so far of a generation and of a policy.

    All are (runs, generations). The paper's is that of a generation: the mean over all policies
    around the parent.
    """
    runs = [read_generations(shop.run_folder(training, run)) for run in range(training.runs)]
    steps, batches, best = (
        np.array([[getattr(entry, name) for entry in run] for run in runs], dtype=np.float64)
        for name in ("steps", "batch_return", "best_return")
    )
    return steps, np.maximum.accumulate(batches, axis=1), best


def best_ways(shop: Workshop, training: Training) -> list[Array]:
    """For each run, the way that its best policy takes: one episode's states, (n, 2)."""
    ways = []
    for run in range(training.runs):
        folder = shop.run_folder(training, run)
        best = max(read_generations(folder), key=lambda entry: entry.mean_return)
        policies = load_policies(folder / f"generation_{best.number}.safetensors")
        data = collect(ENVIRONMENT, policies, episodes=1, seed=shop.seed)
        ways.append(np.asarray(data.states, dtype=np.float64))
    return ways


def curve(steps: Array, best: Array, rng: np.random.Generator) -> dict[str, list[float]]:
    """Mean over the runs at each generation, with a 95 % interval."""
    low, high = bootstrap_interval(best, rng)
    arrays = {"steps": steps.mean(axis=0), "mean": best.mean(axis=0), "low": low, "high": high}
    return {name: array.tolist() for name, array in arrays.items()}


def _first_above(best: Array, limit: float) -> int | None:
    above = np.flatnonzero(best > limit)
    return int(above[0]) if len(above) else None


RECIPE = Recipe(
    name="novelty",
    shows="Figure 5 (b): novelty search in the deceptive point, best mean return so far",
    counts={"smoke": Counts(1), "small": Counts(5), "paper": Counts(10)},
    needs=needs,
    make=make,
    tell=tell,
)
