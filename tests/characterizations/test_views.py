"""Pairs stay within episodes; standardisation and drawing are those of all rows together."""

from __future__ import annotations

import numpy as np
import pytest

from pivec import MMD
from pivec.characterizations.rows import View, center_and_scale, draw_rows
from pivec.errors import BadData, UsageError
from pivec.states import VisitedStates


@pytest.fixture
def data():
    first = np.array([[0.0], [1.0], [2.0]]), np.array([[10.0], [11.0]])
    return VisitedStates.from_arrays(
        [list(first), [np.array([[20.0], [21.0]])]],
        actions=[[np.array([1, 2]), np.array([0])], [np.array([1])]],
    )


def test_transitions_do_not_cross_episodes(data):
    view = View.of_data(data, "transitions")
    assert view.rows(data, 0).tolist() == [[0, 1], [1, 2], [10, 11]]
    assert view.rows(data, 1).tolist() == [[20, 21]]


def test_discrete_actions_become_columns(data):
    view = View.of_data(data, "state-actions")
    assert view.n_actions == 3
    assert view.rows(data, 0).tolist() == [[0, 0, 1, 0], [1, 0, 0, 1], [10, 1, 0, 0]]


def test_actions_that_are_numbers_stay_as_they_are():
    data = VisitedStates.from_arrays(
        [[np.zeros((3, 1))]], actions=[[np.array([[0.5, -1.0], [2.0, 3.0]])]]
    )
    view = View.of_data(data, "state-actions")
    assert view.rows(data, 0).tolist() == [[0, 0.5, -1], [0, 2, 3]]


def test_actions_not_known_in_the_fit_are_refused(data):
    view = View.of_data(data[1], "state-actions")
    with pytest.raises(BadData, match=r"0 to 2.*0 to 1"):
        view.rows(data, 0)
    numbers = VisitedStates.from_arrays([[np.zeros((2, 1))]], actions=[[np.array([[0.5]])]])
    with pytest.raises(BadData, match="continuous"):
        view.rows(numbers, 0)
    with pytest.raises(BadData, match=r"discrete.*continuous"):
        View.of_data(numbers, "state-actions").rows(data, 0)


def test_an_episode_of_one_state_has_no_transition():
    data = VisitedStates.from_arrays([[np.zeros((1, 2)), np.ones((2, 2))], [np.zeros((1, 2))]])
    view = View.of_data(data, "transitions")
    assert view.rows(data, 0).tolist() == [[1, 1, 1, 1]]
    with pytest.raises(BadData, match=r"'policy-1'.*transitions"):
        view.rows(data, 1)


def test_unknown_views_are_named(data):
    with pytest.raises(UsageError, match="'all'"):
        MMD(of="all").fit(data)


def test_center_and_scale_are_those_of_all_rows(rng):
    walks = [
        [rng.normal(i, 1 + i, (30 + 10 * i, 3)) * [1, 1e-3, 10] + [0, 5, 1e4]] for i in range(4)
    ]
    data = VisitedStates.from_arrays(walks)
    center, scale = center_and_scale(View("states"), data)
    states = data.states.astype(np.float64)
    assert np.allclose(center, states.mean(axis=0), rtol=1e-12)
    assert np.allclose(scale, states.std(axis=0), rtol=1e-10)


def test_a_constant_column_has_scale_one():
    data = VisitedStates.from_arrays([[np.full((7, 1), 0.1)], [np.full((9, 1), 0.1)]])
    assert center_and_scale(View("states"), data)[1].tolist() == [1.0]


def test_rows_are_drawn_evenly(rng):
    data = VisitedStates.from_arrays([[np.zeros((1000, 1))], [np.ones((20, 1))]])
    drawn = draw_rows(View("states"), data, 20, rng)
    assert drawn.sum() == 10
    assert len(drawn) == 20
    assert len(draw_rows(View("states"), data, 10**6, rng)) == 1020
