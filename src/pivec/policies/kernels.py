"""The arithmetic of networks, compiled: products of matrices, and functions of single numbers.

Every result is one fixed sequence of operations of float32 on the numbers it depends on, whatever
stands beside them in the array. Only additions, products, divisions and comparisons are used, each
rounded by itself: every processor gives the same bits for those, in registers of any width. Fused
multiplication and addition would gain a tenth, but takes eighty times as long where a processor
does not have it.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ARG001 -- the arguments of an intrinsic are given by Numba

from __future__ import annotations

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from pivec.parallel.compiled import compiler

ROWS, WIDTH = 4, 16
"""Rows and outputs of a block, whose sums fit into eight registers of AVX2.

There must be at least so many rows, and a multiple of so many outputs.
"""

_F32, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_F32, WIDTH)

exact = compiler(forceinline=True)
f32 = np.float32


@intrinsic
def _block(typing_context, x, row, stride, n, weights, weight, biases, bias, width, out, at):
    """Set ROWS x WIDTH outputs: biases plus the products of n inputs and weights, in order.

    Arrays are taken as flat. The rows of ``x`` begin at ``row``, ``stride`` apart; those of the
    weights at ``weight`` and of the outputs at ``at``, ``width`` apart.
    """

    def generate(context, builder, signature, arguments):
        def data(i):
            return context.make_array(signature.args[i])(context, builder, arguments[i]).data

        inputs, factors, shifts, results = (data(i) for i in (0, 4, 6, 9))
        row, stride, n, weight, bias, width, at = (arguments[i] for i in (1, 2, 3, 5, 7, 8, 10))

        def place(array, start, step, i):
            return builder.gep(array, [builder.add(start, builder.mul(step, i))])

        def vector_at(array, start, step, i):
            return builder.bitcast(place(array, start, step, i), _VECTOR.as_pointer())

        rows = [place(inputs, row, stride, _I64(r)) for r in range(ROWS)]
        first = builder.load(vector_at(shifts, bias, _I64(0), _I64(0)), align=4)
        before = builder.block
        inside, after = (builder.append_basic_block(name) for name in ("terms", "terms.done"))
        builder.branch(inside)
        builder.position_at_end(inside)
        i = builder.phi(_I64)
        sums = [builder.phi(_VECTOR) for _ in rows]
        factor = builder.load(vector_at(factors, weight, width, i), align=4)
        nothing = ir.Constant(_VECTOR, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(_I32, WIDTH), [0] * WIDTH)
        grown = []
        for start, total in zip(rows, sums, strict=True):
            value = builder.load(builder.gep(start, [i]))
            single = builder.insert_element(nothing, value, _I32(0))
            values = builder.shuffle_vector(single, nothing, everywhere)
            grown.append(builder.fadd(total, builder.fmul(values, factor)))
        following = builder.add(i, _I64(1))
        i.add_incoming(_I64(0), before)
        i.add_incoming(following, inside)
        for total, new in zip(sums, grown, strict=True):
            total.add_incoming(first, before)
            total.add_incoming(new, inside)
        builder.cbranch(builder.icmp_signed("<", following, n), inside, after)
        builder.position_at_end(after)
        for r, new in enumerate(grown):
            builder.store(new, vector_at(results, at, width, _I64(r)), align=4)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(
        x, whole, whole, whole, weights, whole, biases, whole, whole, out, whole
    ), generate


@exact
def multiply(x, weights, biases, out):
    """Set out[s, r] = biases[s] + x[s, r] weights[s], added up in the order of the inputs.

    Parameters
    ----------
    x : float32 (slots, rows, at least n_in)
        Numbers behind the first n_in of a row do not count.
    weights : float32 (slots, n_in, n_out)
    biases : float32 (slots, n_out)
    out : float32 (slots, rows, n_out)
        At least ROWS rows, and n_out a multiple of WIDTH.
    """
    slots, rows, stride = x.shape
    n_in, n_out = weights.shape[1], weights.shape[2]
    for slot in range(slots):
        for j in range(0, n_out, WIDTH):
            for k in range(0, rows, ROWS):
                # The last block begins early enough to be whole; what it does again is the same.
                row = slot * rows + min(k, rows - ROWS)
                weight, bias = slot * n_in * n_out + j, slot * n_out + j
                _block(
                    x, row * stride, stride, n_in, weights, weight,
                    biases, bias, n_out, out, row * n_out + j,
                )  # fmt: skip


@exact
def _power_of_two(shifted):
    """Give 2^n for n + _SHIFT, whose last bits are n + 127: the exponent of the result."""
    return np.int32(np.float32(shifted).view(np.int32) << 23).view(np.float32)


_SHIFT = f32(1.5 * 2**23 + 127)  # adding it rounds to a whole number
_LOG2_E = f32(np.log2(np.e))
_LN2, _LN2_LOW = f32(0.693359375), f32(-2.12194440e-4)  # products with the first are exact
_SERIES = tuple(
    f32(c)
    for c in (
        1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3,
        4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1,
    )
)  # fmt: skip
"""Of (e^x - 1 - x) / x^2 for |x| up to half of ln 2 (Moshier, Cephes, expf.c)."""
_LEAST, _MOST = f32(-87.0), f32(88.0)
"""Between these e^x is a normal number of float32."""


@exact
def _parts(x):
    """Give p and 2^n with e^x = 2^n (1 + p), for x brought to between _LEAST and _MOST."""
    # Comparisons that are false for NaN, which goes through.
    x = _LEAST if x < _LEAST else x
    x = _MOST if x > _MOST else x
    shifted = x * _LOG2_E + _SHIFT
    n = shifted - _SHIFT
    x = x - n * _LN2
    x = x - n * _LN2_LOW
    series = _SERIES[0]
    for c in _SERIES[1:]:
        series = series * x + c
    return x + x * x * series, _power_of_two(shifted)


@exact
def _exp(x):
    p, power = _parts(x)
    return f32(0) if x < _LEAST else power + power * p


@exact
def _expm1(x):
    p, power = _parts(x)
    return power * p + (power - f32(1))


@exact
def _sigmoid(x):
    return f32(1) / (f32(1) + _exp(-x))


@exact
def exp(x):
    """Replace numbers by e^x, which is 0 below -87 and no more than e^88."""
    for i in range(x.size):
        x[i] = _exp(x[i])


@exact
def tanh(x):
    """Replace numbers by their hyperbolic tangent."""
    for i in range(x.size):
        y = f32(2) * x[i]
        y = f32(20) if y > f32(20) else y
        e = _expm1(y)
        x[i] = e / (e + f32(2))


@exact
def relu(x):
    """Replace negative numbers by 0."""
    for i in range(x.size):
        x[i] = f32(0) if x[i] < 0 else x[i]


@exact
def leaky_relu(x):
    """Replace negative numbers by a hundredth."""
    for i in range(x.size):
        x[i] = f32(0.01) * x[i] if x[i] < 0 else x[i]


@exact
def elu(x):
    """Replace negative numbers by e^x - 1."""
    for i in range(x.size):
        x[i] = _expm1(x[i]) if x[i] < 0 else x[i]


@exact
def sigmoid(x):
    """Replace numbers by 1 / (1 + e^-x)."""
    for i in range(x.size):
        x[i] = _sigmoid(x[i])


@exact
def silu(x):
    """Replace numbers by x / (1 + e^-x)."""
    for i in range(x.size):
        x[i] = x[i] * _sigmoid(x[i])


_ERF = tuple(f32(c) for c in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592))
"""Of 1 - erf(x), within 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26)."""


@exact
def gelu(x):
    """Replace numbers by x times the share of a standard normal distribution below them."""
    for i in range(x.size):
        z = abs(x[i]) * f32(0.7071067811865476)
        t = f32(1) / (f32(1) + f32(0.3275911) * z)
        series = f32(0)
        for c in _ERF:
            series = (series + c) * t
        above = f32(0.5) * series * _exp(-z * z)
        x[i] = x[i] * (above if x[i] < 0 else f32(1) - above)


_ATANH = tuple(f32(1 / n) for n in (15, 13, 11, 9, 7, 5, 3))
"""Of artanh(t) / t - 1 as a series in t^2: of t up to 1/3, within 5e-9."""


@exact
def softplus(x):
    """Replace numbers by log(1 + e^x)."""
    for i in range(x.size):
        e = _exp(-abs(x[i]))
        t = e / (f32(2) + e)  # log(1 + e) = 2 artanh(t)
        series = f32(0)
        for c in _ATANH:
            series = (series + c) * (t * t)
        x[i] = (f32(0) if x[i] < 0 else x[i]) + f32(2) * (t + t * series)


@exact
def identity(x):
    """Leave numbers as they are."""
