"""Generations proposed by CMA-ES (pycma), of networks with a fixed shape.

The weights are one vector: for each layer its weights, row by row, then its biases.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.policies.head import Options
from pivec.policies.network import NetworkPolicy
from pivec.policies.saved import save_policy
from pivec.policies.stack import Stack
from pivec.policies.vectors import split_vector
from pivec.training.arena import Answer


def n_weights(sizes: Sequence[int]) -> int:
    """Count weights and biases of a network.

    Examples
    --------
    >>> n_weights((24, 40, 40, 4))
    2804
    """
    return sum(n_in * n_out + n_out for n_in, n_out in pairwise(sizes))


class CmaEs:
    """Asks pycma for weights, and tells it their fitness.

    Parameters
    ----------
    sizes : sequence of int
        Widths of the layers, input and output included.
    head, box
        What outputs mean: "epsilon_greedy" (the best action), or "deterministic" within a box,
        given as (low, high).
    values : mapping
        ``population``, ``sigma`` and ``flat_generations``.
    seed : int
    """

    suffix = ".safetensors"

    def __init__(
        self,
        sizes: Sequence[int],
        head: str,
        options: Options,
        box: tuple[Any, Any] | None,
        values: Mapping[str, Any],
        seed: int,
    ) -> None:
        import cma

        self.sizes, self._head, self._options = tuple(sizes), head, options
        self._box = {} if box is None else {"low": box[0].ravel(), "high": box[1].ravel()}
        rng = np.random.default_rng([seed, 0xC3A])
        self._strategy: Any = cma.CMAEvolutionStrategy(
            rng.random(n_weights(sizes)),
            values["sigma"],
            {
                "popsize": values["population"],
                "randn": lambda *shape: rng.standard_normal(shape),
                "seed": np.nan,  # do not touch the global generator
                # At first all individuals may fail alike (Acrobot). pycma would stop at once; given
                # some generations, one of them finds a way out.
                "tolfun": 0.0,
                "tolflatfitness": values["flat_generations"],
                "verbose": -9,
                "verb_log": 0,
            },
        )

    def ask(self) -> list[NDArray[np.float64]]:
        """Propose the next generation."""
        return [np.asarray(vector) for vector in self._strategy.ask()]

    def checksum(self, population: Sequence[NDArray[np.float64]]) -> str:
        """Give a digest that tells whether a replayed generation is the same."""
        return hashlib.sha256(np.stack(population).tobytes()).hexdigest()[:16]

    def tell(self, population: Sequence[NDArray[np.float64]], fitness: NDArray[np.float64]) -> None:
        """Take in the fitness, of which more is better."""
        self._strategy.tell(list(population), (-fitness).tolist())

    def stopped(self) -> str | None:
        """Tell why pycma would end here, if it would: fitness stagnates, or steps vanish."""
        reasons = sorted(self._strategy.stop())
        return f"CMA-ES stopped by itself ({', '.join(reasons)})" if reasons else None

    def policy(self, individual: NDArray[np.float64]) -> NetworkPolicy:
        """Make the policy of one individual: sigmoid units, linear outputs."""
        return NetworkPolicy(
            split_vector(individual, list(self.sizes)),
            "sigmoid",
            self._head,
            options=self._options,
            **self._box,
        )

    def answer(
        self, population: Sequence[NDArray[np.float64]], individuals: int, episodes: int
    ) -> Answer:
        """Answer with stacked weights for an arena of ``individuals``."""
        policies = [self.policy(individual) for individual in population]
        stack = Stack(individuals, episodes, policies[0])
        for slot, policy in enumerate(policies):
            stack.put(slot, policy)
        return lambda observations: stack.respond(observations, None)

    def save(self, individual: NDArray[np.float64], path: Path, about: Mapping[str, Any]) -> None:
        """Write the policy of one individual."""
        save_policy(self.policy(individual), path, about)
