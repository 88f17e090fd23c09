"""The command that compares groups of runs: parse, call, print."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pivec.cli.comparing import SpaceArgument
from pivec.cli.options import Out, Quiet, Seed, with_options
from pivec.engines.engine import on_engine
from pivec.errors import UsageError
from pivec.options import EngineOptions
from pivec.terminal import say

Group = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATTERN",
        help="The runs of a group, as ppo='ppo-*'; may be repeated, also for the same name. If not "
        "given, runs whose names differ in the number at their end are a group.",
    ),
]
Last = Annotated[
    int | None,
    typer.Option(help="Look at so many checkpoints of each run, the last; else at all.", min=1),
]


@with_options
@on_engine
def groups(
    space: SpaceArgument,
    group: Group = None,
    last: Last = None,
    out: Out = None,
    seed: Seed = 0,
    *,
    running: EngineOptions,  # noqa: ARG001  (of `on_engine`)
    quiet: Quiet = False,
) -> None:
    """Find out whether groups of runs behave differently: PPO and A2C, say, of several runs each.

    Runs are the samples, not policies or episodes. A permutation test (PERMANOVA) tells whether
    the groups differ, and how much of the variance between runs they explain; distances within
    and between groups, and the diversity of each group, have intervals about other runs.

    Example: pivec groups pivec-out --group ppo='ppo-*' --group a2c='a2c-*' --last 1

    Leaves groups.json and groups.png beside the space.
    """
    from pivec import comparison
    from pivec.atomic import atomic_write, make_folder
    from pivec.characterizations import Space
    from pivec.comparison import SPACE
    from pivec.maps import compare_groups
    from pivec.report import groups_figure, save_png
    from pivec.report.console import print_groups

    described = Space.load(space)
    beside = space.parent if space.name == SPACE else space
    intervals = None
    if "influences" not in described.descriptions.arrays:  # then the states are needed
        intervals = comparison.distances_in(described, beside).intervals
    result = compare_groups(described, patterns(group), last=last, seed=seed, intervals=intervals)
    folder = make_folder(out or beside)
    with atomic_write(folder / "groups.json", "w") as file:
        json.dump(result.to_json(), file, indent=1)
    environment = str(described.collected.get("environment", ""))
    save_png(groups_figure(result, environment), folder / "groups.png")
    if not quiet:
        print_groups(result)
    say(f"Figure: {folder / 'groups.png'}")


def patterns(texts: list[str] | None) -> dict[str, list[str]]:
    """Read NAME=PATTERN, several of them for a name if need be.

    Examples
    --------
    >>> patterns(["on=ppo-*", "on=a2c-*", "off=sac-*"])
    {'on': ['ppo-*', 'a2c-*'], 'off': ['sac-*']}
    """
    result: dict[str, list[str]] = {}
    for text in texts or []:
        name, _, pattern = text.partition("=")
        if not name or not pattern:
            raise UsageError(f"--group expects NAME=PATTERN, but got {text!r}")
        result.setdefault(name, []).append(pattern)
    return result
