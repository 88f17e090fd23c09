"""The compiled sums over states: of chunks for EM, of segments for adaptation.

A chunk or a run of segments is the work of one thread; its tiles are done one after another.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import numpy as np

from pivec.mixtures.numba_tiles import TILE, difference, exact, expect, f32, new_tile, summing
from pivec.mixtures.numba_vector import make_weighted_rows

_PIECE = 256
"""States of a segment that are summed in one go: their rows stay in the first-level cache."""

_four_rows = make_weighted_rows(4, compensated=False)
_four_rows_low = make_weighted_rows(4, compensated=True)
_eight_rows = make_weighted_rows(8, compensated=False)
_eight_rows_low = make_weighted_rows(8, compensated=True)


@summing
def _narrow_statistics(x, low, means, means_low, k, d, share, sums, squares):
    """Add four features of component k, with the low parts."""
    x0, x1, x2, x3 = x[d], x[d + 1], x[d + 2], x[d + 3]
    y0, y1, y2, y3 = low[d], low[d + 1], low[d + 2], low[d + 3]
    for j in range(k, k + 2):
        r = share[j]
        m0, m1, m2, m3 = means[j, d], means[j, d + 1], means[j, d + 2], means[j, d + 3]
        n0, n1 = means_low[j, d], means_low[j, d + 1]
        n2, n3 = means_low[j, d + 2], means_low[j, d + 3]
        f0, f1, f2, f3 = f32(0.0), f32(0.0), f32(0.0), f32(0.0)
        s0, s1, s2, s3 = f32(0.0), f32(0.0), f32(0.0), f32(0.0)
        for i in range(TILE):
            e0, e1 = difference(x0[i], m0, y0[i], n0), difference(x1[i], m1, y1[i], n1)
            e2, e3 = difference(x2[i], m2, y2[i], n2), difference(x3[i], m3, y3[i], n3)
            p0, p1, p2, p3 = r[i] * e0, r[i] * e1, r[i] * e2, r[i] * e3
            f0 += p0
            f1 += p1
            f2 += p2
            f3 += p3
            s0 += p0 * e0
            s1 += p1 * e1
            s2 += p2 * e2
            s3 += p3 * e3
        sums[j, d] += f0
        sums[j, d + 1] += f1
        sums[j, d + 2] += f2
        sums[j, d + 3] += f3
        squares[j, d] += s0
        squares[j, d + 1] += s1
        squares[j, d + 2] += s2
        squares[j, d + 3] += s3


@summing
def _add_statistics(x, low, means, means_low, narrow, share, total, counts, sums, squares):
    """Add Σ r, Σ r e and Σ r e² of a tile, where e = x − μ in float32, to float64 sums."""
    K, D = means.shape
    for k in range(0, K, 2):
        j = k + 1
        r, t = share[k], share[j]
        n, o = f32(0.0), f32(0.0)
        for i in range(TILE):
            r[i] *= total[i]
            t[i] *= total[i]
            n += r[i]
            o += t[i]
        if n + o == f32(0.0):
            continue
        counts[k] += n
        counts[j] += o
        for d in range(0, D, 4):
            if narrow[d // 4]:
                _narrow_statistics(x, low, means, means_low, k, d, share, sums, squares)
                continue
            x0, x1, x2, x3 = x[d], x[d + 1], x[d + 2], x[d + 3]
            m0, m1, m2, m3 = means[k, d], means[k, d + 1], means[k, d + 2], means[k, d + 3]
            n0, n1, n2, n3 = means[j, d], means[j, d + 1], means[j, d + 2], means[j, d + 3]
            f0, f1, f2, f3 = f32(0.0), f32(0.0), f32(0.0), f32(0.0)
            s0, s1, s2, s3 = f32(0.0), f32(0.0), f32(0.0), f32(0.0)
            g0, g1, g2, g3 = f32(0.0), f32(0.0), f32(0.0), f32(0.0)
            u0, u1, u2, u3 = f32(0.0), f32(0.0), f32(0.0), f32(0.0)
            for i in range(TILE):
                e0, e1, e2, e3 = x0[i] - m0, x1[i] - m1, x2[i] - m2, x3[i] - m3
                p0, p1, p2, p3 = r[i] * e0, r[i] * e1, r[i] * e2, r[i] * e3
                f0 += p0
                f1 += p1
                f2 += p2
                f3 += p3
                s0 += p0 * e0
                s1 += p1 * e1
                s2 += p2 * e2
                s3 += p3 * e3
                e0, e1, e2, e3 = x0[i] - n0, x1[i] - n1, x2[i] - n2, x3[i] - n3
                p0, p1, p2, p3 = t[i] * e0, t[i] * e1, t[i] * e2, t[i] * e3
                g0 += p0
                g1 += p1
                g2 += p2
                g3 += p3
                u0 += p0 * e0
                u1 += p1 * e1
                u2 += p2 * e2
                u3 += p3 * e3
            sums[k, d] += f0
            sums[k, d + 1] += f1
            sums[k, d + 2] += f2
            sums[k, d + 3] += f3
            squares[k, d] += s0
            squares[k, d + 1] += s1
            squares[k, d + 2] += s2
            squares[k, d + 3] += s3
            sums[j, d] += g0
            sums[j, d + 1] += g1
            sums[j, d + 2] += g2
            sums[j, d + 3] += g3
            squares[j, d] += u0
            squares[j, d + 1] += u1
            squares[j, d + 2] += u2
            squares[j, d + 3] += u3


@exact
def sum_chunk(block, first, last, model, hard, counts, sums, squares):
    """Statistics of rows first to last into zeroed float64 arrays; give the log-likelihood."""
    K, D = model.means.shape
    tile = new_tile(K, D)
    density = 0.0
    for row in range(first, last, TILE):
        n = min(TILE, last - row)
        density += expect(block, row, n, model, hard, tile)
        if np.isnan(density):
            break
        _add_statistics(
            tile.x, tile.low, model.means, model.means_low, model.narrow, tile.values, tile.total,
            counts, sums, squares,
        )  # fmt: skip
    return density


@summing
def _normalise(values, total):
    """Turn responsibilities times total into responsibilities, by the factors in ``total``."""
    for k in range(values.shape[0]):
        row = values[k]
        for i in range(TILE):
            row[i] *= total[i]


@summing
def _sum(values, first, n):
    """Sum n entries; numbers without a sign, because others may count from the end."""
    total = f32(0.0)
    for i in range(n):
        total += values[np.uint64(first) + np.uint64(i)]
    return total


@exact
def _add_piece(tile, model, a, b, n, f, buffer):
    """Add Σ r and Σ r e of the states a to b of a tile to n (K) and f (K, D), in float64.

    Not `summing`: Numba would let the order of the differences in `weighted_rows` go, too.
    """
    K, D = model.means.shape
    rows, low, values = tile.rows.reshape(-1), tile.rows_low.reshape(-1), tile.values.reshape(-1)
    means, means_low = model.means.reshape(-1), model.means_low.reshape(-1)
    length = b - a
    for k in range(K):
        count = _sum(values, k * TILE + a, length)
        if count == f32(0.0):
            continue
        n[k] += count
        p = 0
        while p < D:
            row, share, mean = a * D + p, k * TILE + a, k * D + p
            if p + 8 <= D:
                if model.narrow[p // 4] or model.narrow[p // 4 + 1]:
                    _eight_rows_low(rows, low, row, D, values, share, length, means, means_low,
                                    mean, buffer, p)  # fmt: skip
                else:
                    _eight_rows(rows, low, row, D, values, share, length, means, means_low, mean,
                                buffer, p)  # fmt: skip
                p += 8
            else:
                if model.narrow[p // 4]:
                    _four_rows_low(rows, low, row, D, values, share, length, means, means_low,
                                   mean, buffer, p)  # fmt: skip
                else:
                    _four_rows(rows, low, row, D, values, share, length, means, means_low, mean,
                               buffer, p)  # fmt: skip
                p += 4
        for d in range(D):
            f[k, d] += buffer[d]


@exact
def fold(n, f, factors, counts, sums, nn, nf, ff, moments):
    """Add one segment, n (K) and f · factors (K, D), to sums of the same; n and f are emptied.

    With ``moments`` also its n², n·f and f².
    """
    K, D = sums.shape
    for k in range(K):
        count = n[k]
        if count == 0.0:
            continue
        n[k] = 0.0
        counts[k] += count
        if moments:
            nn[k] += count * count
            for d in range(D):
                z = f[k, d] * factors[k, d]
                f[k, d] = 0.0
                sums[k, d] += z
                nf[k, d] += count * z
                ff[k, d] += z * z
        else:
            for d in range(D):
                sums[k, d] += f[k, d] * factors[k, d]
                f[k, d] = 0.0


@exact
def sum_segments(block, first, last, segment, starts, owners, model, hard, out, edges, ends):
    """Fold the segments of rows first to last into their owners; False if a row is not finite.

    ``segment`` is the one that holds the row ``first``. ``out`` is (counts, sums, nn, nf, ff,
    moments), ``edges`` the first five of these again: the first and the last owner may be shared
    with a neighbouring run, so what is theirs goes into edges[0] and edges[1]. A segment that
    began before ``first`` goes unfolded into ends[0], one that ends after ``last`` into ends[1].
    """
    counts, sums, nn, nf, ff, moments = out
    edge_counts, edge_sums, edge_nn, edge_nf, edge_ff = edges
    end_counts, end_sums = ends
    tile = new_tile(*model.means.shape)
    n, f = np.zeros(model.means.shape[0]), np.zeros(model.means.shape)
    factors, nothing, none = model.inverse_deviations, np.empty(0), np.empty((0, 0))
    never = len(nothing) > 0  # a literal False would have `fold` compiled once more
    buffer = np.empty(model.means.shape[1], np.float32)
    s = segment
    first_owner = owners[s]
    last_owner = owners[np.searchsorted(starts, last) - 1]
    for row in range(first, last, TILE):
        in_tile = min(TILE, last - row)
        density = expect(block, row, in_tile, model, hard, tile)
        if np.isnan(density):
            return False
        _normalise(tile.values, tile.total)
        a = np.int64(0)
        while a < in_tile:
            b = min(in_tile, starts[s + 1] - row, a + _PIECE)
            _add_piece(tile, model, a, b, n, f, buffer)
            a = b
            if row + b < starts[s + 1] and row + b < last:
                continue
            o = owners[s]
            if starts[s] < first or starts[s + 1] > last:
                e = 0 if starts[s] < first else 1
                fold(n, f, factors, end_counts[e], end_sums[e], nothing, none, none, never)
            elif o in (first_owner, last_owner):
                e = 0 if o == first_owner else 1
                fold(n, f, factors, edge_counts[e], edge_sums[e], edge_nn[e], edge_nf[e],
                     edge_ff[e], moments)  # fmt: skip
            else:
                fold(n, f, factors, counts[o], sums[o], nn[o], nf[o], ff[o], moments)
            s += 1
            while s < len(owners) and starts[s + 1] <= row + b:
                s += 1
    return True


@exact
def sum_moments(block, first, last, sums, squares):
    """Sums of x − x_first and its square over rows first to last, for every column."""
    D = block.shape[1]
    for i in range(first, last):
        for d in range(D):
            value = np.float64(block[i, d]) - np.float64(block[first, d])
            sums[d] += value
            squares[d] += value * value
