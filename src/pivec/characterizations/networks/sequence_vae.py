"""The variational autoencoder of trajectories (the paper's Section 5.2 and its appendix).

The encoder is a bidirectional LSTM of which only the backward outputs are used. The forward half
changes no result and gets no gradient, so it is left out: a backward LSTM is a forward one over
the reversed sequence.

Sequences alike in length are put together and padded at the end, which by then no longer matters.
torch's packed sequences would save that padding, but their gradient takes time that grows with the
square of the length (for 500 steps ten times as long).
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pivec.characterizations.networks.training import Adam, one_thread_each, uniform
from pivec.engines.workers import run_tasks
from pivec.progress import Progress

_TOGETHER = 64  # sequences that are encoded together
_SHARE = 4  # sequences of a batch that one core takes,
_WORTH = 1 << 16  # if the LSTM has so many weights that it is worth another thread
_BUCKET = 16  # batches among which sequences are sorted by length
SMALLEST = 1e-6  # added to deviations, so that none is 0
HALF_LOG_2PI = 0.5 * float(np.log(2.0 * np.pi))

Array = NDArray[np.float32]
_LSTM = ("input", "recurrent", "input_offset", "recurrent_offset")


def starting_weights(
    rng: np.random.Generator, n_inputs: int, n_units: int, n_latent: int
) -> dict[str, Array]:
    """Starting weights of encoder and decoder, as torch's layers have them."""
    gates = 4 * n_units
    weights = {
        "input": uniform(rng, (gates, n_inputs), n_units),
        "recurrent": uniform(rng, (gates, n_units), n_units),
        "input_offset": uniform(rng, (gates,), n_units),
        "recurrent_offset": uniform(rng, (gates,), n_units),
    }
    n_context = n_inputs + n_latent
    for name, n, m in (
        ("latent_mean", n_units, n_latent),
        ("latent_deviation", n_units, n_latent),
        ("next_mean", n_context, n_inputs),
        ("next_deviation", n_context, n_inputs),
    ):
        weights[name] = uniform(rng, (m, n), n)
        weights[f"{name}_offset"] = uniform(rng, (m,), n)
    return weights


@dataclass(frozen=True)
class Padded:
    """Sequences side by side, the shorter ones padded.

    Attributes
    ----------
    rows : (n, n_inputs) tensor
        The sequences one after another.
    owner : (n,) int tensor
        Which sequence a row is of.
    lengths : (n_sequences,) float tensor
    backwards : (longest, n_sequences, n_inputs) tensor
        Each sequence from its end, then zeros.
    inside : (longest, n_sequences, 1) float tensor
        1 where there is a sequence, 0 where there is padding.
    """

    rows: torch.Tensor
    owner: torch.Tensor
    lengths: torch.Tensor
    backwards: torch.Tensor
    inside: torch.Tensor

    @classmethod
    def of(cls, sequences: Sequence[Array]) -> Padded:
        """Put sequences side by side."""
        lengths = np.array([len(some) for some in sequences])
        shape = (int(lengths.max()), len(sequences), sequences[0].shape[1])
        backwards = np.zeros(shape, dtype=np.float32)
        for i, some in enumerate(sequences):
            backwards[: len(some), i] = some[::-1]
        inside = np.arange(shape[0])[:, None, None] < lengths[:, None]
        return cls(
            torch.from_numpy(np.concatenate(sequences)),
            torch.from_numpy(np.repeat(np.arange(len(lengths)), lengths)),
            torch.from_numpy(lengths.astype(np.float32)),
            torch.from_numpy(backwards),
            torch.from_numpy(inside.astype(np.float32)),
        )


Weights = Mapping[str, torch.Tensor]


