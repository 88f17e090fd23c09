"""Planted differences: what every method detects of differences whose size is known.

    python benchmarks/planted.py                                 all methods and families
    python benchmarks/planted.py --families direction spread-3 --methods same visitation --jobs 2
    python benchmarks/planted.py --method mine:MyMethod          your own method
    python benchmarks/planted.py --page                          write docs/planted.md

A method is the name of a characterization, ``same``, ``marginals``, or MODULE:OBJECT: a class or an
object with ``fit(data)`` and ``test(a, b)`` (a p-value, or an object with ``p_value``), optionally
with ``distances(a, b)``; or a function of two policies that returns a p-value, or an object with
any of ``p_value``, ``verdict`` and ``distance``. Each policy is a `pivec.VisitedStates`.
Characterizations are fitted on the pair, as `pivec compare` does (and on ``--backgrounds`` further
policies of synthetic families).

Every cell (method, family, size, number of episodes) is kept in benchmarks/data/planted/, so that
an interrupted run resumes; ``--fresh`` measures again, after a method has changed. Data depend on
the family, the size, the number of episodes and the repetition only: all methods see the same.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
import warnings
import zlib
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from pivec.errors import UsageError
from pivec.files import atomic_write
from planted_families import Family, families
from planted_page import summary, tables, write

DATA = Path(__file__).parent / "data" / "planted"
PERMUTATIONS, FEW = 199, 39  # with 39, p ≤ 0.05 is exactly 5 % as well
# Minutes for one test of 100 + 100 episodes: fewer permutations, and only the fewest episodes.
SLOW = {
    "sliced-wasserstein", "transitions", "trajectories", "discriminator", "encoder",
    "skill-discriminator", "trajectory-encoder", "state-actions",
}  # fmt: skip


class Cell(NamedTuple):
    """One measurement: a method on pairs with one planted difference."""

    method: str
    family: str
    planted: float  # total variation, or size where that is not known
    episodes: int
    backgrounds: int = 0

    @property
    def path(self) -> Path:
        more = f"-{self.backgrounds}" if self.backgrounds else ""
        name = f"{self.family}-{self.planted:g}-{self.episodes}{more}.json"
        return DATA / self.method.replace(":", ".") / name

    def read(self) -> dict[str, Any]:
        return json.loads(self.path.read_text()) if self.path.exists() else {"runs": []}


def pair(family: Family, planted: float, episodes: int, repetition: int, more: int = 0) -> Any:
    """Return policies a, b and background policies, as one `VisitedStates`."""
    from pivec import VisitedStates
    from pivec.states import joined

    # Not the data on which views and margins were chosen, whose key had no first part.
    key = ("report", family.name, planted, episodes, repetition)
    rng = np.random.default_rng(zlib.crc32(repr(key).encode()))
    size = family.size(planted)
    parts = [family.sample(size, rng, episodes, side) for side in (0, 1)]
    if not isinstance(parts[0], list):
        return joined(parts)
    sizes = np.linspace(0, family.largest, more + 1)[1:]
    parts += [family.sample(other, rng, episodes, 1) for other in sizes]
    return VisitedStates.from_arrays(parts, labels=["a", "b", "c", "d", "e", "f"][: 2 + more])


def method_of(name: str) -> Any:
    """Return a new object of a method: one with ``fit``, or a function of two policies."""
    import pivec

    if name in ("same", "marginals"):
        return {"same": pivec.same, "marginals": marginals}[name]
    if ":" not in name:
        return pivec.characterization(name)
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    found = getattr(importlib.import_module(module), attribute)
    if isinstance(found, type):
        return found()
    return deepcopy(found) if hasattr(found, "fit") else found


def marginals(a: Any, b: Any, permutations: int = PERMUTATIONS, seed: int = 0) -> Any:
    """Total variation of the feature of s or Δs that differs most, in 16 bins, without noise.

    A baseline; and where the total variation is not known, an estimate of what one feature shows.
    """
    rng = np.random.default_rng(seed)
    episodes = [*a.episodes(), *b.episodes()]
    moves = np.concatenate([np.hstack([e[:-1], np.diff(e, axis=0)]) for e in episodes])
    lengths = np.array([len(e) - 1 for e in episodes])
    numbers = np.repeat(np.arange(len(episodes)), lengths)
    shares = []
    for column in moves.T:
        edges = np.unique(np.quantile(column, np.linspace(0, 1, 17)[1:-1]))
        bins = numbers * 16 + np.searchsorted(edges, column)
        shares.append(np.bincount(bins, minlength=16 * len(episodes)).reshape(-1, 16))
    rows = np.stack(shares, axis=1) / np.maximum(lengths, 1)[:, None, None]

    def largest(left: Any) -> float:
        gap = rows[left].mean(axis=0) - np.delete(rows, left, axis=0).mean(axis=0)
        return float(0.5 * np.abs(gap).sum(axis=1).max())

    found, n = largest(np.arange(a.n_episodes)), len(episodes)
    by_chance = np.array([largest(rng.permutation(n)[: a.n_episodes]) for _ in range(permutations)])
    p_value = (1 + np.sum(by_chance >= found)) / (permutations + 1)
    # Noise adds to a large difference like the legs of a right triangle, rather than in full.
    without = np.sign(found - by_chance.mean()) * np.sqrt(abs(found**2 - by_chance.mean() ** 2))
    return SimpleNamespace(p_value=p_value, distance=without)


def judge(name: str, data: Any, seed: int) -> dict[str, Any]:
    """Return p-value, distance with interval, and verdict on the first two policies, if any."""
    method = method_of(name)
    a, b = data[0], data[1]
    few = FEW if name in SLOW else PERMUTATIONS
    if not hasattr(method, "fit"):
        given = {} if ":" in name else {"permutations": few, "seed": seed}
        found = method(a, b, **given)
        if isinstance(found, int | float | np.number):
            return {"p": float(found)}
        return _facts(found)
    method.fit(data)
    result: dict[str, Any] = {}
    traits = getattr(method, "traits", None)
    if traits is None:
        tested = method.test(a, b)
        result = {"p": float(getattr(tested, "p_value", tested))}
        if hasattr(method, "distances"):
            result["distance"] = float(np.asarray(method.distances(a, b)).ravel()[0])
        return result
    if not (traits.no_intervals or name in SLOW):
        sure = method.intervals(a, b)
        result = {key: float(getattr(sure, key)[0, 0]) for key in ("distance", "low", "high")}
        result["p"] = float(sure.p_value[0, 0])
    else:
        result["distance"] = float(method.distances(a, b)[0, 0])
    if not traits.no_test:
        result["p"] = method.test(a, b, permutations=few, seed=seed).p_value
    return result


def _facts(found: Any) -> dict[str, Any]:
    """Take what an answer has of p-value, verdict and distance."""
    result: dict[str, Any] = {}
    for key, name in (("p", "p_value"), ("distance",) * 2, ("low",) * 2, ("high",) * 2):
        if getattr(found, name, None) is not None:
            result[key] = float(getattr(found, name))
    if getattr(found, "verdict", None) is not None:
        result["verdict"] = str(found.verdict)
    if getattr(found, "differing", None):  # views beyond their margin, the clearest first
        result["view"] = found.differing[0].name
    return result


def measure(cells: list[Cell], repetitions: int) -> list[tuple[Cell, dict[str, Any]]]:
    """Add what is missing to cells that differ in their method only; write after each repetition.

    Data are made once for all of them: simulations take longer than most methods.
    """
    found = {cell: cell.read() for cell in cells}
    for repetition in range(repetitions):
        data = None
        for cell, values in found.items():
            if repetition < len(values["runs"]) or "skipped" in values:
                continue
            if data is None:
                family = families()[cell.family]
                data = pair(family, cell.planted, cell.episodes, repetition, cell.backgrounds)
            start = time.perf_counter()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    values["runs"].append(judge(cell.method, data, repetition))
            except UsageError as error:  # it needs actions, returns or policies: there are none
                values["skipped"] = str(error)
            seconds = time.perf_counter() - start
            values["seconds"] = values.get("seconds", 0.0) + seconds
            cell.path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(cell.path) as file:
                file.write(json.dumps(values).encode())
    return list(found.items())


def run(cells: Iterable[Cell], repetitions: int, jobs: int = 1) -> dict[Cell, dict[str, Any]]:
    """Measure all cells, several at a time; finished ones are read."""
    found = {cell: cell.read() for cell in cells}
    groups: dict[Any, list[Cell]] = {}
    for cell, values in found.items():
        if len(values["runs"]) < repetitions and "skipped" not in values:
            groups.setdefault((cell.method in SLOW, *cell[1:]), []).append(cell)
    work = partial(measure, repetitions=repetitions)
    waiting = list(groups.values())
    with ProcessPoolExecutor(jobs) if jobs > 1 else nullcontext() as pool:
        if pool is None:
            results: Iterable[Any] = map(work, waiting)
        else:
            results = (one.result() for one in as_completed(pool.submit(work, g) for g in waiting))
        for number, result in enumerate(results, 1):
            found |= result
            for cell, values in result:
                told = values.get("skipped") or f"{summary(values)} {values['seconds']:.0f} s"
                print(f"[{number}/{len(waiting)}] {' '.join(map(str, cell[:4]))}: {told}")
            sys.stdout.flush()
    return found


def cells_of(given: argparse.Namespace) -> list[Cell]:
    """All cells that the command line asks for, those of fast methods first."""
    every = families()
    cells = []
    for method in sorted(given.methods, key=lambda name: name in SLOW):
        for name in given.families:
            for planted in every[name].steps(given.planted):
                for n in given.episodes:
                    if method in SLOW and n > min(given.episodes) and not given.method:
                        continue
                    cells.append(Cell(method, name, planted, n, given.backgrounds))
    return cells


def main(arguments: list[str] | None = None) -> dict[Cell, dict[str, Any]]:
    from pivec.characterizations import names

    def numbers(kind: Any) -> Any:
        return lambda text: tuple(map(kind, text.split(",")))

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", action="append", default=[], metavar="NAME|MODULE:OBJECT")
    parser.add_argument("--methods", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--families", nargs="+", default=list(families()), choices=families())
    parser.add_argument("--planted", type=numbers(float), help="total variation: 0,0.1,0.3")
    parser.add_argument("--episodes", type=numbers(int), default=(20, 100))
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--backgrounds", type=int, default=0, choices=range(5))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--fresh", action="store_true", help="measure again")
    parser.add_argument("--page", action="store_true", help="write docs/planted.md")
    given = parser.parse_args(arguments)
    given.methods = [*given.methods, *given.method] or ["same", "marginals", *names()]
    cells = cells_of(given)
    if given.fresh:
        for cell in cells:
            cell.path.unlink(missing_ok=True)
    found = run(cells, given.repetitions, given.jobs)
    print(tables(found))
    if given.page:
        write(found)
    return found


if __name__ == "__main__":
    main()
