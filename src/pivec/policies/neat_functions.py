"""Activations and aggregations of neat-python, for whole arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Double = NDArray[np.float64]


def _elu(z: Double) -> Double:
    return np.where(z > 0, z, np.expm1(np.minimum(z, 0)))


def _selu(z: Double) -> Double:
    scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    return scale * np.where(z > 0, z, alpha * np.expm1(np.minimum(z, 0)))


def _inv(z: Double) -> Double:
    return np.where(z == 0, 0.0, 1.0 / np.where(z == 0, 1.0, z))


ACTIVATIONS: dict[str, Callable[[Double], Double]] = {
    "sigmoid": lambda z: 1.0 / (1.0 + np.exp(-np.clip(5.0 * z, -60.0, 60.0))),
    "tanh": lambda z: np.tanh(np.clip(2.5 * z, -60.0, 60.0)),
    "sin": lambda z: np.sin(np.clip(5.0 * z, -60.0, 60.0)),
    "gauss": lambda z: np.exp(-5.0 * np.square(np.clip(z, -3.4, 3.4))),
    "relu": lambda z: np.maximum(z, 0.0),
    "elu": _elu,
    "lelu": lambda z: np.where(z > 0, z, 0.005 * z),
    "selu": _selu,
    "softplus": lambda z: 0.2 * np.log1p(np.exp(np.clip(5.0 * z, -60.0, 60.0))),
    "identity": lambda z: z,
    "clamped": lambda z: np.clip(z, -1.0, 1.0),
    "inv": _inv,
    "log": lambda z: np.log(np.maximum(z, 1e-7)),
    "exp": lambda z: np.exp(np.clip(z, -60.0, 60.0)),
    "abs": np.abs,
    "hat": lambda z: np.maximum(0.0, 1.0 - np.abs(z)),
    "square": np.square,
    "cube": lambda z: z**3,
}
"""Name -> function of an array, as neat-python's function of a number."""


def _sum(terms: Double) -> Double:
    # One after another, as neat-python adds them: `sum` of NumPy may add in another order.
    total: Double = np.add.accumulate(terms)[-1] + 0.0  # and -0 is 0
    return total


def _largest(terms: Double) -> Double:
    first = np.abs(terms).argmax(axis=0)
    result: Double = np.take_along_axis(terms, first[None], axis=0)[0]
    return result


def _with(empty: float, call: Callable[[Double], Double]) -> Callable[[Double], Double]:
    """Let a function of terms give ``empty`` for a node without inputs."""
    return lambda terms: call(terms) if len(terms) else np.full(terms.shape[1], empty)


AGGREGATIONS: dict[str, Callable[[Double], Double]] = {
    "sum": _with(0.0, _sum),
    "product": _with(1.0, lambda terms: np.multiply.accumulate(terms)[-1]),
    "max": _with(0.0, lambda terms: terms.max(axis=0)),
    "min": _with(0.0, lambda terms: terms.min(axis=0)),
    "maxabs": _with(0.0, _largest),
    "median": _with(0.0, lambda terms: np.median(terms, axis=0)),
    "mean": _with(0.0, lambda terms: _sum(terms) / len(terms)),
}
"""Name -> function of a node's weighted inputs (k, n)."""
