"""The fast kernel for CPUs: compiled loops over tiles of 512 states, one thread per core.

Chunks of rows are distributed to the workers and their results added in a fixed order, so that they
do not depend on the number of threads. Inside a tile everything is float32 and lies as [component,
state] or [feature, state], so that the innermost loops run over states and become vector
instructions. Sums over tiles are float64. Features come in fours; padding has weight zero.
Logarithms are of base 2. Three things keep float32 accurate:

- distances are ((x − μ)/σ)² directly, and statistics are centred, never [x², x, 1];
- fours with a "narrow" feature, where some |μ|/σ is large, carry the low parts of state and mean
  along, so that x − μ is accurate to the last digit although x itself is rounded;
- the constant of a component is split into a multiple of 2⁻⁸, which cancels exactly against the
  maximum, and a small rest; states far from every component are recomputed in float64.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from pivec.mixtures.model import FAR, Mixture, SegmentSums, Starts, Statistics, check_finite
from pivec.mixtures.numba_vector import F32, F64, SMALLEST, vector_code
from pivec.mixtures.numpy_kernel import hold, moments, take
from pivec.parallel import n_threads, run_tasks
from pivec.parallel.compiled import compiler
from pivec.states import overlapping

__all__ = ["accumulate", "add_segments", "hold", "moments", "take"]

TILE = 512  # states of a tile
STRIDE = TILE + 16
"""Numbers per row of a tile: rows 2 kB apart would collide in the first-level cache."""

_CHAINS = 4  # sums kept side by side, because an addition takes four cycles to arrive
_LOWEST = -3e38


def _either_way(write, model, d, branch, width=4):
    """Call branch(compensated) for the features from d on: with low parts if one is narrow."""
    narrow = model.narrow.number(d // 4)
    if width == 8:
        narrow = narrow | model.narrow.number((d + 4) // 4)
    return write.either(narrow.differs(0), branch)


def _difference(high, low, at, mean, mean_low, width=0):
    """Give x − μ of the vector at a place, with low parts if there is a ``mean_low``."""
    result = high.vector(at, width) - mean
    return result if mean_low is None else result + (low.vector(at, width) - mean_low)


@vector_code(types.float64)
def load(write, block, first, n, model, tile):
    """Standardise n states in float64 into tile.x and tile.low; give NaN if one is not finite.

    Beyond the last state it is repeated; its factor in tile.total will be zero there.
    """
    D = block.shape[1]
    lowest, highest = ((model.limit * sign).filled(write.width) for sign in (-1.0, 1.0))
    whole = n & -write.width
    features = write.loop(0, D, sums=[write.constant(0.0, kind=block.element)])
    with features as d:
        center, inverse = model.center.spread(d), model.inverse.spread(d)
        for begin, end, clamped in ((0, whole, False), (whole, TILE, True)):
            states = write.loop(begin, end, write.width, features.sums)
            with states as i:
                rows = [i + j for j in range(write.width)]
                if clamped:
                    rows = [(row < n - 1).choose(row, n - 1) for row in rows]
                raw = write.joined([block.number((first + row) * D + d) for row in rows])
                states.sums = [raw.times_plus(0.0, states.sums[0])]
                value = ((raw.to(F64) - center) * inverse).larger(lowest)
                value = (value < highest).choose(value, highest)
                high = value.to(F32)
                tile.x.put(d * STRIDE + i, high)
                tile.low.put(d * STRIDE + i, (value - high.to(F64)).to(F32))
            features.sums = states.sums
    return features.sums[0].total().to(F64)


@vector_code(types.void)
def share(write, tile, model, hard):
    """Set tile.values to responsibilities times tile.total, their total over components.

    A logit is rest_k + Σ_d factor_kd (x_id − μ_kd)², where a factor is −log₂e / 2σ²; the whole one
    is quantum_k more. The maximum over k, tile.top, is rounded to a quantum, so that the difference
    of two quanta is exact and only that of two small numbers is rounded. tile.nearest is the
    largest logit without quantum: minus half the squared distance to the nearest component, in
    units of log₂e. With ``hard`` a state belongs to its largest logit, in equal parts if several.
    """
    # First states of the vectors that are held in registers, with two values for each.
    lanes = range(0, write.registers // 4 * write.width, write.width)
    with write.loop(0, TILE, len(lanes) * write.width) as first:
        tops = _put_logits(write, tile, model, first, lanes)
        for lane, top in zip(lanes, tops, strict=True):
            tile.top.put(first + lane, top)
        last = first + len(lanes) * write.width
        write.either(hard, lambda is_hard: _put_shares(write, tile, model, first, last, is_hard))


def _put_logits(write, tile, model, first, lanes):
    """Set tile.values of states from first on to logits without quantum; give the largest whole."""
    K, D = model.means.shape
    components = write.loop(0, K, sums=[write.constant(_LOWEST)] * len(lanes))
    with components as k:
        features = write.loop(0, D, 4, [model.rests.spread(k)] * len(lanes))
        with features as d:

            def add(compensated):
                logits = list(features.sums)
                for feature in (d + j for j in range(4)):
                    at = k * D + feature
                    mean, factor = model.means.spread(at), model.factors.spread(at)
                    low = model.means_low.spread(at) if compensated else None
                    for s, lane in enumerate(lanes):
                        place = feature * STRIDE + first + lane
                        e = _difference(tile.x, tile.low, place, mean, low)
                        logits[s] = factor.times_plus(e * e, logits[s])
                return logits

            features.sums = _either_way(write, model, d, add)
        for lane, logit in zip(lanes, features.sums, strict=True):
            tile.values.put(k * STRIDE + first + lane, logit)
        quantum = model.quanta.spread(k)
        wholes = [quantum + logit for logit in features.sums]
        components.sums = [a.larger(b) for a, b in zip(components.sums, wholes, strict=True)]
    return components.sums


def _put_shares(write, tile, model, first, last, hard):
    """Turn the logits of states first to last into shares of one, with their totals."""
    with write.loop(first, last, write.width) as at:
        top = tile.top.vector(at)
        if not hard:
            top = (top * 256.0 + 0.5).floor() * (1.0 / 256.0)
            tile.top.put(at, top)
        nothing = [write.constant(0.0), write.constant(_LOWEST)]
        components = write.loop(0, model.means.shape[0], sums=nothing)
        with components as k:
            total, nearest = components.sums
            logit, quantum = tile.values.vector(k * STRIDE + at), model.quanta.spread(k)
            if hard:
                result = (quantum + logit >= top).choose(write.constant(1.0), write.constant(0.0))
            else:
                result = write.exp2(quantum - top + logit)
            tile.values.put(k * STRIDE + at, result)
            components.sums = [total + result, nearest.larger(logit)]
        for array, value in zip((tile.total, tile.nearest), components.sums, strict=True):
            array.put(at, value)


@vector_code(types.void)
def normalise(write, tile):
    """Multiply tile.values by the factors in tile.total; tile.counts gets the sum of every row."""
    with write.loop(0, tile.counts.shape[0]) as k:
        nothing = [write.constant(0.0)] * _CHAINS
        states = write.loop(0, TILE, _CHAINS * write.width, nothing)
        with states as i:
            for c in range(_CHAINS):
                at = i + c * write.width
                value = tile.values.vector(k * STRIDE + at) * tile.total.vector(at)
                tile.values.put(k * STRIDE + at, value)
                states.sums[c] = states.sums[c] + value
        tile.counts.put(k, write.sum(states.sums).total())


@vector_code(types.void)
def add_statistics(write, tile, model, sums, squares):
    """Add Σ r e and Σ r e² of a tile, where e = x − μ in float32, to float64 sums (K, D)."""
    K, D = model.means.shape
    # Components whose sums over four features are held in registers.
    together = range(write.registers // 16)
    with write.loop(0, D, 4) as d:

        def add(compensated):
            with write.loop(0, K, len(together)) as k:
                counts = [tile.counts.number(k + c) for c in together]
                with write.when(write.sum(counts) > 0.0):
                    cells = [(k + c, d + j) for c in together for j in range(4)]
                    _add_cells(write, tile, model, cells, compensated, sums, squares)

        _either_way(write, model, d, add)


def _add_cells(write, tile, model, cells, compensated, sums, squares):
    """Add Σ r e and Σ r e² of pairs of a component and a feature."""
    places = [k * model.means.shape[1] + d for k, d in cells]
    means = [model.means.spread(at) for at in places]
    lows = [model.means_low.spread(at) if compensated else None for at in places]
    states = write.loop(0, TILE, write.width, [write.constant(0.0)] * (2 * len(cells)))
    with states as i:
        for n, (k, d) in enumerate(cells):
            e = _difference(tile.x, tile.low, d * STRIDE + i, means[n], lows[n])
            part = tile.values.vector(k * STRIDE + i) * e
            states.sums[2 * n] = states.sums[2 * n] + part
            states.sums[2 * n + 1] = part.times_plus(e, states.sums[2 * n + 1])
    for n, at in enumerate(places):
        sums.increase(at, states.sums[2 * n].total())
        squares.increase(at, states.sums[2 * n + 1].total())


@vector_code(types.void)
def add_rows(write, tile, model, first, n, counts, sums, squares):
    """Add Σ r (K), Σ r e and Σ r e² (K, D) of n states of a normalised tile to float64 sums.

    With vectors of features, because an episode of twenty steps is too short for ones of states.
    """
    K, D = model.means.shape
    in_eights = D & -8
    with write.loop(0, K) as k:
        shares = k * STRIDE + first
        [count] = _over_states(
            write,
            n,
            lambda i, running: [running[0] + tile.values.number(shares + i)],
            [write.constant(0.0, width=0)],
        )
        with write.when(count > 0.0):
            counts.increase(k, count)
            for begin, end, width in ((0, in_eights, 8), (in_eights, D, 4)):
                with write.loop(begin, end, width) as d:
                    _add_features(write, tile, model, first, n, k, d, width, sums, squares)


def _over_states(write, n, term, nothing):
    """Sum the numbers of term(state, running) over n states, in chains and then one by one."""
    whole, size = n & -_CHAINS, len(nothing)
    chains = write.loop(0, whole, _CHAINS, nothing * _CHAINS)
    with chains as i:
        parts = [chains.sums[size * c : size * (c + 1)] for c in range(_CHAINS)]
        chains.sums = [x for c, running in enumerate(parts) for x in term(i + c, running)]
    rest = write.loop(whole, n, 1, [write.sum(chains.sums[j::size]) for j in range(size)])
    with rest as i:
        rest.sums = term(i, rest.sums)
    return rest.sums


def _add_features(write, tile, model, first, n, k, d, width, sums, squares):
    """Add Σ r e and Σ r e² of n states for a component and so many features."""
    D = model.means.shape[1]
    at = k * D + d

    def add(compensated):
        mean = model.means.vector(at, width)
        low = model.means_low.vector(at, width) if compensated else None

        def products(i, running):
            row = (first + i) * D + d
            e = _difference(tile.rows, tile.rows_low, row, mean, low, width)
            part = tile.values.spread(k * STRIDE + first + i, width) * e
            return [running[0] + part, part.times_plus(e, running[1])]

        nothing = [write.constant(0.0, width)] * 2
        for array, total in zip(
            (sums, squares), _over_states(write, n, products, nothing), strict=True
        ):
            array.increase(at, total)

    _either_way(write, model, d, add, width)


_PIECE = 256
"""States of a segment that are summed in one go: their rows stay in the first-level cache."""

f32 = np.float32


# NaN and infinity keep their meaning, and sums their order. Functions that others call are inlined,
# so that nothing is compiled twice, and the process that compiles runs the same code as later ones
# that load it from the cache.
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
def _close(tile, factors, counts, sums, squares):
    """Add the segment in the tile, n (K), f · factors and s · factors² (K, D); empty the tile's."""
    K, D = sums.shape
    for k in range(K):
        count = tile.open_counts[k]
        if count == 0.0:
            continue
        tile.open_counts[k] = 0.0
        counts[k] += count
        for d in range(D):
            sums[k, d] += tile.open_sums[k, d] * factors[k, d]
            squares[k, d] += tile.open_squares[k, d] * factors[k, d] ** 2
            tile.open_sums[k, d] = tile.open_squares[k, d] = 0.0


