"""The transition matrix by hand: what is counted, and what order has to do with it."""

from __future__ import annotations

import numpy as np
import pytest

from pivec import Discretization, Transitions
from pivec.states import RecordedStates, VisitedStates, find_recorded, joined


def test_shares_by_hand():
    a, b = 0.0, 10.0
    there = [np.array([[a], [a], [b], [b]])]  # aa ab bb
    back = [np.array([[b], [b], [a]]), np.array([[a], [b]])]  # bb ba, ab
    data = VisitedStates.from_arrays([there, back])
    # ½ (aa ⅓ + ab 0 + bb 0 + ba ⅓)
    assert Transitions().fit(data).distances(data)[0, 1] == pytest.approx(1 / 3)


def test_the_dense_joint_distribution(rng):
    walks = [[rng.normal(0.3 * i, 1, (80, 2)) for _ in range(3)] for i in range(3)]
    data = VisitedStates.from_arrays(walks)
    method = Transitions(bins=3).fit(data)
    joint = []
    for i in range(3):
        counts = np.zeros((9, 9))
        for episode in data[i].episodes():
            place = (episode - method.low_) / (method.high_ - method.low_) * 3
            cell = np.floor(place).astype(int) @ [3, 1]
            np.add.at(counts, (cell[:-1], cell[1:]), 1)
        joint.append(counts / counts.sum())
    expected = [[0.5 * np.abs(p - q).sum() for q in joint] for p in joint]
    assert np.allclose(method.distances(data), expected)


def test_equal_cells_in_another_order_are_seen_here_only():
    forth = np.array([[0.0], [3.0], [6.0], [9.0]])
    data = VisitedStates.from_arrays([[forth], [forth[::-1]]])
    assert Discretization().fit(data).distances(data)[0, 1] == 0
    assert Transitions().fit(data).distances(data)[0, 1] == 1


def test_transitions_of_thinned_episodes_are_single_steps():
    circle = np.arange(200.0)[:, None] % 10
    whole = VisitedStates.from_arrays({"all": [circle]})
    found = find_recorded(VisitedStates.from_arrays({"some": [circle]}))
    thinned = RecordedStates(found, max_states_per_policy=60).run()
    assert thinned.records[0].every == 4
    both = joined([whole, thinned])
    method = Transitions().fit(both)
    cells = [len(own) for own in method.describe(both).rows("cells")]
    assert cells[0] == 10
    assert cells[1] < 10  # 2k is not prime to the period
    assert method.distances(both)[0, 1] == pytest.approx(0.5, abs=0.1)
