"""The engine of a Ray cluster: items and parts are Ray tasks.

Code is shipped by Ray's runtime environments: pivec and the modules that this process imported
from outside the installed packages. Items travel pickled, shared values through the object store.
Files do not travel: states must be on storage that every node sees.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import queue
import socket
import subprocess
import sys
import sysconfig
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from pivec.errors import MissingExtra, PivecError, PivecWarning, UsageError
from pivec.parallel.devices import THREAD_VARIABLES, single_threaded_blas, threads, usable_cores
from pivec.parallel.engine import (
    DEATHS,
    Engine,
    Failure,
    Message,
    Pending,
    Queue,
    Reply,
    Shared,
    Task,
    WorkFailed,
    redirect_output,
    run_item,
)
from pivec.terminal import WarningCollector, raise_again, say

_TIMEOUTS = 3.0, 30.0  # seconds for a connection, and for the answer of a cluster
_REFRESH = 2.0  # seconds between counts of the cluster's CPUs
_UNREAD = 32  # messages of an item that wait for this process before the item does
_CACHED = 4  # shared values that a worker keeps
# Other versions of these on another machine may give other numbers.
_PACKAGES = ("gymnasium", "numba", "numpy", "scikit-learn", "scipy", "torch", "mujoco", "envpool")


@dataclass(frozen=True, eq=False)
class _RayShared(Shared):
    reference: Any


class _Session(NamedTuple):
    """What a worker needs to know about this process."""

    folder: str
    versions: tuple[tuple[str, str], ...]
    threads: int = 1
    log: str | None = None


class RayEngine(Engine):
    """Runs items and parts on the nodes of a Ray cluster, as many at a time as it has CPUs."""

    def __init__(self, address: str = "", jobs: int | None = None) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtra("the engine ray", "ray") from None
        self._ray, self._jobs = ray, jobs
        self._counted, self._cpus = -_REFRESH, 1
        self._address = _address_of(ray, address)
        self._connected = False  # by this engine

    @functools.cached_property
    def _tasks(self) -> tuple[Any, Any, Any]:
        """Remote functions for items, items in fresh processes, and parts.

        Connects when it is first needed, since modules that were imported by then are shipped.
        """
        ray = self._ray
        if not ray.is_initialized():
            _connect(ray, self._address, self._jobs)
            self._connected = True
        stream = {"num_returns": "streaming", "_generator_backpressure_num_objects": _UNREAD}
        # Workers with another environment than others, so that each is fresh.
        fresh = {"max_calls": 1, "runtime_env": {"env_vars": {"PIVEC_APART": "1"}}}
        remote = functools.partial(ray.remote, num_cpus=1)
        return (
            remote(max_retries=0, **stream)(_stream_item),
            remote(max_retries=0, **stream, **fresh)(_stream_item),
            remote(max_retries=DEATHS - 1)(_run_part),
        )

    @property
    def n_workers(self) -> int:  # type: ignore[override]
        """Number of CPUs now, since nodes come and go, but at most ``jobs``."""
        if time.monotonic() - self._counted > _REFRESH:
            self._counted, _ = time.monotonic(), self._tasks
            self._cpus = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        return min(self._cpus, self._jobs or self._cpus)

    def close(self) -> None:
        """Disconnect, and stop a cluster that was started here."""
        if self._connected:
            self._connected = False
            self._ray.shutdown()

    def _session(self, **more: Any) -> _Session:
        return _Session(os.getcwd(), _versions(), **more)

    def _map(self, task: Task, items: Iterable[Any]) -> Iterator[Reply]:
        waiting, running = Queue(task, items), dict[Any, Pending]()
        item_task, fresh_task, _ = self._tasks
        remote = fresh_task if task.apart else item_task
        try:
            while True:
                # Some more than there are CPUs, so that no node waits for this process.
                limit = self.n_workers if self._jobs else self.n_workers * 5 // 4 + 1
                while len(running) < limit and (pending := waiting.take()) is not None:
                    try:
                        payload = task.pickled(pending.item)
                    except UsageError as error:
                        yield Reply(pending.item, failure=error)
                        continue
                    log = None if task.log is None else str(task.log(pending.item))
                    session = self._session(threads=task.threads or 1, log=log)
                    running[remote.remote(payload, session)] = pending
                if not running:
                    return
                streams = list(running)
                # All that have a message, so that none is kept waiting.
                ready, _ = self._ray.wait(streams, num_returns=len(streams), timeout=0)
                for stream in ready or self._ray.wait(streams, timeout=_REFRESH)[0]:
                    reply = self._next(task, stream, running, waiting)
                    if reply is not None:
                        yield reply
        finally:
            for stream in running:
                if self._ray.is_initialized():
                    self._ray.cancel(stream, force=True)

    def _next(
        self, task: Task, stream: Any, running: dict[Any, Pending], waiting: Queue
    ) -> Reply | None:
        """Handle a message of an item, and return the reply if it is the last."""
        pending = running[stream]
        try:
            message = self._get(lambda: next(stream))
        except _Lost as lost:
            del running[stream]
            return waiting.lost(pending, str(lost), removed=lost.removed)
        raise_again(message.notices)
        if not message.finished:
            task.on_message(pending.item, message.content)
            return None
        del running[stream]
        failure = None if message.failure is None else _error(message.failure)
        return Reply(pending.item, message.content, failure)

    def in_order(
        self, function: Callable[..., Any], parts: Iterable[Any], *arguments: Any
    ) -> Iterator[Any]:
        """Yield ``function(part, *arguments)`` for each part, in order; see `Engine.in_order`.

        At most two parts per worker are computed ahead.
        """
        plain = [a for a in arguments if not isinstance(a, _RayShared)]
        shared = [a.reference if isinstance(a, _RayShared) else None for a in arguments]
        *_, part_task = self._tasks
        call, session = self._ray.put((function, plain)), self._session()
        running: deque[Any] = deque()
        coming = iter(parts)
        while True:
            for part in coming:
                # In a list, so that workers fetch a value once and not for every part.
                running.append(part_task.remote(part, [call, *shared], session))
                if len(running) >= 2 * self.n_workers:
                    break
            if not running:
                return
            try:
                message = self._get(running.popleft)
            except _Lost as lost:
                name = getattr(function, "__name__", str(function))
                raise WorkFailed(
                    f"a part of {name} lost its worker {DEATHS} times: {lost}"
                ) from lost
            raise_again(message.notices)
            if message.failure is not None:
                raise _error(message.failure)
            yield message.content

    def share(self, value: Any) -> Shared:
        """Put a value into the object store; workers cache the last few."""
        _ = self._tasks
        return _RayShared(value, self._ray.put(value))

    def _get(self, reference: Callable[[], Any]) -> Message:
        errors = self._ray.exceptions
        try:
            message: Message = self._ray.get(reference())
        except (errors.NodeDiedError, errors.ObjectLostError) as error:
            raise _Lost("its node is gone", removed=True) from error
        except (errors.OutOfMemoryError, errors.WorkerCrashedError) as error:
            out = isinstance(error, errors.OutOfMemoryError)
            raise _Lost("memory ran out" if out else "its process died") from error
        except errors.RayError as error:
            cause = getattr(error, "cause", None) or error
            why = " ".join(str(cause).split())
            raise PivecError(
                f"Ray cannot run the work ({type(cause).__name__}: {why}): install the same "
                "packages on every node, or name what is missing in the runtime_env of ray.init"
            ) from error
        return message


class _Lost(Exception):
    """A worker died, or its node was removed."""

    def __init__(self, why: str, removed: bool = False) -> None:
        super().__init__(why)
        self.removed = removed


def _error(failure: Failure) -> PivecError:
    """Make the exception of a worker again; explain files that only this machine sees."""
    error = failure.error()
    if failure.missing and os.path.exists(failure.missing):
        explained = PivecError(
            f"{failure.missing} exists here, but not on another node of the Ray cluster: keep it "
            "on storage that all nodes see under the same path, such as a shared folder or s3://"
        )
        explained.__cause__ = error
        return explained
    return error


# ---- connecting ----


def _address_of(ray: Any, address: str) -> str:
    """Return the address of the cluster to use, or "local" for a new one on this machine."""
    if ray.is_initialized():
        connected = ray.get_runtime_context().gcs_address
        if address not in ("", "auto", "local", connected):
            raise UsageError(
                f"this process is connected to the Ray cluster at {connected}, not to {address}: "
                "call ray.shutdown() first"
            )
        return str(connected)
    if address in ("", "auto"):
        address = os.environ.get("RAY_ADDRESS", "").removeprefix("auto")
    if not address:  # the cluster that `ray start` started on this machine, unless it is gone
        found = ray._private.utils.read_ray_address() or ""
        with contextlib.suppress(PivecError):
            address = found and _checked(found)
    return _checked(address) if address not in ("", "local") else "local"


def _checked(address: str) -> str:
    """Return the address of a cluster that answers; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdigit():
        raise UsageError(
            f"the address of a Ray cluster must be HOST:PORT of its head, but is {address!r} (Ray "
            "Client cannot be used: run pivec on a node of the cluster)"
        )
    connecting, answering = _TIMEOUTS
    check = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        socket.create_connection((host.strip("[]"), int(port)), connecting).close()
        subprocess.run(check, timeout=answering, capture_output=True, check=True)  # noqa: S603
    except OSError as error:
        raise PivecError(
            f"no Ray cluster answers at {address} ({error.strerror or error}): start one with "
            "`ray start --head`, or check the address"
        ) from error
    except subprocess.SubprocessError as error:
        raise PivecError(
            f"{address} is not the head of a Ray cluster, whose port is 6379 unless `ray start "
            "--port` chose another"
        ) from error
    return address


