"""Where the work runs: the threads of this process, and processes beside it.

workers.py    one thread a core for numbered tasks, and one BLAS thread in each
compiled.py   Numba's compiler, with a cache where there can be one
children.py   processes that end with their parent
"""
