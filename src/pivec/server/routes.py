"""What is asked of the server, and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pivec.errors import PivecError, UsageError
from pivec.options import ReplayOptions
from pivec.server.current import Current
from pivec.server.desk import Desk
from pivec.server.films import Film, Films
from pivec.server.media import MEDIA, read_picture
from pivec.server.snapshot import NotFound, Snapshot
from pivec.terminal import printable

_EVERY = 1.0  # seconds between looks at the folder


@dataclass(frozen=True)
class Answers:
    """Answers requests about a comparison; heavy work is left to the desk and to films."""

    current: Current
    replaying: ReplayOptions
    desk: Desk
    films: Films
    every: float = _EVERY

    def routes(self) -> list[Route]:
        """List what can be asked."""
        return [
            Route("/", self.page),
            Route("/version", self.version),
            Route("/data", self.data),
            Route("/pair", self.pair),
            Route("/film", self.film, methods=["GET", "POST"]),
            Route(f"/{MEDIA}/{{name:path}}", self.media),
        ]

    async def page(self, _: Request) -> Response:
        """Give the page, which then asks for the rest."""
        snapshot = self.current.snapshot
        return Response(await self.desk.call(lambda: snapshot.page), media_type="text/html")

    async def version(self, _: Request) -> Response:
        """Tell whether the data are still those that the page has."""
        return JSONResponse({"version": self.current.snapshot.version})

    async def data(self, _: Request) -> Response:
        """Give what the page shows."""
        return _json(self.current.snapshot.data)

    async def pair(self, request: Request) -> Response:
        """Tell all that is known of two policies."""
        snapshot, rows = self._pair(request)
        return _json(await self.desk.call(snapshot.pair, *rows))

    async def film(self, request: Request) -> Response:
        """Tell how far a film of two policies is; asked by POST, have it made."""
        snapshot, rows = self._pair(request)
        key = snapshot.marks(*rows)
        answer = self.films.answer(key)
        if request.method == "POST" and (answer is None or answer["state"] == "failed"):
            difference = await self.desk.call(snapshot.difference, *rows)
            film = Film(self.current.folder, difference, self.replaying)
            answer = self.films.ask(key, film)
        if answer is None:
            raise NotFound("there is no such film, or not any more: ask for it again")
        return JSONResponse(answer)

    def media(self, request: Request) -> Response:
        """Give a picture below the folder."""
        picture = read_picture(self.current.folder, request.path_params["name"])
        if picture is None:
            return Response(status_code=404)
        return Response(picture[0], media_type=picture[1])

    def _pair(self, request: Request) -> tuple[Snapshot, tuple[int, int]]:
        """Find the two policies that are asked about."""
        names = []
        for name in ("a", "b"):
            labels: Sequence[str] = request.query_params.getlist(name)
            if len(labels) != 1:
                raise UsageError(f"expected the labels of two policies, {name}= among them")
            names.append(labels[0])
        snapshot = self.current.snapshot
        return snapshot, snapshot.rows(*names)

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Look at the folder from time to time; in the end leave nothing running."""

        async def watch() -> None:
            while True:
                await asyncio.sleep(self.every)
                await self.desk.call(self.current.look)

        task = asyncio.create_task(watch())
        try:
            yield
        finally:
            task.cancel()
            self.films.stop()


def application(answers: Answers) -> Starlette:
    """Make the application; a mistake is answered by a sentence."""

    def sentence(_: Request, error: Exception) -> Response:
        status = 404 if isinstance(error, NotFound) else 400
        return JSONResponse({"error": printable(str(error))}, status)

    app = Starlette(
        routes=answers.routes(),
        exception_handlers={PivecError: sentence},
        lifespan=answers.lifespan,
    )
    app.router.redirect_slashes = False  # it would name addresses without the token
    return app


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")
