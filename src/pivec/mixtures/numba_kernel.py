"""The fast kernel for CPUs: compiled loops over tiles, one thread a core.

This module lays a mixture out for the tiles, hands chunks of rows to the workers, and adds the
results in a fixed order, so that they do not depend on the number of threads. The loops are in
`numba_tiles` and `numba_sums`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.engines.workers import run_tasks
from pivec.mixtures.checks import FAR, refuse_not_finite
from pivec.mixtures.fold import Fold
from pivec.mixtures.mixture import Mixture
from pivec.mixtures.numba_sums import fold, sum_chunk, sum_moments, sum_segments
from pivec.mixtures.numba_tiles import TILE, Packed
from pivec.mixtures.source import StateSource
from pivec.mixtures.statistics import Statistics

name = "numba"

_CHUNK = 8 * TILE
"""States a task, with sums of its own."""
_RUN = 32 * TILE
"""States a task of segments, whose ends cost something."""
_NARROW = 64.0
"""Beyond this |μ|/σ the rounding of float32 states is felt, 1e-5 of a deviation."""

Array = NDArray[np.float64]


def hold(source: StateSource) -> None:
    """Hold nothing: this kernel works where the data lies."""
    del source


def take(block: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Give a copy of some rows of a block."""
    return np.ascontiguousarray(block[rows])


def pack(mixture: Mixture) -> Packed:
    """Lay a mixture out for the tiles; see `Packed`."""
    K, D = mixture.means.shape
    rows, columns = K + -K % 4, D + -D % 4
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


def accumulate(
    block: NDArray[Any], mixture: Mixture, hard: bool = False, first_row: int = 0
) -> Statistics:
    """Statistics of a block; see `pivec.mixtures.accumulate.accumulate`."""
    states, model = _readable(block), pack(mixture)
    n_chunks = -(-len(states) // _CHUNK)
    counts = np.zeros((n_chunks, model.means.shape[0]))
    sums, squares = np.zeros((2, n_chunks, *model.means.shape))
    density = np.zeros(n_chunks)

    def work(i: int) -> None:
        first, last = i * _CHUNK, min((i + 1) * _CHUNK, len(states))
        density[i] = sum_chunk(states, first, last, model, hard, counts[i], sums[i], squares[i])
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
        np.zeros((n_runs, 2 if into.moments or i < 2 else 0, *shape))
        for i, shape in enumerate(shapes)
    )
    ends = np.zeros((n_runs, 2, K)), np.zeros((n_runs, 2, K, D))
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
        first, last, segment, _ = bounds(i)
        fine = sum_segments(
            states, first, last, segment, starts, owners, model, False, out,
            tuple(edge[i] for edge in edges), tuple(end[i] for end in ends),
        )  # fmt: skip
        if not fine:
            refuse_not_finite(states[first:last], first_row + first)

    run_tasks(work, n_runs)
    for i in range(n_runs):
        first, last, segment, final = bounds(i)
        if starts[segment] < first:
            into.open_counts += ends[0][i, 0]
            into.open_sums += ends[1][i, 0]
            if starts[segment + 1] <= last:
                _close(into, int(owners[segment]))
        for e, owner in enumerate((owners[segment], owners[final])):
            for total, edge in zip(
                (into.counts, into.sums, into.nn, into.nf, into.ff), edges, strict=True
            ):
                if edge.shape[1]:
                    total[owner] += edge[i, e]
        if starts[final] >= first and starts[final + 1] > last:
            into.open_counts += ends[0][i, 1]
            into.open_sums += ends[1][i, 1]


def _close(into: Fold, owner: int) -> None:
    """Fold the open segment, which is whole now."""
    nothing = np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0))
    nn, nf, ff = (into.nn[owner], into.nf[owner], into.ff[owner]) if into.moments else nothing
    fold(
        into.open_counts, into.open_sums, np.ones_like(into.open_sums), into.counts[owner],
        into.sums[owner], nn, nf, ff, into.moments,
    )  # fmt: skip


def moments(block: NDArray[Any], first_row: int = 0) -> tuple[Array, Array]:
    """Mean and sum of squared deviations of every column of a block, in float64."""
    states = _readable(block)
    n_chunks = -(-len(states) // _CHUNK)
    sums, squares = np.zeros((2, n_chunks, states.shape[1]))

    def work(i: int) -> None:
        sum_moments(states, i * _CHUNK, min((i + 1) * _CHUNK, len(states)), sums[i], squares[i])
        if not (np.isfinite(sums[i]).all() and np.isfinite(squares[i]).all()):
            refuse_not_finite(states[i * _CHUNK : (i + 1) * _CHUNK], first_row + i * _CHUNK)

    run_tasks(work, n_chunks)
    counts = np.full((n_chunks, 1), _CHUNK)
    counts[-1] = len(states) - (n_chunks - 1) * _CHUNK
    shifts = sums / counts
    means = states[::_CHUNK].astype(np.float64) + shifts
    mean = (counts * means).sum(axis=0) / len(states)
    within = np.maximum(squares - counts * shifts**2, 0).sum(axis=0)
    return mean, within + (counts * (means - mean) ** 2).sum(axis=0)
