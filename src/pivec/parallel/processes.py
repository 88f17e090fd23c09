"""The engine of processes: work on these cores, in processes that end with this one.

A process leaves Ctrl-C to its parent, and ends with it: its standard input, which the parent holds
open, is closed then. What is printed in it goes to its standard error.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from pivec.errors import PivecError, UsageError
from pivec.parallel.engine import Engine, Reply, Task, Work, WorkFailed
from pivec.parallel.pieces import Failure, Piece, Pieces, Teller, failure_of, in_words, refuse_parts
from pivec.parallel.workers import THREAD_VARIABLES
from pivec.terminal import Notice, Notices, warn_again

# -----------------------------------------------------------------------------
# What happens in a process that `pivec.parallel.processes` started: item after item.


reading_script = threading.Event()  # while what the parent's script defines is read
_script_read: list[tuple[str, str]] = []

Request = tuple[tuple[str, str] | None, bytes]  # the script that is needed; function and item


def work(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Call functions that the parent sends with their items, and reply what comes of it."""
    logged = pickle.load(requests)  # noqa: S301  (our parent's)
    waiting = _Waiting(requests)
    with (
        contextlib.suppress(BrokenPipeError),
        Notices(_log if logged else lambda _: None) as notices,
    ):
        parent = _Parent(replies, notices, logged)
        while (request := waiting.requests.get()) is not None:
            _answer(parent, *request)
            waiting.answered += 1


def _answer(parent: _Parent, script: tuple[str, str] | None, content: bytes) -> None:
    try:
        if script is not None and script not in _script_read:
            _read_script(*script)
        function, item = pickle.loads(content)  # noqa: S301  (our parent's)
        parent.send(function(item, Teller(parent.send)), finished=True)
    except BrokenPipeError:
        raise  # it is gone
    except Exception as error:
        failure = in_words(error)
        if parent.logged and not isinstance(error, PivecError):
            print(failure[-1], file=sys.stderr)  # noqa: T201
        parent.send(None, finished=True, failure=failure)


class _Parent:
    """Takes replies: content, whether it is the last, a failure, and what was warned of."""

    def __init__(self, replies: IO[bytes], notices: Notices, logged: bool) -> None:
        self._replies, self._notices, self.logged = replies, notices, logged

    def send(self, content: Any, finished: bool = False, failure: Failure | None = None) -> None:
        notices = [row for row in self._notices.take() if row.own or not self.logged]
        pickle.dump((content, finished, failure, notices), self._replies)
        self._replies.flush()


class _Waiting:
    """Requests, read by a thread: when the parent, which holds the pipe open, is gone, all ends."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self.answered = 0
        threading.Thread(target=self._read, args=(pipe,), daemon=True).start()

    def _read(self, pipe: IO[bytes]) -> None:
        received = 0
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                self.requests.put(pickle.load(pipe))  # noqa: S301  (our parent's)
                received += 1
        if received != self.answered:
            os._exit(1)
        self.requests.put(None)


def _read_script(module: str, file: str) -> None:
    """Make known what the parent's script defines, under another name, as multiprocessing does."""
    reading_script.set()
    name = "__mp_main__"
    script = types.ModuleType(name)
    script.__dict__.update(
        runpy.run_module(module, run_name=name, alter_sys=True)
        if module
        else runpy.run_path(file, run_name=name)
    )
    sys.modules["__main__"] = sys.modules[name] = script
    _script_read.append((module, file))
    reading_script.clear()


def _log(notice: Notice) -> None:
    print(f"{notice.kind}: {notice.text}", file=sys.stderr)  # noqa: T201


_PATIENCE = 5.0  # seconds for a process to end after its last reply

# The cores to stay on come before all imports: libraries count them when they are loaded. What
# anybody prints does not mix with the replies.
_CODE = """
import importlib, os, pickle, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
path, cores, module, function = pickle.load(sys.stdin.buffer)
sys.path[:] = path
if cores:
    os.sched_setaffinity(0, cores)
replies = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
getattr(importlib.import_module(module), function)(sys.stdin.buffer, replies)
"""


class Processes(Engine):
    """Works on so many items at a time, in processes on these cores.

    A process takes item after item, unless each needs one of its own.
    """

    def __init__(self, jobs: int) -> None:
        self.n_workers = jobs

    def _map(self, task: Task, items: Iterable[Any]) -> Iterator[Reply]:
        pieces, replies = Pieces(task, items), Replies()
        free = deque(shares_of_cores(self.n_workers) if task.pinned else [[]] * self.n_workers)
        idle, busy = list[_Worker](), set[_Worker]()
        try:
            while True:
                while (idle or free) and (piece := pieces.take()) is not None:
                    try:
                        request = _pickled(task, piece.item)
                    except UsageError as error:
                        yield Reply(piece.item, failure=error)
                        continue
                    worker = idle.pop() if idle else _Worker(task, piece, free.popleft(), replies)
                    busy.add(worker)
                    worker.give(piece, request)
                if not busy:
                    return
                worker, answer = replies.get()
                warn_again(answer.notices)
                if not answer.finished:
                    task.on_message(worker.piece.item, answer.content)
                    worker.go_on.release()
                    continue
                busy.discard(worker)
                if answer.died or task.apart:
                    worker.end(kill=answer.died)
                    free.append(worker.cores)
                else:
                    worker.go_on.release()
                    idle.append(worker)
                reply: Reply | None = Reply(worker.piece.item, answer.content, answer.failure)
                if isinstance(answer.failure, WorkFailed) and answer.died:
                    reply = pieces.lost(worker.piece, answer.failure)
                if reply is not None:
                    yield reply
        finally:
            for worker in (*busy, *idle):
                worker.end()


