"""The commands `collect`, `export` and `store`: parse, call, print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from pivec.cli.options import (
    Env,
    Policies,
    Quiet,
    env_and_policies,
    folder,
    whole_numbers,
    with_options,
)
from pivec.errors import PivecError, UsageError
from pivec.files import check_folder
from pivec.options import CollectOptions, TableOptions
from pivec.parallel import on_engine
from pivec.terminal import say, shortened

store_app = typer.Typer(help="Look into stores of states.", no_args_is_help=True)

StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="A store, or a comparison.")]
StoreFolder = Annotated[
    Path, typer.Option(metavar="STORE", parser=folder, help="The store to write or go on with.")
]


@with_options
@on_engine
def collect(
    env: Env,
    out: StoreFolder,
    policies: Policies = None,
    *,
    options: CollectOptions,
    render: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", parser=folder, help="Keep short clips of episodes here, as GIF."
        ),
    ] = None,
    render_episodes: Annotated[
        str, typer.Option(help="Which episodes of every policy to film, with commas between.")
    ] = "0",
    quiet: Quiet = False,
) -> None:
    """Let policies act, and keep the states they visit in a store."""
    from pivec.workflows import Collector

    named, acting = env_and_policies(env, policies)
    chosen = whole_numbers(render_episodes, "--render-episodes")
    if render is not None:
        check_folder(render)
        if max(chosen) >= options.episodes:
            raise UsageError(
                f"there is no episode {max(chosen)} to film: each policy plays {options.episodes}"
            )
    collector = Collector(named, acting, options, out, progress=not quiet)
    data = collector.run()
    clips = 0
    if render is not None:
        clips = _film(collector, acting, out, render, chosen, not quiet)
    if not quiet:
        from pivec.report import print_environment, print_normalisers

        if named is None:
            print_environment(collector.settings)
        print_normalisers(data.policies)
    say_collected(data, out)
    if render is not None:
        say(f"{clips} clips: {render}")


def _film(
    collector: Any, policies: list[str], out: Path, folder: Path, chosen: list[int], show: bool
) -> int:
    """Film the chosen episodes of all who act."""
    from pivec.explanations import Replayer, record_episodes
    from pivec.policies import IMPORTABLE
    from pivec.states import Store

    # Files are found by what the store tells; it may not tell what to import, as the user does.
    objects = [policy for policy in policies if IMPORTABLE.fullmatch(policy)] or None
    options = replace(collector.options, env_kwargs=None, wrappers=(), imports=())
    replayer = Replayer(Store(out), collector.environment, objects, options)
    wanted = [(label, number) for label in collector.acting for number in chosen]
    return len(record_episodes(replayer, wanted, folder, show))


def say_collected(data: Any, store: Path) -> None:
    """Say what a store holds now."""
    say(f"{data.n_policies} policies, {data.n_episodes} episodes, {data.n_states} states")
    from pivec.states import without_credentials

    say(f"Store: {without_credentials(store)}")


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
    from pivec.report import print_store
    from pivec.states import Store

    print_store(Store.find(store))


@store_app.command()
def verify(store: StorePath) -> None:
    """Check every file of a store against its checksum."""
    from pivec.states import Store

    kept = Store.find(store)
    problems = kept.verify()
    for problem in problems:
        say(problem, error=True)
    if problems:
        raise PivecError(f"{len(problems)} of {kept.n_files} files are damaged or missing")
    say(f"{len(kept)} policies, all files are whole")


# -----------------------------------------------------------------------------
# The command `import`: recorded states of files, tables and datasets into a store.


@with_options
def import_(
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA",
            help="Tables (.parquet, .csv, .feather, .arrow), arrays (.npz, .npy) and D4RL's .hdf5, "
            "by path, folder or quoted glob; npz:DIR, minari:NAME or store:DIR.",
        ),
    ],
    out: StoreFolder,
    env: Annotated[str, typer.Option(help="The environment it was recorded in.")] = "",
    max_states_per_policy: Annotated[
        int | None, typer.Option(help="Thin longer policies to every k-th state.", min=2)
    ] = None,
    *,
    columns: TableOptions,
) -> None:
    """Put recorded states into a store; nobody acts.

    Columns of a table are found by name: policy, group, training_step, episode, step, return or
    reward, action; the other numbers are features. What `pivec export` wrote comes back as it was.

    A .npz, .npy or .hdf5 file is one policy; a Minari dataset is one policy, or with
    minari:NAME#KEY one for each value of KEY in the metadata of its episodes.
    """
    from pivec.states import import_recorded

    result = import_recorded(
        data,
        out,
        environment=env,
        max_states_per_policy=max_states_per_policy,
        options=columns,
    )
    say(shortened(f"States of {', '.join(result.feature_names)}", 200))
    say_collected(result, out)
