"""What outputs mean: every head against a plain formula, and settings that make no sense."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from pivec.errors import UsageError
from pivec.policies import (
    DISTRIBUTIONS,
    NetworkPolicy,
    Normaliser,
    Options,
    make_distribution,
    read_policy,
    save_policy,
)

spaces = gymnasium.spaces
RNG = np.random.default_rng(0)


def outputs(n, k, seed=0):
    return np.random.default_rng(seed).normal(size=(n, k)).astype(np.float32)


def test_several_choices_are_drawn_one_by_one():
    head = make_distribution("multi_categorical", 5, Options(choices=(2, 3)))
    logits = np.log(np.array([[0.2, 0.8, 0.5, 0.3, 0.2]], np.float32)).repeat(3, 0)
    noise = np.array([[0.1, 0.4], [0.3, 0.6], [0.9, 0.9]], np.float32)
    assert head.choose(logits, noise, ()).tolist() == [[0, 0], [1, 1], [1, 2]]
    assert head.choose(logits, None, ()).tolist() == [[1, 0]] * 3


def test_switches_are_on_with_their_probability():
    head = make_distribution("bernoulli", 2)
    logits = np.array([[0.0, np.log(3)]], np.float32).repeat(2, 0)
    np.testing.assert_allclose(head.distribution(logits), [[0.5, 0.75]] * 2, rtol=1e-6)
    noise = np.array([[0.49, 0.76], [0.51, 0.74]], np.float32)
    assert head.choose(logits, noise, ()).tolist() == [[1, 0], [0, 1]]
    assert head.choose(logits, None, ()).tolist() == [[0, 1]] * 2


def test_epsilon_greedy_follows_its_two_numbers():
    head = make_distribution("epsilon_greedy", 4, Options(epsilon=0.25))
    values = outputs(3, 4)
    noise = np.array([[0.24, 0.5], [0.25, 0.0], [0.0, 0.99999994]], np.float32)
    actions = head.choose(values, noise, head.parameters())
    assert actions.tolist() == [2, values[1].argmax(), 3]


def test_proportional_actions_are_as_likely_as_they_are_above_the_least():
    head = make_distribution("proportional", 3)
    values = np.array([[2.0, -1.0, 0.0], [-3e38, 3e38, 3e38], [7.0, 7.0, 7.0]], np.float32)
    chances = np.array([[0.75, 0.0, 0.25], [0.0, 0.5, 0.5], [1 / 3] * 3])
    np.testing.assert_allclose(head.distribution(values), chances, rtol=1e-6)
    noise = np.random.default_rng(0).random((20_000, 1), dtype=np.float32)
    noise[:2, 0] = 0.0, np.nextafter(np.float32(1), np.float32(0))
    for row, expected in zip(values, chances, strict=True):
        actions = head.choose(np.broadcast_to(row, (20_000, 3)), noise, ())
        counts = np.bincount(actions, minlength=3) / len(actions)
        np.testing.assert_allclose(counts, expected, atol=0.015)
        assert not counts[expected == 0].any()
    assert head.choose(values, None, ()).tolist() == [0, 1, 0]


def test_of_two_proportional_actions_the_better_is_taken():
    head, values = make_distribution("proportional", 2), outputs(50, 2)
    actions = head.choose(values, head.noise(RNG, 50), ())
    np.testing.assert_array_equal(actions, values.argmax(axis=1))


def test_clipped_actions_are_rescaled_to_their_box():
    head = make_distribution(
        "deterministic", 2, Options(squash="clip"), {"low": [-2, 0], "high": [4, 1]}
    )
    values = np.array([[-3.0, 0.5], [0.0, 7.0]], np.float32)
    actions = head.choose(values, None, head.parameters())
    np.testing.assert_allclose(actions, [[-2.0, 0.75], [1.0, 1.0]])


def test_squashed_actions_fill_their_box():
    head = make_distribution(
        "deterministic", 2, Options(squash=True), {"low": [-2, 0], "high": [4, 1]}
    )
    values = np.array([[0.0, 0.0], [100.0, -100.0], [0.5, 0.5]], np.float32)
    expected = [[1, 0.5], [4, 0], 1 + 3 * np.tanh([0.5, 0.5])]
    expected[2] = [1 + 3 * np.tanh(0.5), 0.5 + 0.5 * np.tanh(0.5)]
    np.testing.assert_allclose(
        head.choose(values, None, head.parameters()), expected, rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("deviations", ["clip", "tanh", "softplus", "plain"])
def test_deviations_come_from_the_second_half(deviations):
    options = Options(deviations=deviations, log_std_range=(-1.0, 0.5), mean_limit=0.7)
    head = make_distribution("state_gaussian", 4, options)
    values = np.abs(outputs(20, 4)) * 2
    mean, std = head.distribution(values)
    np.testing.assert_allclose(mean, np.clip(values[:, :2], -0.7, 0.7))
    raw = values[:, 2:].astype(float)
    expected = {
        "clip": np.exp(np.clip(raw, -1, 0.5)),
        "tanh": np.exp(-1 + 0.75 * (np.tanh(raw) + 1)),
        "plain": raw,
        "softplus": np.log1p(np.exp(raw)) + 0.001,
    }[deviations]
    np.testing.assert_allclose(std, expected, rtol=1e-5)
    noise = head.noise(RNG, 20)
    actions = head.choose(values.copy(), noise, head.parameters())
    np.testing.assert_allclose(actions, mean + std * noise, rtol=1e-5, atol=1e-6)


def test_random_weights_give_the_deviations_of_their_sum():
    rng = np.random.default_rng(0)
    layers = ((rng.normal(size=(3, 5)), rng.normal(size=5)), (rng.normal(size=(5, 2)), np.ones(2)))
    std = np.abs(rng.normal(size=(5, 2)))
    policy = NetworkPolicy(
        layers, "tanh", "state_gaussian", options=Options(deviations="plain"), state_std=std
    )
    rows = rng.normal(size=(6, 3))
    hidden = np.tanh(rows @ layers[0][0] + layers[0][1])
    mean, spread = policy.distribution(rows)
    np.testing.assert_allclose(mean, hidden @ layers[1][0] + 1, atol=1e-5)
    np.testing.assert_allclose(spread, np.sqrt(hidden**2 @ std**2), rtol=1e-5)
    # The same by drawing weights.
    drawn = [hidden[0] @ (layers[1][0] + std * rng.normal(size=std.shape)) for _ in range(20_000)]
    np.testing.assert_allclose(np.std(drawn, axis=0), spread[0], rtol=0.03)


@pytest.mark.parametrize(
    ("name", "width", "options", "arrays", "words"),
    [
        ("beta", 2, {}, {}, "head.*beta"),
        ("multi_categorical", 5, {"choices": (2, 2)}, {}, "add up to 5"),
        ("multi_categorical", 5, {}, {}, "add up to 5"),
        ("multi_categorical", 1, {"choices": (2, -1)}, {}, "add up"),
        ("epsilon_greedy", 2, {"epsilon": 1.5}, {}, "at least 0 and at most 1"),
        ("epsilon_greedy", 2, {"epsilon": float("nan")}, {}, "at least 0 and at most 1"),
        ("state_gaussian", 3, {}, {}, "3"),
        ("state_gaussian", 4, {"deviations": "wide"}, {}, "deviations"),
        ("state_gaussian", 4, {"log_std_range": (2.0, 1.0)}, {}, "log_std_range"),
        ("state_gaussian", 4, {"log_std_range": (0.0, 1e300)}, {}, "log_std_range"),
        ("state_gaussian", 4, {"mean_limit": 0.0}, {}, "above 0"),
        ("gaussian", 2, {}, {"log_std": [0, 1000]}, "diverged"),
        ("gaussian", 2, {"shape": (3,)}, {"log_std": [0, 0]}, "shape"),
        ("deterministic", 1, {"shape": (1,) * 50}, {}, "shape"),
        ("deterministic", 2, {"squash": True}, {"low": [0, 0], "high": [1, np.inf]}, "bounds"),
        ("categorical", 2, {}, {"low": [0, 0]}, "low"),
    ],
)
def test_heads_that_make_no_sense_are_refused(name, width, options, arrays, words):
    with pytest.raises(UsageError, match=words):
        make_distribution(name, width, Options(**options), arrays)


@pytest.mark.parametrize(
    ("name", "width", "options", "good", "bad"),
    [
        ("categorical", 3, {}, spaces.Discrete(3), spaces.Discrete(4)),
        ("epsilon_greedy", 3, {}, spaces.Discrete(3), spaces.MultiBinary(3)),
        (
            "multi_categorical",
            3,
            {"choices": (2, 1)},
            spaces.MultiDiscrete([2, 1]),
            spaces.MultiDiscrete([1, 2]),
        ),
        ("bernoulli", 3, {}, spaces.MultiBinary(3), spaces.MultiBinary(2)),
        ("bernoulli", 4, {"shape": (2, 2)}, spaces.MultiBinary((2, 2)), spaces.MultiBinary(4)),
        ("deterministic", 2, {}, spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (1, 2))),
        ("state_gaussian", 4, {"squash": True}, spaces.Box(-1, 1, (2,)), spaces.Discrete(2)),
        ("actions", 2, {}, spaces.MultiDiscrete([3, 3]), spaces.Discrete(3)),
        ("actions", 2, {}, spaces.MultiBinary(2), spaces.Box(-1, 1, (2,))),
    ],
)
def test_bind_tells_what_fits(name, width, options, good, bad):
    head = make_distribution(name, width, Options(**options)).bind(good)
    values = np.zeros((4, width), np.float32)
    for noise in (head.noise(RNG, 4), None):
        for action in head.choose(values.copy(), noise, head.parameters()):
            assert good.contains(action)
    with pytest.raises(UsageError, match="environment expects"):
        make_distribution(name, width, Options(**options)).bind(bad)


@pytest.mark.parametrize("name", list(DISTRIBUTIONS))
def test_noise_drawn_in_parts_equals_noise_drawn_at_once(name):
    options = {"multi_categorical": Options(choices=(1, 3))}.get(name)
    head = make_distribution(name, 4, options, {"log_std": [0] * 4} if name == "gaussian" else {})
    rng = np.random.default_rng(5)
    parts = np.concatenate([head.noise(rng, n) for n in (1, 7, 3, 20)])
    np.testing.assert_array_equal(parts, head.noise(np.random.default_rng(5), 31))
    assert parts.shape == (31, head.noise_size)


SAVED = [
    ("multi_categorical", {"options": Options(choices=(1, 3))}),
    ("bernoulli", {"options": Options(shape=(2, 2))}),
    ("epsilon_greedy", {"options": Options(epsilon=0.125)}),
    ("proportional", {}),
    (
        "gaussian",
        {"options": Options(squash=True), "log_std": [0] * 4, "low": [0] * 4, "high": [1] * 4},
    ),
    (
        "state_gaussian",
        {"options": Options(deviations="plain", mean_limit=2.0), "state_std": np.ones((3, 4))},
    ),
    ("state_gaussian", {"options": Options(log_std_range=(-5.0, 1.0), deviations="tanh")}),
    ("deterministic", {"normaliser": Normaliser([1.0] * 3, [2.0] * 3, [5.0, 5.0, np.inf])}),
]


@pytest.mark.parametrize(("head", "extra"), SAVED)
def test_every_network_survives_saving(tmp_path, head, extra):
    layer = (outputs(3, 4), outputs(1, 4)[0])
    policy = NetworkPolicy((layer,), "tanh", head, **extra)
    path = tmp_path / "a.safetensors"
    save_policy(policy, path)
    again, _ = read_policy(path.read_bytes())
    assert again.fingerprint == policy.fingerprint
    assert again.architecture == policy.architecture
    assert again.options == policy.options
    rows = outputs(5, 3)
    noise = policy.noise(RNG, 5)
    np.testing.assert_array_equal(again.respond(rows, noise), policy.respond(rows, noise))


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"head": "deterministic", "state_std": np.ones((3, 4))}, "state_std"),
        ({"state_std": np.ones((2, 4))}, "state_std"),
        ({"state_std": -np.ones((3, 4))}, "from 0"),
        ({"normaliser": Normaliser([0.0], [1.0], [1.0])}, "observations of 1 values"),
    ],
)
def test_networks_that_do_not_fit_together_are_refused(extra, words):
    arguments = {"head": "state_gaussian", "options": Options(deviations="plain"), **extra}
    with pytest.raises(UsageError, match=words):
        NetworkPolicy(((np.zeros((3, 4)), np.zeros(4)),), "tanh", **arguments)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (([0.0, 1.0], [1.0], [1.0]), "same length"),
        (([0.0], [0.0], [1.0]), "above 0"),
        (([np.inf], [1.0], [1.0]), "finite"),
        (([0.0], [1.0], [-1.0]), "above 0"),
    ],
)
def test_normalisers_that_make_no_sense_are_refused(values, words):
    with pytest.raises(UsageError, match=words):
        Normaliser(*values)
