"""Trust regions on the dangerous path: constraints on actions and on states, and none."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pivec.parallel import Tell
from reproduction.pipeline import Workshop
from reproduction.recipes import Calculation, Need, Recipe, Result, Told
from reproduction.trust_region.figure import trust_region_figure
from reproduction.trust_region.findings import findings, interval, remarks, tables
from reproduction.trust_region.methods import (
    CONSTRAINTS,
    OTHER_VARIANTS,
    OTHERS,
    RANGES,
    SEARCHED_VARIANTS,
    area,
    base_of,
    next_threshold,
    self_stops,
    settings_of,
    stopped,
    tenths,
)
from reproduction.trust_region.path import PathRun, PathSettings, learn_path

Runs = dict[tuple[str, float], list[PathRun]]  # by method and threshold
_FACTOR = 1_000  # so that repetitions of different seeds have different paths


@dataclass(frozen=True)
class Counts:
    """Repetitions of the best thresholds and of each threshold searched; steps of a run."""

    repetitions: int
    sweep_repetitions: int
    steps: int
    variants: tuple[str, ...] = (*SEARCHED_VARIANTS, *OTHER_VARIANTS)


def needs(shop: Workshop, counts: Counts) -> list[Need]:  # noqa: ARG001 - as of all recipes
    """List what is computed, without what the search does beyond the first ranges."""
    few = counts.sweep_repetitions
    amounts = dict.fromkeys((*CONSTRAINTS, *OTHERS), counts.repetitions)
    amounts |= dict.fromkeys(counts.variants, few)
    for name in amounts:
        if name in CONSTRAINTS or name in SEARCHED_VARIANTS:
            amounts[name] += few * (len(RANGES[base_of(name)].first) - 1)
    return [
        Calculation(
            f"runs of {name} in pivec/DangerousPath-v0", amount, partial(_seconds, name, counts)
        )
        for name, amount in amounts.items()
    ]


def _seconds(name: str, counts: Counts) -> float:
    """How long a run takes that no constraint stops early, from a small part of it."""
    settings = settings_of(name, 1e9)._replace(total_steps=32_768)
    learn_path(settings._replace(total_steps=1), 0, 0)  # compiles
    start = time.perf_counter()
    learn_path(settings, 0, 0)
    return (time.perf_counter() - start) * counts.steps / settings.total_steps


def make(shop: Workshop, counts: Counts) -> Result:
    """Search the thresholds, repeat the best of each rule, and compare."""
    few, searched = range(counts.sweep_repetitions), set(counts.variants) & set(SEARCHED_VARIANTS)
    runner = partial(_runs, shop, counts.steps)
    swept = _search(CONSTRAINTS, runner, few)
    chosen = best_thresholds(swept)
    runs = runner(
        [(name, chosen.get(name, np.inf)) for name in (*CONSTRAINTS, *OTHERS)],
        range(counts.repetitions),
        "repeat",
    )
    swept |= _search([name for name in counts.variants if name in searched], runner, few)
    chosen |= best_thresholds(swept)
    chosen |= {
        name: chosen[base_of(name)]
        for name in counts.variants
        if base_of(name) in chosen and name not in searched
    }
    runs |= runner([(name, chosen.get(name, np.inf)) for name in counts.variants], few, "variants")
    rng = np.random.default_rng(shop.seed)
    sweep = [{"method": key[0], **_summary(key, group, rng)} for key, group in swept.items()]
    summary = {key[0]: _summary(key, group, rng) for key, group in runs.items()}
    curves = {name: _curve(group, counts, rng) for (name, _), group in runs.items()}
    numbers = {
        "chosen": chosen,
        "methods": summary,
        "sweep": sweep,
        "curves": curves,
        "tenths": {
            name: [tenths(run).tolist() for run in group] for (name, _), group in runs.items()
        },
        "runs": _rows(swept, "search", shop) + _rows(runs, "repeat", shop),
    }
    return Result(numbers, {"trust-region": trust_region_figure(curves, sweep, chosen, summary)})


def _search(names: Sequence[str], runner: Any, repetitions: Sequence[int]) -> Runs:
    """Run all thresholds, and more of them while the best lies at the edge of its range."""
    todo = [(name, value) for name in names for value in RANGES[base_of(name)].first]
    swept: Runs = {}
    while todo:
        swept |= runner(todo, repetitions, "search")
        further = {
            name: next_threshold(_areas(swept, name), RANGES[base_of(name)]) for name in names
        }
        todo = [(name, value) for name, value in further.items() if value is not None]
    return {key: swept[key] for key in sorted(swept, key=lambda key: (names.index(key[0]), key[1]))}


def _areas(swept: Runs, name: str) -> dict[float, float]:
    return {threshold: area(runs) for (method, threshold), runs in swept.items() if method == name}


def best_thresholds(swept: Runs) -> dict[str, float]:
    """For each method, the threshold with the largest area under the mean learning curve."""
    areas = {name: _areas(swept, name) for name in dict.fromkeys(name for name, _ in swept)}
    return {name: max(of, key=of.__getitem__) for name, of in areas.items()}


def tell(numbers: Mapping[str, Any], _counts: Counts) -> Told:
    """Say what the numbers show."""
    return Told(numbers["runs"], tables(numbers), findings(numbers), remarks(numbers))


def _runs(
    shop: Workshop,
    steps: int,
    what: Sequence[tuple[str, float]],
    repetitions: Sequence[int],
    title: str,
) -> Runs:
    """Run everything that is not there yet; in the order of ``what``.

    Equal repetitions have the same path.
    """
    inputs = [
        {
            "settings": settings_of(*key)._replace(total_steps=steps)._asdict(),
            "path_seed": _path_seed(shop, i),
            "seed": [shop.seed, i],
        }
        for key in what
        for i in repetitions
    ]
    done = iter(shop.computed_all("trust-region", inputs, run_path, title))
    return {key: [PathRun(**next(done)) for _ in repetitions] for key in what}


def run_path(inputs: Mapping[str, Any], _tell: Tell) -> dict[str, Any]:
    """One run, from all that decides it."""
    settings = PathSettings(**inputs["settings"])
    return learn_path(settings, inputs["path_seed"], inputs["seed"])._asdict()


def _path_seed(shop: Workshop, repetition: int) -> int:
    return shop.seed * _FACTOR + repetition


def _summary(
    key: tuple[str, float], runs: Sequence[PathRun], rng: np.random.Generator
) -> dict[str, Any]:
    """Numbers of one method, with 95 % intervals over the repetitions."""
    settings = settings_of(*key)
    return {
        "threshold": _finite(settings.threshold),
        "area": interval(np.array([run.returns.mean() for run in runs]), rng),
        "end": interval(np.array([tenths(run)[-1] for run in runs]), rng),
        "updates": float(np.mean([run.updates for run in runs])),
        "stopped": stopped(runs, settings),
        "self_stops": self_stops(runs, settings),
    }


def _curve(
    runs: Sequence[PathRun], counts: Counts, rng: np.random.Generator
) -> dict[str, list[float]]:
    """Mean return over the repetitions at each iteration, with a 95 % interval."""
    returns = np.array([run.returns for run in runs])
    mean, low, high = interval(returns, rng)
    n = returns.shape[1]
    return {
        "steps": np.linspace(counts.steps / n, counts.steps, n).tolist(),
        "mean": np.asarray(mean).tolist(),
        "low": np.asarray(low).tolist(),
        "high": np.asarray(high).tolist(),
    }


def _finite(threshold: float) -> float | None:
    return threshold if np.isfinite(threshold) else None


def _rows(runs: Runs, part: str, shop: Workshop) -> list[dict[str, Any]]:
    """One row for each run."""
    return [
        {
            "part": part,
            "method": key[0],
            "threshold": _finite(key[1]),
            "repetition": i,
            "path_seed": _path_seed(shop, i),
            "mean_return": float(run.returns.mean()),
            "first_fifth": float(tenths(run)[:2].mean()),
            "last_tenth": float(tenths(run)[-1]),
            "updates": float(run.updates.mean()),
            "stopped": stopped([run], settings_of(*key)),
            "self_stops": self_stops([run], settings_of(*key)),
        }
        for key, group in runs.items()
        for i, run in enumerate(group)
    ]


RECIPE = Recipe(
    name="trust-region",
    shows="Figure 5 (a): PPO on the dangerous path, its updates stopped by different constraints",
    counts={
        "smoke": Counts(2, 2, 8_192, ("gaussian-ends", "none-64")),
        "small": Counts(10, 10, 1_000_000),
        "paper": Counts(50, 10, 1_000_000),
    },
    needs=needs,
    make=make,
    tell=tell,
)
