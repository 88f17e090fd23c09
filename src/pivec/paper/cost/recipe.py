"""Table 1's column of required compute, measured: seconds and memory of every characterization.

Each describes and compares the same policies, a few and then several times as many, in a process
of its own, so that its peak of memory can be told.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from pivec.characterizations.registry import characterization, names
from pivec.collection import collect
from pivec.paper.cost.figure import cost_figure
from pivec.paper.cost.page import findings, table
from pivec.paper.cost.process import Measured, measure_in_process
from pivec.paper.published import notes, published
from pivec.paper.recipes import Calculation, Need, Recipe, Result
from pivec.paper.workshop import Workshop, spread_evenly
from pivec.policies import load_policies
from pivec.policies.policy import NamedPolicy

ENVIRONMENT = "CartPole-v1"  # of the policies that come with the package


@dataclass(frozen=True)
class Counts:
    """How many policies are compared, from how much data.

    Attributes
    ----------
    policies : tuple of int
        Smaller numbers first; the policies that come with the package are enough for 48.
    episodes : int
        Of each policy.
    methods : tuple of str
    parameters : mapping of str to mapping
        For each method, what differs from its defaults, which are the paper's.
    """

    policies: tuple[int, ...]
    episodes: int
    methods: tuple[str, ...] = field(default_factory=names)
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def shipped_policies(count: int) -> list[NamedPolicy]:
    """Load policies that come with the package, spread evenly over all runs."""
    everything = load_policies(Path(str(files("pivec") / "demo_policies" / ENVIRONMENT)))
    return spread_evenly(everything, count)


def needs(shop: Workshop, counts: Counts) -> list[Need]:  # noqa: ARG001 - as every recipe's
    """List the measurements."""
    trajectories = sum(counts.policies) * counts.episodes
    return [
        Calculation(
            f"{name} of trajectories in {ENVIRONMENT}",
            trajectories,
            partial(_seconds_a_trajectory, name, counts.parameters.get(name, {})),
        )
        for name in counts.methods
    ]


def _seconds_a_trajectory(method: str, parameters: Mapping[str, Any]) -> float:
    """Time a characterization on two policies."""
    data = collect(ENVIRONMENT, shipped_policies(2), 2, actions=True)
    began = time.perf_counter()
    characterization(method, **parameters).fit(data).distances(data)
    return (time.perf_counter() - began) / data.n_episodes


def make(shop: Workshop, counts: Counts) -> Result:
    """Measure every characterization on the same states."""
    store = _states(shop, counts)
    rows = [
        row
        for name in counts.methods
        for row in _rows(name, _measured(shop, counts, store, name), counts)
    ]
    return Result(
        numbers={"environment": ENVIRONMENT, "episodes": counts.episodes, "rows": rows},
        rows=rows,
        figures={"cost": cost_figure(rows, ENVIRONMENT, counts.episodes)},
        tables=table(rows),
        findings=findings(rows),
        notes=notes("cost"),
    )


def _states(shop: Workshop, counts: Counts) -> Path:
    """Collect the states of the most policies, with actions and the policies themselves."""
    most = max(counts.policies)
    store = shop.cache / "states" / f"{ENVIRONMENT}-shipped-{most}x{counts.episodes}-{shop.seed}"
    collect(
        ENVIRONMENT,
        shipped_policies(most),
        counts.episodes,
        shop.seed,
        store=store,
        actions=True,
        keep_policies=True,
        progress=shop.progress,
    )
    return store


def _measured(shop: Workshop, counts: Counts, store: Path, name: str) -> Measured:
    parameters = dict(counts.parameters.get(name, {}))
    inputs = {
        "method": name,
        "parameters": parameters,
        "policies": list(counts.policies),
        "episodes": counts.episodes,
        "seed": shop.seed,
    }
    kept = shop.computed(
        "cost",
        inputs,
        lambda: vars(measure_in_process(name, parameters, store, counts.policies)),
    )
    return Measured(**kept)


def _rows(method: str, measured: Measured, counts: Counts) -> list[dict[str, Any]]:
    row, rating = published()["cost"].get(method, ("", ""))
    return [
        {
            "method": method,
            "row_of_the_table": row,
            "paper": rating,
            "policies": policies,
            "seconds": float(measured.seconds[i].sum()),
            "seconds_fit": float(measured.seconds[i, 0]),
            "seconds_describe": float(measured.seconds[i, 1]),
            "seconds_distances": float(measured.seconds[i, 2]),
            "peak_mb": float(measured.peak_mb[i]),
            "added_mb": float(measured.peak_mb[i] - measured.before_mb),
        }
        for i, policies in enumerate(counts.policies)
    ]


RECIPE = Recipe(
    name="cost",
    shows="Table 1's column of required compute, measured: seconds and memory",
    counts={
        "smoke": Counts(
            policies=(4, 8),
            episodes=2,
            methods=("supervector", "gaussian", "discretization", "terminal-state", "returns"),
        ),
        "small": Counts(policies=(12, 48), episodes=10),
        "paper": Counts(policies=(12, 48), episodes=100),
    },
    needs=needs,
    make=make,
)
