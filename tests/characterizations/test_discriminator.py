"""The discriminators: batched training against one plain network each, and the distance."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pivec import Discriminator  # noqa: E402
from pivec.characterizations import torch_networks as discriminators  # noqa: E402
from pivec.characterizations import torch_networks as mlp  # noqa: E402
from pivec.characterizations.networks import in_key_order, row_keys, set_key  # noqa: E402
from pivec.characterizations.torch_networks import Batches, Discriminators, slope_of_loss  # noqa: E402
from pivec.errors import MissingExtra, UsageError  # noqa: E402
from pivec.parallel import single_threaded_torch  # noqa: E402
from pivec.states import VisitedStates  # noqa: E402

SMALL = {"n_units": 16, "epochs": 20, "learning_rate": 0.01}


def plain_network(row, sizes):
    """The same network as torch's own layers."""
    layers = mlp.stacked(row[None], sizes)
    modules = []
    for weights, offsets in zip(layers[::2], layers[1::2], strict=True):
        linear = torch.nn.Linear(*weights.shape[1:])
        linear.weight.data, linear.bias.data = weights[0].T.clone(), offsets[0, 0].clone()
        modules += [linear, torch.nn.Tanh()]
    return torch.nn.Sequential(*modules[:-1])


def outputs(row, sizes, x):
    layers = mlp.stacked(row[None], sizes)
    return mlp.forward(layers, torch.from_numpy(x)[None])[1][0].numpy()


