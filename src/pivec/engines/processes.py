"""Work in processes of its own: a function is called there with an item, and tells how it goes.

A process leaves Ctrl-C to its parent, and ends with it: its standard input, which the parent holds
open, is closed then. What is printed in it goes to its standard error.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pivec.errors
from pivec.engines import child
from pivec.engines.child import Work
from pivec.errors import PivecError, UsageError
from pivec.notices import Notice, warn_again

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
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


class ProcessFailed(PivecError):
    """A process died, with ``code``, or its function raised something else than a `PivecError`."""

    code: int | None = None


@dataclass(frozen=True)
class Reply:
    """What came of an item: a message on the way, in the end what was returned, or a failure."""

    number: int
    content: Any = None
    finished: bool = False
    failure: PivecError | None = None


def map_processes(
    function: Work,
    items: Iterable[Any],
    *,
    jobs: int = 1,
    parts: Callable[[Any], Iterable[tuple[str, Any]]] = lambda _: (),
    remedy: str = "",
    pinned: bool = False,
    threads: int | None = None,
    quiet: bool = True,
    log: Callable[[Any], Path] | None = None,
) -> Iterator[Reply]:
    """Call ``function(item, tell)`` in a process of its own for each item; replies as they come.

    Items are taken when a process may start. A failure is the reply of its item and does not stop
    the others; what is warned of there is warned of here. Closing the iterator ends the processes.

    ``parts`` names what an item holds, for the error about one that cannot be pickled, and
    ``remedy`` what that error advises. ``pinned`` keeps each job on its share of the cores,
    ``threads`` bounds those of numerical libraries. Standard error is kept for its last line,
    unless it is not ``quiet`` or goes to a file by ``log(item)``, as other packages' warnings do.
    """
    replies: queue.SimpleQueue[tuple[_Child, Reply, list[Notice]]] = queue.SimpleQueue()
    waiting, running = enumerate(items), set[_Child]()
    free = deque(shares_of_cores(jobs) if pinned else [[]] * jobs)
    try:
        while True:
            for number, item in waiting if free else ():
                try:
                    request = _pickled(function, item, parts, remedy, log is not None)
                except UsageError as error:
                    yield Reply(number, finished=True, failure=error)
                    continue
                errors: IO[bytes] | None = None
                if log is not None:
                    errors = log(item).open("ab")
                elif quiet:
                    errors = tempfile.TemporaryFile()  # noqa: SIM115  (its thread closes it)
                cores = free.popleft()
                process = start(child.work, cores=cores, threads=threads, errors=errors)
                running.add(_Child(number, process, cores, errors, request, replies))
                if not free:
                    break
            if not running:
                return
            source, reply, notices = replies.get()
            warn_again(notices)
            if reply.finished:
                source.end(kill=False)
                running.discard(source)
                free.append(source.cores)
            yield reply
            source.go_on.release()
    finally:
        for source in running:
            source.end()


def ask(function: Work, item: Any, *, failed: str, threads: int | None = None) -> Any:
    """Return what ``function(item, tell)`` gives in a process of its own.

    Where it gives nothing, an error says ``failed``, and why.
    """
    *_, reply = map_processes(function, [item], threads=threads)
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
    if child.reading_script.is_set():
        raise PivecError(
            "the script starts processes while another process reads what it defines: call pivec "
            'below `if __name__ == "__main__":`'
        )
    variables = {} if threads is None else dict.fromkeys(_THREADS, str(threads))
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


@dataclass(eq=False)
class _Child:
    """A process at work on an item, and the thread that listens to it, a message at a time."""

    number: int
    process: subprocess.Popen[bytes]
    cores: list[int]
    errors: IO[bytes] | None
    request: bytes
    replies: queue.SimpleQueue[tuple[_Child, Reply, list[Notice]]]

    def __post_init__(self) -> None:
        self.go_on = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def end(self, kill: bool = True) -> None:
        """Wait for the end of the process, and of its thread."""
        if kill:
            self.process.kill()
        self.go_on.release()
        self._thread.join(2 * _PATIENCE)

    def _listen(self) -> None:
        _write(self.process, self.request)
        finished = False
        while not finished:
            try:
                content, finished, failure, notices = pickle.load(self.process.stdout)  # type: ignore[arg-type]  # noqa: S301
                error = None if failure is None else _failure(*failure)
            except Exception:  # its end, or half a message
                content, finished, notices = None, True, []
                error = self._died(self._wait())
            self.replies.put((self, Reply(self.number, content, finished, error), notices))
            self.go_on.acquire()
        self._wait()
        with contextlib.suppress(OSError), self.errors or contextlib.nullcontext(), self.process:
            pass  # all files are closed

    def _wait(self) -> int:
        try:
            return self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def _died(self, code: int) -> ProcessFailed:
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
        failure = ProcessFailed(f"its process {how}")
        failure.code = code
        return failure


def _write(process: subprocess.Popen[bytes], request: bytes) -> None:
    """Send a request; that the process is dead is seen when a reply is read."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.write(request)
            process.stdin.flush()


def _failure(kind: str, message: str, trace: str) -> PivecError:
    """Make the error of a process again, of the same kind."""
    known = getattr(pivec.errors, kind, None)
    if isinstance(known, type) and issubclass(known, PivecError):
        failure: PivecError = known.__new__(known, message)  # the message is whole already
    else:
        failure = ProcessFailed(f"{kind}: {' '.join(message.split())}" if message else kind)
    failure.__cause__ = RuntimeError(f"in another process:\n{trace}")
    return failure


def _pickled(
    function: Work,
    item: Any,
    parts: Callable[[Any], Iterable[tuple[str, Any]]],
    remedy: str,
    logged: bool,
) -> bytes:
    """Pack what a process needs; whatever cannot travel is named."""
    try:
        request = pickle.dumps((function, item))
    except Exception:
        for name, part in parts(item):
            try:
                pickle.dumps(part)
            except Exception as error:
                raise UsageError(
                    f"{name} cannot be sent to another process ({error}): define it at the top "
                    f"level of a module{remedy}"
                ) from error
        raise
    script = _script(remedy) if b"__main__" in request else None
    return pickle.dumps((script, logged)) + request


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
