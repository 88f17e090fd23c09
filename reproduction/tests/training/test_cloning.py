"""Cloning: an epoch a checkpoint, closer and closer to the expert."""

from __future__ import annotations

import numpy as np
import pytest
from training_worlds import Follow, Switches

import pivec
from pivec.errors import UsageError
from pivec.policies import NetworkPolicy, load_policies
from reproduction.training.cloning import clone, orthogonal

torch = pytest.importorskip("torch")


def lean(observations):
    return (observations[:, 2] + observations[:, 3] > 0).astype(int)


def half(observations):
    return (0.5 * observations).astype(np.float32)


@pytest.mark.parametrize("shape", [(3, 2), (2, 3)])
def test_first_weights_are_orthogonal(shape):
    weight = orthogonal(np.random.default_rng(0), *shape, gain=2.0)
    small = weight.T @ weight if shape[0] > shape[1] else weight @ weight.T
    np.testing.assert_allclose(small, 4 * np.eye(2), atol=1e-12)


def test_a_discrete_expert_is_approached(tmp_path):
    run = clone(lean, "CartPole-v1", tmp_path / "bc", trajectories=3, epochs=15, learning_rate=3e-3)
    kept = load_policies(run.folder)
    assert [named.info.step for named in kept] == list(range(1, 16))
    data = pivec.collect("CartPole-v1", {"expert": lean}, 3, seed=9)
    expected = lean(data.states)
    right = []
    for named in (kept[0], kept[-1]):
        chances = named.policy.distribution(data.states)
        right.append(chances[np.arange(len(expected)), expected].mean())
    assert right[0] < right[1]
    assert right[1] > 0.85
    losses = [named.info.metadata["loss"] for named in kept]
    assert losses[-1] < losses[0]
    assert kept[0].info.metadata["expert_return"] == run.mean_return > 100


def test_a_real_expert_is_approached(tmp_path):
    run = clone(half, Follow, tmp_path, trajectories=40, epochs=40, learning_rate=3e-3)
    last = load_policies(run.folder / "epoch_40.safetensors")[0].policy
    rows = np.linspace(-1, 1, 21, dtype=np.float32)[:, None]
    mean, std = last.distribution(rows)
    np.testing.assert_allclose(mean, 0.5 * rows, atol=0.1)
    assert std.max() < 0.5
    assert last.low == -1


def test_finished_runs_are_kept_and_others_refused(tmp_path):
    first = clone(lean, "CartPole-v1", tmp_path, trajectories=1, epochs=2)
    before = load_policies(tmp_path / "epoch_2.safetensors")[0].policy.fingerprint
    again = clone(lean, "CartPole-v1", tmp_path, trajectories=1, epochs=2)
    assert (first.reused, again.reused) == (False, True)
    with pytest.raises(UsageError, match="epochs is 2 there and 3 here"):
        clone(lean, "CartPole-v1", tmp_path, trajectories=1, epochs=3)
    with pytest.raises(UsageError, match="expert is"):
        clone("random", "CartPole-v1", tmp_path, trajectories=1, epochs=2)
    # The same seed gives the same, wherever it is written.
    clone(lean, "CartPole-v1", tmp_path / "b", trajectories=1, epochs=2)
    [same] = load_policies(tmp_path / "b" / "epoch_2.safetensors")
    assert same.policy.fingerprint == before


def test_global_numbers_are_left_alone(tmp_path):
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    numbers = np.random.get_state()[1]  # noqa: NPY002
    clone(lean, "CartPole-v1", tmp_path, trajectories=1, epochs=1)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    np.testing.assert_array_equal(np.random.get_state()[1], numbers)  # noqa: NPY002


def test_entropy_keeps_the_clone_undecided(tmp_path):
    states = pivec.collect("CartPole-v1", {"expert": lean}, 2, seed=9).states

    def sure(weight):
        run = clone(
            lean,
            "CartPole-v1",
            tmp_path / str(weight),
            trajectories=2,
            epochs=20,
            learning_rate=3e-3,
            entropy_weight=weight,
        )
        policy = load_policies(run.folder / "epoch_20.safetensors")[0].policy
        assert isinstance(policy, NetworkPolicy)
        return policy.distribution(states).max(axis=1).mean()

    # Where −log p − H(p) is least, p is 0.78; without H it goes to 1.
    assert sure(0.0) > sure(1.0) + 0.1


def test_mistakes_are_told(tmp_path):
    with pytest.raises(UsageError, match="one expert"):
        clone("random:2", "CartPole-v1", tmp_path)
    with pytest.raises(UsageError, match="epochs must be"):
        clone(lean, "CartPole-v1", tmp_path, epochs=0)
    still = lambda observations: np.zeros((len(observations), 2), np.int8)  # noqa: E731
    with pytest.raises(UsageError, match="MultiBinary"):
        clone(still, Switches, tmp_path / "c", trajectories=1)
