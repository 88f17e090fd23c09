"""One classifier of states by policy: a single network with an output for each policy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pivec.characterizations.networks import batched_mlp as mlp
from pivec.characterizations.networks.training import one_thread_each
from pivec.progress import Progress

_ROWS = 8192  # states that are classified at a time

Array = NDArray[np.float32]


def train_classifier(
    policies: Sequence[Array],
    sizes: Sequence[int],
    *,
    n_updates: int,
    batch_size: int,
    learning_rate: float,
    rng: np.random.Generator,
    progress: bool = False,
) -> Array:
    """Weights, in one row, of a network trained by cross-entropy to name the policy of a state.

    Every policy is as likely in a batch, however many states it has.
    """
    layers = mlp.stacked(mlp.starting_values(rng, sizes)[None], sizes)
    counts = np.array([len(states) for states in policies])
    starts = np.cumsum(counts) - counts
    everything = torch.from_numpy(np.concatenate(policies))
    labels = torch.empty(0, dtype=torch.int64)

    def batch(_t: int, _active: int) -> torch.Tensor:
        nonlocal labels
        whose = rng.integers(len(policies), size=batch_size)
        rows = starts[whose] + rng.integers(counts[whose])
        labels = torch.from_numpy(whose)
        return everything.index_select(0, torch.from_numpy(rows))[None]

    def slope(_t: int, outputs: torch.Tensor) -> torch.Tensor:
        # The gradient of the cross-entropy by the logits: probabilities less the truth.
        result = torch.softmax(outputs, dim=2)
        result[0, torch.arange(batch_size), labels] -= 1.0
        bar.advance(1)
        return result.div_(batch_size)

    # One thread: a network this small gains little from more, and loses much on busy cores.
    bar = Progress("classifier", n_updates, unit="updates", show=progress)
    with one_thread_each(), bar:
        mlp.train(layers, [n_updates], batch, slope, learning_rate)
    return np.asarray(mlp.unstacked(layers)[0])


def mean_posterior(row: Array, sizes: Sequence[int], states: Array) -> NDArray[np.float64]:
    """Mean over the states of the probabilities of each policy, (n_policies,)."""
    layers = mlp.stacked(row[None], sizes)
    total = np.zeros(sizes[-1])
    with torch.no_grad():
        for part in torch.from_numpy(states).split(_ROWS):
            outputs = mlp.forward(layers, part[None])[1][0]
            total += torch.softmax(outputs.double(), dim=1).sum(dim=0).numpy()
    return total / len(states)
