"""Generations proposed by CMA-ES (pycma), of networks with a fixed shape."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.policies.network import Stack
from pivec.policies.saved import save_policy
from pivec.training.architecture import Answer, Architecture


class CmaEs:
    """Asks pycma for vectors of weights, and tells it their fitness.

    ``values`` are the settings ``population``, ``sigma`` and ``flat_generations``.
    """

    suffix = ".safetensors"

    def __init__(self, architecture: Architecture, values: Mapping[str, Any], seed: int) -> None:
        import cma

        self.architecture = architecture
        rng = np.random.default_rng([seed, 0xC3A])
        self._strategy: Any = cma.CMAEvolutionStrategy(
            rng.random(architecture.n_weights),
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

    def ask(self) -> list[Any]:
        """Propose the next generation."""
        return [np.asarray(vector) for vector in self._strategy.ask()]

    def checksum(self, population: Sequence[Any]) -> str:
        """Give a digest that tells whether a replayed generation is the same."""
        return hashlib.sha256(np.stack(population).tobytes()).hexdigest()[:16]

    def tell(self, population: Sequence[Any], fitness: NDArray[np.float64]) -> None:
        """Take in the fitness, of which more is better."""
        self._strategy.tell(list(population), (-fitness).tolist())

    def stopped(self) -> str | None:
        """Tell why pycma would end here, if it would: fitness stagnates, or steps vanish."""
        reasons = sorted(self._strategy.stop())
        return f"CMA-ES stopped by itself ({', '.join(reasons)})" if reasons else None

    def answer(self, population: Sequence[Any], individuals: int, episodes: int) -> Answer:
        """Answer with stacked weights for an arena of ``individuals``."""
        policies = [self.architecture.policy(vector) for vector in population]
        stack = Stack(individuals, episodes, policies[0])
        for slot, policy in enumerate(policies):
            stack.put(slot, policy)
        return stack.respond

    def save(self, individual: Any, path: Path, about: Mapping[str, Any]) -> None:
        """Write the policy of one individual."""
        save_policy(self.architecture.policy(individual), path, about)
