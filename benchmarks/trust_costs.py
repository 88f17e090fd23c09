"""Time and memory of intervals beside describing, and the time of a test."""

from __future__ import annotations

import time
from typing import Any

from measure import in_process, mark_memory, serve

POLICIES, EPISODES, STATES, FEATURES = 1000, 100, 100, 24


def intervals(influences: bool) -> dict[str, Any]:
    """Describe many policies, and measure all their intervals if these are asked for."""
    import numpy as np

    from pivec import VisitedStates, characterization

    rng = np.random.default_rng(0)
    policies = []
    for _ in range(POLICIES):
        place = rng.normal(0, 1, FEATURES).astype(np.float32)
        states = rng.standard_normal((EPISODES, STATES, FEATURES), dtype=np.float32) + place
        policies.append(list(states))
    data = VisitedStates.from_arrays(policies)
    del policies
    method = characterization("visitation", max_states=200_000).fit(data)
    method.describe(data[:2], influences=influences)  # compiles
    mark_memory()
    start = time.perf_counter()
    described = method.describe(data, influences=influences)
    seconds = {"describe": time.perf_counter() - start}
    if influences:
        method.intervals(described)
        seconds["all"] = time.perf_counter() - start
    return seconds


def test() -> dict[str, Any]:
    """Seconds of a permutation test of 100 + 100 episodes, 999 permutations."""
    import numpy as np

    from pivec import VisitedStates, characterization

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
    return {
        "describe": in_process(__file__, "intervals", {"influences": False}),
        "intervals": in_process(__file__, "intervals", {"influences": True}),
        "test": in_process(__file__, "test"),
    }


if __name__ == "__main__" and not serve({"intervals": intervals, "test": test}):
    print(measure())
