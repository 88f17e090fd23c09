"""The fast kernel for CPUs: compiled loops over tiles, one thread a core.

This module lays a mixture out for the tiles, hands chunks of rows to the workers, and adds the
results in a fixed order, so that they do not depend on the number of threads. The loops are in
`numba_tiles` and `numba_sums`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.engines.workers import n_threads, run_tasks
from pivec.mixtures.checks import FAR, refuse_not_finite
from pivec.mixtures.fold import Fold
from pivec.mixtures.mixture import Mixture
from pivec.mixtures.numba_loops import TILE
from pivec.mixtures.numba_sums import sum_chunk, sum_segments
from pivec.mixtures.numba_tiles import Packed, Tile, new_tile
from pivec.mixtures.numpy_kernel import hold, moments, take
from pivec.mixtures.statistics import Statistics

__all__ = ["accumulate", "fold_segments", "hold", "moments", "name", "take"]

name = "numba"

_CHUNK = 8 * TILE
"""States a task, with sums of its own."""
_RUN = 32 * TILE
"""States a task of segments, whose ends cost something."""
_NARROW = 64.0
"""Beyond this |μ|/σ the rounding of float32 states is felt, 1e-5 of a deviation."""

Array = NDArray[np.float64]


def pack(mixture: Mixture) -> Packed:
    """Lay a mixture out for the tiles; see `Packed`."""
    K, D = mixture.means.shape
    rows, columns = K + -K % 2, D + -D % 4
    deviations = np.sqrt(mixture.variances)
    factors = -0.5 * np.log2(np.e) / mixture.variances
    with np.errstate(divide="ignore"):
        log_weights = np.log2(mixture.weights)
    constants = log_weights - 0.5 * np.log2(2 * np.pi * mixture.variances).sum(axis=1)
    # A component without weight, or a padded one, is beaten by every other.
    constants = np.maximum(constants, -1e30)
    quanta, rests = np.full(rows, -1e30, np.float32), np.zeros(rows, np.float32)
    quanta[:K] = np.round(constants * 256) / 256
    rests[:K] = constants - quanta[:K].astype(np.float64)
    means = np.zeros((rows, columns))
    means[:K, :D] = mixture.means
    high = means.astype(np.float32)
    ratio = np.zeros(columns)
    ratio[:D] = (np.abs(mixture.means) / deviations).max(axis=0)
    return Packed(
        center=mixture.center,
        inverse=1 / mixture.scale,
        narrow=(ratio > _NARROW).reshape(-1, 4).any(axis=1),
        means=high,
        means_low=(means - high).astype(np.float32),
        factors=_padded(factors, rows, columns).astype(np.float32),
        rests=rests,
        quanta=quanta,
        precise_means=mixture.means,
        precise_factors=factors,
        constants=constants,
        inverse_deviations=1 / deviations,
        limit=FAR,
        far=128.0 + 4.0 * D,
    )


def _padded(values: Array, rows: int, columns: int) -> Array:
    result = np.zeros((rows, columns))
    result[: values.shape[0], : values.shape[1]] = values
    return result


def _readable(block: NDArray[Any]) -> NDArray[Any]:
    """Give the block contiguous and read-only: one type of array, compiled once."""
    view = np.ascontiguousarray(block).view()
    view.flags.writeable = False
    return view


def _tiles(model: Packed) -> list[Tile]:
    """Make one tile for each worker, to be taken and put back."""
    return [new_tile(model) for _ in range(n_threads())]


def accumulate(
    block: NDArray[Any], mixture: Mixture, hard: bool = False, first_row: int = 0
) -> Statistics:
    """Statistics of a block; see `pivec.mixtures.accumulate.accumulate`."""
    states, model = _readable(block), pack(mixture)
    n_chunks = -(-len(states) // _CHUNK)
    counts = np.zeros((n_chunks, model.means.shape[0]))
    sums, squares = np.zeros((2, n_chunks, *model.means.shape))
    density = np.zeros(n_chunks)
    tiles = _tiles(model)

    def work(i: int) -> None:
        first, last = i * _CHUNK, min((i + 1) * _CHUNK, len(states))
        tile = tiles.pop()
        density[i] = sum_chunk(
            states, first, last, model, hard, tile, counts[i], sums[i], squares[i]
        )
        tiles.append(tile)
        if np.isnan(density[i]):
            refuse_not_finite(states[first:last], first_row + first)

    run_tasks(work, n_chunks)
    K, D = mixture.means.shape
    return Statistics(
        counts.sum(axis=0)[:K],
        sums.sum(axis=0)[:K, :D] / np.sqrt(mixture.variances),
        squares.sum(axis=0)[:K, :D] / mixture.variances,
        float(density.sum()) * np.log(2),
        len(states),
    )


def fold_segments(
    into: Fold,
    block: NDArray[Any],
    starts: NDArray[np.int64],
    owners: NDArray[np.int64],
    mixture: Mixture,
    first_row: int = 0,
) -> None:
    """Fold the segments of a block into their owners; see `Kernel.fold_segments`."""
    states, model = _readable(block), pack(mixture)
    K, D = mixture.means.shape
    n_runs = -(-len(states) // _RUN)
    shapes = ((K,), (K, D), (K,), (K, D), (K, D))
    # What a run shares with its neighbours: its first and last owner, its first and last segment.
    edges = tuple(
        np.zeros((n_runs, 4 if into.moments or i < 2 else 0, *shape))
        for i, shape in enumerate(shapes)
    )
    tiles = _tiles(model)
    out = (into.counts, into.sums, into.nn, into.nf, into.ff, into.moments)

    def bounds(i: int) -> tuple[int, int, int, int]:
        first, last = i * _RUN, min((i + 1) * _RUN, len(states))
        return (
            first,
            last,
            int(np.searchsorted(starts, first, side="right")) - 1,
            int(np.searchsorted(starts, last, side="left")) - 1,
        )

    def work(i: int) -> None:
        first, last, segment, final = bounds(i)
        tile = tiles.pop()
        fine = sum_segments(
            states, first, last, segment, final, starts, owners, model, False, tile, out,
            tuple(edge[i] for edge in edges),
        )  # fmt: skip
        tiles.append(tile)
        if not fine:
            refuse_not_finite(states[first:last], first_row + first)

    run_tasks(work, n_runs)
    for i in range(n_runs):
        first, last, segment, final = bounds(i)
        if starts[segment] < first:
            into.open_counts += edges[0][i, 2]
            into.open_sums += edges[1][i, 2]
            if starts[segment + 1] <= last:
                into.add(np.zeros((1, K)), np.zeros((1, K, D)), owners[segment : segment + 1], True)
        for e, owner in enumerate((owners[segment], owners[final])):
            for total, edge in zip(
                (into.counts, into.sums, into.nn, into.nf, into.ff), edges, strict=True
            ):
                if edge.shape[1]:
                    total[owner] += edge[i, e]
        if starts[final] >= first and starts[final + 1] > last:
            into.open_counts += edges[0][i, 3]
            into.open_sums += edges[1][i, 3]
