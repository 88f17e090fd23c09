"""The application behind the live page: the newest state of a comparison, its pairs, and clips."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import signal
import socket
import threading
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import islice
from operator import attrgetter
from pathlib import Path, PurePath
from queue import SimpleQueue
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from pivec import explanations, report
from pivec.characterizations import Measured, Space
from pivec.errors import PivecError, UsageError
from pivec.explanations import (
    FOLDER,
    Clip,
    ClipPlan,
    ComparisonFolder,
    Drawn,
    FirstFrame,
    Frame,
    PairExplanation,
    Sheet,
    stored_states,
)
from pivec.files import read_regular
from pivec.options import ReplayOptions
from pivec.parallel import Tell, current, using
from pivec.policies import environment_names
from pivec.results import plain
from pivec.run_log import RUN, RunLog
from pivec.statistics import LEVEL
from pivec.terminal import encodable, printable, say
from pivec.text import n_policies, percent
from pivec.workflows.watch import FirstCheckpoints

T = TypeVar("T")
Pair = tuple[int, int]
Answer = dict[str, Any]  # JSON
FileVersion = tuple[int, int, int] | None
FolderVersions = tuple[tuple[FileVersion, ...], tuple[FileVersion, ...]]
_HOST = "127.0.0.1"
_MAX_CONNECTIONS = 256
_MAX_WAITING = 128  # connections without a complete request
_IDLE = 5  # seconds until a connection without a request is closed
_MAX_HEAD = 1 << 14  # bytes of a request line with its headers
_CACHED_PAIRS = 32  # each has some MB where states have hundreds of features
_MANY = 1000  # policies whose distances take a while
_EXPLAINED = 400  # explained pairs that are looked for
_INTERVAL = 1.0  # seconds between looks at the folder
_BRIEF = 2.0  # seconds that a browser waits for a page before it is told to ask again
_MAX_FILE = 1 << 26  # bytes
_WAITING, _KNOWN = 8, 256  # requests for clips that wait, and answers that are kept
_CLIPS = 2
_PATIENCE = 2.0  # seconds for a killed process to end
LONGEST = 8192  # bytes of an address: two labels, written in percent signs
MEDIA = "media"  # where addresses of pictures begin
# No SVG: it may contain scripts.
MEDIA_TYPES = {f".{kind}": f"image/{kind}" for kind in ("webp", "png", "gif", "jpeg")}
MEDIA_TYPES[".jpg"] = MEDIA_TYPES[".jpeg"]
# A page beside the report runs no script but what pivec ships for it, whatever the file holds.
PAGE_HEADERS = {
    "Content-Security-Policy": report.content_policy(
        report.script("player.js"), "frame-ancestors 'none'"
    )
}
WAITING_HEADERS = {
    "Content-Security-Policy": report.content_policy(report.RELOAD, "frame-ancestors 'none'")
}
HEADERS = {
    "Content-Security-Policy": report.content_policy(
        report.script(), "connect-src 'self'", "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class NotFound(PivecError):
    """There is no such policy, or no such clips."""

    status = 404


class NotReady(PivecError):
    """There is nothing to show yet."""

    status = 503


class Snapshot:
    """A comparison at one moment: what its page shows, and the differences of its policies.

    `page`, `pair`, `run` and `explanation` are slow, and must be called by one thread at a time.
    ``added`` in its data has the number of times that policies were added since the first snapshot,
    and of each policy that with which it came; 0 for those that were there at first.
    """

    def __init__(
        self,
        folder: Path,
        space: Space,
        measured: Measured | None = None,
        before: Snapshot | None = None,
    ) -> None:
        self.folder, self.space = folder, space
        measured = measured or report.measure_space(space, folder)
        self.findings = found = report.Findings.of(space, measured, RunLog(folder))
        data = report.page_data(found, live="yes")
        self.version = hashlib.sha256(_json(data)).hexdigest()[:16]
        self.is_exact = data["pairs"] is not None or data["n"] < 2
        self.words: str = data["words"] or ("All distances are exact." if data["n"] > 1 else "")
        policies = space.descriptions.policies
        known = before.arrivals if before else {info.identity: 0 for info in policies}
        is_more = any(info.identity not in known for info in policies)
        self.round: int = (before.round if before else 0) + is_more
        self.arrivals: dict[str, int] = {
            info.identity: known.get(info.identity, self.round) for info in policies
        }
        data["live"] = self.version
        rounds = [self.arrivals[info.identity] for info in policies]
        data["added"] = {"round": self.round, "rounds": report.numbers(rounds, "i4")}
        head = {"summary": report.summary(found), "figures": report.key_figures(found)}
        self._content = data | head
        self.data = _json(self._content)
        self._rows = {label: row for row, label in enumerate(space.descriptions.labels)}
        self.pair = lru_cache(_CACHED_PAIRS)(self._pair)
        self.run = lru_cache(_CACHED_PAIRS)(self._run)
        self.explanation = lru_cache(_CACHED_PAIRS)(self._explanation)

    @cached_property
    def page(self) -> bytes:
        """The page, as HTML."""
        return encodable(report.report_html(self.findings, live=self._content)).encode()

    def rows(self, a: str, b: str) -> Pair:
        """Find two policies by their whole labels."""
        for label in (a, b):
            if label not in self._rows:
                raise NotFound(f"there is no policy {label!r} (any more)")
        if a == b:
            raise UsageError(f"expected two policies, but both are {a!r}: choose another")
        return self._rows[a], self._rows[b]

    def episode(self, label: str, number: str) -> tuple[int, int]:
        """Find an episode of a policy, by the whole label and the number of the episode."""
        if label not in self._rows:
            raise NotFound(f"there is no policy {label!r} (any more)")
        row = self._rows[label]
        n = int(self.space.descriptions.n_episodes[row])
        if not (number.isascii() and number.isdigit() and len(number) < 10 and int(number) < n):
            raise NotFound(f"{label!r} has no episode {number!r}: expected 0 to {n - 1}")
        return row, int(number)

    def _pair(self, i: int, j: int) -> bytes:
        """Return all that is known of two policies, as JSON; None is what is not known.

        ``distance`` is without the noise of sampling where there is an interval, ``measured`` with
        it. ``difference`` has the parts of the distance; where there are none, ``reason`` says why.
        ``spreads`` has histograms of the features.
        """
        labels = self.space.descriptions.labels
        answer = {"a": labels[i], "b": labels[j], "level": LEVEL} | self._numbers(i, j)
        answer |= {"difference": None, "reason": "", "spreads": None}
        try:
            answer["spreads"] = report.pair_spreads(self.findings, i, j)
            found = self.explanation(i, j)
            answer["difference"] = report.decomposition_data(
                found.decomposition, found.features, found.notes, found.rules
            )
        except PivecError as error:
            answer["reason"] = str(error)
        return _json(printable_texts(plain(answer)))

    def _run(self, group: str) -> bytes:
        """Return what changed along a run, as JSON."""
        if group not in self.findings.policies.runs:
            raise NotFound(f"there is no run {group!r} (any more)")
        answer = {"run": group} | report.run_story(self.findings, group)
        return _json(printable_texts(plain(answer)))

    def _explanation(self, i: int, j: int) -> PairExplanation:
        """Decompose the distance of two policies."""
        labels = [self.space.descriptions.labels[row] for row in (i, j)]
        states = stored_states(self.folder, self.space, labels)
        return explanations.explain_pair(ComparisonFolder(self.folder, self.space, states), *labels)

    def identities(self, *rows: int) -> tuple[Any, ...]:
        """Identify policies by their descriptions, whatever else is in the comparison."""
        described, known = self.space.descriptions, []
        for row in rows:
            info, points = described.policies[row], described.points
            own = self.version if points is None else points[row].tobytes()
            known.append((info.label, info.identity, int(described.n_episodes[row]), own))
        return tuple(known)

    def _numbers(self, i: int, j: int) -> Answer:
        """Return distance, interval, p-value and overlap of two policies, as pairs.csv has them."""
        method, described = self.space.method, self.space.descriptions
        a, b = described.select([i]), described.select([j])
        measured = float(method.distances(a, b)[0, 0])
        answer: Answer = {"distance": measured, "measured": measured}
        answer |= dict.fromkeys(("low", "high", "p", "overlap"))
        known, at = self.findings.measured.intervals, (i, j)
        if known is None and ("influences" in described.arrays or method.traits.exact):
            known, at = method.intervals(a, b, LEVEL), (0, 0)
        if known is not None:
            answer["distance"] = max(float(known.distance[at]), 0.0)
            answer |= {"low": known.low[at], "high": known.high[at], "p": known.p_value[at]}
            # Among all pairs that are listed, chance may explain what it does not in one alone.
            pairs = self.findings.measured.pairs
            if ((pairs.i == min(i, j)) & (pairs.j == max(i, j)) & pairs.alike).any():
                answer["low"] = 0.0
        if hasattr(method, "overlap"):  # it has regions
            answer["overlap"] = float(method.overlap(a, b)[0, 0])
        return answer


def _json(content: Any) -> bytes:
    """Write JSON in ASCII, which also holds halves of characters that file names may have."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def printable_texts(content: Any) -> Any:
    r"""Write the texts within JSON as the page does, so that a label is the same in both."""
    if isinstance(content, str):
        return printable(content)
    if isinstance(content, dict):
        return {key: printable_texts(part) for key, part in content.items()}
    if isinstance(content, list | tuple):
        return [printable_texts(part) for part in content]
    return content


