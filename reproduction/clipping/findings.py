"""What the paper says of the clip ratio, beside what came out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from reproduction.clipping.page import A2C
from reproduction.published import (
    Rows,
    column,
    different,
    pearson,
    published,
    scaled_return,
    short,
    where,
)
from reproduction.recipes import PICTURE, Finding

USUAL = "0.2"  # the clip ratio of the paper's settings
HIGH = ("LunarLander-v3", "BipedalWalker-v3")  # of eight values and more
LOW = ("Acrobot-v1", "CartPole-v1", "Pendulum-v1")
DEVIATIONS = 2.0  # of the paper's, within which a distance is as printed


def findings(rows: Rows, curves: Rows) -> list[Finding]:
    """Judge every claim in every environment that is there."""
    result = []
    for environment in different(rows, "environment"):
        mine = where(rows, environment=environment)
        ways = where(curves, environment=environment)
        result += [
            _grows(mine, environment),
            _as_printed(mine, environment),
            _a2c_is_farther(mine, environment),
            _better_changes_less(mine, environment),
            _slows_down(ways, environment),
        ]
    return [*result, _grows_more_where_there_is_more(rows)]


def _ratios(rows: Rows) -> list[str]:
    return [setting for setting in different(rows, "setting") if setting != A2C]


def _means(rows: Rows, name: str) -> dict[str, float]:
    """Mean over runs of each setting."""
    return {
        setting: float(np.mean(column(rows, name, setting=setting)))
        for setting in different(rows, "setting")
    }


def _printed(name: str, environment: str) -> dict[str, tuple[float, float]]:
    """Mean and deviation of each setting in the paper's table."""
    table = published()["clipping"][name][environment]
    return {setting: (pair[0], pair[1]) for setting, pair in table.items()}


def _grows(rows: Rows, environment: str) -> Finding:
    runs = [row for row in rows if row["setting"] != A2C]
    ours = spearmanr([float(run["setting"]) for run in runs], column(runs, "distance")).statistic
    printed = _printed("distance", environment)
    means = {float(ratio): pair[0] for ratio, pair in printed.items() if ratio != A2C}
    paper = spearmanr(list(means), list(means.values())).statistic
    return Finding(
        "clipping-grows",
        "The distance travelled grows with the clip ratio: Spearman's correlation is above 0",
        f"{paper:.2f} of the printed means",
        f"{ours:.2f} over {len(runs)} runs",
        bool(ours > 0),
        environment,
        "" if ours > 0 else "The distance does not grow with the ratio",
    )


def _as_printed(rows: Rows, environment: str) -> Finding:
    ours, paper = _means(rows, "distance"), _printed("distance", environment)
    near = [
        setting
        for setting, mean in ours.items()
        if abs(mean - paper[setting][0]) <= DEVIATIONS * paper[setting][1]
    ]
    compared = [setting for setting in (USUAL, A2C) if setting in ours]
    ratios = [f"{_name(setting)} {ours[setting] / paper[setting][0]:.2f}" for setting in compared]
    enough = 2 * len(near) >= len(ours)
    far = ", ".join(_name(setting) for setting in ours if setting not in near)
    return Finding(
        "clipping-distance",
        "At least half of the distances lie within two deviations of the paper's",
        ", ".join(f"{_name(s)} {paper[s][0]:g} ± {paper[s][1]:g}" for s in compared),
        f"{len(near)} of {len(ours)} do; ours divided by the paper's: {', '.join(ratios)}",
        enough,
        environment,
        "" if enough else f"Farther away: {far}",
    )


def _name(setting: str) -> str:
    return "A2C" if setting == A2C else setting


def _a2c_is_farther(rows: Rows, environment: str) -> Finding:
    means, paper = _means(rows, "distance"), _printed("distance", environment)
    a2c, ppo = means[A2C], means[USUAL]
    farther = paper[A2C][0] > paper[USUAL][0]
    return Finding(
        "clipping-a2c",
        f"A2C travels farther than PPO at {USUAL}",
        f"{paper[A2C][0]:g} against {paper[USUAL][0]:g}",
        f"{a2c:.1f} against {ppo:.1f}",
        a2c > ppo,
        environment,
        "" if farther else "The paper's own table does not have it so here",
    )


