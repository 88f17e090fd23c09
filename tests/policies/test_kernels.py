"""Kernels give the bits of their definition, and lie within bounds of float64."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, ndtr

from pivec.policies import ACTIVATIONS, kernels

f32 = np.float32
UNIT = 2.0**-24  # a result of float32 is off by at most this share of itself
RNG = np.random.default_rng(0)
NUMBERS = np.concatenate(
    [*(RNG.normal(size=2000) * scale for scale in (1e-4, 0.1, 1, 3, 20)), np.linspace(-87, 88, 999)]
).astype(f32)


def evaluate(name, x):
    values = np.array(x, np.float32)
    getattr(kernels, name)(values)
    return values


def product(slots, rows, n_in, n_out):
    x = RNG.normal(size=(slots, rows, n_in + 3)).astype(f32)
    weights = RNG.normal(size=(slots, n_in, n_out)).astype(f32)
    biases = RNG.normal(size=(slots, n_out)).astype(f32)
    out = np.full((slots, rows, n_out), np.nan, f32)
    kernels.multiply(x, weights, biases, out)
    return x[..., :n_in], weights, biases, out


@pytest.mark.bits
@pytest.mark.parametrize("rows", [4, 5, 7, 8, 21])
@pytest.mark.parametrize(("n_in", "n_out"), [(1, 16), (3, 32), (64, 64), (300, 16)])
def test_products_are_added_up_in_order(rows, n_in, n_out):
    x, weights, biases, out = product(2, rows, n_in, n_out)
    expected = np.repeat(biases[:, None], rows, axis=1)
    for i in range(n_in):
        expected = expected + x[..., i : i + 1] * weights[:, None, i]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("n_in", [1, 24, 1000])
def test_products_keep_to_the_bound_of_a_sum(n_in):
    x, weights, biases, out = (a.astype(np.float64) for a in product(3, 9, n_in, 32))
    exact = biases[:, None] + x @ weights
    # Each term is rounded once as a product and at most n_in times as a part of a sum
    # (Higham 2002, section 3.1).
    share = (n_in + 1) * UNIT / (1 - (n_in + 1) * UNIT)
    bound = share * (np.abs(biases)[:, None] + np.abs(x) @ np.abs(weights))
    assert (np.abs(out - exact) <= bound).all()


def parts(x):
    """p and 2^n of `kernels._parts`, in NumPy: basic operations, each rounded to float32."""
    x = np.clip(x, f32(-87), f32(88))
    n = np.rint(x * f32(np.log2(np.e)))
    x = x - n * f32(0.693359375)
    x = x - n * f32(-2.12194440e-4)
    series = np.full_like(x, 1.9875691500e-4)
    for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        series = series * x + f32(c)
    return x + x * x * series, np.ldexp(f32(1), n.astype(int))


def exp(x):
    p, power = parts(x)
    return np.where(x < -87, f32(0), power + power * p)


def expm1(x):
    p, power = parts(x)
    return power * p + (power - f32(1))


def tanh(x):
    e = expm1(np.minimum(f32(2) * x, f32(20)))
    return e / (e + f32(2))


def gelu(x):
    z = np.abs(x) * f32(0.5**0.5)
    t = f32(1) / (f32(1) + f32(0.3275911) * z)
    series = np.zeros_like(x)
    for c in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series + f32(c)) * t
    above = f32(0.5) * series * exp(-z * z)
    return x * np.where(x < 0, above, f32(1) - above)


def softplus(x):
    e = exp(-np.abs(x))
    t = e / (f32(2) + e)
    series = np.zeros_like(x)
    for n in (15, 13, 11, 9, 7, 5, 3):
        series = (series + f32(1 / n)) * (t * t)
    return np.where(x < 0, f32(0), x) + f32(2) * (t + t * series)


SEQUENCES = {
    "exp": exp,
    "tanh": tanh,
    "relu": lambda x: np.where(x < 0, f32(0), x),
    "elu": lambda x: np.where(x < 0, expm1(x), x),
    "leaky_relu": lambda x: np.where(x < 0, f32(0.01) * x, x),
    "sigmoid": lambda x: f32(1) / (f32(1) + exp(-x)),
    "silu": lambda x: x * (f32(1) / (f32(1) + exp(-x))),
    "gelu": gelu,
    "softplus": softplus,
    "identity": lambda x: x,
}
FORMULAS = {
    "exp": np.exp,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "elu": lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x),
    "leaky_relu": lambda x: np.where(x < 0, 0.01 * x, x),
    "sigmoid": expit,
    "silu": lambda x: x * expit(x),
    "gelu": lambda x: x * ndtr(x),
    "softplus": lambda x: np.logaddexp(0, x),
    "identity": lambda x: x,
}


def test_there_is_a_formula_for_each():
    assert {*ACTIVATIONS, "exp"} == set(SEQUENCES) == set(FORMULAS)


@pytest.mark.bits
@pytest.mark.parametrize("name", SEQUENCES)
def test_functions_are_fixed_sequences_of_operations(name):
    with np.errstate(under="ignore"):
        np.testing.assert_array_equal(evaluate(name, NUMBERS), SEQUENCES[name](NUMBERS))


@pytest.mark.bits
@pytest.mark.parametrize("name", SEQUENCES)
def test_a_number_does_not_depend_on_its_place(name):
    whole = evaluate(name, NUMBERS)
    for n in range(1, 41):
        np.testing.assert_array_equal(evaluate(name, NUMBERS[-n:]), whole[-n:])
        np.testing.assert_array_equal(evaluate(name, NUMBERS[7 * n : 8 * n]), whole[7 * n : 8 * n])


@pytest.mark.parametrize("name", FORMULAS)
def test_functions_agree_with_float64(name):
    exact = FORMULAS[name](NUMBERS.astype(np.float64))
    # Seen: at most 1.9e-7 of the value. Of gelu the share below a number is right to 1.5e-7
    # (Abramowitz and Stegun), and its rounding comes on top.
    near = 1.5e-6 * np.abs(NUMBERS) if name == "gelu" else 1e-6 * np.abs(exact)
    assert (np.abs(evaluate(name, NUMBERS) - exact) <= near + 2.0**-149).all()


@pytest.mark.parametrize("name", FORMULAS)
def test_what_is_not_finite_keeps_its_meaning(name):
    nan, high = evaluate(name, np.array([np.nan, np.inf]))
    assert np.isnan(nan)
    bounded = {"exp": np.exp(88.0), "tanh": 1, "sigmoid": 1}
    np.testing.assert_allclose(high, bounded.get(name, np.inf), rtol=1e-5)
    low = {"exp": 0, "tanh": -1, "relu": 0, "elu": -1, "sigmoid": 0}
    if name in low:
        assert evaluate(name, np.array([-np.inf]))[0] == pytest.approx(low[name], abs=1e-37)
