"""Thinned data: within every cap, drawn as asked, and each state from its own policy."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.errors import UsageError
from pivec.states import VisitedStates, thin
from pivec.states.derived import _quotas

SIZES = [500, 30, 1000, 5, 200]


@pytest.fixture
def data():
    """The first feature is the policy, the second counts its states."""
    walks = []
    for policy, size in enumerate(SIZES):
        rows = np.stack([np.full(size, policy), np.arange(size)], axis=1)
        walks.append(np.array_split(rows, 5))
    return VisitedStates.from_arrays(walks)


def rows_of(source, rows=64):
    return np.concatenate([source.rows(i, i + rows) for i in range(0, source.n_states, rows)])


def test_states_are_shared_out_evenly(data, rng):
    some = thin(data, rng, max_states=400)
    rows = rows_of(some)
    assert len(rows) == some.n_states == 400
    counts = np.bincount(rows[:, 0].astype(int))
    assert counts.tolist() == [122, 30, 122, 5, 121]
    assert len(np.unique(rows, axis=0)) == 400
    assert np.array_equal(rows_of(some, 7), rows)


def test_every_state_is_as_likely_if_asked(data, rng):
    draws = [rows_of(thin(data, rng, max_states=400, sampling="uniform")) for _ in range(300)]
    assert all(len(np.unique(rows, axis=0)) == 400 for rows in draws)
    counts = np.bincount(np.concatenate(draws)[:, 0].astype(int)) / len(draws)
    # Hypergeometric: mean 400 p, variance below 400 p (1 - p); five deviations of the mean of 300.
    share = np.array(SIZES) / sum(SIZES)
    np.testing.assert_allclose(
        counts, 400 * share, atol=5 * np.sqrt(400 * 0.25 / len(draws)), rtol=0
    )
    firsts = np.concatenate(draws)[:, 1] < 2  # as often as any other two of a policy
    assert abs(firsts.sum() / 300 - 400 * 10 / sum(SIZES)) < 5 * np.sqrt(2.4 / 300)


def test_a_uniform_draw_of_too_many_is_refused(rng):
    with pytest.raises(UsageError, match="cap policies or episodes too"):
        _quotas(np.array([10**9, 5]), 10, rng, "uniform")


def test_policies_and_episodes_are_capped(data, rng):
    some = thin(data, rng, max_policies=3, max_episodes=2)
    assert len(some) == 3
    assert np.diff(some.policy_starts).tolist() == [2, 2, 2]


def test_caps_that_do_not_bind_change_nothing(data, rng):
    assert thin(data, rng, max_policies=9, max_episodes=99, max_states=10**9) is data


def test_the_same_seed_draws_the_same(data):
    a, b = (thin(data, np.random.default_rng(3), max_states=99) for _ in range(2))
    assert np.array_equal(rows_of(a), rows_of(b))


def test_caps_below_one_are_refused(data, rng):
    with pytest.raises(UsageError, match="max_states must be a whole number of at least 1"):
        thin(data, rng, max_states=0)
