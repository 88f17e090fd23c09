"""Where the work runs: this process and its threads, processes beside it, a Ray cluster.

engine.py      `using` and `current`: pieces that do not need each other, parts in their order
pieces.py      what the engines share: items that wait, messages, failures
serial.py      one item after another in this process
processes.py   items in processes that end with their parent
child.py       what happens in such a process
ray_engine.py  items on a cluster
workers.py     one thread a core for numbered tasks, and one BLAS thread in each
compiled.py    Numba's compiler, with a cache where there can be one
devices.py     torch and its devices
"""

from __future__ import annotations

from pivec.parallel.devices import (
    card_allocations,
    require_torch,
    single_threaded_torch,
    torch_device,
)
from pivec.parallel.engine import (
    Engine,
    Tell,
    Work,
    WorkFailed,
    current,
    make_engine,
    on_engine,
    using,
)
from pivec.parallel.processes import ask, start
from pivec.parallel.workers import n_threads, run_tasks, single_threaded_blas, threads, usable_cores

__all__ = [
    "Engine",
    "Tell",
    "Work",
    "WorkFailed",
    "ask",
    "card_allocations",
    "current",
    "make_engine",
    "n_threads",
    "on_engine",
    "require_torch",
    "run_tasks",
    "single_threaded_blas",
    "single_threaded_torch",
    "start",
    "threads",
    "torch_device",
    "usable_cores",
    "using",
]