def train_plainly(row, own, batches, others, how):
    """The paper's loop: one network, autograd, torch's Adam."""
    network = plain_network(row, how.sizes)
    optimiser = torch.optim.Adam(network.parameters(), lr=how.learning_rate)
    n_updates, size = int(np.ceil(how.epochs * len(own) / how.batch_size)), how.batch_size
    numbers = [batches.draw(64 * size) for _ in range(-(-n_updates // 64))]
    mine, theirs = (np.concatenate(some) for some in zip(*numbers, strict=True))
    for t in range(n_updates):
        batch = slice(t * size, (t + 1) * size)
        a = torch.sigmoid(network(torch.tensor(own[mine[batch]])).clamp(-how.clip, how.clip))
        b = torch.sigmoid(network(torch.tensor(others[theirs[batch]])).clamp(-how.clip, how.clip))
        loss = -torch.log(a).mean() - torch.log(1 - b).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return network


def test_the_batched_network_equals_networks_trained_one_by_one(rng):
    """Policies of different size, so that some networks are done before others."""
    how = Discriminators((3, 8, 8, 8, 1), 3.0, 16, 1e-3, 10.0)
    own = [rng.normal(i, 1, (n, 3)).astype(np.float32) for i, n in enumerate((400, 150, 40))]
    others = rng.normal(0, 2, (500, 3)).astype(np.float32)
    start = np.stack([mlp.starting_values(rng, how.sizes) for _ in own])

    def batches():
        return [
            Batches(np.random.default_rng(i), len(states), 500, (10 * i, 20 * i))
            for i, states in enumerate(own)
        ]

    with single_threaded_torch():
        together = how.train(start.copy(), own, batches(), others)
        plain = [
            train_plainly(start[i], own[i], stream, others, how)
            for i, stream in enumerate(batches())
        ]
    for i, network in enumerate(plain):
        alone = network(torch.from_numpy(others)).detach().numpy()
        batched = outputs(together[i], how.sizes, others)
        assert np.abs(batched - outputs(start[i], how.sizes, others)).max() > 0.05
        assert np.allclose(batched, alone, atol=1e-5)


def test_gradients_equal_those_of_autograd(rng):
    sizes = [2, 5, 4, 3]
    layers = [p.double() for p in mlp.stacked(mlp.starting_values(rng, sizes)[None], sizes)]
    for part in layers:
        part.requires_grad_()
    x = torch.tensor(rng.normal(size=(1, 7, 2)))
    weights = torch.tensor(rng.normal(size=(1, 7, 3)))
    h = x
    for i in (0, 2):
        h = torch.tanh(h @ layers[i] + layers[i + 1])
    outputs = h @ layers[4] + layers[5]
    expected = torch.autograd.grad((outputs * weights).sum(), layers)
    with torch.no_grad():
        inputs, mine = mlp.forward(layers, x)
        assert torch.allclose(mine, outputs)
        for gradient, wanted in zip(mlp.backward(layers, inputs, weights), expected, strict=True):
            assert torch.allclose(gradient, wanted)


def test_the_slope_is_that_of_the_papers_loss_and_none_beyond_the_clip():
    logits = torch.tensor([[[0.3], [-1.0], [11.0], [2.0], [-0.5], [-12.0]]], requires_grad=True)
    clipped = torch.sigmoid(logits.clamp(-10, 10))
    loss = -torch.log(clipped[:, :3]).mean() - torch.log(1 - clipped[:, 3:]).mean()
    (expected,) = torch.autograd.grad(loss, logits)
    slope = slope_of_loss(logits.detach(), 10.0)
    assert torch.allclose(slope, expected)
    assert slope[0, 2] == 0
    assert slope[0, 5] == 0


def test_batches_pass_over_the_own_states_and_leave_them_out_of_the_others():
    batches = Batches(np.random.default_rng(0), 10, 30, (5, 15))
    own, others = zip(*(batches.draw(8) for _ in range(200)), strict=True)
    epochs = np.concatenate(own).reshape(-1, 10)
    assert (np.sort(epochs, axis=1) == np.arange(10)).all()
    assert set(np.concatenate(others)) == set(range(30)) - set(range(5, 15))


def test_alone_in_the_fit_a_policy_is_compared_with_its_own_states(walks):
    method = Discriminator(**SMALL, zero_diagonal=False).fit(walks[0])
    assert np.isfinite(method.distances(walks)).all()


def test_the_distance_is_the_papers_formula_over_the_kept_states(walks):
    method = Discriminator(**SMALL, max_states=50).fit(walks)
    described = method.describe(walks)
    d = method.distances(described)
    starts = described.arrays["states.starts"]
    assert (np.diff(starts) == 50).all()

    def one_way(i, j):
        network = plain_network(described.arrays["weights"][i], [3, 16, 16, 16, 1])
        states = described.arrays["states"][starts[j] : starts[j + 1]]
        logits = network(torch.from_numpy(states)).detach().double().clamp(-10, 10)
        odds = torch.sigmoid(logits) / (1 - torch.sigmoid(logits))
        return float((1 / odds).mean())

    for i, j in ((0, 1), (2, 5), (4, 3)):
        assert d[i, j] == pytest.approx(one_way(i, j) + one_way(j, i), rel=1e-4)


AUTHORS = {
    "standardise": False, "max_background": None, "max_states": None, "zero_diagonal": False
}  # fmt: skip


def test_the_authors_distance_is_the_formula_over_all_states_with_its_diagonal(walks, monkeypatch):
    """Slowly, in float64, on states as they are, a policy and itself like any other two."""
    monkeypatch.setattr(discriminators, "_ROWS", 100)  # several parts a policy
    scaled = VisitedStates.from_arrays(
        [[100.0 + 3.0 * episode for episode in walks[i].episodes()] for i in (0, 2, 5)]
    )
    method = Discriminator(**SMALL | {"epochs": 2}, **AUTHORS).fit(scaled)
    described = method.describe(scaled)
    assert len(described.arrays["states"]) == len(method.background_) == scaled.n_states
    d = method.distances(described)

    def one_way(i, j):
        row, total = described.arrays["weights"][i].astype(np.float64), 0.0
        for state in scaled.policy_states(j).astype(np.float64):
            h, at = state, 0
            for n, m in pairwise([3, 16, 16, 16, 1]):
                layer = row[at : at + (n + 1) * m].reshape(n + 1, m)
                h, at = h @ layer[:n] + layer[n], at + (n + 1) * m
                h = h if m == 1 else np.tanh(h)
            total += np.exp(-np.clip(h[0], -10, 10))
        return total / len(scaled.policy_states(j))

    expected = [[one_way(i, j) + one_way(j, i) for j in range(3)] for i in range(3)]
    # Single precision, of networks whose inputs are about a hundred.
    np.testing.assert_allclose(d, expected, rtol=1e-4)
    assert (np.diag(d) > 0.01).all()
    np.testing.assert_array_equal(d, method.distances(described, described))


def test_an_ideal_network_gives_the_ratio_of_densities():
    """N(0,1) against N(1,1): log r = ½ - x, and the mean of 1/r over N(1,1) is e."""
    rng = np.random.default_rng(0)
    row = np.array([[-1.0, 0.5]], dtype=np.float32)
    states = rng.normal(1, 1, (200_000, 1)).astype(np.float32)
    network = Discriminators([1, 1], 30, 128, 1e-3, 10.0)
    means = network.mean_inverse_ratios(row, [states, states - 1])
    assert means[0] == pytest.approx([np.e, 1.0], rel=0.02)


def test_far_policies_are_farther_than_copies_and_overlaps(rng):
    states = [[rng.normal(m, 1, (300, 2))] for m in (0, 0, 4, 4)]
    data = VisitedStates.from_arrays(states)
    d = Discriminator(**SMALL).fit(data).distances(data)
    near, far = [d[0, 1], d[2, 3]], [d[0, 2], d[0, 3], d[1, 2], d[1, 3]]
    assert min(far) > 5 * max(near)
    # One of three others is alike: where it is, the others are a third as dense, 1/r = 1/3. A small
    # network on 300 states gave 0.63 to 0.86 with six seeds.
    assert all(1 / 3 < d < 4 / 3 for d in near)


def test_the_same_states_are_the_same_policy(walks):
    episodes = list(walks[0].episodes())
    data = VisitedStates.from_arrays([episodes, episodes[::-1], list(walks[2].episodes())])
    d = Discriminator(**SMALL).fit(data).distances(data)
    assert d[0, 1] == 0
    assert d[0, 2] == d[1, 2] > 1


def test_unseen_policies_are_told_from_all_of_the_fit(walks):
    method = Discriminator(**SMALL).fit(walks.select([0, 1, 2]))
    assert len(method.background_) == 720
    d = method.distances(walks)
    assert d[2, 5] > 3 * d[0, 3]
    # Described alone or with others, a policy is the same but for rounding.
    assert np.allclose(method.distances(walks.select([0, 5])), d[np.ix_([0, 5], [0, 5])], rtol=1e-3)


def test_the_background_is_bounded_and_even(walks):
    method = Discriminator(**SMALL, max_background=300).fit(walks)
    assert method.background_.shape == (300, 3)
    counts = np.diff(method.background_starts_)
    assert counts.sum() == 300
    assert counts.min() > 25


def test_random_numbers_of_torch_are_left_alone(walks):
    torch.manual_seed(3)
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    Discriminator(**SMALL).fit(walks).distances(walks)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_seeds_differ(walks):
    a, b = (
        Discriminator(**SMALL, random_state=seed).fit(walks).distances(walks) for seed in (0, 1)
    )
    assert not np.allclose(a, b, rtol=1e-3)


def test_keys_tell_rows_apart_but_not_their_order(rng):
    rows = rng.normal(size=(1000, 3)).astype(np.float32)
    assert len(set(row_keys(rows).tolist())) == 1000
    shuffled = rng.permutation(rows)
    assert set_key(rows) == set_key(shuffled) != set_key(rows[:-1])
    assert np.array_equal(in_key_order(rows), in_key_order(shuffled))
    other = rows.copy()
    other[5, 1] = np.nextafter(other[5, 1], np.float32(9))
    assert set_key(other) != set_key(rows)


def test_groups_are_bounded_by_memory():
    paper = Discriminators((24, 256, 256, 256, 1), 30, 128, 1e-3, 10.0)
    assert 2 <= paper.group_size() <= 8
    assert Discriminators((4, 8, 1), 30, 16, 1e-3, 10.0).group_size() == 64
    assert Discriminators((4, 4096, 4096, 1), 30, 128, 1e-3, 10.0).group_size() == 1


def test_without_torch_the_extra_is_named(walks, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"discriminator.*pivec\[torch\]"):
        Discriminator().fit(walks)


@pytest.mark.parametrize("setting", ["n_units", "epochs", "batch_size", "clip", "max_states"])
def test_settings_that_make_no_sense_are_named(walks, setting):
    with pytest.raises(UsageError, match=f"{setting} must be a"):
        Discriminator(**{setting: 0}).fit(walks)
