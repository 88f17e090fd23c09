"""Policies with a memory: an LSTM and the layers behind it, in float32."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies.distributions import (
    Distribution,
    Features,
    OneHot,
    check_noise,
    frozen,
    one_hot_of,
    seen_rows,
)
from pivec.policies.forward import Float, Layer, Normaliser, affine, evaluate, padded
from pivec.policies.networks import NetworkPolicy
from pivec.policies.policy import RecurrentPolicy, check_width
from pivec.policies.tensors import Tensors

if TYPE_CHECKING:
    import gymnasium

PARTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")  # of a layer, as torch names them


@dataclass(frozen=True, eq=False)
class RecurrentNetwork(RecurrentPolicy):
    """A policy whose network has an LSTM in it (Hochreiter and Schmidhuber 1997).

    A memory holds, layer by layer, the hidden state and the cell state; episodes begin with zeros.

    Examples
    --------
    >>> import numpy as np
    >>> cell = np.ones((2, 4)), np.zeros(4)  # one input and one hidden value in, four gates out
    >>> rest = NetworkPolicy(((np.array([[-1.0, 1.0]]), np.zeros(2)),), "tanh", "categorical")
    >>> policy = RecurrentNetwork((cell,), rest)
    >>> actions, memory = policy.respond([[1.0]], None, policy.initial_memory(1))
    >>> actions, memory.round(2)
    (array([1]), array([[0.37, 0.56]], dtype=float32))
    >>> policy.respond([[0.0]], None, memory)[1].round(2)
    array([[0.29, 0.54]], dtype=float32)
    """

    cells: tuple[Layer, ...]  # weights (in + hidden, 4 hidden), biases (4 hidden,): i, f, g, o
    rest: NetworkPolicy  # sees the hidden state of the last layer
    normaliser: Normaliser | None = None  # applied to observations first
    features: Features | None = None  # what the LSTM sees instead of flat observations
    one_hot: OneHot = ()

    def __post_init__(self) -> None:
        cells = tuple((frozen(weight), frozen(bias)) for weight, bias in self.cells)
        object.__setattr__(self, "cells", cells)
        size, width = self.rest.n_inputs, None
        for weight, bias in cells:
            n_in = len(weight) - size
            if bias.shape != (4 * size,) or weight.shape[1:] != bias.shape or n_in < 1:
                raise UsageError(
                    f"an LSTM of {size} values needs weights of shape (in + {size}, {4 * size}) "
                    f"and biases of shape ({4 * size},), not {weight.shape} and {bias.shape}"
                )
            if width not in (None, n_in):
                raise UsageError(f"a layer of an LSTM expects {n_in} inputs, but gets {width}")
            if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
                raise UsageError("its LSTM holds NaN or infinite weights: the training diverged")
            width = size
        if not cells:
            raise UsageError("an LSTM needs at least one layer")
        if self.features is not None and self.features.n_outputs != self._width:
            raise UsageError("its features and the LSTM behind them do not fit together")
        if self.normaliser is not None:
            self.normaliser.check_width(self.n_inputs, "the network expects")

    @property
    def _width(self) -> int:
        """Number of values that the LSTM sees."""
        return len(self.cells[0][0]) - self.rest.n_inputs

    @property
    def n_inputs(self) -> int:
        """Number of values of a flattened observation."""
        return (self.features and self.features.n_inputs) or self._width

    @property
    def architecture(self) -> Hashable:
        """Equal for policies with equal memories and the same kind of actions."""
        return ("recurrent", len(self.cells), self.rest.architecture)

    @property
    def fingerprint(self) -> str:
        """A digest of everything that decides the actions."""
        before = self.features.fingerprint if self.features is not None else ""
        about = (len(self.cells), self.rest.fingerprint, before)
        digest = hashlib.sha256(repr(about).encode())
        for weight, bias in self.cells:
            digest.update(weight.tobytes() + bias.tobytes())
        if self.normaliser is not None:
            digest.update(self.normaliser.tobytes())
        return digest.hexdigest()

    def noise(self, rng: np.random.Generator, n: int) -> Float:
        """Random numbers of ``n`` actions."""
        return self.rest.noise(rng, n)

    def initial_memory(self, n: int) -> Float:
        """Zeros, of shape (n, layers times 2 times the size of the LSTM)."""
        return np.zeros((n, 2 * len(self.cells) * self.rest.n_inputs), np.float32)

    def respond(
        self, observations: Any, noise: NDArray[np.float32] | None, memory: NDArray[np.float32]
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Actions for ``observations`` (n, ...), and the memory (n, m) behind them."""
        outputs, memory = self.outputs(observations, memory)
        rule = self.rest.rule
        actions = rule.choose(outputs, check_noise(rule, noise, len(outputs)), rule.parameters())
        return actions, memory

    def distribution(self, observations: Any, memory: NDArray[np.float32]) -> Distribution:
        """Probabilities, or means and deviations; see `NetworkPolicy.distribution`."""
        return self.rest.rule.distribution(self.outputs(observations, memory)[0])

    def outputs(
        self, observations: Any, memory: NDArray[np.float32]
    ) -> tuple[Float, NDArray[np.float32]]:
        """Outputs (n, k), which the head makes actions of, and the memory behind them."""
        x = seen_rows(observations, self.one_hot, self.normaliser)
        x = x if self.features is None else self.features.outputs(x)
        x, before = x.reshape(len(x), -1), np.asarray(memory, np.float32)
        expected = (len(x), self._width), self.initial_memory(len(x)).shape
        if (x.shape, before.shape) != expected:
            raise UsageError(
                f"expected observations of shape {expected[0]} and a memory of shape "
                f"{expected[1]}, but got {x.shape} and {before.shape}"
            )
        states, after = np.split(before, 2 * len(self.cells), axis=1), []
        for layer, hidden, cell in zip(self._padded, states[::2], states[1::2], strict=True):
            sums = affine(np.concatenate([x, hidden], axis=1), layer, "identity")
            keep, forget, new, show = np.split(sums[:, : 4 * self.rest.n_inputs], 4, axis=1)
            kept = evaluate("sigmoid", forget) * cell
            state = kept + evaluate("sigmoid", keep) * evaluate("tanh", new)
            x = evaluate("sigmoid", show) * evaluate("tanh", state)
            after += [x, state]
        outputs = self.rest.outputs(x)
        if not np.isfinite(outputs).all():
            raise UsageError("a policy gave NaN or infinite outputs: its training diverged")
        return outputs, np.concatenate(after, axis=1)

    @cached_property
    def _padded(self) -> tuple[Layer, ...]:
        return tuple(map(padded, self.cells))

    def bind(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
    ) -> RecurrentNetwork:
        """Make the policy for an environment with these spaces, or tell why it does not fit."""
        check_width(self.n_inputs, observation_space, flat=False)
        features = None if self.features is None else self.features.bind(observation_space)
        one_hot = one_hot_of(observation_space, self.n_inputs)
        rest = self.rest.for_actions(action_space)
        return replace(self, rest=rest, features=features, one_hot=one_hot)


def read_cells(tensors: Tensors, prefix: str) -> tuple[Layer, ...]:
    """Find the layers of torch's LSTM of this name."""
    names = {key.removeprefix(f"{prefix}.") for key in tensors if key.startswith(f"{prefix}.")}
    n_layers = len(names) // len(PARTS)
    cells = []
    for i in range(n_layers):
        inputs, hidden, first, second = (tensors.get(f"{prefix}.{part}_l{i}") for part in PARTS)
        if inputs is None or hidden is None or first is None or second is None:
            break
        if inputs.ndim != 2 or hidden.ndim != 2 or inputs.shape[0] != hidden.shape[0]:
            break
        if first.shape != second.shape or first.ndim != 1:
            break
        # Inputs and hidden state side by side make one product of both.
        weight = np.concatenate([inputs, hidden], axis=1, dtype=np.float32).T
        cells.append((weight, first.astype(np.float32) + second.astype(np.float32)))
    if not cells or len(cells) * len(PARTS) != len(names):
        raise BadPolicyFile(
            f"its {prefix} is no plain LSTM with biases ({', '.join(sorted(names))[:200]})"
        )
    return tuple(cells)
