"""The command `import`: recorded states of files, tables and datasets into a store."""

from __future__ import annotations

from typing import Annotated

import typer

from pivec.cli.options import with_options
from pivec.cli.states import StoreFolder, say_collected
from pivec.options import TableOptions
from pivec.terminal import say, shortened


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
    from pivec.states.recordings import import_recorded

    result = import_recorded(
        data,
        out,
        environment=env,
        max_states_per_policy=max_states_per_policy,
        options=columns,
    )
    say(shortened(f"States of {', '.join(result.feature_names)}", 200))
    say_collected(result, out)
