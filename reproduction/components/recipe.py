"""The appendix' heatmaps: supervectors of more and fewer components, with more and less data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reproduction import evaluating
from reproduction.background import PAPERS_FIT
from reproduction.components.figure import components_figure
from reproduction.components.page import findings, tables
from reproduction.evaluating import (
    BEFORE,
    SETS,
    Method,
    SetCounts,
    averages,
    evaluated,
    problems,
    unit_rows,
)
from reproduction.pipeline import Workshop
from reproduction.published import notes
from reproduction.recipes import Need, Recipe, Result, Told


@dataclass(frozen=True, kw_only=True)
class Counts(SetCounts):
    """Components of the background model, beside the counts of the sets of policies."""

    components: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)


def methods_of(counts: Counts) -> dict[str, Method]:
    """Return supervectors of every number of components, which is their label."""
    return {str(k): ("supervector", {"n_components": k, **PAPERS_FIT}) for k in counts.components}


def needs(shop: Workshop, counts: Counts) -> list[Need]:
    """List the runs and the sets of policies, which are those of `metrics`, and the fits."""
    return evaluating.needs(shop, counts, methods_of(counts), " components")


def make(shop: Workshop, counts: Counts) -> Result:
    """Evaluate supervectors of every number of components on every set of policies."""
    methods = methods_of(counts)
    evaluation = evaluated(shop, counts, methods)
    summary = [_numbered(row) for row in averages(evaluation)]
    rows = [_numbered(row) for row in unit_rows(evaluation)]
    remarks = problems(evaluation)
    numbers = {"methods": methods, "averages": summary, "units": rows, "remarks": remarks}
    return Result(
        numbers, {"components": components_figure(summary, counts.sets, counts.repetitions)}
    )


def tell(numbers: Mapping[str, Any], _counts: Counts) -> Told:
    """Say what the numbers show."""
    summary = numbers["averages"]
    remarks = [*notes("components"), *numbers["remarks"]]
    if "methods" not in numbers:
        remarks = [BEFORE, *remarks]
    return Told(numbers["units"], tables(summary), findings(summary), remarks)


def _numbered(row: dict[str, Any]) -> dict[str, Any]:
    """Give the number of components where the label of the method stood."""
    return {
        ("components" if name == "method" else name): (int(value) if name == "method" else value)
        for name, value in row.items()
    }


RECIPE = Recipe(
    name="components",
    shows=(
        "The appendix' heatmaps: the three metrics of supervectors over the number of components "
        "and of trajectories"
    ),
    counts={
        "smoke": Counts(**SETS["smoke"], components=(1, 2, 8)),
        "small": Counts(**SETS["small"]),
        "paper": Counts(**SETS["paper"]),
    },
    needs=needs,
    make=make,
    tell=tell,
)
