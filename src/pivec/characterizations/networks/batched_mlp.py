"""Many multilayer perceptrons of one shape, trained together as one batched network.

The weights of a layer of all networks lie in one tensor (networks, inputs, outputs), so that a
step of all of them is a handful of batched matrix products. The gradients are written out: no
graph is recorded.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from pivec.characterizations.networks.training import Adam, uniform

# Weights (networks, inputs, outputs) and offsets (networks, 1, outputs) of one layer after another.
Layers = list[torch.Tensor]


def n_values(sizes: Sequence[int]) -> int:
    """How many weights and offsets one network has."""
    return sum((n + 1) * m for n, m in pairwise(sizes))


def starting_values(rng: np.random.Generator, sizes: Sequence[int]) -> NDArray[np.float32]:
    """Starting weights of one network, as one row of `unstacked`."""
    parts = [uniform(rng, (n + 1, m), n).ravel() for n, m in pairwise(sizes)]
    return np.concatenate(parts)


def stacked(
    rows: NDArray[np.float32], sizes: Sequence[int], device: torch.device | None = None
) -> Layers:
    """Layers of all networks from one row of values for each."""
    layers, at = [], 0
    for n, m in pairwise(sizes):
        part = torch.from_numpy(rows[:, at : at + (n + 1) * m].copy()).to(device)
        block = part.view(len(rows), n + 1, m)
        layers += [block[:, :n].contiguous(), block[:, n:].contiguous()]
        at += (n + 1) * m
    return layers


def unstacked(layers: Layers) -> NDArray[np.float32]:
    """One row of values for each network; the opposite of `stacked`."""
    flat = [part.reshape(len(part), -1) for part in layers]
    return np.asarray(torch.cat(flat, dim=1).cpu().numpy())


def forward(layers: Layers, x: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Inputs of every layer, and the outputs (networks, rows, outputs), of tanh networks.

    ``x`` is (networks, rows, inputs).
    """
    inputs = [x]
    for weights, offsets in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        # tanh(a) = 2 sigmoid(2a) - 1, which torch computes four times as fast.
        a = torch.baddbmm(offsets, inputs[-1], weights, beta=2.0, alpha=2.0)
        inputs.append(a.sigmoid_().mul_(2.0).sub_(1.0))
    return inputs, torch.baddbmm(layers[-1], inputs[-1], layers[-2])


def backward(layers: Layers, inputs: list[torch.Tensor], slope: torch.Tensor) -> Layers:
    """Gradients of all weights and offsets, given that by the outputs."""
    gradients: Layers = []
    for layer in range(len(inputs) - 1, -1, -1):
        gradients = [
            torch.bmm(inputs[layer].transpose(1, 2), slope),
            slope.sum(dim=1, keepdim=True),
            *gradients,
        ]
        if layer:
            slope = torch.bmm(slope, layers[2 * layer].transpose(1, 2))
            # The derivative of tanh is 1 - tanh².
            slope.addcmul_(slope * inputs[layer], inputs[layer], value=-1.0)
    return gradients


def train(
    layers: Layers,
    updates: Sequence[int],
    batch: Callable[[int, int], torch.Tensor],
    slope: Callable[[int, torch.Tensor], torch.Tensor],
    learning_rate: float,
) -> None:
    """Train all networks in place with Adam, each for its own number of updates.

    Parameters
    ----------
    layers : list of tensors
        As `stacked` gives them.
    updates : sequence of int
        Updates of each network, falling: those that need most come first.
    batch : callable
        ``batch(t, active)`` gives the inputs (active, rows, inputs) of update ``t``.
    slope : callable
        ``slope(t, outputs)`` gives the gradient of the loss by the outputs.
    learning_rate : float
    """
    optimiser = Adam(layers, learning_rate)
    waiting = np.sort(np.asarray(updates))
    with torch.no_grad():
        for t in range(int(waiting[-1])):
            active = len(waiting) - int(np.searchsorted(waiting, t, side="right"))
            trained = [part[:active] for part in layers]
            inputs, outputs = forward(trained, batch(t, active))
            optimiser.step(backward(trained, inputs, slope(t, outputs)), active)
