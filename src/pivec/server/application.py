"""The application behind the live page: the newest state of a comparison, its pairs, and clips."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import threading
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path, PurePath
from queue import SimpleQueue
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pivec.characterizations import Measured, Space
from pivec.errors import PivecError, UsageError
from pivec.explanations import (
    FOLDER,
    ComparisonFolder,
    PairExplanation,
    explain_pair,
    stored_states,
)
from pivec.files import read_regular
from pivec.options import ReplayOptions
from pivec.parallel import Tell, current, using
from pivec.report import (
    SPACE,
    Findings,
    decomposition_data,
    key_figures,
    measure_space,
    page_data,
    report_html,
    summary,
)
from pivec.results import plain
from pivec.run_log import RUN, RunLog
from pivec.statistics import LEVEL
from pivec.terminal import encodable, printable, say
from pivec.text import n_policies

T = TypeVar("T")
Pair = tuple[int, int]
Answer = dict[str, Any]  # JSON
FileVersion = tuple[int, int, int] | None
_CACHED_PAIRS = 32  # each has some MB where states have hundreds of features
_MANY = 1000  # policies whose distances take a while
_EXPLAINED = 400  # explained pairs that are looked for
_INTERVAL = 1.0  # seconds between looks at the folder
_LARGEST = 1 << 26  # bytes of a picture
MEDIA = "media"  # where addresses of pictures begin
# No SVG: it may contain scripts.
MEDIA_TYPES = {f".{kind}": f"image/{kind}" for kind in ("webp", "png", "gif", "jpeg")}
MEDIA_TYPES[".jpg"] = MEDIA_TYPES[".jpeg"]


class NotFound(PivecError):
    """There is no such policy, or no such clips."""


class Snapshot:
    """A comparison at one moment: what its page shows, and the differences of its policies.

    `page`, `pair` and `explanation` are slow, and must be called by one thread at a time.
    """

    def __init__(self, folder: Path, space: Space, measured: Measured | None = None) -> None:
        self.folder, self.space = folder, space
        self.findings = Findings.of(space, measured or measure_space(space, folder), RunLog(folder))
        data = page_data(self.findings)
        self.version = hashlib.sha256(_json(data)).hexdigest()[:16]
        head = {"summary": summary(self.findings), "figures": key_figures(self.findings)}
        self.data = _json(data | {"live": self.version} | head)
        names = [printable(label) for label in space.descriptions.labels]  # as the page has them
        counts = Counter(names)
        self._rows = {name: row for row, name in enumerate(names) if counts[name] == 1}
        self.pair = lru_cache(_CACHED_PAIRS)(self._pair)
        self.explanation = lru_cache(_CACHED_PAIRS)(self._explanation)

    @cached_property
    def page(self) -> bytes:
        """The page, as HTML."""
        return encodable(report_html(self.findings, live=self.version)).encode()

    def rows(self, a: str, b: str) -> Pair:
        """Find two policies by their whole labels."""
        for label in (a, b):
            if label not in self._rows:
                raise NotFound(f"there is no policy {label!r} here (any more), or not just one")
        if a == b:
            raise UsageError(f"expected two policies, but both are {a!r}: choose another")
        return self._rows[a], self._rows[b]

    def _pair(self, i: int, j: int) -> bytes:
        """Return all that is known of two policies, as JSON; None is what is not known.

        ``distance`` is without the noise of sampling where there is an interval, ``measured`` with
        it. ``difference`` has the parts of the distance; where there are none, ``reason`` says why.
        """
        labels = self.space.descriptions.labels
        known = plain({"a": labels[i], "b": labels[j], "level": LEVEL} | self._numbers(i, j))
        difference, reason = None, ""
        try:
            found = self.explanation(i, j)
            difference = decomposition_data(found.decomposition, found.features, found.notes)
        except PivecError as error:
            reason = str(error)
        return _json(printable_texts(known | {"difference": difference, "reason": reason}))

    def _explanation(self, i: int, j: int) -> PairExplanation:
        """Decompose the distance of two policies."""
        labels = [self.space.descriptions.labels[row] for row in (i, j)]
        states = stored_states(self.folder, labels)
        return explain_pair(ComparisonFolder(self.folder, self.space, states), *labels)

    def identities(self, i: int, j: int) -> tuple[str, str]:
        """Identify two policies by their descriptions, whatever else is in the comparison."""
        described = self.space.descriptions

        def identity(row: int) -> str:
            info, points = described.policies[row], described.points
            known = json.dumps([info.label, info.identity, int(described.n_episodes[row])])
            own = self.version.encode() if points is None else points[row].tobytes()
            return hashlib.sha256(known.encode() + own).hexdigest()

        return identity(i), identity(j)

    def _numbers(self, i: int, j: int) -> Answer:
        """Return distance, interval, p-value and overlap of two policies, as pairs.csv has them."""
        method, described = self.space.method, self.space.descriptions
        known = self.findings.measured.intervals
        a, b = described.select([i]), described.select([j])
        measured = float(method.distances(a, b)[0, 0])
        answer: Answer = {"distance": measured, "measured": measured}
        answer |= dict.fromkeys(("low", "high", "p", "overlap"))
        at = i, j
        if known is None and ("influences" in described.arrays or method.traits.exact):
            known, at = method.intervals(a, b, LEVEL), (0, 0)
        if known is not None:
            answer["distance"] = max(float(known.distance[at]), 0.0)
            answer |= {"low": known.low[at], "high": known.high[at], "p": known.p_value[at]}
        overlap = getattr(method, "overlap", None)  # of what has regions
        if overlap is not None:
            answer["overlap"] = float(overlap(a, b)[0, 0])
        return answer


def _json(content: Any) -> bytes:
    """Write JSON in ASCII, which also holds halves of characters that file names may have."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def printable_texts(content: Any) -> Any:
    r"""Write the texts within JSON as the page does, so that a label is the same in both.

    Examples
    --------
    >>> print(printable_texts({"labels": ["a\nb"]}))
    {'labels': ['a\\nb']}
    """
    if isinstance(content, str):
        return printable(content)
    if isinstance(content, dict):
        return {key: printable_texts(part) for key, part in content.items()}
    if isinstance(content, list | tuple):
        return [printable_texts(part) for part in content]
    return content


