"""Error rates and episodes of early decisions (`pivec.Decision`) while looking all the time.

    python benchmarks/early.py [--decisions 2000] [--families 100] [--jobs 2]

Single views: episodes are shares of time in bins, drawn from Dirichlet distributions (or one bin
per episode) whose means are exactly so many margins apart. Each decision looks after every ten
episodes (from 200 on, every 5 %), up to 2,000. Families: whole decisions about the synthetic
differences of planted_families.py, at size 0 and at sizes that are far beyond the margin, with
looks after every ten episodes, up to 1,000. A plan of fixed size needs the episodes that
`pivec plan` gives for equal policies, or `pivec same` for different ones.
"""

from __future__ import annotations

import argparse
import json
import warnings
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from measure import table
from pivec.files import atomic_write
from pivec.statistics import (
    MARGIN,
    MARGIN_FACTORS,
    ViewResult,
    episodes_beyond,
    episodes_for_view,
    episodes_to_see,
    log_evidence,
    measured_view,
    share_view,
    view_intervals,
)
from planted_families import FAMILIES

Array = np.ndarray
DATA = Path(__file__).parent / "data" / "early"
PAGE = Path(__file__).parent / "EARLY.md"
BATCH, MOST, LEVEL = 10, 2000, 0.95
# Bins, how alike episodes are (0: each is in one bin), and the margin.
SHARES = {
    "2 kinds": (2, 0.0, MARGIN * MARGIN_FACTORS["kinds"]),
    "3 lengths": (3, 0.0, MARGIN * MARGIN_FACTORS["length"]),
    "3 bins, mixed": (3, 3.0, MARGIN),
    "10 bins, mixed": (10, 3.0, MARGIN),
    "10 bins, alike": (10, 30.0, MARGIN),
}
DISTANCES = (0.0, 1.0, 2.0, 4.0)  # in margins
FAR = ("location", "direction", "length")


def means_apart(bins: int, distance: float) -> tuple[Array, Array]:
    """Two distributions with this squared Hellinger distance: one shifts shares to later bins."""
    p = np.full(bins, 1.0 / bins)
    tilt = np.linspace(-1.0, 1.0, bins)

    def other(size: float) -> Array:
        q = p * np.exp(size * tilt)
        return q / q.sum()

    low, high = 0.0, 50.0
    for _ in range(80):
        middle = (low + high) / 2.0
        far = 1.0 - np.sqrt(p * other(middle)).sum()
        low, high = (middle, high) if far < distance else (low, middle)
    return p, other(high if distance else 0.0)


def looks() -> list[int]:
    numbers = [2 * BATCH]
    while numbers[-1] < MOST:
        numbers.append(min(numbers[-1] + max(BATCH, numbers[-1] // 20), MOST))
    return numbers


def drawn(mean: Array, alike: float, n: int, rng: np.random.Generator) -> Array:
    if alike == 0.0:
        return np.eye(len(mean))[rng.choice(len(mean), n, p=mean)]
    return rng.dirichlet(alike * mean, n)


def decide_view(name: str, distance: float, number: int) -> dict[str, Any]:
    """Look at one view until the first verdict, and on until the end for errors."""
    bins, alike, margin = SHARES[name]
    rng = np.random.default_rng(zlib.crc32(repr((name, distance, number)).encode()))
    sides = [drawn(mean, alike, MOST, rng) for mean in means_apart(bins, distance * margin)]
    alpha, first = 1.0 - LEVEL, {}
    seen = episodes_to_see(margin, alpha)
    for n in looks():
        view = share_view("", sides[0][:n], sides[1][:n], by_episode=alike == 0.0)
        sure, slope = measured_view(view, LEVEL)
        below, above = log_evidence(sure.distance, slope, sure.second, margin)
        if below[0] >= -np.log(alpha) and n >= seen:
            first.setdefault("same", n)
        if above[0] >= -np.log(alpha):
            first.setdefault("different", n)
        if first:
            break
    view = share_view("", sides[0][:200], sides[1][:200], by_episode=alike == 0.0)
    planned = episodes_for_view(view, margin, LEVEL)
    if distance > 1.0:
        sure = view_intervals(view, LEVEL)
        values = (float(getattr(sure, key)[0]) for key in ("low", "high", "low"))
        parts = (float(sure.first[0]), float(sure.second[0]))
        result = ViewResult("", distance * margin, *values, margin, *parts)
        planned = episodes_beyond(result, 200)
    return {"first": first, "planned": planned}


def decide_family(name: str, size: float, number: int) -> dict[str, Any]:
    """Decide about two policies of a planted family, and ask for the plan."""
    import pivec

    family = FAMILIES[name]
    rng = np.random.default_rng(zlib.crc32(repr((name, size, number)).encode()))
    decision = pivec.Decision()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while decision.verdict == "unclear" and decision.n_episodes[0] < MOST // 2:
            decision.update(*(family.sample(size, rng, BATCH, side) for side in (0, 1)))
        planned = decision.result().planned
    return {"first": {decision.verdict: decision.n_episodes[0]}, "planned": planned}


def measure(cell: tuple[str, float], decide: Callable[..., Any], wanted: int) -> None:
    """Add the decisions that are missing, and write them now and then."""
    name, size = cell
    path = DATA / f"{decide.__name__}-{name.replace(' ', '-')}-{size:g}.json"
    values = json.loads(path.read_text()) if path.exists() else []
    for number in range(len(values), wanted):
        values.append(decide(name, size, number))
        if (number + 1) % 50 == 0 or number + 1 == wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                file.write(json.dumps(values).encode())
    print(*rows_of(name, size, values), flush=True)


def rows_of(name: str, size: float, values: list[dict[str, Any]]) -> list[str]:
    n = len(values)
    shares = [
        f"{100 * np.mean([verdict in value['first'] for value in values]):.1f} %"
        for verdict in ("same", "different")
    ]
    used = [min(value["first"].values(), default=MOST) for value in values]
    planned = [value["planned"] or np.inf for value in values]
    is_decided = np.median(used) < MOST
    ratio = np.median(used) / np.median(planned)
    return [
        name, f"{size:g}", f"{n:,}", *shares, f"{np.median(used):.0f}",
        f"{np.median(planned):.0f}", f"{100 * ratio:.0f} %" if is_decided else "–",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--decisions", type=int, default=2000)
    parser.add_argument("--families", type=int, default=100, help="decisions per family")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    views = list(product(SHARES, DISTANCES))
    families = [(name, size) for name in FAR for size in (0.0, FAMILIES[name].largest / 2)]
    with ProcessPoolExecutor(given.jobs) as pool:
        list(pool.map(partial(measure, decide=decide_view, wanted=given.decisions), views))
        list(pool.map(partial(measure, decide=decide_family, wanted=given.families), families))
    columns = ["distance / margin", "decisions", "“same”", "“different”", "episodes, median",
               "plan, median", "share"]  # fmt: skip
    parts = []
    for decide, cells in ((decide_view, views), (decide_family, families)):
        rows = []
        for name, size in cells:
            path = DATA / f"{decide.__name__}-{name.replace(' ', '-')}-{size:g}.json"
            rows.append(rows_of(name, size, json.loads(path.read_text())))
        first = "view" if decide is decide_view else "family"
        second = columns if decide is decide_view else ["size", *columns[1:]]
        parts.append(table([first, *second], rows))
    text = "\n\n".join([f"# Early decisions\n\n{__doc__.split(chr(10), 4)[4].strip()}", *parts])
    with atomic_write(PAGE) as file:
        file.write(f"{text}\n".encode())


if __name__ == "__main__":
    main()
