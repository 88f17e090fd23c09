"""The command `reproduce`: parse, call, print."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from pivec.cli.options import Backend, Quiet, Seed, folder
from pivec.errors import UsageError
from pivec.terminal import say


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Recipes (see --list), or [bold]all[/bold]."),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="[bold]smoke[/bold] (a try), [bold]small[/bold] (at most an hour each on two "
            "cores) or [bold]paper[/bold] (the paper's own counts)."
        ),
    ] = "small",
    out: Annotated[
        Path, typer.Option(metavar="DIR", parser=folder, help="Gets SCALE/NAME/ for each recipe.")
    ] = Path("reproduced"),
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="ENV", help="Only this environment; may be repeated."),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", parser=folder, help="Policies, states and results (OUT/cache)."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Processes side by side: speed, never the result.",
            min=1,
            show_default="one for each core",
        ),
    ] = None,
    seed: Seed = 0,
    backend: Backend = "auto",
    list_: Annotated[bool, typer.Option("--list", help="Name the recipes.")] = False,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Only print the steps, and the time and disk to expect."),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Make the paper's figures and tables: train, collect, describe, measure, draw.

    Example: pivec reproduce gridworld clipping --scale small

    First: pivec reproduce --plan clipping --scale paper

    Run the same command again to go on after a stop; recipes share policies and states.
    """
    from pivec.engines.workers import usable_cores
    from pivec.paper import NAMES
    from pivec.paper import reproduce as run

    jobs = jobs or usable_cores()
    if list_:
        _print_list()
        return
    if not names:
        raise UsageError(f"expected one or more recipes, or all: {', '.join(NAMES)}")
    if plan:
        _print_plan(names, scale, out, env, cache, jobs, seed, backend)
        return
    folders = run(
        names,
        scale,
        out,
        environments=env,
        cache=cache,
        jobs=jobs,
        seed=seed,
        backend=backend,
        progress=not quiet,
        command=shlex.join(["pivec", *sys.argv[1:]]),
    )
    for name, written in folders.items():
        say(f"{name}: {written / 'README.md'}")


def _print_list() -> None:
    from rich.console import Console
    from rich.table import Table

    from pivec.paper import NAMES, recipe

    table = Table("recipe", "what", box=None)
    for name in NAMES:
        table.add_row(name, recipe(name).shows)
    Console().print(table)


def _print_plan(
    names: list[str],
    scale: str,
    out: Path,
    env: list[str] | None,
    cache: Path | None,
    jobs: int,
    seed: int,
    backend: str,
) -> None:
    from rich.console import Console
    from rich.table import Table

    from pivec.paper import plan as make_plan

    steps = make_plan(names, scale, out, environments=env, cache=cache, seed=seed, backend=backend)
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
