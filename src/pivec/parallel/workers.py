"""One worker a core: threads that take numbered tasks until none is left."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from pivec.errors import UsageError

# What numerical libraries read, when they are loaded, to know how many threads they may use.
THREAD_VARIABLES = tuple(
    f"{library}_NUM_THREADS" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")
)

_chosen: ContextVar[int | None] = ContextVar("pivec_mixture_threads", default=None)


def usable_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def n_threads() -> int:
    """Give the number of workers: what `threads` chose, else the cores this process may use."""
    chosen = _chosen.get()
    return usable_cores() if chosen is None else chosen


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Choose the number of workers inside a ``with`` block.

    Examples
    --------
    >>> with threads(1):
    ...     n_threads()
    1
    """
    if n < 1:
        raise UsageError(f"the number of threads must be at least 1, but is {n}")
    token = _chosen.set(n)
    try:
        yield
    finally:
        _chosen.reset(token)


def run_tasks(work: Callable[[int], None], n_tasks: int) -> None:
    """Call ``work(i)`` once for every i below ``n_tasks``, on all workers, this thread included.

    Tasks are handed out as workers become free, so their results must not depend on which
    worker takes them. The first exception stops the handing out and is raised here.
    """
    tickets = itertools.count()
    failures: list[BaseException] = []

    def loop() -> None:
        while not failures and (i := next(tickets)) < n_tasks:
            try:
                work(i)
            except BaseException as failure:  # raised again by the caller's thread
                failures.append(failure)

    others = [
        threading.Thread(target=loop, name="pivec-worker", daemon=True)
        for _ in range(min(n_threads(), n_tasks) - 1)
    ]
    for thread in others:
        thread.start()
    try:
        loop()
        for thread in others:
            thread.join()
    except BaseException as interruption:  # Ctrl-C while waiting: let the workers run out first
        failures.append(interruption)
        for thread in others:
            thread.join()
    if failures:
        raise failures[0]


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def single_threaded_blas() -> AbstractContextManager[Any]:
    """One BLAS thread a worker: BLAS's own threads inside small products only wait."""
    limit: AbstractContextManager[Any] = _blas().limit(limits=1, user_api="blas")
    return limit
