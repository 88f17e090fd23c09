"""Commands about states: collect, import, export and store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pivec.cli.options import (
    Quiet,
    Sources,
    env_and_policies,
    folder_name,
    whole_numbers,
    with_options,
)
from pivec.errors import PivecError, UsageError
from pivec.files import check_folder
from pivec.options import CollectOptions, ReplayOptions, TableOptions
from pivec.parallel import confined, using
from pivec.terminal import say, shortened

store_app = typer.Typer(help="Inspect stores of states.", no_args_is_help=True)

StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="A store, or a comparison.")]
StoreFolder = Annotated[
    Path, typer.Option(metavar="STORE", parser=folder_name, help="Store to create or extend")
]


@with_options(CollectOptions)
def collect(
    sources: Sources,
    *,
    out: StoreFolder,
    render: Annotated[
        Path | None,
        typer.Option(metavar="DIR", parser=folder_name, help="Folder to write clips (GIF) to"),
    ] = None,
    render_episodes: Annotated[
        str, typer.Option(metavar="N,N", help="Numbers of the episodes to render, for each policy")
    ] = "0",
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Run policies and save the states they visit in a store."""
    from pivec.report import print_environment, print_normalisers
    from pivec.workflows import Collector

    env, policies = env_and_policies(sources)
    numbers, chosen = whole_numbers(render_episodes, "--render-episodes"), CollectOptions(**options)
    if render is not None:
        check_folder(render)
        if max(numbers) >= chosen.episodes:
            raise UsageError(
                f"--render-episodes {max(numbers)}: episodes are numbered from 0 to "
                f"{chosen.episodes - 1}"
            )
    clips = 0
    with using(chosen.engine, chosen.jobs):
        collector = Collector(env, policies, chosen, out, progress=not quiet)
        data = collector.run()
        if render is not None:
            clips = _render(collector, policies, out, render, numbers, not quiet)
    if not quiet:
        if env is None:
            print_environment(collector.settings, data.policies)
        print_normalisers(data.policies)
    _say_collected(data, out)
    if render is not None:
        say(f"{clips} clips: {render}")


def _render(
    collector: Any, policies: list[str], out: Path, folder: Path, numbers: list[int], show: bool
) -> int:
    """Render episodes of all policies that were run."""
    from pivec.explanations import Replayer, record_episodes
    from pivec.policies import IMPORTABLE
    from pivec.states import Store

    # Files are found from the store, which may not say what to import; the user may.
    objects = [policy for policy in policies if IMPORTABLE.fullmatch(policy)]
    known = {name: getattr(collector.options, name) for name in ("features", "trust")}
    known["without_normaliser"] = collector.options.without_normaliser
    options = ReplayOptions(env=collector.environment, policies=objects, **known)
    replayer = Replayer(Store(out), options)
    wanted = [(label, number) for label in collector.acting for number in numbers]
    return len(record_episodes(replayer, wanted, folder, show))


def _say_collected(data: Any, store: Path | None) -> None:
    from pivec.states import without_credentials

    say(f"{data.n_policies} policies, {data.n_episodes} episodes, {data.n_states} states")
    if store is not None:
        say(f"Store: {without_credentials(store)}")


@with_options(TableOptions)
def import_(
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA...",
            help="Tables (.parquet, .csv, .jsonl, .feather, .arrow), arrays (.npz, .npy), .hdf5 of "
            "D4RL and robomimic, and LeRobot datasets, by path, folder or quoted glob; npz:DIR, "
            "minari:NAME, lerobot:OWNER/NAME, rlds:DIR or store:DIR.",
        ),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="STORE", parser=folder_name, help="Store to create or extend"),
    ] = None,
    env: Annotated[str, typer.Option(help="The environment the data come from")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print how the data are understood; write nothing")
    ] = False,
    max_states_per_policy: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="For policies with more than N states, store one in k, in pairs",
            min=2,
        ),
    ] = None,
    **options: Any,
) -> None:
    """Import recorded states into a store; nothing is simulated.

    The columns of a table are found by name: policy, algo, run, training_step, episode, step,
    return or reward, action, success; obs_0, observation.x, ... or else all other numeric columns
    are features. --dry-run prints what was found. Files written by `pivec export` are restored
    exactly.

    A .npz, .npy or .hdf5 file is one policy, and so are a LeRobot dataset and .npy files of a
    folder that are named obs, actions, dones or have an episode each. A Minari dataset is one
    policy; with minari:NAME#KEY it is one policy for each value of KEY in the metadata of its
    episodes.
    """
    if out is None and not dry_run:
        raise UsageError("import needs --out STORE, or --dry-run to write nothing")
    confined.start("pivec.states.readers")  # which takes as long as the imports here
    from pivec.states import import_recorded

    result = import_recorded(
        data,
        None if dry_run else out,
        environment=env,
        max_states_per_policy=max_states_per_policy,
        options=TableOptions(**options),
        progress=True,
    )
    say(shortened(f"States of {', '.join(result.feature_names)}", 200))
    _say_collected(result, None if dry_run else out)


def export(
    store: StorePath,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="FILE.parquet, npz:DIR or minari:NAME.")
    ],
    level: Annotated[
        str, typer.Option(help="Rows of a Parquet file: states, episodes or policies")
    ] = "states",
) -> None:
    """Write the states of a store in a format for other tools."""
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
    say(f"{len(kept)} policies; all files are intact")
