# mypy: ignore-errors
# Goes when its last callers use pivec.engines.engine.
"""Work in processes of its own: a function is called there with an item, and tells how it goes.

A process leaves Ctrl-C to its parent, and ends with it: its standard input, which the parent holds
open, is closed then. What is printed in it goes to its standard error.
"""

from __future__ import annotations

import contextlib
import pickle
import queue
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pivec.engines import old_child as child
from pivec.engines.engine import WorkFailed as ProcessFailed
from pivec.engines.old_child import Work
from pivec.engines.pieces import failure_of
from pivec.engines.processes import _script, _Worker, _write, shares_of_cores, start
from pivec.errors import PivecError, UsageError
from pivec.notices import Notice, warn_again


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
        self._thread.join(2 * 5.0)

    def _listen(self) -> None:
        _write(self.process, self.request)
        finished = False
        while not finished:
            try:
                content, finished, failure, notices = pickle.load(self.process.stdout)  # type: ignore[arg-type]  # noqa: S301
                error = None if failure is None else failure_of(*failure)
            except Exception:  # its end, or half a message
                content, finished, notices = None, True, []
                error = _Worker._died(self, self._wait())
            self.replies.put((self, Reply(self.number, content, finished, error), notices))
            self.go_on.acquire()
        self._wait()
        with contextlib.suppress(OSError), self.errors or contextlib.nullcontext(), self.process:
            pass  # all files are closed

    def _wait(self) -> int:
        try:
            return self.process.wait(5.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


__all__ = ["ProcessFailed", "map_processes"]


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
