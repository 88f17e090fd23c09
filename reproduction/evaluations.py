"""Characterizations evaluated on policies of PPO runs: what `metrics` and `components` share.

A set of policies is one run; recipes of the same counts share the sets, the draws and the units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from pivec.characterizations import characterization
from pivec.statistics import Evaluation
from pivec.workflows.evaluate import evaluate
from reproduction.pipeline import Collection, Pipeline, digest_of
from reproduction.planning import expected_length, method_seconds
from reproduction.recipes import Calculation, Need, SetCounts

# What rows call the metrics, and what evaluations do.
METRICS = {
    "correlation": "correlation",
    "error_percent": "error",
    "variance": "variance",
    "median_error_percent": "median_error",
    "error_apart_percent": "error_apart",
    "share_apart": "share_apart",
    "share_far_off": "share_far_off",
}

Method = tuple[str, Mapping[str, Any]]


def policy_sets(pipeline: Pipeline, counts: SetCounts, environment: str) -> list[Collection]:
    """Return a collection for each set of policies."""
    training = pipeline.training(environment, "ppo", counts.sets)
    return [
        Collection((training,), counts.episodes, counts.policies, pipeline.seed, runs=(number,))
        for number in range(counts.sets)
    ]


def evaluated(pipeline: Pipeline, counts: SetCounts, methods: Mapping[str, Method]) -> Evaluation:
    """Evaluate characterizations, by their labels; finished units are kept in the cache."""
    stores = {}
    for environment in counts.environments:
        for number, collection in enumerate(policy_sets(pipeline, counts, environment)):
            pipeline.collect(collection)
            stores[f"{environment} {number}"] = pipeline.store_folder(collection)
    drawn = (counts.sizes, counts.repetitions, pipeline.seed, pipeline.cache / "evaluation")
    # Not isolated: a process each takes seconds.
    evaluation = evaluate(stores, methods, *drawn, progress=pipeline.progress, isolate=False)
    failed = {(method, store.rpartition(" ")[0]) for method, store, _ in evaluation.problems}
    for environment, label in product(counts.environments, methods):
        if (label, environment) not in failed:
            pipeline.finish(_stage(pipeline, environment, methods[label], counts))
    return evaluation


def mean_returns(pipeline: Pipeline, counts: SetCounts) -> dict[str, list[list[float]]]:
    """Return the mean returns of the policies of each set, in the order of training."""
    result = {}
    for environment in counts.environments:
        sets = [pipeline.collect(part) for part in policy_sets(pipeline, counts, environment)]
        result[environment] = [
            data.mean_returns[
                np.argsort([info.step or 0 for info in data.policies], kind="stable")
            ].tolist()
            for data in sets
        ]
    return result


def needs(
    pipeline: Pipeline, counts: SetCounts, methods: Mapping[str, Method], unit: str = ""
) -> list[Need]:
    """List what is trained, collected and computed; ``unit`` is what labels of methods count."""
    result: list[Need] = []
    trajectories = counts.sets * counts.policies * counts.repetitions * sum(counts.sizes)
    for environment in counts.environments:
        training = pipeline.training(environment, "ppo", counts.sets)
        states = trajectories * (expected_length(training) + 1) / 1e6
        result += [training, *policy_sets(pipeline, counts, environment)]
        result += [
            Calculation(
                f"{label}{unit} in {environment}, millions of states",
                states,
                method_seconds(method[0], method[1].get("n_components", 64)),
                done=pipeline.is_finished(stage),
                key=stage,
            )
            for label, method in methods.items()
            for stage in [_stage(pipeline, environment, method, counts)]
        ]
    return result


def _stage(pipeline: Pipeline, environment: str, method: Method, counts: SetCounts) -> str:
    """Name the units of a method by all that decides them, as recipes share them."""
    name, parameters = method
    sets = [collection.key for collection in policy_sets(pipeline, counts, environment)]
    chosen = characterization(name, **parameters).parameters_json()
    return f"evaluated-{digest_of([sets, name, chosen, counts.sizes, counts.repetitions])}"


def unit_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return a row for each unit, with None where a number is not known."""
    return [
        {
            "environment": row.environment,
            "method": row.method,
            "set": int(row.store.rpartition(" ")[2]),
            "trajectories": row.size,
            "repetition": row.repetition,
            **{name: _known(getattr(row, field)) for name, field in METRICS.items()},
            "card": row.card,
        }
        for row in evaluation.rows
    ]


def averages(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return a row for each environment, method and size, averaged as the paper does."""
    rows = []
    for row in evaluation.summary():
        facts = {"environment": row.environment, "method": row.method, "trajectories": row.size}
        for name, field in METRICS.items():
            value = getattr(row, field)
            std = _known(value.std) if value.n > 1 else None
            facts |= {name: _known(value.mean), f"{name}_std": std}
        rows.append(facts)
    return rows


def _known(value: float) -> float | None:
    """Return the value, or None for NaN, which JSON does not have."""
    return None if math.isnan(value) else value


def problems(evaluation: Evaluation) -> list[str]:
    """Say what failed, a line each."""
    return [f"{method} on {store}: {why}" for method, store, why in evaluation.problems]
