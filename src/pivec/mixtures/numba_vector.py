"""What Numba does not offer by itself: bits of a float, and sums over rows in vector registers.

`weighted_rows` is written as LLVM code with vectors of features, because a sum over a few
consecutive states (an episode of twenty steps) is too short for vectors of states.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ARG001 -- the arguments of an intrinsic are given by Numba

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

_FAST = ("reassoc", "contract", "nsz")
_F32, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_CHAINS = 4
"""Sums kept side by side, because an addition takes four cycles to arrive."""


@intrinsic
def bits_of(typing_context, value):
    """Give the bits of a float32 as an int32."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], _I32)

    return types.int32(types.float32), generate


@intrinsic
def float_of(typing_context, value):
    """Give the float32 that has the bits of an int32."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], _F32)

    return types.float32(types.int32), generate


def _splat(builder: Any, scalar: Any, width: int) -> Any:
    """Give a vector of ``width`` copies of a scalar."""
    vector = ir.VectorType(_F32, width)
    nothing = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(nothing, scalar, _I32(0))
    mask = ir.Constant(ir.VectorType(_I32, width), [0] * width)
    return builder.shuffle_vector(one, nothing, mask)


def _loop(builder: Any, first: Any, last: Any, step: int, sums: list[Any], body: Any) -> list[Any]:
    """Emit ``for i in range(first, last, step): sums = body(i, sums)`` and give the sums."""
    before = builder.block
    inside = builder.append_basic_block("rows")
    after = builder.append_basic_block("rows.done")
    builder.cbranch(builder.icmp_signed("<", first, last), inside, after)
    builder.position_at_end(inside)
    i = builder.phi(_I64)
    running = [builder.phi(value.type) for value in sums]
    updated = body(i, running)
    following = builder.add(i, _I64(step))
    i.add_incoming(first, before)
    i.add_incoming(following, inside)
    builder.cbranch(builder.icmp_signed("<", following, last), inside, after)
    builder.position_at_end(after)
    results = []
    for value, phi, new in zip(sums, running, updated, strict=True):
        phi.add_incoming(value, before)
        phi.add_incoming(new, inside)
        result = builder.phi(value.type)
        result.add_incoming(value, before)
        result.add_incoming(new, inside)
        results.append(result)
    return results


def make_weighted_rows(width: int, compensated: bool):
    """Make the intrinsic that sums ``width`` consecutive features over consecutive states.

    ``weighted_rows(rows, low, row, stride, shares, share, n, means, means_low, mean, out, at)``
    sets out[at : at + width] = Σ_i shares[share + i] · (x_i − m), i from 0 to n − 1, where x_i are
    the entries from row + i · stride on, and m those from ``mean`` on. All arrays are flat and
    float32. ``compensated`` takes the low parts of states and means into account.
    """
    vector = ir.VectorType(_F32, width)

    @intrinsic
    def weighted_rows(
        typing_context, rows, low, row, stride, shares, share, n, means, means_low, mean, out, at
    ):
        def generate(context, builder, signature, arguments):
            base = {
                i: context.make_array(signature.args[i])(context, builder, arguments[i]).data
                for i in (0, 1, 4, 7, 8, 10)
            }
            row_, stride_, share_, n_, mean_, at_ = (arguments[i] for i in (2, 3, 5, 6, 9, 11))

            def load(array: int, offset: Any) -> Any:
                address = builder.gep(base[array], [offset])
                return builder.load(builder.bitcast(address, vector.as_pointer()), align=4)

            centre = load(7, mean_)
            centre_low = load(8, mean_) if compensated else None

            def term(i: Any, running: Any) -> Any:
                weight = builder.load(builder.gep(base[4], [builder.add(share_, i)]))
                offset = builder.add(row_, builder.mul(i, stride_))
                difference = builder.fsub(load(0, offset), centre)
                if compensated:
                    difference = builder.fadd(difference, builder.fsub(load(1, offset), centre_low))
                product = builder.fmul(difference, _splat(builder, weight, width), flags=_FAST)
                return builder.fadd(running, product, flags=_FAST)

            zero = ir.Constant(vector, None)
            whole = builder.and_(n_, _I64(-_CHAINS))
            sums = _loop(
                builder,
                _I64(0),
                whole,
                _CHAINS,
                [zero] * _CHAINS,
                lambda i, running: [
                    term(builder.add(i, _I64(j)), running[j]) for j in range(_CHAINS)
                ],
            )
            total = sums[0]
            for other in sums[1:]:
                total = builder.fadd(total, other)
            (total,) = _loop(
                builder, whole, n_, 1, [total], lambda i, running: [term(i, running[0])]
            )
            address = builder.bitcast(builder.gep(base[10], [at_]), vector.as_pointer())
            builder.store(total, address, align=4)
            return context.get_dummy_value()

        whole_number = types.int64
        return types.void(
            rows, low, whole_number, whole_number, shares, whole_number, whole_number, means,
            means_low, whole_number, out, whole_number,
        ), generate  # fmt: skip

    return weighted_rows
