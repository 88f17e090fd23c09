"""Whole fits: quality, repeatability, and data that cannot or can hardly be fitted."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from mixture_reference import ENGINES, clusters, spiky
from sklearn.mixture import GaussianMixture

from pivec.errors import BadData, UsageError
from pivec.mixtures import ArraySource, fit_mixture
from pivec.parallel import threads


def held_out_scores(states, n_components, seeds, **settings):
    """Held-out log-likelihood of our fit and of scikit-learn's, mean over seeds."""
    train, test = states[::2], states[1::2]
    ours = [
        fit_mixture(train, n_components, random_state=seed, **settings).mixture for seed in seeds
    ]
    center, scale = ours[0].center, ours[0].scale
    theirs = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says when it did not converge
        for seed in seeds:
            peer = GaussianMixture(n_components, covariance_type="diag", random_state=seed)
            peer.fit((train.astype(np.float64) - center) / scale)
            theirs.append(peer.score((test.astype(np.float64) - center) / scale))
    return np.mean([mixture.score(test) for mixture in ours]), np.mean(theirs)


@pytest.mark.parametrize("make", [clusters, spiky])
def test_held_out_likelihood_is_no_worse_than_scikit_learns(make):
    ours, theirs = held_out_scores(make(20_000, 8), 12, seeds=range(3))
    assert ours > theirs - 0.01


def test_the_papers_own_way_is_as_good_as_scikit_learns():
    ours, theirs = held_out_scores(
        clusters(8_000, 5), 10, seeds=range(3), init="kmeans", warm_start=False
    )
    assert ours > theirs - 0.01


@pytest.mark.parametrize("engine", ENGINES)
def test_well_separated_clusters_are_found(engine):
    rng = np.random.default_rng(0)
    places = np.array([[-10.0, 0.0], [0.0, 10.0], [10.0, -5.0]])
    states = np.concatenate(
        [p + rng.normal(size=(n, 2)) for p, n in zip(places, (300, 600, 900), strict=True)]
    )
    result = fit_mixture(rng.permutation(states), 3, device=engine)
    mixture = result.mixture
    order = mixture.weights.argsort()
    np.testing.assert_allclose(mixture.weights[order], [1 / 6, 1 / 3, 1 / 2], atol=0.01)
    means = mixture.means[order] * mixture.scale + mixture.center
    # The smallest cluster knows its mean to 1/√300, 0.06.
    np.testing.assert_allclose(means, places, atol=0.2)
    assert result.converged


def test_the_rule_of_stopping_is_scikit_learns():
    result = fit_mixture(clusters(20_000, 4), 8, device="numpy", tol=1e-3)
    assert result.converged
    assert result.n_iter == len(result.history) >= 2
    assert abs(result.history[-1] - result.history[-2]) < 1e-3
    few = fit_mixture(clusters(20_000, 4), 8, device="numpy", tol=1e-12, max_iter=3)
    assert (few.n_iter, few.converged) == (3, False)


@pytest.mark.bits
def test_a_seed_gives_the_same_result_whatever_the_threads():
    states = clusters(30_000, 4)
    results = []
    for n in (1, 3):
        with threads(n):
            results.append(fit_mixture(states, 6, random_state=5).mixture)
    np.testing.assert_array_equal(results[0].means, results[1].means)
    with threads(1):
        other = fit_mixture(states, 6, random_state=6).mixture
        generator = np.random.default_rng(5)
        again = fit_mixture(states, 6, random_state=generator).mixture
    assert not np.allclose(results[0].means, other.means)
    np.testing.assert_array_equal(results[0].means, again.means)


def test_the_size_of_blocks_does_not_matter_beyond_rounding(monkeypatch):
    states = clusters(30_000, 4)
    whole = fit_mixture(states, 6, device="numpy")
    monkeypatch.setattr(sys.modules["pivec.mixtures.model"], "block_rows", lambda _: 4_321)
    pieces = fit_mixture(states, 6, device="numpy")
    np.testing.assert_allclose(pieces.history, whole.history, rtol=1e-10)
    np.testing.assert_allclose(pieces.mixture.means, whole.mixture.means, atol=1e-7)


