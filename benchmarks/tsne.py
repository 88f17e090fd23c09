"""t-SNE of many policies: pivec's map against scikit-learn's TSNE, time and peak memory.

Each contender runs in a process of its own, so that its peak memory is its own. The data are
clusters of scaled supervectors; purity is the share of policies whose nearest neighbour on the map
is of their own cluster.

    python benchmarks/tsne.py                 30 000 policies of 1 536 values
    python benchmarks/tsne.py --rows 2000     a short run
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time

import numpy as np

CONTENDERS = ("pivec", "sklearn")


def make_vectors(rows: int, columns: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of runs that move through a space: float32, with the cluster of each row."""
    rng = np.random.default_rng(seed)
    n_groups = max(2, rows // 100)
    groups = np.arange(rows) % n_groups
    ends = rng.normal(size=(n_groups, columns)).astype(np.float32)
    vectors = ends[groups]
    along = (np.arange(rows) // n_groups / max(1, rows // n_groups - 1)).astype(np.float32)
    vectors *= (0.5 + 0.5 * along)[:, None]
    for start in range(0, rows, 1000):
        part = vectors[start : start + 1000]
        part += 0.3 * rng.normal(size=part.shape).astype(np.float32)
    return vectors, groups


def purity(positions: np.ndarray, groups: np.ndarray) -> float:
    from scipy.spatial import cKDTree

    nearest = cKDTree(positions).query(positions, k=2)[1][:, 1]
    return float(np.mean(groups[nearest] == groups))


def run_one(name: str, rows: int, columns: int) -> dict[str, object]:
    vectors, groups = make_vectors(rows, columns)
    before = peak_megabytes()
    start = time.perf_counter()
    if name == "pivec":
        from pivec.report import tsne_map

        positions = tsne_map(vectors).positions
    else:
        from sklearn.manifold import TSNE

        perplexity = min(30.0, (rows - 1) / 2)
        positions = TSNE(
            init="pca", perplexity=perplexity, random_state=0, n_jobs=-1
        ).fit_transform(vectors)
    seconds = time.perf_counter() - start
    return {
        "name": name,
        "rows": rows,
        "columns": columns,
        "seconds": round(seconds, 2),
        "peak_mb": round(peak_megabytes()),
        "peak_mb_above_data": round(peak_megabytes() - before),
        "purity": round(purity(positions, groups), 4),
    }


def peak_megabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--columns", type=int, default=1536)
    parser.add_argument("--only", choices=CONTENDERS)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(run_one(options.only, options.rows, options.columns)))
        return
    print(f"{options.rows} x {options.columns}, float32, {os.cpu_count()} cores")
    results = []
    for name in [options.only] if options.only else CONTENDERS:
        command = [sys.executable, __file__, "--inside", "--only", name]
        command += ["--rows", str(options.rows), "--columns", str(options.columns)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        results.append(json.loads(done.stdout.splitlines()[-1]))
        print("  ".join(f"{key} {value}" for key, value in results[-1].items()), flush=True)
    if len(results) == 2:
        ratio = results[1]["seconds"] / results[0]["seconds"]
        print(f"pivec takes 1/{ratio:.1f} of scikit-learn's time")


if __name__ == "__main__":
    main()