def ask(function: Work, item: Any, *, failed: str, threads: int | None = None) -> Any:
    """Return what ``function(item, tell)`` gives in a process of its own.

    Where it gives nothing, an error says ``failed``, and why.
    """
    [reply] = Processes(1).map(function, [item], threads=threads)
    if reply.failure is not None:
        raise PivecError(f"{failed}: {reply.failure}") from reply.failure
    return reply.content


def start(
    entry: Callable[[IO[bytes], IO[bytes]], None],
    *,
    cores: Sequence[int] = (),
    threads: int | None = None,
    errors: Any = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    """Start a process that calls ``entry(requests, replies)``, the pipes from and to this one."""
    if reading_script.is_set():
        raise PivecError(
            "the script starts processes while another process reads what it defines: call pivec "
            'below `if __name__ == "__main__":`'
        )
    variables = {} if threads is None else dict.fromkeys(THREAD_VARIABLES, str(threads))
    process = subprocess.Popen(  # noqa: S603  (this Python, and the lines above)
        [sys.executable, "-c", _CODE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, **variables},
    )
    path = [*sys.path, os.getcwd()]  # where modules of the user's policies may be
    _write(process, pickle.dumps((path, list(cores), entry.__module__, entry.__name__)))
    return process


def shares_of_cores(jobs: int) -> list[list[int]]:
    """Share the cores of this process among jobs; empty shares leave a job all of them.

    Examples
    --------
    >>> shares_of_cores(1)
    [[]]
    """
    if jobs == 1 or not hasattr(os, "sched_getaffinity"):
        return [[] for _ in range(jobs)]
    cores = sorted(os.sched_getaffinity(0))
    return [[cores[i % len(cores)], *cores[i + jobs :: jobs]] for i in range(jobs)]


@dataclass(frozen=True)
class Answer:
    """What came from a process: a message, or the end of its item, or its own end."""

    content: Any = None
    finished: bool = True
    failure: PivecError | None = None
    notices: list[Notice] = field(default_factory=list)
    died: bool = False


Replies = queue.SimpleQueue["tuple[_Worker, Answer]"]


class _Worker:
    """A process at work on items, and the thread that listens to it, a message at a time."""

    def __init__(self, task: Task, piece: Piece, cores: list[int], replies: Replies) -> None:
        self.piece, self.cores, self._replies = piece, cores, replies
        self.errors: IO[bytes] | None = None
        if task.log is not None:
            self.errors = task.log(piece.item).open("ab")
        elif task.quiet:
            self.errors = tempfile.TemporaryFile()  # noqa: SIM115  (its thread closes it)
        self.process = start(work, cores=cores, threads=task.threads, errors=self.errors)
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._first = pickle.dumps(task.log is not None)
        self.go_on = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def give(self, piece: Piece, request: bytes) -> None:
        """Let it work on a piece."""
        self.piece = piece
        self._requests.put(request)

    def end(self, kill: bool = True) -> None:
        """Wait for the end of the process, and of its thread."""
        if kill:
            self.process.kill()
        self._requests.put(None)
        self.go_on.release()
        self._thread.join(2 * _PATIENCE)

    def _listen(self) -> None:
        _write(self.process, self._first)
        alive = True
        while alive and (request := self._requests.get()) is not None:
            _write(self.process, request)
            finished = False
            while not finished:
                answer = self._answer()
                alive, finished = not answer.died, answer.finished
                self._replies.put((self, answer))
                self.go_on.acquire()
        with contextlib.suppress(OSError), self.errors or contextlib.nullcontext():
            if self.process.stdin is not None:
                self.process.stdin.close()
        self._wait()
        with contextlib.suppress(OSError), self.process:
            pass  # all files are closed

    def _answer(self) -> Answer:
        try:
            content, finished, failure, notices = pickle.load(self.process.stdout)  # type: ignore[arg-type]  # noqa: S301
            error = None if failure is None else failure_of(*failure)
            return Answer(content, finished, error, notices)
        except Exception:  # its end, or half a message
            return Answer(failure=self._died(self._wait()), died=True)

    def _wait(self) -> int:
        try:
            return self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def _died(self, code: int) -> WorkFailed:
        log = getattr(self.errors, "name", None)
        how = f"ended with code {code}"
        if code == -getattr(signal, "SIGKILL", 9):
            how = "was killed, most likely because memory ran out"
        elif code < 0:
            how = f"was ended by signal {-code}"
        elif isinstance(log, str):
            how += f", see {log}"
        elif self.errors is not None:
            self.errors.seek(0)
            last = self.errors.read().decode(errors="replace").strip().splitlines()[-1:]
            how += f" ({last[0]})" if last else ""
        failure = WorkFailed(f"its process {how}")
        failure.code = code
        return failure


def _write(process: subprocess.Popen[bytes], request: bytes) -> None:
    """Send a request; that the process is dead is seen when a reply is read."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.write(request)
            process.stdin.flush()


def _pickled(task: Task, item: Any) -> bytes:
    """Pack what a process needs; whatever cannot travel is named."""
    try:
        content = pickle.dumps((task.work, item))
    except Exception:
        refuse_parts(task, item)
        raise
    script = _script(task.remedy) if b"__main__" in content else None
    return pickle.dumps((script, content))


def _script(remedy: str) -> tuple[str, str]:
    """Name the script that runs, as a module and a file: something in it is needed."""
    main = sys.modules["__main__"]
    module = getattr(getattr(main, "__spec__", None), "name", "")
    file = getattr(main, "__file__", "")
    if not module and not os.path.isfile(file):
        raise UsageError(
            "what is defined in a session cannot be sent to another process: define it at the top "
            f"level of a module{remedy}"
        )
    return module, os.path.abspath(file)
