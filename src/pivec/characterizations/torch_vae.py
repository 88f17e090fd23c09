"""The variational autoencoder of trajectories (the paper's Section 5.2 and its appendix).

The encoder is a bidirectional LSTM of which only the backward outputs are used: a forward LSTM over
the reversed sequence. Sequences of similar length are batched and padded at the end, where it no
longer matters. torch's packed sequences would save that padding, but their gradient takes time that
grows with the square of the length (for 500 steps ten times as long).
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pivec.characterizations.torch_mlp import Adam, full_precision, uniform
from pivec.parallel import run_tasks, single_threaded_torch, torch_device
from pivec.terminal import Progress

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

Array = NDArray[np.float32]


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


def train(
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
