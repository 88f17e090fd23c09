"""The autoencoder of trajectories: padded against one at a time, its loss, and what it sees."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pivec import Gaussian, PolicyEncoder  # noqa: E402
from pivec.characterizations import torch_networks as vae  # noqa: E402
from pivec.errors import MissingExtra, UsageError  # noqa: E402
from pivec.states import VisitedStates  # noqa: E402

SMALL = {"n_units": 16, "n_latent": 4, "epochs": 20, "learning_rate": 0.01, "kl_weight": 0.01}


def make_sequences(rng, lengths=(5, 1, 12, 7, 7, 3), features=3):
    return [rng.normal(size=(n, features)).astype(np.float32) for n in lengths]


def plain_latents(weights, sequence):
    """The paper's encoder for one trajectory: torch's bidirectional LSTM, its backward half."""
    n_units = weights["recurrent"].shape[1]
    lstm = torch.nn.LSTM(sequence.shape[1], n_units, bidirectional=True)
    for ours, theirs in (
        ("input", "weight_ih"),
        ("recurrent", "weight_hh"),
        ("input_offset", "bias_ih"),
        ("recurrent_offset", "bias_hh"),
    ):
        getattr(lstm, f"{theirs}_l0_reverse").data = torch.tensor(weights[ours])
    outputs, _ = lstm(torch.from_numpy(sequence)[:, None])
    average = outputs[:, 0, n_units:].mean(dim=0).detach().double().numpy()
    mean = weights["latent_mean"] @ average + weights["latent_mean_offset"]
    wide = weights["latent_deviation"] @ average + weights["latent_deviation_offset"]
    return mean, np.log1p(np.exp(wide)) + 1e-6


def plain_loss(weights, sequence, noise, kl_weight):
    mean, deviation = plain_latents(weights, sequence)
    z = mean + deviation * noise
    kl = sum(0.5 * (m**2 + s**2 - 1) - np.log(s) for m, s in zip(mean, deviation, strict=True))
    total = 0.0
    for before, after in pairwise(sequence):
        context = np.concatenate([before, z])
        m = weights["next_mean"] @ context + weights["next_mean_offset"]
        s = weights["next_deviation"] @ context + weights["next_deviation_offset"]
        s = np.log1p(np.exp(s)) + 1e-6
        total += (-0.5 * ((after - m) / s) ** 2 - np.log(s) - 0.5 * np.log(2 * np.pi)).sum()
    return kl_weight * kl - total / max(1, len(sequence) - 1)


def test_padded_encoding_equals_one_trajectory_at_a_time(rng):
    sequences = make_sequences(rng, lengths=rng.integers(1, 40, 150))
    weights = vae.starting_weights(rng, 3, 8, 5)
    means, deviations = vae.encode(weights, sequences)
    for i in range(0, 150, 7):
        mean, deviation = plain_latents(weights, sequences[i])
        assert np.allclose(means[i], mean, atol=1e-5)
        assert np.allclose(deviations[i], deviation, atol=1e-5)


@pytest.mark.parametrize("kl_weight", [1.0, 0.1])
def test_the_loss_is_that_of_the_paper(rng, kl_weight):
    sequences = sorted(make_sequences(rng), key=len, reverse=True)
    weights = vae.starting_weights(rng, 3, 8, 5)
    noise = rng.normal(size=(6, 5)).astype(np.float32)
    model = vae.SequenceVAE.of(weights)
    mine = model.losses(vae.Padded.of(sequences), torch.from_numpy(noise), kl_weight).detach()
    plain = [
        plain_loss(weights, sequence, e, kl_weight)
        for sequence, e in zip(sequences, noise, strict=True)
    ]
    assert np.allclose(mine.numpy(), plain, atol=1e-4)


@pytest.mark.parametrize("worth", [1, 1 << 30])
def test_gradients_in_parts_are_those_of_the_whole_batch(rng, monkeypatch, worth):
    monkeypatch.setattr(vae, "_WORTH", worth)
    sequences = sorted(make_sequences(rng), key=len, reverse=True)
    weights = vae.starting_weights(rng, 3, 8, 5)
    model = vae.SequenceVAE.of(weights)
    noise = rng.normal(size=(6, 5)).astype(np.float32)
    loss = model.losses(vae.Padded.of(sequences), torch.from_numpy(noise))
    expected = torch.autograd.grad(loss.mean(), list(model.parameters()))
    for mine, plain in zip(vae.gradients(model, sequences, noise, 1.0), expected, strict=True):
        assert torch.allclose(mine, plain, atol=1e-6)


def test_training_lowers_the_loss(rng):
    sequences = [np.cumsum(s, axis=0) / 3 for s in make_sequences(rng, lengths=[20] * 24)]
    start = vae.starting_weights(rng, 3, 8, 2)
    settings = {"batch_size": 8, "learning_rate": 0.01, "kl_weight": 1.0, "rng": rng}
    trained = vae.train_autoencoder(start, sequences, epochs=10, **settings)
    padded, noise = vae.Padded.of(sequences), torch.zeros(24, 2)

    def loss(weights):
        return float(vae.SequenceVAE.of(weights).losses(padded, noise).mean().detach())

    assert loss(trained) < loss(start) - 0.5


def test_batches_hold_every_sequence_once_and_are_alike_in_length(rng):
    lengths = rng.integers(1, 500, 300)
    batches = vae.batches(lengths, 8, rng)
    assert sorted(np.concatenate(batches)) == list(range(300))
    assert all((np.diff(lengths[batch]) <= 0).all() for batch in batches)
    padding = sum(lengths[b].max() * len(b) - lengths[b].sum() for b in batches)
    assert padding < 0.1 * lengths.sum()


def test_the_distance_is_the_divergence_of_gaussians_over_sampled_latents(walks):
    method = PolicyEncoder(**SMALL).fit(walks)
    vectors = method.describe(walks).vectors
    d = method.distances(walks)
    mean, variance = vectors[:, :4], vectors[:, 4:]

    def kl(i, j):
        ratio = variance[i] / variance[j]
        shift = (mean[j] - mean[i]) ** 2 / variance[j]
        return 0.5 * (ratio + shift - 1 - np.log(ratio)).sum()

    assert d[0, 1] == pytest.approx(kl(0, 1) + kl(1, 0))
    assert d[2, 5] == pytest.approx(kl(2, 5) + kl(5, 2))


def test_it_sees_the_order_of_states_that_a_gaussian_cannot(rng):
    """Rising and falling walks over the same states."""
    rising = [np.linspace(-1, 1, 20)[:, None] + 0.01 * rng.normal(size=(20, 1)) for _ in range(24)]
    data = VisitedStates.from_arrays([rising[:8], rising[8:16], [s[::-1] for s in rising[16:]]])
    d = PolicyEncoder(**SMALL | {"epochs": 100}).fit(data).distances(data)
    assert min(d[0, 2], d[1, 2]) > 5 * d[0, 1]
    flat = Gaussian().fit(data).distances(data)
    assert flat.max() < 0.1


def test_equal_trajectories_have_equal_latents(walks):
    episodes = list(walks[0].episodes())
    data = VisitedStates.from_arrays([episodes, list(walks[2].episodes()), episodes])
    d = PolicyEncoder(**SMALL).fit(data).distances(data)
    assert d[0, 2] == 0
    assert d[0, 1] == pytest.approx(d[2, 1])
    assert d[0, 1] > 0


def test_unseen_policies_and_single_states_are_described(walks):
    method = PolicyEncoder(**SMALL).fit(walks.select([0, 1, 2]))
    assert method.distances(walks).shape == (6, 6)
    single = VisitedStates.from_arrays([[np.zeros((1, 3))], [np.ones((1, 3))]])
    d = method.distances(single)
    assert np.isfinite(d).all()
    assert np.isfinite(PolicyEncoder(**SMALL).fit(single).distances(single)).all()


def test_same_seed_same_numbers_and_global_state_left_alone(walks):
    torch.manual_seed(3)
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    a, b = (PolicyEncoder(**SMALL).fit(walks).describe(walks).vectors for _ in range(2))
    assert np.array_equal(a, b)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    c = PolicyEncoder(**SMALL, random_state=1).fit(walks).describe(walks).vectors
    assert not np.allclose(a, c)


def test_mistakes_are_named(walks, monkeypatch):
    with pytest.raises(UsageError, match="n_latent"):
        PolicyEncoder(n_latent=0).fit(walks)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"encoder.*pivec\[torch\]"):
        PolicyEncoder().fit(walks)