@compiled
def sum_segments(
    block, first, last, starts, segment, final, model, tile,
    counts, sums, squares, edge_counts, edge_sums, edge_squares,
):  # fmt: skip
    """Add rows first to last to the sums of their segments; NaN if a row is not finite.

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
            add_rows(tile, model, a, b - a, tile.open_counts, tile.open_sums, tile.open_squares)
            a = b
            if row + b < starts[s + 1] and row + b < last:
                continue
            n, f, q = counts[s], sums[s], squares[s % len(squares)]
            if s == segment:
                n, f, q = edge_counts[0], edge_sums[0], edge_squares[0]
            elif s == final:
                n, f, q = edge_counts[1], edge_sums[1], edge_squares[1]
            _close(tile, model.inverse_deviations, n, f, q)
            s += 1
            while s < len(counts) and starts[s + 1] <= row + b:
                s += 1
    return 0.0


_CHUNK = 8 * TILE  # states a task, with sums of its own
_RUN = 32 * TILE  # states a task of segments, whose ends cost something
_NARROW = 64.0  # beyond this |μ|/σ the rounding of float32 states is felt, 1e-5 of a deviation

Array = NDArray[np.float64]


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

    ``open_counts`` and the other two are of the segment that is being summed, in float64.
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
    open_squares: Any


def new_tile(model: Packed) -> Tile:
    """Make room for a tile of a mixture."""
    K, D = model.means.shape
    shapes = ((TILE, D), (TILE, D), (D, STRIDE), (D, STRIDE), (K, STRIDE), TILE, TILE, TILE, K)
    rooms = [np.zeros(shape, np.float32) for shape in shapes]
    return Tile._make([*rooms, np.zeros(K), np.zeros(K), *np.zeros((2, K, D))])


def pack(mixture: Mixture) -> Packed:
    """Lay a mixture out for the tiles; see `Packed`."""
    K, D = mixture.means.shape
    rows, columns = K + -K % 2, D + -D % 4
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


def _over_rows(
    states: NDArray[Any],
    rows: int,
    model: Packed,
    first_row: int,
    work: Callable[[int, int, int, Tile], float],
) -> None:
    """Call ``work(i, first, last, tile)`` for so many rows a task, on all workers.

    It gives a log-likelihood, which is NaN if a state is not finite.
    """
    tiles = [new_tile(model) for _ in range(n_threads())]

    def task(i: int) -> None:
        first, last = i * rows, min((i + 1) * rows, len(states))
        tile = tiles.pop()
        density = work(i, first, last, tile)
        tiles.append(tile)
        if np.isnan(density):
            check_finite(states[first:last], first_row + first)

    run_tasks(task, -(-len(states) // rows))


def accumulate(
    block: NDArray[Any], mixture: Mixture, hard: bool = False, first_row: int = 0
) -> Statistics:
    """Statistics of a block; see `pivec.mixtures.accumulate`."""
    states, model = _readable(block), pack(mixture)
    n_chunks = -(-len(states) // _CHUNK)
    counts = np.zeros((n_chunks, model.means.shape[0]))
    sums, squares = np.zeros((2, n_chunks, *model.means.shape))
    density = np.zeros(n_chunks)

    def work(i: int, first: int, last: int, tile: Tile) -> float:
        density[i] = sum_chunk(
            states, first, last, model, hard, tile, counts[i], sums[i], squares[i]
        )
        return float(density[i])

    _over_rows(states, _CHUNK, model, first_row, work)
    K, D = mixture.means.shape
    return Statistics(
        counts.sum(axis=0)[:K],
        sums.sum(axis=0)[:K, :D] / np.sqrt(mixture.variances),
        squares.sum(axis=0)[:K, :D] / mixture.variances,
        float(density.sum()) * np.log(2),
        len(states),
    )


def add_segments(
    block: NDArray[Any], starts: Starts, mixture: Mixture, into: SegmentSums, first_row: int = 0
) -> None:
    """Add the statistics of the segments of a block; see `Kernel.add_segments`."""
    counts, sums, squares = into
    states, model = _readable(block), pack(mixture)
    n_runs = -(-len(states) // _RUN)
    squares = np.zeros_like(sums[:1]) if squares is None else squares  # all go into one
    # The first and the last segment of a run may go on in its neighbours: they are added in order.
    edge_counts = np.zeros((n_runs, 2, *counts.shape[1:]))
    edge_sums, edge_squares = np.zeros((2, n_runs, 2, *sums.shape[1:]))
    edges = np.zeros((n_runs, 2), dtype=np.int64)

    def work(i: int, first: int, last: int, tile: Tile) -> float:
        s0, s1 = overlapping(starts, first, last)
        edges[i] = s0, s1 - 1
        return float(
            sum_segments(
                states, first, last, starts, s0, s1 - 1, model, tile,
                counts, sums, squares, edge_counts[i], edge_sums[i], edge_squares[i],
            )
        )  # fmt: skip

    _over_rows(states, _RUN, model, first_row, work)
    for i, e in np.ndindex(n_runs, 2):
        counts[edges[i, e]] += edge_counts[i, e]
        sums[edges[i, e]] += edge_sums[i, e]
        squares[edges[i, e] % len(squares)] += edge_squares[i, e]
