"""The forward pass of many equal multilayer perceptrons at once, in float32.

A row's outputs are one fixed sequence of operations on the row (see `pivec.policies.kernels`), so
they never depend on its company: not on the number of rows, of networks, or of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError

if TYPE_CHECKING:
    from pivec.policies.networks import NetworkPolicy

# -----------------------------------------------------------------------------
# How observations are normalised before a policy sees them.


Double = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Clips (observation - mean) / scale to plus and minus ``limit``, value by value.

    All three are of shape (n_inputs,), of flattened observations. A limit may be infinite.

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
        shapes = {self.mean.shape, self.scale.shape, self.limit.shape}
        if len(shapes) != 1 or self.mean.ndim != 1:
            raise UsageError("a normaliser needs mean, scale and limit of the same length")
        if not (np.isfinite(self.mean).all() and np.isfinite(self.scale).all()):
            raise UsageError("mean and scale of a normaliser must be finite")
        if not ((self.scale > 0).all() and (self.limit > 0).all()):
            raise UsageError("scale and limit of a normaliser must be above 0")

    @classmethod
    def of_variance(
        cls, mean: Double, variance: Double, epsilon: float = 1e-8, clip: float = np.inf
    ) -> Normaliser:
        """Make one of running moments of any shape, with ``epsilon`` added to the variance."""
        with np.errstate(invalid="ignore"):  # a scale that is NaN is refused
            scale = np.sqrt(np.ravel(variance) + epsilon)
        return cls(np.ravel(mean), scale, np.full(np.size(mean), clip))

    @classmethod
    def joined(cls, parts: Sequence[Normaliser | int]) -> Normaliser:
        """Make one of those of successive values; a number says how many stay as they are."""
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
        """Everything that decides what it does, for digests."""
        return b"".join(array.tobytes() for array in self.arrays)

    def check_width(self, width: int, whose: str) -> None:
        """Refuse observations of another number of values than ``whose`` ("... expects")."""
        if len(self.mean) != width:
            raise UsageError(
                f"the normaliser is made for observations of {len(self.mean)} values, "
                f"but {whose} {width}"
            )

    def apply(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Normalise rows of shape (..., n_inputs), computed in float64."""
        return normalise(rows, *self.arrays)


def normalise(
    rows: NDArray[Any], mean: Double, scale: Double, limit: Double
) -> NDArray[np.float32]:
    """Do what `Normaliser` says, for arrays that may be stacked; as Stable-Baselines3 does it."""
    return np.clip((rows - mean) / scale, -limit, limit).astype(np.float32)


Float = NDArray[np.float32]
Layer = tuple[Float, Float]

ACTIVATIONS = (
    *("tanh", "relu", "elu", "leaky_relu", "sigmoid", "silu", "gelu", "softplus", "identity"),
)
"""Each is torch's module of that name with its default settings."""


def function(name: str) -> Callable[[Float], None]:
    """Give a function of numbers by its name in `kernels`; it works on an array of one axis."""
    from pivec.policies import kernels  # Numba takes a while to import

    compiled: Callable[[Float], None] = getattr(kernels, name)
    return compiled


def evaluate(name: str, x: Any) -> Float:
    """Give the values of a function of `kernels` at every number, as a new array."""
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


class NetworkStack:
    """Weights and buffers of ``slots`` networks of one architecture, of ``lanes`` rows each."""

    def __init__(self, slots: int, lanes: int, like: NetworkPolicy) -> None:
        from pivec.policies.kernels import ROWS, WIDTH

        self._rule, self._activate, sizes = like.rule, function(like.activation), like.sizes
        self._shape, self._n_outputs = (slots, lanes, sizes[0]), sizes[-1]
        self._noise_shape = (slots, lanes, like.rule.noise_size)
        rows, widths = max(lanes, ROWS), [n + -n % WIDTH for n in sizes[1:]]
        self._weights = [
            np.zeros((slots, n_in, width), np.float32)
            for n_in, width in zip(sizes, widths, strict=False)
        ]
        self._biases = [np.zeros((slots, width), np.float32) for width in widths]
        self._values = [np.zeros((slots, rows, n), np.float32) for n in (sizes[0], *widths)]
        self._variances = None if like.state_std is None else np.zeros_like(self._weights[-1])
        # One row a slot, and an axis of length one that repeats it over the lanes.
        self._parameters = tuple(
            np.zeros((slots, 1, len(array)), np.float32) for array in like.rule.parameters()
        )
        self._statistics = tuple(
            np.ones((slots, 1, sizes[0])) for _ in range(3 * (like.normaliser is not None))
        )
        for slot in range(slots):
            self.put(slot, like)

    def put(self, slot: int, policy: NetworkPolicy) -> None:
        """Let ``policy`` answer in ``slot`` from now on."""
        for i, (weight, bias) in enumerate(policy.layers):
            self._weights[i][slot, :, : len(bias)] = weight
            self._biases[i][slot, : len(bias)] = bias
        if self._variances is not None and policy.state_std is not None:
            self._variances[slot, :, : policy.n_outputs] = np.square(policy.state_std)
        for own, values in zip(self._parameters, policy.rule.parameters(), strict=True):
            own[slot, 0] = values
        if policy.normaliser is not None:
            for doubles, statistics in zip(self._statistics, policy.normaliser.arrays, strict=True):
                doubles[slot, 0] = statistics

    def outputs(self, observations: NDArray[Any]) -> Float:
        """Outputs (slots, lanes, out) for observations (slots, lanes, in).

        With ``state_std``, the deviations that random weights give the outputs come behind them:
        with h going into the last layer and weights of deviations s, sqrt of the sum over i of
        h_i^2 s_i^2.
        """
        from pivec.policies.kernels import multiply

        if np.shape(observations) != self._shape:
            raise UsageError(
                f"expected observations of shape {self._shape}, but got {np.shape(observations)}"
            )
        if self._statistics:
            observations = normalise(observations, *self._statistics)
        lanes, n_outputs = self._shape[1], self._n_outputs
        self._values[0][:, :lanes] = observations
        last = len(self._weights) - 1
        for i, (weights, biases) in enumerate(zip(self._weights, self._biases, strict=True)):
            out = self._values[i + 1]
            multiply(self._values[i], weights, biases, out)
            if i < last:
                self._activate(out.reshape(-1))
        outputs = self._values[-1][:, :lanes, :n_outputs]
        if self._variances is None:
            return outputs.copy()
        squares, spread = np.square(self._values[-2]), np.empty_like(self._values[-1])
        multiply(squares, self._variances, np.zeros_like(self._biases[-1]), spread)
        return np.concatenate([outputs, np.sqrt(spread[:, :lanes, :n_outputs])], axis=-1)

    def respond(
        self, observations: NDArray[Any], noise: NDArray[np.float32] | None
    ) -> NDArray[Any]:
        """Actions (slots, lanes, ...) for observations (slots, lanes, in)."""
        if noise is not None and np.shape(noise) != self._noise_shape:
            raise UsageError(
                f"expected random numbers of shape {self._noise_shape}, but got {np.shape(noise)}"
            )
        return self._rule.choose(self.outputs(observations), noise, self._parameters)


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
