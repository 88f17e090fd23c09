"""MMD by random features against the exact kernel, and against the closed form of Gaussians."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from pivec import MMD
from pivec.errors import UsageError
from pivec.states import VisitedStates


def exact(x, y, sigma):
    """MMD² with the Gaussian kernel, diagonal terms included."""
    k = [
        np.exp(-cdist(a, b, "sqeuclidean") / (2 * sigma**2)).mean()
        for a, b in ((x, x), (y, y), (x, y))
    ]
    return k[0] + k[1] - 2 * k[2]


@pytest.fixture
def shifted(rng):
    return VisitedStates.from_arrays(
        [[rng.normal(shift, 1, (400, 3)) * [1, 10, 0.1]] for shift in (0.0, 0.0, 0.5, 1.0, 2.0)]
    )


def test_shifted_samples_have_the_exact_kernels_distance(shifted):
    method = MMD(n_frequencies=8192).fit(shifted)
    x = [(shifted.policy_states(i) - method.center_) / method.scale_ for i in range(5)]
    expected = [[exact(a, b, method.bandwidth_) for b in x] for a in x]
    d = method.distances(shifted)
    assert np.allclose(d, expected, rtol=0.05, atol=2e-4)
    assert d[0, 4] > d[0, 3] > d[0, 2] > d[0, 1]


def test_two_gaussians_in_closed_form(rng):
    """E k(x, y) of N(a, s²) and N(b, s²) is √(σ²/(σ² + 2s²)) exp(−(a − b)²/2(σ² + 2s²))."""
    data = VisitedStates.from_arrays([[rng.normal(a, 1, (20_000, 1))] for a in (0.0, 1.5)])
    method = MMD(4096, bandwidth=1.0).fit(data)
    s, gap = 1 / method.scale_[0], 1.5 / method.scale_[0]
    wide = 1 + 2 * s**2
    expected = 2 * np.sqrt(1 / wide) * (1 - np.exp(-(gap**2) / (2 * wide)))
    assert method.distances(data)[0, 1] == pytest.approx(expected, rel=0.05)


def test_the_bandwidth_is_the_median_distance(shifted):
    method = MMD().fit(shifted)
    standard = (shifted.states - method.center_) / method.scale_
    assert method.bandwidth_ == pytest.approx(np.median(pdist(standard)), rel=0.05)
    assert MMD(bandwidth=0.7).fit(shifted).bandwidth_ == 0.7


def test_large_centers_do_not_cost_digits(rng):
    walks = [rng.normal(i, 1, (300, 2)) for i in range(3)]
    near = VisitedStates.from_arrays([[walk] for walk in walks])
    far = VisitedStates.from_arrays(
        [[(walk * 1024 + 2.0**20).astype(np.float32)] for walk in walks]
    )
    a, b = (MMD().fit(data).distances(data) for data in (near, far))
    assert np.allclose(a, b, rtol=1e-2)


def test_transitions_see_what_states_do_not(rng):
    """One walk goes up and jumps down, the other is its reverse."""
    up = np.tile(np.arange(10.0), 20)[:, None]
    data = VisitedStates.from_arrays([[up], [up[::-1]]])
    states, steps = (MMD(of=of).fit(data).distances(data)[0, 1] for of in ("states", "transitions"))
    assert states < 1e-12
    assert steps > 1e-3


def test_all_states_equal_is_defined():
    data = VisitedStates.from_arrays([[np.ones((5, 2))], [np.ones((3, 2))]])
    assert not MMD().fit(data).distances(data).any()


@pytest.mark.parametrize(
    "wrong", [{"n_frequencies": 0}, {"bandwidth": 0.0}, {"n_median": 1}, {"of": "rewards"}]
)
def test_mistakes_are_named(walks, wrong):
    with pytest.raises(UsageError, match=f"{next(iter(wrong))} must be"):
        MMD(**wrong).fit(walks)
