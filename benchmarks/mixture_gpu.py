"""The background model on a graphics card: right to float64, and how fast.

    PYTHONPATH=src python benchmarks/mixture_gpu.py [--states 10000000] [--write]

Needs torch with CUDA (and Triton for the fused kernel) and NumPy, nothing else. Times of a pass
are medians by CUDA events, with states on the card; a whole fit starts from states in main memory
and includes bringing them there. ``--write`` puts the table into RESULTS.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import mixture_data
from measure import table, write_section
from pivec.mixtures import ArraySource, Mixture, fit_mixture, numpy_kernel
from pivec.mixtures.torch_kernel import TorchKernel
from pivec.statistics import squared_euclidean_tensor

COMPONENTS, FEATURES = mixture_data.COMPONENTS, 24


def model(states: np.ndarray, narrow: bool) -> Mixture:
    """A mixture on these states; narrow ones sit on the spikes with the least variance."""
    rng = np.random.default_rng(0)
    wide = states[:100_000].astype(np.float64)
    center, scale = wide.mean(axis=0), wide.std(axis=0)
    chosen = wide[rng.choice(len(wide), COMPONENTS, replace=False)]
    variances = rng.uniform(0.05, 0.4, size=(COMPONENTS, FEATURES))
    if narrow:
        variances[::2, : FEATURES // 3] = 1e-6
    weights = rng.dirichlet(np.full(COMPONENTS, 5.0))
    return Mixture(weights, (chosen - center) / scale, variances, center, scale)


def worst_error(got: Any, expected: Any) -> float:
    """Largest error of any statistic, relative to the states that a component has."""
    seen = expected.counts > 1
    n = expected.counts[seen, None]
    counts = np.abs(got.counts[seen] / expected.counts[seen] - 1).max()
    sums = (np.abs(got.sums - expected.sums)[seen] / n).max()
    larger = np.maximum(n, expected.squares[seen])
    squares = (np.abs(got.squares - expected.squares)[seen] / larger).max()
    likelihood = abs(got.log_likelihood - expected.log_likelihood) / expected.n_states
    return float(max(counts, sums, squares, likelihood))


def milliseconds(work: Callable[[], Any], times: int = 11) -> float:
    """Median time of a work by CUDA events."""
    work()
    torch.cuda.synchronize()
    measured = []
    for _ in range(times):
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        measured.append(start.elapsed_time(end))
    return float(np.median(measured))


def repeated(states: np.ndarray, n: int) -> np.ndarray:
    """So many states in main memory, in page-aligned pieces of the given ones."""
    return np.tile(states, (-(-n // len(states)), 1))[:n]


def distances(n: int = 30_000, values: int = 1536) -> list[list[Any]]:
    """All distances of many supervectors, on the card, and their worst relative error."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(50, values))[rng.integers(50, size=n)]
    points += 0.3 * rng.normal(size=points.shape)
    twins = np.arange(0, n - 1, 100)
    points[twins + 1] = points[twins] + 1e-4 * rng.normal(size=(len(twins), values))
    held = torch.as_tensor(points, device="cuda")
    took = milliseconds(lambda: squared_euclidean_tensor(held, held), times=5)
    result = squared_euclidean_tensor(held, held)
    i = np.concatenate([rng.integers(n, size=5000), twins])
    j = np.concatenate([rng.integers(n, size=5000), twins + 1])
    i, j = i[i != j], j[i != j]
    exact = ((points[i].astype(np.longdouble) - points[j]) ** 2).sum(axis=1)
    found = result[torch.as_tensor(i, device="cuda"), torch.as_tensor(j, device="cuda")]
    error = float(np.abs(found.cpu().numpy() / exact - 1).max())
    return [
        [f"distances of {n:,} × {values}", f"{took:.0f} ms", "< 100 ms"],
        ["their worst relative error, nearly equal pairs too", f"{error:.1e}", "≤ 1e-5"],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--states", type=int, default=10_000_000)
    parser.add_argument("--write", action="store_true", help="write into RESULTS.md")
    options = parser.parse_args()
    kernels = {"fused (Triton)": TorchKernel("cuda"), "plain torch": TorchKernel("cuda", False)}
    smooth, spikes = mixture_data.clusters(1_000_000, FEATURES), mixture_data.spiky(1_000_000)
    rows: list[list[Any]] = []
    for data, states in (("clusters", smooth), ("spiky", spikes)):
        mixture = model(states, narrow=data == "spiky")
        expected = numpy_kernel.accumulate(states, mixture)
        for name, kernel in kernels.items():
            error = worst_error(kernel.accumulate(states, mixture), expected)
            hard = worst_error(
                kernel.accumulate(states, mixture, hard=True),
                numpy_kernel.accumulate(states, mixture, hard=True),
            )
            rows.append([f"error against float64, {data}, {name}", f"{error:.1e}", "≤ 1e-5"])
            rows.append([f"the same, hard assignments, {name}", f"{hard:.1e}", "≤ 1e-5"])
    many = repeated(smooth, options.states)
    mixture = model(smooth, narrow=False)
    for name, kernel in kernels.items():
        held = kernel.hold(ArraySource(many))
        seconds = milliseconds(lambda k=kernel, h=held: k.accumulate(h, mixture))
        rows.append([f"pass, {options.states:,} × {FEATURES}, {name}", f"{seconds:.1f} ms", ""])
        del held
    rows[-2][2] = "≤ 10 ms"
    fit_mixture(many[:100_000], COMPONENTS, device="cuda")
    times = []
    for seed in range(3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = fit_mixture(many, COMPONENTS, device="cuda", random_state=seed)
        times.append(time.perf_counter() - start)
    rows.append(["whole fit from main memory, mean of 3", f"{np.mean(times):.2f} s", "< 0.5 s"])
    passes = f"{result.n_iter} passes, {result.history[-1]:.3f} nats a state"
    rows.append(["last fit", passes, ""])
    rows += distances()
    peak = torch.cuda.max_memory_allocated() / 1e9
    rows.append(["most memory on the card", f"{peak:.1f} GB", ""])
    text = (
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {COMPONENTS} components.\n\n"
    )
    text += table(["work", "measured", "to reach"], rows)
    print(text)
    if options.write:
        write_section("mixture-gpu", text)


if __name__ == "__main__":
    main()
