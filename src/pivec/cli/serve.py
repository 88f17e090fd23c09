"""The command that serves the page of a comparison: parse and call."""

from __future__ import annotations

from typing import Annotated

import typer

from pivec.cli.compare import SpaceArgument
from pivec.cli.options import Quiet, with_options
from pivec.options import ReplayOptions

Port = Annotated[
    int, typer.Option(help="Where to listen; a free one if not given.", min=0, max=65535)
]
Browser = Annotated[
    bool, typer.Option("--open/--no-browser", help="Open the page in your browser.")
]


@with_options
def serve(
    space: SpaceArgument,
    port: Port = 0,
    browser: Browser = False,
    *,
    replaying: ReplayOptions,
    quiet: Quiet = False,
) -> None:
    """Show the page of a comparison in your browser, with what a file cannot do.

    Choose two policies and see their exact distance with its interval, what differs between them,
    and clips, which are made when you ask for them. Policies that join the folder meanwhile
    ([bold]pivec watch[/bold], or compare once more) appear on the open page.

    Only this computer can reach it, and only with the address that is printed. Ctrl-C ends it.

    Example: pivec serve pivec-out --open
    """
    from pivec.server import serve as serve_page

    serve_page(space, port, options=replaying, browser=browser, quiet=quiet)
