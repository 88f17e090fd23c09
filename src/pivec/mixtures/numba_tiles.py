"""The compiled loops over one tile of 512 states, which stays in the caches of a core.

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

from typing import Any, NamedTuple

import numpy as np

from pivec.engines.compiled import compiler
from pivec.mixtures.numba_vector import bits_of, float_of

TILE = 512


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
    """Room for one tile: states by row and by feature with low parts, and what comes of them."""

    rows: Any
    rows_low: Any
    x: Any
    low: Any
    values: Any
    nearest: Any
    top: Any
    total: Any
    work: Any


f32 = np.float32
_SMALLEST = f32(-64.0)
"""Responsibilities under 2⁻⁶⁴ of the largest are zero, so that components can be skipped."""


def _compiled(*liberties):
    """Make a decorator that compiles with these liberties in floating-point arithmetic.

    A function that is called by another becomes a part of it: the process that compiles would else
    call the one that was compiled alone, and later ones, from the cache, the copy within, whose
    sums may be taken in another order.
    """
    return compiler(*liberties, sources="numba_*.py", forceinline=True)


# NaN and infinity always keep their meaning; sums may be taken in any order where that is said.
exact = _compiled("contract", "nsz")
summing = _compiled("contract", "nsz", "reassoc", "arcp")


@exact
def new_tile(K, D):
    """Make room for a tile of K components and D features, both padded."""
    return Tile(
        np.zeros((TILE, D), np.float32),
        np.zeros((TILE, D), np.float32),
        np.zeros((D, TILE), np.float32),
        np.zeros((D, TILE), np.float32),
        np.zeros((K, TILE), np.float32),
        np.zeros(TILE, np.float32),
        np.zeros(TILE, np.float32),
        np.zeros(TILE, np.float32),
        np.zeros(K, np.float64),
    )


@exact
def _exp2(x):
    """2^x for x up to 1, right to 2e-7 and 0 under 2⁻⁶⁴, without branches."""
    y = max(x, _SMALLEST)
    whole = np.floor(y + f32(0.5))
    y -= whole
    # Minimax polynomial of 2^y on [−1/2, 1/2].
    p = f32(1.3264723e-3)
    p = p * y + f32(9.671513e-3)
    p = p * y + f32(5.5507336e-2)
    p = p * y + f32(0.24022242)
    p = p * y + f32(0.693147)
    p = p * y + f32(1.0)
    power = float_of(bits_of(p) + (np.int32(whole) << np.int32(23)))
    return power if x > _SMALLEST else f32(0.0)


@summing
def load(block, first, n, limit, center, inverse, narrow, rows, rows_low, x, low):
    """Standardise n states in float64, by row and by feature; False if one is not finite."""
    D = block.shape[1]
    flat = block[first : first + n].reshape(n * D)
    nothing = flat[0] * f32(0.0)
    for i in range(n * D):
        nothing += flat[i] * f32(0.0)
    if np.isnan(nothing):
        return False
    if narrow.any():
        for i in range(n):
            for d in range(D):
                value = (np.float64(block[first + i, d]) - center[d]) * inverse[d]
                value = min(max(value, -limit), limit)
                rows[i, d] = f32(value)
                rows_low[i, d] = f32(value - np.float64(f32(value)))
    else:
        for i in range(n):
            for d in range(D):
                value = (np.float64(block[first + i, d]) - center[d]) * inverse[d]
                rows[i, d] = f32(min(max(value, -limit), limit))
    for d in range(D):
        for i in range(n):
            x[d, i] = rows[i, d]
        for i in range(n, TILE):
            x[d, i] = f32(0.0)
        if narrow[d // 4]:
            for i in range(n):
                low[d, i] = rows_low[i, d]
            for i in range(n, TILE):
                low[d, i] = f32(0.0)
    return True


@exact
def difference(x, mean, low, mean_low):
    """Give x − μ of numbers in two parts each; the order of these operations matters."""
    return (x - mean) + (low - mean_low)


@exact
def _narrow_logits(x, low, means, means_low, factors, k, d, out):
    """Add four features to the logits of components k and k + 1, with the low parts."""
    x0, x1, x2, x3 = x[d], x[d + 1], x[d + 2], x[d + 3]
    y0, y1, y2, y3 = low[d], low[d + 1], low[d + 2], low[d + 3]
    for j in range(k, k + 2):
        row = out[j]
        m0, m1, m2, m3 = means[j, d], means[j, d + 1], means[j, d + 2], means[j, d + 3]
        n0, n1 = means_low[j, d], means_low[j, d + 1]
        n2, n3 = means_low[j, d + 2], means_low[j, d + 3]
        f0, f1, f2, f3 = factors[j, d], factors[j, d + 1], factors[j, d + 2], factors[j, d + 3]
        for i in range(TILE):
            e0, e1 = difference(x0[i], m0, y0[i], n0), difference(x1[i], m1, y1[i], n1)
            e2, e3 = difference(x2[i], m2, y2[i], n2), difference(x3[i], m3, y3[i], n3)
            row[i] += f0 * (e0 * e0) + f1 * (e1 * e1) + f2 * (e2 * e2) + f3 * (e3 * e3)


@exact
def logits(x, low, means, means_low, factors, rests, narrow, out):
    """out[k, i] = rest_k + Σ_d factor_kd (x_id − μ_kd)², where a factor is −log₂e / 2σ²."""
    K, D = means.shape
    for k in range(0, K, 2):
        j = k + 1
        a, b = out[k], out[j]
        rest_a, rest_b = rests[k], rests[j]
        if narrow[0]:
            for i in range(TILE):
                a[i] = rest_a
                b[i] = rest_b
        for d in range(0, D, 4):
            if narrow[d // 4]:
                _narrow_logits(x, low, means, means_low, factors, k, d, out)
                continue
            x0, x1, x2, x3 = x[d], x[d + 1], x[d + 2], x[d + 3]
            m0, m1, m2, m3 = means[k, d], means[k, d + 1], means[k, d + 2], means[k, d + 3]
            f0, f1, f2, f3 = factors[k, d], factors[k, d + 1], factors[k, d + 2], factors[k, d + 3]
            n0, n1, n2, n3 = means[j, d], means[j, d + 1], means[j, d + 2], means[j, d + 3]
            g0, g1, g2, g3 = factors[j, d], factors[j, d + 1], factors[j, d + 2], factors[j, d + 3]
            if d == 0:
                for i in range(TILE):
                    e0, e1, e2, e3 = x0[i] - m0, x1[i] - m1, x2[i] - m2, x3[i] - m3
                    q = f0 * (e0 * e0) + f1 * (e1 * e1) + f2 * (e2 * e2) + f3 * (e3 * e3)
                    a[i] = rest_a + q
                    e0, e1, e2, e3 = x0[i] - n0, x1[i] - n1, x2[i] - n2, x3[i] - n3
                    q = g0 * (e0 * e0) + g1 * (e1 * e1) + g2 * (e2 * e2) + g3 * (e3 * e3)
                    b[i] = rest_b + q
            else:
                for i in range(TILE):
                    e0, e1, e2, e3 = x0[i] - m0, x1[i] - m1, x2[i] - m2, x3[i] - m3
                    q = f0 * (e0 * e0) + f1 * (e1 * e1) + f2 * (e2 * e2) + f3 * (e3 * e3)
                    a[i] += q
                    e0, e1, e2, e3 = x0[i] - n0, x1[i] - n1, x2[i] - n2, x3[i] - n3
                    q = g0 * (e0 * e0) + g1 * (e1 * e1) + g2 * (e2 * e2) + g3 * (e3 * e3)
                    b[i] += q


@exact
def shares(values, quanta, hard, nearest, top, total):
    """Turn logits into responsibilities times their total over components, in place.

    The whole logit is quanta_k + values[k, i]. The maximum over k is rounded to a quantum, so
    that quanta_k − top_i is exact and only the difference of two small numbers is rounded.
    ``nearest`` is the largest value of a state: minus half its squared distance to the nearest
    component, in units of log₂e.
    """
    for i in range(TILE):
        top[i] = f32(-3e38)
        nearest[i] = f32(-3e38)
        total[i] = f32(0.0)
    # Four components at a time: what belongs to a state is loaded and stored once for all four.
    for k in range(0, values.shape[0], 4):
        a, b, c, d = values[k], values[k + 1], values[k + 2], values[k + 3]
        q0, q1, q2, q3 = quanta[k], quanta[k + 1], quanta[k + 2], quanta[k + 3]
        for i in range(TILE):
            nearest[i] = max(nearest[i], a[i], b[i], c[i], d[i])
            top[i] = max(top[i], q0 + a[i], q1 + b[i], q2 + c[i], q3 + d[i])
    if hard:
        for k in range(values.shape[0]):
            row, quantum = values[k], quanta[k]
            for i in range(TILE):
                row[i] = f32(1.0) if quantum + row[i] >= top[i] else f32(0.0)
                total[i] += row[i]
        return
    for i in range(TILE):
        top[i] = np.floor(top[i] * f32(256.0) + f32(0.5)) * f32(1.0 / 256.0)
    for k in range(0, values.shape[0], 4):
        a, b, c, d = values[k], values[k + 1], values[k + 2], values[k + 3]
        q0, q1, q2, q3 = quanta[k], quanta[k + 1], quanta[k + 2], quanta[k + 3]
        for i in range(TILE):
            p0, p1 = _exp2((q0 - top[i]) + a[i]), _exp2((q1 - top[i]) + b[i])
            p2, p3 = _exp2((q2 - top[i]) + c[i]), _exp2((q3 - top[i]) + d[i])
            total[i] += (p0 + p1) + (p2 + p3)
            a[i] = p0
            b[i] = p1
            c[i] = p2
            d[i] = p3


@summing
def share_precisely(state, model, values, i, work):
    """Do state i of a tile again in float64; give the base-2 log of its largest density."""
    K, D = model.precise_means.shape
    top = -np.inf
    for k in range(K):
        distance = 0.0
        for d in range(D):
            x = (np.float64(state[d]) - model.center[d]) * model.inverse[d]
            e = min(max(x, -model.limit), model.limit) - model.precise_means[k, d]
            distance += model.precise_factors[k, d] * e * e
        work[k] = model.constants[k] + distance
        top = max(top, work[k])
    total = 0.0
    for k in range(K):
        share = 2.0 ** max(work[k] - top, -200.0)
        values[k, i] = f32(share)
        total += share
    return top, f32(total)


@summing
def finish(n, top, total):
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


@summing
def expect(block, first, n, model, hard, tile):
    """E-step of n states: responsibilities times total in tile.values, factors in tile.total.

    Gives the base-2 log-likelihood, NaN if a state is not finite.
    """
    fine = load(
        block, first, n, model.limit, model.center, model.inverse, model.narrow, tile.rows,
        tile.rows_low, tile.x, tile.low,
    )  # fmt: skip
    if not fine:
        return np.nan
    logits(
        tile.x, tile.low, model.means, model.means_low, model.factors, model.rests, model.narrow,
        tile.values,
    )  # fmt: skip
    shares(tile.values, model.quanta, hard, tile.nearest, tile.top, tile.total)
    correction = 0.0
    if not hard:
        for i in range(n):
            if tile.nearest[i] < -model.far:
                top, total = share_precisely(block[first + i], model, tile.values, i, tile.work)
                correction += top - np.float64(tile.top[i])
                tile.total[i] = total
    return correction + finish(n, tile.top, tile.total)
