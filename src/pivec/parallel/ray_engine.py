"""The engine of a Ray cluster: items and parts are tasks, on whatever nodes it has."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import re
import socket
import subprocess
import sys
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pivec.errors import MissingExtra, PivecError, PivecWarning, UsageError
from pivec.parallel import ray_entry, ray_worker
from pivec.parallel.engine import Engine, Reply, Shared, Task, WorkFailed
from pivec.parallel.pieces import DEATHS, REMOVALS, Piece, Pieces, failure_of, refuse_parts
from pivec.parallel.ray_worker import Place, Row
from pivec.parallel.workers import THREAD_VARIABLES, usable_cores
from pivec.terminal import say, warn_again

# -----------------------------------------------------------------------------
# A Ray cluster that this process joins, or starts, and leaves again.


_PATIENCE = 3.0  # seconds for an answer
_LONG = 10.0  # seconds for a process that asks Ray itself
# What every server that speaks HTTP/2, as Ray's do, answers with the settings it wants.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_GREET = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1])"
_CLIENT = (
    "messages of work do not come through Ray Client: run pivec on a machine of the cluster with "
    "--engine ray, or give the head's HOST:PORT"
)


def import_ray() -> Any:
    """Import Ray, or say how to install it."""
    try:
        import ray
    except ImportError:
        raise MissingExtra("the engine ray", "ray") from None
    return ray


def join(address: str = "", jobs: int | None = None) -> bool:
    """Connect this process with a cluster; say whether it is to be left again.

    Without an address it is that of ``RAY_ADDRESS``, or the cluster that `ray start` left running
    on this machine, or one that is started here and ends with this process. A connection that
    the caller has made already is used, and left to the caller.
    """
    ray = import_ray()
    if ray.util.client.ray.is_connected():
        raise UsageError(f"this process uses Ray Client, but {_CLIENT}")
    if ray.is_initialized():
        joined = ray.get_runtime_context().gcs_address
        if address not in ("", "auto", "local", joined):
            raise UsageError(
                f"this process is connected with the Ray cluster at {joined}, but {address} is "
                "asked for: call ray.shutdown() first"
            )
        return False
    named = bool(address)
    address = _address(ray, address)
    if address != "local":
        _check(address)
    if not named:
        cores = f"one for this process, on {jobs or usable_cores()} of its cores"
        say(f"Ray cluster: {cores if address == 'local' else address}", error=True)
    _init(ray, address, jobs)
    # What Ray's own processes say of those that died is said by the errors of the work.
    ray._private.worker._worker_logs_enabled = False
    return True


def leave() -> None:
    """Leave the cluster that `join` joined, and end it if it was started there."""
    ray = import_ray()
    ray.shutdown()
    ray._private.worker._worker_logs_enabled = True


def _address(ray: Any, address: str) -> str:
    """Give host and port of the cluster that is meant, or ``local`` for a new one."""
    if address in ("", "auto"):
        address = os.environ.get("RAY_ADDRESS", "")
    if address in ("", "auto"):
        address = ray._private.utils.read_ray_address() or "local"
        if address != "local" and not _speaks_http2(address):
            return "local"  # that cluster is gone, and did not tidy up
    if "://" in address:
        raise UsageError(f"{address} cannot be used: {_CLIENT}")
    if address != "local" and not re.fullmatch(r".+:\d{1,5}", address):
        raise UsageError(f"the address of a Ray cluster must be HOST:PORT, but is {address!r}")
    return address


def _check(address: str) -> None:
    """Refuse an address at which no Ray cluster answers: Ray itself would wait for minutes."""
    try:
        known = _speaks_http2(address)
    except OSError as error:
        raise PivecError(
            f"no Ray cluster answers at {address} ({error.strerror or error}): start one with "
            "`ray start --head`, or check the address"
        ) from error
    if known:
        # In a process of its own, which can be ended: Ray waits long, and holds all threads.
        command = [sys.executable, "-c", _GREET, address]
        try:
            done = subprocess.run(  # noqa: S603
                command, timeout=_LONG, capture_output=True, check=False
            )
            known = done.returncode == 0
        except subprocess.TimeoutExpired:
            known = False
    if not known:
        raise PivecError(
            f"something answers at {address}, but it is no Ray cluster: give the address of the "
            "head node, whose port is 6379 unless `ray start --port` chose another"
        )


def _speaks_http2(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), _PATIENCE) as connection:
        connection.settimeout(_PATIENCE)
        with contextlib.suppress(OSError):
            connection.sendall(_GREETING)
            answer = connection.recv(9)
            return answer[3:4] == b"\x04"
    return False


def _init(ray: Any, address: str, jobs: int | None) -> None:
    local = {"num_cpus": jobs or usable_cores(), "include_dashboard": False}
    try:
        with warnings.catch_warnings(), _variables(RAY_USAGE_STATS_ENABLED="0"):
            warnings.simplefilter("ignore")  # about versions to come
            ray.init(
                address=address,
                logging_level=logging.ERROR,
                log_to_driver=False,
                **(local if address == "local" else {}),
            )
    except Exception as error:
        why = " ".join(str(error).split())
        if versions := re.findall(r"Ray: (\S+) Python: (\S+)", why):
            there, here = (f"Ray {ray} with Python {python}" for ray, python in versions)
            why = f"it has {there}, but here is {here}: install the same"
        raise PivecError(f"the Ray cluster at {address} cannot be used: {why}") from error


@contextlib.contextmanager
def _variables(**values: str) -> Iterator[None]:
    """Set variables for processes that are started inside."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_LOOK = 2.0  # seconds between looks at how many workers there are
