"""The background model against scikit-learn: one pass, whole fits, memory, adaptation, growth.

    python benchmarks/mixture.py [--quick] [--only pass|fit|memory|adapt|scaling]

Every engine works in a process of its own, in turn with its peers; the best of several runs
counts. What was measured is kept in benchmarks/data/, so that a section can be repeated alone;
the page is written from all that is there. Targets are those of the project; a row that misses
one is marked.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import machine
import mixture_data
import mixture_report
from measure import alternately, in_process, mark_memory, serve, write_section

COMPONENTS = mixture_data.COMPONENTS
PEER_SEEDS = 1  # a fit of scikit-learn takes minutes
KEPT = mixture_data.DATA / "mixture_results.json"


# ---- parts, each run in a process of its own ------------------------------------------------


def _model(n_features: int, n_components: int = COMPONENTS) -> Any:
    """A mixture somewhere in the synthetic data, with overlap as in a fit."""
    from pivec.mixtures import Mixture

    rng = np.random.default_rng(1)
    sample = mixture_data.clusters(max(10_000, n_components), n_features).astype(np.float64)
    center, scale = sample.mean(axis=0), sample.std(axis=0)
    means = (sample[rng.choice(len(sample), n_components, replace=False)] - center) / scale
    variances = np.full(means.shape, 0.15)
    return Mixture(np.full(n_components, 1 / n_components), means, variances, center, scale)


def _least(work: Callable[[], Any], times: int) -> float:
    best = np.inf
    for _ in range(times):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def our_pass(
    n: int, n_features: int, device: str, times: int = 4, n_components: int = COMPONENTS
) -> dict[str, Any]:
    from pivec.mixtures import accumulate

    states, model = mixture_data.clusters(n, n_features), _model(n_features, n_components)
    accumulate(states[:1000], model, device=device)
    mark_memory()
    return {"seconds": _least(lambda: accumulate(states, model, device=device), times)}


def peer_pass(
    n: int, n_features: int, dtype: str, times: int = 2, n_components: int = COMPONENTS
) -> dict[str, Any]:
    """One iteration of scikit-learn's EM on states that are standardised already."""
    from sklearn.mixture import GaussianMixture

    model = _model(n_features, n_components)
    states = model.standardise(mixture_data.clusters(n, n_features)).astype(dtype)
    peer = GaussianMixture(n_components, covariance_type="diag")
    peer.weights_ = model.weights.astype(dtype)
    peer.means_ = model.means.astype(dtype)
    peer.covariances_ = model.variances.astype(dtype)
    peer.precisions_cholesky_ = (1 / np.sqrt(model.variances)).astype(dtype)

    def work() -> None:
        _, shares = peer._e_step(states)
        peer._m_step(states, shares)

    peer_states, states = states, states[:1000]
    work()
    states = peer_states
    mark_memory()
    return {"seconds": _least(work, times)}


def _dataset(name: str, n: int) -> tuple[Any, Any]:
    """States to fit and states to score, of a synthetic set or of an environment."""
    if name.startswith("synthetic"):
        n_features = int(name.rsplit(" ", 1)[1])
        states = mixture_data.clusters(n + n // 10, n_features)
        return states[:n], states[n:]
    states = mixture_data.rollouts(name)
    held_out = np.random.default_rng(0).random(len(states)) < 0.1
    return states[~held_out][:n], states[held_out]


def our_fit(name: str, n: int, seed: int) -> dict[str, Any]:
    from pivec.mixtures import fit_mixture

    states, test = _dataset(name, n)
    fit_mixture(states[:2000], 8)
    mark_memory()
    start = time.perf_counter()
    result = fit_mixture(states, COMPONENTS, random_state=seed)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "score": result.mixture.score(test), "passes": result.n_iter}


