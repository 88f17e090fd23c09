"""The page of a comparison from a local server, with what a file cannot do: `pivec serve`.

application.py has the newest state of the comparison, its pairs, and clips made on request.
"""

from __future__ import annotations

import contextlib
import webbrowser
from pathlib import Path
from typing import Annotated

from pivec.arguments import Range, checked
from pivec.errors import MissingExtra
from pivec.options import ReplayOptions
from pivec.terminal import say

__all__ = ["serve"]


@checked
def serve(
    out: str | Path,
    port: Annotated[int, Range(0, most=65535)] = 0,
    *,
    options: ReplayOptions | None = None,
    browser: bool = False,
    quiet: bool = False,
) -> None:
    """Serve the page of a comparison to browsers on this computer, until Ctrl-C.

    In addition to ``report.html``, this page has the exact distance of any two policies, what
    differs between them, clips made on request, and policies that are added to the folder
    meanwhile. While distances are computed, or `pivec.watch` waits for the first checkpoints, it
    says so.

    Parameters
    ----------
    out : path
        The folder of a comparison, or one where `pivec.watch` is making it.
    port : int
        Where to listen; 0 takes a free one.
    options : ReplayOptions, optional
        How episodes are replayed for clips, where the folder does not say.
    browser : bool
        Open the page in a browser.
    quiet : bool
        Print nothing but the address.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtra("pivec serve", "serve") from error
    from pivec.explanations import comparison_folder
    from pivec.server.application import Handlers, LatestSnapshot, listening, make_server

    with listening(port) as listener:
        latest = LatestSnapshot(comparison_folder(Path(out)), quiet)
        server, address = make_server(Handlers(latest, options or ReplayOptions()), listener)
        # Ctrl-C is how a server ends, so it is no failure; what it was doing has been ended.
        with contextlib.suppress(KeyboardInterrupt):
            if not quiet:
                say(latest.opening)
            say(f"Page: {address}")
            if not quiet:
                say(
                    "Press Ctrl-C to stop. Anyone on this computer who has this address can see "
                    "the page"
                )
            if browser and not webbrowser.open(address):
                say("pivec: no browser could be started: open the address above", error=True)
            server.run(sockets=[listener])
    if not quiet:
        say("Stopped")