def test_the_scale_of_columns_does_not_matter():
    states = clusters(5_000, 4, dtype=np.float64)
    factors = np.array([1e-6, 1e-3, 1e3, 1e6])
    a = fit_mixture(states, 5, device="numpy").mixture
    b = fit_mixture(states * factors, 5, device="numpy").mixture
    np.testing.assert_allclose(b.means, a.means, atol=1e-5)
    np.testing.assert_allclose(b.scale, a.scale * factors, rtol=1e-9)


@pytest.mark.parametrize("device", ["numpy", "numba"])
def test_a_file_is_fitted_as_an_array_is(tmp_path, device):
    states = clusters(40_000, 3)
    np.save(tmp_path / "states.npy", states)
    mapped = np.load(tmp_path / "states.npy", mmap_mode="r")
    a = fit_mixture(states, 4, device=device)
    b = fit_mixture(ArraySource(mapped), 4, device=device)
    np.testing.assert_array_equal(a.mixture.means, b.mixture.means)


def test_a_nan_in_the_middle_of_a_file_is_named_by_its_row(tmp_path, monkeypatch):
    states = clusters(40_000, 3)
    states[23_456, 2] = np.nan
    np.save(tmp_path / "states.npy", states)
    monkeypatch.setattr(sys.modules["pivec.mixtures.model"], "block_rows", lambda _: 10_000)
    for device in ENGINES:
        mapped = np.load(tmp_path / "states.npy", mmap_mode="r")
        with pytest.raises(BadData, match="row 23456, column 2 is nan"):
            fit_mixture(mapped, 4, device=device)


def test_fewer_states_than_components_is_told_with_both_numbers():
    with pytest.raises(BadData, match=r"64 .*10"):
        fit_mixture(np.zeros((10, 2)), 64)


@pytest.mark.parametrize("engine", ENGINES)
def test_copies_of_one_state_give_a_narrow_mixture_there(engine):
    states = np.tile(np.array([[1.5, -2.0, 1e6]], dtype=np.float32), (300, 1))
    mixture = fit_mixture(states, 4, device=engine).mixture
    np.testing.assert_allclose(mixture.means, 0, atol=1e-9)
    np.testing.assert_allclose(mixture.center, [1.5, -2.0, 1e6])
    np.testing.assert_array_equal(mixture.scale, 1)
    np.testing.assert_array_equal(mixture.variances, 1e-6)
    assert mixture.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("engine", ENGINES)
def test_as_many_states_as_components_and_constant_columns_are_fitted(engine):
    rng = np.random.default_rng(0)
    states = np.column_stack([rng.normal(size=6), np.full(6, 3.0), [0, 1, 0, 1, 0, 1]])
    mixture = fit_mixture(states, 6, device=engine).mixture
    assert np.isfinite(mixture.score(states))
    np.testing.assert_allclose(mixture.variances[:, 1], 1e-6)


def test_the_floor_holds():
    mixture = fit_mixture(spiky(5_000), 10, variance_floor=1e-3).mixture
    assert mixture.variances.min() == 1e-3


def test_the_best_of_several_whole_fits_is_kept():
    states = clusters(3_000, 3, n_clusters=15)
    settings = {"warm_start": False, "device": "numpy"}
    scores = []
    generator = np.random.default_rng(0)
    three = fit_mixture(states, 10, n_init=3, random_state=generator, **settings)
    scores = [
        fit_mixture(states, 10, random_state=seed, **settings).history[-1] for seed in range(3)
    ]
    assert three.history[-1] >= np.mean(scores) - 0.01


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"init": "random"}, "init must be"),
        ({"n_components": 0}, "n_components must be a whole number of at least 1, but is 0"),
        ({"n_init": 0}, "n_init must be a whole number of at least 1 or None, but is 0"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1, but is 0"),
        ({"subsample": 0}, "subsample must be a whole number of at least 1, but is 0"),
        ({"tol": 0.0}, "tol must be a number above 0, but is 0.0"),
        ({"variance_floor": -1.0}, "variance_floor must be a number above 0, but is -1.0"),
        ({"device": "abacus"}, "device must be"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        fit_mixture(clusters(100, 2), **({"n_components": 2} | settings))
