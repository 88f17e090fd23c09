"""What happens in a Ray worker: an item whose messages travel while it is worked on, or a part."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import tempfile
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import metadata
from queue import SimpleQueue
from typing import Any, BinaryIO

from pivec.errors import PivecError, PivecWarning
from pivec.parallel.pieces import Failure, Teller, in_words
from pivec.parallel.workers import single_threaded_blas, threads
from pivec.terminal import Notice, Notices

_KEPT = 4  # shared values that a worker keeps
# Other versions of these on another machine may give other numbers.
PACKAGES = ("gymnasium", "numba", "numpy", "scikit-learn", "scipy", "torch", "mujoco", "envpool")

_values: OrderedDict[str, Any] = OrderedDict()


@dataclass(frozen=True)
class Row:
    """What comes from a worker: a message, or the end of an item or part."""

    content: Any = None
    finished: bool = True
    failure: Failure | None = None
    notices: list[Notice] = field(default_factory=list)
    printed: bytes = b""  # for the item's log
    lost: bool = False  # a shared value could not be had
    node: str = ""  # where an item is worked on, as the first row tells


@dataclass(frozen=True)
class Place:
    """Stands for the shared value of this number among the arguments."""

    number: int


def versions() -> dict[str, str]:
    """Give the versions of what numbers may depend on, as far as it is installed."""
    known = {}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            known[name] = metadata.version(name)
    return known


@functools.cache
def _thread() -> ThreadPoolExecutor:
    """Make the one thread for items: what libraries keep for a thread stays valid."""
    return ThreadPoolExecutor(1, "pivec-work")


def piece(session: dict[str, Any], content: bytes) -> Iterator[bytes]:
    """Work on an item in a thread, and give its messages while it does, then the last row."""
    import ray

    yield _packed(Row(finished=False, node=ray.get_runtime_context().get_node_id()))
    rows: SimpleQueue[bytes | None] = SimpleQueue()
    _thread().submit(_work, session, content, rows)
    while (row := rows.get()) is not None:
        yield row


def _work(session: dict[str, Any], content: bytes, rows: SimpleQueue[bytes | None]) -> None:
    logged = session["logged"]
    try:
        with _manner(session) as notices, _printed(logged) as printed:

            def send(content: Any, finished: bool = False, failure: Failure | None = None) -> None:
                kept = [notice for notice in notices.take() if notice.own or not logged]
                rows.put(_packed(Row(content, finished, failure, kept, printed())))

            try:
                function, item = _unpacked(content)
                send(function(item, Teller(send)), finished=True)
            except Exception as error:
                failure = in_words(error)
                if logged and not isinstance(error, PivecError):
                    print(failure[-1], file=sys.stderr)  # noqa: T201
                send(None, finished=True, failure=failure)
    except BaseException as error:  # sys.exit, for one, which would end this thread alone
        failure = type(error).__name__, str(error), ""
        rows.put(_packed(Row(failure=failure)))
    finally:
        rows.put(None)


def part(session: dict[str, Any], content: bytes, shared: list[tuple[str, Any]]) -> bytes:
    """Call a function with a part and its arguments, and give what it returns."""
    from ray.exceptions import RayError

    with _manner(session) as notices:
        try:
            values = [_shared(*row) for row in shared]
        except RayError:
            return _packed(Row(lost=True))
        try:
            function, arguments = values[0]
            taken = [values[a.number] if isinstance(a, Place) else a for a in arguments]
            result = function(_unpacked(content), *taken)
            return _packed(Row(result, notices=notices.take()))
        except Exception as error:
            return _packed(Row(failure=in_words(error), notices=notices.take()))


def _shared(key: str, reference: Any) -> Any:
    """Give a shared value, which stays here for the next parts."""
    import ray

    if key not in _values:
        _values[key] = ray.get(reference)
        while len(_values) > _KEPT:
            _values.popitem(last=False)
    _values.move_to_end(key)
    return _values[key]


@contextlib.contextmanager
def _manner(session: dict[str, Any]) -> Iterator[Notices]:
    """One core per worker; warnings are sent to the driver."""
    with Notices(_log if session["logged"] else lambda _: None) as notices:
        _compare(session["versions"])
        n = session["threads"]
        with threads(n), single_threaded_blas() if n == 1 else contextlib.nullcontext():
            yield notices


def _log(notice: Notice) -> None:
    print(f"{notice.kind}: {notice.text}", file=sys.stderr)  # noqa: T201


def _compare(here: dict[str, str]) -> None:
    """Warn, once in this process, of packages that differ from the driver's."""
    if _compared:
        return
    _compared.append(True)
    there = versions()
    differ = [
        f"{name} {there.get(name, 'missing')} ({version} here)"
        for name, version in here.items()
        if name in PACKAGES and there.get(name) != version
    ]
    if differ:
        message = f"a Ray worker has {', '.join(differ)}: numbers may differ between machines"
        warnings.warn(message, PivecWarning, stacklevel=2)


_compared: list[bool] = []


@contextlib.contextmanager
def _printed(logged: bool) -> Iterator[Any]:
    """Collect what is printed, and give a function that returns what is new."""
    if not logged:
        yield lambda: b""
        return
    with tempfile.TemporaryFile() as file, contextlib.ExitStack() as after:
        for number in (1, 2):
            after.callback(os.dup2, os.dup(number), number)  # the copies end with this process
            os.dup2(file.fileno(), number)
        yield functools.partial(_new, file, [0])


def _new(file: BinaryIO, start: list[int]) -> bytes:
    sys.stdout.flush()
    sys.stderr.flush()
    text = os.pread(file.fileno(), os.fstat(file.fileno()).st_size - start[0], start[0])
    start[0] += len(text)
    return text


def _packed(value: Any) -> bytes:
    from ray import cloudpickle

    packed: bytes = cloudpickle.dumps(value)
    return packed


def _unpacked(content: bytes) -> Any:
    from ray import cloudpickle

    return cloudpickle.loads(content)
