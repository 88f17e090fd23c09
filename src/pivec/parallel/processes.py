"""The engine of local processes.

They are plain Python processes, which import this module and what their work needs, and do not run
the script of the parent again: what that defines is sent with the work. (multiprocessing's spawn
would run it, fork is unsafe beside threads, and loky takes longer to import than most work takes.)
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any
from weakref import WeakSet

from pivec.errors import UsageError
from pivec.parallel.devices import THREAD_VARIABLES, shares_of_cores
from pivec.parallel.engine import (
    Engine,
    Message,
    Pending,
    Queue,
    Reply,
    Task,
    by_value,
    redirect_output,
    run_item,
)
from pivec.terminal import raise_again

_PATIENCE = 5.0  # seconds for a process to end by itself
_MOMENT = 0.5  # seconds for one whose work nobody waits for
_CHILD = """
import json, sys
sys.path, handle, output, logged = json.loads(sys.argv[1])
from pivec.parallel.processes import serve
serve(handle, output, logged)
"""


class Processes(Engine):
    """Runs items in ``jobs`` local processes.

    Each process works on one item after another, unless each item needs a fresh one.
    """

    def __init__(self, jobs: int) -> None:
        self.n_workers = jobs

    def _map(self, task: Task, items: Iterable[Any]) -> Iterator[Reply]:
        waiting = Queue(task, items)
        free = deque(shares_of_cores(self.n_workers) if task.pinned else [[]] * self.n_workers)
        idle, busy = list[Worker](), dict[Connection, Worker]()
        try:
            while True:
                given = list[tuple[Worker, bytes]]()
                while (idle or free) and (pending := waiting.take()) is not None:
                    try:
                        payload = task.pickled(pending.item)
                    except UsageError as error:
                        yield Reply(pending.item, failure=error)
                        continue
                    worker = idle.pop() if idle else Worker(task, pending.item, free.popleft())
                    worker.pending, busy[worker.connection] = pending, worker
                    given.append((worker, payload))
                for worker, payload in given:  # once all have started: a large one waits for that
                    worker.send(payload)
                if not busy:
                    return
                for connection in wait(list(busy)):
                    worker = busy[connection]  # type: ignore[index]
                    item, message = worker.pending.item, worker.receive()
                    if message is not None:
                        raise_again(message.notices)
                        if not message.finished:
                            task.on_message(item, message.content)
                            continue
                    del busy[worker.connection]
                    if message is None or task.apart:
                        free.append(worker.cores)
                        how = worker.end()
                    else:
                        idle.append(worker)
                    if message is None:
                        reply = waiting.lost(worker.pending, how)
                    else:
                        failure = None if message.failure is None else message.failure.error()
                        reply = Reply(item, message.content, failure)
                    if reply is not None:
                        yield reply
        finally:
            for worker in (*busy.values(), *idle):
                worker.end(now=True)


class Worker:
    """A process, and the item that it works on; ``code`` is set when it has ended."""

    pending: Pending
    code: int

    def __init__(self, task: Task, item: Any, cores: list[int]) -> None:
        self.cores = cores
        self._log = None if task.log is None else task.log(item)
        output = str(self._log) if self._log else os.devnull if task.quiet else None
        threads = {} if task.threads is None else dict.fromkeys(THREAD_VARIABLES, str(task.threads))
        self.connection, other = Pipe()
        options = sys.path, other.fileno(), output, self._log is not None
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        with other, _pinned_to(cores):
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, *flags, "-c", _CHILD, json.dumps(options)],
                stdin=subprocess.DEVNULL,
                env=os.environ | threads,
                pass_fds=[other.fileno()],
                start_new_session=True,  # Ctrl-C is for the parent
            )
        _alive.add(self)

    def send(self, payload: bytes) -> None:
        """Send work and an item; whether the process is alive shows when it is read from."""
        with contextlib.suppress(OSError):
            self.connection.send_bytes(payload)

    def receive(self) -> Message | None:
        """Return the next message; None if the process has died."""
        try:
            message: Message = pickle.loads(self.connection.recv_bytes())  # noqa: S301
        except (EOFError, OSError):
            return None
        return message

    def end(self, now: bool = False) -> str:
        """End the process, ``now`` or when its item is done, and return how it ended."""
        _alive.discard(self)
        self.connection.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0 if now else _PATIENCE)
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)  # with the processes that it started
        code = self.code = self._process.wait()
        if code == -signal.SIGKILL:
            return "its process was killed, most likely because memory ran out"
        if code < 0:
            return f"its process was ended by signal {-code}"
        return f"its process ended with code {code}" + (f", see {self._log}" if self._log else "")


_alive: WeakSet[Worker] = WeakSet()


@atexit.register
def _end_all() -> None:
    """End processes that an interrupted program leaves."""
    for worker in list(_alive):
        worker.end(now=True)


@contextlib.contextmanager
def _pinned_to(cores: Sequence[int]) -> Iterator[None]:
    """Let a process that is started inside stay on these cores: libraries count them early."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def serve(handle: int, output: str | None, logged: bool) -> None:
    """Run in the process: work on what the parent sends until it closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(handle)
    payloads: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    is_busy = False

    def read() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                payloads.put(connection.recv_bytes())
        payloads.put(None)
        time.sleep(_MOMENT if is_busy else _PATIENCE)
        os._exit(1)  # the parent is gone, and the work goes on

    threading.Thread(target=read, daemon=True).start()
    if output is None:
        os.dup2(2, 1)  # standard output is the parent's
    else:
        redirect_output(output)

    def send(message: Message) -> None:
        content = by_value(message)
        try:
            connection.send_bytes(content)
        except OSError:
            os._exit(1)  # the parent is gone: nobody would read what went wrong

    while (payload := payloads.get()) is not None:
        is_busy = True
        run_item(payload, send, logged)
        is_busy = False
