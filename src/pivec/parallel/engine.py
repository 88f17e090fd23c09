"""The engine: long work in this process, in processes on these cores, or on a Ray cluster.

Work is of two kinds. *Pieces* do not need each other: a policy to collect, a run to train
(`Engine.map`). *Parts* are cut by the data and taken in their order, most often to be added up: a
pass over all states (`Engine.in_order`, `Engine.sum`). So the results are the same bits wherever
the work runs, and nobody above knows where it does.
"""

from __future__ import annotations

import functools
import inspect
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pivec.errors import PivecError, UsageError, did_you_mean
from pivec.options import EngineOptions
from pivec.parallel.workers import usable_cores

Called = TypeVar("Called", bound=Callable[..., Any])

NAMES = ("auto", "serial", "processes", "ray")
_NOTHING = "auto", None  # what is asked for where nobody chose


class Tell(Protocol):
    """Sends a message to the caller; a ``seldom`` one only now and then. Says whether it went."""

    def __call__(self, message: Any, seldom: bool = False) -> bool: ...


Work = Callable[[Any, Tell], Any]  # of an item; what it returns is the reply


class WorkFailed(PivecError):
    """A worker ``died``, with ``code``, or its work raised something else than a `PivecError`."""

    died: bool = False
    code: int | None = None


@dataclass(frozen=True)
class Reply:
    """What came of an item: what was returned, or a failure."""

    item: Any
    content: Any = None
    failure: PivecError | None = None


@dataclass(frozen=True)
class Shared:
    """A value that workers are sent once, however many parts they work on."""

    value: Any


@dataclass(frozen=True)
class Task:
    """Work, and all that an engine has to know about its items.

    Attributes
    ----------
    work : function
        Called as ``work(item, tell)``, maybe elsewhere: it is at the top level of a module.
    on_message : function, optional
        Called here as ``on_message(item, message)`` for what ``tell`` sends. Of an item that is
        worked on again the same messages may come again.
    name : function
        What errors call an item.
    split : function, optional
        Cuts an item whose worker died into what is left of it, so that others are not lost to the
        one that ends its worker.
    apart : bool
        Whether each item needs a process of its own: its memory is measured, or it seeds what the
        whole process shares.
    parts : function
        Names what an item holds, for the error about one that cannot be sent elsewhere.
    remedy : str
        What that error advises.
    pinned : bool
        Whether each worker stays on its share of the cores.
    threads : int, optional
        Most threads of numerical libraries.
    log : function, optional
        File for an item's standard error, with ``apart``; otherwise its last line is kept.
    quiet : bool
        Whether what is printed there is not shown here.
    """

    work: Work
    on_message: Callable[[Any, Any], None] = lambda _item, _message: None
    name: Callable[[Any], str] = str
    split: Callable[[Any], Sequence[Any]] | None = None
    apart: bool = False
    parts: Callable[[Any], Iterable[tuple[str, Any]]] = lambda _: ()
    remedy: str = ""
    pinned: bool = False
    threads: int | None = None
    log: Callable[[Any], Path] | None = None
    quiet: bool = True


class Engine(ABC):
    """Runs pieces and parts of work; made by `using`."""

    n_workers: int = 1
    asked: tuple[str, int | None] = ("", None)  # what it was made for: name, and jobs

    def map(self, work: Work, items: Iterable[Any], **manner: Any) -> Iterator[Reply]:
        """Call ``work(item, tell)`` for each item; give replies as they come.

        ``manner`` are fields of `Task`. Items are taken when a worker is free. A failure is the
        reply of its item and does not stop the others. A worker that dies costs its item, which
        is worked on again, three times at most; what is warned of there is warned of here.
        Closing the iterator ends the work.
        """
        return self._map(Task(work, **manner), items)

    @abstractmethod
    def _map(self, task: Task, items: Iterable[Any]) -> Iterator[Reply]: ...

    def in_order(
        self, function: Callable[..., Any], parts: Iterable[Any], *arguments: Any
    ) -> Iterator[Any]:
        """Give ``function(part, *arguments)`` for one part after another.

        Arguments that are `Shared` come to the function as their values. In this process unless
        an engine has others: numerics use all its cores.
        """
        values = [a.value if isinstance(a, Shared) else a for a in arguments]
        for part in parts:
            yield function(part, *values)

    def sum(self, function: Callable[..., Any], parts: Iterable[Any], *arguments: Any) -> Any:
        """Add up what `in_order` gives, from the first part to the last."""
        return functools.reduce(operator.add, self.in_order(function, parts, *arguments))

    def share(self, value: Any) -> Shared:
        """Prepare an argument of many calls of `in_order`, to be sent once."""
        return Shared(value)

    def close(self) -> None:
        """End what was started for it."""
        return


_current: ContextVar[Engine | None] = ContextVar("pivec_engine", default=None)


def current() -> Engine:
    """Give the engine that `using` chose, or the serial one."""
    return _current.get() or make_engine("serial")


@contextmanager
def using(
    engine: str | Engine = "auto", jobs: int | None = None, *, default: str = "serial"
) -> Iterator[Engine]:
    """Choose where long work runs inside a ``with`` block.

    Parameters
    ----------
    engine : str or Engine
        ``serial`` is this process; ``processes`` are so many ``jobs`` on these cores, by default
        one a core; ``ray`` is the Ray cluster of ``RAY_ADDRESS``, or the one that runs on this
        machine, or a new one on these cores; ``ray:HOST:PORT`` that one. ``auto`` is what an outer
        block chose, or processes for several jobs.
    jobs : int, optional
        Workers side by side: speed, never the result. On a cluster all there are.
    default : str
        What ``auto`` is where nobody chose anything.

    Examples
    --------
    >>> with using("serial") as engine:
    ...     engine.sum(pow, [1, 2, 3], 2)
    14
    """
    outer = _current.get()
    if isinstance(engine, Engine):
        made, own = engine, False
    elif (
        outer is not None and outer.asked != _NOTHING and (engine, jobs) in (_NOTHING, outer.asked)
    ):
        made, own = outer, False
    else:
        made, own = make_engine(default if (engine, jobs) == _NOTHING else engine, jobs), True
        made.asked = engine, jobs
    token = _current.set(made)
    try:
        yield made
    finally:
        _current.reset(token)
        if own:
            made.close()


def on_engine(function: Called) -> Called:
    """Decorate a function whose call is inside `using` of its ``engine`` and ``jobs``.

    These are arguments of its own, or of options among its arguments.
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
        with ExitStack() as stack:
            for options in chosen:
                stack.enter_context(using(options.engine, options.jobs))
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def make_engine(name: str, jobs: int | None = None) -> Engine:
    """Make an engine by its name, as `using` takes it."""
    kind, _, address = name.partition(":")
    if kind not in NAMES or (address and kind != "ray"):
        raise UsageError(
            f"the engine must be auto, serial, processes or ray[:ADDRESS], but is {name!r}"
            f"{did_you_mean(kind, NAMES)}"
        )
    if jobs is not None and jobs < 1:
        raise UsageError(f"the number of jobs must be at least 1, but is {jobs}")
    if kind == "serial" and jobs not in (None, 1):
        raise UsageError(
            f"the engine serial is one job, but {jobs} are asked for: use --engine processes"
        )
    if kind == "ray":
        from pivec.parallel.ray_engine import RayEngine

        return RayEngine(address, jobs)
    if kind == "processes" or (jobs or 1) > 1:
        from pivec.parallel.processes import Processes

        return Processes(jobs or usable_cores())
    from pivec.parallel.serial import Serial

    return Serial()
