"""Several autoencoders of trajectories trained together on one device, the gradients written out.

A step in time of an LSTM with eight trajectories leaves a graphics card nearly idle, and there are
hundreds of them one after another in each update. Autoencoders that lie in stacked tensors (the
first axis counts them) take these steps together: as many as there are cost little more than one.
Each gets the numbers that `sequence_vae.train` gives it alone, but for rounding.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pivec.characterizations.networks.sequence_vae import (
    HALF_LOG_2PI,
    SMALLEST,
    Array,
    schedule,
)
from pivec.characterizations.networks.training import Adam, device_of
from pivec.progress import Progress

_TOGETHER = 1024  # sequences that are encoded together
_LINEAR = ("latent_mean", "latent_deviation", "next_mean", "next_deviation")


@dataclass(frozen=True)
class Job:
    """One autoencoder: its starting weights, its trajectories and its random numbers."""

    weights: Mapping[str, Array]
    sequences: Sequence[Array]
    rng: np.random.Generator


def train_together(
    jobs: Sequence[Job],
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    kl_weight: float,
    device: str,
    progress: bool = False,
) -> Iterator[tuple[int, dict[str, Array]]]:
    """Train all, and give each as (its number, its weights) when it has had its last update.

    All have the same widths; they may have different numbers of trajectories.
    """
    where = device_of(device)
    # Those with the most updates first, so that the active ones are always the first few.
    order = sorted(range(len(jobs)), key=lambda i: (-len(jobs[i].sequences), i))
    values = {
        name: torch.from_numpy(np.stack([jobs[i].weights[name] for i in order])).to(where)
        for name in jobs[0].weights
    }
    optimiser = Adam(list(values.values()), learning_rate)
    n_latent = values["latent_mean"].shape[1]
    held = _Held.of([jobs[i].sequences for i in order], where)
    plans = [
        schedule(lengths, batch_size, n_latent, epochs, jobs[i].rng)
        for i, lengths in zip(order, held.lengths, strict=True)
    ]
    active = len(jobs)
    total = epochs * sum(len(job.sequences) for job in jobs)
    with Progress("trajectories", total, show=progress) as bar:
        while active:
            steps = [next(plan, None) for plan in plans[:active]]
            while active and steps[active - 1] is None:
                active -= 1
                one = {name: value[active].cpu().numpy() for name, value in values.items()}
                yield order[active], one
            now = [step for step in steps[:active] if step is not None]
            if now:
                batch = held.batch(now, batch_size, n_latent)
                some = {name: value[:active] for name, value in values.items()}
                gradients = stacked_gradients(some, batch, kl_weight)
                optimiser.step([gradients[name] for name in values], active)
                bar.advance(sum(len(numbers) for numbers, _ in now))


@dataclass(frozen=True)
class Batch:
    """One batch of each autoencoder, (n_autoencoders, batch) trajectories, padded.

    Attributes
    ----------
    forwards : (n_autoencoders, batch, longest, n_inputs) tensor
    backwards : (longest, n_autoencoders, batch, n_inputs) tensor
        Each trajectory from its end, then zeros.
    lengths : (n_autoencoders, batch) float tensor
        0 where there is no trajectory.
    noise : (n_autoencoders, batch, n_latent) tensor
    """

    forwards: torch.Tensor
    backwards: torch.Tensor
    lengths: torch.Tensor
    noise: torch.Tensor


@dataclass(frozen=True)
class _Held:
    """All trajectories of all autoencoders on the device, one after another."""

    rows: torch.Tensor
    starts: list[NDArray[np.int64]]
    lengths: list[NDArray[np.int64]]

    @classmethod
    def of(cls, sequences: Sequence[Sequence[Array]], device: torch.device) -> _Held:
        lengths = [np.array([len(each) for each in some]) for some in sequences]
        ends = np.cumsum(np.concatenate(lengths))
        cuts = np.cumsum([len(some) for some in lengths])[:-1]
        starts = np.split(ends - np.concatenate(lengths), cuts)
        rows = torch.cat([torch.from_numpy(np.concatenate(some)).to(device) for some in sequences])
        return cls(rows, starts, lengths)

    def batch(
        self, steps: Sequence[tuple[NDArray[np.int64], Array]], size: int, n_latent: int
    ) -> Batch:
        """Gather what each autoencoder looks at in this update."""
        places = np.zeros((2, len(steps), size), dtype=np.int64)
        noise = np.zeros((len(steps), size, n_latent), dtype=np.float32)
        for k, (numbers, own) in enumerate(steps):
            places[0, k, : len(numbers)] = self.starts[k][numbers]
            places[1, k, : len(numbers)] = self.lengths[k][numbers]
            noise[k, : len(numbers)] = own.reshape(len(numbers), n_latent)
        longest = int(places[1].max())
        first, length = _sent(places, self.rows.device)
        time = torch.arange(longest, device=self.rows.device)
        ahead = (first[..., None] + time) * (time < length[..., None])
        back = length - 1 - time[:, None, None]
        backwards = self.rows[(first + back) * (back >= 0)] * (back >= 0)[..., None]
        forwards = self.rows[ahead] * (time < length[..., None])[..., None]
        return Batch(forwards, backwards, length.float(), _sent(noise, self.rows.device))


def stacked_gradients(
    values: Mapping[str, torch.Tensor], batch: Batch, kl_weight: float
) -> dict[str, torch.Tensor]:
    """Gradients of the mean loss of each autoencoder over its batch, by all of its weights."""
    with torch.no_grad():
        shares = _shares(batch)
        outputs, kept = _lstm(values, batch.backwards)
        averages = (outputs * shares).sum(dim=0)
    some = {name: values[name].detach() for one in _LINEAR for name in (one, f"{one}_offset")}
    leaves = [averages.requires_grad_(), *(part.requires_grad_() for part in some.values())]
    loss = _losses(some, averages, batch, kl_weight)
    slope, *linear = torch.autograd.grad(loss, leaves)
    with torch.no_grad():
        found = _lstm_gradients(values, batch.backwards, outputs, kept, slope * shares)
    return found | dict(zip(some, linear, strict=True))


def encode_on(
    device: str, weights: Mapping[str, Array], sequences: Sequence[Array]
) -> tuple[Array, Array]:
    """Mean and deviation of the latent of every sequence, as `sequence_vae.encode`."""
    where = device_of(device)
    values = {name: torch.from_numpy(array[None]).to(where) for name, array in weights.items()}
    held = _Held.of([sequences], where)
    order = np.argsort(-held.lengths[0], kind="stable")
    shape = (len(sequences), len(weights["latent_mean"]))
    means, deviations = np.empty((2, *shape), dtype=np.float32)
    for at in range(0, len(order), _TOGETHER):
        numbers = order[at : at + _TOGETHER]
        with torch.no_grad():
            batch = held.batch([(numbers, np.empty(0, dtype=np.float32))], len(numbers), 0)
            averages = (_lstm(values, batch.backwards)[0] * _shares(batch)).sum(dim=0)
            means[numbers] = _linear(values, "latent_mean", averages)[0].cpu().numpy()
            wide = _linear(values, "latent_deviation", averages)
            deviations[numbers] = _positive(wide)[0].cpu().numpy()
    return means, deviations


def _shares(batch: Batch) -> torch.Tensor:
    """Weights of the steps in the averages over time: 0 where there is padding."""
    time = torch.arange(len(batch.backwards), device=batch.backwards.device)
    inside = time[:, None, None] < batch.lengths
    return (inside / batch.lengths.clamp(min=1.0))[..., None]


def _losses(
    values: Mapping[str, torch.Tensor], averages: torch.Tensor, batch: Batch, kl_weight: float
) -> torch.Tensor:
    """Sum over the autoencoders of their mean losses; see `sequence_vae.losses`."""
    mean = _linear(values, "latent_mean", averages)
    deviation = _positive(_linear(values, "latent_deviation", averages))
    latent = mean + deviation * batch.noise
    divergence = 0.5 * (mean**2 + deviation**2 - 1.0).sum(dim=2) - deviation.log().sum(dim=2)
    before, after = batch.forwards[:, :, :-1], batch.forwards[:, :, 1:]
    expected = _decoded(values, "next_mean", before, latent)
    width = _positive(_decoded(values, "next_deviation", before, latent))
    surprise = 0.5 * ((after - expected) / width) ** 2 + width.log() + HALF_LOG_2PI
    time = torch.arange(before.shape[2], device=before.device)
    last = batch.lengths[..., None] - 1.0
    sums = (surprise.sum(dim=3) * (time < last)).sum(dim=2)
    losses = kl_weight * divergence + sums / last[..., 0].clamp(min=1.0)
    there = (batch.lengths > 0).float()
    return (losses * there / there.sum(dim=1, keepdim=True)).sum()


def _linear(values: Mapping[str, torch.Tensor], name: str, x: torch.Tensor) -> torch.Tensor:
    """Apply the layer of each autoencoder to its rows, (n_autoencoders, rows, inputs)."""
    return torch.baddbmm(values[f"{name}_offset"][:, None], x, values[name].transpose(1, 2))


def _decoded(
    values: Mapping[str, torch.Tensor], name: str, rows: torch.Tensor, latent: torch.Tensor
) -> torch.Tensor:
    """Apply a layer to (row, latent of its trajectory); the latent's part once a trajectory."""
    n_inputs = rows.shape[-1]
    weights = values[name].transpose(1, 2)
    own = torch.bmm(rows.flatten(1, 2), weights[:, :n_inputs])
    shared = torch.baddbmm(values[f"{name}_offset"][:, None], latent, weights[:, n_inputs:])
    return own.view(rows.shape) + shared[:, :, None]


