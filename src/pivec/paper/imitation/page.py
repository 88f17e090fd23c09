"""What is said of cloning beside the picture: the table, the findings, the notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pivec.paper.clipping.page import short
from pivec.paper.published import published
from pivec.paper.recipes import Finding

Rows = Sequence[dict[str, Any]]

# Returns at which Gymnasium counts an environment as solved.
SOLVED = {"LunarLander-v3": 200, "BipedalWalkerHardcore-v3": 300}


def table(runs: Rows) -> str:
    """Write one line a run, as Markdown."""
    lines = [
        "| environment | run | expert's return | clone's | first distance | last | correlation |",
        "|" + " --- |" * 7,
    ]
    lines += [
        f"| {short(run['environment'])} | {run['run']} | {run['expert_return']:.0f} "
        f"| {run['last_return']:.0f} | {run['first_distance']:.3f} | {run['last_distance']:.3f} "
        f"| {run['correlation']:.2f} |"
        for run in runs
    ]
    mean, std = _mean_std(runs, "correlation")
    paper = published()["imitation"]["correlation"]
    lines.append(
        f"\nCorrelation of the changes, over all runs: **{mean:.3f} ± {std:.3f}** "
        f"(paper: {paper[0]} ± {paper[1]})"
    )
    return "\n".join(lines)


def _mean_std(runs: Rows, name: str) -> tuple[float, float]:
    values = [run[name] for run in runs]
    return float(np.mean(values)), float(np.std(values))


def findings(runs: Rows, *, tell: bool) -> list[Finding]:
    """What the paper says of cloning, beside what came out; ``tell`` whether it can be told."""
    mean, std = _mean_std(runs, "correlation")
    levels, _ = _mean_std(runs, "correlation_of_levels")
    paper = published()["imitation"]["correlation"]
    nearer = [run["last_distance"] < run["first_distance"] for run in runs]
    return [
        Finding(
            "When the clone's return rises from an epoch to the next, it comes nearer to the "
            "expert: the changes are negatively correlated",
            f"{paper[0]} ± {paper[1]}",
            f"{mean:.3f} ± {std:.3f} over {len(runs)} runs",
            mean < 0 if tell else None,
        ),
        Finding(
            "The distance to the expert falls as training goes on",
            "the figure, without numbers",
            f"nearer after the last epoch than after the first in {sum(nearer)} of {len(runs)} "
            f"runs; correlation of distance and return {levels:.2f}",
            all(nearer) if tell else None,
        ),
    ]


def notes(runs: Rows, *, whole: bool) -> list[str]:
    """What a reader must know to read the numbers; ``whole`` if experts had the paper's steps."""
    chance = float(np.median([run["by_chance"] / run["last_distance"] for run in runs]))
    parts = [
        (
            "One background model for each environment, fitted on experts and clones of all runs. "
            "The expert is the last policy of a run of PPO; its clone has a network of its own, "
            "with random first weights."
        ),
        (
            "The return is divided by the expert's. Where that is negative, the difference to it "
            "is divided by its size: the correlation does not depend on it."
        ),
        (
            "Two samples of one expert have a distance, too: in the median it is "
            f"{100 * chance:.0f} % of that of the last clone, and grey in the picture."
        ),
    ]
    for environment, solved in SOLVED.items():
        returns = [run["expert_return"] for run in runs if run["environment"] == environment]
        if returns and max(returns) < solved:
            parts.append(
                f"The experts of {short(environment)}, trained for "
                + ("" if whole else "a part of ")
                + f"the paper's steps, have returns of at most {max(returns):.0f}, and {solved} "
                "counts as solved. What is cloned is the behaviour of a learner, so the return "
                "says less of how well it is imitated."
            )
    return parts
