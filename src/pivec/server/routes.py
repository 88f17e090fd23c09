"""What is asked of the server, and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pivec.characterizations import Space
from pivec.errors import PivecError, UsageError
from pivec.explanations import FOLDER, ComparisonFolder, PairExplanation, stored_states
from pivec.files import read_regular
from pivec.options import ReplayOptions
from pivec.parallel import Tell, current, using
from pivec.server.serving import Desk
from pivec.server.snapshot import Current, NotFound, Snapshot, shown
from pivec.terminal import printable

# -----------------------------------------------------------------------------
# Pictures below a folder, and nothing else of it.


# No SVG: it may hold scripts.
KINDS = {
    ".webp": "image/webp",
    ".png": "image/png",
    ".gif": "image/gif",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
}
MEDIA = "media"  # where addresses of pictures begin
_LARGEST = 1 << 26  # bytes of a picture


def read_picture(folder: Path, name: str) -> tuple[bytes, str] | None:
    """Read a picture by its name below the folder, with its kind; None if that is no such file.

    Links are followed only within the folder.
    """
    kind = KINDS.get(PurePath(name).suffix.lower())
    if kind is None or "\0" in name or name.startswith(("/", "\\")) or ".." in PurePath(name).parts:
        return None
    root = os.path.realpath(folder)
    file = os.path.realpath(os.path.join(root, name))
    if not PurePath(file).is_relative_to(root) or KINDS.get(PurePath(file).suffix.lower()) != kind:
        return None
    try:
        return read_regular(file, _LARGEST), kind
    except Exception:  # gone, a folder, no picture, too long a name: all the same to who asks
        return None


def address_of(folder: Path, file: Path) -> str:
    """Give the address of a picture, from the page.

    Examples
    --------
    >>> address_of(Path("out"), Path("out/explain/a b.webp"))
    'media/explain/a%20b.webp'
    """
    return f"{MEDIA}/{quote(file.relative_to(folder).as_posix())}"


# -----------------------------------------------------------------------------
# Clips and pictures of two policies, made when somebody asks for them, in a process of its own.
#
# What plays and draws may be a stranger's: a process that crashes or hangs ends nothing here, and
# ends with the server. Pictures are kept below the folder, under names that tell their content, so
# that all pairs share them.


Answer = dict[str, Any]
Key = tuple[str, str]
_WAITING, _KEPT = 8, 256  # films that wait, and answers that are known
_CLIPS = 2
_WAIT, _PLAY = "waiting for another film", "playing episodes again to film them"
_PATIENCE = 2.0  # seconds for a process that was killed to be gone


@dataclass(frozen=True)
class Film:
    """What is to be filmed, and how it is played."""

    folder: Path
    difference: PairExplanation
    replaying: ReplayOptions


class Films:
    """Makes films one after another, what was asked for last first."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Key, Answer] = OrderedDict()
        self._waiting: OrderedDict[Key, Film] = OrderedDict()
        self._changed = threading.Condition()
        self._process = 0
        self._busy = self._stopped = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def ask(self, key: Key, film: Film) -> Answer:
        """Have a film made, unless it is there or on its way; what failed is tried again."""
        with self._changed:
            known = self._answers.get(key)
            if known is None or known["state"] == "failed":
                self._waiting[key] = film
                self._set(key, _answer("working", _WAIT if self._busy else _PLAY))
                if len(self._waiting) > _WAITING:
                    oldest, _ = self._waiting.popitem(last=False)
                    self._set(oldest, _answer("failed", "others were asked for since: ask again"))
                self._changed.notify()
            return self._answers[key]

    def answer(self, key: Key) -> Answer | None:
        """Tell how far a film is; None if nobody asked for it."""
        with self._changed:
            return self._answers.get(key)

    def stop(self) -> None:
        """Make no more films, and end the process that makes one."""
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            self._changed.notify()
            if self._process:
                with contextlib.suppress(OSError):
                    os.kill(self._process, getattr(signal, "SIGKILL", signal.SIGTERM))
        self._thread.join(_PATIENCE)

    def _set(self, key: Key, answer: Answer) -> None:
        self._answers[key] = answer
        self._answers.move_to_end(key)
        while len(self._answers) > _KEPT:
            self._answers.popitem(last=False)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopped)
                if self._stopped:
                    return
                key, film = self._waiting.popitem()
                self._busy = True
                self._set(key, _answer("working", _PLAY))
            try:
                answer = self._make(film)
            except Exception as error:  # the next one may be made all the same
                answer = _answer("failed", f"{type(error).__name__}: {error}")
            with self._changed:
                self._process, self._busy = 0, False
                self._set(key, answer)

    def _make(self, film: Film) -> Answer:
        (reply,) = current().map(
            make_film, [film], on_message=self._begun, name=lambda _: "the film", apart=True
        )
        failed = reply.failure is not None
        return _answer("failed", str(reply.failure)) if failed else reply.content

    def _begun(self, _film: Film, process: int) -> None:
        with self._changed:
            if self._stopped:
                raise PivecError("the server has stopped")
            self._process = process


def make_film(film: Film, tell: Tell) -> Answer:
    """Play and draw both policies, in the process that was started for it."""
    tell(os.getpid())
    from pivec.explanations import Replayer, with_media

    labels, chosen = film.difference.labels, film.replaying
    kept = stored_states(film.folder, labels)
    findings = ComparisonFolder(film.folder, Space.load(film.folder), kept)
    replayer = Replayer(findings, chosen.env, list(chosen.policies) or None, chosen.collecting)
    media = film.folder / FOLDER / "media"
    if not media.resolve().is_relative_to(film.folder.resolve()):
        raise UsageError(f"{media} is a link that leads out of {film.folder}: remove it")
    # What could not be explained is told beside the numbers, not here.
    difference = replace(film.difference, notes=())
    with using(chosen.engine, chosen.jobs):
        made = with_media(difference, findings, replayer, media, n_clips=_CLIPS)
    return film_answer(film.folder, made)


def film_answer(folder: Path, made: PairExplanation) -> Answer:
    """Give the addresses of what was filmed; where nothing was, why."""
    clips = [
        {"src": address_of(folder, clip.path), "title": clip.title, "words": clip.caption}
        for clip in made.clips
        if clip.path is not None
    ]
    frames = [
        {"src": address_of(folder, frame.path), "region": region, "policy": policy}
        for (policy, region), frame in made.frames.items()
        if frame.path is not None
    ]
    state = "done" if clips or frames else "failed"
    more = f" (and {len(made.notes) - 1} more)" if len(made.notes) > 1 else ""
    words = f"{made.notes[0]}{more}" if made.notes else ""
    return _answer(state, words) | {"clips": shown(clips), "frames": shown(frames)}


def _answer(state: str, words: str) -> Answer:
    return {"state": state, "words": printable(words), "clips": [], "frames": []}


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
