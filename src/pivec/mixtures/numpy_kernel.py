"""The kernel in plain NumPy: float64 matrix products over blocks of states.

The log-density of a diagonal Gaussian is linear in [x², x, 1], so all components of a block are
one matrix product. That form cancels as (μ/σ)²: harmless in float64, ruinous in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.mixtures.model import (
    FAR,
    Mixture,
    SegmentSums,
    Starts,
    StateSource,
    Statistics,
    check_finite,
)
from pivec.parallel import run_tasks, single_threaded_blas
from pivec.states import overlapping

_TILE = 4096
"""States per task: [components, states] of 64 components is then 2 MB, the size of a cache."""

Array = NDArray[np.float64]


def hold(source: StateSource) -> None:
    """Hold nothing: this kernel works on the data in place."""
    del source


def take(block: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Copy these rows of a block."""
    return np.ascontiguousarray(block[rows])


def coefficients(mixture: Mixture) -> tuple[Array, Array]:
    """Coefficients of [x², x] (K, 2D) and the constants (K, 1) of the log-densities."""
    precision = 1 / mixture.variances
    with np.errstate(divide="ignore"):
        log_weights = np.log(mixture.weights)
    constants = log_weights - 0.5 * (
        np.log(2 * np.pi * mixture.variances) + mixture.means**2 * precision
    ).sum(axis=1)
    return np.hstack([-0.5 * precision, mixture.means * precision]), constants[:, None]


def _powers(block: NDArray[Any], mixture: Mixture) -> Array:
    """Standardise a block and give [x², x], shape (n, 2D)."""
    D = mixture.n_features
    powers = np.empty((len(block), 2 * D))
    x = powers[:, D:]
    np.subtract(block, mixture.center, out=x)
    x /= mixture.scale
    np.clip(x, -FAR, FAR, out=x)
    np.multiply(x, x, out=powers[:, :D])
    return powers


def _responsibilities(
    powers: Array, linear: Array, constants: Array, hard: bool
) -> tuple[Array, Array]:
    """Responsibilities (K, n) and log-densities (n,); one component takes all if ``hard``."""
    logits = linear @ powers.T
    logits += constants
    top = logits.max(axis=0)
    if hard:
        shares = (logits == top).astype(np.float64)
    else:
        logits -= top
        shares = np.exp(logits, out=logits)
    total = shares.sum(axis=0)
    shares /= total
    return shares, top + np.log(total)


def centred(raw: Array, counts: Array, mixture: Mixture) -> tuple[Array, Array]:
    """Turn Σ r [x², x] (..., K, 2D) into Σ r z² and Σ r z about the mixture."""
    D = mixture.n_features
    n, mu, variance = counts[..., None], mixture.means, mixture.variances
    squares, sums = raw[..., :D], raw[..., D:]
    centred_squares = (squares - mu * (2 * sums - n * mu)) / variance
    return np.maximum(centred_squares, 0), (sums - n * mu) / np.sqrt(variance)


def _in_tiles(n_rows: int, work: Callable[[int, int, int], None]) -> None:
    """Call ``work(i, first, last)`` for every tile of rows, on all workers."""
    with single_threaded_blas():
        run_tasks(lambda i: work(i, i * _TILE, min((i + 1) * _TILE, n_rows)), -(-n_rows // _TILE))


def accumulate(
    block: NDArray[Any], mixture: Mixture, hard: bool = False, first_row: int = 0
) -> Statistics:
    """Statistics of a block; see `pivec.mixtures.accumulate`."""
    linear, constants = coefficients(mixture)
    n_tiles = -(-len(block) // _TILE)
    raw = np.empty((n_tiles, *linear.shape))
    counts = np.empty((n_tiles, mixture.n_components))
    likelihood = np.empty(n_tiles)

    def work(i: int, first: int, last: int) -> None:
        check_finite(block[first:last], first_row + first)
        powers = _powers(block[first:last], mixture)
        shares, log_densities = _responsibilities(powers, linear, constants, hard)
        counts[i] = shares.sum(axis=1)
        np.matmul(shares, powers, out=raw[i])
        likelihood[i] = log_densities.sum()

    _in_tiles(len(block), work)
    n = counts.sum(axis=0)
    squares, sums = centred(raw.sum(axis=0), n, mixture)
    return Statistics(n, sums, squares, float(likelihood.sum()), len(block))


def add_segments(
    block: NDArray[Any], starts: Starts, mixture: Mixture, into: SegmentSums, first_row: int = 0
) -> None:
    """Add the statistics of the segments of a block; see `Kernel.add_segments`."""
    counts, sums, squares = into
    linear, constants = coefficients(mixture)
    with single_threaded_blas():
        for first in range(0, len(block), _TILE):
            last = min(first + _TILE, len(block))
            check_finite(block[first:last], first_row + first)
            powers = _powers(block[first:last], mixture)
            shares, _ = _responsibilities(powers, linear, constants, False)
            for s in range(*overlapping(starts, first, last)):
                rows = slice(max(starts[s] - first, 0), min(starts[s + 1], last) - first)
                n = shares[:, rows].sum(axis=1)
                counts[s] += n
                second, first_order = centred(shares[:, rows] @ powers[rows], n, mixture)
                sums[s] += first_order
                if squares is not None:
                    squares[s] += second


def moments(block: NDArray[Any], first_row: int = 0) -> tuple[Array, Array]:
    """Mean and sum of squared deviations of every column of a block, in float64."""
    D = block.shape[1]
    n_tiles = -(-len(block) // _TILE)
    counts = np.empty((n_tiles, 1))
    means, deviations = np.empty((n_tiles, D)), np.empty((n_tiles, D))

    def work(i: int, first: int, last: int) -> None:
        check_finite(block[first:last], first_row + first)
        tile = block[first:last].astype(np.float64)
        counts[i] = last - first
        means[i] = tile.mean(axis=0)
        deviations[i] = ((tile - means[i]) ** 2).sum(axis=0)

    _in_tiles(len(block), work)
    mean = (counts * means).sum(axis=0) / len(block)
    return mean, (deviations + counts * (means - mean) ** 2).sum(axis=0)


def assign(states: NDArray[Any], mixture: Mixture) -> tuple[NDArray[np.int32], Array]:
    """Likeliest component and log-density of each state, shapes (n,)."""
    linear, constants = coefficients(mixture)
    result = np.empty(len(states))
    component = np.empty(len(states), dtype=np.int32)

    def work(_: int, first: int, last: int) -> None:
        check_finite(states[first:last], first)
        powers = _powers(states[first:last], mixture)
        shares, result[first:last] = _responsibilities(powers, linear, constants, False)
        component[first:last] = shares.argmax(axis=0)

    _in_tiles(len(states), work)
    return component, result
