"""All distances of many supervectors against SciPy's cdist, which is timed on what it can do."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from measure import in_process, serve, write_section

VALUES = 1536
PEER_ROWS = 1000  # of cdist, whose time grows in proportion to its rows


def points(n: int) -> np.ndarray:
    """Supervectors of n policies, of which every hundredth pair nearly coincides."""
    rng = np.random.default_rng(0)
    groups = rng.normal(size=(50, VALUES))
    x = groups[rng.integers(50, size=n)] + 0.3 * rng.normal(size=(n, VALUES))
    twins = np.arange(0, n - 1, 100)
    x[twins + 1] = x[twins] + 1e-4 * rng.normal(size=(len(twins), VALUES))
    return x


def ours(n: int) -> dict[str, float]:
    from pivec.statistics import squared_euclidean

    x = points(n)
    squared_euclidean(x[:2048])
    start = time.perf_counter()
    d = squared_euclidean(x)
    seconds = time.perf_counter() - start
    rng = np.random.default_rng(1)
    i, j = rng.integers(n, size=(2, 20_000))
    twins = np.arange(0, n - 1, 100)
    i, j = np.concatenate([i, twins]), np.concatenate([j, twins + 1])
    i, j = i[i != j], j[i != j]
    error = 0.0
    for a in range(0, len(i), 500):
        gap = x[i[a : a + 500]].astype(np.longdouble) - x[j[a : a + 500]]
        exact = (gap**2).sum(axis=1)
        error = max(error, float(np.abs(d[i[a : a + 500], j[a : a + 500]] / exact - 1).max()))
    smallest = float(d[twins, twins + 1].min() / np.median(d[:100]))
    return {"seconds": seconds, "error": error, "smallest": smallest}


def mapped(n: int) -> dict[str, float]:
    """The whole matrix in a file, and the k nearest of each without it."""
    from pivec.statistics import squared_euclidean

    x = points(n)
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent / "data") as folder:
        out = np.lib.format.open_memmap(Path(folder) / "d.npy", "w+", np.float64, (n, n))
        start = time.perf_counter()
        squared_euclidean(x, out=out)
        seconds = time.perf_counter() - start
    return {"seconds": seconds}


def nearest(n: int) -> dict[str, float]:
    """Exactly the 20 nearest of each, the notable pairs and the travels, by rows."""
    from pivec.characterizations import Supervector, measure
    from pivec.states import VisitedStates

    x = points(n)
    data = VisitedStates.from_arrays([[np.random.default_rng(0).normal(size=(50, 2))]])
    method = Supervector(2).fit(data)
    described = method.describe(data)
    many = type(described)(
        described.method,
        tuple(described.policies[0].__class__(str(i)) for i in range(n)),
        None,
        x,
        {},
        *(np.zeros(n) for _ in range(4)),
    )
    start = time.perf_counter()
    measure(method, many)
    return {"seconds": time.perf_counter() - start}


def peer(n: int) -> dict[str, float]:
    from scipy.spatial.distance import cdist

    x = points(n)
    rows = min(PEER_ROWS, n)
    start = time.perf_counter()
    cdist(x[:rows], x, "sqeuclidean")
    return {"seconds": (time.perf_counter() - start) * n / rows}


PARTS = {
    f"{name}:{n}": (lambda work=work, n=n: work(n))
    for name, work in (("ours", ours), ("peer", peer), ("mapped", mapped), ("nearest", nearest))
    for n in (5000, 30_000)
}


def main() -> None:
    (Path(__file__).parent / "data").mkdir(exist_ok=True)
    lines = [
        f"All distances of n supervectors × {VALUES} values; cdist timed on {PEER_ROWS} rows.",
        "",
        "| n | pivec s | cdist s | ratio | worst relative error | nearest / median | peak MB |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for n in (5000, 30_000):
        runs = [(in_process(__file__, f"ours:{n}"), in_process(__file__, f"peer:{n}"))]
        if n < 10_000:
            runs += [(in_process(__file__, f"ours:{n}"), in_process(__file__, f"peer:{n}"))]
        mine = min((run for run, _ in runs), key=lambda r: r["seconds"])
        theirs = min((run for _, run in runs), key=lambda r: r["seconds"])
        lines.append(
            f"| {n} | {mine['seconds']:.2f} | {theirs['seconds']:.1f} | "
            f"{theirs['seconds'] / mine['seconds']:.1f} | {mine['error']:.1e} | "
            f"{mine['smallest']:.1e} | {mine['peak_mb']:.0f} |"
        )
    for title, part in (("into a memory-mapped file", "mapped"), ("20 nearest of each", "nearest")):
        r = in_process(__file__, f"{part}:30000")
        lines += ["", f"30 000, {title}: {r['seconds']:.1f} s, peak {r['peak_mb']:.0f} MB."]
    write_section("distances", "\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__" and not serve(PARTS):
    main()
