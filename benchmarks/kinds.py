"""Kinds of episodes and the test of whole episodes on planted families: what they find, and level.

    python benchmarks/kinds.py [--episodes 20] [--repetitions 40] [--level 400]

Families of the view "episodes" have equal or nearly equal averages over time. Each repetition
samples both sides, fits the background model to them as `compare` does, and tests at 5 %. The level
is that of samples of the same distribution.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

from measure import table
from pivec import Visitation, VisitedStates
from pivec.statistics import cluster_episodes, mmd_test
from planted_families import FAMILIES, Family


def once(family: Family, size: float, episodes: int, seed: int) -> tuple[float, int]:
    """Return the p-value of two sides, and the number of kinds of their episodes."""
    rng = np.random.default_rng([23, seed])
    sides = [family.sample(size, rng, episodes, side) for side in (0, 1)]
    data = VisitedStates.from_arrays(sides, labels=["a", "b"])
    method = Visitation(32).fit(data)
    test = mmd_test(*map(method.describe_episodes, (data[0], data[1])), 199, seed)
    kinds = cluster_episodes(np.sqrt(method.episode_shares(data)))
    return test.p_value, len(kinds.centres)


def main() -> None:
    """Print a table of families, and the level."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--level", type=int, default=400, help="repetitions without a difference")
    options = parser.parse_args()
    chosen = [family for family in FAMILIES.values() if family.view == "episodes"]
    rows = []
    for family in chosen:
        size = family.size(max(family.ladder))
        runs = [once(family, size, options.episodes, seed) for seed in range(options.repetitions)]
        found = np.mean([p <= 0.05 for p, _ in runs])
        kinds = ", ".join(f"{k} in {n}" for k, n in Counter(k for _, k in runs).most_common(3))
        rows.append([family.name, max(family.ladder), f"{100 * found:.0f} %", kinds])
        print(*rows[-1], sep=" | ", flush=True)
    print(table(["family", "planted share of episodes", "found", "number of kinds"], rows))
    each = -(-options.level // len(chosen))
    p = [once(family, 0.0, options.episodes, seed)[0] for family in chosen for seed in range(each)]
    error = np.sqrt(0.05 * 0.95 / len(p))
    print(
        f"level at 5 %: {100 * np.mean(np.array(p) <= 0.05):.1f} % ± {100 * error:.1f} of {len(p)}"
    )


if __name__ == "__main__":
    main()
