"""What happens in a process that `pivec.engines.processes` started: item after item."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import runpy
import sys
import threading
import types
from typing import IO, Any

from pivec.engines.pieces import Failure, Teller, in_words
from pivec.errors import PivecError
from pivec.notices import Notice, Notices

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
