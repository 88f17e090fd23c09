"""Networks in torch: many perceptrons trained together, and an autoencoder of trajectories.

The weights of a layer of all perceptrons lie in one tensor (networks, inputs, outputs), so that a
step of all of them is a handful of batched matrix products. Their gradients are written out:
autograd took 1.1 to 1.4 times as long, and rounds differently.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pivec.characterizations.rows import segment_sums
from pivec.parallel import run_tasks, single_threaded_torch, torch_device
from pivec.terminal import Progress

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8


def uniform(rng: np.random.Generator, shape: Sequence[int], fan_in: int) -> NDArray[np.float32]:
    """Initial weights as in torch's layers: uniform within ±1/sqrt(fan_in)."""
    bound = np.float32(1.0 / np.sqrt(fan_in))
    return (2.0 * rng.random(tuple(shape), dtype=np.float32) - 1.0) * bound


def full_precision(device: torch.device) -> AbstractContextManager[Any]:
    """Keep cuDNN from rounding products to TF32, so that a GPU gives the CPU's numbers."""
    if device.type == "cpu":
        return nullcontext()
    flags: AbstractContextManager[Any] = torch.backends.cudnn.flags(
        enabled=True, deterministic=True, allow_tf32=False
    )
    return flags


class Adam:
    """Adam (Kingma and Ba 2015) on tensors whose first axis counts separate networks.

    Equals `torch.optim.Adam` bit for bit, which takes three times as long for stacked networks,
    cannot update the first few only, and takes seconds to import (benchmarks/networks.py).
    """

    def __init__(self, parameters: Sequence[torch.Tensor], learning_rate: float) -> None:
        self.parameters, self.learning_rate = parameters, learning_rate
        self._firsts = [torch.zeros_like(p) for p in parameters]
        self._seconds = [torch.zeros_like(p) for p in parameters]
        self._steps = 0

    def step(self, gradients: Sequence[torch.Tensor], active: int | None = None) -> None:
        """Update the first ``active`` networks (all by default)."""
        self._steps += 1
        size = self.learning_rate / (1.0 - _BETA1**self._steps)
        scale = (1.0 - _BETA2**self._steps) ** 0.5
        with torch.no_grad():
            for values, gradient, first, second in zip(
                self.parameters, gradients, self._firsts, self._seconds, strict=True
            ):
                m, v = first[:active], second[:active]
                m.lerp_(gradient, 1.0 - _BETA1)
                v.mul_(_BETA2).addcmul_(gradient, gradient, value=1.0 - _BETA2)
                values[:active].addcdiv_(m, v.sqrt().div_(scale).add_(_EPSILON), value=-size)


# Weights (networks, inputs, outputs) and offsets (networks, 1, outputs) of one layer after another.
Layers = list[torch.Tensor]


def n_values(sizes: Sequence[int]) -> int:
    """Number of weights and offsets of one network."""
    return sum((n + 1) * m for n, m in pairwise(sizes))


def starting_values(rng: np.random.Generator, sizes: Sequence[int]) -> NDArray[np.float32]:
    """Initial weights of one network, as one row of `unstacked`."""
    parts = [uniform(rng, (n + 1, m), n).ravel() for n, m in pairwise(sizes)]
    return np.concatenate(parts)


def stacked(
    rows: NDArray[np.float32], sizes: Sequence[int], device: torch.device | None = None
) -> Layers:
    """Layers of all networks from one row of values per network."""
    layers, at = [], 0
    for n, m in pairwise(sizes):
        part = torch.from_numpy(rows[:, at : at + (n + 1) * m].copy()).to(device)
        block = part.view(len(rows), n + 1, m)
        layers += [block[:, :n].contiguous(), block[:, n:].contiguous()]
        at += (n + 1) * m
    return layers


def unstacked(layers: Layers) -> NDArray[np.float32]:
    """One row of values per network, the inverse of `stacked`."""
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
    """Gradients of all weights and offsets, given that of the outputs."""
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
    slope: Callable[[torch.Tensor], torch.Tensor],
    learning_rate: float,
) -> None:
    """Train all networks in place with Adam, each for its own number of updates, most first.

    ``batch(t, active)`` returns the inputs (active, rows, inputs) of update ``t``, and
    ``slope(outputs)`` the gradient of the loss with respect to the outputs.
    """
    optimiser = Adam(layers, learning_rate)
    waiting = np.sort(np.asarray(updates))
    with torch.no_grad():
        for t in range(int(waiting[-1])):
            active = len(waiting) - int(np.searchsorted(waiting, t, side="right"))
            trained = [part[:active] for part in layers]
            inputs, outputs = forward(trained, batch(t, active))
            optimiser.step(backward(trained, inputs, slope(outputs)), active)


