"""The mathematics of evolution strategies, against obvious formulas."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from reproduction.training.evolution import Architecture
from reproduction.training.novelty import adam_step, ascent, centred_ranks

BOX = spaces.Box(-2.0, 2.0, (3,), np.float32)


def test_ranks_are_centred_and_only_order_counts(rng) -> None:
    values = rng.normal(size=(2, 5))
    ranks = centred_ranks(values)
    assert sorted(ranks.ravel()) == pytest.approx(np.linspace(-0.5, 0.5, 10))
    np.testing.assert_array_equal(ranks.ravel().argsort(), values.ravel().argsort())
    np.testing.assert_allclose(centred_ranks(np.exp(values)), ranks)


def test_equal_values_share_their_rank_and_then_nothing_moves() -> None:
    assert centred_ranks(np.array([1.0, 2.0, 2.0, 3.0])).tolist() == pytest.approx(
        [-0.5, 0, 0, 0.5]
    )
    assert centred_ranks(np.full((2, 3), 7.0)).tolist() == [[0.0] * 3] * 2


def test_the_direction_is_the_sum_of_noise_weighted_by_scores(rng) -> None:
    scores, noise = rng.normal(size=(2, 6)), rng.normal(size=(6, 4))
    slow = np.zeros(4)
    for i in range(6):
        slow += scores[0, i] * noise[i] + scores[1, i] * -noise[i]
    np.testing.assert_allclose(ascent(scores, noise), slow / 12)


def test_the_direction_rises_on_a_slope(rng) -> None:
    slope, noise = np.array([1.0, -2.0, 0.0]), rng.normal(size=(500, 3))
    rise = ascent(np.stack([noise @ slope, -noise @ slope]), noise)
    np.testing.assert_allclose(rise / np.linalg.norm(rise), slope / np.sqrt(5), atol=0.1)


def test_adam_equals_the_textbook(rng) -> None:
    learner = np.zeros((3, 3))
    weights, m, v = np.zeros(3), np.zeros(3), np.zeros(3)
    for t in range(1, 20):
        g = rng.normal(size=3)
        adam_step(learner, g, t, rate=0.1, epsilon=1e-8)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        weights -= 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        np.testing.assert_allclose(learner[0], weights, rtol=1e-12)


def test_weights_and_biases_of_all_layers_are_counted() -> None:
    shape = Architecture.of(spaces.Box(-1, 1, (24,)), spaces.Discrete(4), [40, 40])
    assert shape.n_weights == 2804


def test_first_weights_have_the_lengths_of_conti(rng) -> None:
    architecture = Architecture.of(spaces.Box(-1, 1, (4,)), BOX, [16, 8], action_noise=0.01)
    assert architecture.sizes == (4, 16, 8, 3)
    policy = architecture.policy(architecture.first_vector(rng))
    for (weight, bias), length in zip(policy.layers, (1, 1, 0.01), strict=True):
        np.testing.assert_allclose(np.linalg.norm(weight, axis=0), length, rtol=1e-5)
        assert not bias.any()


def test_real_actions_get_noise_within_their_box(rng) -> None:
    architecture = Architecture.of(spaces.Box(-1, 1, (4,)), BOX, [8], action_noise=0.05)
    policy = architecture.policy(architecture.first_vector(rng) * 0)
    actions = policy.act(np.zeros((4000, 4)), rng)
    # 4000 draws know a deviation to 1/√8000, 1.1 %.
    np.testing.assert_allclose(actions.std(axis=0), 0.05, rtol=0.05)
    still = Architecture.of(spaces.Box(-1, 1, (4,)), BOX, [8])
    assert still.policy(still.first_vector(rng)).head == "deterministic"
    assert np.abs(policy.act(np.zeros((10, 4)), rng)).max() <= 2


def test_discrete_actions_are_the_best_ones(rng) -> None:
    architecture = Architecture.of(
        spaces.Box(-1, 1, (4,)), spaces.Discrete(3), [8], action_noise=0.01
    )
    policy = architecture.policy(architecture.first_vector(rng))
    seen = rng.normal(size=(50, 4))
    np.testing.assert_array_equal(policy.act(seen, rng), policy.act(seen, rng, deterministic=True))