def latents(weights: Weights, padded: Padded) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and deviation of the latent of each sequence, (n_sequences, n_latent) each."""
    start = padded.rows.new_zeros(1, len(padded.lengths), weights["recurrent"].shape[1])
    outputs, _, _ = torch.lstm(
        padded.backwards,
        (start, start),
        [weights[name] for name in _LSTM],
        True,  # offsets
        1,  # layers
        0.0,  # dropout
        torch.is_grad_enabled(),  # keep what the gradient needs
        False,  # bidirectional: the other half would not be used
        False,  # batch first
    )
    averages = (outputs * padded.inside).sum(dim=0) / padded.lengths[:, None]
    return _mean_and_deviation(weights, "latent", averages)


def losses(
    weights: Weights, padded: Padded, noise: torch.Tensor, kl_weight: float = 1.0
) -> torch.Tensor:
    """KL to the standard normal minus the mean log-likelihood of the next rows, a sequence each."""
    mean, deviation = latents(weights, padded)
    latent = mean + deviation * noise
    divergence = 0.5 * (mean**2 + deviation**2 - 1.0).sum(dim=1) - deviation.log().sum(dim=1)
    # Rows with one after them in the same sequence; a sequence of one row has no likelihood.
    before = torch.nonzero(padded.owner[:-1] == padded.owner[1:]).squeeze(1)
    whose = padded.owner[before]
    context = torch.cat([padded.rows[before], latent[whose]], dim=1)
    expected, width = _mean_and_deviation(weights, "next", context)
    surprise = 0.5 * ((padded.rows[before + 1] - expected) / width) ** 2 + width.log()
    sums = torch.zeros_like(divergence).index_add(0, whose, (surprise + HALF_LOG_2PI).sum(dim=1))
    return kl_weight * divergence + sums / (padded.lengths - 1.0).clamp(min=1.0)


def _mean_and_deviation(
    weights: Weights, name: str, x: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    linear = torch.nn.functional.linear
    mean = linear(x, weights[f"{name}_mean"], weights[f"{name}_mean_offset"])
    wide = linear(x, weights[f"{name}_deviation"], weights[f"{name}_deviation_offset"])
    return mean, torch.nn.functional.softplus(wide) + SMALLEST


def train(
    weights: Mapping[str, Array],
    sequences: Sequence[Array],
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    kl_weight: float,
    rng: np.random.Generator,
    progress: bool = False,
) -> dict[str, Array]:
    """Train the autoencoder with Adam on the mean loss of the sequences of a batch."""
    values = {name: torch.tensor(array, requires_grad=True) for name, array in weights.items()}
    optimiser = Adam(list(values.values()), learning_rate)
    lengths = np.array([len(some) for some in sequences])
    n_latent = len(weights["latent_mean"])
    with one_thread_each(), Progress("trajectories", epochs * len(lengths), show=progress) as bar:
        for numbers, noise in schedule(lengths, batch_size, n_latent, epochs, rng):
            some = [sequences[i] for i in numbers]
            optimiser.step(gradients(values, some, noise, kl_weight))
            bar.advance(len(numbers))
    return {name: value.detach().numpy() for name, value in values.items()}


def gradients(
    values: Weights, sequences: Sequence[Array], noise: Array, kl_weight: float
) -> list[torch.Tensor]:
    """Gradients of the mean loss of one batch, longest first; its parts go to all cores.

    The parts do not depend on the number of cores, so neither do the results.
    """
    worth = values["recurrent"].numel() >= _WORTH
    n_parts = -(-len(sequences) // _SHARE) if worth else 1
    parts: list[tuple[torch.Tensor, ...]] = [()] * n_parts

    def work(task: int) -> None:
        loss = losses(
            values,
            Padded.of(sequences[task::n_parts]),
            torch.from_numpy(noise[task::n_parts].copy()),
            kl_weight,
        )
        parts[task] = torch.autograd.grad(loss.sum() / len(sequences), list(values.values()))

    run_tasks(work, n_parts)
    return [sum(some[1:], some[0]) for some in zip(*parts, strict=True)]


def schedule(
    lengths: NDArray[np.int64],
    batch_size: int,
    n_latent: int,
    epochs: int,
    rng: np.random.Generator,
) -> Iterator[tuple[NDArray[np.int64], Array]]:
    """Give the numbers of the sequences of every update, and the noise of their latents."""
    for _ in range(epochs):
        for numbers in batches(lengths, batch_size, rng):
            yield numbers, rng.standard_normal((len(numbers), n_latent), dtype=np.float32)


def batches(
    lengths: NDArray[np.int64], size: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Cut all sequences into batches in random order, alike in length, each longest first."""
    order = rng.permutation(len(lengths))
    result = []
    for at in range(0, len(order), size * _BUCKET):
        bucket = order[at : at + size * _BUCKET]
        bucket = bucket[np.argsort(-lengths[bucket], kind="stable")]
        result += [bucket[i : i + size] for i in range(0, len(bucket), size)]
    return [result[i] for i in rng.permutation(len(result))]


def encode(weights: Mapping[str, Array], sequences: Sequence[Array]) -> tuple[Array, Array]:
    """Mean and deviation of the latent of every sequence, (n_sequences, n_latent) each."""
    values = {name: torch.from_numpy(array) for name, array in weights.items()}
    lengths = np.array([len(some) for some in sequences])
    order = np.argsort(-lengths, kind="stable")
    means = np.empty((len(sequences), len(weights["latent_mean"])), dtype=np.float32)
    deviations = np.empty_like(means)

    def work(task: int) -> None:
        numbers = order[task * _TOGETHER : (task + 1) * _TOGETHER]
        with torch.no_grad():
            mean, deviation = latents(values, Padded.of([sequences[i] for i in numbers]))
        means[numbers], deviations[numbers] = mean.numpy(), deviation.numpy()

    with one_thread_each():
        run_tasks(work, -(-len(sequences) // _TOGETHER))
    return means, deviations