_GONE = "its machine is gone"
_MESSAGES = 32  # of a task that wait to be read, before it waits


@dataclass(frozen=True, eq=False)
class _RayShared(Shared):
    """A value in the cluster's object store, once it was needed."""

    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    references: list[Any] = field(default_factory=list)


@dataclass
class _Part:
    """A part on its way: what runs, and how often its worker died or its machine went."""

    content: bytes
    reference: Any
    n_gone: int  # nodes that were gone when it was given out
    deaths: int = 0
    removals: int = 0


@dataclass
class _Running:
    """A piece on its way, and the node where it is worked on, once that is known."""

    piece: Piece
    content: bytes
    n_gone: int
    node: str = ""


class RayEngine(Engine):
    """Works on items and parts on the nodes of a Ray cluster.

    As many tasks are under way as the cluster has CPUs, and a few more, so that no node waits for
    this process; nodes that join get work, the work of those that go runs elsewhere.
    """

    def __init__(self, address: str = "", jobs: int | None = None) -> None:
        self._ray = import_ray()
        self._leave = join(address, jobs)
        self._jobs, self._looked, self._waits = jobs, -_LOOK, False
        self._gone: set[str] = set()  # nodes
        self._ray.cloudpickle.register_pickle_by_value(ray_entry)
        streaming = {
            "num_returns": "streaming",
            "_generator_backpressure_num_objects": _MESSAGES,
        }
        self._piece = self._remote(ray_entry.piece, **streaming)
        # Workers of another environment than all others have, so that each is new.
        apart = {"env_vars": {"PIVEC_APART": "1"}}
        self._apart = self._remote(ray_entry.piece, **streaming, max_calls=1, runtime_env=apart)
        self._part = self._remote(ray_entry.part)
        self._versions = {"pivec": sys.modules["pivec"].__version__, **ray_worker.versions()}
        self._look()

    def _remote(self, function: Callable[..., Any], **options: Any) -> Any:
        return self._ray.remote(num_cpus=1, max_retries=0, **options)(function)

    def close(self) -> None:
        """Leave the cluster, and end it if it was started for this engine."""
        if self._leave:
            self._leave = False
            leave()

    def _look(self) -> int:
        """Give how many tasks to have under way; nodes come and go."""
        if time.monotonic() - self._looked > _LOOK:
            self._looked = time.monotonic()
            known = self._ray.nodes()
            self._gone = {node["NodeID"] for node in known if not node["Alive"]}
            nodes = [node for node in known if node["Alive"]]
            there = int(sum(node["Resources"].get("CPU", 0) for node in nodes))
            if not there and not self._waits:
                self._waits = True
                message = "the Ray cluster has no CPU now: work waits for a node that has"
                warnings.warn(message, PivecWarning, stacklevel=2)
            self.n_workers = max(1, min(there, self._jobs or there))
        if self._jobs is not None and self._jobs <= self.n_workers:
            return self._jobs
        return self.n_workers + self.n_workers // 4 + 1

    def _session(self, **manner: Any) -> dict[str, Any]:
        """Say what a worker needs to find what this process finds."""
        folder = os.getcwd()
        return {
            "path": [os.path.join(folder, place) for place in [*sys.path, folder]],
            "folder": folder,
            "versions": self._versions,
            "thread_variables": THREAD_VARIABLES,
            "threads": 1,
            "logged": False,
            **manner,
        }

    def _map(self, task: Task, items: Iterable[Any]) -> Iterator[Reply]:
        pieces, running = Pieces(task, items), dict[Any, _Running]()
        manner = {"threads": task.threads or 1, "logged": task.log is not None}
        remote = self._apart if task.apart else self._piece

        def run(piece: Piece, content: bytes) -> None:
            stream = remote.remote(self._session(**manner), content)
            running[stream] = _Running(piece, content, len(self._gone))

        try:
            while True:
                while len(running) < self._look() and (piece := pieces.take()) is not None:
                    try:
                        run(piece, self._packed(task, piece.item))
                    except UsageError as error:
                        yield Reply(piece.item, failure=error)
                if not running:
                    return
                for stream in self._ready(list(running)):
                    reply = self._next(task, stream, running, pieces)
                    if reply is not None:
                        yield reply
                # Ray itself may hear nothing of a machine that vanished, and wait for minutes.
                for stream, row in list(running.items()):
                    if row.node in self._gone:
                        self._cancel([stream])
                        del running[stream]
                        reply = pieces.lost(row.piece, WorkFailed(_GONE), removed=True)
                        if reply is not None:
                            yield reply
                    elif not row.node and len(self._gone) > row.n_gone:
                        self._cancel([stream])
                        del running[stream]
                        run(row.piece, row.content)
        finally:
            self._cancel(running)

    def _ready(self, streams: list[Any]) -> list[Any]:
        """Give the streams from which something came; all of them, so that none is kept waiting."""
        ready, _ = self._ray.wait(streams, num_returns=len(streams), timeout=0)
        if not ready:
            ready, _ = self._ray.wait(streams, num_returns=1, timeout=_LOOK)
        return list(ready)

    def _next(
        self, task: Task, stream: Any, running: dict[Any, _Running], pieces: Pieces
    ) -> Reply | None:
        """Take one row from a stream, and give the reply if it is the last."""
        piece = running[stream].piece
        try:
            row = self._row(lambda: self._ray.get(next(stream)))
        except _Gone as gone:
            del running[stream]
            return pieces.lost(piece, gone.failure, removed=gone.removed)
        if row.node:
            running[stream].node = row.node
            return None
        if row.printed and task.log is not None:
            with task.log(piece.item).open("ab") as log:
                log.write(row.printed)
        warn_again(row.notices)
        if not row.finished:
            task.on_message(piece.item, row.content)
            return None
        del running[stream]
        failure = None if row.failure is None else failure_of(*row.failure)
        return Reply(piece.item, row.content, failure)

    def in_order(
        self, function: Callable[..., Any], parts: Iterable[Any], *arguments: Any
    ) -> Iterator[Any]:
        """Give ``function(part, *arguments)`` for one part after another, worked on side by side.

        At most two parts a worker are ahead of whoever takes them.
        """
        shared, plain = list[_RayShared](), list[Any]()
        for argument in arguments:
            if isinstance(argument, _RayShared):
                shared.append(argument)
                plain.append(Place(len(shared)))
            else:
                plain.append(argument.value if isinstance(argument, Shared) else argument)
        values = [_RayShared((function, plain)), *shared]
        waiting, coming = deque[_Part](), iter(parts)

        def run(content: bytes) -> Any:
            shared = [self._put(value) for value in values]
            return self._part.remote(self._session(), content, shared)

        # What is not wanted in the end runs out: it is short, and to end its worker costs more.
        while True:
            while len(waiting) < 2 * self._look():
                for part in coming:
                    content = self._ray.cloudpickle.dumps(part)
                    waiting.append(_Part(content, run(content), len(self._gone)))
                    break
                else:
                    break
            if not waiting:
                return
            first = waiting[0]
            try:
                if not self._ray.wait([first.reference], timeout=_LOOK)[0]:
                    if len(self._gone) > first.n_gone:
                        raise _Gone(_GONE, removed=True)
                    continue
                row = self._row(partial(self._ray.get, first.reference))
                if row.lost:
                    for value in values:
                        value.references.clear()
                    raise _Gone("a value was lost with the machine that had it", removed=True)
            except _Gone as gone:
                first.deaths += not gone.removed
                first.removals += gone.removed
                if first.deaths >= DEATHS or first.removals >= REMOVALS:
                    raise gone.failure from None
                first.reference, first.n_gone = run(first.content), len(self._gone)
                continue
            waiting.popleft()
            warn_again(row.notices)
            if row.failure is not None:
                raise failure_of(*row.failure)
            yield row.content

    def share(self, value: Any) -> Shared:
        """Prepare an argument of many calls of `in_order`; workers keep the last few of them."""
        return _RayShared(value)

    def _put(self, shared: _RayShared) -> tuple[str, Any]:
        if not shared.references:
            shared.references.append(self._ray.put(shared.value))
        return shared.key, shared.references[0]

    def _packed(self, task: Task, item: Any) -> bytes:
        """Pack what a worker needs; whatever cannot travel is named."""
        try:
            content: bytes = self._ray.cloudpickle.dumps((task.work, item))
        except Exception:
            refuse_parts(task, item)
            raise
        return content

    def _row(self, get: Callable[[], Any]) -> Row:
        """Get what a worker sent; see `_Gone`."""
        errors = self._ray.exceptions
        try:
            content = get()
        except (errors.NodeDiedError, errors.ObjectLostError) as error:
            raise _Gone(_GONE, removed=True) from error
        except errors.OutOfMemoryError as error:
            raise _Gone("its process was ended because memory ran out") from error
        except errors.WorkerCrashedError as error:
            raise _Gone("its process died") from error
        except errors.RayError as error:
            cause = getattr(error, "cause", None) or error
            why = " ".join(str(cause).split())
            raise PivecError(f"Ray cannot run the work: {type(cause).__name__}: {why}") from error
        if isinstance(content, str):
            raise PivecError(f"a worker of the Ray cluster {content}")
        row: Row = pickle.loads(content)  # noqa: S301  (our worker's)
        return row

    def _cancel(self, references: Iterable[Any]) -> None:
        """End the workers of what is not needed any more."""
        for reference in references:
            if self._ray.is_initialized():
                self._ray.cancel(reference, force=True)


class _Gone(Exception):
    """A worker died, or its whole machine went."""

    def __init__(self, why: str, removed: bool = False) -> None:
        super().__init__(why)
        self.failure, self.removed = WorkFailed(why), removed
