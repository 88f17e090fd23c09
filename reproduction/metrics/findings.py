"""What the paper says of the three metrics, judged in each environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reproduction.published import Rows, different, published, where
from reproduction.recipes import PICTURE, Finding

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

    def finding(
        self, of: str, claim: str, paper: str, ours: str, holds: bool | None, why: str = ""
    ) -> Finding:
        """Make a finding in this environment."""
        return Finding(of, claim, paper, ours, holds, self.environment, why)


def _correlate(here: Here) -> Finding:
    values = here.get("correlation", here.most, UNSTEADY)
    return here.finding(
        "metrics-correlate",
        "Gaussian and discriminator correlate with differences of returns, above 0",
        PICTURE,
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
        f"Distance variance of Gaussian and discriminator more than doubles from {here.most} to "
        f"{here.few} trajectories",
        PICTURE,
        ", ".join(ends),
        _all(grown),
        f"Not that of {' and '.join(less)}" if less else "",
    )


def _stabler(here: Here, metric: str, digits: int) -> Finding:
    """Variance is what the paper calls stable; the error stands beside it."""
    values = here.get(metric, here.few, ("supervector", *UNSTEADY))
    called = "variance" if metric == "variance" else "error"
    return here.finding(
        "metrics-stabler" if metric == "variance" else "",
        f"With {here.few} trajectories supervectors have less distance {called} than Gaussian and "
        "discriminator",
        PICTURE,
        listed(values, digits),
        _less(values, "supervector"),
    )


def _discretization(here: Here) -> Finding:
    values = here.get("variance", here.few, ("discretization", *UNSTEADY))
    correlation = here.get("correlation", here.most, ["discretization"])["discretization"]
    captures = None if correlation is None else correlation > 0
    return here.finding(
        "metrics-discretization",
        f"Discretization correlates with returns, above 0, and with {here.few} trajectories has "
        "less distance variance than Gaussian and discriminator",
        PICTURE,
        f"correlation {shown(correlation, 2)}; variance: {listed(values, 2)}",
        _all([captures, _less(values, "discretization")]),
    )


def _walkers_memory(here: Here) -> Finding:
    correlation = here.get("correlation", here.most, ["discretization"])["discretization"]
    return here.finding(
        "metrics-memory",
        "Discretization of its 24 dimensions does not fit into memory",
        "ran out of 64 GB",
        f"it fits; correlation {shown(correlation, 2)}",
        None if correlation is None else False,
        "cells are counted sparsely here: only those that were visited take memory",
    )


def _encoder_is_last(here: Here) -> Finding:
    values = here.get("correlation", here.most, PUBLISHED)
    known = {name: value for name, value in values.items() if value is not None}
    return here.finding(
        "metrics-encoder",
        "The encoder performs low: it correlates least of the paper's five",
        PICTURE,
        f"{listed(values, 2)} with {here.most} trajectories",
        min(known, key=known.__getitem__) == "encoder" if len(known) == len(values) else None,
    )


def _optimal(environment: str, returns: Sequence[Sequence[float]], steps: int) -> Finding:
    low, high = published()["reward_range"][environment]
    enough = high - NEAR * (high - low)
    best = ", ".join(f"{max(run):.0f}" for run in returns)
    last = ", ".join(f"{run[-1]:.0f}" for run in returns)
    holds = all(max(run) >= enough for run in returns)
    zoo = "The benchmark of rl-zoo, from which the paper has the settings, tells {:.0f} ± {:.0f}"
    return Finding(
        "optimal-reward",
        f"The best policy of every run of PPO has a mean return of {enough:.0f} or more, within "
        f"{NEAR:.0%} of the range's upper end",
        f"range of rewards {low} to {high}",
        f"best {best}; last {last}; {steps:,} steps of training",
        holds,
        environment,
        "" if holds else zoo.format(*published()["zoo_return"][environment]),
    )


def _all(verdicts: Sequence[bool | None]) -> bool | None:
    """Tell whether all hold; not if one number is missing."""
    return None if None in verdicts else all(verdicts)


def _less(values: Mapping[str, float | None], name: str) -> bool | None:
    """Tell whether one has less than all others."""
    own = values[name]
    others = [value for other, value in values.items() if other != name]
    return _all([None if own is None or value is None else own < value for value in others])


def listed(values: Mapping[str, float | None], digits: int) -> str:
    """Write numbers behind what they are of."""
    return ", ".join(f"{name} {shown(value, digits)}" for name, value in values.items())


def shown(value: float | None, digits: int) -> str:
    """Write a number, a huge one with an exponent, a dash for None."""
    if value is None:
        return "–"
    return f"{value:.{digits}f}" if abs(value) < 1e6 else f"{value:.2g}"
