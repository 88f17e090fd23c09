"""Histograms by hand, states outside the grid, and spaces of many dimensions."""

from __future__ import annotations

import numpy as np
import pytest

from pivec import Discretization
from pivec.errors import UsageError
from pivec.states import VisitedStates


def test_histograms_by_hand():
    # Ten bins between 0 and 10: bins of the first policy 0 0 5 9, of the second 0 5 5 5.
    walks = [
        [np.array([[0.0], [0.9]]), np.array([[5.5], [10.0]])],
        [np.array([[0.5], [5.1], [5.5], [5.9]])],
    ]
    data = VisitedStates.from_arrays(walks)
    method = Discretization().fit(data)
    # ½ (|½ − ¼| + |¼ − ¾| + |¼ − 0|)
    assert method.distances(data)[0, 1] == pytest.approx(0.5)
    assert method.low_ == pytest.approx([-1e-4])
    assert method.high_ == pytest.approx([10 + 1e-4])


def test_disjoint_policies_are_one_apart(rng):
    data = VisitedStates.from_arrays([[rng.uniform(i, i + 0.05, (50, 2))] for i in (0, 1, 2)])
    d = Discretization().fit(data).distances(data)
    assert np.allclose(d, 1 - np.eye(3))


def test_unseen_states_outside_the_grid_count_to_the_outer_bins():
    data = VisitedStates.from_arrays([[np.array([[0.0], [1.0]])]])
    method = Discretization().fit(data)
    outside = VisitedStates.from_arrays([[np.array([[-100.0], [1e30]])]])
    assert method.distances(data, outside)[0, 0] == 0


def test_it_sees_what_goes_together(rng):
    """Equal histograms of each feature, opposite correlation."""
    x = rng.choice([0.0, 1.0], size=(500, 1))
    data = VisitedStates.from_arrays([[np.hstack([x, x])], [np.hstack([x, 1 - x])]])
    assert Discretization().fit(data).distances(data)[0, 1] == pytest.approx(1)


def test_forty_dimensions_are_as_good_as_two(rng):
    """Beyond the first two, all features are constant: a dense array would have 10⁴⁰ cells."""
    walks = [[rng.normal(0.2 * i, 1, (100, 2))] for i in range(4)]
    wide = [[np.pad(walk, ((0, 0), (0, 38)))] for (walk,) in walks]
    few, many = (
        Discretization().fit(data).distances(data)
        for data in map(VisitedStates.from_arrays, (walks, wide))
    )
    assert np.allclose(few, many)


def test_mistakes_are_named(walks):
    with pytest.raises(UsageError, match="bins"):
        Discretization(bins=1).fit(walks)
    with pytest.raises(UsageError, match="margin"):
        Discretization(margin=0.0).fit(walks)
