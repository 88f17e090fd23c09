"""The M-step, dead components, and the stopping rule."""

from __future__ import annotations

import numpy as np
import pytest
from mixture_reference import clusters, random_mixture, responsibilities, spiky

from pivec.mixtures import EMRun, Mixture, accumulate, maximise
from pivec.mixtures.fit import reseed, run_em


def passes_over(states, device="numpy"):
    return lambda mixture: accumulate(states, mixture, device=device)


def test_m_step_is_the_weighted_mean_and_variance():
    states = clusters(2000, 4)
    mixture = random_mixture(states, 3)
    r, _ = responsibilities(states, mixture)
    x = mixture.standardise(states)
    got = maximise(accumulate(states, mixture, device="numpy"), mixture, 1e-6)
    np.testing.assert_allclose(got.weights, r.mean(axis=0), rtol=1e-9)
    for k in range(3):
        mean = np.average(x, axis=0, weights=r[:, k])
        np.testing.assert_allclose(got.means[k], mean, rtol=1e-8, atol=1e-10)
        variance = np.average((x - mean) ** 2, axis=0, weights=r[:, k])
        np.testing.assert_allclose(got.variances[k], variance, rtol=1e-8)


def test_variances_stop_at_the_floor():
    states = np.concatenate([np.zeros((50, 2)), np.ones((50, 2))])
    mixture = random_mixture(clusters(100, 2), 2)
    got = maximise(accumulate(states, mixture, device="numpy"), mixture, 0.5)
    assert got.variances.min() == 0.5


def test_a_component_without_states_keeps_its_place():
    states = clusters(300, 2)
    some = random_mixture(states, 2)
    mixture = Mixture([1.0, 0.0], some.means, some.variances, some.center, some.scale)
    got = maximise(accumulate(states, mixture, device="numpy"), mixture, 1e-6)
    np.testing.assert_array_equal(got.means[1], mixture.means[1])
    np.testing.assert_array_equal(got.variances[1], mixture.variances[1])
    assert got.weights[1] == 0


@pytest.mark.parametrize("device", ["numpy", "numba", "torch-cpu"])
@pytest.mark.parametrize("floor", [1e-6, 1e-3])
def test_likelihood_never_falls_also_on_spiky_data(device, floor):
    states = spiky(8000)
    run = EMRun(random_mixture(states, 8, narrow=True))
    run_em(run, passes_over(states, device), tol=1e-9, max_iter=40, variance_floor=floor)
    # The first step may fall: it brings variances up to the floor.
    assert np.diff(run.history)[1:].min() > -1e-6


def test_it_stops_when_the_mean_log_likelihood_changes_by_less_than_tol():
    states = clusters(2000, 3)
    run = EMRun(random_mixture(states, 4))
    run_em(run, passes_over(states), tol=1e-3, max_iter=100, variance_floor=1e-6)
    changes = np.abs(np.diff(run.history))
    assert run.converged
    assert changes[-1] < 1e-3
    assert (changes[:-1] >= 1e-3).all()


def test_it_stops_at_the_most_passes_and_can_be_continued():
    states = clusters(2000, 3)
    start = random_mixture(states, 4)
    settings = {"tol": 1e-12, "variance_floor": 1e-6}
    whole = run_em(EMRun(start), passes_over(states), max_iter=8, **settings)
    assert (len(whole.history), whole.converged) == (8, False)
    half = run_em(EMRun(start), passes_over(states), max_iter=3, **settings)
    run_em(half, passes_over(states), max_iter=8, **settings)
    assert half.history == whole.history


def test_a_dead_component_is_placed_where_states_are_explained_worst():
    rng = np.random.default_rng(0)
    states = np.concatenate([rng.normal(size=(990, 2)), 30 + rng.normal(size=(10, 2))])
    mixture = Mixture(
        [1.0, 0.0], [[0.0, 0.0], [-500.0, 0.0]], np.ones((2, 2)), np.zeros(2), np.ones(2)
    )
    placed, n = reseed(mixture, np.array([1000.0, 0.0]), states, rng)
    assert n == 1
    assert np.abs(placed.means[1] - 30).max() < 6
    run = run_em(
        EMRun(mixture), passes_over(states), tol=1e-6, max_iter=50, variance_floor=1e-6,
        reseeding=(states, rng),
    )  # fmt: skip
    assert run.reseeded == 1
    assert run.mixture.weights[1] == pytest.approx(0.01, rel=0.01)
    assert run.mixture.means[1] == pytest.approx([30, 30], abs=2)


def test_living_components_stay_as_they_are():
    states = clusters(500, 2)
    mixture = random_mixture(states, 3)
    same, n = reseed(mixture, np.full(3, 100.0), states, np.random.default_rng(0))
    assert same is mixture
    assert n == 0
