"""One perceptron for the rows of all policies: a classifier of policies, an encoder of pairs."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pivec.characterizations.averages import segment_sums
from pivec.characterizations.networks import batched_mlp as mlp
from pivec.engines.devices import single_threaded_torch
from pivec.progress import Progress

_ROWS = 8192  # rows that go through the network at a time

Array = NDArray[np.float32]


class SingleMLP:
    """A perceptron and the rows of all policies, (n, n_inputs) for each.

    Attributes
    ----------
    counts, starts : (n_policies,) int arrays
        How many rows each policy has, and where they begin among all.
    """

    def __init__(
        self, policies: Sequence[Array], sizes: Sequence[int], rng: np.random.Generator
    ) -> None:
        self.rng = rng
        self.start = mlp.starting_values(rng, sizes)
        self.counts = np.array([len(rows) for rows in policies])
        self.starts = np.cumsum(self.counts) - self.counts
        self._rows = torch.from_numpy(np.concatenate(policies))
        self._sizes = sizes

    def train(
        self,
        draw: Callable[[], NDArray[np.int64]],
        slope: Callable[[torch.Tensor], torch.Tensor],
        *,
        title: str,
        n_updates: int,
        learning_rate: float,
        progress: bool = False,
    ) -> Array:
        """Train with Adam and return all weights in one row.

        ``draw()`` gives the numbers of the rows of a batch, and ``slope(outputs)`` the gradient of
        the loss by the outputs (1, rows, outputs).
        """
        layers = mlp.stacked(self.start[None], self._sizes)

        def batch(_t: int, _active: int) -> torch.Tensor:
            return self._rows.index_select(0, torch.from_numpy(draw()))[None]

        def counted(_t: int, outputs: torch.Tensor) -> torch.Tensor:
            bar.advance(1)
            return slope(outputs)

        # One thread: a network this small gains little from more, and loses much on busy cores.
        with (
            single_threaded_torch(),
            Progress(title, n_updates, unit="updates", show=progress) as bar,
        ):
            mlp.train(layers, [n_updates], batch, counted, learning_rate)
        return np.asarray(mlp.unstacked(layers)[0])


def train_classifier(network: SingleMLP, batch_size: int, **how: Any) -> Array:
    """Train by cross-entropy to name the policy of a row; see `SingleMLP.train` for ``how``.

    Every policy is as likely in a batch, however many rows it has.
    """
    labels = torch.empty(0, dtype=torch.int64)

    def draw() -> NDArray[np.int64]:
        nonlocal labels
        owners = network.rng.integers(len(network.counts), size=batch_size)
        labels = torch.from_numpy(owners)
        within = network.rng.integers(network.counts[owners])
        return np.asarray(network.starts[owners] + within)

    def slope(outputs: torch.Tensor) -> torch.Tensor:
        # The gradient of the cross-entropy by the logits: probabilities less the truth.
        result = torch.softmax(outputs, dim=2)
        result[0, torch.arange(batch_size), labels] -= 1.0
        return result.div_(batch_size)

    return network.train(draw, slope, title="classifier", **how)


def train_encoder(network: SingleMLP, batch_size: int, set_size: int, **how: Any) -> Array:
    """Train so that sets of rows of one policy, embedded as the mean of their rows, agree.

    A batch is two sets of each of ``batch_size`` policies drawn at random. One policy alone has
    nobody to be told from, and leaves the network as it starts.
    """
    n_policies = len(network.counts)
    if n_policies < 2:
        return network.start
    n_drawn = min(batch_size, n_policies)

    def draw() -> NDArray[np.int64]:
        owners = network.rng.choice(n_policies, size=n_drawn, replace=False)
        within = network.rng.random((2, n_drawn, set_size)) * network.counts[owners][:, None]
        rows = network.starts[owners][:, None] + within.astype(np.int64)
        return np.asarray(rows.reshape(-1))

    def slope(outputs: torch.Tensor) -> torch.Tensor:
        sets = outputs.view(2, n_drawn, set_size, -1)
        _, by_sets = contrast(sets.mean(dim=2))
        return (by_sets[:, :, None] / set_size).expand_as(sets).reshape(outputs.shape)

    return network.train(draw, slope, title="state-actions", **how)


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


def sum_outputs(
    row: Array,
    sizes: Sequence[int],
    rows: Array,
    cuts: NDArray[np.int64],
    *,
    softmax: bool = False,
) -> NDArray[np.float64]:
    """Sums over the rows between cuts of a network's outputs, or of the probabilities they mean."""
    layers = mlp.stacked(row[None], sizes)
    total = np.zeros((len(cuts) - 1, sizes[-1]))
    with torch.no_grad():
        for at, part in enumerate(torch.from_numpy(rows).split(_ROWS)):
            outputs = mlp.forward(layers, part[None])[1][0].double()
            values = (torch.softmax(outputs, dim=1) if softmax else outputs).numpy()
            total += segment_sums(values, np.clip(cuts - at * _ROWS, 0, len(values)))
    return total
