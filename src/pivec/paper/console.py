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
    """Print the steps of a plan, and what they take altogether."""
    table = Table("recipe", "step", "how much", "at most", "disk", box=None)
    for step in steps:
        if step.done:
            table.add_row(step.recipe, step.what, step.amount, "there", "")
        else:
            table.add_row(
                step.recipe, step.what, step.amount, _time(step.seconds), _size(step.bytes)
            )
    Console().print(table)
    seconds, size = sum(step.seconds for step in steps), sum(step.bytes for step in steps)
    say(
        f"Altogether at most {_time(seconds)} of one core, {_time(seconds / jobs)} with "
        f"{jobs} side by side, and {_size(size)} of disk."
    )


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
