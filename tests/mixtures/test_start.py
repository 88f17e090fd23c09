"""Seeds and Lloyd steps against the plain algorithm."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.mixtures import ArraySource, Mixture, Passes
from pivec.mixtures.fit import Overview, first_mixture, lloyd, plus_plus


def groups(n_each=200, seed=0):
    rng = np.random.default_rng(seed)
    centers = 20 * np.array([[0, 0], [1, 0], [0, 1], [1, 1], [2, 2]])
    return np.concatenate([c + rng.normal(size=(n_each, 2)) for c in centers])


def test_seeds_find_every_group():
    points = groups()
    for seed in range(5):
        rows = plus_plus(points, 5, np.random.default_rng(seed))
        assert sorted(rows // 200) == [0, 1, 2, 3, 4]


def test_seeding_is_repeated_with_the_same_generator():
    a, b = (plus_plus(groups(), 4, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(a, b)


def test_more_seeds_than_different_points_are_still_given():
    points = np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0)
    rows = plus_plus(points, 6, np.random.default_rng(0))
    assert len(rows) == 6
    assert {tuple(p) for p in points[rows]} == {(0.0, 0.0), (1.0, 1.0)}


@pytest.mark.parametrize("device", ["numpy", "numba", "torch-cpu"])
def test_lloyd_steps_are_those_of_k_means(device):
    points = groups(100)
    rng = np.random.default_rng(1)
    centers = points[rng.choice(len(points), 6, replace=False)]
    passes = Passes(ArraySource(points), device)
    start = Mixture(np.full(6, 1 / 6), centers, np.ones((6, 2)), np.zeros(2), np.ones(2))
    got = lloyd(passes, start, max_iter=7, tol=0.0).means
    for _ in range(7):
        nearest = ((points[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        centers = np.stack([points[nearest == k].mean(axis=0) for k in range(6)])
    np.testing.assert_allclose(got, centers, rtol=1e-5)


def test_first_mixture_has_the_moments_of_the_clusters():
    points = groups()
    center, scale = points.mean(axis=0), points.std(axis=0)
    mixture = first_mixture(
        Passes(ArraySource(points), "numpy"), Overview(center, scale, points), 5,
        np.random.default_rng(0), lloyd_steps=20, variance_floor=1e-6,
    )  # fmt: skip
    order = np.lexsort(np.round(mixture.means * scale + center).T[::-1])
    means = np.stack([points[200 * g : 200 * (g + 1)].mean(axis=0) for g in (0, 2, 1, 3, 4)])
    np.testing.assert_allclose((mixture.means * scale + center)[order], means, atol=1e-6)
    np.testing.assert_allclose(mixture.weights, 0.2)
    widths = np.stack([points[200 * g : 200 * (g + 1)].std(axis=0) for g in (0, 2, 1, 3, 4)])
    np.testing.assert_allclose((np.sqrt(mixture.variances) * scale)[order], widths, rtol=1e-6)
