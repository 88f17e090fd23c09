"""The innermost loops over a tile: responsibilities, their normalisation, and weighted sums.

Each takes a `Tile` and a `Packed` mixture. Differences are taken as they stand here: their order
matters where the low parts of states and means are carried along.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from numba import types

from pivec.mixtures.numba_vector import F32, F64, vector_code

TILE = 512
"""States of a tile."""
STRIDE = TILE + 16
"""Numbers from row to row of a tile: rows 2 kB apart would crowd the first-level cache."""

_CHAINS = 4
"""Sums kept side by side, because an addition takes four cycles to arrive."""
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
def add_rows(write, tile, model, first, n, counts, sums):
    """Add Σ r (K) and Σ r e (K, D) of n states of a normalised tile to float64 sums.

    With vectors of features, because an episode of twenty steps is too short for ones of states.
    """
    K, D = model.means.shape
    in_eights = D & -8
    with write.loop(0, K) as k:
        shares = k * STRIDE + first
        nothing = write.constant(0.0, width=0)
        count = _over_states(
            write, n, lambda i, running: running + tile.values.number(shares + i), nothing
        )
        with write.when(count > 0.0):
            counts.increase(k, count)
            for begin, end, width in ((0, in_eights, 8), (in_eights, D, 4)):
                with write.loop(begin, end, width) as d:
                    _add_features(write, tile, model, first, n, k, d, width, sums)


def _over_states(write, n, term, nothing):
    """Sum term(state, running) over n states, in chains and then one by one."""
    whole = n & -_CHAINS
    chains = write.loop(0, whole, _CHAINS, [nothing] * _CHAINS)
    with chains as i:
        chains.sums = [term(i + c, running) for c, running in enumerate(chains.sums)]
    rest = write.loop(whole, n, 1, [write.sum(chains.sums)])
    with rest as i:
        rest.sums = [term(i, rest.sums[0])]
    return rest.sums[0]


def _add_features(write, tile, model, first, n, k, d, width, sums):
    """Add Σ r e of n states for a component and so many features."""
    D = model.means.shape[1]
    at = k * D + d

    def add(compensated):
        mean = model.means.vector(at, width)
        low = model.means_low.vector(at, width) if compensated else None

        def product(i, running):
            row = (first + i) * D + d
            e = _difference(tile.rows, tile.rows_low, row, mean, low, width)
            return tile.values.spread(k * STRIDE + first + i, width).times_plus(e, running)

        sums.increase(at, _over_states(write, n, product, write.constant(0.0, width)))

    _either_way(write, model, d, add, width)