class LatestSnapshot:
    """The newest snapshot of a folder that others may write to meanwhile.

    A space whose policies have no positions yet is incomplete, and waited for.
    """

    def __init__(self, folder: Path, quiet: bool = False) -> None:
        self.folder = folder
        self._quiet = quiet
        self._shown = self._seen = folder_versions(folder)
        self._reported: set[str] = set()
        space = Space.load(folder)
        if not _is_complete(space):
            raise UsageError(
                f"the policies of {folder} have no positions on a map yet: wait for the command "
                "that writes there, or run it again"
            )
        if len(space.descriptions) > _MANY and not quiet:
            say(f"Measuring the distances of {n_policies(len(space.descriptions))}")
        self.snapshot = Snapshot(folder, space)

    def refresh(self) -> None:
        """Take another snapshot if the files have changed, and not since the last look."""
        now = folder_versions(self.folder)
        stable, self._seen = now == self._seen, now
        if now == self._shown or not stable:
            return
        try:
            self._take(now)
        except Exception as error:  # the page stays as it was, and the server continues
            reason = str(error) if isinstance(error, PivecError | OSError) else repr(error)
            if reason not in self._reported:
                self._reported.add(reason)
                words = f"{self.folder} has changed, but cannot be shown: {reason}"
                say(f"pivec: {words}; the page stays as it was", error=True)
        self._shown = now

    def _take(self, now: tuple[tuple[FileVersion, ...], tuple[FileVersion, ...]]) -> None:
        before = self.snapshot
        same = now[0] == self._shown[0]
        space = before.space if same else Space.load(self.folder)
        if not _is_complete(space):
            return
        self.snapshot = Snapshot(self.folder, space, before.findings.measured if same else None)
        n, n_before = len(space.descriptions), len(before.space.descriptions)
        if n != n_before and not self._quiet:
            say(f"{n_policies(n)} now, {n_before} before")


def _is_complete(space: Space) -> bool:
    return space.positions is not None and not np.isnan(space.positions).any()


def folder_versions(folder: Path) -> tuple[tuple[FileVersion, ...], tuple[FileVersion, ...]]:
    """Return versions of the files of a folder: of its space, and of what the page shows beside."""
    explained = islice(sorted(folder.glob(f"{FOLDER}/*/explain.json")), _EXPLAINED)
    beside = (folder / RUN, folder / "regions.json", folder / FOLDER / "explain.json", *explained)
    spaces = folder / SPACE / "space.npz", folder / "space.npz"

    def version(file: Path) -> FileVersion:
        try:
            known = os.stat(file)
        except OSError:
            return None
        return known.st_mtime_ns, known.st_size, known.st_ino

    return tuple(map(version, spaces)), tuple(map(version, beside))


