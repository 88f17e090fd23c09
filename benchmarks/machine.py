"""How fast this machine is at what a pass of EM is made of: products, exponentials, memory.

A pass over N states with K components and D features needs 4·N·K·D multiply-adds (one product
each for [x², x] in the E-step and in the M-step), N·K exponentials and one reading of the states.
The roofline is the time in which the machine does that many of each, measured on large, easy
problems in the cache with all cores at once; reading overlaps with computing.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from measure import in_process, serve


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def rate(make: Callable[[], Callable[[], Any]], amount: float, seconds: float = 0.6) -> float:
    """Amount of work a second, all cores doing the same at once; the best of many short runs."""
    works = [make() for _ in range(cores())]
    for work in works:
        work()
    best = np.inf
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        gate = threading.Barrier(len(works))
        times: list[tuple[float, float]] = []

        def one(work: Callable[[], Any], gate: Any = gate, times: Any = times) -> None:
            gate.wait()
            start = time.perf_counter()
            work()
            times.append((start, time.perf_counter()))

        team = [threading.Thread(target=one, args=(work,)) for work in works]
        for member in team:
            member.start()
        for member in team:
            member.join()
        best = min(best, max(t[1] for t in times) - min(t[0] for t in times))
    return len(works) * amount / best


def product() -> Callable[[], Any]:
    """A float32 product of BLAS at its best size, eight times over."""
    a = np.random.default_rng(0).random((1024, 1024), dtype=np.float32)
    out = np.empty_like(a)

    def work() -> None:
        for _ in range(8):
            np.matmul(a, a, out=out)

    return work


def numpy_exponential() -> Callable[[], Any]:
    x = -np.random.default_rng(0).random(1 << 14, dtype=np.float32)
    out = np.empty_like(x)

    def work() -> None:
        for _ in range(400):
            np.exp(x, out=out)

    return work


def compiled_exponential() -> Callable[[], Any]:
    """The polynomial of the kernel, by itself."""
    import numba

    from pivec.mixtures.numba_kernel import exp2

    @numba.njit(nogil=True)
    def many(x: Any, out: Any, times: int) -> None:
        for _ in range(times):
            for i in range(len(x)):
                out[i] = exp2(x[i])

    x = -np.random.default_rng(0).random(1 << 12, dtype=np.float32)
    out = np.empty_like(x)
    many(x, out, 1)
    return lambda: many(x, out, 1600)


def reading() -> Callable[[], Any]:
    """Reads 128 MB that no cache holds."""
    x = np.ones(1 << 25, dtype=np.float32)
    return lambda: np.dot(x, x)


def speeds() -> dict[str, float]:
    """Multiply-adds, exponentials and bytes a second, on all cores."""
    return {
        "multiply_adds": rate(product, 8 * 1024.0**3),
        "exponentials": max(
            rate(numpy_exponential, 400.0 * (1 << 14)),
            rate(compiled_exponential, 1600.0 * (1 << 12)),
        ),
        "bytes": rate(reading, 4.0 * (1 << 25)),
    }


def measured_speeds() -> dict[str, float]:
    """Measure in a process of its own, because BLAS takes its number of threads when it loads."""
    return in_process(__file__, "speeds", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")


def roofline(speed: dict[str, float], n: int, n_components: int, n_features: int) -> float:
    """Least seconds of a pass on a machine of that speed."""
    computing = (
        4 * n * n_components * n_features / speed["multiply_adds"]
        + n * n_components / speed["exponentials"]
    )
    return max(computing, 4 * n * n_features / speed["bytes"])


def versions() -> str:
    """Versions of what the benchmarks compare."""
    from importlib.metadata import version

    names = ("numpy", "numba", "scikit-learn", "scipy")
    return ", ".join([f"Python {platform.python_version()}"] + [f"{n} {version(n)}" for n in names])


if __name__ == "__main__" and not serve({"speeds": speeds}):
    print(json.dumps(measured_speeds(), indent=2))
