"""Recipes and plans on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from pivec.paper.planning import Step
from pivec.paper.recipes import NAMES, recipe
from pivec.terminal import say


def print_recipes() -> None:
    """Print the recipes, and what they show."""
    table = Table("recipe", "what", box=None)
    for name in NAMES:
        table.add_row(name, recipe(name).shows)
    Console().print(table)


def print_plan(steps: Sequence[Step], jobs: int) -> None:
    """Print the steps of a plan, then what each recipe takes, and all together."""
    table = Table("recipe", "step", "how much", "time", "at most", "disk", box=None)
    for step in steps:
        took = ("there", "", "") if step.done else _took([step])
        table.add_row(step.recipe, step.what, step.amount, *took)
    console = Console()
    console.print(table)
    recipes = dict.fromkeys(step.recipe for step in steps)
    if len(recipes) > 1:
        console.print()
        table = Table("recipe", f"time, {jobs} side by side", "at most", "disk, at most", box=None)
        for name in recipes:
            table.add_row(name, *_took([step for step in steps if step.recipe == name], jobs))
        console.print(table)
    expected, seconds, size = _took(steps)
    say(
        f"Altogether about {expected} of one core, {_took(steps, jobs)[0]} with {jobs} side by "
        f"side; at most {seconds} and {_took(steps, jobs)[1]}, if every episode and search lasts "
        f"until its limit; and at most {size} of disk."
    )


def _took(steps: Sequence[Step], jobs: int = 1) -> tuple[str, str, str]:
    """Tell the time to expect of steps, the most that it can be, and their size on disk."""
    expected, most = sum(step.expected for step in steps), sum(step.seconds for step in steps)
    return _time(expected / jobs), _time(most / jobs), _size(sum(step.bytes for step in steps))


def _time(seconds: float) -> str:
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


def _size(size: int) -> str:
    for unit, length in (("GB", 10**9), ("MB", 10**6)):
        if size >= length:
            return f"{size / length:.1f} {unit}"
    return f"{size / 1000:.0f} kB"
