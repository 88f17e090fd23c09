"""How far distances can be trusted: measurements on checkpoints not used for any choice.

    python benchmarks/trust.py [--set choose] [--only precision level ...] [--worlds CartPole-v1]

Every measurement is kept as one JSON file below benchmarks/data/trust/, so that an interrupted run
resumes; the tables and figures of EVIDENCE.md are made from the files that exist. The space is
always fitted on the samples that are compared, as `pivec compare` does. What is called true comes
from other episodes of the same policies, described in the same space.
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import trust_costs
import trust_verdicts
from trust_data import DATA, WORLDS, samples, store, truth, twice

# Episodes in a sample, and the number of draws; each draw has two samples of every policy.
SIZES = {
    "visitation": {5: 2, 10: 2, 25: 1, 100: 1},
    "supervector": {10: 1, 100: 1},
}
OTHERS = 200  # episodes with which samples are to agree
ENDS = ("distance", "low", "high", "p_value")
SEEDS, PAIRS = (0, 1, 2), 200  # fits of the background; tests in each environment


def precision(data: Any, name: str, size: int, draw: int, episodes: int) -> dict[str, Any]:
    """Distances within each of two samples beside the truth, and between the two samples."""
    from pivec.characterizations import characterization
    from pivec.statistics import return_correlation

    rng = rng_of("precision", size, draw)
    a, b, many = samples(data, (size, size, episodes), rng)
    (others,) = samples(many, (OTHERS,), rng)
    method = characterization(name).fit(twice(a, b))
    one, two, later, true = (
        method.describe(part, influences=True) for part in (a, b, others, many)
    )
    upper = np.triu_indices(len(data), 1)
    alike, beyond = method.intervals(one, two), method.intervals(true)
    far = method.intervals(later).distance[upper]
    found: dict[str, Any] = {
        "self": {key: np.diagonal(getattr(alike, key)).tolist() for key in ENDS},
        "self_plain": np.diagonal(method.distances(one, two)).tolist(),
        "true": np.maximum(beyond.distance[upper], 0.0).tolist(),  # as intervals, never below 0
        "return_correlation": return_correlation(beyond.distance, many.mean_returns),
        "samples": [],
    }
    for sample in (one, two):
        sure = method.intervals(sample)
        found["samples"].append(
            {
                "agreement": correlation(sure.distance[upper], far),
                "agreement_plain": correlation(
                    method.distances(sample)[upper], method.distances(later)[upper]
                ),
                **{key: getattr(sure, key)[upper].tolist() for key in ENDS},
            }
        )
    return found


def backgrounds(data: Any, name: str) -> dict[str, Any]:
    """How far distances from 100 episodes depend on the seed of the background model."""
    from pivec.characterizations import characterization

    (a,) = samples(data, (100,), rng_of("backgrounds"))
    upper = np.triu_indices(len(data), 1)
    fits = [characterization(name, random_state=s).fit(a).distances(a)[upper] for s in SEEDS]
    moved = np.std(fits, axis=0, ddof=1) / np.mean(fits, axis=0)
    agreements = np.corrcoef(fits)[np.triu_indices(len(fits), 1)]
    return {"agreement": float(agreements.min()), "moved": float(np.median(moved))}


def level(data: Any, name: str) -> dict[str, Any]:
    """p-values of two samples of one policy, by every test."""
    from pivec.characterizations import characterization
    from pivec.statistics import joint_test, kernel_embedding
    from pivec.workflows.equivalence import PolicyInput, judge

    rng = rng_of("level")
    (fitted,) = samples(data, (25,), rng)
    method = characterization(name).fit(fitted)
    found: dict[str, list[float]] = {"permutation": [], "analytic": [], "joint": [], "episodes": []}
    for number in range(PAIRS):
        one = data.select([int(rng.integers(len(data)))])
        size = (10, 25, 100)[number % 3]
        a, b = samples(one, (size, size), rng)
        found["permutation"].append(method.test(a, b, seed=number).p_value)
        found["analytic"].append(float(method.intervals(a, b).p_value[0, 0]))
        sides = [PolicyInput(str(k), data=part) for k, part in enumerate((a, b))]
        found["joint"].append(judge(method, *sides, seed=number).p_value)
        rows = np.concatenate([method.describe_episodes(side) for side in (a, b)])
        found["episodes"].append(joint_test([kernel_embedding(rows)], size, 999, number))
    return found


def correlation(x: Any, y: Any) -> float:
    return float(np.corrcoef(x, y)[0, 1])


def rng_of(*names: Any) -> np.random.Generator:
    """A generator for a measurement, the same in every run."""
    return np.random.default_rng(zlib.crc32(repr(names).encode()))


def kept(folder: Path, key: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What was measured before under this name, or now."""
    path = folder / f"{key}.json"
    if not path.exists():
        start = time.perf_counter()
        values = work()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
        print(f"{path.parent.name} {key}: {time.perf_counter() - start:.0f} s", flush=True)
    return json.loads(path.read_text())


def world_figures(chosen: str, world: str, only: set[str]) -> dict[str, Any]:
    """All measurements in one environment, by name of the figure and method."""
    import pivec

    folder, cache = DATA / "figures" / chosen / world, {}

    def data() -> Any:
        if not cache:
            cache["data"] = pivec.load(store(chosen, world))
        return cache["data"]

    found: dict[str, Any] = {}
    work: dict[str, Callable[[], dict[str, Any]]] = {
        "level": lambda: level(data(), "visitation"),
        "verdicts": lambda: trust_verdicts.measure(data(), rng_of("verdicts")),
        "backgrounds-visitation": lambda: backgrounds(data(), "visitation"),
        "backgrounds-supervector": lambda: backgrounds(data(), "supervector"),
    }
    for name, sizes in SIZES.items():
        for size, draws in sizes.items():
            for draw in range(draws):
                work[f"precision-{name}-{size}-{draw}"] = lambda n=name, m=size, d=draw: precision(
                    data(), n, m, d, truth(world)
                )
    for key, measure in work.items():
        if key.partition("-")[0] in only or (folder / f"{key}.json").exists():
            found[key] = kept(folder, key, measure)
    for name, sizes in SIZES.items():
        for size, draws in sizes.items():
            drawn = [found.pop(f"precision-{name}-{size}-{draw}", None) for draw in range(draws)]
            if all(drawn):
                found[f"precision-{name}-{size}"] = drawn
    return found


def main() -> None:
    kinds = ("precision", "backgrounds", "level", "verdicts", "costs", "page")
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--set", default="report", choices=("choose", "report"))
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=list(WORLDS))
    parser.add_argument("--only", nargs="+", default=list(kinds), choices=kinds)
    given = parser.parse_args()
    only = set(given.only)
    found = {world: world_figures(given.set, world, only) for world in given.worlds}
    costs = {}
    if "costs" in only or (DATA / "figures" / "costs.json").exists():
        costs = kept(DATA / "figures", "costs", trust_costs.measure)
    if "page" in only:
        import trust_page

        trust_page.write(found, costs, given.set)


if __name__ == "__main__":
    main()
