"""Where the work runs: the threads of this process, and processes beside it.

workers.py     one thread a core for numbered tasks, and one BLAS thread in each
processes.py   a function of many items in processes that end with their parent
child.py       what happens in such a process
compiled.py    Numba's compiler, with a cache where there can be one
devices.py     torch and its devices
"""