def _connect(ray: Any, address: str, jobs: int | None) -> None:
    """Connect to a cluster, or start one on this machine."""
    if address == "local":
        path = os.pathsep.join(filter(None, sys.path))
        options: dict[str, Any] = {
            "num_cpus": jobs or usable_cores(),
            "include_dashboard": False,
            "runtime_env": {"env_vars": {"PYTHONPATH": path}},
        }
    else:
        options = {"runtime_env": {"py_modules": _own_modules()}}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    say(f"Ray cluster: {address}", error=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about future versions
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **options)
    except Exception as error:
        why = " ".join(str(error).split())
        raise PivecError(f"the Ray cluster at {address} cannot be used: {why}") from error


def _own_modules() -> list[str]:
    """Folders and files of pivec, and of modules imported from outside the installed packages."""
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    installed = tuple(os.path.join(place, "") for place in places)
    own = [Path(sys.modules["pivec"].__file__ or "").parent]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if "." in name or name in ("__main__", "pivec") or not file.endswith(".py"):
            continue
        if os.path.isabs(file) and not file.startswith(installed):
            own.append(Path(file).parent if hasattr(module, "__path__") else Path(file))
    return sorted(map(str, own))


# ---- in a worker ----


def _stream_item(payload: bytes, session: _Session) -> Iterator[Message]:
    """Yield the messages of an item while a thread works on it."""
    messages: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def work() -> None:
        try:
            if session.log is not None:  # in a process for this item only
                redirect_output(session.log)
            run_item(payload, messages.put, session.log is not None, _prepared(session))
        except BaseException as error:  # such as SystemExit, which would end this thread only
            messages.put(Message(failure=Failure.of(error)))

    _thread().submit(work)
    while not (message := messages.get()).finished:
        yield message
    yield message


