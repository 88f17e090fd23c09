"""The compiled sums over states: of chunks for EM, of segments for adaptation.

A chunk or a run of segments is the work of one thread; its tiles are done one after another.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import numpy as np

from pivec.mixtures.numba_loops import TILE, add_rows, add_statistics, normalise
from pivec.mixtures.numba_tiles import compiled, expect, part

_PIECE = 256
"""States of a segment that are summed in one go: their rows stay in the first-level cache."""


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
