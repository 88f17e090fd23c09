"""How far distances can be trusted: the evidence on checkpoints that were not used to choose.

    python benchmarks/trust.py [--set choose] [--only precision level ...] [--worlds CartPole-v1]

Every measurement is kept as one JSON file under benchmarks/data/trust/, so that a run that was
stopped goes on; the tables and pictures of EVIDENCE.md are made of those files. The space
is always fitted on the very samples that are compared, as `pivec compare` does, and what is called
true was played by the same policies in other episodes and is described in the same space.
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
from trust_data import DATA, WORLDS, samples, store, twice

# Episodes of a sample, and how many draws there are of it.
SIZES = {
    "visitation": {5: 4, 10: 4, 25: 3, 100: 2},
    "supervector": {10: 1, 25: 1, 100: 1},
}
TRUTH, OTHERS = 400, 200  # episodes for the distance that is called true, and for the agreement
LEAST = 10  # episodes from which a sample is held against the truth
SEEDS, PAIRS = (0, 1, 2), 400  # fits of the background; tests in each environment


def precision(data: Any, name: str, size: int, draw: int) -> dict[str, Any]:
    """Distances from one sample of each policy beside the truth, and to a second sample."""
    from pivec.characterizations import characterization

    a, b, truth = samples(data, (size, size, TRUTH), rng_of("precision", size, draw))
    method = characterization(name).fit(twice(a, b))
    pair = [method.describe(part, influences=True) for part in (a, b)]
    alike = method.intervals(*pair)
    found = {
        "self": np.diagonal(alike.distance).tolist(),
        "self_plain": np.diagonal(method.distances(*pair)).tolist(),
        "self_cover": float((np.diagonal(alike.low) <= 0).mean()),
        "self_p": np.diagonal(alike.p_value).tolist(),
    }
    return found | beside_truth(method.fit(a), a, truth) if size >= LEAST else found


def beside_truth(method: Any, a: Any, truth: Any) -> dict[str, Any]:
    """Distances from a sample beside those from many other episodes, in the sample's own space."""
    from pivec.statistics import return_correlation

    others = samples(truth, (OTHERS,), np.random.default_rng(0))[0]
    described = [method.describe(part, influences=True) for part in (a, truth, others)]
    measured, beyond, later = map(method.intervals, described)
    upper = np.triu_indices(len(a), 1)
    plain = [method.distances(part)[upper] for part in (described[0], described[2])]
    aim = np.maximum(beyond.distance[upper], 0.0)  # as intervals are, never below zero
    low, high = measured.low[upper], measured.high[upper]
    return {
        "agreement": correlation(measured.distance[upper], later.distance[upper]),
        "agreement_plain": correlation(*plain),
        "return_correlation": return_correlation(beyond.distance, truth.mean_returns),
        "cover": float(((low <= aim) & (aim <= high)).mean()),
        "above": float((aim > high).mean()),
        "below": float((aim < low).mean()),
        "width": float(np.median(high - low)),
        "largest": float(aim.max()),
    }


def backgrounds(data: Any, name: str) -> dict[str, Any]:
    """How far distances from 100 episodes move with the seed of the background model."""
    from pivec.characterizations import characterization

    (a,) = samples(data, (100,), rng_of("backgrounds"))
    upper = np.triu_indices(len(data), 1)
    fits = [characterization(name, random_state=s).fit(a).distances(a)[upper] for s in SEEDS]
    moved = np.std(fits, axis=0, ddof=1) / np.mean(fits, axis=0)
    agreements = np.corrcoef(fits)[np.triu_indices(len(fits), 1)]
    return {"agreement": float(agreements.min()), "moved": quartiles(moved)}


def level(data: Any, name: str) -> dict[str, Any]:
    """How often two samples of one policy are said to differ, by both tests."""
    from pivec.characterizations import characterization

    rng = rng_of("level")
    (fitted,) = samples(data, (25,), rng)
    method = characterization(name).fit(fitted)
    exact, analytic = [], []
    for number in range(PAIRS):
        one = data.select([int(rng.integers(len(data)))])
        size = (10, 25, 100)[number % 3]
        a, b = samples(one, (size, size), rng)
        exact.append(method.test(a, b, seed=number).p_value)
        analytic.append(float(method.intervals(a, b).p_value[0, 0]))
    return {"exact": exact, "analytic": analytic}


def correlation(x: Any, y: Any) -> float:
    return float(np.corrcoef(x, y)[0, 1])


def quartiles(values: Any) -> list[float]:
    return np.quantile(values, (0.25, 0.5, 0.75)).tolist()


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
    for name, sizes in SIZES.items():
        if "backgrounds" in only:
            key = f"backgrounds-{name}"
            found[key] = kept(folder, key, lambda n=name: backgrounds(data(), n))
        if "level" in only and name == "visitation":
            key = f"level-{name}"
            found[key] = kept(folder, key, lambda n=name: level(data(), n))
        if "verdicts" in only and name == "visitation":
            key = f"verdicts-{name}"
            found[key] = kept(
                folder, key, lambda: trust_verdicts.measure(data(), rng_of("verdicts"))
            )
        for size, draws in sizes.items() if "precision" in only else ():
            found[f"precision-{name}-{size}"] = [
                kept(
                    folder,
                    f"precision-{name}-{size}-{draw}",
                    lambda n=name, m=size, d=draw: precision(data(), n, m, d),
                )
                for draw in range(draws)
            ]
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
    costs = kept(DATA / "figures", "costs", trust_costs.measure) if "costs" in only else {}
    (DATA / f"{given.set}.json").write_text(json.dumps({"worlds": found, "costs": costs}))
    if "page" in only:
        import trust_page

        trust_page.write(found, costs, given.set)


if __name__ == "__main__":
    main()
