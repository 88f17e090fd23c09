"""What is said of cloning beside the picture: the table, the findings, the notes."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduction.published import Rows, column, different, markdown, notes, published, short, where
from reproduction.recipes import PICTURE, Finding
from reproduction.training.runs import settings_for

# Returns at which Gymnasium counts an environment as solved.
SOLVED = {"LunarLander-v3": 200, "BipedalWalkerHardcore-v3": 300}
COLUMNS = {
    "expert_return": ("expert's return", 0),
    "last_return": ("clone's", 0),
    "first_distance": ("first distance", 3),
    "last_distance": ("last", 3),
    "first_steps": ("first steps", 3),
    "last_steps": ("last steps", 3),
    "correlation": ("correlation", 2),
    "correlation_by_visitation": ("by visitation", 2),
}


def table(runs: Rows) -> str:
    """Write one line a run, as Markdown."""
    heads = ["environment", "run", *(head for head, _ in COLUMNS.values())]
    lines = [
        [
            short(run["environment"]),
            f"{run['run']}",
            *(_shown(run.get(name), digits) for name, (_, digits) in COLUMNS.items()),
        ]
        for run in runs
    ]
    return (
        markdown(heads, lines)
        + f"\n\nCorrelation of the changes, over all runs: **{_correlation(runs)}** "
        f"(paper: {_papers_correlation()})"
    )


def _shown(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _correlation(runs: Rows) -> str:
    changes = column(runs, "correlation")
    deviation = f" ± {np.std(changes):.3f}" if len(changes) > 1 else ""  # one has none
    return f"{np.mean(changes):.3f}{deviation}"


def _papers_correlation() -> str:
    mean, std = published()["imitation"]["correlation"]
    return f"{mean} ± {std}"


def findings(runs: Rows) -> list[Finding]:
    """What the paper says of cloning, beside what came out: over both environments, and in each."""
    places = different(runs, "environment")
    together = [_changes(runs, "")] if len(places) > 1 else []
    alone = [
        judge(where(runs, environment=place), place)
        for judge in (_changes, _nearer, _slower)
        for place in places
    ]
    return [*together, *alone]


def _judged(
    of: str, claim: str, paper: str, ours: str, holds: bool | None, place: str, runs: Rows
) -> Finding:
    at = short(place) if place else "all runs"
    poor = _poor(runs, place) if holds is False and place else ""
    why = "these numbers were made before steps were kept" if holds is None else poor
    return Finding(of, f"{claim}: {at}", paper, ours, holds, place, why)


def _changes(runs: Rows, place: str) -> Finding:
    return _judged(
        "imitation-correlation",
        "When the clone's return rises from an epoch to the next, it comes nearer to the expert: "
        "the changes are negatively correlated",
        _papers_correlation() + ("" if not place else " over both environments"),
        f"{_correlation(runs)} over {len(runs)} run{'s' * (len(runs) > 1)}",
        bool(np.mean(column(runs, "correlation")) < 0),
        place,
        runs,
    )


def _nearer(runs: Rows, place: str) -> Finding:
    nearer = [run["last_distance"] < run["first_distance"] for run in runs]
    levels = np.mean(column(runs, "correlation_of_levels"))
    return _judged(
        "imitation-nearer",
        "The distance to the expert falls as training goes on",
        PICTURE,
        f"nearer after the last epoch than after the first in {sum(nearer)} of {len(runs)} "
        f"runs; correlation of distance and return {levels:.2f}",
        all(nearer),
        place,
        runs,
    )


def _slower(runs: Rows, place: str) -> Finding:
    """Judge steps from epoch to epoch, by a criterion that was set before they were measured."""
    ours, holds = "–", None
    if all(run.get("first_steps") is not None for run in runs):
        smaller = [run["last_steps"] < run["first_steps"] for run in runs]
        ranks = float(np.mean(column(runs, "correlation_of_steps")))
        ours = (
            f"smaller in {sum(smaller)} of {len(runs)} runs; rank correlation of step and return "
            f"{ranks:.2f}"
        )
        holds = all(smaller) and ranks < 0
    return _judged(
        "imitation-slower",
        "Steps from an epoch to the next are smaller in the last fifth of the epochs than in the "
        "first, in every run, and the smaller the higher the return",
        "no numbers",
        ours,
        holds,
        place,
        runs,
    )


def _poor(runs: Rows, place: str) -> str:
    """Tell where experts are beginners."""
    best = max(column(runs, "expert_return"))
    if best >= SOLVED.get(place, -np.inf):
        return ""
    return f"the best expert has a return of {best:.0f} after {runs[0]['expert_steps']:,} steps"


def all_notes(runs: Rows) -> list[str]:
    """What a reader must know to read the numbers."""
    chance = float(np.median([run["by_chance"] / run["last_distance"] for run in runs]))
    parts = notes("imitation", chance=100 * chance)
    if "correlation_by_visitation" not in runs[0]:  # of an earlier version
        parts = [part for part in parts if not part.startswith("Visitation")]
    for environment, solved in SOLVED.items():
        mine = where(runs, environment=environment)
        if mine:
            parts += _notes_of(mine, environment, solved)
    return parts


def _notes_of(runs: Rows, environment: str, solved: int) -> list[str]:
    steps, best = runs[0]["expert_steps"], max(column(runs, "expert_return"))
    papers: dict[str, Any] = settings_for("ppo", environment)
    parts = []
    if steps != papers["steps"]:
        decay = ""
        if papers["decay"]:
            decay = " What falls to zero over training, as its learning rate, does so over these."
        parts.append(
            f"The experts of {short(environment)} were trained for {steps:,} steps (the paper: "
            f"{papers['steps']:,}).{decay}"
        )
    if best < solved:
        parts.append(
            f"The experts of {short(environment)} have returns of at most {best:.0f}, and {solved} "
            "counts as solved. What is cloned is the behaviour of a learner, so the return says "
            "less of how well it is imitated."
        )
    return parts
