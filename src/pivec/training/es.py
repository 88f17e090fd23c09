"""Evolution strategies of Salimans et al. and Conti et al.: mirrored noise, centred ranks, Adam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.policies.head import Options
from pivec.policies.network import NetworkPolicy
from pivec.policies.vectors import split_vector
from pivec.rollouts import spaces
from pivec.training.evolution import check_spaces, outputs_for

Float = NDArray[np.float64]

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8  # of Adam


@dataclass(frozen=True)
class Architecture:
    """Networks of one shape whose weights are one vector: layer by layer, weights then biases.

    Attributes
    ----------
    sizes : tuple of int
        Widths of the layers, input and output included; tanh between them.
    head : str
        What the outputs are, see `pivec.policies.NetworkPolicy`.
    options : Options
    arrays : mapping
        The box of real actions, and the logarithm of their noise.
    """

    sizes: tuple[int, ...]
    head: str
    options: Options
    arrays: dict[str, Any]

    @classmethod
    def of(
        cls, observation_space: Any, action_space: Any, hidden: Sequence[int], action_noise: float
    ) -> Architecture:
        """Fit the spaces of an environment; real actions get Gaussian noise."""
        check_spaces(observation_space, action_space)
        n_outputs, head, options, box = outputs_for(action_space)
        arrays = {}
        if box is not None:
            arrays = {"low": np.ravel(box[0]), "high": np.ravel(box[1])}
            if action_noise > 0:
                head, arrays["log_std"] = "gaussian", np.full(n_outputs, np.log(action_noise))
        sizes = (spaces.flat_size(observation_space), *hidden, n_outputs)
        return cls(sizes, head, options, arrays)

    def policy(self, vector: Float) -> NetworkPolicy:
        """Make the policy of a vector."""
        layers = split_vector(vector, list(self.sizes))
        return NetworkPolicy(layers, "tanh", self.head, options=self.options, **self.arrays)

    def first_vector(self, rng: np.random.Generator) -> Float:
        """Draw weights as Conti et al. do: each unit's of length 1, outputs' 0.01; biases 0."""
        parts = []
        for i, (n_in, n_out) in enumerate(pairwise(self.sizes)):
            weights = rng.standard_normal((n_in, n_out))
            length = 0.01 if i == len(self.sizes) - 2 else 1.0
            weights *= length / np.sqrt((weights**2).sum(axis=0))
            parts += [weights.ravel(), np.zeros(n_out)]
        return np.concatenate(parts)


def centred_ranks(values: Float) -> Float:
    """Replace numbers by their ranks, from -0.5 for the least to 0.5; equal ones share theirs.

    Examples
    --------
    >>> centred_ranks(np.array([[3.0, 100.0], [1.0, 3.0]])).round(2).tolist()
    [[0.0, 0.5], [-0.5, 0.0]]
    """
    from scipy.stats import rankdata

    ranks = rankdata(values).reshape(values.shape)
    return np.asarray((ranks - 1) / max(values.size - 1, 1) - 0.5)


def ascent(scores: Float, noise: Float) -> Float:
    """Estimate the direction in which scores rise (Salimans et al. 2017, section 2.1).

    Parameters
    ----------
    scores : ndarray of shape (2, n)
        Of vectors moved along the noise, and against it.
    noise : ndarray of shape (n, n_weights)
        Standard normal.
    """
    return np.asarray((scores[0] - scores[1]) @ noise / scores.size)


@dataclass
class Adam:
    """A vector of weights and the moments of its gradients (Kingma and Ba 2015, algorithm 1)."""

    weights: Float
    first: Float
    second: Float
    updates: int = 0

    @classmethod
    def at(cls, weights: Float) -> Adam:
        """Start at these weights."""
        return cls(weights, np.zeros_like(weights), np.zeros_like(weights))

    def descend(self, gradient: Float, rate: float) -> None:
        """Move against the gradient.

        Examples
        --------
        >>> adam = Adam.at(np.zeros(2))
        >>> adam.descend(np.array([4.0, -0.5]), rate=0.01)  # the first step has the rate's size
        >>> adam.weights.round(6).tolist()
        [-0.01, 0.01]
        """
        self.updates += 1
        self.first = _BETA_1 * self.first + (1 - _BETA_1) * gradient
        self.second = _BETA_2 * self.second + (1 - _BETA_2) * gradient**2
        scale = rate * np.sqrt(1 - _BETA_2**self.updates) / (1 - _BETA_1**self.updates)
        self.weights = self.weights - scale * self.first / (np.sqrt(self.second) + _EPSILON)
