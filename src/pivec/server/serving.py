"""A server on this computer alone: an address with a token, and an orderly shutdown."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import webbrowser
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pivec.arguments import Range, checked
from pivec.errors import MissingExtra, UsageError
from pivec.options import ReplayOptions
from pivec.report import content_policy, script
from pivec.terminal import say
from pivec.text import n_policies

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from uvicorn import Server

    from pivec.server.application import Handlers, LatestSnapshot

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

    In addition to ``report.html``, this page has exact distances, what differs between any two
    policies, clips made on request, and policies that are added to the folder meanwhile.

    Parameters
    ----------
    out : path
        The folder of a comparison.
    port : int
        Where to listen; 0 takes a free one.
    options : ReplayOptions, optional
        How episodes are replayed for clips, where the folder does not tell.
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
    from pivec.server.application import ClipMaker, Handlers, LatestSnapshot, WorkerThread

    with listening(port) as listener:
        latest = LatestSnapshot(comparison_folder(Path(out)), quiet)
        handlers = Handlers(latest, options or ReplayOptions(), WorkerThread(), ClipMaker())
        server, address = make_server(handlers, listener)
        # Ctrl-C is how a server ends, so it is no failure; what it was doing has been ended.
        with contextlib.suppress(KeyboardInterrupt):
            _announce(latest, address, browser, quiet)
            server.run(sockets=[listener])
    if not quiet:
        say("Stopped")


def make_server(handlers: Handlers, listener: socket.socket) -> tuple[Server, str]:
    """Make the server of a socket, and return the address of the page there."""
    import uvicorn

    host, port = listener.getsockname()
    token = secrets.token_urlsafe(16)
    config = uvicorn.Config(
        Guard(handlers.application(), token, [f"{host}:{port}", f"localhost:{port}"]),
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


def _announce(latest: LatestSnapshot, address: str, browser: bool, quiet: bool) -> None:
    """Say where the page is, which nobody else is told."""
    space = latest.snapshot.space
    environment = space.collected.get("environment", "")
    if not quiet:
        say(f"{n_policies(len(space.descriptions))} in {environment or 'an environment'}")
    say(f"Page: {address}")
    if not quiet:
        say("Ctrl-C ends it; whoever has this address, on this computer, can see the page")
    if browser and not webbrowser.open(address):
        say("pivec: no browser could be opened: open the address above", error=True)


LONGEST = 8192  # bytes of an address: two labels, written in percent signs
HEADERS = {
    "Content-Security-Policy": content_policy(
        script(), "connect-src 'self'", "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class Guard:
    """Passes requests to an ASGI application if their path begins with the token.

    Requests without it, or under another name than ``hosts`` (DNS rebinding), learn nothing.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str]) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = {host.encode() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        status, path = self._check(scope)
        if status == 307:
            await _empty(answer, status, [(b"location", f"{path}/".encode())])
        elif status != 200:
            await _empty(answer, status)
        else:
            try:
                await self._app({**scope, "path": path, "root_path": ""}, receive, answer)
            except Exception as error:  # a defect: the server goes on
                say(f"pivec: unexpected {type(error).__name__}: {error}", error=True)
                if not started:
                    await _empty(answer, 500)

    def _check(self, scope: Scope) -> tuple[int, str]:
        """Give the status of an answer, and the path behind the token."""
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value)
        first, slash, path = scope["path"][1:].partition("/")
        given = first.encode("utf-8", "replace")
        hosts = headers.get(b"host", [])
        own = len(hosts) == 1 and hosts[0].lower() in self._hosts
        if own and scope["path"] == "/favicon.ico":
            return 204, ""  # browsers ask for it by themselves, and would complain
        if not secrets.compare_digest(given, self._token) or not own:
            return 404, ""
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > LONGEST:
            return 414, ""
        if sum(len(name) + len(value) for name, value in scope["headers"]) > 2 * LONGEST:
            return 431, ""
        # Nothing that is asked here needs more than an address.
        if headers.get(b"content-length", [b"0"]) != [b"0"] or b"transfer-encoding" in headers:
            return 413, ""
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, ""
        return (200, f"/{path}") if slash else (307, first)


async def _empty(send: Send, status: int, headers: Collection[tuple[bytes, bytes]] = ()) -> None:
    """Answer with a status and nothing else; what may still come on this connection is not read."""
    fixed = [(b"connection", b"close")] + [(b"content-length", b"0")] * (status != 204)
    start = {"type": "http.response.start", "status": status, "headers": [*fixed, *headers]}
    await send(start)
    await send({"type": "http.response.body", "body": b""})
