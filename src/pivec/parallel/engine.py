"""The engine: where long work runs. In this process, in local processes, or on a Ray cluster.

There are two kinds of work. *Items* are independent of each other, such as policies to collect or
runs to train (`Engine.map`). *Parts* are cut by the data and processed in their order, usually to
be added up, as in a pass over all states (`Engine.in_order`, `Engine.sum`). Since the data decide
the parts, results are bit-identical with every engine and number of workers.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
import os
import pickle
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import pivec.errors
from pivec.errors import PivecError, UsageError, did_you_mean
from pivec.options import EngineOptions
from pivec.parallel.devices import usable_cores
from pivec.terminal import CollectedWarning, WarningCollector

Called = TypeVar("Called", bound=Callable[..., Any])

_NAMES = ("auto", "serial", "processes", "ray")
_UNSET = "auto", None  # engine and jobs where nothing was chosen
_SELDOM = 0.3  # seconds between messages sent with ``seldom``
DEATHS = 3  # of workers, until an item is given up
_REMOVALS = 20  # of machines; they take all of their items with them, whatever these do


class Tell(Protocol):
    """Sends a message to the caller; ``seldom`` ones are rate-limited. Returns whether it sent."""

    def __call__(self, message: Any, seldom: bool = False) -> bool: ...


Work = Callable[[Any, Tell], Any]  # called with an item; what it returns is the reply


class WorkFailed(PivecError):
    """A worker ``died``, or its work raised something else than a `PivecError`."""

    died: bool = False


@dataclass(frozen=True)
class Reply:
    """Result of an item: what its work returned, or a failure."""

    item: Any
    content: Any = None
    failure: PivecError | None = None


@dataclass(frozen=True)
class Shared:
    """A value that is sent to each worker once, for many parts."""

    value: Any


@dataclass(frozen=True)
class Task:
    """Work, and how to run it on its items."""

    work: Work
    # Called here with the item and what ``tell`` sends, again for an item that is retried.
    on_message: Callable[[Any, Any], None] = lambda _item, _message: None
    name: Callable[[Any], str] = str  # how errors refer to an item
    # Splits an item whose worker died into what is left of it, so that the rest is not lost to the
    # part that kills its worker.
    split: Callable[[Any], Sequence[Any]] | None = None
    apart: bool = False  # in a fresh process: its memory is measured, or it changes global state
    pinned: bool = False  # each local worker to its share of the cores
    threads: int | None = None  # of numerical libraries
    log: Callable[[Any], Path] | None = None  # file for the output of an item that runs apart
    quiet: bool = True  # discard what workers print

    def pickled(self, item: Any) -> bytes:
        """Pickle the work and an item for another process."""
        try:
            return by_value((self.work, item))
        except Exception as error:  # whatever the classes of users raise
            raise UsageError(
                f"{self.name(item)} cannot be sent to another process ({error}): make it "
                "picklable, or use one job"
            ) from error


class Engine(ABC):
    """Runs items and parts; made by `using`."""

    n_workers: int = 1
    chosen: tuple[str | Engine, int | None] = ("", None)  # arguments of `using`

    def map(self, work: Work, items: Iterable[Any], **options: Any) -> Iterator[Reply]:
        """Call ``work(item, tell)`` for each item and yield replies as they finish.

        ``options`` are fields of `Task`. Items are taken from the iterable when a worker is free.
        A failure is the reply of its item and does not stop the others. If a worker dies, only its
        item is retried, on a fresh worker and at most twice. Warnings raised by workers are raised
        here. Closing the iterator ends the work.
        """
        return self._map(Task(work, **options), items)

    @abstractmethod
    def _map(self, task: Task, items: Iterable[Any]) -> Iterator[Reply]: ...

    def in_order(
        self, function: Callable[..., Any], parts: Iterable[Any], *arguments: Any
    ) -> Iterator[Any]:
        """Yield ``function(part, *arguments)`` for each part, in order.

        `Shared` arguments are passed as their values. Runs in this process, where numerical code
        uses all cores, unless the engine has other machines.
        """
        values = [a.value if isinstance(a, Shared) else a for a in arguments]
        for part in parts:
            yield function(part, *values)

    def sum(self, function: Callable[..., Any], parts: Iterable[Any], *arguments: Any) -> Any:
        """Add up what `in_order` yields, from the first part to the last."""
        return functools.reduce(operator.add, self.in_order(function, parts, *arguments))

    def share(self, value: Any) -> Shared:
        """Prepare a large argument of several calls of `in_order`."""
        return Shared(value)

    def close(self) -> None:
        """Release what the engine holds."""
        return


class Serial(Engine):
    """Runs one item after another in this process."""

    def _map(self, task: Task, items: Iterable[Any]) -> Iterator[Reply]:
        if task.apart:
            yield from make_engine("processes", 1)._map(task, items)
            return
        for item in items:
            yield self._reply(task, item)

    def _reply(self, task: Task, item: Any) -> Reply:
        raised: list[BaseException] = []  # by the caller, so that it is no failure of the work

        def send(message: Any) -> None:
            try:
                task.on_message(item, message)
            except BaseException as error:
                raised.append(error)
                raise

        try:
            return Reply(item, task.work(item, _teller(send)))
        except Exception as error:
            if raised:
                raise raised[0] from None
            known = error if isinstance(error, PivecError) else Failure.of(error).error()
            return Reply(item, failure=known)


def ask(work: Work, item: Any, *, failed: str, threads: int | None = None) -> Any:
    """Return ``work(item, tell)``, called in a process of its own; errors begin with ``failed``."""
    [reply] = make_engine("processes", 1).map(work, [item], threads=threads)
    if reply.failure is not None:
        raise PivecError(f"{failed}: {reply.failure}") from reply.failure
    return reply.content


_current: ContextVar[Engine | None] = ContextVar("pivec_engine", default=None)


def current() -> Engine:
    """Return the engine that `using` chose, or the serial one."""
    return _current.get() or Serial()


@contextlib.contextmanager
def using(
    engine: str | Engine = "auto", jobs: int | None = None, *, default: str = "serial"
) -> Iterator[Engine]:
    """Choose where long computations run inside a ``with`` block.

    Parameters
    ----------
    engine : str or Engine
        ``serial`` runs in this process; ``processes`` in ``jobs`` local processes, by default one
        per core; ``ray`` on the Ray cluster of ``RAY_ADDRESS``, otherwise on the one on this
        machine, otherwise on a new one; ``ray:HOST:PORT`` on the cluster at that address. ``auto``
        keeps the choice of an outer block, and otherwise means processes if ``jobs`` > 1.
    jobs : int, optional
        Number of parallel workers; does not change results. All CPUs of a cluster by default.
    default : str
        Meaning of ``auto`` if nothing was chosen.

    Examples
    --------
    >>> with using("serial") as engine:
    ...     engine.sum(pow, [1, 2, 3], 2)
    14
    """
    outer, asked = _current.get(), (engine, jobs)
    keep = outer is not None and outer.chosen != _UNSET and asked in (_UNSET, outer.chosen)
    if isinstance(engine, Engine):
        made, own = engine, False
    elif outer is not None and keep:
        made, own = outer, False
    else:
        made, own = make_engine(default if asked == _UNSET else engine, jobs), True
        made.chosen = asked
    token = _current.set(made)
    try:
        yield made
    finally:
        _current.reset(token)
        if own:
            made.close()


def on_engine(function: Called) -> Called:
    """Decorate a function to run inside `using` with its ``engine`` and ``jobs``.

    These are arguments of the function, or fields of `EngineOptions` among its arguments.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # which says what is wrong
        bound.apply_defaults()
        given = bound.arguments
        chosen = [value for value in given.values() if isinstance(value, EngineOptions)]
        if "engine" in given:
            chosen.append(EngineOptions(engine=given["engine"], jobs=given["jobs"]))
        with contextlib.ExitStack() as stack:
            for options in chosen:
                stack.enter_context(using(options.engine, options.jobs))
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def make_engine(name: str, jobs: int | None = None) -> Engine:
    """Make an engine from its name, see `using`."""
    kind, _, address = name.partition(":")
    if kind not in _NAMES or (address and kind != "ray"):
        raise UsageError(
            f"the engine must be auto, serial, processes or ray[:ADDRESS], but is {name!r}"
            f"{did_you_mean(kind, _NAMES)}"
        )
    if jobs is not None and jobs < 1:
        raise UsageError(f"the number of jobs must be at least 1, but is {jobs}")
    if kind == "serial" and jobs not in (None, 1):
        raise UsageError(f"the engine serial has one job, not {jobs}: use --engine processes")
    if kind == "ray":
        from pivec.parallel.ray_engine import RayEngine

        return RayEngine(address, jobs)
    if kind == "processes" or (jobs or 1) > 1:
        from pivec.parallel.processes import Processes

        return Processes(jobs or usable_cores())
    return Serial()


