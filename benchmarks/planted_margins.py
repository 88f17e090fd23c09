"""Error rates of `pivec same` for differences that are exactly at a margin, and at half of it.

    python benchmarks/planted_margins.py [--repetitions 60] [--jobs 2]

Each family of planted differences is scaled until the view that differs most, in units of its
margin, is at the margin, or at half of it: first with 1,500 episodes per policy, then by the mean
of 60 pairs of 100 episodes, since noise is removed from distances without bias. Then `pivec same`
judges other pairs of 100 episodes: "same" at the margin and "different" at half of it are errors.
Results are stored in benchmarks/data/planted/margins/, so that an interrupted run resumes.
"""

from __future__ import annotations

import argparse
import json
import warnings
import zlib
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from measure import table
from pivec.files import atomic_write
from planted_families import FAMILIES, Family

DATA = Path(__file__).parent / "data" / "planted" / "margins"
CHOSEN = (
    "location", "spread-12", "correlation-12", "direction", "speed", "jitter", "order",
    "rooms", "switching", "habits", "length",
)  # fmt: skip
FACTORS = (1.0, 0.5)  # of the margin
MANY, EPISODES, PERMUTATIONS = 1500, 100, 199
STEPS, REFINED, DRAWS = 7, 2, 60  # of the search for a size


def answer(family: Family, size: float, episodes: int, key: Any, view: str = "") -> Any:
    """Judge a pair whose difference has this size, in all views or in one."""
    import pivec

    rng = np.random.default_rng(zlib.crc32(repr((family.name, episodes, key)).encode()))
    sides = [family.sample(size, rng, episodes, side) for side in (0, 1)]
    data = pivec.VisitedStates.from_arrays(sides, labels=["a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pivec.same(data[0], data[1], views=[view] * bool(view), permutations=PERMUTATIONS)


def at_margin(family: Family, factor: float) -> dict[str, Any]:
    """Return the size at which the most distant view is at so many times its margin."""
    low, high = family.largest * 0.01, family.largest
    for _ in range(STEPS):
        size = float(np.sqrt(low * high))
        most = max(answer(family, size, MANY, "size").views, key=_ratio)
        low, high = (low, size) if _ratio(most) > factor else (size, high)
    for step in range(REFINED):
        keys = [("refine", step, number) for number in range(DRAWS)]
        found = [answer(family, size, EPISODES, key, most.name).views[0] for key in keys]
        # Distances grow with a power of the size between 1 and 2.
        size *= float(np.clip(factor / np.mean(list(map(_ratio, found))), 0.3, 3.0)) ** (2 / 3)
        size = min(size, family.largest)
    return {"size": size, "view": most.name, "verdicts": [], "ratios": []}


def _ratio(view: Any) -> float:
    return view.distance / view.margin


def measure(cell: tuple[str, float], repetitions: int) -> None:
    """Add the verdicts that are missing, and write after each."""
    (name, factor), family = cell, FAMILIES[cell[0]]
    path = DATA / f"{name}-{factor:g}.json"
    values = json.loads(path.read_text()) if path.exists() else at_margin(family, factor)
    for number in range(len(values["verdicts"]), repetitions):
        judged = answer(family, values["size"], EPISODES, number)
        values["verdicts"].append(judged.verdict)
        values["ratios"] += [_ratio(v) for v in judged.views if v.name == values["view"]]
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(json.dumps(values).encode())
    ratio = round(float(np.mean(values["ratios"])), 2)
    print(name, factor, values["view"], ratio, Counter(values["verdicts"]), flush=True)


def section() -> str:
    """Return the table of what was measured, empty if nothing was."""
    rows, errors = [], {factor: np.zeros(2, int) for factor in FACTORS}
    for name in CHOSEN:
        row: list[Any] = [f"`{name}`"]
        for factor, wrong in zip(FACTORS, ("same", "different"), strict=True):
            path = DATA / f"{name}-{factor:g}.json"
            if not path.exists():
                return ""
            values = json.loads(path.read_text())
            counts, n = Counter(values["verdicts"]), len(values["verdicts"])
            errors[factor] += (counts[wrong], n)
            row += [
                f"`{values['view']}`, {np.mean(values['ratios']):.2f}",
                f"{counts[wrong]} of {n}",
            ]
        rows.append(row)
    rates = [f"{100 * wrong / n:.1f} % of {n}" for wrong, n in errors.values()]
    rows.append(["**all**", "", rates[0], "", rates[1]])
    header = [
        "family", "at the margin: view, distance / margin", "“same”",
        "at half of it: view, distance / margin", "“different”",
    ]  # fmt: skip
    return (
        "### Error rates at the margin\n\n"
        "Families are scaled until the view that differs most is about at its margin, or at half "
        "of it; the ratio is the mean over all pairs, or that of 1,500 episodes. “Same” in the "
        "first case and “different” in the second are errors; `pivec same` promises at most 5 % "
        f"each. {EPISODES} episodes per policy.\n\n{table(header, rows)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--families", nargs="+", default=CHOSEN, choices=FAMILIES)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    cells = list(product(given.families, FACTORS))
    with ProcessPoolExecutor(given.jobs) as pool:
        list(pool.map(partial(measure, repetitions=given.repetitions), cells))
    print(section())


if __name__ == "__main__":
    main()
