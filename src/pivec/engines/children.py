"""Processes that end with their parent: started under a lock, killed when nobody waits for them."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Self

from pivec.errors import PivecError

# The parent's way to find modules comes first, then the cores to stay on (libraries count them
# when they are loaded); the entry then reads its own request.
_CHILD = """
import importlib, os, pickle, sys
path, cores = pickle.load(sys.stdin.buffer)
sys.path[:] = path
if cores:
    os.sched_setaffinity(0, cores)
getattr(importlib.import_module({module!r}), {function!r})(sys.stdin.buffer)
"""


class Children:
    """Starts Python processes; a context manager that kills what still runs when it is left.

    Parameters
    ----------
    entry : str
        ``module:function`` that a child calls with its standard input, which holds the request.
    """

    def __init__(self, entry: str) -> None:
        module, _, function = entry.partition(":")
        self._code = _CHILD.format(module=module, function=function)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            running = list(self._running)
        for process in running:
            with contextlib.suppress(OSError):
                process.kill()

    def start(
        self, *, errors: Any = subprocess.PIPE, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes] | None:
        """Start a child, its request still to be sent; None after the end."""
        with self._lock:
            if self._closed:
                return None
            process = subprocess.Popen(  # noqa: S603  (this Python, and the lines above)
                [sys.executable, "-c", self._code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
            )
            self._running.add(process)
        return process

    def forget(self, process: subprocess.Popen[bytes]) -> None:
        """Stop watching a child that has ended."""
        with self._lock:
            self._running.discard(process)


def ask(
    entry: str, request: Any, *, failed: str, environment: Mapping[str, str] | None = None
) -> Any:
    """Let a process answer one request, which its entry reads; the answer is what it tells.

    Raises
    ------
    PivecError
        That says ``failed``, and the last line that the process wrote.
    """
    with Children(entry) as children:
        process = children.start(environment=environment)
        if process is None:
            raise PivecError(f"{failed}: it was stopped")
        told, errors = process.communicate(preamble() + pickle.dumps(request))
    if process.returncode:
        last = errors.decode(errors="replace").strip().splitlines()[-1:]
        raise PivecError(f"{failed}: {' '.join(last)}")
    return json.loads(told)


@contextlib.contextmanager
def telling() -> Iterator[IO[str]]:
    """In a child: open what the parent reads; what anybody prints does not mix with it."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as told:
        os.dup2(2, 1)
        yield told


def preamble(cores: Sequence[int] = ()) -> bytes:
    """Return what a child reads before its request; without cores it may use all of them."""
    return pickle.dumps((sys.path, list(cores)))
