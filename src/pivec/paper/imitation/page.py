"""What is said of cloning beside the picture: the table, the findings, the notes."""

from __future__ import annotations

import numpy as np

from pivec.paper.published import notes, published
from pivec.paper.recipes import PICTURE, Finding
from pivec.paper.rows import Rows, column, markdown, short
from pivec.training.settings import settings_for

# Returns at which Gymnasium counts an environment as solved.
SOLVED = {"LunarLander-v3": 200, "BipedalWalkerHardcore-v3": 300}


def table(runs: Rows) -> str:
    """Write one line a run, as Markdown."""
    heads = ["environment", "run", "expert's return", "clone's", "first distance", "last"]
    lines = [
        [
            short(run["environment"]),
            f"{run['run']}",
            f"{run['expert_return']:.0f}",
            f"{run['last_return']:.0f}",
            f"{run['first_distance']:.3f}",
            f"{run['last_distance']:.3f}",
            f"{run['correlation']:.2f}",
        ]
        for run in runs
    ]
    return (
        markdown([*heads, "correlation"], lines)
        + f"\n\nCorrelation of the changes, over all runs: **{_correlation(runs)}** "
        f"(paper: {_papers_correlation()})"
    )


def _correlation(runs: Rows) -> str:
    changes = column(runs, "correlation")
    return f"{np.mean(changes):.3f} ± {np.std(changes):.3f}"


def _papers_correlation() -> str:
    mean, std = published()["imitation"]["correlation"]
    return f"{mean} ± {std}"


def findings(runs: Rows) -> list[Finding]:
    """What the paper says of cloning, beside what came out."""
    levels = np.mean(column(runs, "correlation_of_levels"))
    nearer = [run["last_distance"] < run["first_distance"] for run in runs]
    return [
        Finding(
            "imitation-correlation",
            "When the clone's return rises from an epoch to the next, it comes nearer to the "
            "expert: the changes are negatively correlated",
            _papers_correlation(),
            f"{_correlation(runs)} over {len(runs)} runs",
            bool(np.mean(column(runs, "correlation")) < 0),
        ),
        Finding(
            "imitation-nearer",
            "The distance to the expert falls as training goes on",
            PICTURE,
            f"nearer after the last epoch than after the first in {sum(nearer)} of {len(runs)} "
            f"runs; correlation of distance and return {levels:.2f}",
            all(nearer),
        ),
    ]


def all_notes(runs: Rows) -> list[str]:
    """What a reader must know to read the numbers."""
    chance = float(np.median([run["by_chance"] / run["last_distance"] for run in runs]))
    parts = notes("imitation", chance=100 * chance)
    for environment, solved in SOLVED.items():
        returns = column(runs, "expert_return", environment=environment)
        if returns and max(returns) < solved:
            steps = column(runs, "expert_steps", environment=environment)[0]
            papers = settings_for("ppo", environment, {})["steps"]
            parts.append(
                f"The experts of {short(environment)}, trained for {steps:,} steps (the paper: "
                f"{papers:,}), have returns of at most {max(returns):.0f}, and {solved} "
                "counts as solved. What is cloned is the behaviour of a learner, so the return "
                "says less of how well it is imitated."
            )
    return parts
