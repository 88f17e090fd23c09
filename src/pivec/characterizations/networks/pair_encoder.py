"""An encoder of sets of (state, action) pairs, trained so that sets of one policy agree."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pivec.characterizations.networks import batched_mlp as mlp
from pivec.characterizations.networks.training import one_thread_each
from pivec.progress import Progress

_ROWS = 8192  # pairs that are embedded at a time

Array = NDArray[np.float32]


def contrast(sets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Contrastive loss of the embeddings of two sets a policy, and its gradient by them.

    ``sets`` is (2, policies, n_values). Each first set should be nearer to the second one of its
    own policy than to those of the others, and the other way round: the cross-entropy of a softmax
    over the negative squared distances.
    """
    values = sets.detach().requires_grad_()
    with torch.enable_grad():
        gaps = values[0][:, None] - values[1][None]
        logits = -(gaps**2).sum(dim=2)
        truth = torch.arange(len(logits))
        entropy = torch.nn.functional.cross_entropy
        loss = 0.5 * (entropy(logits, truth) + entropy(logits.T, truth))
        (slope,) = torch.autograd.grad(loss, values)
    return loss.detach(), slope


def train_encoder(
    policies: Sequence[Array],
    sizes: Sequence[int],
    *,
    n_updates: int,
    set_size: int,
    batch_size: int,
    learning_rate: float,
    rng: np.random.Generator,
    progress: bool = False,
) -> Array:
    """Weights, in one row, of a network that embeds pairs; a set is the mean of its pairs.

    A batch is two sets of each of ``batch_size`` policies drawn at random. One policy alone has
    nobody to be told from, and leaves the network as it starts.
    """
    start = mlp.starting_values(rng, sizes)
    if len(policies) < 2:
        return start
    layers = mlp.stacked(start[None], sizes)
    counts = np.array([len(pairs) for pairs in policies])
    starts = np.cumsum(counts) - counts
    everything = torch.from_numpy(np.concatenate(policies))
    n_drawn = min(batch_size, len(policies))

    def batch(_t: int, _active: int) -> torch.Tensor:
        whose = rng.choice(len(policies), size=n_drawn, replace=False)
        within = rng.random((2, n_drawn, set_size)) * counts[whose][:, None]
        rows = starts[whose][:, None] + within.astype(np.int64)
        return everything.index_select(0, torch.from_numpy(rows.reshape(-1)))[None]

    def slope(_t: int, outputs: torch.Tensor) -> torch.Tensor:
        sets = outputs.view(2, n_drawn, set_size, -1)
        _, by_sets = contrast(sets.mean(dim=2))
        bar.advance(1)
        return (by_sets[:, :, None] / set_size).expand_as(sets).reshape(outputs.shape)

    # One thread: a network this small gains little from more, and loses much on busy cores.
    bar = Progress("state-actions", n_updates, unit="updates", show=progress)
    with one_thread_each(), bar:
        mlp.train(layers, [n_updates], batch, slope, learning_rate)
    return np.asarray(mlp.unstacked(layers)[0])


def mean_embedding(row: Array, sizes: Sequence[int], pairs: Array) -> NDArray[np.float64]:
    """Mean embedding of all pairs, which is that of many sets of them, (n_values,)."""
    layers = mlp.stacked(row[None], sizes)
    total = np.zeros(sizes[-1])
    with torch.no_grad():
        for part in torch.from_numpy(pairs).split(_ROWS):
            total += mlp.forward(layers, part[None])[1][0].double().sum(dim=0).numpy()
    return total / len(pairs)
