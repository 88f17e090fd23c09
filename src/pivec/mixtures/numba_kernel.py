"""The fast kernel for CPUs: compiled loops over tiles of 256 states, one thread per core.

Runs of rows are distributed to the workers and their results added in a fixed order, so that they
do not depend on the number of threads. Inside a tile everything is float32 and lies as [component,
state] or [feature, state], so that the innermost loops run over states and become vector
instructions. Sums over tiles are float64. Features come in fours; padding has factor zero.
Logarithms are of base 2. Three things keep float32 accurate:

- distances are ((x − μ)/σ)² directly, and statistics are centred, never [x², x, 1];
- fours with a "narrow" feature, where some |μ|/σ is large, carry the low parts of state and mean
  along, so that x − μ is accurate to the last digit although x itself is rounded;
- the constant of a component is split into a multiple of 2⁻⁸, which cancels exactly against the
  maximum, and a small rest; states far from every component are recomputed in float64.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.mixtures.model import FAR, Mixture, SegmentSums, Starts, Statistics, check_finite
from pivec.mixtures.numpy_kernel import hold, moments, take
from pivec.parallel import n_threads, run_tasks
from pivec.parallel.compiled import compiler
from pivec.states import overlapping

__all__ = ["accumulate", "add_segments", "hold", "moments", "take"]

TILE = 256  # states of a tile
STRIDE = TILE + 16
"""Numbers per row of a tile: rows 1 kB apart would collide in the first-level cache."""

_RUN = 32 * TILE  # states of a task, with sums of its own
_NARROW = 64.0  # beyond this |μ|/σ the rounding of float32 states is felt, 1e-5 of a deviation
_SMALLEST = -64.0  # responsibilities below 2⁻⁶⁴ of the largest are zero

f32 = np.float32
# Minimax polynomial of 2^y on [−1/2, 1/2], highest power first.
_POLYNOMIAL = tuple(map(f32, (1.3264723e-3, 9.671513e-3, 5.5507336e-2, 0.24022242, 0.693147, 1.0)))
_SHIFT = f32(1.5 * 2**23 + 127)  # adding it rounds to a whole number n, and leaves n + 127

# Additions keep their order, on which the low parts and the rounding depend, except in sums over
# states, which may then be vectors. NaN and infinity keep their meaning.
compiled = compiler("contract", "nsz", forceinline=True)
summing = compiler("contract", "nsz", "reassoc", forceinline=True)


@compiled
def exp2(x):
    """2^x for x up to 1, accurate to 2e-7 and 0 below 2⁻⁶⁴, without branches."""
    shifted = x + _SHIFT
    rest = x - (shifted - _SHIFT)
    power = _POLYNOMIAL[0]
    for coefficient in _POLYNOMIAL[1:]:
        power = power * rest + coefficient
    scale = np.int32(np.float32(shifted).view(np.int32) << 23).view(np.float32)
    return power * scale if x > f32(_SMALLEST) else f32(0)


@compiled
def _load(block, first, n, model, tile):
    """Standardize n states in float64 into tile.x and tile.low; return whether all are finite.

    The other states of the tile keep what an earlier one had: they are not summed.
    """
    D, finite, limit, rows = block.shape[1], True, model.limit, tile.rows
    first, n = np.uint64(first), np.uint64(n)  # so that no index counts from the end
    for i in range(n):
        for d in range(D):
            raw = np.float64(block[first + i, d])
            finite &= raw - raw == 0.0
            x = (raw - model.center[d]) * model.inverse[d]
            rows[i, d] = -limit if x < -limit else limit if x > limit else x
    for d in range(D):
        for i in range(n):
            tile.x[d, i] = f32(rows[i, d])
        if model.narrow[d // 4]:
            for i in range(n):
                tile.low[d, i] = f32(rows[i, d] - np.float64(tile.x[d, i]))
    return finite


@compiled
def _place(tile, model, k, d):
    """Return where four features are in tile.x, and in model.means what to subtract from them.

    Differences from a narrow component with low parts are put behind the features; there the means
    are zero.
    """
    if not model.narrow[d // 4]:
        return d
    D = model.factors.shape[1]
    for j in range(4):
        mean, low = model.means[k, d + j], model.means_low[k, d + j]
        for i in range(TILE):
            tile.x[D + j, i] = (tile.x[d + j, i] - mean) + (tile.low[d + j, i] - low)
    return D


@compiled
def _share(tile, model, hard):
    """Set tile.values to responsibilities times tile.total, their total over components.

    A logit is rest_k + Σ_d factor_kd (x_id − μ_kd)², where a factor is −log₂e / 2σ²; the whole one
    is quantum_k more. The maximum over k, tile.top, is rounded to a quantum, so that the difference
    of two quanta is exact and only that of two small numbers is rounded. tile.nearest is the
    largest logit without quantum: minus half the squared distance to the nearest component, in
    units of log₂e. With ``hard`` a state belongs to its largest logit, in equal parts if several.
    """
    K, D = model.factors.shape
    top, total, nearest = tile.top, tile.total, tile.nearest
    top[:] = f32(-3e38)
    nearest[:] = f32(-3e38)
    total[:] = f32(0)
    x, values, means, factors = tile.x, tile.values, model.means, model.factors
    for k in range(K):
        quantum, rest = model.quanta[k], model.rests[k]
        for d in range(0, D, 4):
            c = _place(tile, model, k, d)
            m0, m1, m2, m3 = means[k, c], means[k, c + 1], means[k, c + 2], means[k, c + 3]
            f0, f1, f2, f3 = factors[k, d], factors[k, d + 1], factors[k, d + 2], factors[k, d + 3]
            for i in range(TILE):
                e0, e1, e2, e3 = x[c, i] - m0, x[c + 1, i] - m1, x[c + 2, i] - m2, x[c + 3, i] - m3
                before = values[k, i] if d > 0 else rest
                values[k, i] = before + (
                    f0 * (e0 * e0) + f1 * (e1 * e1) + f2 * (e2 * e2) + f3 * (e3 * e3)
                )
        for i in range(TILE):
            logit = values[k, i]
            whole = quantum + logit
            nearest[i] = logit if logit > nearest[i] else nearest[i]
            top[i] = whole if whole > top[i] else top[i]
    if hard:
        for k in range(K):
            quantum = model.quanta[k]
            for i in range(TILE):
                values[k, i] = f32(1) if quantum + values[k, i] >= top[i] else f32(0)
                total[i] += values[k, i]
        return
    for i in range(TILE):
        top[i] = np.floor(top[i] * f32(256) + f32(0.5)) * f32(1 / 256)
    for k in range(K):
        quantum = model.quanta[k]
        for i in range(TILE):
            value = exp2((quantum - top[i]) + values[k, i])
            values[k, i] = value
            total[i] += value


@compiled
def _share_precisely(state, model, values, i, work):
    """Do state i of a tile again in float64; return the base-2 log of its largest density."""
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
        share = 2.0 ** (work[k] - top) if work[k] - top > _SMALLEST else 0.0
        values[k, i] = f32(share)
        total += share
    return top, f32(total)


@compiled
def _expect(block, first, n, model, hard, tile):
    """E-step of n states: responsibilities in tile.values.

    Returns the base-2 log-likelihood, NaN if a state is not finite.
    """
    if not _load(block, first, n, model, tile):
        return np.nan
    _share(tile, model, hard)
    density = 0.0
    for i in range(n):
        top = np.float64(tile.top[i])
        if not hard and tile.nearest[i] < -model.far:
            top, tile.total[i] = _share_precisely(
                block[first + i], model, tile.values, i, tile.work
            )
        density += top
    tile.total[n:] = f32(1)
    for start in range(0, TILE, 32):
        # One logarithm for 32 states; totals lie between 1 and K.
        product = 1.0
        for i in range(start, start + 32):
            product *= np.float64(tile.total[i])
        density += np.log2(product)
    for i in range(TILE):
        tile.total[i] = f32(1) / tile.total[i]
    for k in range(len(tile.values)):
        for i in range(TILE):
            tile.values[k, i] *= tile.total[i]
    return density


@summing
def _total(values, k, a, b):
    """Sum of values a to b of a row."""
    total = f32(0)
    for i in range(a, b):
        total += values[k, i]
    return total


@summing
def _moments_of_four(values, x, means, k, c, a, b, out):
    """Set out to Σ r e of four features, and then Σ r e², over states a to b, with e = x − m."""
    m0, m1, m2, m3 = means[k, c], means[k, c + 1], means[k, c + 2], means[k, c + 3]
    s0 = s1 = s2 = s3 = q0 = q1 = q2 = q3 = f32(0)
    for i in range(a, b):
        r = values[k, i]
        e0, e1, e2, e3 = x[c, i] - m0, x[c + 1, i] - m1, x[c + 2, i] - m2, x[c + 3, i] - m3
        p0, p1, p2, p3 = r * e0, r * e1, r * e2, r * e3
        s0 += p0
        s1 += p1
        s2 += p2
        s3 += p3
        q0 += p0 * e0
        q1 += p1 * e1
        q2 += p2 * e2
        q3 += p3 * e3
    out[0], out[1], out[2], out[3] = s0, s1, s2, s3
    out[4], out[5], out[6], out[7] = q0, q1, q2, q3


@compiled
def _add_statistics(tile, model, a, b, counts, sums, squares):
    """Add Σ r (K), Σ r z and Σ r z² (K, D), z = (x − μ)/σ, of states a to b, in float64."""
    K, D = sums.shape
    out = tile.out
    a, b = np.uint64(a), np.uint64(b)  # as above
    for k in range(K):
        count = _total(tile.values, k, a, b)
        if not count > 0:
            continue
        counts[k] += count
        for d in range(0, D, 4):
            c = _place(tile, model, k, d)
            _moments_of_four(tile.values, tile.x, model.means, k, c, a, b, out)
            for j in range(min(4, D - d)):
                inverse = model.inverse_deviations[k, d + j]
                sums[k, d + j] += out[j] * inverse
                squares[k, d + j] += out[4 + j] * inverse**2


@compiler("contract", "nsz")
def sum_segments(
    block, first, last, starts, segment, final, model, hard, tile,
    counts, sums, squares, edge_counts, edge_sums, edge_squares,
):  # fmt: skip
    """Add rows first to last to the sums of their segments; return their log-likelihood.

    It is NaN if a row is not finite. ``segment`` and ``final`` are those that hold the first and
    the last row: what belongs to them goes into edges 0 and 1, because neighbouring runs may have
    parts of them too.
    """
    density = 0.0
    s = segment
    for row in range(first, last, TILE):
        n = min(TILE, last - row)
        density += _expect(block, row, n, model, hard, tile)
        if np.isnan(density):
            break
        a = 0
        while a < n:
            while starts[s + 1] <= row + a:
                s += 1
            b = min(n, starts[s + 1] - row)
            n_s, f_s, q_s = counts[s], sums[s], squares[s % len(squares)]
            if s in (segment, final):
                edge = 0 if s == segment else 1
                n_s, f_s, q_s = edge_counts[edge], edge_sums[edge], edge_squares[edge]
            _add_statistics(tile, model, a, b, n_s, f_s, q_s)
            a = b
    return density


class Packed(NamedTuple):
    """A mixture laid out for the tiles: D is a multiple of four by padding.

    ``center``, ``inverse`` (D) standardize; ``narrow`` (D/4) marks fours of features; ``means``,
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
    """Room for one tile: states by row, by feature with low parts, and what follows from them."""

    rows: Any
    x: Any
    low: Any
    values: Any
    nearest: Any
    top: Any
    total: Any
    out: Any
    work: Any


