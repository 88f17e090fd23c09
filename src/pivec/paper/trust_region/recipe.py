"""Trust regions on the dangerous path: constraints on actions and on states, and none."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.engines.engine import Tell
from pivec.paper.recipes import Calculation, Need, Recipe, Result, Told
from pivec.paper.rows import column, different, where
from pivec.paper.trust_region.figure import trust_region_figure
from pivec.paper.trust_region.findings import NOTES, findings, interval, tables
from pivec.paper.trust_region.path import PathRun, PathSettings, learn_path
from pivec.paper.workshop import Workshop

Array = NDArray[np.float64]

# What is searched: settings but for the threshold, and the paper's thresholds. The paper does not
# say whether the old policy is played anew for every check; "-once" is the other reading.
_GAUSSIANS = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 20.0)
_SUPERVECTORS = (0.01, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
SWEEP: Mapping[str, tuple[PathSettings, tuple[float, ...]]] = {
    "max-tv": (
        PathSettings(rule="max-tv"),
        (0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5),
    ),
    "gaussian": (PathSettings(rule="gaussian"), _GAUSSIANS),
    "supervector": (PathSettings(rule="supervector"), _SUPERVECTORS),
    "gaussian-once": (PathSettings(rule="gaussian", old_once=True), _GAUSSIANS),
    "supervector-once": (PathSettings(rule="supervector", old_once=True), _SUPERVECTORS),
}
OTHERS: Mapping[str, PathSettings] = {
    "none": PathSettings(),
    "clipped": PathSettings(clip=0.2, max_updates=640),  # ten passes over the data
}
_FACTOR = 1_000  # so that repetitions of different seeds have different paths


@dataclass(frozen=True)
class Counts:
    """Repetitions of the best thresholds and of each threshold searched; steps of a run."""

    repetitions: int
    sweep_repetitions: int
    steps: int


def needs(shop: Workshop, counts: Counts) -> list[Need]:  # noqa: ARG001 - as of all recipes
    """List what is computed."""
    more = max(counts.repetitions - counts.sweep_repetitions, 0)
    amounts = {
        name: len(thresholds) * counts.sweep_repetitions + more
        for name, (_, thresholds) in SWEEP.items()
    }
    amounts |= dict.fromkeys(OTHERS, counts.repetitions)
    return [
        Calculation(
            f"runs of {name} in pivec/DangerousPath-v0", amount, partial(_seconds, name, counts)
        )
        for name, amount in amounts.items()
    ]


def _seconds(name: str, counts: Counts) -> float:
    """How long a run takes that no constraint stops early, from a small part of it."""
    settings = OTHERS.get(name) or _settings(name, 1e9, counts)
    settings = settings._replace(total_steps=32_768)
    learn_path(settings._replace(total_steps=1), 0, 0)  # compiles
    start = time.perf_counter()
    learn_path(settings, 0, 0)
    return (time.perf_counter() - start) * counts.steps / settings.total_steps


def _settings(name: str, threshold: float, counts: Counts) -> PathSettings:
    return SWEEP[name][0]._replace(threshold=threshold, total_steps=counts.steps)


def make(shop: Workshop, counts: Counts) -> Result:
    """Search the thresholds, repeat the best of each rule, and compare."""
    searched = {
        (name, threshold): _settings(name, threshold, counts)
        for name, (_, thresholds) in SWEEP.items()
        for threshold in thresholds
    }
    swept = _runs(shop, searched, range(counts.sweep_repetitions), "search")
    chosen = best_thresholds(swept)
    methods = {
        **{name: searched[name, threshold] for name, threshold in chosen.items()},
        **{name: other._replace(total_steps=counts.steps) for name, other in OTHERS.items()},
    }
    runs = _runs(shop, methods, range(counts.repetitions), "repeat")
    rng = np.random.default_rng(shop.seed)
    sweep = [
        {"method": name, **_summary(group, threshold, rng)}
        for (name, threshold), group in swept.items()
    ]
    summary = {name: _summary(group, methods[name].threshold, rng) for name, group in runs.items()}
    curves = {name: _curve(group, counts, rng) for name, group in runs.items()}
    numbers = {
        "chosen": chosen,
        "methods": summary,
        "sweep": sweep,
        "curves": curves,
        "runs": _rows(searched, swept, "search", shop) + _rows(methods, runs, "repeat", shop),
    }
    return Result(numbers, {"trust-region": trust_region_figure(curves, sweep, chosen, summary)})


def tell(numbers: Mapping[str, Any], _counts: Counts) -> Told:
    """Say what the numbers show."""
    repeated = where(numbers["runs"], part="repeat")
    whole, last = (
        {
            name: np.array(column(repeated, measure, method=name))
            for name in different(repeated, "method")
        }
        for measure in ("mean_return", "last_tenth")
    )
    text = tables(numbers["methods"], numbers["sweep"], numbers["chosen"])
    rng = np.random.default_rng(0)  # of the bootstrap
    return Told(numbers["runs"], text, findings(whole, last, rng), NOTES)


def _runs(
    shop: Workshop, what: Mapping[Any, PathSettings], repetitions: Sequence[int], title: str
) -> dict[Any, list[PathRun]]:
    """Run everything that is not there yet; in the order of ``what``.

    Equal repetitions have the same path.
    """
    inputs = [
        {"settings": settings._asdict(), "path_seed": _path_seed(shop, i), "seed": [shop.seed, i]}
        for settings in what.values()
        for i in repetitions
    ]
    done = iter(shop.computed_all("trust-region", inputs, run_path, title))
    return {name: [PathRun(**next(done)) for _ in repetitions] for name in what}


def run_path(inputs: Mapping[str, Any], _tell: Tell) -> dict[str, Any]:
    """One run, from all that decides it."""
    settings = PathSettings(**inputs["settings"])
    return learn_path(settings, inputs["path_seed"], inputs["seed"])._asdict()


def _path_seed(shop: Workshop, repetition: int) -> int:
    return shop.seed * _FACTOR + repetition


def best_thresholds(swept: Mapping[tuple[str, float], Sequence[PathRun]]) -> dict[str, float]:
    """For each method, the threshold with the largest area under the learning curve."""
    means = {key: float(areas(runs).mean()) for key, runs in swept.items()}
    return {
        name: max((key for key in means if key[0] == name), key=lambda key: means[key])[1]
        for name in dict.fromkeys(name for name, _ in means)
    }


def areas(runs: Sequence[PathRun]) -> Array:
    """Area under each learning curve over its length: the mean return of all of training."""
    return np.array([run.returns.mean() for run in runs])


def ends(runs: Sequence[PathRun]) -> Array:
    """Mean return over the last tenth of training."""
    return np.array([run.returns[-max(1, len(run.returns) // 10) :].mean() for run in runs])


def _self_stops(runs: Sequence[PathRun], threshold: float) -> float:
    """Share of the iterations in which a policy exceeds the threshold against itself."""
    return float(np.mean([run.own_distances > threshold for run in runs]))


def _summary(runs: Sequence[PathRun], threshold: float, rng: np.random.Generator) -> dict[str, Any]:
    """Numbers of one method, with 95 % intervals over the repetitions."""
    return {
        "threshold": threshold if np.isfinite(threshold) else None,
        "area": interval(areas(runs), rng),
        "end": interval(ends(runs), rng),
        "updates": float(np.mean([run.updates for run in runs])),
        "stopped": float(np.mean([run.updates < run.updates.max() for run in runs])),
        "self_stops": _self_stops(runs, threshold),
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


def _rows(
    what: Mapping[Any, PathSettings],
    runs: Mapping[Any, Sequence[PathRun]],
    part: str,
    shop: Workshop,
) -> list[dict[str, Any]]:
    """One row for each run."""
    return [
        {
            "part": part,
            "method": name if isinstance(name, str) else name[0],
            "threshold": what[name].threshold if np.isfinite(what[name].threshold) else None,
            "repetition": i,
            "path_seed": _path_seed(shop, i),
            "mean_return": area,
            "last_tenth": end,
            "updates": float(run.updates.mean()),
            "self_stops": _self_stops([run], what[name].threshold),
        }
        for name, group in runs.items()
        for i, (run, area, end) in enumerate(
            zip(group, areas(group).tolist(), ends(group).tolist(), strict=True)
        )
    ]


RECIPE = Recipe(
    name="trust-region",
    shows="Figure 5 (a): PPO on the dangerous path, its updates stopped by different constraints",
    counts={
        "smoke": Counts(2, 2, 8_192),
        "small": Counts(10, 10, 1_000_000),
        "paper": Counts(50, 10, 1_000_000),
    },
    needs=needs,
    make=make,
    tell=tell,
)
