"""States seen with the eyes of a policy: its last hidden layer, whoever acts."""

from __future__ import annotations

import pickle
from dataclasses import replace

import gymnasium
import numpy as np
import pytest

import pivec
from pivec.errors import BadPolicyFile, PivecWarning, UsageError
from pivec.policies import NetworkPolicy, Normaliser, Options, save_policy
from pivec.rollouts import features_to_json, find_features_again
from pivec.rollouts.features import PolicyLatent, load_features

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(7, 4)).astype(np.float32)


def network(seed, activation="tanh", **changes):
    rng = np.random.default_rng(seed)
    sizes = [(4, 6), (6, 5), (5, 2)]
    layers = tuple((rng.normal(size=size), rng.normal(size=size[1])) for size in sizes)
    return NetworkPolicy(layers, activation, "categorical", **changes)


@pytest.fixture
def runs(tmp_path):
    for step in (5, 100, 20):
        path = tmp_path / "run" / f"step_{step}.safetensors"
        save_policy(network(step), path, {"step": step})
    return tmp_path / "run"


def test_it_is_the_layer_before_the_outputs():
    policy = network(1, "relu", normaliser=Normaliser.of_variance(np.ones(4), np.full(4, 4.0)))
    x = (ROWS.astype(float) - 1) / np.sqrt(4 + 1e-8)
    for weight, bias in policy.layers[:-1]:
        x = np.maximum(x @ weight.astype(float) + bias, 0)
    eyes = PolicyLatent(policy)
    np.testing.assert_allclose(eyes(ROWS), x, rtol=1e-4, atol=1e-5)
    assert eyes.names == tuple(f"latent[{i}]" for i in range(5))


def test_of_exploration_that_depends_on_the_state_too():
    plain = network(1)
    std = np.ones((5, 2), np.float32)
    options = Options(deviations="plain", squash=False)
    explorer = replace(plain, head="state_gaussian", options=options, state_std=std)
    np.testing.assert_array_equal(PolicyLatent(explorer)(ROWS), PolicyLatent(plain)(ROWS))


@pytest.mark.bits
def test_a_row_does_not_depend_on_its_company():
    eyes = PolicyLatent(network(1))
    whole = eyes(ROWS)
    for n in (1, 2, 5):
        np.testing.assert_array_equal(eyes(ROWS[-n:]), whole[-n:])


def test_the_one_trained_longest_sees_for_all_in_any_order(runs):
    with pytest.warns(PivecWarning, match="step_100"):
        first = pivec.collect("CartPole-v1", str(runs), 2, features="policy")
    paths = [str(runs / f"step_{step}.safetensors") for step in (100, 20, 5)]
    with pytest.warns(PivecWarning, match="step_100"):
        second = pivec.collect("CartPole-v1", paths, 2, features="policy", n_envs=1)
    assert first.feature_names == tuple(f"latent[{i}]" for i in range(5))
    plain = pivec.collect("CartPole-v1", str(runs), 2)
    expected = network(100).latent(plain.states)
    np.testing.assert_array_equal(first.states, expected)
    for step in (5, 20, 100):
        np.testing.assert_array_equal(
            first[f"run/step_{step}"].states, second[f"run/step_{step}"].states
        )


def test_by_label_by_path_and_as_an_object(runs):
    path = str(runs / "step_20.safetensors")
    data = [
        pivec.collect("CartPole-v1", {"a": path, "b": "random"}, 2, features=features)
        for features in (
            "policy:a",
            f"policy:{path}",
            PolicyLatent(path),
            PolicyLatent(network(20)),
        )
    ]
    for other in data[1:]:
        np.testing.assert_array_equal(other.states, data[0].states)


def test_a_store_goes_on_with_the_eyes_it_was_begun_with(runs, tmp_path):
    paths = [str(runs / f"step_{step}.safetensors") for step in (5, 20, 100)]
    store = tmp_path / "states"
    with pytest.warns(PivecWarning, match="step_20"):
        pivec.collect("CartPole-v1", paths[:2], 2, features="policy", store=store)
    data = pivec.collect("CartPole-v1", paths, 2, features="policy", store=store)
    plain = pivec.collect("CartPole-v1", paths, 2)
    np.testing.assert_array_equal(data.states, network(20).latent(plain.states))
    # The policy need not act to be found again; but it must be the same.
    pivec.collect("CartPole-v1", paths[2:], 3, features="policy", store=store)
    save_policy(network(7), paths[1], {"step": 20})
    with pytest.raises(BadPolicyFile, match=r"step_20\.safetensors .*changed"):
        pivec.collect("CartPole-v1", paths[2:], 4, features="policy", store=store)
    (runs / "step_20.safetensors").unlink()
    with pytest.raises(UsageError, match=r"step_20\.safetensors .*not exist"):
        pivec.collect("CartPole-v1", paths[2:], 4, features="policy", store=store)


def test_it_travels_and_its_name_finds_it_again(runs):
    path = str(runs / "step_20.safetensors")
    env = gymnasium.make("CartPole-v1")
    eyes = PolicyLatent(path).bind(env)
    again = pickle.loads(pickle.dumps(eyes))
    np.testing.assert_array_equal(again(ROWS), eyes(ROWS))
    kept = features_to_json(eyes)
    assert features_to_json(again) == kept
    [named] = pivec.load_policies(path)

    def find(source, fingerprint):
        return {(path, named.info.fingerprint): named}[source, fingerprint]

    for asked in (None, "policy"):
        assert features_to_json(find_features_again(asked, kept, find_policy=find)) == kept
    with pytest.raises(UsageError, match=r"step_20\.safetensors"):
        find_features_again(None, kept)


def test_who_has_no_hidden_layer_is_told(runs):
    linear = NetworkPolicy(((np.eye(2), np.zeros(2)),), "tanh", "categorical")
    with pytest.raises(UsageError, match="hidden layer"):
        PolicyLatent(linear)
    with pytest.raises(UsageError, match=r"random .*hidden layer"):
        load_features("policy:random")
    with pytest.raises(UsageError, match=r"policy:runs/best.zip"):
        load_features("policy")
    with pytest.raises(UsageError, match="run/step_5, run/step_20, run/step_100"):
        load_features(f"policy:{runs}")
