"""The command `reproduce`: parse, call, print."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import reproduction as paper
from pivec.cli.main import run
from pivec.cli.options import Quiet, Seed, folder_name, with_options
from pivec.errors import PivecError, UsageError
from pivec.options import EngineOptions
from pivec.parallel import using
from pivec.terminal import say
from reproduction.planning import Step
from reproduction.recipes import NAMES, recipe

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]...", help="Recipes (see --list), or [bold]all[/bold]."),
]
Scale = Annotated[
    str,
    typer.Option(
        help="[bold]smoke[/bold] (a try), [bold]small[/bold] (at most an hour each on two cores) "
        "or [bold]paper[/bold] (the paper's own counts)."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        parser=folder_name,
        help="Gets SCALE/NAME/ for each recipe (reproduced); what is verified (docs/results).",
    ),
]
Environments = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="ENV", help="Only this environment; may be repeated."),
]
Runs = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="So many runs of training, or sets of policies (the scale's)."
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", parser=folder_name, help="Policies, states and results (OUT/cache)."
    ),
]
Backend = Annotated[
    str, typer.Option(help="What steps the environments: auto, gymnasium or envpool.")
]
Plan = Annotated[
    bool, typer.Option("--plan", help="Only print the steps, and the time and disk to expect.")
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify", help="Only check that all that is said in OUT follows from its numbers."
    ),
]
Retell = Annotated[
    bool, typer.Option("--retell", help="Only write anew what is said in OUT of its numbers.")
]


@with_options(EngineOptions)
def reproduce(
    names: Names = None,
    scale: Scale = "small",
    out: Out = None,
    env: Environments = None,
    runs: Runs = None,
    cache: Cache = None,
    seed: Seed = 0,
    backend: Backend = "auto",
    list_: Annotated[bool, typer.Option("--list", help="Name the recipes.")] = False,
    plan: Plan = False,
    verify: Verify = False,
    retell: Retell = False,
    quiet: Quiet = False,
    **running: Any,
) -> None:
    """Make the paper's figures and tables: train, collect, describe, measure, draw.

    Example: python -m reproduction gridworld clipping --scale small

    First: python -m reproduction --plan clipping --scale paper

    Check what is said of numbers: python -m reproduction --verify --out docs/results

    Run the same command again to go on after a stop; recipes share policies and states. Uses all
    cores, unless --jobs or --engine says otherwise.
    """
    if list_:
        table = Table("recipe", "what", box=None)
        for name in NAMES:
            table.add_row(name, recipe(name).shows)
        Console().print(table)
        return
    if verify or retell:
        out = out or Path("docs/results")
        if retell:
            say(f"{len(paper.retell(out))} files in {out} were written anew.")
        elif wrong := paper.verify(out):
            raise PivecError(
                f"{len(wrong)} files in {out} do not follow from their numbers; the first: "
                f"{wrong[0]}"
            )
        else:
            say(f"All that is said in {out} follows from its numbers.")
        return
    if not names:
        raise UsageError(f"expected one or more recipes, or all: {', '.join(NAMES)}")
    if EngineOptions(**running) == EngineOptions():
        running["engine"] = "processes"
    out = out or Path("reproduced")
    given: dict[str, Any] = {"environments": env, "runs": runs, "cache": cache, "seed": seed}
    given["backend"] = backend
    if plan:
        steps = paper.plan(names, scale, out, **given)
        with using(running["engine"], running["jobs"]) as engine:
            print_plan(steps, engine.n_workers)
        return
    command = shlex.join(["python", "-m", "reproduction", *sys.argv[1:]])
    given |= {"progress": not quiet, "command": command}
    folders = paper.reproduce(names, scale, out, **given, **running)
    for name, written in folders.items():
        say(f"{name}: {written / 'README.md'}")


def print_plan(steps: Sequence[Step], jobs: int) -> None:
    """Print the steps of a plan, then the time and disk of each recipe and of all."""
    table = Table("recipe", "step", "amount", "time", "disk", box=None)
    for step in steps:
        cost = ("done", "") if step.done else _cost([step])
        table.add_row(step.recipe, step.what, step.amount, *cost)
    console = Console()
    console.print(table)
    recipes = dict.fromkeys(step.recipe for step in steps)
    if len(recipes) > 1:
        console.print()
        table = Table("recipe", f"time, {jobs} in parallel", "disk, at most", box=None)
        for name in recipes:
            table.add_row(name, *_cost([step for step in steps if step.recipe == name], jobs))
        console.print(table)
    seconds, size = _cost(steps)
    say(
        f"In total about {seconds} of one core (speeds of reproduction/speeds.toml), "
        f"{_cost(steps, jobs)[0]} with {jobs} in parallel, and at most {size} of disk."
    )


def _cost(steps: Sequence[Step], jobs: int = 1) -> tuple[str, str]:
    """Time and size on disk of steps."""
    seconds, size = sum(step.seconds for step in steps) / jobs, sum(step.bytes for step in steps)
    time = f"{seconds:.1f} s"
    if seconds >= 60:
        time = f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
    if size < 10**6:
        return time, f"{size / 1000:.0f} kB"
    return time, f"{size / 10**6:.1f} MB" if size < 10**9 else f"{size / 10**9:.1f} GB"


def main() -> None:
    """Run the command line."""
    app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
    app.command()(reproduce)
    run(app, "python -m reproduction")


if __name__ == "__main__":
    main()
