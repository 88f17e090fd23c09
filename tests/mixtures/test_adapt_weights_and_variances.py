"""Adapted weights and variances against Reynolds 2000, equations 11 and 13, as printed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from pivec.errors import BadData, UsageError
from pivec.mixtures import (
    Mixture,
    accumulate,
    map_offsets,
    map_variances,
    map_weights,
    policy_statistics,
)


@pytest.fixture
def mixture(rng):
    return Mixture(
        [0.2, 0.5, 0.3],
        rng.normal(size=(3, 2)),
        rng.uniform(0.3, 2, (3, 2)),
        [1.0, -5.0],
        [2.0, 0.1],
    )


@pytest.fixture
def states(rng):
    return rng.normal([1, -5], [2, 0.1], (90, 2))


@pytest.mark.parametrize("device", ["numpy", "auto"])
def test_statistics_are_those_of_each_policy(mixture, states, device, monkeypatch):
    starts = np.array([0, 40, 40, 90])  # the second has no states
    for rows in (100, 13):  # small blocks cut the policies
        monkeypatch.setattr(
            sys.modules["pivec.mixtures.model"], "block_rows", lambda _, rows=rows: rows
        )
        result = policy_statistics(states, starts, mixture, squares=True, device=device)
        for p, part in enumerate((states[:40], states[40:40], states[40:])):
            if len(part):
                alone = accumulate(part, mixture, device="numpy")
                assert np.allclose(result.counts[p], alone.counts, rtol=1e-5)
                assert np.allclose(result.sums[p], alone.sums, rtol=1e-4, atol=1e-5)
                assert np.allclose(result.squares[p], alone.squares, rtol=1e-4)
            else:
                assert not result.counts[p].any()


def test_equations_11_and_13(mixture, states):
    result = policy_statistics(states, [0, len(states)], mixture, squares=True, device="numpy")
    x = mixture.standardise(states)
    w, mu, var, r = mixture.weights, mixture.means, mixture.variances, 16.0
    p = w * np.exp(-0.5 * (np.log(var) + (x[:, None] - mu) ** 2 / var).sum(axis=2))
    p /= p.sum(axis=1, keepdims=True)
    n = p.sum(axis=0)
    alpha = n / (n + r)
    weights = alpha * n / len(x) + (1 - alpha) * w
    assert np.allclose(map_weights(result.counts, mixture)[0], weights / weights.sum())
    a = alpha[:, None]
    means = a * (p.T @ x) / n[:, None] + (1 - a) * mu
    variances = a * (p.T @ x**2) / n[:, None] + (1 - a) * (var + mu**2) - means**2
    offsets = map_offsets(result.counts, result.sums, mixture)
    assert np.allclose(map_variances(result, offsets, mixture)[0], variances)


def test_a_policy_without_states_keeps_the_background(mixture):
    result = policy_statistics(np.zeros((0, 2)), [0, 0], mixture, squares=True)
    assert np.allclose(map_weights(result.counts, mixture), mixture.weights)
    offsets = np.zeros((1, 3, 2))
    assert np.allclose(map_variances(result, offsets, mixture), mixture.variances)


def test_variances_have_a_floor(mixture):
    same = np.tile(mixture.center, (10**5, 1))
    result = policy_statistics(same, [0, len(same)], mixture, squares=True, device="numpy")
    offsets = map_offsets(result.counts, result.sums, mixture, 1e-9)
    variances = map_variances(result, offsets, mixture, 1e-9, floor=1e-4)
    assert variances.min() == 1e-4


def test_weights_stay_positive_and_sum_to_one():
    mixture = Mixture([1.0, 0.0], [[0.0], [1.0]], [[1.0], [1.0]], [0.0], [1.0])
    weights = map_weights(np.array([[1e9, 0.0]]), mixture)
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(1)


def test_mistakes_are_named(mixture, states):
    with pytest.raises(BadData, match=r"2 .*3"):
        policy_statistics(np.zeros((4, 3)), [0, 4], mixture, squares=True)
    plain = policy_statistics(states, [0, len(states)], mixture)
    with pytest.raises(UsageError, match="squares=True"):
        map_variances(plain, np.zeros((1, 3, 2)), mixture)
