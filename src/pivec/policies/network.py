"""A multilayer perceptron as a policy, evaluated with NumPy: what loaders of networks give."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.forward import (
    ACTIVATIONS,
    Float,
    Forward,
    Layer,
    sample_categorical,
    softmax_terms,
)

if TYPE_CHECKING:
    import gymnasium

HEADS = ("categorical", "gaussian")


@dataclass(frozen=True, eq=False)
class NetworkPolicy:
    """A policy whose action distribution is the output of a multilayer perceptron.

    Parameters
    ----------
    layers : tuple of (weight, bias)
        Weights of shape (in, out) and biases of shape (out,); kept as read-only float32.
    activation : str
        "tanh", "relu", "elu", "leaky_relu", "sigmoid", "silu", "gelu" or "identity", between the
        layers; the last layer has none.
    head : str
        "categorical" (outputs are logits) or "gaussian" (outputs are means).
    log_std : ndarray of shape (actions,), optional
        Logarithm of the standard deviations of a Gaussian head.
    low, high : ndarray of shape (actions,), optional
        The box that sampled actions are clipped to.

    Examples
    --------
    >>> import numpy as np
    >>> layer = (np.array([[1.0, -1.0]]), np.zeros(2))
    >>> policy = NetworkPolicy((layer,), "tanh", "categorical")
    >>> policy.distribution([[0.0], [2.0]]).round(2)
    array([[0.5 , 0.5 ], [0.98, 0.02]], dtype=float32)
    >>> policy.act([[3.0], [-3.0]], np.random.default_rng(0), deterministic=True)
    array([0, 1])
    """

    layers: tuple[Layer, ...]
    activation: str
    head: str
    log_std: Float | None = None
    low: Float | None = None
    high: Float | None = None

    def __post_init__(self) -> None:
        if self.head not in HEADS:
            raise UsageError(f"A policy's head is one of {', '.join(HEADS)}, not {self.head!r}.")
        if self.activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise UsageError(f"A policy's activation is one of {known}, not {self.activation!r}.")
        object.__setattr__(self, "layers", _checked_layers(self.layers))
        for name in ("log_std", "low", "high"):
            value = getattr(self, name)
            if value is not None:
                if self.head != "gaussian":
                    raise UsageError(f"A categorical policy has no {name}.")
                value = _frozen(value)
                if value.shape != (self.n_outputs,) or np.isnan(value).any():
                    raise UsageError(
                        f"{name} must have one number for each of {self.n_outputs} actions, "
                        f"not shape {value.shape}{' with NaN' if np.isnan(value).any() else ''}."
                    )
                object.__setattr__(self, name, value)
        if self.head == "gaussian" and self.log_std is None:
            raise UsageError("A Gaussian policy needs log_std.")
        if (self.low is None) != (self.high is None):
            raise UsageError("A box of actions needs both low and high.")
        if self.low is not None and self.high is not None and (self.low > self.high).any():
            raise UsageError("A box of actions needs low <= high.")

    @property
    def n_inputs(self) -> int:
        """Number of values of a flattened observation."""
        return int(self.layers[0][0].shape[0])

    @property
    def n_outputs(self) -> int:
        """Number of discrete actions, or of an action's values."""
        return int(self.layers[-1][0].shape[1])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths of the layers, the input's first."""
        return (self.n_inputs, *(weight.shape[1] for weight, _ in self.layers))

    @property
    def architecture(self) -> Hashable:
        """Equal for policies whose weights can be stacked."""
        return ("network", self.sizes, self.activation, self.head)

    @property
    def fingerprint(self) -> str:
        """A SHA-256 digest of everything that decides the actions."""
        digest = hashlib.sha256(repr(self.architecture).encode())
        for weight, bias in self.layers:
            digest.update(weight.tobytes() + bias.tobytes())
        for value in (self.log_std, self.low, self.high):
            digest.update(b"-" if value is None else value.tobytes())
        return digest.hexdigest()

    def noise(self, rng: np.random.Generator, n: int) -> Float:
        """Random numbers of ``n`` actions: one uniform each, or a standard normal a value."""
        if self.head == "categorical":
            return rng.random((n, 1), dtype=np.float32)
        return rng.standard_normal((n, self.n_outputs), dtype=np.float32)

    def respond(self, observations: Any, noise: NDArray[np.float32] | None) -> NDArray[Any]:
        """Actions for ``observations`` (n, ...) given their random numbers; the mode if None."""
        rows = self._rows(observations)
        stack = NetworkStack(1, len(rows), self)
        batch_noise = None if noise is None else np.asarray(noise)[None]
        actions: NDArray[Any] = stack.respond(rows[None], batch_noise)[0]
        return actions

    def act(
        self, observations: Any, rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[Any]:
        """Sample one action for each row of ``observations``; the mode if ``deterministic``."""
        rows = self._rows(observations)
        return self.respond(rows, None if deterministic else self.noise(rng, len(rows)))

    def distribution(self, observations: Any) -> Float | tuple[Float, Float]:
        """Probabilities (n, actions), or means and standard deviations of (n, actions) each.

        Means and deviations are those before actions are clipped to the box.
        """
        rows = self._rows(observations)
        forward = Forward(1, len(rows), self.sizes, self.activation)
        forward.put(0, self.layers)
        output = forward.run(rows[None])[: len(rows)]
        if self.log_std is not None:
            return output.copy(), np.broadcast_to(np.exp(self.log_std), output.shape).copy()
        terms = softmax_terms(output)
        terms /= terms.sum(axis=0)
        return np.ascontiguousarray(terms.T)

    def bind(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
    ) -> NetworkPolicy:
        """Check that this policy fits an environment's spaces; take the box of actions from it.

        Observations are expected flattened as Gymnasium flattens them. The box a policy was
        trained with stays; one that was read off rounded text is replaced by the exact one.
        """
        from gymnasium import spaces

        try:
            width = spaces.flatdim(observation_space)
        except (NotImplementedError, ValueError) as error:
            raise UsageError(
                f"A network needs observations of a fixed size, not {observation_space}."
            ) from error
        if width != self.n_inputs:
            raise UsageError(
                f"This policy expects observations of {self.n_inputs} values, but the environment "
                f"gives {width} ({observation_space}): was it trained in another environment?"
            )
        if self.head == "categorical":
            if not isinstance(action_space, spaces.Discrete) or action_space.n != self.n_outputs:
                raise UsageError(
                    f"This policy chooses among {self.n_outputs} actions, but the environment "
                    f"expects {action_space}: was it trained in another environment?"
                )
            if action_space.start != 0:
                raise UsageError(
                    f"This policy counts its actions from 0, but the environment expects "
                    f"{action_space}: wrap the environment so that its actions start at 0."
                )
            return self
        if not isinstance(action_space, spaces.Box) or action_space.shape != (self.n_outputs,):
            raise UsageError(
                f"This policy gives actions of {self.n_outputs} real values, but the environment "
                f"expects {action_space}: was it trained in another environment?"
            )
        low, high = action_space.low.astype(np.float32), action_space.high.astype(np.float32)
        if self.low is None or self.high is None:
            return replace(self, low=low, high=high)
        rounded = np.allclose(self.low, low) and np.allclose(self.high, high)
        return replace(self, low=low, high=high) if rounded else self

    def _rows(self, observations: Any) -> Float:
        rows = np.asarray(observations, dtype=np.float32)
        if rows.ndim == 0 or (rows.size != len(rows) * self.n_inputs):
            raise UsageError(
                f"Expected a batch of observations of {self.n_inputs} values each, "
                f"but got an array of shape {rows.shape}."
            )
        return rows.reshape(len(rows), self.n_inputs)


class NetworkStack:
    """Networks of equal architecture whose weights are stacked, answering as one batch."""

    def __init__(self, slots: int, lanes: int, like: NetworkPolicy) -> None:
        self._architecture = like.architecture
        self._gaussian = like.head == "gaussian"
        self._forward = Forward(slots, lanes, like.sizes, like.activation)
        self._shape = (slots, lanes, like.n_inputs)
        self._noise_shape = (slots, lanes, like.n_outputs if self._gaussian else 1)
        shape = (slots, 1, like.n_outputs if self._gaussian else 0)
        self._std = np.ones(shape, np.float32)
        self._low = np.full(shape, -np.inf, np.float32)
        self._high = np.full(shape, np.inf, np.float32)
        for slot in range(slots):
            self.put(slot, like)

    def put(self, slot: int, policy: NetworkPolicy) -> None:
        """Let ``policy`` answer in ``slot`` from now on."""
        if policy.architecture != self._architecture:
            raise UsageError(
                f"A stack of {self._architecture} cannot hold a policy of {policy.architecture}."
            )
        self._forward.put(slot, policy.layers)
        if policy.log_std is not None:
            self._std[slot] = np.exp(policy.log_std)
            self._low[slot] = -np.inf if policy.low is None else policy.low
            self._high[slot] = np.inf if policy.high is None else policy.high

    def respond(
        self, observations: NDArray[Any], noise: NDArray[np.float32] | None
    ) -> NDArray[Any]:
        """Actions (slots, lanes) or (slots, lanes, values) for observations (slots, lanes, in)."""
        forward = self._forward
        if np.shape(observations) != self._shape:
            raise UsageError(
                f"Expected observations of shape {self._shape}, but got {np.shape(observations)}."
            )
        if noise is not None and np.shape(noise) != self._noise_shape:
            raise UsageError(
                f"Expected random numbers of shape {self._noise_shape}, but got {np.shape(noise)}."
            )
        output = forward.run(observations)
        if self._gaussian:
            actions = forward.unpad(output)
            if noise is not None:
                actions += self._std * noise
            return np.clip(actions, self._low, self._high, out=actions)
        if noise is None:
            return forward.unpad(output.argmax(axis=1))
        return forward.unpad(sample_categorical(output, forward.pad(noise)[:, 0]))


def _frozen(value: Any) -> Float:
    with np.errstate(over="ignore"):  # becomes infinite, which is refused where it matters
        array = np.array(value, dtype=np.float32, order="C")
    array.flags.writeable = False
    return array


def _checked_layers(layers: Any) -> tuple[Layer, ...]:
    """Read-only float32 copies of layers whose shapes follow on each other."""
    checked = tuple((_frozen(weight), _frozen(bias)) for weight, bias in layers)
    if not checked:
        raise UsageError("A network needs at least one layer.")
    width = None
    for i, (weight, bias) in enumerate(checked):
        if weight.ndim != 2 or 0 in weight.shape or bias.shape != weight.shape[1:]:
            raise UsageError(
                f"Layer {i} needs weights of shape (in, out) and biases of shape (out,), "
                f"not {weight.shape} and {bias.shape}."
            )
        if width is not None and weight.shape[0] != width:
            raise UsageError(
                f"Layer {i} expects {weight.shape[0]} inputs, but layer {i - 1} gives {width}."
            )
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise UsageError(f"Layer {i} holds NaN or infinite weights: the training diverged.")
        width = weight.shape[1]
    return checked
