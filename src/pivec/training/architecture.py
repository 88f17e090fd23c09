"""Networks of one shape whose weights are one vector, fitted to the spaces of an environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.head import Options
from pivec.policies.network import NetworkPolicy
from pivec.policies.vectors import split_vector
from pivec.rollouts import spaces
from pivec.rollouts.environment import Environment

Float = NDArray[np.float64]
Answer = Callable[[NDArray[np.float32]], NDArray[Any]]
"""From observations (individuals, episodes, in) to actions (individuals, episodes, ...)."""


def spaces_of(environment: Environment) -> tuple[Any, Any]:
    """Give the spaces of observations and actions."""
    made = environment.make()
    try:
        return made.observation_space, made.action_space
    finally:
        made.close()


@dataclass(frozen=True)
class Architecture:
    """Networks whose vector holds layer by layer the weights, row by row, then the biases."""

    sizes: tuple[int, ...]  # widths of the layers, input and output included
    head: str  # what the outputs are, see `pivec.policies.NetworkPolicy`
    options: Options
    arrays: dict[str, Any]  # the box of real actions, low and high, and log_std of their noise
    activation: str = "tanh"  # of the hidden layers

    @classmethod
    def of(
        cls,
        observation_space: Any,
        action_space: Any,
        hidden: Sequence[int] = (),
        activation: str = "tanh",
        action_noise: float = 0.0,
    ) -> Architecture:
        """Fit the spaces of an environment; real actions get Gaussian noise.

        Discrete actions are the best ones: populations search behaviours, not distributions.
        """
        n_inputs = len(spaces.feature_names(observation_space))
        if isinstance(action_space, Discrete) and action_space.start == 0:
            sizes = (n_inputs, *hidden, int(action_space.n))
            return cls(sizes, "epsilon_greedy", Options(), {}, activation)
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
        return cls((n_inputs, *hidden, n_outputs), head, options, arrays, activation)

    @property
    def n_weights(self) -> int:
        """Count weights and biases."""
        return sum(n_in * n_out + n_out for n_in, n_out in pairwise(self.sizes))

    def policy(self, vector: Float) -> NetworkPolicy:
        """Make the policy of a vector."""
        layers = split_vector(vector, list(self.sizes))
        return NetworkPolicy(
            layers, self.activation, self.head, options=self.options, **self.arrays
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