class LatestSnapshot:
    """The newest snapshot of a folder that others may write to meanwhile; `refresh` takes it.

    A space whose policies have no positions yet is incomplete, and waited for.
    """

    def __init__(self, folder: Path, quiet: bool = False) -> None:
        self.folder = folder
        self._quiet = quiet
        self._current: Snapshot | None = None
        self._shown: FolderVersions | None = None
        self._seen = folder_versions(folder)
        self._reported: set[str] = set()
        self._computing: tuple[str, float] | None = None  # what, and since when
        self._failure = ""
        self._opened, self._opened_at = self._load(), self._seen
        if self._opened is None and FirstCheckpoints.load(folder) is None:
            raise UsageError(
                f"the policies of {folder} have no positions on a map yet: wait for the command "
                "that writes there, or run it again"
            )
        if self._opened is not None:
            self._begin(self._opened)

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot, which must be there."""
        if self._current is None:
            raise NotReady(self.status()["words"])
        return self._current

    @property
    def is_ready(self) -> bool:
        """Whether there is a snapshot."""
        return self._current is not None

    @property
    def opening(self) -> str:
        """Say what there is to show at first."""
        if (space := self._opened) is None:
            return str(self.status()["words"])
        described = space.descriptions
        named = environment_names(space.collected.get("environment"), described.policies)
        return f"{n_policies(len(described))} in {named or 'an environment'}"

    def status(self) -> Answer:
        """Return what a line about the state of the page needs, as JSON.

        ``state`` is waiting (for ``checkpoints``), computing (for ``seconds``), ready or failed,
        and ``words`` describe it. The rest is that of the newest snapshot, also while another is
        computed; ``exact`` is whether its page has all distances.
        """
        current, computing = self._current, self._computing
        found = FirstCheckpoints.load(self.folder) if current is None else None
        seconds, failure = None, self._failure
        if computing is not None:
            state, (words, since) = "computing", computing
            seconds = round(time.monotonic() - since)
        elif found is not None:
            state, words = "waiting", found.words
        elif current is None or failure:
            state, words = "failed", failure or "There are no results, and none are being made."
        else:
            state, words = "ready", current.words
        return {
            "state": state,
            "words": printable(words),
            "seconds": seconds,
            "checkpoints": found and {"found": found.found, "needed": found.needed},
            "version": current.version if current else "",
            "policies": len(current.space.descriptions) if current else 0,
            "round": current.round if current else 0,
            "exact": bool(current and current.is_exact),
        }

    def waiting_page(self) -> bytes:
        """Return the page that is shown before there is a snapshot, as HTML."""
        status, notes = self.status(), []
        title = {"waiting": "Waiting for checkpoints", "computing": "Computing distances"}
        if found := status["checkpoints"]:
            if found["found"] < found["needed"]:
                notes.append(
                    f"pivec watch compares them when there are {found['needed']}; for fewer, use "
                    "--at-least."
                )
            if (checked := FirstCheckpoints.checked(self.folder)) is not None:
                clock = time.strftime("%H:%M:%S", time.localtime(checked))
                notes.append(f"It last checked for new ones at {clock}.")
        if status["state"] != "failed":
            notes.append("The report appears here by itself.")
        heading = title.get(status["state"], "Nothing to show")
        return encodable(report.waiting_html(heading, status["words"], notes)).encode()

    def refresh(self) -> None:
        """Take another snapshot if the files have changed, and not since the last look."""
        now = folder_versions(self.folder)
        stable, self._seen = now == self._seen, now
        if now == self._shown or not stable:
            return
        before = self._current
        try:
            if before is not None and self._shown is not None and now[0] == self._shown[0]:
                self._take(before.space, before.findings.measured)
            elif (space := self._opened if now == self._opened_at else self._load()) is not None:
                self._take(space)
            self._failure = ""
        except Exception as error:  # the page stays as it was, and the server continues
            reason = str(error) if isinstance(error, PivecError | OSError) else repr(error)
            unchanged = "; the page is unchanged" if before else ""
            self._failure = f"{self.folder} cannot be shown: {reason}{unchanged}"
            if reason not in self._reported:
                self._reported.add(reason)
                say(f"pivec: {self._failure}", error=True)
        self._computing, self._opened = None, None
        self._shown = now

    def _load(self) -> Space | None:
        """Load the space; None if it is incomplete, or `pivec watch` will make it."""
        try:
            space = Space.load(self.folder)
        except UsageError:
            if FirstCheckpoints.load(self.folder) is None:
                raise
            return None
        return space if _is_complete(space) else None

    def _take(self, space: Space, measured: Measured | None = None) -> None:
        before, n = self._current, len(space.descriptions)
        if measured is None:
            self._begin(space)
        if before is None and n > _MANY and not self._quiet:
            say(f"Computing the distances of {n_policies(n)}")
        self._current = Snapshot(self.folder, space, measured, before)
        if self._quiet:
            return
        if before is None:
            say(f"{n_policies(n)} shown. {self._current.words}")
        elif n != (n_before := len(before.space.descriptions)):
            say(f"{n_policies(n)} now, {n_before} before")

    def _begin(self, space: Space) -> None:
        """Note that distances are computed."""
        words = f"Computing the distances of {n_policies(len(space.descriptions))}"
        if self._current is not None:
            words += f"; until then, the page shows {len(self._current.space.descriptions)}"
        self._computing = words, time.monotonic()


def _is_complete(space: Space) -> bool:
    return space.positions is not None and not np.isnan(space.positions).any()


def folder_versions(folder: Path) -> FolderVersions:
    """Return versions of the files of a folder: of its space, and of what the page shows beside."""
    explained = islice(sorted(folder.glob(f"{FOLDER}/*/explain.json")), _EXPLAINED)
    known = (RUN, "regions.json", "unusual.json", f"{FOLDER}/explain.json")
    beside = (*(folder / name for name in known), *explained)
    spaces = folder / report.SPACE / "space.npz", folder / "space.npz"

    def version(file: Path) -> FileVersion:
        try:
            known = os.stat(file)
        except OSError:
            return None
        return known.st_mtime_ns, known.st_size, known.st_ino

    return tuple(map(version, spaces)), tuple(map(version, beside))


def read_media(folder: Path, name: str) -> tuple[bytes, str] | None:
    """Read a picture or page of the folder by its name, with its media type; None if it is none.

    Links are followed only within the folder.
    """
    kind = "text/html" if report.is_page(name) else MEDIA_TYPES.get(PurePath(name).suffix.lower())
    if kind is None or "\0" in name or name.startswith(("/", "\\")) or ".." in PurePath(name).parts:
        return None
    root = os.path.realpath(folder)
    file = PurePath(os.path.realpath(os.path.join(root, name)))
    if not file.is_relative_to(root) or file.suffix.lower() != PurePath(name).suffix.lower():
        return None
    try:
        return read_regular(file, _MAX_FILE), kind
    except Exception:  # gone, a folder, no picture, too long a name: all the same to the client
        return None


class WorkerThread:
    """Calls functions one after another in a thread of its own.

    Python waits at its end for the threads of an executor, but not for this one.
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
    """The pair, or a policy and its episode, to make clips of, and how episodes are replayed."""

    folder: Path
    wanted: PairExplanation | tuple[str, int]
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

    def submit(self, key: Any, request: ClipRequest) -> Answer:
        """Have clips made, unless they exist or are on their way; what failed is tried again."""
        with self._lock:
            known = self._answers.get(key)
            if known is None or known["state"] == "failed":
                self._waiting[key] = request
                self._set(key, _clip_answer("working", "waiting to replay episodes"))
                if len(self._waiting) > _WAITING:
                    oldest, _ = self._waiting.popitem(last=False)
                    words = "other clips were requested since: request them again"
                    self._set(oldest, _clip_answer("failed", words))
                self._worker.submit(self._make_next)
            return self._answers[key]

    def answer(self, key: Any) -> Answer | None:
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

        def hear(_: ClipRequest, message: int | Answer) -> None:
            """Hear the number of the process, then how far it is."""
            with self._lock:
                if self._stopped:
                    raise PivecError("the server has stopped")
                if isinstance(message, int):
                    self._process = message
                else:
                    self._set(key, message)

        try:
            (reply,) = current().map(
                make_clips, [request], on_message=hear, name=lambda _: "the clip", apart=True
            )
            answer = reply.content
            if reply.failure is not None:
                answer = _clip_answer("failed", str(reply.failure))
        except Exception as error:  # the next one may succeed
            answer = _clip_answer("failed", f"{type(error).__name__}: {error}")
        with self._lock:
            self._process = 0
            self._set(key, answer)


