"""The innermost loops over a tile: responsibilities, their normalisation, and weighted sums.

Each takes a `Tile` and a `Packed` mixture. Differences are taken as they stand here: their order
matters where the low parts of states and means are carried along.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ARG001 -- the arguments of an intrinsic are given by Numba

from __future__ import annotations

from functools import reduce

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from pivec.mixtures.numba_vector import Writer

TILE = 512
"""States of a tile."""
STRIDE = TILE + 16
"""Numbers from row to row of a tile: rows 2 kB apart would crowd the first-level cache."""

_CHAINS = 4
"""Sums kept side by side, because an addition takes four cycles to arrive."""
_F32, _F64, _I64 = ir.FloatType(), ir.DoubleType(), ir.IntType(64)
_LOWEST = -3e38
_ZERO, _TILE = _I64(0), _I64(TILE)


def _lanes(write: Writer) -> range:
    """First states of the vectors that `share` holds in registers, with two values for each."""
    return range(0, write.registers // 4 * write.width, write.width)


def _components(write: Writer) -> range:
    """Components whose sums over four features `add_statistics` holds in registers."""
    return range(write.registers // 16)


def _either_way(write, model, d, branch, width=4):
    """Call branch(compensated) for the features from d on: with low parts if one is narrow."""
    fours = [write.builder.udiv(write.later(d, j), _I64(4)) for j in range(0, width, 4)]
    narrow = reduce(write.builder.or_, (write.number(model.narrow, i) for i in fours))
    condition = write.builder.icmp_signed("!=", narrow, narrow.type(0))
    return write.either(condition, lambda: branch(True), lambda: branch(False))


def _difference(write, high, low, at, mean, mean_low, width=0):
    """Give x − μ of the vector at a place, with low parts if there is a ``mean_low``."""
    result = write.builder.fsub(write.vector(high, at, width), mean)
    if mean_low is None:
        return result
    rest = write.builder.fsub(write.vector(low, at, width), mean_low)
    return write.builder.fadd(result, rest)


@intrinsic
def load(typing_context, block, first, n, model, tile):
    """Standardise n states in float64 into tile.x and tile.low; give NaN if one is not finite.

    Beyond the last state it is repeated; its factor in tile.total will be zero there.
    """

    def generate(context, builder, signature, arguments):
        write = Writer(context, builder)
        block_ = write.array(signature.args[0], arguments[0])
        first_, n_ = arguments[1], arguments[2]
        m, t = (write.fields(signature.args[i], arguments[i]) for i in (3, 4))
        _, D = write.shape_of(block_)
        double, single = (ir.VectorType(kind, write.width) for kind in (_F64, _F32))
        kind = block_.data.type.pointee
        limits = [
            write.filled(
                builder.fmul(_F64(sign), write.field(signature.args[3], arguments[3], "limit"))
            )
            for sign in (-1.0, 1.0)
        ]

        def feature(d, nothing):
            center, inverse = write.spread(m.center, d), write.spread(m.inverse, d)

            def states(i, nothing, clamped):
                rows = [write.later(i, j) for j in range(write.width)]
                if clamped:
                    final = write.later(n_, -1)
                    rows = [
                        builder.select(builder.icmp_signed("<", row, final), row, final)
                        for row in rows
                    ]
                raw = write.joined(
                    [
                        write.number(block_.data, write.index(builder.add(first_, row), D, d))
                        for row in rows
                    ]
                )
                new = write.fused(raw, write.constant(0.0, kind=kind), nothing)
                value = builder.fpext(raw, double) if kind == _F32 else raw
                value = builder.fmul(builder.fsub(value, center), inverse)
                value = write.larger(value, limits[0])
                value = builder.select(
                    builder.fcmp_ordered("<", value, limits[1]), value, limits[1]
                )
                high = builder.fptrunc(value, single)
                at = write.index(d, STRIDE, i)
                write.put(high, t.x, at)
                low = builder.fsub(value, builder.fpext(high, double))
                write.put(builder.fptrunc(low, single), t.low, at)
                return [new]

            whole = builder.and_(n_, _I64(-write.width))
            sums = write.loop(
                _ZERO, whole, write.width, lambda i, v: states(i, v, False), [nothing]
            )
            return write.loop(whole, _TILE, write.width, lambda i, v: states(i, v, True), sums)

        zero = write.constant(0.0, kind=kind)
        (nothing,) = write.loop(_ZERO, D, 1, feature, [zero])
        result = write.entries(nothing)
        return builder.fpext(result, _F64) if kind == _F32 else result

    return types.float64(block, types.int64, types.int64, model, tile), generate


@intrinsic
def share(typing_context, tile, model, hard):
    """Set tile.values to responsibilities times tile.total, their total over components.

    A logit is rest_k + Σ_d factor_kd (x_id − μ_kd)², where a factor is −log₂e / 2σ²; the whole one
    is quantum_k more. The maximum over k, tile.top, is rounded to a quantum, so that the difference
    of two quanta is exact and only that of two small numbers is rounded. tile.nearest is the
    largest logit without quantum: minus half the squared distance to the nearest component, in
    units of log₂e. With ``hard`` a state belongs to its largest logit, in equal parts if several.
    """

    def generate(context, builder, signature, arguments):
        write = Writer(context, builder)
        t, m = (write.fields(signature.args[i], arguments[i]) for i in range(2))
        K, D = write.shape(signature.args[1], arguments[1], "means")
        lanes = _lanes(write)

        def block(first):
            def component(k, *tops):
                def four(d, *logits):
                    def add(compensated):
                        sums = list(logits)
                        for feature in (write.later(d, j) for j in range(4)):
                            at = write.index(k, D, feature)
                            mean, factor = write.spread(m.means, at), write.spread(m.factors, at)
                            low = write.spread(m.means_low, at) if compensated else None
                            row = write.index(feature, STRIDE, first)
                            for s, lane in enumerate(lanes):
                                at = write.later(row, lane)
                                e = _difference(write, t.x, t.low, at, mean, low)
                                sums[s] = write.fused(factor, builder.fmul(e, e), sums[s])
                        return sums

                    return _either_way(write, m, d, add)

                logits = write.loop(_ZERO, D, 4, four, [write.spread(m.rests, k)] * len(lanes))
                row = write.index(k, STRIDE, first)
                for lane, logit in zip(lanes, logits, strict=True):
                    write.put(logit, t.values, write.later(row, lane))
                quantum = write.spread(m.quanta, k)
                new = [builder.fadd(quantum, logit) for logit in logits]
                return [write.larger(a, b) for a, b in zip(tops, new, strict=True)]

            tops = write.loop(_ZERO, K, 1, component, [write.constant(_LOWEST)] * len(lanes))
            for lane, top in zip(lanes, tops, strict=True):
                write.put(top, t.top, write.later(first, lane))
            end = write.later(first, len(lanes) * write.width)
            write.either(
                arguments[2],
                lambda: write.loop(first, end, write.width, harden),
                lambda: write.loop(first, end, write.width, soften),
            )

        def harden(at):
            top = write.vector(t.top, at)

            def share_of(logit, quantum):
                best = builder.fcmp_ordered(">=", builder.fadd(quantum, logit), top)
                return builder.select(best, write.constant(1.0), write.constant(0.0))

            replace(at, share_of)

        def soften(at):
            quanta = builder.fmul(write.vector(t.top, at), write.constant(256.0))
            rounded = write.floor(builder.fadd(quanta, write.constant(0.5)))
            top = builder.fmul(rounded, write.constant(1.0 / 256.0))
            write.put(top, t.top, at)

            def share_of(logit, quantum):
                return write.exp2(builder.fadd(builder.fsub(quantum, top), logit))

            replace(at, share_of)

        def replace(at, share_of):
            def component(k, total, nearest):
                place = write.index(k, STRIDE, at)
                logit = write.vector(t.values, place)
                result = share_of(logit, write.spread(m.quanta, k))
                write.put(result, t.values, place)
                return [builder.fadd(total, result), write.larger(nearest, logit)]

            nothing = [write.constant(0.0), write.constant(_LOWEST)]
            total, nearest = write.loop(_ZERO, K, 1, component, nothing)
            write.put(total, t.total, at)
            write.put(nearest, t.nearest, at)

        write.loop(_ZERO, _TILE, len(lanes) * write.width, block)
        return context.get_dummy_value()

    return types.void(tile, model, types.boolean), generate


@intrinsic
def normalise(typing_context, tile):
    """Multiply tile.values by the factors in tile.total; tile.counts gets the sum of every row."""

    def generate(context, builder, signature, arguments):
        write = Writer(context, builder)
        t = write.fields(signature.args[0], arguments[0])
        (K,) = write.shape(signature.args[0], arguments[0], "counts")

        def component(k):
            def states(i, *sums):
                new = []
                for c, total in enumerate(sums):
                    at = write.later(i, c * write.width)
                    place = write.index(k, STRIDE, at)
                    value = builder.fmul(write.vector(t.values, place), write.vector(t.total, at))
                    write.put(value, t.values, place)
                    new.append(builder.fadd(total, value))
                return new

            nothing = [write.constant(0.0)] * _CHAINS
            sums = write.loop(_ZERO, _TILE, _CHAINS * write.width, states, nothing)
            write.put(write.entries(write.sum(sums)), t.counts, k)

        write.loop(_ZERO, K, 1, component)
        return context.get_dummy_value()

    return types.void(tile), generate


@intrinsic
def add_statistics(typing_context, tile, model, sums, squares):
    """Add Σ r e and Σ r e² of a tile, where e = x − μ in float32, to float64 sums (K, D)."""

    def generate(context, builder, signature, arguments):
        write = Writer(context, builder)
        t, m = (write.fields(signature.args[i], arguments[i]) for i in range(2))
        out = [write.array(signature.args[i], arguments[i]).data for i in (2, 3)]
        K, D = write.shape(signature.args[1], arguments[1], "means")
        together = _components(write)

        def four(d):
            def add(compensated):
                def components(k):
                    counts = [write.number(t.counts, write.later(k, c)) for c in together]
                    some = builder.fcmp_ordered(">", write.sum(counts), counts[0].type(0.0))
                    write.either(some, lambda: add_components(k, compensated), lambda: None)

                write.loop(_ZERO, K, len(together), components)

            def add_components(k, compensated):
                cells = [(write.later(k, c), write.later(d, j)) for c in together for j in range(4)]
                places = [write.index(c, D, j) for c, j in cells]
                means = [write.spread(m.means, at) for at in places]
                lows = [write.spread(m.means_low, at) if compensated else None for at in places]

                def states(i, *running):
                    new = []
                    for n, (c, j) in enumerate(cells):
                        e = _difference(
                            write, t.x, t.low, write.index(j, STRIDE, i), means[n], lows[n]
                        )
                        r = write.vector(t.values, write.index(c, STRIDE, i))
                        part = builder.fmul(r, e)
                        new.append(builder.fadd(running[2 * n], part))
                        new.append(write.fused(part, e, running[2 * n + 1]))
                    return new

                nothing = [write.constant(0.0)] * (2 * len(cells))
                results = write.loop(_ZERO, _TILE, write.width, states, nothing)
                for n, at in enumerate(places):
                    for array, result in zip(out, results[2 * n : 2 * n + 2], strict=True):
                        write.increase(array, at, write.entries(result))

            _either_way(write, m, d, add)

        write.loop(_ZERO, D, 4, four)
        return context.get_dummy_value()

    return types.void(tile, model, sums, squares), generate


@intrinsic
def add_rows(typing_context, tile, model, first, n, counts, sums):
    """Add Σ r (K) and Σ r e (K, D) of n states of a normalised tile to float64 sums.

    With vectors of features, because an episode of twenty steps is too short for ones of states.
    """

    def generate(context, builder, signature, arguments):
        write = Writer(context, builder)
        t, m = (write.fields(signature.args[i], arguments[i]) for i in range(2))
        out_counts, out_sums = (write.array(signature.args[i], arguments[i]).data for i in (4, 5))
        K, D = write.shape(signature.args[1], arguments[1], "means")
        first_, n_ = arguments[2], arguments[3]
        whole = builder.and_(n_, _I64(-_CHAINS))
        in_eights = builder.and_(D, _I64(-8))

        def over_states(term, nothing):
            """Sum term(state, running) over all states, in chains and then one by one."""
            chains = write.loop(
                _ZERO, whole, _CHAINS,
                lambda i, *running: [term(write.later(i, c), v) for c, v in enumerate(running)],
                [nothing] * _CHAINS,
            )  # fmt: skip
            return write.loop(
                whole, n_, 1, lambda i, running: [term(i, running)], [write.sum(chains)]
            )[0]

        def component(k):
            shares = write.index(k, STRIDE, first_)

            def share_of(i, running):
                return builder.fadd(running, write.number(t.values, builder.add(shares, i)))

            count = over_states(share_of, _F32(0.0))

            def add_features(d, width):
                def add(compensated):
                    at = write.index(k, D, d)
                    mean = write.vector(m.means, at, width)
                    low = write.vector(m.means_low, at, width) if compensated else None

                    def product(i, running):
                        row = write.index(builder.add(first_, i), D, d)
                        e = _difference(write, t.rows, t.rows_low, row, mean, low, width)
                        r = write.spread(t.values, builder.add(shares, i), width)
                        return write.fused(r, e, running)

                    total = over_states(product, write.constant(0.0, width))
                    write.increase(out_sums, at, total)

                _either_way(write, m, d, add, width)

            def add_component():
                write.increase(out_counts, k, count)
                write.loop(_ZERO, in_eights, 8, lambda d: add_features(d, 8))
                write.loop(in_eights, D, 4, lambda d: add_features(d, 4))

            some = builder.fcmp_ordered(">", count, count.type(0.0))
            write.either(some, add_component, lambda: None)

        write.loop(_ZERO, K, 1, component)
        return context.get_dummy_value()

    return types.void(tile, model, types.int64, types.int64, counts, sums), generate
