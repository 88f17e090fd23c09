"""The command that finds unusual episodes and states: parse, call, print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pivec.cli.options import Out, Quiet
from pivec.terminal import say

Where = Annotated[Path, typer.Argument(metavar="OUT", help="A folder of `compare`.")]
Chosen = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="POLICY",
        help="Names of policies, as OUT has them; all if none is given.",
        show_default=False,
    ),
]
Top = Annotated[int, typer.Option(help="How many episodes to list.", min=1)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")]


def unusual(
    where: Where,
    policies: Chosen = None,
    top: Top = 10,
    as_json: Json = False,
    out: Out = None,
    quiet: Quiet = False,
) -> None:
    """Find episodes that are unlike their policy's others, and states where no policy has been.

    [bold]times as far[/bold]: how far an episode lies from its policy's others, where 1 is the
    policy's usual (median) episode.

    A state is [bold]outside[/bold] if it is farther from all regions of the space than 99 % of the
    states of each policy that the space was fitted on; policies placed in an earlier space
    (compare --space) may have many of them.

    Example: pivec unusual pivec-out ppo-0/step_100096 --top 5

    Leaves unusual.json and unusual.png in OUT, or in --out.
    """
    from pivec.atomic import atomic_write, make_folder
    from pivec.canvas import save_png
    from pivec.explanations.folder import Findings
    from pivec.explanations.unusual import unusual as find_unusual
    from pivec.report.answers import say_json
    from pivec.report.unusual import print_unusual

    findings = Findings.open(where)
    result = find_unusual(findings, policies, top=top)
    folder = make_folder(out or findings.folder)
    with atomic_write(folder / "unusual.json", "w") as file:
        json.dump(result.to_json(), file, indent=1, allow_nan=False)
    save_png(result.figure(), folder / "unusual.png")
    if as_json:
        say_json(result.to_json())
        return
    if not quiet:
        print_unusual(result)
    say(f"Figure: {folder / 'unusual.png'}")