# ---- what the engines with workers have in common ----


class Failure(NamedTuple):
    """An exception as text: those of other libraries may not be picklable."""

    kind: str
    text: str
    trace: str
    missing: str = ""  # path of a file that was not found

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe the exception that is being handled."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, FileNotFoundError):
            cause = cause.__cause__ or cause.__context__
        missing = str(getattr(cause, "filename", None) or "")
        return cls(type(error).__name__, str(error), traceback.format_exc(), missing)

    def error(self) -> PivecError:
        """Make the exception again, of the same type if it is one of ours."""
        known = getattr(pivec.errors, self.kind, None)
        if isinstance(known, type) and issubclass(known, PivecError):
            error: PivecError = known.__new__(known, self.text)  # the text is complete already
        else:
            error = WorkFailed(": ".join(filter(None, (self.kind, " ".join(self.text.split())))))
        error.__cause__ = RuntimeError(f"in a worker:\n{self.trace}")
        return error


class Message(NamedTuple):
    """What a worker sends: a message of ``tell``, or the end of its item."""

    content: Any = None
    finished: bool = True
    failure: Failure | None = None
    notices: Sequence[CollectedWarning] = ()  # warnings raised since the last message


def run_item(
    payload: bytes,
    send: Callable[[Message], Any],
    logged: bool,
    inside: contextlib.AbstractContextManager[Any] = contextlib.nullcontext(),  # noqa: B008
) -> None:
    """In a worker, work on an item and send its messages, warnings and result."""
    with WarningCollector(_print_notice if logged else lambda _: None) as notices, inside:

        def send_all(content: Any, finished: bool = False, failure: Failure | None = None) -> None:
            sys.stdout.flush()
            raised = [notice for notice in notices.take() if notice.own or not logged]
            send(Message(content, finished, failure, raised))

        try:
            work, item = pickle.loads(payload)  # noqa: S301  (the caller's)
            send_all(work(item, _teller(send_all)), finished=True)
        except Exception as error:
            failure = Failure.of(error)
            if logged and not isinstance(error, PivecError):
                print(failure.trace, file=sys.stderr)  # noqa: T201
            send_all(None, finished=True, failure=failure)


