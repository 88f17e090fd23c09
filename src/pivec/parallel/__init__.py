"""Where work runs: in threads of this process, in local processes, or on a Ray cluster.

engine.py      `using` and `current`; what an engine does with items and parts; the serial engine
processes.py   the engine of local processes
ray_engine.py  the engine of a Ray cluster
devices.py     cores, threads for numbered tasks, torch devices
compiled.py    Numba's compiler, with a cache if a folder for it can be written
"""

from __future__ import annotations

from pivec.parallel.devices import THREAD_VARIABLES as THREAD_VARIABLES
from pivec.parallel.devices import card_allocations as card_allocations
from pivec.parallel.devices import n_threads as n_threads
from pivec.parallel.devices import require_torch as require_torch
from pivec.parallel.devices import run_tasks as run_tasks
from pivec.parallel.devices import shares_of_cores as shares_of_cores
from pivec.parallel.devices import single_threaded_blas as single_threaded_blas
from pivec.parallel.devices import single_threaded_torch as single_threaded_torch
from pivec.parallel.devices import threads as threads
from pivec.parallel.devices import torch_device as torch_device
from pivec.parallel.devices import usable_cores as usable_cores
from pivec.parallel.engine import Engine as Engine
from pivec.parallel.engine import Reply as Reply
from pivec.parallel.engine import Shared as Shared
from pivec.parallel.engine import Tell as Tell
from pivec.parallel.engine import Work as Work
from pivec.parallel.engine import WorkFailed as WorkFailed
from pivec.parallel.engine import ask as ask
from pivec.parallel.engine import current as current
from pivec.parallel.engine import make_engine as make_engine
from pivec.parallel.engine import on_engine as on_engine
from pivec.parallel.engine import using as using
