"""Where the work runs: this process and its threads, processes beside it, a Ray cluster.

engine.py      `using` and `current`: pieces that do not need each other, parts in their order
pieces.py      what the engines share: items that wait, messages, failures
serial.py      one item after another in this process
processes.py   items in processes that end with their parent
child.py       what happens in such a process
ray_engine.py  items on a cluster
offered.py     what the driver lets workers on other machines read
files.py       the driver's files and folders in a worker that may not see them
source.py      how such a worker finds them, here or by asking
shelf.py       the folder in which such a worker keeps copies
modules.py     the driver's modules in such a worker
ray_files.py   the same on a cluster
workers.py     one thread a core for numbered tasks, and one BLAS thread in each
compiled.py    Numba's compiler, with a cache where there can be one
devices.py     torch and its devices
"""
