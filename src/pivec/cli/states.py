"""The commands `collect`, `import`, `export` and `store`: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pivec.atomic import check_folder
from pivec.cli.options import (
    Actions,
    Backend,
    Deterministic,
    Env,
    EnvArg,
    Episodes,
    FeaturesOf,
    Imports,
    KeepPolicies,
    MaxStates,
    MaxSteps,
    NEnvs,
    Policies,
    Processes,
    Quiet,
    Seed,
    StoreFolder,
    Trust,
    WithoutNormaliser,
    Wrappers,
    env_and_policies,
    folder,
    pairs,
    whole_numbers,
)
from pivec.errors import PivecError, UsageError
from pivec.terminal import say

store_app = typer.Typer(help="Look into stores of states.", no_args_is_help=True)

StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="A store, or a comparison.")]


def collect(
    env: Env,
    out: StoreFolder,
    policies: Policies = None,
    episodes: Episodes = 100,
    seed: Seed = 0,
    actions: Actions = False,
    keep_policies: KeepPolicies = False,
    deterministic: Deterministic = False,
    env_arg: EnvArg = None,
    wrapper: Wrappers = None,
    imports: Imports = None,
    features: FeaturesOf = None,
    max_steps: MaxSteps = None,
    max_states_per_policy: MaxStates = None,
    backend: Backend = "auto",
    jobs: Processes = 1,
    n_envs: NEnvs = None,
    render: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", parser=folder, help="Keep short clips of episodes here, as GIF."
        ),
    ] = None,
    render_episodes: Annotated[
        str, typer.Option(help="Which episodes of every policy to film, with commas between.")
    ] = "0",
    trust: Trust = False,
    without_normaliser: WithoutNormaliser = False,
    quiet: Quiet = False,
) -> None:
    """Let policies act, and keep the states they visit in a store."""
    from pivec.collection import collect as run
    from pivec.states import Store

    shared: dict[str, Any] = {
        "env_kwargs": pairs(env_arg, "--env-arg"),
        "wrappers": wrapper or (),
        "imports": imports or (),
        "deterministic": deterministic,
        "max_steps": max_steps,
        "trust": trust,
        "without_normaliser": without_normaliser,
    }
    named, acting = env_and_policies(env, policies)
    chosen = whole_numbers(render_episodes, "--render-episodes")
    if render is not None:
        check_folder(render)
    data = run(
        named,
        acting,
        episodes,
        seed,
        store=out,
        features=features,
        actions=actions,
        keep_policies=keep_policies,
        n_envs=n_envs,
        max_states_per_policy=max_states_per_policy,
        backend=backend,
        jobs=jobs,
        progress=not quiet,
        **shared,
    )
    films = "" if render is None else _film(named, acting, out, render, chosen, seed, shared)
    if not quiet:
        from pivec.report.console import print_environment, print_normalisers

        if named is None:
            print_environment(Store(out).settings)
        print_normalisers(data.policies)
    say(f"{data.n_policies} policies, {data.n_episodes} episodes, {data.n_states} states")
    say(f"Store: {out}")
    if films:
        say(films)


def _film(
    env: str | None,
    policies: list[str],
    store: Path,
    folder: Path,
    chosen: list[int],
    seed: int,
    shared: dict[str, Any],
) -> str:
    """Play the chosen episodes once more, with actions, and film them."""
    from pivec.collection import collect as run
    from pivec.rollouts.environment import Environment
    from pivec.states import Store
    from pivec.states.clips import render_clips
    from pivec.states.recorded import is_recorded

    settings = Store(store).settings
    if settings["backend"] != "gymnasium":
        raise UsageError(
            "clips are replayed in Gymnasium, but the states were collected with "
            f"{settings['backend']}: collect with --backend gymnasium to film them"
        )
    if max(chosen) >= settings["episodes"]:
        raise UsageError(
            f"there is no episode {max(chosen)} to film: each policy plays {settings['episodes']}"
        )
    acting = [policy for policy in policies if not is_recorded(policy)]
    again = run(env, acting, max(chosen) + 1, seed, backend="gymnasium", actions=True, **shared)
    environment = Environment.of(
        settings["environment"],
        settings["arguments"],
        settings["wrappers"] or (),
        settings["imports"] or (),
    )
    written = render_clips(again, environment, folder, chosen)
    return f"{len(written)} clips: {folder}"


def import_(
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA", help="A folder of .npz files, npz:DIR, minari:NAME or store:DIR."
        ),
    ],
    out: StoreFolder,
    env: Annotated[str, typer.Option(help="The environment it was recorded in.")] = "",
    max_states_per_policy: MaxStates = None,
) -> None:
    """Put recorded states into a store; nobody acts.

    A .npz file is one policy; a Minari dataset is one policy, or with minari:NAME#KEY one for each
    value of KEY in the metadata of its episodes.
    """
    from pivec.states.recorded import import_recorded, is_recorded

    specs = [text if is_recorded(text) else f"npz:{text}" for text in data]
    found = import_recorded(
        specs, out, environment=env, max_states_per_policy=max_states_per_policy
    )
    say(f"{found.n_policies} policies, {found.n_episodes} episodes, {found.n_states} states")
    say(f"Store: {out}")


def export(
    store: StorePath,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="FILE.parquet, npz:DIR or minari:NAME.")
    ],
    level: Annotated[
        str, typer.Option(help="For Parquet, a row for each of states, episodes or policies.")
    ] = "states",
) -> None:
    """Write the states of a store for other tools."""
    from pivec.states.export import export as run

    say(run(store, target, level))


@store_app.command()
def ls(store: StorePath) -> None:
    """List the policies of a store."""
    from pivec.report.console import print_store
    from pivec.states import Store

    print_store(Store.find(store))


@store_app.command()
def verify(store: StorePath) -> None:
    """Check every file of a store against its checksum."""
    from pivec.states import Store

    found = Store.find(store)
    problems = found.verify()
    for problem in problems:
        say(problem, error=True)
    if problems:
        raise PivecError(f"{len(problems)} of {len(found)} files are damaged or missing")
    say(f"{len(found)} policies, all files are whole")