def make_clips(request: ClipRequest, tell: Tell) -> Answer:
    """Replay and draw episodes, in the process that was started for it.

    Pictures are kept below the folder, under names that identify their content: all pairs share
    them. What is told meanwhile has the share that is done, and the first frames of clips.
    """
    tell(os.getpid())
    folder, wanted, chosen = request.folder, request.wanted, request.replaying
    labels = wanted.labels if isinstance(wanted, PairExplanation) else wanted[:1]
    space = Space.load(folder)
    comparison = ComparisonFolder(folder, space, stored_states(folder, space, labels))
    media = folder / FOLDER / MEDIA
    if not media.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{media} is a link to a place outside {folder}: remove it")
    replayer = explanations.Replayer(comparison, chosen)
    begun: list[Answer] = []

    def on_drawn(plan: ClipPlan | None, drawn: Drawn) -> None:
        if plan is not None and drawn.first:
            begun.append(_begun_clip(plan, drawn.first))
        words = f"drawing, {percent(drawn.share)} done"
        answer = _clip_answer("working", words) | {"share": drawn.share, "clips": begun}
        tell(printable_texts(answer), seldom=not drawn.first)

    frames: Sequence[Frame] = ()
    if isinstance(wanted, PairExplanation):
        # What could not be explained is said beside the numbers, not here.
        explained = replace(wanted, notes=())
        with using(chosen.engine, chosen.jobs):
            made = explanations.with_media(
                explained, comparison, replayer, media, n_clips=_CLIPS, on_drawn=on_drawn
            )
        frames, clips, notes = made.frames, made.clips, made.notes
    else:
        with using("serial"):  # another process for a single clip would only have to start
            plan = explanations.plan_episode(comparison, replayer, *wanted)
            clips = explanations.make_clips([plan], replayer, media / "clips", on_drawn=on_drawn)
        notes = tuple(clip.reason for clip in clips if clip.reason)

    def address(path: Path) -> str:
        return f"{MEDIA}/{quote(path.relative_to(folder).as_posix())}"

    shown = [
        {"src": address(clip.path)} | report.clip_data(asdict(clip), address)
        for clip in clips
        if clip.path is not None
    ]
    pictures = [
        {"src": address(frame.path), "region": frame.visit.region, "policy": frame.visit.policy}
        for frame in frames
        if frame.path is not None
    ]
    more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
    answer = _clip_answer(
        "done" if shown or pictures else "failed", f"{notes[0]}{more}" if notes else ""
    )
    return answer | {"clips": shown, "frames": printable_texts(pictures)}


