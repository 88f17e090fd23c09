"""Forward passes of 100 stacked networks of 64-64, against NumPy's products in tiles of 16 rows.

The tiles, tanh and all, are what pivec did before: BLAS then sees one size only, but what it gives
a row still depends on the row's place in a tile.
"""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np

from measure import write_section
from pivec.parallel import single_threaded_blas
from pivec.policies import NetworkPolicy, Stack

SLOTS, TILE = 100, 16


def kernel(sizes, lanes, rng):
    def network():
        layers = [(rng.normal(size=s) / 8, rng.normal(size=s[1])) for s in pairwise(sizes)]
        return NetworkPolicy(tuple(layers), "tanh", "deterministic")

    stack = Stack(SLOTS, lanes, network())
    for slot in range(SLOTS):
        stack.put(slot, network())
    return stack.outputs


def tiles(sizes, lanes, rng):
    n = -(-lanes // TILE)
    weights = [rng.normal(size=(SLOTS, 1, *s)).astype(np.float32) / 8 for s in pairwise(sizes)]
    biases = [rng.normal(size=(SLOTS, 1, TILE, s[1])).astype(np.float32) for s in pairwise(sizes)]
    values = [np.zeros((SLOTS, n, TILE, width), np.float32) for width in sizes]

    def run(observations):
        values[0].reshape(SLOTS, n * TILE, -1)[:, :lanes] = observations
        for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            np.matmul(values[i], weight, out=values[i + 1])
            values[i + 1] += bias
            if i < len(weights) - 1:
                np.tanh(values[i + 1], out=values[i + 1])

    return run


def microseconds(run, observations, tries=50):
    """The fastest of some tries: others may be using the machine."""
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        run(observations)
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


def main() -> None:
    rng = np.random.default_rng(0)
    lines = [
        f"{SLOTS} networks answer so many rows each, tanh between the layers, one thread:",
        "",
        "| layers | rows | kernel | tiles of 16 | ratio |",
        "| --- | --- | --- | --- | --- |",
    ]
    for sizes in ((4, 64, 64, 2), (24, 64, 64, 4)):
        for lanes in (1, 7, 20, 100):
            rows = rng.normal(size=(SLOTS, lanes, sizes[0])).astype(np.float32)
            with single_threaded_blas():
                ours, theirs = (
                    microseconds(make(sizes, lanes, rng), rows) for make in (kernel, tiles)
                )
            name = "-".join(map(str, sizes))
            lines.append(
                f"| {name} | {lanes} | {ours:.0f} µs | {theirs:.0f} µs | {theirs / ours:.1f} |"
            )
    write_section("forward", "\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
