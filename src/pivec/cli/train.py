"""The command `train`: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pivec.cli.options import Env, EnvArg, Quiet, Seed, folder, pairs, with_options
from pivec.options import EngineOptions
from pivec.terminal import say

Algo = Annotated[
    str,
    typer.Option(
        help="[bold]ppo[/bold], [bold]a2c[/bold], [bold]cmaes[/bold], [bold]neat[/bold], "
        "[bold]es[/bold] or nsr-es (ES with novelty)."
    ),
]


Out = Annotated[
    Path,
    typer.Option(
        metavar="DIR", parser=folder, help="Gets a folder for each run: ppo-0, ppo-1, ..."
    ),
]
Checkpoints = Annotated[
    int | None,
    typer.Option(
        help="Policies kept of a run (100); of cmaes and neat, generations of which a quarter is "
        "kept (every tenth); of es and nsr-es, generations (all).",
        min=1,
    ),
]
Steps = Annotated[
    int | None, typer.Option(help="Environment steps of each run (the settings' own).", min=1)
]
Behaviour = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What nsr-es takes as behaviour (visitation): a characterization (see `pivec "
        'describe`), with arguments if any: supervector{"n_components": 8}.',
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Another setting; may be repeated."),
]


@with_options
def train(
    env: Env,
    algo: Algo,
    out: Out,
    runs: Annotated[int, typer.Option(help="Run i has the seed SEED + i.", min=1)] = 1,
    checkpoints: Checkpoints = None,
    seed: Seed = 0,
    steps: Steps = None,
    behaviour: Behaviour = None,
    set_: Set = None,
    env_arg: EnvArg = None,
    *,
    running: EngineOptions,
    quiet: Quiet = False,
) -> None:
    """Train policies and keep checkpoints, with the paper's settings where it has some.

    Example: pivec train CartPole-v1 --algo ppo --runs 3 --jobs 2 --checkpoints 20 --out runs

    Then: pivec compare CartPole-v1 runs

    Novelty search: pivec train pivec/DeceptivePoint-v0 --algo nsr-es --behaviour gaussian --out ns

    Run the same command again to go on after a stop; finished runs are not repeated.
    """
    from pivec.training import train as run
    from pivec.training.settings import is_published, settings_for

    changes = pairs(set_, "--set")
    if behaviour is not None:
        changes["behaviour"] = behaviour
    settings_for(algo, env, changes)  # refuses what is wrong
    if not quiet:
        name = env.rpartition(":")[2]
        origin = (
            f"the paper's for {name}"
            if is_published(algo, env)
            else f"general ones, since the paper has none for {algo} in {name}"
        )
        say(f"Settings: {origin}{', changed by --set' if set_ else ''}")
    results = run(
        env,
        algo,
        out,
        runs=runs,
        checkpoints=checkpoints,
        seed=seed,
        steps=steps,
        settings=changes,
        env_kwargs=pairs(env_arg, "--env-arg"),
        progress=not quiet,
        **vars(running),
    )
    for trained in results:
        mean = trained.mean_return
        value = "no episode ended" if mean is None else f"return {mean:.4g}"
        state = "finished before" if trained.reused else trained.reason
        kept = f"{trained.n_policies} policies"
        say(f"{trained.folder.name}: {trained.steps:,} steps, {value}, {kept} ({state})")
    say(f"Policies: {out}")