def _better_changes_less(rows: Rows, environment: str) -> Finding:
    settings = [setting for setting in _ratios(rows) if 0.1 <= float(setting) <= 0.5]
    means, without = (_means(rows, f"correlation{end}") for end in ("", "_beyond_chance"))
    ours, beyond = ([numbers[setting] for setting in settings] for numbers in (means, without))
    printed = {setting: pair[0] for setting, pair in _printed("correlation", environment).items()}
    paper = [printed[setting] for setting in settings]
    reasons = []
    if max(ours) >= 0:
        wrong = [f"{s} ({means[s]:.2f})" for s in settings if means[s] >= 0]
        reasons.append(f"Not below 0 at {', '.join(wrong)}")
    if max(paper) >= 0:
        reasons.append("The paper's own table does not have it so at all of them here")
    if means[A2C] * printed[A2C] < 0:
        reasons.append("A2C's sign is the reverse of the paper's")
    return Finding(
        "clipping-negative",
        "The better the policy, the less it changes: Corr(R, d) < 0 for all clip ratios from 0.1 "
        "to 0.5",
        f"{_range(paper)}; A2C {printed[A2C]:.2f}",
        f"{_range(ours)}; of what sampling does not explain {_range(beyond)}; A2C {means[A2C]:.2f}",
        max(ours) < 0,
        environment,
        "; ".join(reasons),
    )


def _range(numbers: Sequence[float]) -> str:
    return f"{min(numbers):.2f} to {max(numbers):.2f}"


def _slows_down(curves: Rows, environment: str) -> Finding:
    ways = {curve["setting"]: tuple(_slowing(curve)) for curve in curves}
    ratios = [setting for setting in ways if setting != A2C]
    falls = [setting for setting in ratios if ways[setting][0] < 1]
    negative = [setting for setting in ratios if ways[setting][1] < 0]
    both = [setting for setting in falls if setting in negative]
    share, correlation = ways[USUAL]
    return Finding(
        "clipping-curves",
        "For more than half of the clip ratios the mean curve changes less in the last third of "
        "training than in the first, and its Corr(R, d) < 0",
        PICTURE,
        f"{len(both)} of {len(ratios)} ratios ({len(falls)} change less, {len(negative)} have "
        f"Corr < 0); at {USUAL} the last third has {share:.2f} of the first's change, and Corr is "
        f"{correlation:.2f}",
        2 * len(both) > len(ratios),
        environment,
        "" if 2 * len(both) > len(ratios) else f"Not at {', '.join(_without(ratios, both))}",
    )


def _without(items: Sequence[str], others: Sequence[str]) -> list[str]:
    return [item for item in items if item not in others]


def _slowing(curve: dict[str, Any]) -> Iterator[float]:
    """Give the change in the last third of a curve by that in the first, and its Corr(R, d)."""
    legs = np.array(curve["legs"])
    third = max(1, len(legs) // 3)
    first = legs[:third].mean()
    yield float(legs[-third:].mean() / first) if first > 0 else float("nan")
    returns = scaled_return(curve["environment"], np.array(curve["returns"]))
    yield pearson(returns[:-1], legs)


def _grows_more_where_there_is_more(rows: Rows) -> Finding:
    """Compare the growth in environments of many values with that in those of few."""
    there = different(rows, "environment")
    ratios = _ratios(rows)
    least, largest = min(ratios, key=float), max(ratios, key=float)
    ours, paper = {}, {}
    for environment in (*HIGH, *LOW):
        printed = _printed("distance", environment)
        paper[environment] = printed[least][0], printed[largest][0]
        if environment in there:
            means = _means(where(rows, environment=environment), "distance")
            ours[environment] = means[least], means[largest]
    gains = {environment: last - first for environment, (first, last) in ours.items()}
    whole = all(environment in there for environment in (*HIGH, *LOW))
    holds = None
    if whole:
        holds = min(gains[name] for name in HIGH) > max(gains[name] for name in LOW)
    return Finding(
        "clipping-dimensions",
        f"From {least} to {largest} the distance grows by more in LunarLander and BipedalWalker "
        "than in the three others",
        _growth(paper),
        _growth(ours),
        holds,
        why="" if whole else "Not all five environments were run",
    )


def _growth(pairs: dict[str, tuple[float, float]]) -> str:
    return ", ".join(
        f"{short(environment)} {last - first:+.1f} (×{last / first:.1f})"
        for environment, (first, last) in pairs.items()
    )
