"""Where work runs: in threads of this process, in local processes, or on a Ray cluster.

engine.py      `using` and `current`; what an engine does with items and parts; the serial engine
processes.py   the engine of local processes
ray_engine.py  the engine of a Ray cluster
devices.py     cores, threads for numbered tasks, torch devices
compiled.py    Numba's compiler, with a cache if a folder for it can be written
"""

from __future__ import annotations

from pivec.parallel.devices import (
    THREAD_VARIABLES,
    card_allocations,
    n_threads,
    require_torch,
    run_tasks,
    single_threaded_blas,
    single_threaded_torch,
    threads,
    torch_device,
    usable_cores,
)
from pivec.parallel.engine import (
    Engine,
    Reply,
    Shared,
    Tell,
    Work,
    WorkFailed,
    current,
    make_engine,
    on_engine,
    using,
)
from pivec.parallel.processes import ask

__all__ = [
    "THREAD_VARIABLES",
    "Engine",
    "Reply",
    "Shared",
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
    "threads",
    "torch_device",
    "usable_cores",
    "using",
]