@functools.cache
def _thread() -> ThreadPoolExecutor:
    """Return the one thread for items: what libraries keep per thread stays valid."""
    return ThreadPoolExecutor(1)


def _run_part(part: Any, shared: list[Any], session: _Session) -> Message:
    """Call a function with a part and its arguments."""
    with WarningCollector(lambda _: None) as notices, _prepared(session):
        try:
            function, plain = _fetched(shared[0])
            others = iter(plain)
            values = [next(others) if a is None else _fetched(a) for a in shared[1:]]
            return Message(function(part, *values), notices=notices.take())
        except Exception as error:
            return Message(failure=Failure.of(error), notices=notices.take())


@functools.lru_cache(maxsize=_CACHED)
def _fetched(reference: Any) -> Any:
    import ray

    return ray.get(reference)


@contextlib.contextmanager
def _prepared(session: _Session) -> Iterator[None]:
    """Use the folder of the driver if it exists here, and as many threads as the task may."""
    if os.path.isdir(session.folder):
        os.chdir(session.folder)
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(session.threads)))
    _compare_versions(session.versions)
    one = session.threads == 1
    with threads(session.threads), single_threaded_blas() if one else contextlib.nullcontext():
        yield


@functools.cache
def _versions() -> tuple[tuple[str, str], ...]:
    """Versions of the packages that numbers may depend on."""
    known = []
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            known.append((name, metadata.version(name)))
    return tuple(known)


@functools.cache
def _compare_versions(driver: tuple[tuple[str, str], ...]) -> None:
    """Warn, once per worker, about packages that differ from those of the driver."""
    here = dict(_versions())
    differ = [f"{n} {here.get(n, 'missing')} ({v} here)" for n, v in driver if here.get(n) != v]
    if differ:
        message = f"a Ray worker has {', '.join(differ)}: numbers may differ between machines"
        warnings.warn(message, PivecWarning, stacklevel=2)
