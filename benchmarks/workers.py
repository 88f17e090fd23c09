"""Starting two local workers: pivec's engine, loky's executor and concurrent.futures.

    python benchmarks/workers.py

Each time is that of a fresh Python process from importing the library until two items have been
computed by two workers. pivec starts its own processes because of this time, and because a worker
that dies must cost only its own item: both executors give up everything that is in flight.
"""

from __future__ import annotations

import statistics
import time
from multiprocessing import get_context

from measure import in_process, serve, write_section

REPEATS = 7


def item(number: int, *_: object) -> int:
    return number + 1


def with_pivec() -> dict[str, float]:
    begin = time.perf_counter()
    from pivec.parallel import using

    with using("processes", jobs=2) as engine:
        assert sorted(reply.content for reply in engine.map(item, [1, 2])) == [2, 3]
    return {"seconds": time.perf_counter() - begin}


def with_loky() -> dict[str, float]:
    begin = time.perf_counter()
    from joblib.externals.loky import ProcessPoolExecutor

    with ProcessPoolExecutor(2) as pool:
        assert list(pool.map(item, [1, 2])) == [2, 3]
    return {"seconds": time.perf_counter() - begin}


def with_futures() -> dict[str, float]:
    begin = time.perf_counter()
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert list(pool.map(item, [1, 2])) == [2, 3]
    return {"seconds": time.perf_counter() - begin}


PARTS = {
    "pivec": with_pivec,
    "loky (joblib's)": with_loky,
    "concurrent.futures, spawn": with_futures,
}


def main() -> None:
    runs = [{name: in_process(__file__, name) for name in PARTS} for _ in range(REPEATS)]
    lines = [
        "| | seconds, median | relative to pivec | memory of the parent, MB |",
        "| --- | --- | --- | --- |",
    ]
    own = statistics.median(run["pivec"]["seconds"] for run in runs)
    for name in PARTS:
        seconds = statistics.median(run[name]["seconds"] for run in runs)
        memory = statistics.median(run[name]["peak_mb"] for run in runs)
        lines.append(f"| {name} | {seconds:.2f} | {seconds / own:.1f} | {memory:.0f} |")
    write_section("local-workers", "\n".join(lines))


if __name__ == "__main__":
    if not serve(PARTS):
        main()
