"""Episodes are samples: what adds up over them, and how sure the distances are that come of it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from test_contract import _cases

from pivec.characterizations import characterization
from pivec.characterizations.averages import segment_sums
from pivec.characterizations.cells import CellCounts


@pytest.fixture(params=_cases())
def method(request):
    name, settings = request.param
    return characterization(name, **settings)


def by_policy(data):
    """Weights that add the episodes of each policy up."""
    return np.repeat(np.eye(len(data)), np.diff(data.policy_starts), axis=1)


def test_sums_of_statistics_describe_as_describing_does(method, behaviours):
    if not hasattr(method, "_statistics"):
        pytest.skip("no sums suffice")
    statistics = method.fit(behaviours)._statistics(behaviours)
    vectors, points, arrays = method._from_statistics(by_policy(behaviours) @ statistics)
    described = method._describe(behaviours)
    for ours, expected in [(vectors, described[0]), (points, described[1])]:
        assert (ours is None) == (expected is None)
        assert ours is None or np.allclose(ours, expected, rtol=1e-9, atol=1e-12)
    assert arrays.keys() == described[2].keys()
    for name, expected in described[2].items():
        assert np.allclose(arrays[name], expected, rtol=1e-9, atol=1e-12), name


def test_cells_of_an_episode_are_counted_and_add_up():
    words = np.array([[7], [3], [7], [9], [3], [3]], dtype=np.uint64)
    counts = CellCounts.of_rows(words, np.array([0, 3, 3, 6]))
    cells, shares = (np.eye(3)[[0, 2]] @ counts).shares()
    assert [own.ravel().tolist() for own in cells] == [[3, 7], [3, 9]]
    assert np.allclose(shares, [[1 / 3, 2 / 3], [2 / 3, 1 / 3]])
    cells, shares = (np.array([[1, 5, 1]]) @ counts).shares()
    assert cells[0].ravel().tolist() == [3, 7, 9]
    assert np.allclose(shares[0], [0.5, 1 / 3, 1 / 6])


def test_sums_of_segments_without_rows_are_zero(rng):
    values, cuts = rng.normal(size=(9, 2)), np.array([0, 0, 4, 4, 9, 9])
    expected = [values[i:j].sum(axis=0) for i, j in pairwise(cuts)]
    assert np.allclose(segment_sums(values, cuts), expected)
