"""Parts of a distance: blocks of a difference, each with an interval, and whether it is noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pivec.distances.discoveries import RATE, benjamini_hochberg
from pivec.distances.intervals import Spread, intervals_of, moments_spread

Array = NDArray[np.float64]
_ROUNDING = 1e-12  # of all parts together: one so small is none


@dataclass(frozen=True)
class Parts:
    """Parts of one distance, arrays of one shape; those measured add up to it."""

    measured: Array
    estimate: Array  # without what sampling adds
    low: Array
    high: Array
    noise: NDArray[np.bool_]  # may well be chance: q > 0.05 among these parts, or nothing is known

    def reshaped(self, *shape: int) -> Parts:
        """Give the same parts in another shape."""
        return Parts(*(value.reshape(shape) for value in vars(self).values()))


def parts_of(
    differences: Array,
    moved: Sequence[Array],
    freedom: Sequence[float],
    level: float,
    squared: bool = True,
) -> Parts:
    """Parts that are the sums of squares of blocks of differences, (n,).

    ``differences`` are (n, size), a row a block; ``moved`` has for both policies the influences of
    their episodes on them, (n, m, size), none of which there are with a single episode. Where the
    distance is not ``squared``, a block is one difference, and the part its size.
    """
    squares = np.einsum("ns,ns->n", differences, differences)
    variance = np.zeros(len(differences))
    spreads = []
    for influences, dof in zip(moved, freedom, strict=True):
        m = influences.shape[1]
        if m < 2:
            unknown = np.full(len(differences), np.nan)
            spreads.append(Spread(unknown, unknown, unknown, np.ones_like(unknown)))
            variance += np.nan
            continue
        along = np.einsum("nms,ns->nm", influences, differences)
        variance += 4.0 * np.einsum("nm,nm->n", along, along) / (m * (m - 1))
        spreads.append(Spread(*_moments(influences), np.full(len(differences), max(dof, 1.0))))
    sure = intervals_of(squares, variance, spreads[0], spreads[1], level, squared=squared)
    q = benjamini_hochberg(_p_values(squares, *spreads))
    measured = squares if squared else np.sqrt(squares)
    rounding = measured <= _ROUNDING * measured.sum()
    return Parts(measured, sure.distance, sure.low, sure.high, ~(q <= RATE) | rounding)


def _p_values(squares: Array, a: Spread, b: Spread) -> Array:
    """How often chance gives parts so large.

    As `intervals_of`, but by F instead of χ²: of many small parts the most extreme is looked at,
    where it matters that the spread itself is known from few episodes only. The degrees of freedom
    are Welch's.
    """
    from scipy.stats import f

    noise, norm = a.trace + b.trace, (a.norm + b.norm) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = noise**2 / (a.trace**2 / a.freedom + b.trace**2 / b.freedom)
        p_value = f.sf(squares / noise, noise**2 / norm, freedom)
    return np.where(noise == 0.0, np.where(squares > 0.0, 0.0, 1.0), p_value)


def _moments(influences: Array) -> tuple[Array, Array, Array]:
    """Trace and norms of the spread of each block, as `spread_of` has them of policies."""
    _, m, size = influences.shape
    lengths = np.einsum("nms,nms->nm", influences, influences)
    fourth = np.einsum("nm,nm->n", lengths, lengths) / (m - 1)
    trace = lengths.sum(axis=1) / (m - 1)
    # ‖XᵀX‖ = ‖XXᵀ‖: whichever is smaller.
    if size == 1:
        square = trace**2
    else:
        script = "nms,nmt->nst" if size <= m else "nms,nks->nmk"
        products = np.einsum(script, influences, influences, optimize=True)
        square = (products**2).sum(axis=(1, 2)) / (m - 1) ** 2
    return moments_spread(trace, square, fourth, m)
