"""One Gaussian a policy: closed forms of both covariances."""

from __future__ import annotations

import numpy as np
import pytest

from pivec import Gaussian
from pivec.errors import UsageError
from pivec.states import VisitedStates


def kl(a, b):
    """KL(a || b) of full Gaussians by the textbook."""
    (m, s), (n, t) = a, b
    inverse, gap = np.linalg.inv(t), n - m
    determinants = np.linalg.slogdet(t)[1] - np.linalg.slogdet(s)[1]
    return 0.5 * (np.trace(inverse @ s) + gap @ inverse @ gap - len(m) + determinants)


@pytest.fixture
def data(rng):
    units = np.array([1.0, 1e3, 1e-2])
    mixing = [np.eye(3) + 0.4 * rng.normal(size=(3, 3)) for _ in range(4)]
    return VisitedStates.from_arrays(
        [[(rng.normal(0.5 * i, 1, (300, 3)) @ m) * units] for i, m in enumerate(mixing)]
    )


def moments(data, diagonal):
    for i in range(len(data)):
        states = data.policy_states(i).astype(float)
        covariance = np.cov(states.T, bias=True)
        yield states.mean(axis=0), np.diag(np.diag(covariance)) if diagonal else covariance


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_both_ways_summed(data, covariance):
    both = list(moments(data, covariance == "diagonal"))
    expected = [[kl(a, b) + kl(b, a) for b in both] for a in both]
    d = Gaussian(covariance=covariance, floor=1e-12).fit(data).distances(data)
    assert np.allclose(d, expected, rtol=1e-5, atol=1e-8)


def test_only_full_covariances_see_what_goes_together(rng):
    x, y = rng.choice([-1.0, 1.0], size=(2, 1000, 1))  # mean 0 and variance 1 with its opposite
    x, y = (np.vstack([values, -values]) for values in (x, y))
    data = VisitedStates.from_arrays([[np.hstack([x, x + y])], [np.hstack([-x, x + y])]])
    diagonal, full = (
        Gaussian(covariance=c).fit(data).distances(data)[0, 1] for c in ("diagonal", "full")
    )
    assert diagonal < 1e-9
    assert full > 1


def test_features_of_any_unit_that_depend_on_each_other(rng):
    """Rank 1 in four features: the floor keeps the factors of Cholesky defined."""
    line = rng.normal(size=(200, 1)) * np.array([1e6, 1e-6, 1.0, 0.0])
    data = VisitedStates.from_arrays([[line], [line + np.array([1e6, 0, 0, 0])]])
    d = Gaussian(covariance="full").fit(data).distances(data)
    assert np.isfinite(d).all()
    assert d[0, 1] > 0


def test_nearly_equal_policies_keep_their_digits(rng):
    states = rng.normal(size=(500, 3))
    data = VisitedStates.from_arrays([[states], [states + 2.0**-12], [states + 1]])
    d = Gaussian(covariance="full").fit(data).distances(data)
    assert d[0, 1] == pytest.approx(d[0, 2] * 2.0**-24, rel=1e-2)


def test_mistakes_are_named(walks):
    with pytest.raises(UsageError, match="'tied'"):
        Gaussian(covariance="tied").fit(walks)
    with pytest.raises(UsageError, match="floor"):
        Gaussian(floor=0.0).fit(walks)