def _begun_clip(plan: ClipPlan, first: Sequence[FirstFrame]) -> Answer:
    """Return a clip of nothing but its first frames, which the answer contains."""
    sheets, addresses = [], {}
    for number, (segment, frame) in enumerate(zip(plan.segments, first, strict=True)):
        start = replace(segment, last=segment.first, captions=segment.captions[:1], is_end=False)
        path = Path(str(number))
        sheets.append(Sheet.of(start, path, 1, 1, frame.width, frame.height))
        addresses[path] = f"data:image/webp;base64,{b64encode(frame.content).decode('ascii')}"
    clip = Clip(plan.title, plan.caption, fps=1.0, sheets=tuple(sheets))
    return report.clip_data(asdict(clip), addresses.get)


def _clip_answer(state: str, words: str) -> Answer:
    return {"state": state, "words": printable(words), "share": 0.0, "clips": [], "frames": []}


@dataclass(frozen=True)
class Handlers:
    """Answers requests about a comparison; slow work is left to the worker and the clip maker."""

    latest: LatestSnapshot
    replaying: ReplayOptions
    clip_maker: ClipMaker = field(default_factory=ClipMaker)
    worker: WorkerThread = field(default_factory=WorkerThread)
    interval: float = _INTERVAL

    def application(self) -> Starlette:
        """Make the application; a mistake is answered by a sentence."""

        def sentence(_: Request, error: Exception) -> Response:
            status = getattr(error, "status", 400)
            return JSONResponse({"error": printable(str(error))}, status)

        routes = [
            Route("/", self._page),
            Route(f"/{report.REPORT}", self._page),
            Route("/version", self._version),
            Route("/data", self._data),
            Route("/pair", self._pair),
            Route("/run", self._run),
            Route("/clips", self._clips, methods=["GET", "POST"]),
            Route(f"/{MEDIA}/{{name:path}}", self._media),
            Route("/{name:path}", self._media),
        ]
        app = Starlette(
            routes=routes, exception_handlers={PivecError: sentence}, lifespan=self._lifespan
        )
        app.router.redirect_slashes = False  # it would name addresses without the token
        return app

    async def _page(self, _: Request) -> Response:
        """Return the page, whose version is its ETag, or one that waits for it."""
        if not self.latest.is_ready:
            with contextlib.suppress(TimeoutError):  # few policies are measured in a moment
                await asyncio.wait_for(self.worker.call(bool), _BRIEF)
        if not self.latest.is_ready:
            waiting = self.latest.waiting_page()
            return Response(waiting, media_type="text/html", headers=WAITING_HEADERS)
        snapshot = self.latest.snapshot
        page = vars(snapshot).get("page") or await self.worker.call(lambda: snapshot.page)
        tag = {"ETag": f'"{snapshot.version}"'}
        return Response(page, media_type="text/html", headers=tag)

    async def _version(self, _: Request) -> Response:
        return JSONResponse(self.latest.status())

    async def _data(self, _: Request) -> Response:
        return Response(self.latest.snapshot.data, media_type="application/json")

    async def _pair(self, request: Request) -> Response:
        """Return all that is known of two policies."""
        snapshot, rows = self._asked(request)
        answer = await self.worker.call(snapshot.pair, *rows)
        return Response(answer, media_type="application/json")

    async def _run(self, request: Request) -> Response:
        """Return what changed along a run."""
        [group] = _parameters(request, "run")
        answer = await self.worker.call(self.latest.snapshot.run, group)
        return Response(answer, media_type="application/json")

    async def _clips(self, request: Request) -> Response:
        """Return the state of the clips of two policies, or of an episode; POST has them made."""
        key: tuple[Any, ...]
        wanted: PairExplanation | tuple[str, int]
        of_episode = "episode" in request.query_params
        if of_episode:
            snapshot = self.latest.snapshot
            label, episode = _parameters(request, "policy", "episode")
            row, number = snapshot.episode(label, episode)
            key, wanted = (*snapshot.identities(row), number), (label, number)
        else:
            snapshot, rows = self._asked(request)
            key = snapshot.identities(*rows)
        answer = self.clip_maker.answer(key)
        if request.method == "POST" and (answer is None or answer["state"] == "failed"):
            if not of_episode:
                wanted = await self.worker.call(snapshot.explanation, *rows)
            made = ClipRequest(self.latest.folder, wanted, self.replaying)
            answer = self.clip_maker.submit(key, made)
        if answer is None:
            raise NotFound("these clips do not exist (any more): request them again")
        return JSONResponse(answer)

    def _media(self, request: Request) -> Response:
        """Return a picture, or a page beside the report."""
        found = read_media(self.latest.folder, request.path_params["name"])
        if found is None:
            return Response(status_code=404)
        headers = PAGE_HEADERS if found[1] == "text/html" else None
        return Response(found[0], media_type=found[1], headers=headers)

    def _asked(self, request: Request) -> tuple[Snapshot, Pair]:
        """Find the two policies that are asked about."""
        snapshot = self.latest.snapshot
        return snapshot, snapshot.rows(*_parameters(request, "a", "b"))

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Look at the folder from time to time; in the end leave nothing running."""

        async def watch() -> None:
            while True:
                await asyncio.sleep(self.interval)
                await self.worker.call(self.latest.refresh)

        self.worker.submit(self.latest.refresh)  # before anything that is asked
        task = asyncio.create_task(watch())
        try:
            yield
        finally:
            task.cancel()
            self.clip_maker.stop()


def _parameters(request: Request, *names: str) -> list[str]:
    """Return parameters of a request, each of which must be there once."""
    values = []
    for name in names:
        given = request.query_params.getlist(name)
        if len(given) != 1:
            expected = " and ".join(f"{one}=" for one in names)
            raise UsageError(
                f"expected {expected} once each, but {name}= is there {len(given)} times"
            )
        values.append(given[0])
    return values


# ---- a socket of this computer alone, and an address with a token ----


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


class BoundedProtocol(H11Protocol):
    """HTTP whose clients have a limited time to complete the head of a request.

    Without a limit, anyone on this computer could occupy all connections, with or without the
    token. Too many that wait close the oldest of them, so that complete requests are answered.
    """

    waiting_since = 0.0
    _timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        others = (one for one in self.connections if isinstance(one, BoundedProtocol))
        waiting = [one for one in others if one.is_waiting]
        if len(waiting) > _MAX_WAITING:
            min(waiting, key=attrgetter("waiting_since"))._give_up()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def _wait(self) -> None:
        """Begin to wait for a request; uvicorn's own timer ends with its first byte."""
        if self._timer is not None:
            self._timer.cancel()
        self.waiting_since = self.loop.time()
        # A request that begins at the end of the time for idle connections has as long again.
        self._timer = self.loop.call_later(2 * self.timeout_keep_alive, self._give_up)

    def _give_up(self) -> None:
        if self.is_waiting:
            self.connections.discard(self)  # which are counted before it is closed
            self.timeout_keep_alive_handler()