def peer_fit(name: str, n: int, seed: int) -> dict[str, Any]:
    from sklearn.mixture import GaussianMixture

    states, test = _dataset(name, n)
    center = states.mean(axis=0, dtype=np.float64)
    scale = states.std(axis=0, dtype=np.float64)
    standard = (states - center) / scale
    mark_memory()
    start = time.perf_counter()
    peer = GaussianMixture(COMPONENTS, covariance_type="diag", random_state=seed).fit(standard)
    seconds = time.perf_counter() - start
    score = float(peer.score((test - center) / scale))
    return {"seconds": seconds, "score": score, "passes": int(peer.n_iter_)}


def fit_memory(n: int) -> dict[str, Any]:
    from pivec.mixtures import fit_mixture

    states = np.tile(mixture_data.clusters(min(n, 1_000_000), 24), (max(1, n // 1_000_000), 1))
    fit_mixture(states[:2000], 8)
    mark_memory()
    start = time.perf_counter()
    fit_mixture(states, COMPONENTS)
    return {"seconds": time.perf_counter() - start}


def file_memory(n: int) -> dict[str, Any]:
    from pivec.mixtures import fit_mixture

    states = np.load(_file(n), mmap_mode="r")
    start = time.perf_counter()
    fit_mixture(states, COMPONENTS)
    return {"seconds": time.perf_counter() - start}


def write_file(n: int) -> dict[str, Any]:
    if not _file(n).exists():
        mixture_data.DATA.mkdir(exist_ok=True)
        part = mixture_data.clusters(min(n, 1_000_000), 24)
        whole = np.lib.format.open_memmap(_file(n), "w+", np.float32, (n, 24))
        for first in range(0, n, len(part)):
            whole[first : first + len(part)] = part[: n - first]
        whole.flush()
    return {}


def _file(n: int) -> Any:
    return mixture_data.DATA / f"clusters_{n}.npy"


def adaptation(n: int, n_states: int, n_features: int, times: int = 2) -> dict[str, Any]:
    """Seconds of the adaptation to policies of so many states each, and of the bare kernel."""
    from pivec.mixtures import accumulate, policy_statistics

    part = mixture_data.clusters(min(n, 1_000_000), n_features)
    states = np.tile(part, (-(-n // len(part)), 1))[:n]
    model = _model(n_features)
    starts = np.arange(0, n + 1, n_states)

    def work() -> None:
        policy_statistics(states, starts, model)

    accumulate(states[:1000], model)
    policy_statistics(states[:1000], [0, 1000], model)
    mark_memory()
    kernel = adapted = np.inf
    for _ in range(times):
        kernel = min(kernel, _least(lambda: accumulate(states, model), 1))
        adapted = min(adapted, _least(work, 1))
    return {"seconds": adapted, "kernel_seconds": kernel}


PARTS = {
    "our_pass": our_pass,
    "peer_pass": peer_pass,
    "our_fit": our_fit,
    "peer_fit": peer_fit,
    "fit_memory": fit_memory,
    "file_memory": file_memory,
    "write_file": write_file,
    "adaptation": adaptation,
}


# ---- sections ------------------------------------------------------------------------------


def part(name: str, **arguments: Any) -> Callable[[], dict[str, Any]]:
    return lambda: in_process(__file__, name, arguments)


def measure_pass(quick: bool) -> Any:
    n, times = (100_000, 1) if quick else (1_000_000, 3)
    rows = []
    for n_features in (24, 4):
        works = {
            "pivec, Numba": part("our_pass", n=n, n_features=n_features, device="numba"),
            "pivec, NumPy": part("our_pass", n=n, n_features=n_features, device="numpy"),
            "scikit-learn float64": part("peer_pass", n=n, n_features=n_features, dtype="float64"),
            "scikit-learn float32": part("peer_pass", n=n, n_features=n_features, dtype="float32"),
        }
        before = machine.measured_speeds()
        runs = alternately(works, times)
        after = machine.measured_speeds()
        speed = {key: max(before[key], after[key]) for key in before}
        rows.append({"n": n, "n_features": n_features, "runs": runs, "speed": speed})
    return rows


def measure_fit(quick: bool) -> Any:
    synthetic, seeds = (50_000, 1) if quick else (1_000_000, 3)
    rows = []
    for name in ("synthetic 24", "synthetic 4", *mixture_data.ENVIRONMENTS):
        real = not name.startswith("synthetic")
        if real:
            mixture_data.rollouts(name)
        n = (30_000 if quick else 1_000_000) if real else synthetic
        runs: dict[str, list[dict[str, Any]]] = {"our_fit": [], "peer_fit": []}
        for seed in range(seeds):
            for kind, kept in runs.items():
                if kind == "our_fit" or seed < PEER_SEEDS:
                    kept.append(in_process(__file__, kind, {"name": name, "n": n, "seed": seed}))
        rows.append({"name": name, "n": n, **runs})
        print(mixture_report.fit_row(rows[-1]), flush=True)
    return rows


def measure_memory(quick: bool) -> Any:
    sizes = (100_000, 400_000) if quick else (1_000_000, 4_000_000)
    on_disk = 1_000_000 if quick else 10_000_000
    in_process(__file__, "write_file", {"n": on_disk})
    return {
        "fits": [{"n": n} | in_process(__file__, "fit_memory", {"n": n}) for n in sizes],
        "file": {"n": on_disk} | in_process(__file__, "file_memory", {"n": on_disk}),
    }


def measure_adapt(quick: bool) -> Any:
    rows = []
    for n_features, n_states in [(24, 1000), (24, 100), (24, 20), (4, 1000), (4, 20)]:
        # What comes out of a policy is larger than twenty states of it.
        n = (500_000 if quick else 10_000_000) // (1 if n_states == 1000 else 10)
        arguments = {"n": n, "n_states": n_states, "n_features": n_features}
        rows.append(arguments | in_process(__file__, "adaptation", arguments))
    return rows


def measure_scaling(quick: bool) -> Any:
    base = 20_000 if quick else 200_000
    sweeps: dict[str, list[dict[str, Any]]] = {}
    for what, values in {
        "N": [base // 20, base // 5, base, 5 * base],
        "K": [4, 16, 64, 256],
        "D": [2, 8, 32, 128],
    }.items():
        sweeps[what] = []
        for value in values:
            shape = {"n": base, "n_features": 24, "n_components": COMPONENTS}
            shape |= {{"N": "n", "K": "n_components", "D": "n_features"}[what]: value}
            ours = in_process(__file__, "our_pass", shape | {"device": "auto"})
            peer = in_process(__file__, "peer_pass", shape | {"dtype": "float64", "times": 1})
            sweeps[what].append(
                {"value": value, "pivec": ours["seconds"], "scikit-learn": peer["seconds"]}
            )
    sweeps["policies"] = []
    for n_policies in (10, 100, 1000) if quick else (10, 100, 1000, 10_000):
        row: dict[str, Any] = {"value": n_policies}
        for n_states in (1000, 20):
            arguments = {"n": n_policies * n_states, "n_states": n_states, "n_features": 24}
            run = in_process(__file__, "adaptation", arguments)
            row[f"of {n_states} states"] = run["seconds"]
        sweeps["policies"].append(row)
    return sweeps


SECTIONS = {
    "pass": measure_pass,
    "fit": measure_fit,
    "memory": measure_memory,
    "adapt": measure_adapt,
    "scaling": measure_scaling,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the script")
    parser.add_argument("--only", choices=list(SECTIONS), help="measure one section anew")
    options = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for name, measure in SECTIONS.items():
        if options.only in (None, name):
            print(f"-- {name}", flush=True)
            result = measure(options.quick)
            if not options.quick:
                KEPT.parent.mkdir(exist_ok=True)
                kept[name] = result
                KEPT.write_text(json.dumps(kept, indent=1))
            else:
                kept[name] = result
    text = mixture_report.report(kept, plots=not options.quick)
    if options.quick:
        print(text)
    else:
        write_section("mixture", text)


if __name__ == "__main__" and not serve(PARTS):
    main()
