"""Rows of different lengths are selected and joined like plain ones."""

from __future__ import annotations

import numpy as np
import pytest

from pivec import Trajectories
from pivec.errors import UsageError
from pivec.states import VisitedStates

LENGTHS = [3, 1, 4]


@pytest.fixture
def described():
    walks = [[np.arange(2.0 * n).reshape(n, 2)] for n in LENGTHS]
    data = VisitedStates.from_arrays(walks)
    return Trajectories().fit(data).describe(data)


def test_rows_are_selected_in_the_given_order_beside_plain_ones(described):
    taken = described.select([2, 0, 2])
    assert [len(row) for row in taken.rows("states")] == [4, 3, 4]
    assert np.array_equal(taken.rows("states")[1], np.arange(6.0).reshape(3, 2))
    assert taken.n_states.tolist() == [4, 3, 4]


def test_no_rows_at_all(described):
    taken = described.select([])
    assert taken.rows("states") == []
    assert taken.arrays["states"].shape == (0, 2)


def test_joining_keeps_every_row(described):
    joined = described.select([0, 1]) + described.select([1, 2])
    assert [len(row) for row in joined.rows("states")] == [3, 1, 1, 4]
    assert np.array_equal(joined.rows("states")[3], described.rows("states")[2])


def test_what_descriptions_do_not_have_is_named(described):
    with pytest.raises(UsageError, match="points"):
        described.values("points")