def by_value(value: Any) -> bytes:
    """Pickle a value, with functions and classes of the user's script or notebook in it."""
    import cloudpickle

    return bytes(cloudpickle.dumps(value))


def _print_notice(notice: CollectedWarning) -> None:
    print(f"{notice.kind}: {notice.text}", file=sys.stderr)  # noqa: T201


def redirect_output(file: str | Path) -> None:
    """Append standard output and error of this process to a file."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)


def _teller(send: Callable[[Any], None]) -> Tell:
    last = -_SELDOM

    def tell(message: Any, seldom: bool = False) -> bool:
        nonlocal last
        if seldom and time.monotonic() - last < _SELDOM:
            return False
        last = time.monotonic()
        send(message)
        return True

    return tell


@dataclass
class Pending:
    """An item, and how often it lost its worker or the whole machine."""

    item: Any
    deaths: int = 0
    removals: int = 0


class Queue:
    """The items of a task that wait for a worker; they are taken when they are needed."""

    def __init__(self, task: Task, items: Iterable[Any]) -> None:
        self._task, self._items = task, iter(items)
        self._again: deque[Pending] = deque()

    def take(self) -> Pending | None:
        """Return the next item; None if none waits (one may be retried later)."""
        if self._again:
            return self._again.popleft()
        for item in self._items:
            return Pending(item)
        return None

    def lost(self, pending: Pending, why: str, *, removed: bool = False) -> Reply | None:
        """Retry an item whose worker died (or whose machine was removed), or give it up."""
        deaths, removals = pending.deaths + (not removed), pending.removals + removed
        if deaths >= DEATHS or removals >= _REMOVALS:
            times = f"{deaths if deaths >= DEATHS else removals} times"
            failure = WorkFailed(f"{self._task.name(pending.item)} lost its worker {times}: {why}")
            failure.died = True
            return Reply(pending.item, failure=failure)
        split = self._task.split
        items = [pending.item] if split is None else split(pending.item)
        self._again.extend(Pending(item, deaths, removals) for item in items)
        return None
