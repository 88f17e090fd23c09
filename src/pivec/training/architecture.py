"""Networks of one shape whose weights are one vector, fitted to the spaces of an environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.head import Head, Options
from pivec.policies.heads import HEADS
from pivec.policies.network import NetworkPolicy
from pivec.policies.outputs import make_head
from pivec.policies.vectors import split_vector
from pivec.rollouts import spaces
from pivec.rollouts.environment import Environment

Float = NDArray[np.float64]
Answer = Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[Any]]
"""From observations (individuals, episodes, in) to actions (individuals, episodes, ...).

Beside the observations it gets the random numbers (individuals, episodes, noise size) of the head.
"""


def spaces_of(environment: Environment) -> tuple[Any, Any]:
    """Give the spaces of observations and actions."""
    made = environment.make()
    try:
        return made.observation_space, made.action_space
    finally:
        made.close()


@dataclass(frozen=True)
class Architecture:
    """Networks whose vector holds layer by layer the weights, row by row, then the biases.

    With ``first_biases`` only the first layer has biases in it; those of the others are 0.
    """

    sizes: tuple[int, ...]  # widths of the layers, input and output included
    head: str  # what the outputs are, see `pivec.policies.NetworkPolicy`
    options: Options
    arrays: dict[str, Any]  # the box of real actions, low and high, and log_std of their noise
    activation: str = "tanh"  # of the hidden layers
    first_biases: bool = False

    @classmethod
    def of(
        cls,
        observation_space: Any,
        action_space: Any,
        hidden: Sequence[int] = (),
        activation: str = "tanh",
        *,
        action_noise: float = 0.0,
        discrete: str = "epsilon_greedy",
        first_biases: bool = False,
    ) -> Architecture:
        """Fit the spaces of an environment; real actions get Gaussian noise.

        ``discrete`` is the head of discrete actions: the best one, if nothing else is said.
        """
        if discrete not in HEADS or HEADS[discrete].space != "Discrete":
            known = ", ".join(name for name, head in HEADS.items() if head.space == "Discrete")
            raise UsageError(f"the setting discrete must be one of {known}, but is {discrete!r}")
        n_inputs = len(spaces.feature_names(observation_space))
        if isinstance(action_space, Discrete) and action_space.start == 0:
            sizes = (n_inputs, *hidden, int(action_space.n))
            return cls(sizes, discrete, Options(), {}, activation, first_biases)
        if not (isinstance(action_space, Box) and action_space.dtype.kind == "f"):
            raise UsageError(
                "populations need discrete actions from 0 or a box of real ones, but the "
                f"environment expects {action_space}"
            )
        shape = action_space.shape
        head, n_outputs = "deterministic", int(np.prod(shape))
        arrays: dict[str, Any] = {
            "low": action_space.low.ravel(),
            "high": action_space.high.ravel(),
        }
        if action_noise > 0:
            head, arrays["log_std"] = "gaussian", np.full(n_outputs, np.log(action_noise))
        options = Options(shape=shape if len(shape) > 1 else None)
        sizes = (n_inputs, *hidden, n_outputs)
        return cls(sizes, head, options, arrays, activation, first_biases)

    @cached_property
    def _free(self) -> NDArray[np.bool_]:
        """Which weights and biases of all layers are in a vector."""
        parts = [
            (np.ones(n_in * n_out, bool), np.full(n_out, i == 0 or not self.first_biases))
            for i, (n_in, n_out) in enumerate(pairwise(self.sizes))
        ]
        return np.concatenate([array for layer in parts for array in layer])

    @cached_property
    def rule(self) -> Head:
        """What makes actions of outputs."""
        return make_head(self.head, self.sizes[-1], self.options, self.arrays)

    @property
    def n_weights(self) -> int:
        """Count weights and biases."""
        return int(self._free.sum())

    def policy(self, vector: Float) -> NetworkPolicy:
        """Make the policy of a vector."""
        values = np.zeros(len(self._free))
        values[self._free] = vector
        return NetworkPolicy(
            split_vector(values, list(self.sizes)),
            self.activation,
            self.head,
            options=self.options,
            **self.arrays,
        )

    def first_vector(self, rng: np.random.Generator) -> Float:
        """Draw weights as Conti et al. do: each unit's of length 1, outputs' 0.01; biases 0."""
        parts = []
        for i, (n_in, n_out) in enumerate(pairwise(self.sizes)):
            weights = rng.standard_normal((n_in, n_out))
            length = 0.01 if i == len(self.sizes) - 2 else 1.0
            weights *= length / np.sqrt((weights**2).sum(axis=0))
            parts += [weights.ravel(), np.zeros(n_out)]
        return np.concatenate(parts)