# Networks that are trained together fit the cache: their weights, gradients, the two averages of
# Adam and the layers' outputs take at most this many bytes.
_ROOM = 24 << 20
_MOST = 64
_MOST_ON_CARD = 512
_DRAWN = 64  # updates whose batches are drawn at a time
_ROWS, _ROWS_ON_CARD = 8192, 1 << 18  # rows that go through a network at a time

Array = NDArray[np.float32]


class Batches:
    """Row numbers of the batches of one policy: its own states in turn, the others' at random.

    Epochs overlap, so that all batches are full. Of the ``n_others`` states, those from
    ``without[0]`` to ``without[1]``, its own, are left out.
    """

    def __init__(
        self, rng: np.random.Generator, n_own: int, n_others: int, without: tuple[int, int]
    ) -> None:
        self._rng, self._n_own = rng, n_own
        self._begin, self._end = without
        self._n_left = n_others - (self._end - self._begin)
        self._rest = np.empty(0, dtype=np.int64)

    def draw(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of ``n`` own states and of ``n`` others."""
        parts, count = [self._rest], len(self._rest)
        while count < n:
            parts.append(self._rng.permutation(self._n_own))
            count += self._n_own
        own = np.concatenate(parts)
        self._rest = own[n:]
        others = self._rng.integers(self._n_left, size=n)
        others[others >= self._begin] += self._end - self._begin
        return own[:n], others


def slope_of_loss(outputs: torch.Tensor, clip: float) -> torch.Tensor:
    """Gradient of -E[log D] - E[log(1 - D)]; the first half of the logits are the policy's own.

    It is 0 for logits beyond ±clip.
    """
    n_own = outputs.shape[1] // 2
    slope = torch.sigmoid(outputs)
    slope[:, :n_own] -= 1.0
    return slope.mul_(outputs.abs() <= clip).div_(n_own)


@dataclass(frozen=True)
class Discriminators:
    """Training and evaluation of discriminators; see the arguments of `Discriminator`."""

    sizes: Sequence[int]
    epochs: float
    batch_size: int
    learning_rate: float
    clip: float
    device: str = "cpu"

    def group_size(self) -> int:
        """Number of networks to train together."""
        if torch_device(self.device).type != "cpu":
            return _MOST_ON_CARD
        rows = 2 * self.batch_size * 2 * sum(self.sizes)
        return int(np.clip(_ROOM // (4 * (5 * n_values(self.sizes) + rows)), 1, _MOST))

    def train(
        self, start: Array, own: Sequence[Array], batches: Sequence[Batches], others: Array
    ) -> Array:
        """Train one network for each of ``own``, most states first; one row of weights each."""
        device = torch_device(self.device)
        layers = stacked(start, self.sizes, device)
        size = self.batch_size
        offsets = np.cumsum([0] + [len(states) for states in own[:-1]])
        mine = torch.from_numpy(np.concatenate(own)).to(device)
        theirs = torch.from_numpy(others).to(device)
        drawn: list[torch.Tensor] = []

        def batch(t: int, active: int) -> torch.Tensor:
            if t % _DRAWN == 0:
                pairs = [stream.draw(_DRAWN * size) for stream in batches[:active]]
                numbers = np.array(pairs).reshape(active, 2, _DRAWN, size)
                numbers[:, 0] += offsets[:active, None, None]
                drawn[:] = [torch.from_numpy(numbers).to(device)]
            a, b = drawn[0][:active, :, t % _DRAWN].transpose(0, 1).reshape(2, -1)
            shape = (active, size, mine.shape[1])
            return torch.cat(
                [mine.index_select(0, a).view(shape), theirs.index_select(0, b).view(shape)], dim=1
            )

        # An epoch is a pass over a policy's own states.
        updates = [max(1, int(np.ceil(self.epochs * len(states) / size))) for states in own]
        train(layers, updates, batch, lambda x: slope_of_loss(x, self.clip), self.learning_rate)
        return unstacked(layers)

    def mean_inverse_ratios(self, networks: Array, states: Sequence[Array]) -> NDArray[np.float64]:
        """E[exp(-log r)] of each network over each policy's states, (networks, policies).

        The paper's equation for f: r = D / (1 - D), whose logarithm is the clipped logit.
        """
        result = np.empty((len(networks), len(states)))
        device = torch_device(self.device)
        at_once = _ROWS if device.type == "cpu" else _ROWS_ON_CARD
        held = [torch.from_numpy(rows).to(device).split(at_once) for rows in states]

        def work(i: int) -> None:
            layers = stacked(networks[i : i + 1], self.sizes, device)
            with torch.no_grad():
                logits = [
                    torch.cat([forward(layers, rows[None])[1] for rows in parts], dim=1)
                    for parts in held
                ]
                ratios = [torch.exp(-x.clamp_(-self.clip, self.clip).double()) for x in logits]
            result[i] = torch.stack([x.mean() for x in ratios]).cpu().numpy()

        with single_threaded_torch():
            run_tasks(work, len(networks))
        return result


class SingleMLP:
    """One perceptron for the rows of all policies, (n, n_inputs) each.

    ``counts`` and ``starts`` are the number of rows of each policy, and where they begin.
    """

    def __init__(
        self, policies: Sequence[Array], sizes: Sequence[int], rng: np.random.Generator
    ) -> None:
        self.rng, self._sizes = rng, sizes
        self.start = starting_values(rng, sizes)
        self.counts = np.array([len(rows) for rows in policies])
        self.starts = np.cumsum(self.counts) - self.counts
        self._rows = torch.from_numpy(np.concatenate(policies))

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
        """Train on batches of the row numbers that ``draw()`` returns; all weights in one row."""
        layers = stacked(self.start[None], self._sizes)

        def batch(_t: int, _active: int) -> torch.Tensor:
            bar.advance(1)
            return self._rows.index_select(0, torch.from_numpy(draw()))[None]

        bar = Progress(title, n_updates, unit="updates", show=progress)
        with single_threaded_torch(), bar:  # a network this small gains little from more threads
            train(layers, [n_updates], batch, slope, learning_rate)
        return np.asarray(unstacked(layers)[0])


def train_classifier(network: SingleMLP, batch_size: int, **how: Any) -> Array:
    """Train by cross-entropy to name the policy of a row; see `SingleMLP.train` for ``how``.

    Every policy is equally likely in a batch.
    """
    labels = torch.empty(0, dtype=torch.int64)

    def draw() -> NDArray[np.int64]:
        nonlocal labels
        owners = network.rng.integers(len(network.counts), size=batch_size)
        labels = torch.from_numpy(owners)
        within = network.rng.integers(network.counts[owners])
        return np.asarray(network.starts[owners] + within)

    def slope(outputs: torch.Tensor) -> torch.Tensor:
        # The gradient of the cross-entropy: probabilities minus the truth.
        result = torch.softmax(outputs, dim=2)
        result[0, torch.arange(batch_size), labels] -= 1.0
        return result.div_(batch_size)

    return network.train(draw, slope, title="classifier", **how)


def train_encoder(network: SingleMLP, batch_size: int, set_size: int, **how: Any) -> Array:
    """Train so that sets of rows of one policy, embedded as the mean of their rows, agree.

    A batch has two sets of each of ``batch_size`` random policies. With a single policy, the
    network is not trained.
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
    """Contrastive loss of the embeddings of two sets per policy, and its gradient.

    ``sets`` is (2, policies, n_values). Each first set should be nearest to the second one of its
    own policy, and vice versa: the cross-entropy of a softmax over negative squared distances.
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
    """Sums of a network's outputs, or of their softmax, over the rows between cuts."""
    layers = stacked(row[None], sizes)
    total = np.zeros((len(cuts) - 1, sizes[-1]))
    with torch.no_grad():
        for at, part in enumerate(torch.from_numpy(rows).split(_ROWS)):
            outputs = forward(layers, part[None])[1][0].double()
            values = (torch.softmax(outputs, dim=1) if softmax else outputs).numpy()
            total += segment_sums(values, np.clip(cuts - at * _ROWS, 0, len(values)))
    return total


# The autoencoder (the paper's Section 5.2). Its encoder is a bidirectional LSTM of which only the
# backward outputs are used: a forward LSTM over the reversed sequence. Sequences of similar length
# are batched and padded at the end: the gradient of torch's packed sequences takes time that grows
# with the square of the length.
_TOGETHER = 64  # sequences that are encoded together
_SHARE = 4  # sequences of a batch per core,
_WORTH = 1 << 16  # if the LSTM has at least this many weights
_BUCKET = 16  # batches among which sequences are sorted by length
_SMALLEST = 1e-6  # added to deviations, so that none is 0
_HALF_LOG_2PI = 0.5 * float(np.log(2.0 * np.pi))

# The names of the weights, in the order of the network's parameters.
_KEPT = (
    *("input", "recurrent", "input_offset", "recurrent_offset"),
    *("latent_mean", "latent_mean_offset", "latent_deviation", "latent_deviation_offset"),
    *("next_mean", "next_mean_offset", "next_deviation", "next_deviation_offset"),
)


@dataclass(frozen=True)
class Padded:
    """Sequences side by side, the shorter ones padded."""

    rows: torch.Tensor  # (n, n_inputs): the sequences one after another
    owner: torch.Tensor  # (n,): which sequence a row is of
    lengths: torch.Tensor
    backwards: torch.Tensor  # (longest, n_sequences, n_inputs): from their ends, then zeros
    inside: torch.Tensor  # (longest, n_sequences, 1): 1 where there is a sequence, else 0

    @classmethod
    def of(cls, sequences: Sequence[Array], device: torch.device | None = None) -> Padded:
        """Put sequences side by side."""
        lengths = np.array([len(sequence) for sequence in sequences])
        shape = (int(lengths.max()), len(sequences), sequences[0].shape[1])
        backwards = np.zeros(shape, dtype=np.float32)
        for i, sequence in enumerate(sequences):
            backwards[: len(sequence), i] = sequence[::-1]
        inside = np.arange(shape[0])[:, None, None] < lengths[:, None]
        arrays = (
            np.concatenate(sequences),
            np.repeat(np.arange(len(lengths)), lengths),
            lengths.astype(np.float32),
            backwards,
            inside.astype(np.float32),
        )
        return cls(*(torch.from_numpy(array).to(device) for array in arrays))


class SequenceVAE(torch.nn.Module):
    """Encoder and decoder; weights come from `of`, and torch's random state is not changed."""

    def __init__(self, n_inputs: int, n_units: int, n_latent: int) -> None:
        super().__init__()
        n_context = n_inputs + n_latent
        with torch.random.fork_rng(devices=[]):  # torch's initial weights are not used
            self.lstm = torch.nn.LSTM(n_inputs, n_units)
            self.latent_mean = torch.nn.Linear(n_units, n_latent)
            self.latent_deviation = torch.nn.Linear(n_units, n_latent)
            self.next_mean = torch.nn.Linear(n_context, n_inputs)
            self.next_deviation = torch.nn.Linear(n_context, n_inputs)

    @classmethod
    def of(cls, weights: Mapping[str, Array], device: torch.device | None = None) -> SequenceVAE:
        """Make the network with these weights, named as by `starting_weights`."""
        n_units, n_inputs = weights["recurrent"].shape[1], weights["input"].shape[1]
        model = cls(n_inputs, n_units, len(weights["latent_mean"]))
        model.to(device)
        with torch.no_grad():
            for name, parameter in zip(_KEPT, model.parameters(), strict=True):
                parameter.copy_(torch.from_numpy(weights[name]))
        return model

    def latents(self, padded: Padded) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and deviation of the latent of each sequence, (n_sequences, n_latent) each."""
        outputs, _ = self.lstm(padded.backwards)
        averages = (outputs * padded.inside).sum(dim=0) / padded.lengths[:, None]
        return self.latent_mean(averages), _positive(self.latent_deviation(averages))

    def losses(self, padded: Padded, noise: torch.Tensor, kl_weight: float = 1.0) -> torch.Tensor:
        """KL to the standard normal minus the mean log-likelihood of the next rows, (n,)."""
        mean, deviation = self.latents(padded)
        latent = mean + deviation * noise
        divergence = 0.5 * (mean**2 + deviation**2 - 1.0).sum(dim=1) - deviation.log().sum(dim=1)
        # Rows with one after them in the same sequence; a sequence of one row has no likelihood.
        before = torch.nonzero(padded.owner[:-1] == padded.owner[1:]).squeeze(1)
        whose = padded.owner[before]
        context = torch.cat([padded.rows[before], latent[whose]], dim=1)
        expected, width = self.next_mean(context), _positive(self.next_deviation(context))
        surprise = 0.5 * ((padded.rows[before + 1] - expected) / width) ** 2 + width.log()
        minus_log = (surprise + _HALF_LOG_2PI).sum(dim=1)
        sums = torch.zeros_like(divergence).index_add(0, whose, minus_log)
        return kl_weight * divergence + sums / (padded.lengths - 1.0).clamp(min=1.0)


def _positive(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.softplus(x) + _SMALLEST


def starting_weights(
    rng: np.random.Generator, n_inputs: int, n_units: int, n_latent: int
) -> dict[str, Array]:
    """Initial weights of encoder and decoder, distributed as in torch's layers."""
    drawn = [
        uniform(rng, p.shape, layer.in_features if isinstance(layer, torch.nn.Linear) else n_units)
        for layer in SequenceVAE(n_inputs, n_units, n_latent).children()
        for p in layer.parameters()
    ]
    return dict(zip(_KEPT, drawn, strict=True))


def train_autoencoder(
    weights: Mapping[str, Array],
    sequences: Sequence[Array],
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    kl_weight: float,
    rng: np.random.Generator,
    device: str = "cpu",
    progress: bool = False,
) -> dict[str, Array]:
    """Train the autoencoder with Adam on the mean loss of the sequences of a batch."""
    where = torch_device(device)
    model = SequenceVAE.of(weights, where)
    optimiser = Adam(list(model.parameters()), learning_rate)
    lengths = np.array([len(sequence) for sequence in sequences])
    n_latent = len(weights["latent_mean"])
    bar = Progress("trajectories", epochs * len(lengths), show=progress)
    with single_threaded_torch(), full_precision(where), bar:
        for _ in range(epochs):
            for numbers in batches(lengths, batch_size, rng):
                noise = rng.standard_normal((len(numbers), n_latent), dtype=np.float32)
                chosen = [sequences[i] for i in numbers]
                optimiser.step(gradients(model, chosen, noise, kl_weight))
                bar.advance(len(numbers))
    trained = (parameter.detach().cpu().numpy() for parameter in model.parameters())
    return dict(zip(_KEPT, trained, strict=True))


def gradients(
    model: SequenceVAE, sequences: Sequence[Array], noise: Array, kl_weight: float
) -> list[torch.Tensor]:
    """Gradients of the mean loss of one batch, longest first, computed in parts on all cores.

    Neither the parts nor the results depend on the number of cores.
    """
    parameters = list(model.parameters())
    device = parameters[0].device
    worth = model.lstm.weight_hh_l0.numel() >= _WORTH and device.type == "cpu"
    n_parts = -(-len(sequences) // _SHARE) if worth else 1
    parts: list[tuple[torch.Tensor, ...]] = [()] * n_parts

    def work(task: int) -> None:
        loss = model.losses(
            Padded.of(sequences[task::n_parts], device),
            torch.from_numpy(noise[task::n_parts].copy()).to(device),
            kl_weight,
        )
        parts[task] = torch.autograd.grad(loss.sum() / len(sequences), parameters)

    run_tasks(work, n_parts)
    return [sum(terms[1:], terms[0]) for terms in zip(*parts, strict=True)]


def batches(
    lengths: NDArray[np.int64], size: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Random batches of sequences of similar length, each longest first."""
    order = rng.permutation(len(lengths))
    result = []
    for at in range(0, len(order), size * _BUCKET):
        bucket = order[at : at + size * _BUCKET]
        bucket = bucket[np.argsort(-lengths[bucket], kind="stable")]
        result += [bucket[i : i + size] for i in range(0, len(bucket), size)]
    return [result[i] for i in rng.permutation(len(result))]


def encode(
    weights: Mapping[str, Array], sequences: Sequence[Array], device: str = "cpu"
) -> tuple[Array, Array]:
    """Mean and deviation of the latent of every sequence, (n_sequences, n_latent) each."""
    where = torch_device(device)
    model = SequenceVAE.of(weights, where).eval()
    order = np.argsort([-len(sequence) for sequence in sequences], kind="stable")
    means = np.empty((len(sequences), len(weights["latent_mean"])), dtype=np.float32)
    deviations = np.empty_like(means)

    def work(task: int) -> None:
        numbers = order[task * _TOGETHER : (task + 1) * _TOGETHER]
        with torch.no_grad():
            mean, deviation = model.latents(Padded.of([sequences[i] for i in numbers], where))
        means[numbers], deviations[numbers] = mean.cpu().numpy(), deviation.cpu().numpy()

    with single_threaded_torch(), full_precision(where):
        run_tasks(work, -(-len(sequences) // _TOGETHER))
    return means, deviations
