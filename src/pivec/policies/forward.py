"""The forward pass of many equal multilayer perceptrons at once, in float32.

A row's outputs are one fixed sequence of operations on the row (see `pivec.policies.kernels`), so
they never depend on its company: not on the number of rows, of networks, or of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float32]
Layer = tuple[Float, Float]

ACTIVATIONS = ("tanh", "relu", "elu", "leaky_relu", "sigmoid", "silu", "gelu", "identity")
"""Each is torch's module of that name with its default settings."""


def function(name: str) -> Callable[[Float], None]:
    """Give a function of numbers by its name in `kernels`; it works on an array of one axis."""
    from pivec.policies import kernels  # Numba takes a while to import

    compiled: Callable[[Float], None] = getattr(kernels, name)
    return compiled


def evaluate(name: str, x: Any) -> Float:
    """Give the values of a function at every number, as a new array.

    Examples
    --------
    >>> import numpy as np
    >>> evaluate("exp", np.array([[0.0, 1.0]])).round(3)
    array([[1.   , 2.718]], dtype=float32)
    """
    values = np.array(x, np.float32, order="C")
    function(name)(values.reshape(-1))
    return values


def padded(layer: Layer) -> Layer:
    """Copy weights (in, out) and biases (out,), with outputs of zero up to whole blocks."""
    from pivec.policies.kernels import WIDTH

    weight, bias = layer
    n_in, n_out = weight.shape
    width = n_out + -n_out % WIDTH
    weights, biases = np.zeros((n_in, width), np.float32), np.zeros(width, np.float32)
    weights[:, :n_out], biases[:n_out] = weight, bias
    return weights, biases


def affine(rows: NDArray[Any], layer: Layer, activation: str) -> Float:
    """Rows (n, in) through one layer that is `padded`: (n, padded out)."""
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


class Forward:
    """Buffers and weights of ``slots`` networks that answer ``lanes`` rows each.

    ``sizes`` are the widths of the layers, the input's first; ``activation``, a name in
    `ACTIVATIONS`, comes after every layer but the last. With ``spread`` there are standard
    deviations of random weights beside those of the last layer, see `run`.
    """

    def __init__(
        self, slots: int, lanes: int, sizes: Sequence[int], activation: str, spread: bool = False
    ) -> None:
        from pivec.policies.kernels import ROWS, WIDTH

        self.lanes, self._n_outputs = lanes, sizes[-1]
        self._activate = function(activation)
        rows, widths = max(lanes, ROWS), [n + -n % WIDTH for n in sizes[1:]]
        self._weights = [
            np.zeros((slots, n_in, width), np.float32)
            for n_in, width in zip(sizes, widths, strict=False)
        ]
        self._biases = [np.zeros((slots, width), np.float32) for width in widths]
        self._values = [np.zeros((slots, rows, n), np.float32) for n in (sizes[0], *widths)]
        self._variances = np.zeros_like(self._weights[-1]) if spread else None

    def put(self, slot: int, layers: Sequence[Layer], spread: Float | None = None) -> None:
        """Copy weights (in, out), biases (out,) and deviations (in, out) into ``slot``."""
        for i, (weight, bias) in enumerate(layers):
            self._weights[i][slot, :, : len(bias)] = weight
            self._biases[i][slot, : len(bias)] = bias
        if self._variances is not None and spread is not None:
            self._variances[slot, :, : self._n_outputs] = np.square(spread)

    def run(self, observations: NDArray[Any]) -> Float:
        """Compute outputs (slots, lanes, out) for observations (slots, lanes, in).

        With ``spread``, the deviations that random weights give the outputs come behind them: with
        h going into the last layer and weights of deviations s, sqrt of the sum over i of
        h_i^2 s_i^2.
        """
        from pivec.policies.kernels import multiply

        self._values[0][:, : self.lanes] = observations
        last = len(self._weights) - 1
        for i, (weights, biases) in enumerate(zip(self._weights, self._biases, strict=True)):
            out = self._values[i + 1]
            multiply(self._values[i], weights, biases, out)
            if i < last:
                self._activate(out.reshape(-1))
        outputs = self._values[-1][:, : self.lanes, : self._n_outputs]
        if self._variances is None:
            return outputs.copy()
        squares, spread = np.square(self._values[-2]), np.empty_like(self._values[-1])
        multiply(squares, self._variances, np.zeros_like(self._biases[-1]), spread)
        deviations = np.sqrt(spread[:, : self.lanes, : self._n_outputs])
        return np.concatenate([outputs, deviations], axis=-1)


def softmax_terms(logits: Float) -> Float:
    """exp(logit - largest) of (n, actions) logits, transposed: (actions, n).

    Few actions and many rows: with the rows innermost NumPy works on long runs.
    """
    terms = np.ascontiguousarray(logits.T)
    terms -= terms.max(axis=0)
    function("exp")(terms.reshape(-1))
    return terms


def sample_categorical(logits: Float, uniform: Float) -> NDArray[np.int64]:
    """Inverse of the cumulative distribution of logits (n, actions) at uniform numbers (n,)."""
    terms = softmax_terms(logits)
    # Running sums are the unnormalised cumulative distribution; the action is the number of
    # them at or below u times the total.
    np.cumsum(terms, axis=0, out=terms)
    threshold = uniform * terms[-1]
    actions = np.zeros(len(uniform), np.int64)
    for below in terms[:-1]:
        actions += below <= threshold
    return actions
