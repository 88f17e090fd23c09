"""A server on this computer alone: an address with a token, and an orderly end."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pivec.arguments import Range, checked
from pivec.errors import MissingExtra, UsageError
from pivec.options import ReplayOptions
from pivec.terminal import say
from pivec.text import n_policies

if TYPE_CHECKING:
    from uvicorn import Server

    from pivec.server.current import Current
    from pivec.server.routes import Answers

_HOST = "127.0.0.1"
_PATIENCE = 1  # seconds that requests have to end after Ctrl-C
_LARGEST_HEAD = 1 << 14  # bytes of a request line with its headers
_MOST = 256  # connections at a time


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

    Beside what ``report.html`` shows, the page then has exact distances, what differs between any
    two policies, clips made when asked for, and policies that join the folder meanwhile.

    Parameters
    ----------
    out : path
        The folder of a comparison.
    port : int
        Where to listen; 0 takes a free one.
    options : ReplayOptions, optional
        How episodes are played again to be filmed, where the folder does not tell.
    browser : bool
        Open the page in a browser.
    quiet : bool
        Say nothing but the address.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtra("pivec serve", "serve") from error
    from pivec.explanations.folder import folder_around
    from pivec.server.current import Current
    from pivec.server.desk import Desk
    from pivec.server.films import Films
    from pivec.server.routes import Answers

    with listening(port) as listener:
        current = Current(folder_around(Path(out)), quiet)
        answers = Answers(current, options or ReplayOptions(), Desk(), Films())
        server, address = server_of(answers, listener)
        # Ctrl-C is how a server ends, so it is no failure; what it was doing has been ended.
        with contextlib.suppress(KeyboardInterrupt):
            _announce(current, address, browser, quiet)
            server.run(sockets=[listener])
    if not quiet:
        say("Stopped")


def server_of(answers: Answers, listener: socket.socket) -> tuple[Server, str]:
    """Make what answers requests that come to a socket, and the address of the page there."""
    import uvicorn

    from pivec.server.guard import Guard
    from pivec.server.routes import application

    host, port = listener.getsockname()
    token = secrets.token_urlsafe(16)
    config = uvicorn.Config(
        Guard(application(answers), token, [f"{host}:{port}", f"localhost:{port}"]),
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST,
        h11_max_incomplete_event_size=_LARGEST_HEAD,
        timeout_graceful_shutdown=_PATIENCE,
    )
    return uvicorn.Server(config), f"http://{host}:{port}/{token}/"


@contextlib.contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """Hold a port of the loopback address, which nobody outside of this computer reaches."""
    with socket.socket() as listener:
        if os.name == "posix":  # elsewhere it would share a port that is taken
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, port))
            listener.listen()
        except OSError as error:
            raise UsageError(
                f"cannot listen on port {port} ({error.strerror}): choose another with --port, or "
                "leave it out for a free one"
            ) from error
        yield listener


def _announce(current: Current, address: str, browser: bool, quiet: bool) -> None:
    """Say where the page is, which nobody else is told."""
    space = current.snapshot.space
    environment = space.collected.get("environment", "")
    if not quiet:
        say(f"{n_policies(len(space.descriptions))} in {environment or 'an environment'}")
    say(f"Page: {address}")
    if not quiet:
        say("Ctrl-C ends it; whoever has this address, on this computer, can see the page")
    if browser and not webbrowser.open(address):
        say("pivec: no browser could be opened: open the address above", error=True)