def _positive(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.softplus(x) + SMALLEST


# ---- the LSTM of each autoencoder, one step of all of them at a time ----

_Kept = list[tuple[torch.Tensor, torch.Tensor]]


def _lstm(values: Mapping[str, torch.Tensor], x: torch.Tensor) -> tuple[torch.Tensor, _Kept]:
    """Outputs (time, n_autoencoders, batch, units), and cells and gates that the gradient needs."""
    longest, n_autoencoders, size, n_inputs = x.shape
    recurrent = values["recurrent"].transpose(1, 2)
    n_units = recurrent.shape[1]
    offsets = values["input_offset"] + values["recurrent_offset"]
    rows = x.transpose(0, 1).reshape(n_autoencoders, -1, n_inputs)
    inputs = torch.baddbmm(offsets[:, None], rows, values["input"].transpose(1, 2))
    inputs = inputs.view(n_autoencoders, longest, size, -1).transpose(0, 1).contiguous()
    outputs = x.new_empty(longest, n_autoencoders, size, n_units)
    output, cell = x.new_zeros(2, n_autoencoders * size, n_units)
    kept: _Kept = []
    for t, own in enumerate(inputs.flatten(1, 2)):
        before = output.view(n_autoencoders, size, n_units)
        gates = torch.bmm(before, recurrent).view(n_autoencoders * size, -1)
        output, after, activations = _step(own, gates, cell)
        kept.append((cell, activations))
        outputs[t] = output.view(n_autoencoders, size, n_units)
        cell = after
    kept.append((cell, cell))
    return outputs, kept


def _lstm_gradients(
    values: Mapping[str, torch.Tensor],
    x: torch.Tensor,
    outputs: torch.Tensor,
    kept: _Kept,
    slopes: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Gradients by the weights of the LSTM, given those by its outputs (back through time)."""
    longest, n_autoencoders, size, n_units = outputs.shape
    recurrent = values["recurrent"]
    by_gates = x.new_empty(longest, n_autoencoders, size, 4 * n_units)
    slope = slopes[-1]
    by_cell = x.new_zeros(n_autoencoders * size, n_units)
    for t in range(longest - 1, -1, -1):
        cell, activations = kept[t]
        gates, by_cell = _step_back(slope.flatten(0, 1), by_cell, cell, kept[t + 1][0], activations)
        by_gates[t] = gates.view(n_autoencoders, size, -1)
        if t:
            slope = torch.baddbmm(slopes[t - 1], by_gates[t], recurrent)
    rows = by_gates.transpose(0, 1).reshape(n_autoencoders, -1, 4 * n_units)
    before = torch.cat([torch.zeros_like(outputs[:1]), outputs[:-1]])
    offsets = rows.sum(dim=1)
    return {
        "input": torch.bmm(rows.transpose(1, 2), _rows_of(x)),
        "recurrent": torch.bmm(rows.transpose(1, 2), _rows_of(before)),
        "input_offset": offsets,
        "recurrent_offset": offsets,
    }


def _rows_of(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(0, 1).reshape(x.shape[1], -1, x.shape[-1])


def _step(
    own: torch.Tensor, gates: torch.Tensor, cell: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Output, new cell and activations of the gates, of rows of (input, forget, new, output)."""
    if own.is_cuda:  # one kernel instead of ten
        output, after, activations = torch.ops.aten._thnn_fused_lstm_cell(own, gates, cell)
        return output, after, activations
    a, b, c, d = (own + gates).chunk(4, dim=1)
    activations = torch.cat([a.sigmoid(), b.sigmoid(), c.tanh(), d.sigmoid()], dim=1)
    enter, keep, new, leave = activations.chunk(4, dim=1)
    after = keep * cell + enter * new
    return leave * after.tanh(), after, activations


def _step_back(
    by_output: torch.Tensor,
    by_cell: torch.Tensor,
    cell: torch.Tensor,
    after: torch.Tensor,
    activations: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients by the gates before their activation, and by the cell before the step."""
    if by_output.is_cuda:
        by_gates, by_before, _ = torch.ops.aten._thnn_fused_lstm_cell_backward_impl(
            by_output, by_cell, cell, after, activations, False
        )
        return by_gates, by_before
    enter, keep, new, leave = activations.chunk(4, dim=1)
    shown = after.tanh()
    total = by_cell + by_output * leave * (1.0 - shown**2)
    parts = [
        total * new * enter * (1.0 - enter),
        total * cell * keep * (1.0 - keep),
        total * enter * (1.0 - new**2),
        by_output * shown * leave * (1.0 - leave),
    ]
    return torch.cat(parts, dim=1), total * keep


def _sent(array: NDArray[np.int64] | Array, device: torch.device) -> torch.Tensor:
    """Bring an array to the device, without waiting for what is at work there."""
    here = torch.from_numpy(array)
    return here.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else here
