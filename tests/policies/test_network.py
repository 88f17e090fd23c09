"""Networks as policies: against a plain float64 formula, and against spaces that do not fit."""

from __future__ import annotations

import math
import pickle
from itertools import pairwise

import gymnasium
import numpy as np
import pytest

from pivec.errors import UsageError
from pivec.policies import ACTIVATIONS, BatchPolicy, NetworkPolicy, Policy

Box, Discrete = gymnasium.spaces.Box, gymnasium.spaces.Discrete


def make(sizes, seed=0, activation="tanh", head="categorical", **extra):
    rng = np.random.default_rng(seed)
    layers = tuple(
        (rng.normal(size=(a, b)) / np.sqrt(a), rng.normal(size=b)) for a, b in pairwise(sizes)
    )
    if head == "gaussian":
        extra.setdefault("log_std", rng.normal(size=sizes[-1]) * 0.3)
    return NetworkPolicy(layers, activation, head, **extra)


SLOW = {
    "tanh": math.tanh,
    "relu": lambda x: max(x, 0.0),
    "elu": lambda x: x if x > 0 else math.exp(x) - 1,
    "leaky_relu": lambda x: x if x > 0 else 0.01 * x,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "softplus": lambda x: math.log1p(math.exp(x)),
    "identity": lambda x: x,
}


def slow_outputs(policy, observations):
    x = np.asarray(observations, float)
    for i, (weight, bias) in enumerate(policy.layers):
        x = x @ weight.astype(float) + bias.astype(float)
        if i < len(policy.layers) - 1:
            x = np.vectorize(SLOW[policy.activation])(x)
    return x


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_probabilities_equal_the_plain_formula(activation):
    policy = make((4, 20, 13, 3), activation=activation)
    observations = np.random.default_rng(1).normal(size=(21, 4)) * 3
    logits = slow_outputs(policy, observations)
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(policy.distribution(observations), expected, atol=2e-6)


def test_mean_and_deviation_equal_the_plain_formula():
    policy = make((3, 20, 2), head="gaussian")
    observations = np.random.default_rng(1).normal(size=(21, 3))
    mean, std = policy.distribution(observations)
    np.testing.assert_allclose(mean, slow_outputs(policy, observations), atol=2e-6)
    np.testing.assert_allclose(std, np.tile(np.exp(policy.log_std), (21, 1)), rtol=1e-6)


def test_a_single_linear_layer_is_a_network():
    policy = make((3, 2))
    assert policy.act(np.zeros((5, 3)), np.random.default_rng(0)).shape == (5,)


def test_sampled_frequencies_follow_the_probabilities():
    policy = make((2, 8, 4), seed=3)
    observation = np.random.default_rng(1).normal(size=(1, 2))
    n = 200_000
    actions = policy.act(np.repeat(observation, n, axis=0), np.random.default_rng(0))
    probabilities = policy.distribution(observation)[0]
    counts = np.bincount(actions, minlength=4)
    deviation = np.sqrt(n * probabilities * (1 - probabilities))
    assert (np.abs(counts - n * probabilities) < 5 * deviation).all()


def test_inverse_cdf_takes_the_action_whose_interval_holds_the_number():
    logits = np.log([0.2, 0.5, 0.3])
    policy = NetworkPolicy(((np.zeros((1, 3)), logits),), "tanh", "categorical")
    noise = np.array([[0.0], [0.19], [0.21], [0.69], [0.71], [0.9999999]], np.float32)
    assert policy.respond(np.zeros((6, 1)), noise).tolist() == [0, 0, 1, 1, 2, 2]


def test_gaussian_samples_are_mean_plus_std_times_noise_within_the_box():
    policy = make((3, 8, 2), head="gaussian", low=[-0.5, -1.0], high=[0.5, 1.0])
    observations = np.random.default_rng(1).normal(size=(50, 3))
    noise = policy.noise(np.random.default_rng(2), 50)
    mean, std = policy.distribution(observations)
    expected = np.clip(mean + std * noise, [-0.5, -1.0], [0.5, 1.0])
    actions = policy.respond(observations, noise)
    np.testing.assert_allclose(actions, expected, atol=1e-6)
    assert actions.dtype == np.float32
    assert (np.abs(actions[:, 0]) == 0.5).any()


def test_the_mode_is_the_likeliest_action_or_the_clipped_mean():
    rng, observations = np.random.default_rng(0), np.random.default_rng(1).normal(size=(9, 3))
    categorical = make((3, 8, 5))
    expected = categorical.distribution(observations).argmax(axis=1)
    assert (categorical.act(observations, rng, deterministic=True) == expected).all()
    gaussian = make((3, 8, 2), head="gaussian", low=[-0.1, -0.1], high=[0.1, 0.1])
    mean, _ = gaussian.distribution(observations)
    np.testing.assert_array_equal(
        gaussian.act(observations, rng, deterministic=True), np.clip(mean, -0.1, 0.1)
    )


@pytest.mark.bits
@pytest.mark.parametrize("head", ["categorical", "gaussian"])
def test_noise_drawn_in_parts_equals_noise_drawn_at_once(head):
    policy = make((3, 4, 3), head=head)
    rng = np.random.default_rng(5)
    parts = np.concatenate([policy.noise(rng, n) for n in (1, 7, 3, 20)])
    np.testing.assert_array_equal(parts, policy.noise(np.random.default_rng(5), 31))


def test_huge_logits_stay_finite():
    policy = NetworkPolicy(((np.array([[1e30, -1e30]]), np.zeros(2)),), "tanh", "categorical")
    np.testing.assert_array_equal(policy.distribution([[1.0], [-1.0]]), [[1, 0], [0, 1]])
    assert policy.act([[1.0], [-1.0]], np.random.default_rng(0)).tolist() == [0, 1]


