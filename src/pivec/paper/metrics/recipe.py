"""Figure 3: how well characterizations measure behaviour, with how many trajectories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pivec.characterizations.registry import characterization
from pivec.paper import evaluating
from pivec.paper.background import PAPERS_FIT
from pivec.paper.evaluating import SETS, Method, SetCounts, averages, evaluated, problems, unit_rows
from pivec.paper.metrics.page import findings, tables
from pivec.paper.published import notes
from pivec.paper.recipes import Need, Recipe, Result, Told
from pivec.paper.workshop import Workshop
from pivec.report.evaluation_figure import evaluation_figure

PUBLISHED = ("supervector", "gaussian", "discretization", "discriminator", "encoder")
AUTHORS: dict[str, Mapping[str, Any]] = {"supervector": PAPERS_FIT}  # as their scripts have it


@dataclass(frozen=True, kw_only=True)
class Counts(SetCounts):
    """What is compared, beside the counts of the sets of policies."""

    methods: tuple[str, ...] = PUBLISHED  # the paper's five, or others that need nothing but states
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def methods_of(counts: Counts) -> dict[str, Method]:
    """Return the characterizations and their parameters; networks take a card if there is one."""
    methods: dict[str, Method] = {}
    for name in counts.methods:
        parameters = {**AUTHORS.get(name, {}), **counts.parameters.get(name, {})}
        if "device" in characterization(name).get_params(deep=False):
            parameters["device"] = "auto"
        methods[name] = (name, parameters)
    return methods


def needs(shop: Workshop, counts: Counts) -> list[Need]:
    """List the runs, the sets of policies and the evaluation of every characterization."""
    return evaluating.needs(shop, counts, methods_of(counts))


def make(shop: Workshop, counts: Counts) -> Result:
    """Evaluate every characterization on every set of policies."""
    evaluation = evaluated(shop, counts, methods_of(counts))
    summary, rows = averages(evaluation), unit_rows(evaluation)
    remarks = [*evaluation.notes, *problems(evaluation)]
    numbers = {"averages": summary, "units": rows, "remarks": remarks}
    return Result(
        numbers, {"metrics": evaluation_figure(evaluation, across=len(counts.environments) > 1)}
    )


def tell(numbers: Mapping[str, Any], _counts: Counts) -> Told:
    """Say what the numbers show."""
    summary = numbers["averages"]
    remarks = [*notes("metrics"), *numbers["remarks"]]
    return Told(numbers["units"], tables(summary), findings(summary), remarks)


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
