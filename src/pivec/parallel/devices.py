"""Cores, threads and torch devices; importing this module does not import torch."""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pivec.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    import torch

# Number of threads of numerical libraries, which read it when they are imported.
THREAD_VARIABLES = tuple(
    f"{library}_NUM_THREADS" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")
)

_chosen: ContextVar[int | None] = ContextVar("pivec_mixture_threads", default=None)


def usable_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def shares_of_cores(jobs: int) -> list[list[int]]:
    """Divide the cores of this process among jobs; an empty share means all of them."""
    if jobs == 1 or not hasattr(os, "sched_getaffinity"):
        return [[] for _ in range(jobs)]
    cores = sorted(os.sched_getaffinity(0))
    return [[cores[i % len(cores)], *cores[i + jobs :: jobs]] for i in range(jobs)]


def n_threads() -> int:
    """Return the number of threads: what `threads` chose, else the cores this process may use."""
    chosen = _chosen.get()
    return usable_cores() if chosen is None else chosen


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Choose the number of threads inside a ``with`` block."""
    if n < 1:
        raise UsageError(f"the number of threads must be at least 1, but is {n}")
    token = _chosen.set(n)
    try:
        yield
    finally:
        _chosen.reset(token)


def run_tasks(work: Callable[[int], None], n_tasks: int) -> None:
    """Call ``work(i)`` once for every i below ``n_tasks``, in `n_threads` threads.

    Threads take the next task when they are free, so results must not depend on which thread runs
    a task. The first exception stops the others and is raised here.
    """
    tickets = itertools.count()
    failures: list[BaseException] = []

    def loop() -> None:
        while not failures and (i := next(tickets)) < n_tasks:
            try:
                work(i)
            except BaseException as failure:  # raised again in the caller's thread
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
    except BaseException as interruption:  # Ctrl-C while waiting: let running tasks finish first
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
    """Limit BLAS to one thread: more of them in small products only wait for each other."""
    limit: AbstractContextManager[Any] = _blas().limit(limits=1, user_api="blas")
    return limit


def require_torch(what: str) -> None:
    """Raise `MissingExtra` if torch, which ``what`` needs, is not installed."""
    if find_spec("torch") is None:
        raise MissingExtra(what, "torch")


@contextmanager
def single_threaded_torch() -> Iterator[None]:
    """Limit torch to one thread per operation."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def card_allocations() -> int:
    """Count memory allocations of this process on GPUs; it grows if work uses one."""
    torch = sys.modules.get("torch")  # without it there were none
    if torch is None or not torch.cuda.is_initialized():
        return 0
    cards = range(torch.cuda.device_count())
    return sum(torch.cuda.memory_stats(card)["allocation.all.allocated"] for card in cards)


def torch_device(name: str) -> torch.device:
    """Return the device "cpu" or "cuda"; "auto" is the GPU if there is one."""
    require_torch(f'device="{name}"')
    import torch

    there = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if there else "cpu")
    if name not in ("cpu", "cuda"):
        raise UsageError(f'device must be "cpu", "cuda" or "auto", but is {name!r}')
    if name == "cuda" and not there:
        raise UsageError(
            'device="cuda" needs a GPU that torch can use, but there is none: use device="cpu"'
        )
    return torch.device(name)
