"""The arithmetic of networks in float32: normalisation, activations and linear layers.

A row's results are one fixed sequence of operations on that row (see `pivec.policies.kernels`), so
they never depend on the number of rows, networks or threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError

Float = NDArray[np.float32]
Double = NDArray[np.float64]
Layer = tuple[Float, Float]
"""Weights (in, out) and biases (out,)."""

ACTIVATIONS = (
    *("tanh", "relu", "elu", "leaky_relu", "sigmoid", "silu", "gelu", "softplus", "identity"),
)
"""Each is torch's module of that name with its default settings."""


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Clips (observation - mean) / scale to +-``limit``, value by value.

    All three have shape (n_inputs,), for flattened observations. A limit may be infinite.

    Examples
    --------
    >>> import numpy as np
    >>> Normaliser([1.0, 0.0], [2.0, 0.1], [10.0, 10.0]).apply(np.array([[2.0, -5.0]]))
    array([[  0.5, -10. ]], dtype=float32)
    """

    mean: Double
    scale: Double
    limit: Double

    def __post_init__(self) -> None:
        for name in ("mean", "scale", "limit"):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if len({array.shape for array in self.arrays}) != 1 or self.mean.ndim != 1:
            raise UsageError("a normaliser needs mean, scale and limit of the same length")
        if not (np.isfinite(self.mean).all() and np.isfinite(self.scale).all()):
            raise UsageError("mean and scale of a normaliser must be finite")
        if not ((self.scale > 0).all() and (self.limit > 0).all()):
            raise UsageError("scale and limit of a normaliser must be above 0")

    @classmethod
    def of_variance(
        cls, mean: Double, variance: Double, epsilon: float = 1e-8, clip: float = np.inf
    ) -> Normaliser:
        """Normalise by running moments of any shape; ``epsilon`` is added to the variance."""
        with np.errstate(invalid="ignore"):  # a scale that is NaN is rejected
            scale = np.sqrt(np.ravel(variance) + epsilon)
        return cls(np.ravel(mean), scale, np.full(np.size(mean), clip))

    @classmethod
    def joined(cls, parts: Sequence[Normaliser | int]) -> Normaliser:
        """Concatenate normalisers; an int is a number of values that stay unchanged."""
        arrays = [
            (np.zeros(part), np.ones(part), np.full(part, np.inf))
            if isinstance(part, int)
            else part.arrays
            for part in parts
        ]
        return cls(*map(np.concatenate, zip(*arrays, strict=True)))

    @property
    def arrays(self) -> tuple[Double, Double, Double]:
        """Mean, scale and limit."""
        return self.mean, self.scale, self.limit

    def tobytes(self) -> bytes:
        """Everything that decides its results, for digests."""
        return b"".join(array.tobytes() for array in self.arrays)

    def check_width(self, width: int, whose: str) -> None:
        """Reject observations of another size; ``whose`` is such as "the network expects"."""
        if len(self.mean) != width:
            raise UsageError(
                f"the normaliser is for observations of {len(self.mean)} values, "
                f"but {whose} {width}"
            )

    def apply(self, rows: NDArray[Any]) -> Float:
        """Normalise rows of shape (..., n_inputs), computed in float64."""
        return normalise(rows, *self.arrays)


def normalise(rows: NDArray[Any], mean: Double, scale: Double, limit: Double) -> Float:
    """Normalise as Stable-Baselines3 does; the arrays may be stacked."""
    return np.clip((rows - mean) / scale, -limit, limit).astype(np.float32)


def function(name: str) -> Callable[[Float], None]:
    """Look up a function of `kernels` that works in place on an array with one axis."""
    from pivec.policies import kernels  # Numba takes a while to import

    compiled: Callable[[Float], None] = getattr(kernels, name)
    return compiled


def evaluate(name: str, x: Any) -> Float:
    """Apply a function of `kernels` to every number; returns a new array."""
    values = np.array(x, np.float32, order="C")
    function(name)(values.reshape(-1))
    return values


def padded(layer: Layer) -> Layer:
    """Copy a layer, with zero outputs up to a multiple of the kernels' block width."""
    from pivec.policies.kernels import WIDTH

    weight, bias = layer
    n_in, n_out = weight.shape
    width = n_out + -n_out % WIDTH
    weights, biases = np.zeros((n_in, width), np.float32), np.zeros(width, np.float32)
    weights[:, :n_out], biases[:n_out] = weight, bias
    return weights, biases


def affine(rows: NDArray[Any], layer: Layer, activation: str) -> Float:
    """Pass rows (n, in) through one `padded` layer: (n, padded out)."""
    from pivec.policies.kernels import ROWS, multiply

    n = len(rows)
    x = np.zeros((1, max(n, ROWS), rows.shape[1]), np.float32)
    x[0, :n] = rows
    weights, biases = layer
    out = np.empty((1, x.shape[1], len(biases)), np.float32)
    multiply(x, weights[None], biases[None], out)
    function(activation)(out.reshape(-1))
    result: Float = out[0, :n]
    return result
