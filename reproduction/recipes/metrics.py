"""Figure 3: how well characterizations measure behaviour, with how many trajectories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pivec.characterizations import characterization
from pivec.report import evaluation_figure
from pivec.statistics import Evaluation
from pivec.workflows.evaluate import read_outcome
from reproduction import evaluations
from reproduction.pipeline import Pipeline
from reproduction.published import notes, short, toml
from reproduction.recipes import Account, Finding, Need, Recipe, Result, SetCounts, finding
from reproduction.supervectors import AUTHORS
from reproduction.tables import Rows, different, markdown, pearson, shown, where

PUBLISHED = ("supervector", "gaussian", "discretization", "discriminator", "encoder")
UNSTEADY = ("gaussian", "discriminator")  # which the paper finds in need of many trajectories
GROWTH = 2.0  # of the variance from the most trajectories to the fewest: that many are needed
NEAR = 0.05  # of the range of rewards: so far below its upper end is still optimal
WALKER = "BipedalWalker-v3"


def findings(numbers: Mapping[str, Any]) -> list[Finding]:
    """What the paper says of this figure, beside what came out."""
    summary, result = numbers["averages"], []
    for environment in different(summary, "environment"):
        here = Here(environment, where(summary, environment=environment))
        if here.has(*UNSTEADY):
            result += [_correlate(here), _need_many(here)]
        if here.has("supervector", *UNSTEADY):
            result += [_stabler(here, "variance", 2), _stabler(here, "error_percent", 0)]
        if here.has("discretization", *UNSTEADY):
            result.append(_walkers_memory(here) if environment == WALKER else _discretization(here))
        if here.has(*PUBLISHED):
            result.append(_encoder_is_last(here))
        if environment in numbers.get("returns", {}):
            steps = numbers["steps"][environment]
            result.append(_optimal(environment, numbers["returns"][environment], steps))
    return result


class Here:
    """Averages in one environment, at the most and at the fewest trajectories."""

    def __init__(self, environment: str, summary: Rows) -> None:
        sizes = different(summary, "trajectories")
        self.environment, self.few, self.most = environment, min(sizes), max(sizes)
        self._rows = {(row["method"], row["trajectories"]): row for row in summary}

    def has(self, *methods: str) -> bool:
        """Whether all of these were evaluated."""
        return all((method, self.most) in self._rows for method in methods)

    def get(self, metric: str, size: int, methods: Sequence[str]) -> dict[str, float | None]:
        """Give the metric of methods by their names."""
        return {method: self._rows[method, size][metric] for method in methods}

    def finding(self, key: str, ours: str, holds: bool | None, why: str = "") -> Finding:
        """Make a finding in this environment."""
        sizes = {"few": self.few, "most": self.most}
        return finding(key, ours, holds, self.environment, why, **sizes)


def _correlate(here: Here) -> Finding:
    values = here.get("correlation", here.most, UNSTEADY)
    return here.finding(
        "metrics-correlate",
        f"{listed(values, 2)} with {here.most} trajectories",
        _all([value if value is None else value > 0 for value in values.values()]),
    )


def _need_many(here: Here) -> Finding:
    few, most = (here.get("variance", size, UNSTEADY) for size in (here.few, here.most))
    grown = [
        None if a is None or b is None else a > GROWTH * b
        for a, b in zip(few.values(), most.values(), strict=True)
    ]
    less = [name for name, doubles in zip(UNSTEADY, grown, strict=True) if doubles is False]
    ends = (f"{name} {shown(most[name], 2)} to {shown(few[name], 2)}" for name in UNSTEADY)
    return here.finding(
        "metrics-many",
        ", ".join(ends),
        _all(grown),
        f"Not that of {' and '.join(less)}" if less else "",
    )


def _stabler(here: Here, metric: str, digits: int) -> Finding:
    """Variance is what the paper calls stable; the error stands beside it."""
    values = here.get(metric, here.few, ("supervector", *UNSTEADY))
    key = "metrics-stabler" if metric == "variance" else "metrics-stabler-error"
    return here.finding(key, listed(values, digits), _less(values, "supervector"))


def _discretization(here: Here) -> Finding:
    values = here.get("variance", here.few, ("discretization", *UNSTEADY))
    correlation = here.get("correlation", here.most, ["discretization"])["discretization"]
    captures = None if correlation is None else correlation > 0
    return here.finding(
        "metrics-discretization",
        f"correlation {shown(correlation, 2)}; variance: {listed(values, 2)}",
        _all([captures, _less(values, "discretization")]),
    )


def _walkers_memory(here: Here) -> Finding:
    correlation = here.get("correlation", here.most, ["discretization"])["discretization"]
    return here.finding(
        "metrics-memory",
        f"it fits; correlation {shown(correlation, 2)}",
        None if correlation is None else False,
        "cells are counted sparsely here: only those that were visited take memory",
    )


def _encoder_is_last(here: Here) -> Finding:
    values = here.get("correlation", here.most, PUBLISHED)
    known = {name: value for name, value in values.items() if value is not None}
    return here.finding(
        "metrics-encoder",
        f"{listed(values, 2)} with {here.most} trajectories",
        min(known, key=known.__getitem__) == "encoder" if len(known) == len(values) else None,
    )


def _optimal(environment: str, returns: Sequence[Sequence[float]], steps: int) -> Finding:
    low, high = toml("published")["reward_range"][environment]
    enough = high - NEAR * (high - low)
    best = ", ".join(f"{max(run):.0f}" for run in returns)
    last = ", ".join(f"{run[-1]:.0f}" for run in returns)
    holds = all(max(run) >= enough for run in returns)
    zoo = "The benchmark of rl-zoo, from which the paper has the settings, tells {:.0f} ± {:.0f}"
    return finding(
        "optimal-reward",
        f"best {best}; last {last}; {steps:,} steps of training",
        holds,
        environment,
        "" if holds else zoo.format(*toml("published")["zoo_return"][environment]),
        enough=enough,
        near=NEAR,
        low=low,
        high=high,
    )


def _all(verdicts: Sequence[bool | None]) -> bool | None:
    """Tell whether all hold; not if one number is missing."""
    return None if None in verdicts else all(verdicts)


def _less(values: Mapping[str, float | None], name: str) -> bool | None:
    """Tell whether one has less than all others."""
    own = values[name]
    others = [value for other, value in values.items() if other != name]
    return _all([None if own is None or value is None else own < value for value in others])


FAST = "supervector, fast start"  # the library's own fit of the background model
_METRICS = (("correlation", "correlation ↑", 2), ("error_percent", "error % ↓", 0),
            ("variance", "variance ↓", 2))  # fmt: skip


def tables(numbers: Mapping[str, Any]) -> str:
    """Write the averages of each environment, the errors, and how both fits agree."""
    summary, parts = numbers["averages"], []
    for environment in different(summary, "environment"):
        here = where(summary, environment=environment)
        parts.append(f"**{environment}** (columns: metric, trajectories; ± over sets and draws)")
        parts.append(_averages(here))
        few = min(different(here, "trajectories"))
        parts.append(f"**{environment}: errors of pairs with {few} trajectories**, in percent")
        parts.append(_errors(where(here, trajectories=few)))
    if fits := numbers["fits"]:
        parts.append("**Supervectors by the paper's fit**: correlation of their distances with")
        heads = ["", "trajectories", "those by the library's fit, same draw"]
        lines = [
            [environment, str(size), *(shown(_mean(rows, name), 3) for name in AGREEMENT)]
            for environment in different(fits, "environment")
            for size in different(where(fits, environment=environment), "trajectories")
            for rows in [where(fits, environment=environment, trajectories=size)]
        ]
        parts.append(markdown([*heads, "those of another draw"], lines, left=1))
    return "\n\n".join(parts)


def _averages(here: Rows) -> str:
    """Write the metrics at the most and the fewest trajectories."""
    sizes = sorted(different(here, "trajectories"), reverse=True)
    ends = list(dict.fromkeys((sizes[0], sizes[-1])))
    heads = ["", *(f"{title}, {size}" for _, title, _ in _METRICS for size in ends)]
    lines = []
    for method in different(here, "method"):
        at = {row["trajectories"]: row for row in where(here, method=method)}
        cells = [method]
        for name, _, digits in _METRICS:
            for size in ends:
                mean, std = at[size][name], at[size][f"{name}_std"]
                known = mean is not None and std is not None and abs(mean) < 1e6
                cells.append(shown(mean, digits) + (f" ± {std:.{digits}f}" if known else ""))
        lines.append(cells)
    return markdown(heads, lines, left=1)


def _errors(here: Rows) -> str:
    heads = ["", "mean", "median", "pairs above 1 000", "pairs told apart", "mean of those"]
    lines = [
        [
            row["method"],
            shown(row["error_percent"], 0),
            shown(row["median_error_percent"], 0),
            percent(row["share_far_off"]),
            percent(row["share_apart"]),
            shown(row["error_apart_percent"], 0),
        ]
        for row in here
    ]
    return markdown(heads, lines, left=1)


AGREEMENT = ("other_fit", "other_draw")


def remarks(numbers: Mapping[str, Any]) -> list[str]:
    """Return the notes: what the metrics are, the error explained, and what differs."""
    summary, fits = numbers["averages"], numbers["fits"]
    environments, sizes = different(summary, "environment"), different(summary, "trajectories")
    few = where(summary, trajectories=min(sizes))
    own, fast = (
        {row["environment"]: row for row in where(few, method=method)}
        for method in ("supervector", FAST)
    )

    def of(rows: Mapping[str, Any], name: str, digits: int | None = 0) -> str:
        values = {place: rows.get(place, {}).get(name) for place in environments}
        write = percent if digits is None else lambda value: shown(value, digits)
        return _by_place({place: write(value) for place, value in values.items()})

    agreement = {
        name: _by_place(
            {place: shown(_mean(where(fits, environment=place), name), 3) for place in environments}
        )
        for name in AGREEMENT
    }
    # What was not computed used no card.
    cards = [row["card"] for row in numbers["units"] if row["correlation"] is not None]
    text = notes(
        "metrics",
        few=min(sizes),
        most=max(sizes),
        error=of(own, "error_percent"),
        median=of(own, "median_error_percent"),
        far_off=of(own, "share_far_off", None),
        share_apart=of(own, "share_apart", None),
        error_apart=of(own, "error_apart_percent"),
        variance=of(own, "variance", 2),
        fast_variance=of(fast, "variance", 2),
        correlation=of(own, "correlation", 2),
        fast_correlation=of(fast, "correlation", 2),
        cards=sum(cards),
        units=len(cards),
        **agreement,
    )
    return [*text, *numbers["remarks"]]


def _by_place(texts: Mapping[str, str]) -> str:
    return ", ".join(f"{short(place)} {text}" for place, text in texts.items())


def listed(values: Mapping[str, float | None], digits: int) -> str:
    """Write numbers behind what they are of."""
    return ", ".join(f"{name} {shown(value, digits)}" for name, value in values.items())


def _mean(rows: Rows, name: str) -> float | None:
    known: Sequence[float] = [row[name] for row in rows if row[name] is not None]
    return float(np.mean(known)) if known else None


def percent(share: float | None) -> str:
    """Write a share in percent, a dash for None."""
    return "–" if share is None else f"{share:.1%}".replace("%", " %")


@dataclass(frozen=True, kw_only=True)
class Counts(SetCounts):
    """What is compared, beside the counts of the sets of policies."""

    # The paper's five and pivec's own; any that need nothing but states.
    methods: tuple[str, ...] = (*PUBLISHED, "visitation")
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def methods_of(counts: Counts) -> dict[str, evaluations.Method]:
    """Return the characterizations and their parameters; networks take a card if there is one."""
    methods: dict[str, evaluations.Method] = {}
    for name in counts.methods:
        own = dict(counts.parameters.get(name, {}))
        if "device" in characterization(name).get_params(deep=False):
            own["device"] = "auto"
        methods[name] = (name, {**AUTHORS.get(name, {}), **own})
        if name == "supervector":
            methods[FAST] = (name, own)
    return methods


def needs(pipeline: Pipeline, counts: Counts) -> list[Need]:
    """List the runs, the sets of policies and the evaluation of every characterization."""
    return evaluations.needs(pipeline, counts, methods_of(counts))


def make(pipeline: Pipeline, counts: Counts) -> Result:
    """Evaluate every characterization on every set of policies."""
    methods = methods_of(counts)
    evaluation = evaluations.evaluated(pipeline, counts, methods)
    numbers = {
        "methods": methods,
        "averages": evaluations.averages(evaluation),
        "units": evaluations.unit_rows(evaluation),
        "fits": agreement(evaluation),
        "returns": evaluations.mean_returns(pipeline, counts),
        "steps": {
            environment: pipeline.training(environment, "ppo", counts.sets).settings["steps"]
            for environment in counts.environments
        },
        "remarks": [*evaluation.notes, *evaluations.problems(evaluation)],
    }
    shown = replace(evaluation, rows=tuple(row for row in evaluation.rows if row.method != FAST))
    return Result(
        numbers, {"metrics": evaluation_figure(shown, across=len(counts.environments) > 1)}
    )


def agreement(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return how the distances of both fits of supervectors correlate, a row for each draw."""
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


def judge(numbers: Mapping[str, Any], _counts: Counts) -> Account:
    """Say what the numbers show."""
    return Account(numbers["units"], tables(numbers), findings(numbers), remarks(numbers))


RECIPE = Recipe.of("metrics", Counts, needs, make, judge)
