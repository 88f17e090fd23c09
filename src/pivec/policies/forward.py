"""The forward pass of many equal multilayer perceptrons at once, in NumPy and float32.

Rows go through the matrix products in tiles of exactly 16. Every call of BLAS then has the same
sizes, whatever the number of rows, so a row's result never depends on its company.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float32]
Layer = tuple[Float, Float]

TILE = 16


def _tanh(x: Float) -> None:
    np.tanh(x, out=x)


def _relu(x: Float) -> None:
    np.maximum(x, np.float32(0), out=x)


def _elu(x: Float) -> None:
    below = np.expm1(np.minimum(x, np.float32(0)))
    np.maximum(x, np.float32(0), out=x)
    x += below


def _leaky_relu(x: Float) -> None:
    np.maximum(x, x * np.float32(0.01), out=x)


def _sigmoid(x: Float) -> None:
    # 1/(1+exp(-x)) = (1 + tanh(x/2))/2, which cannot overflow.
    x *= np.float32(0.5)
    np.tanh(x, out=x)
    x += np.float32(1)
    x *= np.float32(0.5)


def _silu(x: Float) -> None:
    gate = x.copy()
    _sigmoid(gate)
    x *= gate


def _gelu(x: Float) -> None:
    from scipy.special import erf

    gate = erf(x * np.float32(0.7071067811865476))
    gate += np.float32(1)
    gate *= np.float32(0.5)
    x *= gate


def _identity(x: Float) -> None:
    pass


ACTIVATIONS: dict[str, Callable[[Float], None]] = {
    "tanh": _tanh,
    "relu": _relu,
    "elu": _elu,
    "leaky_relu": _leaky_relu,
    "sigmoid": _sigmoid,
    "silu": _silu,
    "gelu": _gelu,
    "identity": _identity,
}
"""Each works in place, as torch's module of that name with its default settings."""


class Forward:
    """Buffers and weights of ``slots`` networks that answer ``lanes`` rows each.

    Parameters
    ----------
    slots, lanes : int
        How many networks, and how many rows for each.
    sizes : sequence of int
        Widths of the layers, the input's first.
    activation : str
        A name in `ACTIVATIONS`, applied after every layer but the last.
    spread : bool
        Whether there are standard deviations of random weights beside those of the last layer,
        see `run`.
    """

    def __init__(
        self, slots: int, lanes: int, sizes: Sequence[int], activation: str, spread: bool = False
    ) -> None:
        self.slots, self.lanes = slots, lanes
        tiles = max(1, -(-lanes // TILE))
        self._activate = ACTIVATIONS[activation]
        self._input = np.zeros((slots, tiles * TILE, sizes[0]), np.float32)
        # The axis of length one repeats a network's weights over its tiles. Biases are repeated
        # over the 16 rows beforehand: adding runs of 16 x width numbers is twice as fast.
        self._weights = [
            np.zeros((slots, 1, n_in, n_out), np.float32) for n_in, n_out in pairwise(sizes)
        ]
        self._biases = [np.zeros((slots, 1, TILE, n_out), np.float32) for n_out in sizes[1:]]
        self._tiled = [
            self._input.reshape(slots, tiles, TILE, sizes[0]),
            *(np.zeros((slots, tiles, TILE, n_out), np.float32) for n_out in sizes[1:]),
        ]
        self._padded: dict[int, Float] = {}
        self._output = self._tiled[-1].reshape(slots, tiles * TILE, sizes[-1])
        self._variances = np.zeros_like(self._weights[-1]) if spread else None
        self._squares = np.zeros_like(self._tiled[-2]) if spread else None
        self._spread = np.zeros_like(self._tiled[-1]) if spread else None

    def put(self, slot: int, layers: Sequence[Layer], spread: Float | None = None) -> None:
        """Copy the weights (in, out) and biases (out,) of a network into ``slot``.

        ``spread`` are the deviations of random weights of the last layer, (in, out).
        """
        for own_weight, own_bias, (weight, bias) in zip(
            self._weights, self._biases, layers, strict=True
        ):
            own_weight[slot, 0] = weight
            own_bias[slot, 0] = bias
        if self._variances is not None and spread is not None:
            self._variances[slot, 0] = np.square(spread)

    def run(self, observations: NDArray[Any]) -> Float:
        """Compute outputs for observations (slots, lanes, in), padded: (slots, padded lanes, out).

        With ``spread``, the deviations that random weights give the outputs come behind them: with
        h going into the last layer and weights of deviations s, sqrt of the sum over i of
        h_i^2 s_i^2. The result may be a buffer that the next call overwrites.
        """
        self._input[:, : self.lanes] = observations
        last = len(self._weights) - 1
        for i, (weight, bias) in enumerate(zip(self._weights, self._biases, strict=True)):
            out = self._tiled[i + 1]
            np.matmul(self._tiled[i], weight, out=out)
            out += bias
            if i < last:
                self._activate(out)
        if self._variances is None or self._squares is None or self._spread is None:
            return self._output
        np.square(self._tiled[-2], out=self._squares)
        np.matmul(self._squares, self._variances, out=self._spread)
        np.sqrt(self._spread, out=self._spread)
        return np.concatenate([self._output, self._spread.reshape(self._output.shape)], axis=-1)

    def unpad(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Cut the padding off an array of padded rows: (slots, lanes, ...), a copy."""
        return rows[:, : self.lanes].copy()

    def pad(self, values: NDArray[Any]) -> Float:
        """Bring (slots, lanes, k) to padded rows (slots, padded lanes, k), zeros between.

        The result may be a buffer that the next call overwrites.
        """
        if self.lanes == self._input.shape[1]:
            return np.ascontiguousarray(values, np.float32)
        width = values.shape[-1]
        if width not in self._padded:
            self._padded[width] = np.zeros((self.slots, self._input.shape[1], width), np.float32)
        padded = self._padded[width]
        padded[:, : self.lanes] = values
        return padded


def softmax_terms(logits: Float) -> Float:
    """exp(logit - largest) of (n, actions) logits, transposed: (actions, n).

    Few actions and many rows: with the rows innermost NumPy works on long runs.
    """
    terms = np.ascontiguousarray(logits.T)
    terms -= terms.max(axis=0)
    np.exp(terms, out=terms)
    return terms


def sample_categorical(logits: Float, uniform: Float) -> NDArray[np.int64]:
    """Inverse of the cumulative distribution at one uniform number a row.

    Parameters
    ----------
    logits : ndarray of shape (n, actions)
    uniform : ndarray of shape (n,)
        In [0, 1).
    """
    terms = softmax_terms(logits)
    # Running sums are the unnormalised cumulative distribution; the action is the number of
    # them at or below u times the total.
    np.cumsum(terms, axis=0, out=terms)
    threshold = uniform * terms[-1]
    actions = np.zeros(len(uniform), np.int64)
    for below in terms[:-1]:
        actions += below <= threshold
    return actions
