"""The compiled sums over states, of chunks for EM and of segments for adaptation, tile by tile.

A chunk or a run of segments is the work of one thread. A tile of 512 states stays in the caches
of a core.

Inside a tile everything is float32 and lies as [component, state] or [feature, state], so that
the innermost loops run over states and become vector instructions. Sums over tiles are float64.
Features and components come in fours; what is padded has weight zero. Logarithms are of base 2.

Three things keep float32 right where it would lose digits:

- distances are ((x − μ)/σ)² directly, and statistics are centred, never [x², x, 1];
- fours with a "narrow" feature, where some |μ|/σ is large, carry the low parts of state and mean
  along, so that x − μ is right to the last digit although x itself is rounded;
- the constant of a component is split into a multiple of 2⁻⁸, which cancels exactly against the
  maximum, and a small rest; states far from every component are done again in float64.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import numpy as np
from numba import njit

from pivec.engines.compiled import compiler
from pivec.mixtures.numba_loops import TILE, add_rows, add_statistics, load, normalise, share
from pivec.mixtures.numba_vector import SMALLEST

_PIECE = 256
"""States of a segment that are summed in one go: their rows stay in the first-level cache."""

f32 = np.float32


# NaN and infinity always keep their meaning, and sums the order they are written in. What another
# function calls becomes a part of it before it is compiled, so that nothing is compiled twice, and
# the process that compiles runs the same code as later ones that find it in the cache.
compiled = compiler("contract", "nsz", sources="numba_*.py")
part = njit(inline="always")


@part
def _share_precisely(state, model, values, i, work):
    """Do state i of a tile again in float64; give the base-2 log of its largest density."""
    K, D = model.precise_means.shape
    for k in range(K):
        work[k] = model.constants[k]
    for d in range(D):
        x = (np.float64(state[d]) - model.center[d]) * model.inverse[d]
        x = min(max(x, -model.limit), model.limit)
        for k in range(K):
            e = x - model.precise_means[k, d]
            work[k] += model.precise_factors[k, d] * e * e
    top = -np.inf
    for k in range(K):
        top = max(top, work[k])
    total = 0.0
    for k in range(K):
        share = 2.0 ** (work[k] - top) if work[k] - top > SMALLEST else 0.0
        values[k, i] = f32(share)
        total += share
    return top, f32(total)


@part
def _finish(n, top, total):
    """Give the sum of n log-densities, top + log total; turn totals into factors, 0 beyond n."""
    density = 0.0
    for i in range(n):
        density += np.float64(top[i])
    for i in range(n, TILE):
        total[i] = f32(1.0)
    for first in range(0, TILE, 32):
        # One logarithm for 32 states; totals lie between 1 and K.
        product = 1.0
        for i in range(first, first + 32):
            product *= np.float64(total[i])
        density += np.log2(product)
    for i in range(TILE):
        total[i] = f32(1.0) / total[i]
    for i in range(n, TILE):
        total[i] = f32(0.0)
    return density


@part
def expect(block, first, n, model, hard, tile):
    """E-step of n states: responsibilities times total in tile.values, factors in tile.total.

    Gives the base-2 log-likelihood, NaN if a state is not finite.
    """
    if np.isnan(load(block, first, n, model, tile)):
        return np.nan
    share(tile, model, hard)
    correction = 0.0
    if not hard:
        for i in range(n):
            if tile.nearest[i] < -model.far:
                top, total = _share_precisely(block[first + i], model, tile.values, i, tile.work)
                correction += top - np.float64(tile.top[i])
                tile.total[i] = total
    return correction + _finish(n, tile.top, tile.total)


@compiled
def sum_chunk(block, first, last, model, hard, tile, counts, sums, squares):
    """Statistics of rows first to last into zeroed float64 arrays; give the log-likelihood."""
    density = 0.0
    for row in range(first, last, TILE):
        n = min(TILE, last - row)
        density += expect(block, row, n, model, hard, tile)
        if np.isnan(density):
            break
        normalise(tile)
        for k in range(len(counts)):
            counts[k] += tile.counts[k]
        add_statistics(tile, model, sums, squares)
    return density


@part
def _close(tile, factors, counts, sums):
    """Add the segment in the tile, its n (K) and f · factors (K, D), and empty the tile's."""
    K, D = sums.shape
    for k in range(K):
        count = tile.open_counts[k]
        if count == 0.0:
            continue
        tile.open_counts[k] = 0.0
        counts[k] += count
        for d in range(D):
            sums[k, d] += tile.open_sums[k, d] * factors[k, d]
            tile.open_sums[k, d] = 0.0


@compiled
def sum_segments(
    block, first, last, starts, segment, final, model, tile, counts, sums, edge_counts, edge_sums
):
    """Add rows first to last to their segments' counts and sums; NaN if a row is not finite.

    ``segment`` and ``final`` are those that hold the first and the last row: what belongs to them
    goes into edges 0 and 1, because neighbouring runs may have parts of them too.
    """
    s = segment
    for row in range(first, last, TILE):
        in_tile = min(TILE, last - row)
        if np.isnan(expect(block, row, in_tile, model, False, tile)):
            return np.nan
        normalise(tile)
        for i in range(in_tile):
            for d in range(block.shape[1]):
                tile.rows[i, d] = tile.x[d, i]
                if model.narrow[d // 4]:
                    tile.rows_low[i, d] = tile.low[d, i]
        a = np.int64(0)
        while a < in_tile:
            b = min(in_tile, starts[s + 1] - row, a + _PIECE)
            add_rows(tile, model, a, b - a, tile.open_counts, tile.open_sums)
            a = b
            if row + b < starts[s + 1] and row + b < last:
                continue
            n, f = counts[s], sums[s]
            if s == segment:
                n, f = edge_counts[0], edge_sums[0]
            elif s == final:
                n, f = edge_counts[1], edge_sums[1]
            _close(tile, model.inverse_deviations, n, f)
            s += 1
            while s < len(counts) and starts[s + 1] <= row + b:
                s += 1
    return 0.0