def read_picture(folder: Path, name: str) -> tuple[bytes, str] | None:
    """Read a picture by its name below the folder, with its media type; None if there is none.

    Links are followed only within the folder.
    """
    kind = MEDIA_TYPES.get(PurePath(name).suffix.lower())
    if kind is None or "\0" in name or name.startswith(("/", "\\")) or ".." in PurePath(name).parts:
        return None
    root = os.path.realpath(folder)
    file = os.path.realpath(os.path.join(root, name))
    inside = PurePath(file).is_relative_to(root)
    if not inside or MEDIA_TYPES.get(PurePath(file).suffix.lower()) != kind:
        return None
    try:
        return read_regular(file, _LARGEST), kind
    except Exception:  # gone, a folder, no picture, too long a name: all the same to the client
        return None


_WAITING, _KNOWN = 8, 256  # requests that wait, and answers that are kept
_CLIPS = 2
_PATIENCE = 2.0  # seconds for a killed process to end


class WorkerThread:
    """Calls functions one after another in a thread of its own.

    Python waits at its end for the threads of an executor, but not for this one.

    Examples
    --------
    >>> WorkerThread().submit(sum, [1, 2]).result()
    3
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]]
        self._calls = SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Call a function when the calls before it are done."""
        future: Future[T] = Future()
        self._calls.put((future, function, arguments))
        return future

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function, and wait for what it returns."""
        return await asyncio.wrap_future(self.submit(function, *arguments))

    def _work(self) -> None:
        while True:
            future, function, arguments = self._calls.get()
            if not future.set_running_or_notify_cancel():
                continue  # nobody waits for it any more
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)


@dataclass(frozen=True)
class ClipRequest:
    """The pair to make clips of, and how its episodes are replayed."""

    folder: Path
    explanation: PairExplanation
    replaying: ReplayOptions


class ClipMaker:
    """Makes clips one request after another, the last one first, in a process of its own.

    Environments and policies may be a stranger's: a process that crashes or hangs ends nothing
    here, and ends with the server.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[Any, Answer] = OrderedDict()
        self._waiting: OrderedDict[Any, ClipRequest] = OrderedDict()
        self._lock, self._worker = threading.RLock(), WorkerThread()
        self._process, self._stopped = 0, False

    def submit(self, key: tuple[str, str], request: ClipRequest) -> Answer:
        """Have clips made, unless they exist or are on their way; what failed is tried again."""
        with self._lock:
            known = self._answers.get(key)
            if known is None or known["state"] == "failed":
                self._waiting[key] = request
                self._set(key, _clip_answer("working", "waiting until episodes can be replayed"))
                if len(self._waiting) > _WAITING:
                    oldest, _ = self._waiting.popitem(last=False)
                    words = "others were asked for since: ask again"
                    self._set(oldest, _clip_answer("failed", words))
                self._worker.submit(self._make_next)
            return self._answers[key]

    def answer(self, key: tuple[str, str]) -> Answer | None:
        """Return the state of a request; None if there is none."""
        with self._lock:
            return self._answers.get(key)

    def stop(self) -> None:
        """Make no more clips, and end the process that makes some."""
        with self._lock:
            self._stopped = True
            self._waiting.clear()
            if self._process:
                with contextlib.suppress(OSError):
                    os.kill(self._process, getattr(signal, "SIGKILL", signal.SIGTERM))
        with contextlib.suppress(TimeoutError):
            self._worker.submit(int).result(_PATIENCE)

    def _set(self, key: Any, answer: Answer) -> None:
        self._answers[key] = answer
        self._answers.move_to_end(key)
        while len(self._answers) > _KNOWN:
            self._answers.popitem(last=False)

    def _make_next(self) -> None:
        with self._lock:
            if not self._waiting:
                return
            key, request = self._waiting.popitem()
            self._set(key, _clip_answer("working", "replaying episodes to draw them"))
        try:
            (reply,) = current().map(
                make_clips, [request], on_message=self._begun, name=lambda _: "the clip", apart=True
            )
            answer = reply.content
            if reply.failure is not None:
                answer = _clip_answer("failed", str(reply.failure))
        except Exception as error:  # the next one may succeed
            answer = _clip_answer("failed", f"{type(error).__name__}: {error}")
        with self._lock:
            self._process = 0
            self._set(key, answer)

    def _begun(self, _request: ClipRequest, process: int) -> None:
        with self._lock:
            if self._stopped:
                raise PivecError("the server has stopped")
            self._process = process


