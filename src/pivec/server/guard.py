"""Who may ask, how much, and the headers of every answer.

The page is for whoever has the address with its token, on this computer. A browser that is sent
here under another name (DNS rebinding) is told nothing, as are those without the token.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from typing import TYPE_CHECKING

from pivec.report.script import content_policy, script
from pivec.terminal import say

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
    """Stands before an application: takes the token off addresses, or gives nothing away.

    Parameters
    ----------
    app : ASGI application
        Gets requests whose paths begin behind the token.
    token : str
        The first part of every address.
    hosts : collection of str
        Names and port under which the server may be asked.
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
