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
from numba import njit

from pivec.engines.compiled import compiler
from pivec.mixtures.numba_loops import STRIDE, TILE, load, share
from pivec.mixtures.numba_vector import SMALLEST


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