def make_clips(request: ClipRequest, tell: Tell) -> Answer:
    """Replay and draw both policies, in the process that was started for it.

    Pictures are kept below the folder, under names that tell their content: all pairs share them.
    """
    tell(os.getpid())
    from pivec.explanations import Replayer, with_media

    folder, chosen = request.folder, request.replaying
    states = stored_states(folder, request.explanation.labels)
    comparison = ComparisonFolder(folder, Space.load(folder), states)
    replayer = Replayer.open(comparison, chosen)
    media = folder / FOLDER / MEDIA
    if not media.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{media} is a link that leads out of {folder}: remove it")
    # What could not be explained is said beside the numbers, not here.
    explanation = replace(request.explanation, notes=())
    with using(chosen.engine, chosen.jobs):
        made = with_media(explanation, comparison, replayer, media, n_clips=_CLIPS)

    def address(path: Path) -> str:
        return f"{MEDIA}/{quote(path.relative_to(folder).as_posix())}"

    clips = [
        {"src": address(clip.path), "title": clip.title, "words": clip.caption}
        for clip in made.clips
        if clip.path is not None
    ]
    frames = [
        {"src": address(frame.path), "region": region, "policy": policy}
        for (policy, region), frame in made.frames.items()
        if frame.path is not None
    ]
    more = f" (and {len(made.notes) - 1} more)" if len(made.notes) > 1 else ""
    answer = _clip_answer(
        "done" if clips or frames else "failed", f"{made.notes[0]}{more}" if made.notes else ""
    )
    return answer | {"clips": printable_texts(clips), "frames": printable_texts(frames)}


def _clip_answer(state: str, words: str) -> Answer:
    return {"state": state, "words": printable(words), "clips": [], "frames": []}


@dataclass(frozen=True)
class Handlers:
    """Answers requests about a comparison; slow work is left to the worker and the clip maker."""

    latest: LatestSnapshot
    replaying: ReplayOptions
    worker: WorkerThread
    clip_maker: ClipMaker
    interval: float = _INTERVAL

    def application(self) -> Starlette:
        """Make the application; a mistake is answered by a sentence."""

        def sentence(_: Request, error: Exception) -> Response:
            status = 404 if isinstance(error, NotFound) else 400
            return JSONResponse({"error": printable(str(error))}, status)

        routes = [
            Route("/", self._page),
            Route("/version", self._version),
            Route("/data", self._data),
            Route("/pair", self._pair),
            Route("/clips", self._clips, methods=["GET", "POST"]),
            Route(f"/{MEDIA}/{{name:path}}", self._media),
        ]
        app = Starlette(
            routes=routes, exception_handlers={PivecError: sentence}, lifespan=self._lifespan
        )
        app.router.redirect_slashes = False  # it would name addresses without the token
        return app

    async def _page(self, _: Request) -> Response:
        snapshot = self.latest.snapshot
        return Response(await self.worker.call(lambda: snapshot.page), media_type="text/html")

    async def _version(self, _: Request) -> Response:
        return JSONResponse({"version": self.latest.snapshot.version})

    async def _data(self, _: Request) -> Response:
        return Response(self.latest.snapshot.data, media_type="application/json")

    async def _pair(self, request: Request) -> Response:
        """Return all that is known of two policies."""
        snapshot, rows = self._asked(request)
        answer = await self.worker.call(snapshot.pair, *rows)
        return Response(answer, media_type="application/json")

    async def _clips(self, request: Request) -> Response:
        """Return the state of the clips of two policies; POST has them made."""
        snapshot, rows = self._asked(request)
        key = snapshot.identities(*rows)
        answer = self.clip_maker.answer(key)
        if request.method == "POST" and (answer is None or answer["state"] == "failed"):
            explanation = await self.worker.call(snapshot.explanation, *rows)
            wanted = ClipRequest(self.latest.folder, explanation, self.replaying)
            answer = self.clip_maker.submit(key, wanted)
        if answer is None:
            raise NotFound("there are no such clips, or not any more: ask for them again")
        return JSONResponse(answer)

    def _media(self, request: Request) -> Response:
        picture = read_picture(self.latest.folder, request.path_params["name"])
        if picture is None:
            return Response(status_code=404)
        return Response(picture[0], media_type=picture[1])

    def _asked(self, request: Request) -> tuple[Snapshot, Pair]:
        """Find the two policies that are asked about."""
        names = []
        for name in ("a", "b"):
            labels = request.query_params.getlist(name)
            if len(labels) != 1:
                raise UsageError(f"expected the labels of two policies, {name}= among them")
            names.append(labels[0])
        snapshot = self.latest.snapshot
        return snapshot, snapshot.rows(*names)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Look at the folder from time to time; in the end leave nothing running."""

        async def watch() -> None:
            while True:
                await asyncio.sleep(self.interval)
                await self.worker.call(self.latest.refresh)

        task = asyncio.create_task(watch())
        try:
            yield
        finally:
            task.cancel()
            self.clip_maker.stop()
