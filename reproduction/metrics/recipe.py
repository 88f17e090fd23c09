"""Figure 3: how well characterizations measure behaviour, with how many trajectories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pivec.characterizations import characterization
from pivec.report.evaluation_figure import evaluation_figure
from pivec.statistics import Evaluation
from pivec.workflows import read_outcome
from reproduction import evaluating
from reproduction.background import AUTHORS
from reproduction.evaluating import (
    SETS,
    Method,
    SetCounts,
    averages,
    evaluated,
    mean_returns,
    problems,
    unit_rows,
)
from reproduction.metrics.findings import PUBLISHED, findings
from reproduction.metrics.page import FAST, remarks, tables
from reproduction.pipeline import Workshop
from reproduction.published import pearson
from reproduction.recipes import Need, Recipe, Result, Told


@dataclass(frozen=True, kw_only=True)
class Counts(SetCounts):
    """What is compared, beside the counts of the sets of policies."""

    # The paper's five and pivec's own; any that need nothing but states.
    methods: tuple[str, ...] = (*PUBLISHED, "visitation")
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def methods_of(counts: Counts) -> dict[str, Method]:
    """Return the characterizations and their parameters; networks take a card if there is one.

    They are as the authors have them; supervectors also as they are by default.
    """
    methods: dict[str, Method] = {}
    for name in counts.methods:
        own = dict(counts.parameters.get(name, {}))
        if "device" in characterization(name).get_params(deep=False):
            own["device"] = "auto"
        methods[name] = (name, {**AUTHORS.get(name, {}), **own})
        if name == "supervector":
            methods[FAST] = (name, own)
    return methods


def needs(shop: Workshop, counts: Counts) -> list[Need]:
    """List the runs, the sets of policies and the evaluation of every characterization."""
    return evaluating.needs(shop, counts, methods_of(counts))


def make(shop: Workshop, counts: Counts) -> Result:
    """Evaluate every characterization on every set of policies."""
    methods = methods_of(counts)
    evaluation = evaluated(shop, counts, methods)
    numbers = {
        "methods": methods,
        "averages": averages(evaluation),
        "units": unit_rows(evaluation),
        "fits": agreement(evaluation),
        "returns": mean_returns(shop, counts),
        "steps": {
            environment: shop.training(environment, "ppo", counts.sets).settings["steps"]
            for environment in counts.environments
        },
        "remarks": [*evaluation.notes, *problems(evaluation)],
    }
    shown = replace(evaluation, rows=tuple(row for row in evaluation.rows if row.method != FAST))
    return Result(
        numbers, {"metrics": evaluation_figure(shown, across=len(counts.environments) > 1)}
    )


def agreement(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return how the distances of both fits of supervectors correlate, a row for each draw.

    Beside it stands how those of the paper's fit do between a draw and the first of its size.
    """
    kept = {
        (row.method, row.store, row.size, row.repetition): (row, read_outcome(file))
        for row, file in zip(evaluation.rows, evaluation.files, strict=True)
        if row.method in ("supervector", FAST) and not row.problem
    }

    def correlation(first: tuple[Any, ...], second: tuple[Any, ...]) -> float | None:
        pairs = [kept[key][1] for key in (first, second) if key in kept]
        if first == second or len(pairs) < 2 or None in pairs:
            return None
        matrices = [outcome.distances for outcome in pairs if outcome is not None]
        upper = np.triu_indices(len(matrices[0]), k=1)
        value = pearson(matrices[0][upper], matrices[1][upper])
        return None if np.isnan(value) else value

    return [
        {
            "environment": row.environment,
            "set": int(store.rpartition(" ")[2]),
            "trajectories": size,
            "repetition": repetition,
            "other_fit": correlation(
                ("supervector", store, size, repetition), (FAST, store, size, repetition)
            ),
            "other_draw": correlation(
                ("supervector", store, size, repetition), ("supervector", store, size, 1)
            ),
        }
        for (method, store, size, repetition), (row, _) in kept.items()
        if method == "supervector"
    ]


def tell(numbers: Mapping[str, Any], _counts: Counts) -> Told:
    """Say what the numbers show."""
    return Told(numbers["units"], tables(numbers), findings(numbers), remarks(numbers))


RECIPE = Recipe(
    name="metrics",
    shows=(
        "Figure 3: correlation with returns, distance error and distance variance of "
        "characterizations over the number of trajectories"
    ),
    counts={
        "smoke": Counts(
            **SETS["smoke"],
            parameters={
                "supervector": {"n_components": 8},
                "discriminator": {"n_units": 16, "epochs": 2},
                "encoder": {"n_units": 8, "n_latent": 8, "epochs": 1},
                "visitation": {"n_components": 8},
            },
        ),
        "small": Counts(
            **SETS["small"], parameters={"discriminator": {"epochs": 2}, "encoder": {"epochs": 2}}
        ),
        "paper": Counts(**SETS["paper"]),
    },
    needs=needs,
    make=make,
    tell=tell,
)