def make_server(
    handlers: Handlers, listener: socket.socket, idle: int = _IDLE
) -> tuple[uvicorn.Server, str]:
    """Make the server of a socket, and return the address of the page there.

    Connections are closed after ``idle`` seconds without a request, and incomplete requests after
    twice that.
    """
    host, port = listener.getsockname()
    token = secrets.token_urlsafe(16)
    config = uvicorn.Config(
        Guard(handlers.application(), token, [f"{host}:{port}", f"localhost:{port}"]),
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_keep_alive=idle,
        h11_max_incomplete_event_size=_MAX_HEAD,
        timeout_graceful_shutdown=1,  # second that requests have to end after Ctrl-C
    )
    return uvicorn.Server(config), f"http://{host}:{port}/{token}/"


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
                given = list(message.get("headers", ()))
                fixed = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                own = {name for name, _ in given}
                message["headers"] = given + [pair for pair in fixed if pair[0] not in own]
            await send(message)

        async def refuse(status: int, headers: dict[str, str]) -> None:
            # What may still come on this connection is not read.
            await Response(status_code=status, headers=headers | {"connection": "close"})(
                scope, receive, answer
            )

        status, path = self._check(scope)
        if status != 200:
            await refuse(status, {"location": f"{path}/"} if status == 307 else {})
            return
        try:
            await self._app({**scope, "path": path, "root_path": ""}, receive, answer)
        except Exception as error:  # a defect: the server goes on
            say(f"pivec: unexpected {type(error).__name__}: {error}", error=True)
            if not started:
                await refuse(500, {})

    def _check(self, scope: Scope) -> tuple[int, str]:
        """Return the status of an answer, and the path behind the token."""
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
