"""Sliced Wasserstein against SciPy in one dimension, and against projections by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from pivec import SlicedWasserstein
from pivec.errors import UsageError
from pivec.states import VisitedStates


def test_one_dimension_agrees_with_scipy(rng):
    walks = [rng.gamma(1 + i, 1, (64, 1)) for i in range(4)]
    data = VisitedStates.from_arrays([[walk] for walk in walks])
    method = SlicedWasserstein(3, n_quantiles=64, p=1).fit(data)
    scale = method.scale_[0]
    expected = [[wasserstein_distance(a[:, 0], b[:, 0]) / scale for b in walks] for a in walks]
    assert np.allclose(method.distances(data), expected, rtol=1e-4, atol=1e-6)


def test_samples_of_other_sizes_come_close_to_scipy(rng):
    walks = [rng.normal(i, 1 + i, (1000 + 137 * i, 1)) for i in range(3)]
    data = VisitedStates.from_arrays([[walk] for walk in walks])
    method = SlicedWasserstein(2, n_quantiles=512, p=1).fit(data)
    scale = method.scale_[0]
    expected = [[wasserstein_distance(a[:, 0], b[:, 0]) / scale for b in walks] for a in walks]
    assert np.allclose(method.distances(data), expected, rtol=0.03)


def test_the_square_is_the_mean_over_directions_of_sorted_differences(rng):
    walks = [rng.normal(i, 1, (50, 4)) for i in range(3)]
    data = VisitedStates.from_arrays([[walk] for walk in walks])
    method = SlicedWasserstein(20, n_quantiles=50).fit(data)
    along = [
        np.sort((w - method.center_) / method.scale_ @ method.directions_, axis=0) for w in walks
    ]
    expected = [[((a - b) ** 2).mean() for b in along] for a in along]
    assert np.allclose(method.distances(data), expected, rtol=1e-4, atol=1e-9)
    assert np.allclose(np.linalg.norm(method.directions_, axis=0), 1)


def test_a_shift_is_its_square_over_the_dimensions(rng):
    states = rng.normal(size=(500, 3))
    data = VisitedStates.from_arrays([[states], [states + np.array([2.0, 0, 0])]])
    method = SlicedWasserstein(4096).fit(data)
    expected = (2 / method.scale_[0]) ** 2 / 3
    assert method.distances(data)[0, 1] == pytest.approx(expected, rel=0.05)


def test_work_in_parts_gives_the_same(walks, monkeypatch):
    whole = SlicedWasserstein(16).fit(walks).distances(walks)
    monkeypatch.setattr("pivec.characterizations.distributions._VALUES", 700)
    assert np.allclose(SlicedWasserstein(16).fit(walks).distances(walks), whole)


def test_descriptions_of_another_p_are_refused(walks):
    one, two = (SlicedWasserstein(4, p=p).fit(walks) for p in (1, 2))
    assert one.describe(walks).points is None
    with pytest.raises(UsageError, match="points"):
        two.distances(one.describe(walks))


@pytest.mark.parametrize(
    "wrong", [{"n_directions": 0}, {"n_quantiles": 0}, {"p": 3}, {"of": "all"}]
)
def test_mistakes_are_named(walks, wrong):
    with pytest.raises(UsageError, match=f"{next(iter(wrong))} must be"):
        SlicedWasserstein(**wrong).fit(walks)
