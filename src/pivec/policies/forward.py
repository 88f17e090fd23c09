"""The arithmetic of networks in float32: normalisation, activations and the forward pass.

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
Tensors = dict[str, NDArray[Any]]  # by name

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
        """Normalise rows of shape (..., n_inputs)."""
        return normalise(rows, *self.arrays)


def normalise(rows: NDArray[Any], mean: Double, scale: Double, limit: Double) -> Float:
    """Normalise in float64, as Stable-Baselines3 does; the arrays may be stacked."""
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


class Perceptrons:
    """The forward pass of ``slots`` multilayer perceptrons of the same ``sizes``.

    ``activation`` follows all layers but the last, and ``last`` that one. Weights are padded with
    zeros to a multiple of the kernels' block width.
    """

    def __init__(
        self, sizes: Sequence[int], activation: str, last: str = "identity", slots: int = 1
    ) -> None:
        from pivec.policies.kernels import WIDTH

        self.sizes = tuple(sizes)
        self._widths = [sizes[0], *(n + -n % WIDTH for n in sizes[1:])]
        self._weights = [
            np.zeros((slots, n_in, width), np.float32)
            for n_in, width in zip(sizes, self._widths[1:], strict=False)
        ]
        self._biases = [np.zeros((slots, width), np.float32) for width in self._widths[1:]]
        self._activations = [activation] * (len(sizes) - 2) + [last]

    @classmethod
    def of(cls, layers: Sequence[Layer], activation: str, last: str) -> Perceptrons:
        """A single perceptron of these layers."""
        made = cls([len(layers[0][0]), *(len(bias) for _, bias in layers)], activation, last)
        made.put(0, layers)
        return made

    def put(self, slot: int, layers: Sequence[Layer]) -> None:
        """Set the weights of one slot."""
        for i, (weight, bias) in enumerate(layers):
            self._weights[i][slot, :, : len(bias)] = weight
            self._biases[i][slot, : len(bias)] = bias

    def buffers(self, rows: int) -> list[Float]:
        """Make arrays for the inputs and the results of all layers, to be used repeatedly."""
        from pivec.policies.kernels import ROWS

        shape = len(self._biases[0]), max(rows, ROWS)
        return [np.zeros((*shape, width), np.float32) for width in self._widths]

    def forward(self, x: NDArray[Any], values: list[Float]) -> Float:
        """Outputs (slots, rows, out) for inputs (slots, rows, in), a view of the last buffer."""
        from pivec.policies.kernels import multiply

        rows = x.shape[1]
        values[0][:, :rows] = x
        for i, activation in enumerate(self._activations):
            multiply(values[i], self._weights[i], self._biases[i], values[i + 1])
            if activation != "identity":
                function(activation)(values[i + 1].reshape(-1))
        return values[-1][:, :rows, : self.sizes[-1]]

    def __call__(self, rows: NDArray[Any]) -> Float:
        """Outputs (n, out) of a single perceptron for rows (n, in)."""
        outputs: Float = self.forward(rows[None], self.buffers(len(rows)))[0]
        return outputs
