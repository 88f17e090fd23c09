"""Time and memory of intervals beside describing, and the time of a test."""

from __future__ import annotations

import time
from typing import Any

from measure import in_process, mark_memory, serve

POLICIES, EPISODES, STATES, FEATURES = 1000, 100, 100, 24


def intervals() -> dict[str, Any]:
    """Describe many policies; then describe them with influences and measure all intervals."""
    import numpy as np

    from pivec.characterizations import characterization
    from pivec.states import VisitedStates

    rng = np.random.default_rng(0)
    states = rng.standard_normal((POLICIES, EPISODES * STATES, FEATURES), dtype=np.float32)
    states += rng.standard_normal((POLICIES, 1, FEATURES), dtype=np.float32)
    data = VisitedStates.from_arrays([np.split(walk, EPISODES) for walk in states])
    del states
    method = characterization("visitation", max_states=100_000, max_iter=5).fit(data)
    method.intervals(data[:3])  # compiles
    mark_memory()
    start = time.perf_counter()
    method.describe(data)
    middle = time.perf_counter()
    method.intervals(method.describe(data, influences=True))
    return {"describe": middle - start, "intervals": time.perf_counter() - middle}


def test() -> dict[str, Any]:
    """Seconds of a permutation test of 100 + 100 episodes, 999 permutations."""
    import numpy as np

    from pivec.characterizations import characterization
    from pivec.states import VisitedStates

    rng = np.random.default_rng(0)
    walks = rng.standard_normal((2, 100, 200, 4)).astype(np.float32).cumsum(axis=2)
    data = VisitedStates.from_arrays([list(walk) for walk in walks])
    method = characterization("visitation").fit(data)
    a, b = data[0], data[1]
    method.test(a, b)
    times = []
    for _ in range(9):
        start = time.perf_counter()
        method.test(a, b)
        times.append(time.perf_counter() - start)
    return {"seconds": sorted(times)[len(times) // 2]}


def measure() -> dict[str, Any]:
    """Each in a process of its own, whose memory is its own."""
    return {"intervals": in_process(__file__, "intervals"), "test": in_process(__file__, "test")}


if __name__ == "__main__" and not serve({"intervals": intervals, "test": test}):
    print(measure())
