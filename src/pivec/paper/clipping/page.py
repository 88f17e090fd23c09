"""What is said of the clip ratio beside the pictures: the tables, the findings, the notes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import spearmanr

from pivec.paper.published import published
from pivec.paper.recipes import Finding
from pivec.paper.rows import Rows, column, different, markdown, short, where

A2C = "a2c"
FARTHER = ("LunarLander-v3", "BipedalWalker-v3")
NEGATIVE = ("BipedalWalker-v3", "LunarLander-v3", "Acrobot-v1")


def table(summary: Rows) -> str:
    """Write both halves of the paper's table as Markdown, ours with the paper's in brackets."""
    environments = different(summary, "environment")
    parts = []
    for name, title, digits in (
        ("distance", "Distance travelled", 1),
        ("correlation", "Corr(R, d)", 2),
    ):
        theirs = published()["clipping"][name]
        lines = []
        for setting in different(summary, "setting"):
            cells = ["A2C" if setting == A2C else setting]
            for environment in environments:
                [ours] = where(summary, environment=environment, setting=setting)
                pair = ours[f"{name}_mean"], ours[f"{name}_std"]
                paper = _shown(theirs[environment][setting], digits)
                cells.append(f"{_shown(pair, digits)} ({paper})")
            lines.append(cells)
        parts.append(f"**{title}**: ours (paper), mean ± standard deviation over runs")
        parts.append(markdown(["clip ratio", *map(short, environments)], lines))
    return "\n\n".join(parts)


def _shown(pair: Sequence[float], digits: int) -> str:
    return f"{pair[0]:.{digits}f} ± {pair[1]:.{digits}f}"


def findings(rows: Rows) -> list[Finding]:
    """What the paper says of its table, beside what came out."""
    environments = different(rows, "environment")
    return [
        *(_grows(rows, name) for name in environments),
        *(_a2c_is_farther(rows, name) for name in FARTHER if name in environments),
        *(_better_changes_less(rows, name) for name in NEGATIVE if name in environments),
    ]


def _grows(rows: Rows, environment: str) -> Finding:
    runs = [row for row in where(rows, environment=environment) if row["setting"] != A2C]
    ours = spearmanr([float(run["setting"]) for run in runs], column(runs, "distance")).statistic
    printed = published()["clipping"]["distance"][environment]
    means = {float(ratio): pair[0] for ratio, pair in printed.items() if ratio != A2C}
    paper = spearmanr(list(means), list(means.values())).statistic
    return Finding(
        "clipping-grows",
        f"The distance travelled grows with the clip ratio: {short(environment)}",
        f"Spearman {paper:.2f} of the printed means",
        f"Spearman {ours:.2f} over {len(runs)} runs",
        bool(ours > 0),
        environment,
    )


def _a2c_is_farther(rows: Rows, environment: str) -> Finding:
    a2c, ppo = (
        np.mean(column(rows, "distance", environment=environment, setting=setting))
        for setting in (A2C, "0.2")
    )
    paper = published()["clipping"]["distance"][environment]
    return Finding(
        "clipping-a2c",
        f"A2C travels farther than PPO at 0.2: {short(environment)}",
        f"{paper[A2C][0]:g} against {paper['0.2'][0]:g}",
        f"{a2c:.1f} against {ppo:.1f}",
        bool(a2c > ppo),
        environment,
    )


def _better_changes_less(rows: Rows, environment: str) -> Finding:
    settings = [
        name for name in different(rows, "setting") if name != A2C and 0.1 <= float(name) <= 0.5
    ]
    ours, beyond = (
        [float(np.mean(column(rows, measure, environment=environment, setting=setting)))
         for setting in settings]
        for measure in ("correlation", "correlation_beyond_chance")
    )  # fmt: skip
    paper = published()["clipping"]["correlation"][environment]
    return Finding(
        "clipping-negative",
        "The better the policy, the less it changes: Corr(R, d) < 0 for clip ratios from 0.1 to "
        f"0.5: {short(environment)}",
        _range([paper[setting][0] for setting in settings]),
        f"{_range(ours)}; of what sampling does not explain {_range(beyond)}",
        max(ours) < 0,
        environment,
    )


def _range(numbers: Sequence[float]) -> str:
    return f"{min(numbers):.2f} to {max(numbers):.2f}"
