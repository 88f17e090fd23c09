"""Table 1's column of required compute, measured: seconds and memory of every characterization.

Each describes and compares the same policies, a few and then several times as many, in a process
of its own, so that its peak of memory can be told.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import characterization, names
from pivec.parallel import Tell, ask, usable_cores
from pivec.policies import NamedPolicy, load_policies
from pivec.run_log import peak_mb
from pivec.states import VisitedStates, load
from pivec.workflows.collect import collect
from reproduction.background import AUTHORS
from reproduction.cost.figure import cost_figure
from reproduction.cost.page import findings, table
from reproduction.evaluating import BEFORE
from reproduction.pipeline import Workshop, spread_evenly
from reproduction.published import notes, published
from reproduction.recipes import Calculation, Need, Recipe, Result, Told

ENVIRONMENT = "CartPole-v1"  # of the policies that come with the package


@dataclass(frozen=True)
class Counts:
    """How many policies are compared, from how much data."""

    policies: tuple[int, ...]  # from few to many; enough for 48 come with the package
    episodes: int  # of each policy
    methods: tuple[str, ...] = field(default_factory=names)
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def shipped_policies(count: int) -> list[NamedPolicy]:
    """Load policies that come with the package, spread evenly over all runs."""
    everything = load_policies(Path(str(files("pivec") / "demo_policies" / ENVIRONMENT)))
    return spread_evenly(everything, count)


def needs(shop: Workshop, counts: Counts) -> list[Need]:
    """List the measurements."""
    sizes = [count * counts.episodes for count in counts.policies]
    return [
        Calculation(
            f"{name} of trajectories in {ENVIRONMENT}",
            sum(sizes),
            partial(_seconds_a_trajectory, name, _parameters(counts, name), sizes),
            left=0.0 if shop.is_computed("cost", _inputs(shop, counts, name)) else None,
        )
        for name in counts.methods
    ]


def _parameters(counts: Counts, name: str) -> dict[str, Any]:
    return {**AUTHORS.get(name, {}), **counts.parameters.get(name, {})}


def _seconds_a_trajectory(
    method: str, parameters: Mapping[str, Any], sizes: Sequence[int]
) -> float:
    """Time a characterization on two policies and on some more, after a first time that compiles.

    What the others add is for their trajectories; the rest, as updates of a network that are always
    as many, comes once for each of ``sizes``, numbers of trajectories.
    """
    data = _few_states()

    def seconds(policies: int) -> float:
        part, began = data[:policies], time.perf_counter()
        characterization(method, **parameters).fit(part).distances(part)
        return time.perf_counter() - began

    seconds(2)  # loads and compiles
    few, many = seconds(2), seconds(len(data))
    of_policy = max(many - few, 0.0) / (len(data) - 2)
    always = max(few - 2 * of_policy, 0.0)
    return of_policy * len(data) / data.n_episodes + always * len(sizes) / sum(sizes)


@cache
def _few_states() -> VisitedStates:
    return collect(ENVIRONMENT, shipped_policies(6), 2, actions=True, keep_policies=True)


def make(shop: Workshop, counts: Counts) -> Result:
    """Measure every characterization on the same states."""
    store = _states(shop, counts)
    rows = [
        row
        for name in counts.methods
        for row in _rows(name, _measured(shop, counts, store, name), counts)
    ]
    methods = {name: _parameters(counts, name) for name in counts.methods}
    facts = {"environment": ENVIRONMENT, "episodes": counts.episodes, "cores": usable_cores()}
    numbers = {**facts, "methods": methods, "rows": rows}
    return Result(numbers, {"cost": cost_figure(rows, ENVIRONMENT, counts.episodes)})


def tell(numbers: Mapping[str, Any], _counts: Counts) -> Told:
    """Say what the numbers show."""
    rows = numbers["rows"]
    known = numbers.get("cores")
    cores = "the cores" if known is None else "one core" if known == 1 else f"{known} cores"
    remarks = notes("cost", cores=cores)
    if "methods" not in numbers:
        remarks = [*remarks[:-1], BEFORE]
    return Told(rows, table(rows), findings(rows), remarks)


def _states(shop: Workshop, counts: Counts) -> Path:
    """Collect the states of the most policies, with actions and the policies themselves."""
    most = max(counts.policies)
    store = shop.cache / "states" / f"{ENVIRONMENT}-shipped-{most}x{counts.episodes}-{shop.seed}"
    kept: dict[str, Any] = {"store": store, "actions": True, "keep_policies": True}
    shop.play(ENVIRONMENT, shipped_policies(most), counts.episodes, shop.seed, **kept)
    return store


def _measured(shop: Workshop, counts: Counts, store: Path, name: str) -> Measured:
    def measure() -> dict[str, Any]:
        given = _parameters(counts, name)
        return vars(measure_in_process(name, given, store, counts.policies))

    return Measured(**shop.computed("cost", _inputs(shop, counts, name), measure))


def _inputs(shop: Workshop, counts: Counts, name: str) -> dict[str, Any]:
    """All that decides a measurement."""
    return {
        "method": name,
        "parameters": _parameters(counts, name),
        "policies": list(counts.policies),
        "episodes": counts.episodes,
        "seed": shop.seed,
        "cores": usable_cores(),
    }


@dataclass(frozen=True, eq=False)
class Measured:
    """What one characterization takes."""

    seconds: NDArray[np.float64]  # (n, 3): fit, describe and distances, for each number of policies
    peak_mb: NDArray[np.float64]  # (n,): the most memory, in millions of bytes, held by then
    before_mb: Any  # the same before the first, with all libraries loaded


def measure_in_process(
    method: str, parameters: Mapping[str, Any], store: Path, policies: Sequence[int]
) -> Measured:
    """Let a process describe and compare the first so many policies of a store, few first."""
    request = (method, dict(parameters), store.resolve(), policies)
    measured: Measured = ask(_measure, request, failed=f"{method} could not be measured")
    return measured


def _measure(request: tuple[str, dict[str, Any], Path, Sequence[int]], _tell: Tell) -> Measured:
    """Measure what is asked for; runs in a process of its own."""
    method, parameters, store, policies = request
    data = load(store, verify=False)
    few = data[:3].sample_episodes(1, np.random.default_rng(0))
    characterization(method, **parameters).fit(few).distances(few)  # loads and compiles
    before, seconds, peaks = peak_mb(), [], []
    for count in policies:
        part = data.select(np.linspace(0, len(data) - 1, count).round().astype(int))
        measured = characterization(method, **parameters)
        times = [time.perf_counter()]
        measured.fit(part)
        times.append(time.perf_counter())
        described = measured.describe(part)
        times.append(time.perf_counter())
        measured.distances(described)
        times.append(time.perf_counter())
        seconds.append(np.diff(times))
        peaks.append(peak_mb())
    return Measured(np.array(seconds), np.array(peaks), before)


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
    tell=tell,
)