def new_tile(model: Packed) -> Tile:
    """Make room for a tile of a mixture."""
    K, D = model.factors.shape
    shapes = ((D + 4, STRIDE), (D, STRIDE), (K, STRIDE), TILE, TILE, TILE, 8)
    return Tile._make([np.zeros((TILE, D)), *map(_aligned, shapes), np.zeros(K)])


def _aligned(shape: Any) -> NDArray[np.float32]:
    """Make an array of zeros at the start of a cache line, which vectors then do not cross."""
    room = np.zeros(int(np.prod(shape)) + 16, np.float32)
    first = -room.ctypes.data % 64 // 4
    return room[first : len(room) - 16 + first].reshape(shape)


def pack(mixture: Mixture) -> Packed:
    """Lay a mixture out for the tiles; see `Packed`."""
    D = mixture.n_features
    deviations = np.sqrt(mixture.variances)
    factors = -0.5 * np.log2(np.e) / mixture.variances
    with np.errstate(divide="ignore"):
        log_weights = np.log2(mixture.weights)
    constants = log_weights - 0.5 * np.log2(2 * np.pi * mixture.variances).sum(axis=1)
    constants = np.maximum(constants, -1e30)  # of a component without weight: every other beats it
    quanta = (np.round(constants * 256) / 256).astype(np.float32)
    means = np.pad(mixture.means, ((0, 0), (0, -D % 4 + 4)))
    high = means.astype(np.float32)
    ratio = np.pad((np.abs(mixture.means) / deviations).max(axis=0), (0, -D % 4))
    return Packed(
        center=mixture.center,
        inverse=1 / mixture.scale,
        narrow=(ratio > _NARROW).reshape(-1, 4).any(axis=1),
        means=high,
        means_low=(means - high).astype(np.float32),
        factors=np.pad(factors, ((0, 0), (0, -D % 4))).astype(np.float32),
        rests=(constants - quanta).astype(np.float32),
        quanta=quanta,
        precise_means=mixture.means,
        precise_factors=factors,
        constants=constants,
        inverse_deviations=1 / deviations,
        limit=FAR,
        far=128.0 + 4.0 * D,
    )