def test_observations_of_several_axes_are_flattened():
    policy = make((6, 5, 2))
    observations = np.random.default_rng(0).normal(size=(4, 2, 3))
    flat = policy.distribution(observations.reshape(4, 6))
    np.testing.assert_array_equal(policy.distribution(observations), flat)


@pytest.mark.parametrize("shape", [(4,), (3, 5), (), (0, 5)])
def test_a_batch_of_wrong_width_is_refused(shape):
    policy = make((4, 5, 2))
    if shape == (0, 5):
        assert policy.act(np.zeros((0, 4)), np.random.default_rng(0)).shape == (0,)
        return
    with pytest.raises(UsageError, match="4 values"):
        policy.act(np.zeros(shape), np.random.default_rng(0))


def test_it_is_a_batch_policy_that_survives_pickling_and_cannot_be_changed():
    policy = make((4, 5, 2))
    assert isinstance(policy, BatchPolicy)
    assert isinstance(policy, Policy)
    again = pickle.loads(pickle.dumps(policy))
    assert again.fingerprint == policy.fingerprint
    with pytest.raises(ValueError, match="read-only"):
        policy.layers[0][0][0, 0] = 1


def test_fingerprint_and_architecture_tell_policies_apart():
    policy, other = make((4, 5, 2)), make((4, 5, 2), seed=1)
    assert policy.architecture == other.architecture
    assert policy.fingerprint != other.fingerprint == make((4, 5, 2), seed=1).fingerprint
    assert policy.architecture != make((4, 5, 2), activation="relu").architecture
    assert policy.architecture != make((4, 6, 2)).architecture


def test_bind_accepts_spaces_that_fit():
    box = Box(-1, 1, (2, 2))
    policy = make((4, 5, 2))
    assert policy.bind(box, Discrete(2)) is policy
    assert policy.bind(Discrete(4), Discrete(2)) is policy


@pytest.mark.parametrize(
    ("observations", "actions", "words"),
    [
        (Box(-1, 1, (3,)), Discrete(2), "4 values.*3"),
        (Box(-1, 1, (4,)), Discrete(3), r"among 2 actions.*Discrete\(3\)"),
        (Box(-1, 1, (4,)), Box(-1, 1, (2,)), "among 2 actions.*Box"),
        (Box(-1, 1, (4,)), Discrete(2, start=1), "from 0"),
        (gymnasium.spaces.Graph(Box(-1, 1, (4,)), None), Discrete(2), "fixed size"),
    ],
)
def test_bind_refuses_spaces_that_do_not_fit_a_categorical_head(observations, actions, words):
    with pytest.raises(UsageError, match=words):
        make((4, 5, 2)).bind(observations, actions)


@pytest.mark.parametrize("actions", [Discrete(2), Box(-1, 1, (3,)), Box(-1, 1, (2, 1))])
def test_bind_refuses_spaces_that_do_not_fit_a_gaussian_head(actions):
    with pytest.raises(UsageError, match="actions of 2 real values"):
        make((4, 5, 2), head="gaussian").bind(Box(-1, 1, (4,)), actions)


def test_bind_takes_the_box_where_none_is_known_or_it_was_rounded():
    observations, actions = Box(-1, 1, (4,)), Box(-1 / 3, 1 / 3, (2,))
    unknown = make((4, 5, 2), head="gaussian")
    rounded = make((4, 5, 2), head="gaussian", low=[-0.333333] * 2, high=[0.333333] * 2)
    for policy in (unknown, rounded):
        bound = policy.bind(observations, actions)
        np.testing.assert_array_equal(bound.high, actions.high)
        np.testing.assert_array_equal(bound.low, actions.low)
    own = make((4, 5, 2), head="gaussian", low=[-0.1] * 2, high=[0.1] * 2)
    assert own.bind(observations, actions) is own


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"head": "beta"}, "head"),
        ({"activation": "cube"}, "activation"),
        ({"layers": ()}, "at least one layer"),
        ({"layers": ((np.zeros((2, 3)), np.zeros(2)),)}, "layer 0"),
        ({"layers": ((np.zeros(3), np.zeros(3)),)}, "layer 0"),
        (
            {"layers": ((np.zeros((2, 3)), np.zeros(3)), (np.zeros((4, 2)), np.zeros(2)))},
            "layer 1 expects 4.*layer 0.*3",
        ),
        ({"layers": ((np.full((2, 3), np.nan), np.zeros(3)),)}, "NaN"),
        ({"layers": ((np.full((2, 3), 1e300), np.zeros(3)),)}, "infinite"),
        ({"log_std": np.zeros(2)}, "no log_std"),
        ({"head": "gaussian"}, "needs log_std"),
        ({"head": "gaussian", "log_std": np.zeros(3)}, "log_std"),
        ({"head": "gaussian", "log_std": [0, np.nan]}, "NaN"),
        ({"head": "gaussian", "log_std": np.zeros(2), "low": [0, 0]}, "both"),
        ({"head": "gaussian", "log_std": [0, 0], "low": [1, 1], "high": [0, 2]}, "low <= high"),
    ],
)
def test_networks_that_make_no_sense_are_refused(change, words):
    arguments = {
        "layers": ((np.zeros((2, 2)), np.zeros(2)),),
        "activation": "tanh",
        "head": "categorical",
    }
    with pytest.raises(UsageError, match=words):
        NetworkPolicy(**{**arguments, **change})
