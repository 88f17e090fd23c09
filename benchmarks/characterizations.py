"""Every characterization on the same data: seconds and memory; all pairs against a loop over pairs.

    python benchmarks/characterizations.py                  everything
    python benchmarks/characterizations.py --only gaussian  some of the table's rows, others stay

Writes its sections of RESULTS.md and the table of docs/methods.md. Each row is measured
in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from measure import in_process, mark_memory, serve, write_section

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "methods.md"
STORE = HERE / "data" / "CartPole-v1-100"
DEMO = HERE.parent / "src" / "pivec" / "demo_policies" / "CartPole-v1"
N_POLICIES, EPISODES = 100, 10
BEGIN, END = "<!-- table:begin -->", "<!-- table:end -->"

# The paper's Table 1 (compute, describes, expressiveness, agnostic to environment, to actions), and
# the same judgements for what it does not list.
TABLE = {
    "returns": ("Returns", "low", "policy", "low", "yes", "yes"),
    "parameters": ("Policy parameters", "low", "policy", "low", "yes", "no"),
    "actions": ("Comparing actions", "low", "policy", "low", "yes", "no"),
    "terminal-state": ("Termination state", "low", "policy", "low", "no", "yes"),
    "transitions": ("Transition matrix", "very high", "policy", "high", "no", "no"),
    "trajectories": ("Trajectories", "high", "trajectory", "high", "no", "yes"),
    "skill-discriminator": ("States + discriminator", "n/a", "skill", "high", "yes", "yes"),
    "gaussian": ("States + Gaussian", "low", "policy", "low", "yes", "yes"),
    "trajectory-encoder": ("Trajectory encoder", "high", "trajectory", "high", "yes", "no"),
    "state-actions": ("Aggregate state-actions", "high", "policy", "high", "yes", "no"),
    "discriminator": ("States + discriminator (adapted)", "low", "policy", "high", "yes", "yes"),
    "encoder": ("Trajectory encoder (adapted)", "high", "policy", "high", "yes", "yes"),
    "supervector": ("States + GMM (proposed)", "low", "policy", "high", "yes", "yes"),
    "discretization": ("Discretization *", "low", "policy", "high", "yes", "yes"),
    "mmd": ("States + kernel mean *", "low", "policy", "high", "yes", "yes"),
    "sliced-wasserstein": ("States + quantiles *", "low", "policy", "high", "yes", "yes"),
}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "supervector mw": ("supervector", {"adapt": "mw"}),
    "supervector mwv": ("supervector", {"adapt": "mwv"}),
    "gaussian full": ("gaussian", {"covariance": "full"}),
}


def cartpole() -> Any:
    """100 policies of 10 episodes: the demo's, and the same with noise on their parameters."""
    import pivec
    from pivec.policies import name_policies

    named = name_policies(f"{DEMO}/**/*.safetensors")
    rng = np.random.default_rng(0)
    policies = {one.info.label: one.policy for one in named}
    for i in range(N_POLICIES - len(named)):
        policy: Any = named[i % len(named)].policy
        layers = tuple(
            tuple(part + 0.2 * part.std() * rng.normal(size=part.shape) for part in layer)
            for layer in policy.layers
        )
        policies[f"noisy-{i}"] = replace(policy, layers=layers)
    return pivec.collect(
        "CartPole-v1", policies, EPISODES, store=STORE, actions=True, keep_policies=True
    )


def load() -> Any:
    import pivec

    data = pivec.load(STORE)
    _ = data.states  # in memory before the clock starts
    return data


def every_row() -> dict[str, tuple[str, dict[str, Any]]]:
    """Rows of the table: name of a characterization and its arguments."""
    from pivec.characterizations import names

    return {name: (name, {}) for name in names()} | SETTINGS


def one_method(row: str) -> dict[str, float]:
    """Seconds of fit, describe and distances, after a trial on four policies that compiles."""
    from pivec.characterizations import characterization

    name, parameters = every_row()[row]
    data = load()
    few = data.select([0, 1, 2, 3])
    characterization(name, **parameters).fit(few).distances(few)
    mark_memory()
    start = time.perf_counter()
    method = characterization(name, **parameters).fit(data)
    method.distances(method.describe(data))
    return {"seconds": time.perf_counter() - start, "n_states": data.n_states}


