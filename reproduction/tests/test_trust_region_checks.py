"""Compiled distances of small samples: the numbers of the characterizations."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.characterizations import characterization
from pivec.mixtures import EMRun, Mixture, accumulate, plus_plus, run_em
from pivec.states import VisitedStates
from reproduction.training.trust_region import (
    _hard_shares,
    _maximise,
    _seeds,
    _soft_shares,
    fit_background,
    largest_total_variation,
    supervector_distance,
    symmetric_kl,
    visitation_distance,
)


@pytest.fixture
def samples():
    """Two policies that share four places, visited in other shares and with other means."""
    rng = np.random.default_rng(3)
    centres = 20.0 * np.eye(5)[:4]
    first = centres[rng.integers(0, 4, 130)] + rng.normal(size=(130, 5))
    second = centres[rng.choice(4, 120, p=[0.1, 0.2, 0.3, 0.4])] + rng.normal(0.5, 1, (120, 5))
    return first, second


def distance_by(name, samples, **parameters):
    data = VisitedStates.from_arrays([[each] for each in samples])
    return characterization(name, **parameters).fit(data).distances(data)[0, 1]


def test_total_variation_is_half_the_sum_of_differences_at_its_largest():
    rng = np.random.default_rng(0)
    old, new = rng.dirichlet(np.ones(5), (2, 10))
    expected = max(0.5 * sum(abs(old[i] - new[i])) for i in (7, 2, 4))
    found = largest_total_variation(np.log(old), np.log(new), np.array([7, 2, 4]))
    assert found == pytest.approx(expected, rel=1e-12)


def test_gaussian_distance_is_that_of_the_characterization(samples):
    expected = distance_by("gaussian", samples)
    assert symmetric_kl(*samples) == pytest.approx(expected, rel=1e-5)  # which keeps float32


def test_a_feature_that_only_one_policy_moves_in_is_far_away():
    still, moving = np.zeros((50, 2)), np.zeros((50, 2))
    still[:, 0] = moving[:, 0] = moving[:, 1] = np.arange(50) % 2
    assert symmetric_kl(still, moving) == pytest.approx(0.5 * 0.5 / 1e-7, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "compiled"),
    [("supervector", supervector_distance), ("visitation", visitation_distance)],
)
def test_distance_on_a_background_is_that_of_the_characterization(samples, name, compiled):
    settings = {"n_components": 4, "init": "kmeans", "warm_start": False}
    settings |= {"of": "states"} if name == "visitation" else {}
    expected = distance_by(name, samples, **settings)
    found = compiled(*samples, 4, np.random.default_rng(0))
    assert expected > 0.02
    assert found == pytest.approx(expected, rel=1e-3)


def test_the_mixture_is_that_of_em_from_the_same_start():
    rng = np.random.default_rng(1)
    points = np.concatenate([rng.normal(0, s, (80, 3)) for s in (0.2, 1.0, 4.0)])
    points = (points - points.mean(axis=0)) / points.std(axis=0)
    weights, means, variances, passes = fit_background(points, 3, np.random.default_rng(0))

    start = first_mixture(points, 3, np.random.default_rng(0))
    run = EMRun(Mixture(*start, np.zeros(3), np.ones(3)))
    run_em(
        run,
        lambda mixture: accumulate(points, mixture, device="numpy"),
        tol=1e-3,
        max_iter=100,
        variance_floor=1e-6,
    )
    assert passes == len(run.history) > 3
    np.testing.assert_allclose(weights, run.mixture.weights, rtol=1e-6)
    np.testing.assert_allclose(means, run.mixture.means, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(variances, run.mixture.variances, rtol=1e-6)


def first_mixture(points, K, rng):
    """The start of `fit_background`, from its parts: k-means in plain steps."""
    means = _seeds(points, K, rng)
    for _ in range(300):
        labels = ((points[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
        new = np.array([points[labels == k].mean(axis=0) for k in range(K)])
        moved, means = ((new - means) ** 2).sum(), new
        if moved <= 1e-4 * points.shape[1]:
            break
    weights, variances = np.empty(K), np.ones_like(means)
    _maximise(points, _hard_shares(points, means), weights, means, variances)
    return weights, means, variances


def test_seeds_of_far_clusters_are_one_in_each(samples):
    first, _ = samples
    centres = _seeds(first, 4, np.random.default_rng(0))
    places = {int(np.abs(row).argmax()) for row in centres}
    assert places == {0, 1, 2, 3}


def test_shares_of_a_component_without_weight_are_zero():
    points, variances = np.zeros((3, 1)), np.ones((2, 1))
    shares, likelihood = _soft_shares(points, np.array([1.0, 0.0]), np.zeros((2, 1)), variances)
    assert np.array_equal(shares, [[1, 0]] * 3)
    assert likelihood == pytest.approx(-0.5 * np.log(2 * np.pi))


def test_states_that_are_all_the_same_are_at_distance_zero():
    same = np.ones((20, 3))
    assert supervector_distance(same, same, 4, np.random.default_rng(0)) == 0.0
    assert abs(visitation_distance(same, same, 4, np.random.default_rng(0))) < 1e-12


class SameDraws:
    """Gives `plus_plus` the random numbers that the compiled code draws."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)

    def integers(self, n):
        return int(self._rng.random() * n)

    def random(self, count):
        return self._rng.random(count)


@pytest.mark.parametrize("seed", range(10))
def test_seeds_are_those_of_the_library_from_the_same_draws(seed):
    points = np.random.default_rng(7).normal(size=(150, 5))
    expected = points[plus_plus(points, 6, SameDraws(seed))]
    np.testing.assert_array_equal(_seeds(points, 6, np.random.default_rng(seed)), expected)
