"""The command that shows the regions of a space: parse, call, print."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from pivec.cli.answers import Json
from pivec.cli.comparing import SpaceArgument
from pivec.cli.explained import say_report
from pivec.cli.options import Out, Quiet, with_options
from pivec.options import ReplayOptions
from pivec.terminal import literal, say

if TYPE_CHECKING:
    from pivec.explanations.regions.regions import Regions

FRAMES = "frames"  # the folder of pictures
_SHARPEST = 150  # dpi: a page of 64 regions is long enough

Frames = Annotated[
    bool,
    typer.Option(
        "--frames",
        help="Draw a state near the middle of each region: episodes are played again from their "
        "seeds, with the policies' files.",
    ),
]
Top = Annotated[int, typer.Option(help="Print so many regions; the files have all.", min=1)]


@with_options
def regions(
    space: SpaceArgument,
    *,
    frames: Frames = False,
    top: Top = 20,
    out: Out = None,
    as_json: Json = False,
    replaying: ReplayOptions,
    quiet: Quiet = False,
) -> None:
    """Show the regions of a space: in words, who spends time there, and when in an episode.

    A region is told by what sets it apart from all states ("pole angle 0.08 to 0.15 rad, cart
    velocity below −0.9 m/s"), and by states near its middle that were really visited.

    Example: pivec regions pivec-out --frames

    Leaves regions.json, regions.png and the page regions.html beside the space.
    """
    from pivec.atomic import atomic_write, make_folder
    from pivec.explanations.folder import Findings
    from pivec.explanations.regions.regions import regions as find
    from pivec.report import save_png
    from pivec.report.answers import say_json
    from pivec.report.explained.regions import write_regions_page

    findings = Findings.open(space)
    folder = make_folder(out or findings.folder)
    pictures = folder / FRAMES if frames else None
    result = find(findings, frames=pictures, progress=not quiet, **vars(replaying))
    content = result.to_json(folder)
    with atomic_write(folder / "regions.json", "w") as file:
        json.dump(content, file, indent=1)
    save_png(result.figure(), folder / "regions.png", _SHARPEST)
    write_regions_page(folder / "regions.html", result)
    if as_json:
        say_json(content)
        return
    if not quiet:
        _print(result, top)
    for note in result.notes:
        say(f"Note: {note}")
    say(f"Page: {folder / 'regions.html'}")
    if folder == findings.folder:  # elsewhere the page does not look
        say_report(folder, [region.frame.path for region in result if region.frame])


def _print(result: Regions, top: int) -> None:
    """Print those in which most time is spent, a line each."""
    from rich.console import Console
    from rich.table import Table

    from pivec.text import percent, told_apart

    table = Table(box=None)
    table.add_column("region", justify="right")
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("where", ratio=1)
    table.add_column("when", max_width=11)
    table.add_column("most time", max_width=18, overflow="fold")
    table.add_column("", justify="right", no_wrap=True)
    shown = result.by_share()[:top]
    labels = told_apart([region.highest[0] for region in shown], 36)
    for region, label in zip(shown, labels, strict=True):
        table.add_row(
            str(region.number),
            percent(region.share),
            literal(region.words),
            region.when_words,
            literal(label),
            percent(region.highest[1]),
        )
    Console().print(table)
    if (more := len(result) - top) > 0:
        say(f"{more} more region{'s' * (more > 1)}: --top {len(result)}, or the page")
