"""64 workers and 1 000 policies of uneven length: the share of the ideal, by a clock and in truth.

Policies sleep as slow simulators would let them wait. They are dealt out by the rule of
`pivec.rollouts.play`; a clock of events gives the share of many draws, a cluster with as many
workers what messages and starts of pieces add to it.
"""

from __future__ import annotations

import heapq
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from measure import table

WORKERS, POLICIES, DRAWS = 64, 1000, 50
FILLING = 1  # policies of a piece at least, where every environment is stepped by itself
LENGTHS: dict[str, Callable[[np.random.Generator], NDArray[np.float64]]] = {
    "between 1 and 10, all as likely": lambda rng: rng.uniform(1, 10, POLICIES),
    "1, and of three in ten 10": lambda rng: np.where(rng.random(POLICIES) < 0.3, 10.0, 1.0),
    "log-normal, σ 0.7": lambda rng: rng.lognormal(0, 0.7, POLICIES),
}


class _Workers:
    """Stands for an engine of so many."""

    n_workers = WORKERS


def pieces(n: int) -> Iterator[list[int]]:
    """Deal policies out as `play` does."""
    from unittest import mock

    from pivec.rollouts import play

    with mock.patch.object(play, "current", _Workers):
        yield from (list(piece) for piece in play._shares(n, FILLING))


def by_clock(lengths: NDArray[np.float64], dealt: list[list[int]]) -> float:
    """Give the time at which the last worker ends, if each takes the next piece when it is free."""
    free = [0.0] * WORKERS
    for piece in dealt:
        heapq.heappush(free, heapq.heappop(free) + lengths[piece].sum())
    return max(free)


def ideal(lengths: NDArray[np.float64]) -> float:
    return max(lengths.sum() / WORKERS, lengths.max())


def sleeps(piece: list[tuple[int, float]], tell: Any) -> None:
    for number, seconds in piece:
        time.sleep(seconds)
        tell(number)


def waits(folder: str, _tell: Any) -> None:
    """Be there until all workers are."""
    Path(folder, str(os.getpid())).touch()
    while len(os.listdir(folder)) < WORKERS:
        time.sleep(0.5)


def in_truth(lengths: NDArray[np.float64], nodes: int = 4) -> float:
    """Sleep so long on a cluster of so many workers, all of them started."""
    from cluster import cluster
    from pivec.parallel.ray_engine import RayEngine

    done: set[int] = set()
    with cluster(nodes, cpus=WORKERS // nodes) as made, tempfile.TemporaryDirectory() as folder:
        engine = RayEngine(made.address)
        list(engine.map(waits, [folder] * WORKERS))
        began = time.perf_counter()
        work = ([(i, lengths[i]) for i in piece] for piece in pieces(len(lengths)))
        list(engine.map(sleeps, work, on_message=lambda _, number: done.add(number)))
        seconds = time.perf_counter() - began
        engine.close()
    assert len(done) == len(lengths)
    return seconds


def scale(_folder: Path, _times: int) -> str:
    """Give the share of the ideal for several kinds of unevenness."""
    dealt, rows = list(pieces(POLICIES)), []
    for name, draw in LENGTHS.items():
        shares = [
            ideal(x) / by_clock(x, dealt)
            for x in map(draw, map(np.random.default_rng, range(DRAWS)))
        ]
        lengths = draw(np.random.default_rng(0))
        lengths *= 16 / ideal(lengths)  # seconds in all
        truth = in_truth(lengths)
        rows.append(
            [
                name,
                f"{np.mean(shares):.0%}",
                f"{min(shares):.0%}",
                f"{ideal(lengths) / by_clock(lengths, dealt):.0%}",
                f"{ideal(lengths) / truth:.0%}",
            ]
        )
        print(rows[-1], flush=True)
    header = [
        "lengths of policies",
        f"clock, mean of {DRAWS}",
        "least",
        "clock, first draw",
        "64 Ray workers, that draw",
    ]
    words = (
        f"{POLICIES} policies on {WORKERS} workers. Ideal: all workers busy to the end, or the "
        "longest policy alone."
    )
    return f"{words}\n\n{table(header, rows)}"