def accumulate(
    block: NDArray[Any], mixture: Mixture, hard: bool = False, first_row: int = 0
) -> Statistics:
    """Statistics of a block; see `pivec.mixtures.accumulate`."""
    K, D = mixture.means.shape
    counts, sums, squares = np.zeros((1, K)), np.zeros((1, K, D)), np.zeros((1, K, D))
    whole = np.array([0, len(block)])
    density = _sum(block, whole, mixture, (counts, sums, squares), hard, first_row)
    return Statistics(counts[0], sums[0], squares[0], density * np.log(2), len(block))


def add_segments(
    block: NDArray[Any], starts: Starts, mixture: Mixture, into: SegmentSums, first_row: int = 0
) -> None:
    """Add the statistics of the segments of a block; see `Kernel.add_segments`."""
    counts, sums, squares = into
    squares = np.zeros_like(sums[:1]) if squares is None else squares  # all go into one
    _sum(block, starts, mixture, (counts, sums, squares), False, first_row)


def _sum(
    block: NDArray[Any], starts: Starts, mixture: Mixture, into: Any, hard: bool, first_row: int
) -> float:
    """Add the statistics of segments, run by run on all workers; return the log-likelihood."""
    # Contiguous and read-only: one type of array, compiled once.
    states = np.ascontiguousarray(block).view()
    states.flags.writeable = False
    model = pack(mixture)
    n_runs = -(-len(states) // _RUN)
    tiles = [new_tile(model) for _ in range(n_threads())]
    # The first and the last segment of a run may go on in its neighbours: they are added in order.
    edges = np.zeros((n_runs, 2), dtype=np.int64)
    edge_sums = [np.zeros((n_runs, 2, *total.shape[1:])) for total in into]
    density = np.zeros(n_runs)

    def task(i: int) -> None:
        first, last = i * _RUN, min((i + 1) * _RUN, len(states))
        s0, s1 = overlapping(starts, first, last)
        edges[i] = s0, s1 - 1
        tile = tiles.pop()
        density[i] = sum_segments(
            states, first, last, starts, s0, s1 - 1, model, hard, tile,
            *into, *(total[i] for total in edge_sums),
        )  # fmt: skip
        tiles.append(tile)
        if np.isnan(density[i]):
            check_finite(states[first:last], first_row + first)

    run_tasks(task, n_runs)
    for i, e in np.ndindex(n_runs, 2):
        for total, part in zip(into, edge_sums, strict=True):
            total[edges[i, e] % len(total)] += part[i, e]
    return float(density.sum())
