"""The fast kernel for CPUs: compiled loops over tiles, one thread a core.

This module lays a mixture out for the tiles, gives chunks of rows to the workers, and adds the
results in a fixed order, so that they do not depend on the number of threads. The loops are in
`numba_sums` and `numba_loops`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.engines.workers import n_threads, run_tasks
from pivec.mixtures.mixture import FAR, Mixture
from pivec.mixtures.numba_loops import STRIDE, TILE
from pivec.mixtures.numba_sums import sum_chunk, sum_segments
from pivec.mixtures.numpy_kernel import hold, moments, take
from pivec.mixtures.source import Starts, refuse_not_finite
from pivec.mixtures.statistics import SegmentSums, Statistics
from pivec.states.record import overlapping

__all__ = ["accumulate", "add_segments", "hold", "moments", "take"]

_CHUNK = 8 * TILE
"""States a task, with sums of its own."""
_RUN = 32 * TILE
"""States a task of segments, whose ends cost something."""
_NARROW = 64.0
"""Beyond this |μ|/σ the rounding of float32 states is felt, 1e-5 of a deviation."""

Array = NDArray[np.float64]


class Packed(NamedTuple):
    """A mixture laid out for the tiles: K and D are multiples of four by padding.

    ``center``, ``inverse`` (D) standardise; ``narrow`` (D/4) marks fours of features; ``means``,
    ``means_low``, ``factors`` (K, D) are float32 with factor −log₂e / 2σ²; ``quanta`` + ``rests``
    (K) are the constants of the logits. ``precise_means``, ``precise_factors``, ``constants`` are
    the same without padding in float64, for states whose nearest component is beyond ``far``.
    ``inverse_deviations`` (K, D) is 1/σ. States beyond ``limit`` deviations count as being there.
    """

    center: Any
    inverse: Any
    narrow: Any
    means: Any
    means_low: Any
    factors: Any
    rests: Any
    quanta: Any
    precise_means: Any
    precise_factors: Any
    constants: Any
    inverse_deviations: Any
    limit: float
    far: float


class Tile(NamedTuple):
    """Room for one tile: states by row and by feature with low parts, and what comes of them.

    ``open_counts`` and ``open_sums`` are those of the segment that is being summed, in float64.
    """

    rows: Any
    rows_low: Any
    x: Any
    low: Any
    values: Any
    nearest: Any
    top: Any
    total: Any
    counts: Any
    work: Any
    open_counts: Any
    open_sums: Any


def new_tile(model: Packed) -> Tile:
    """Make room for a tile of a mixture."""
    K, D = model.means.shape
    shapes = ((TILE, D), (TILE, D), (D, STRIDE), (D, STRIDE), (K, STRIDE), TILE, TILE, TILE, K)
    rooms = [np.zeros(shape, np.float32) for shape in shapes]
    return Tile._make([*rooms, np.zeros(K), np.zeros(K), np.zeros((K, D))])


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


def _over_rows(
    states: NDArray[Any],
    rows: int,
    model: Packed,
    first_row: int,
    work: Callable[[int, int, int, Tile], float],
) -> None:
    """Call ``work(i, first, last, tile)`` for so many rows a task, on all workers.

    It gives a log-likelihood, which is NaN if a state is not finite.
    """
    tiles = [new_tile(model) for _ in range(n_threads())]

    def task(i: int) -> None:
        first, last = i * rows, min((i + 1) * rows, len(states))
        tile = tiles.pop()
        density = work(i, first, last, tile)
        tiles.append(tile)
        if np.isnan(density):
            refuse_not_finite(states[first:last], first_row + first)

    run_tasks(task, -(-len(states) // rows))


def accumulate(
    block: NDArray[Any], mixture: Mixture, hard: bool = False, first_row: int = 0
) -> Statistics:
    """Statistics of a block; see `pivec.mixtures.accumulate.accumulate`."""
    states, model = _readable(block), pack(mixture)
    n_chunks = -(-len(states) // _CHUNK)
    counts = np.zeros((n_chunks, model.means.shape[0]))
    sums, squares = np.zeros((2, n_chunks, *model.means.shape))
    density = np.zeros(n_chunks)

    def work(i: int, first: int, last: int, tile: Tile) -> float:
        density[i] = sum_chunk(
            states, first, last, model, hard, tile, counts[i], sums[i], squares[i]
        )
        return float(density[i])

    _over_rows(states, _CHUNK, model, first_row, work)
    K, D = mixture.means.shape
    return Statistics(
        counts.sum(axis=0)[:K],
        sums.sum(axis=0)[:K, :D] / np.sqrt(mixture.variances),
        squares.sum(axis=0)[:K, :D] / mixture.variances,
        float(density.sum()) * np.log(2),
        len(states),
    )


def add_segments(
    block: NDArray[Any], starts: Starts, mixture: Mixture, into: SegmentSums, first_row: int = 0
) -> None:
    """Add the statistics of the segments of a block; see `Kernel.add_segments`."""
    counts, sums = into
    states, model = _readable(block), pack(mixture)
    n_runs = -(-len(states) // _RUN)
    # The first and the last segment of a run may go on in its neighbours: they are added in order.
    edge_counts = np.zeros((n_runs, 2, *counts.shape[1:]))
    edge_sums = np.zeros((n_runs, 2, *sums.shape[1:]))
    edges = np.zeros((n_runs, 2), dtype=np.int64)

    def work(i: int, first: int, last: int, tile: Tile) -> float:
        s0, s1 = overlapping(starts, first, last)
        edges[i] = s0, s1 - 1
        return float(
            sum_segments(
                states, first, last, starts, s0, s1 - 1, model, tile, counts, sums,
                edge_counts[i], edge_sums[i],
            )
        )  # fmt: skip

    _over_rows(states, _RUN, model, first_row, work)
    for i, e in np.ndindex(n_runs, 2):
        counts[edges[i, e]] += edge_counts[i, e]
        sums[edges[i, e]] += edge_sums[i, e]
