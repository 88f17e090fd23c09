"""The command `reproduce`: parse, call, print."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pivec.cli import completion
from pivec.cli.options import Quiet, Seed, folder, with_options
from pivec.engines.engine import using
from pivec.errors import PivecError, UsageError
from pivec.options import EngineOptions
from pivec.terminal import say

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME]...",
        help="Recipes (see --list), or [bold]all[/bold].",
        autocompletion=completion.recipes,
    ),
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
        parser=folder,
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
    typer.Option(metavar="DIR", parser=folder, help="Policies, states and results (OUT/cache)."),
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


@with_options
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
    *,
    running: EngineOptions,
    quiet: Quiet = False,
) -> None:
    """Make the paper's figures and tables: train, collect, describe, measure, draw.

    Example: pivec reproduce gridworld clipping --scale small

    First: pivec reproduce --plan clipping --scale paper

    Check what is said of numbers: pivec reproduce --verify --out docs/results

    Run the same command again to go on after a stop; recipes share policies and states. Uses all
    cores, unless --jobs or --engine says otherwise.
    """
    from pivec import paper
    from pivec.paper.console import print_plan, print_recipes

    if list_:
        print_recipes()
        return
    if verify or retell:
        _told_again(out or Path("docs/results"), write=retell)
        return
    if not names:
        raise UsageError(f"expected one or more recipes, or all: {', '.join(paper.NAMES)}")
    if running == EngineOptions():
        running = EngineOptions(engine="processes")
    out = out or Path("reproduced")
    given: dict[str, Any] = {
        "environments": env,
        "runs": runs,
        "cache": cache,
        "seed": seed,
        "backend": backend,
    }
    if plan:
        steps = paper.plan(names, scale, out, **given)
        with using(running.engine, running.jobs) as engine:
            print_plan(steps, engine.n_workers)
        return
    command = shlex.join(["pivec", *sys.argv[1:]])
    folders = paper.reproduce(
        names, scale, out, progress=not quiet, command=command, **given, **vars(running)
    )
    for name, written in folders.items():
        say(f"{name}: {written / 'README.md'}")


def _told_again(out: Path, *, write: bool) -> None:
    """Write what follows from the numbers in a folder, or check what is there."""
    from pivec import paper

    if write:
        changed = paper.retell(out)
        say(f"{len(changed)} files in {out} were written anew.")
    elif wrong := paper.verify(out):
        raise PivecError(
            f"{len(wrong)} files in {out} do not follow from their numbers; the first: {wrong[0]}"
        )
    else:
        say(f"All that is said in {out} follows from its numbers.")
