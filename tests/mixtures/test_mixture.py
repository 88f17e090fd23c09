"""The mixture as data: validation, and densities against the formula."""

from __future__ import annotations

import numpy as np
import pytest
from mixture_reference import clusters, log_densities, random_mixture
from scipy.special import logsumexp
from scipy.stats import norm

from pivec.errors import BadData
from pivec.mixtures import Mixture


def parts(**changes):
    good = {
        "weights": np.array([0.25, 0.75]),
        "means": np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]),
        "variances": np.ones((2, 3)),
        "center": np.zeros(3),
        "scale": np.ones(3),
    }
    return good | changes


def test_log_density_is_that_of_the_formula():
    states = clusters(300, 5)
    mixture = random_mixture(states, 4)
    expected = logsumexp(log_densities(states, mixture), axis=1)
    np.testing.assert_allclose(mixture.log_density(states), expected, rtol=1e-10)
    assert mixture.score(states) == pytest.approx(expected.mean())


def test_one_component_is_a_normal_distribution_of_standardised_states():
    mixture = Mixture([1.0], [[0.5]], [[4.0]], [10.0], [2.0])
    expected = norm.logpdf((13.0 - 10.0) / 2.0, loc=0.5, scale=2.0)
    assert mixture.log_density([[13.0]])[0] == pytest.approx(expected)


def test_arrays_are_read_only_float64_copies():
    means = np.zeros((2, 3), dtype=np.float32)
    mixture = Mixture(**parts(means=means))
    means[:] = 7
    assert mixture.means.dtype == np.float64
    assert mixture.means.max() == 0
    with pytest.raises(ValueError, match="read-only"):
        mixture.means[0, 0] = 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": np.array([0.5, 0.6])}, "sum to 1"),
        ({"weights": np.array([-0.5, 1.5])}, "negative"),
        ({"weights": np.ones(3) / 3}, r"weights .*\(2,\).*\(3,\)"),
        ({"variances": np.zeros((2, 3))}, "variances .* positive"),
        ({"scale": np.array([1.0, 0.0, 1.0])}, "scale .* positive"),
        ({"means": np.full((2, 3), np.nan)}, "means .* finite"),
        ({"means": np.zeros(3)}, r"shape \(K, D\)"),
        ({"center": np.zeros(4)}, r"center .*\(3,\).*\(4,\)"),
    ],
)
def test_a_mixture_that_cannot_be_is_refused(changes, message):
    with pytest.raises(BadData, match=message):
        Mixture(**parts(**changes))


def test_a_state_that_is_not_finite_is_named():
    states = np.zeros((5, 3))
    states[3, 1] = np.inf
    with pytest.raises(BadData, match="row 3, column 1"):
        Mixture(**parts()).log_density(states)
