"""Reading untrusted files in a child process that is limited in memory, time and files.

HDF5, Arrow, TensorStore and onnxruntime unpack what a file declares, follow its links, and may
crash. So they run in a separate process: if a file exceeds the limits or crashes the process, that
is an error of this file, and the next one gets a new process. One child serves all files of a
process. Memory is limited on Linux only, and on Windows everything runs in this process.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivec.errors import BadPolicyFile
from pivec.files import FACTOR, MOST, Budget
from pivec.parallel.engine import Task, Tell, WorkFailed
from pivec.terminal import raise_again

_LIBRARIES = 1 << 28  # bytes that libraries take to read anything at all
_SECONDS, _SPEED = 10, 1 << 26  # processor time, and bytes unpacked per additional second
_WAITING = 10  # elapsed time may be this much longer, since other processes run too
# Arrow's own allocator reserves more than it uses; filters of HDF5 in other files are code;
# onnxruntime would keep a database of its use in the user's home.
_VARIABLES = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "HDF5_PLUGIN_PRELOAD": "::",
    "ORT_DISABLE_TELEMETRY": "1",
}


def call(
    work: Callable[[Any], Any],
    item: Any,
    size: int,
    most: int = MOST,
    *,
    seconds: int | None = None,
) -> Any:
    """Return ``work(item)``, called in the child process.

    Parameters
    ----------
    work : callable
        A module-level function; what it keeps for later calls stays in the process.
    item : object
        Its argument.
    size, most : int
        Size of the file, and the most memory if it is large; see `pivec.files.Budget`.
    seconds : int, optional
        Processor time, by default in proportion to the memory.

    Raises
    ------
    BadPolicyFile
        If the limits are exceeded or the process ends; a clause about "it".
    """
    budget = Budget(size, "it", most)
    base, more = (seconds, 0) if seconds else (_SECONDS, budget.total // _SPEED)
    seconds = budget.factor * base + more
    limited = _Limited(work, budget.total + _LIBRARIES, seconds, os.getcwd())
    return _child(os.getpid()).call(limited, item)


def start(module: str) -> None:
    """Start the child process and import a module there, so that it is ready when needed."""
    if os.name == "posix":
        _child(os.getpid()).start(module)


@functools.cache
def _child(_process: int) -> _Child:  # a fork has its own
    return _Child()


class _Child:
    """The process, and the one request that it works on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: Any = None

    def start(self, module: str) -> None:
        from pivec.parallel.processes import Worker

        with self._lock:
            if self._worker is None:
                self._worker = Worker(Task(_import, threads=1), None, [])
                self._worker.send(pickle.dumps((_import, module)))
                self._is_new = True

    def call(self, limited: _Limited, item: Any) -> Any:
        if os.name != "posix":
            return limited.work(item)
        self.start(limited.work.__module__)
        with self._lock:
            try:
                self._worker.send(pickle.dumps((limited, item)))
                if self._is_new:
                    self._worker.receive()
                self._is_new = False
                message = self._worker.receive()
            except BaseException:  # Ctrl-C: a late answer must not be taken for the next one
                self._end(now=True)
                raise
            if message is None:
                raise BadPolicyFile(f"it {limited.reason(self._end(now=False))}")
        raise_again(message.notices)
        if message.failure is not None:
            error = message.failure.error()
            if isinstance(error, WorkFailed):
                what = f"cannot be read ({str(error)[:300]}): it is damaged or not supported"
                raise BadPolicyFile(f"it {what}") from error
            raise error
        return message.content

    def _end(self, now: bool) -> int:
        worker, self._worker = self._worker, None
        worker.end(now)
        return int(worker.code)


@dataclass(frozen=True)
class _Limited:
    """Work with limits, as it is sent to the process."""

    work: Callable[[Any], Any]
    memory: int
    seconds: int
    folder: str  # the working directory, which paths may be relative to

    def __call__(self, item: Any, _: Tell) -> Any:
        import resource

        os.chdir(self.folder)
        used = resource.getrusage(resource.RUSAGE_SELF)
        processor = int(used.ru_utime + used.ru_stime) + 1 + self.seconds
        limits = {resource.RLIMIT_CPU: processor, resource.RLIMIT_CORE: 0}
        with contextlib.suppress(OSError):  # not Linux
            pages = int(Path("/proc/self/statm").read_text().split()[5])
            limits[resource.RLIMIT_DATA] = pages * resource.getpagesize() + self.memory
        signal.alarm(_WAITING * self.seconds)
        try:
            with contextlib.ExitStack() as stack:
                for kind, limit in limits.items():
                    stack.enter_context(_limited(kind, limit))
                return self.work(item)
        except MemoryError as error:
            raise BadPolicyFile(f"it {self.reason(-signal.SIGKILL)}") from error
        finally:
            signal.alarm(0)

    def reason(self, code: int) -> str:
        """Return why the process ended, given its exit code."""
        memory = f"needs more than {self.memory >> 20} MB of memory"
        trusted = f"out of proportion to its size: if you trust it, set {FACTOR}=10"
        if code == -signal.SIGKILL:
            return f"{memory}, {trusted}"
        if code == -signal.SIGXCPU:
            return f"takes more than {self.seconds} s of processor time, {trusted}"
        if code == -signal.SIGALRM:
            return f"takes more than {_WAITING * self.seconds} s, {trusted}"
        how = f"signal {-code}" if code < 0 else f"code {code}"
        return f"is damaged, or {memory}: the library that reads it crashed ({how})"


@contextlib.contextmanager
def _limited(kind: int, limit: int) -> Iterator[None]:
    import resource

    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (limit if hard < 0 else min(limit, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (hard, hard))


@contextlib.contextmanager
def opening(files: int) -> Iterator[None]:
    """Limit the number of files that this process can open in addition to those already open.

    A file may ask a library to open others: external links, storage or tensors.
    """
    if os.name != "posix":
        yield
        return
    import resource

    free = os.dup(0)
    os.close(free)
    with _limited(resource.RLIMIT_NOFILE, free + files):
        yield


def _import(module: str, _: Tell) -> None:
    os.environ |= _VARIABLES
    importlib.import_module(module)