def write_rows(only: list[str]) -> None:
    """Measure row after row, and write each at once: the slowest take minutes."""
    wanted = every_row()
    unknown = set(only) - set(wanted)
    if unknown:
        raise SystemExit(f"no row is called {sorted(unknown)[0]!r}; there are {', '.join(wanted)}")
    for row in only or wanted:
        measured = in_process(__file__, "row", {"row": row})
        print(row, {key: round(value, 2) for key, value in measured.items()}, flush=True)
        write_table({row: measured})


def one_line(row: str, measured: Mapping[str, float]) -> str:
    name, parameters = SETTINGS.get(row, (row, {}))
    told = "".join(f' `{key}="{value}"`' for key, value in parameters.items())
    paper = TABLE[name]
    cost = [f"{measured['seconds']:.2f}", f"{max(0.0, measured['beyond_mb']):.0f}"]
    cells = [f"`{name}`{told}", *paper, *cost]
    return "| " + " | ".join(cells) + " |"


def table(measured: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Lines of the table, those that are not measured now as they stand on the page."""
    head = (
        "| name | in the paper's Table 1 | compute | describes | expressiveness "
        "| any environment | any actions | measured seconds | measured memory, MB |"
    )
    old = {}
    if BEGIN in PAGE.read_text():
        inside = PAGE.read_text().split(BEGIN)[1].split(END)[0]
        for line in inside.splitlines():
            if line.startswith("| `"):
                old[line.split(" | ")[0]] = line
    for row, values in measured.items():
        line = one_line(row, values)
        old[line.split(" | ")[0]] = line
    order = list(TABLE)
    lines = sorted(old.values(), key=lambda line: (order.index(line.split("`")[1]), len(line)))
    return [head, "|" + " --- |" * 9, *lines]


def write_table(measured: Mapping[str, Mapping[str, float]]) -> None:
    text = "\n".join(table(measured))
    n_states = next(iter(measured.values()))["n_states"]
    note = (
        f"{N_POLICIES} CartPole policies of {EPISODES} episodes, {n_states:,} states in all; "
        "seconds of `fit`, `describe` and `distances` with default settings, and the most memory "
        "they took beyond that of the data and the libraries."
    )
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n\n{note}\n{END}{after}")
    write_section("characterizations", f"{note}\n\n{text}")


# ---- all pairs against a loop over pairs ----


def loop_gaussians(means: np.ndarray, variances: np.ndarray, n_rows: int) -> float:
    """Seconds for each pair, over the first rows."""
    start, pairs = time.perf_counter(), 0
    for i in range(n_rows):
        for j in range(i + 1, len(means)):
            gap = (means[i] - means[j]) ** 2
            ratio = variances[i] / variances[j]
            forth = 0.5 * np.sum(ratio + gap / variances[j] - 1 - np.log(ratio))
            forth + 0.5 * np.sum(1 / ratio + gap / variances[i] - 1 + np.log(ratio))
            pairs += 1
    return (time.perf_counter() - start) / pairs


def loop_supervectors(
    vectors: np.ndarray, weights: np.ndarray, variances: np.ndarray, n_rows: int
) -> float:
    start, pairs = time.perf_counter(), 0
    for i in range(n_rows):
        for j in range(i + 1, len(vectors)):
            gap = vectors[i] - vectors[j]
            0.5 * np.sum(weights * np.sum(gap**2 / variances, axis=1))
            pairs += 1
    return (time.perf_counter() - start) / pairs


def best(work: Callable[[], Any], times: int = 15) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def all_pairs() -> dict[str, float]:
    """1 000 Gaussians of 24 features, 1 000 supervectors of 64 × 24."""
    from pivec.statistics import squared_euclidean, symmetric_kl_diagonal

    rng = np.random.default_rng(0)
    n, K, D = 1000, 64, 24
    n_pairs = n * (n - 1) / 2
    means, variances = rng.normal(size=(n, D)), rng.uniform(0.5, 2, (n, D))
    vectors, spread = rng.normal(size=(n, K, D)), rng.uniform(0.5, 2, (K, D))
    weights = rng.dirichlet(np.ones(K))

    def supervectors() -> Any:
        # With the scaling, as `describe` and `distances` do it together.
        scale = np.sqrt(weights[:, None] / (2 * spread))
        return squared_euclidean((vectors * scale).reshape(n, -1))

    # Three short loops each, the fastest of which stands for all pairs.
    gaussians_loop = min(loop_gaussians(means, variances, 10) for _ in range(3)) * n_pairs
    vectors_loop = min(loop_supervectors(vectors, weights, spread, 10) for _ in range(3)) * n_pairs
    return {
        "gaussians": best(lambda: symmetric_kl_diagonal(means, variances, means, variances)),
        "gaussians_loop": gaussians_loop,
        "supervectors": best(supervectors),
        "supervectors_loop": vectors_loop,
    }


def write_pairs() -> None:
    m = in_process(__file__, "pairs")
    lines = [
        "All pairwise distances of 1 000 policies. The loop takes one pair after another with",
        "NumPy (timed on 9 945 pairs, times all 499 500).",
        "",
        "| | loop over pairs, s | pivec, s | ratio |",
        "| --- | --- | --- | --- |",
    ]
    for key, told in (
        ("gaussians", "Gaussians, 24 features"),
        ("supervectors", "supervectors, 64 × 24"),
    ):
        slow, fast = m[f"{key}_loop"], m[key]
        lines.append(f"| {told} | {slow:.2f} | {fast:.4f} | {slow / fast:.0f} |")
    print("\n".join(lines))
    write_section("pairs-of-characterizations", "\n".join(lines))


# ---- discretization in 24 dimensions ----


def walker(method: str) -> dict[str, float]:
    """100 policies of 10 episodes of 1 600 states, BipedalWalker's longest.

    Cut out of the recorded rollouts, with a little noise so that no two visit the same cells just
    because they were cut from the same place.
    """
    from mixture_data import rollouts
    from pivec.characterizations import characterization
    from pivec.states import VisitedStates

    recorded, rng = rollouts("BipedalWalker-v3"), np.random.default_rng(0)
    policies = []
    for _ in range(100):
        starts = rng.integers(0, len(recorded) - 1600, size=10)
        noise = rng.normal(0, 0.02, (10, 1600, 24)).astype(np.float32)
        policies.append([recorded[s : s + 1600] + noise[k] for k, s in enumerate(starts)])
    data = VisitedStates.from_arrays(policies)
    del policies
    mark_memory()
    start = time.perf_counter()
    d = characterization(method).fit(data).distances(data)
    return {"seconds": time.perf_counter() - start, "mean": float(d.mean())}


def write_walker() -> None:
    lines = [
        "100 BipedalWalker policies of 10 episodes of 1 600 states, 24 dimensions, 10 bins each.",
        "Memory is that of the whole process, with the 1.6 million states and the making of them,",
        "and that of `fit`, `describe` and `distances` beyond them. The paper's dense array ran",
        "out of 64 GB.",
        "",
        "| | seconds | whole process, MB | beyond the data, MB |",
        "| --- | --- | --- | --- |",
    ]
    for method in ("discretization", "transitions"):
        m = in_process(__file__, "walker", {"method": method})
        cost = f"{m['seconds']:.2f} | {m['peak_mb']:.0f} | {m['beyond_mb']:.0f}"
        lines.append(f"| `{method}` | {cost} |")
    print("\n".join(lines))
    write_section("discretization-in-24-dimensions", "\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], help="rows of the table to measure")
    only = parser.parse_args().only
    print(cartpole(), flush=True)
    if not only:
        write_pairs()
        write_walker()
    write_rows(only)


PARTS = {"row": one_method, "walker": walker, "pairs": all_pairs}

if __name__ == "__main__" and not serve(PARTS):
    main()
