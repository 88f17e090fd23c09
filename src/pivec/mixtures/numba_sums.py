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
def _fold(tile, factors, counts, sums, nn, nf, ff, moments):
    """Add the segment in the tile, its n (K) and f · factors (K, D), to sums of the same.

    With ``moments`` also its n², n·f and f². The tile's are emptied.
    """
    K, D = sums.shape
    for k in range(K):
        count = tile.open_counts[k]
        if count == 0.0:
            continue
        tile.open_counts[k] = 0.0
        counts[k] += count
        if moments:
            nn[k] += count * count
        for d in range(D):
            z = tile.open_sums[k, d] * factors[k, d]
            tile.open_sums[k, d] = 0.0
            sums[k, d] += z
            if moments:
                nf[k, d] += count * z
                ff[k, d] += z * z


@compiled
def sum_segments(block, first, last, segment, final, starts, owners, model, hard, tile, out, edges):
    """Fold the segments of rows first to last into their owners; False if a row is not finite.

    ``segment`` and ``final`` are those that hold the first and the last row. ``out`` is (counts,
    sums, nn, nf, ff, moments), ``edges`` the first five of these again, for what is shared with a
    neighbouring run: what belongs to the first owner goes into edges[0] and to the last into
    edges[1], a segment that began before ``first`` into edges[2], one that ends after ``last`` into
    edges[3].
    """
    counts, sums, nn, nf, ff, moments = out
    edge_counts, edge_sums, edge_nn, edge_nf, edge_ff = edges
    s = segment
    for row in range(first, last, TILE):
        in_tile = min(TILE, last - row)
        if np.isnan(expect(block, row, in_tile, model, hard, tile)):
            return False
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
            o = owners[s]
            e = -1
            if starts[s] < first:
                e = 2
            elif starts[s + 1] > last:
                e = 3
            elif o == owners[segment]:
                e = 0
            elif o == owners[final]:
                e = 1
            if e < 0:
                n, f, n2, n_f, f2 = counts[o], sums[o], nn[o], nf[o], ff[o]
            else:
                n, f = edge_counts[e], edge_sums[e]
                n2, n_f, f2 = edge_nn[e], edge_nf[e], edge_ff[e]
            _fold(tile, model.inverse_deviations, n, f, n2, n_f, f2, moments)
            s += 1
            while s < len(owners) and starts[s + 1] <= row + b:
                s += 1
    return True
