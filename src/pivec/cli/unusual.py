"""The command that finds unusual episodes and states: parse, call, print."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Annotated

import typer

from pivec.cli import completion
from pivec.cli.answers import Json
from pivec.cli.comparing import SpaceArgument
from pivec.cli.options import Out, Quiet, with_options
from pivec.engines.engine import on_engine
from pivec.options import ReplayOptions
from pivec.terminal import say

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="POLICY",
        help="Policies by their names, or the ends of them; all if none is given.",
        show_default=False,
        autocompletion=completion.policies,
    ),
]
Top = Annotated[int, typer.Option(help="How many episodes to list.", min=1)]
Clips = Annotated[
    bool,
    typer.Option(
        "--clips",
        help="Film the most typical and the most unusual episode of the first policies in the list "
        "side by side: they are played again from their seeds, with the policies' files.",
    ),
]


@with_options
@on_engine
def unusual(
    space: SpaceArgument,
    names: Names = None,
    *,
    top: Top = 10,
    clips: Clips = False,
    as_json: Json = False,
    out: Out = None,
    replaying: ReplayOptions,
    quiet: Quiet = False,
) -> None:
    """Find episodes that are unlike their policy's others, and states where no policy has been.

    [bold]times as far[/bold]: how far an episode lies from its policy's others, where 1 is the
    policy's usual (median) episode.

    A state is [bold]outside[/bold] if it is farther from all regions of the space than 99 % of the
    states of each policy that the space was fitted on; policies placed in an earlier space
    (compare --space) may have many of them.

    Example: pivec unusual pivec-out ppo-0/step_100096 --clips

    Leaves unusual.json, unusual.png and the page unusual.html beside the space.
    """
    from pivec.atomic import atomic_write, make_folder
    from pivec.canvas import save_png
    from pivec.explanations.film.replay import Replayer
    from pivec.explanations.folder import Findings
    from pivec.explanations.unusual.unusual import unusual as find
    from pivec.report.answers import say_json
    from pivec.report.explained.unusual import print_unusual
    from pivec.report.explained.unusual_page import write_unusual

    findings = Findings.open(space)
    folder = make_folder(out or findings.folder)
    films, replayer = folder / "clips" if clips else None, None
    if clips:
        acting = list(replaying.policies) or None
        replayer = Replayer(findings, replaying.env, acting, replaying.collecting)
    progress = not (quiet or as_json)
    result = find(findings, names, top=top, clips=films, replayer=replayer, progress=progress)
    content = result.to_json()
    with atomic_write(folder / "unusual.json", "w") as file:
        json.dump(content, file, indent=1, allow_nan=False)
    save_png(result.figure(), folder / "unusual.png")
    write_unusual(folder / "unusual.html", result, shlex.join(["pivec", *sys.argv[1:]]))
    if as_json:
        say_json(content)
        return
    if not quiet:
        print_unusual(result)
    say(f"Page: {folder / 'unusual.html'}")
