"""Joined, regrouped and thinned data, and features that are constant."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pivec
from pivec.errors import BadData, PivecWarning, UsageError
from pivec.states import VisitedStates, joined, regrouped, thin, warn_of_constants


def test_policies_follow_each_other_with_all_that_is_known(walks):
    both = joined([walks.select([4, 1]), walks.select([0])])
    expected = walks.select([4, 1, 0])
    assert both.policies == expected.policies
    assert both.environment == "Walk-v0"
    for name in ("states", "returns", "episode_starts", "policy_starts", "seeds", "truncated"):
        np.testing.assert_array_equal(getattr(both, name), getattr(expected, name))


def test_actions_and_policies_come_along():
    parts = [
        VisitedStates.from_arrays([[np.zeros((3, 1))]], labels=[name], actions=[[np.full(2, i)]])
        for i, name in enumerate("ab")
    ]
    both = joined(parts)
    assert both.actions.tolist() == [0, 0, 1, 1]
    with pytest.raises(UsageError, match="'b'"):
        both.policy(1)


def test_what_does_not_go_together_is_refused(walks):
    with pytest.raises(UsageError, match=walks.labels[0]):
        joined([walks, walks])
    with pytest.raises(BadData, match="features"):
        joined([walks, VisitedStates.from_arrays([[np.zeros((3, 1))]])])


def test_states_actions_and_returns_go_with_their_episodes(rng):
    lengths = [[3, 5], [2], [4, 6]]
    walks = [[rng.normal(size=(n, 2)) for n in some] for some in lengths]
    moves = [[rng.integers(9, size=n - 1) for n in some] for some in lengths]
    returns = [[1.0, 2.0], [3.0], [4.0, 5.0]]
    a = VisitedStates.from_arrays(walks[:2], actions=moves[:2], returns=returns[:2])
    b = VisitedStates.from_arrays(walks[2:], actions=moves[2:], returns=returns[2:])
    made = regrouped([a, b], [np.array([4, 0]), np.array([2, 1, 3])])
    flat_walks = [one for some in walks for one in some]
    flat_moves = [one for some in moves for one in some]
    order = [4, 0, 2, 1, 3]
    assert np.allclose(made.states, np.concatenate([flat_walks[i] for i in order]))
    assert np.array_equal(made.actions, np.concatenate([flat_moves[i] for i in order]))
    assert made.returns.tolist() == [5.0, 1.0, 3.0, 2.0, 4.0]
    assert np.diff(made.policy_starts).tolist() == [2, 3]


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


def test_a_uniform_draw_of_too_many_is_refused(data, rng, monkeypatch):
    monkeypatch.setattr("pivec.states.derived._MAX_POPULATION", 100)
    with pytest.raises(UsageError, match=f"100.*{sum(SIZES):,}"):
        thin(data, rng, max_states=10, sampling="uniform")


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
    with pytest.raises(UsageError, match="max_states"):
        thin(data, rng, max_states=0)


def visited(columns, names=None):
    states = np.stack(columns, axis=1)
    return pivec.VisitedStates.from_arrays([[states[:5]], [states[5:]]], feature_names=names)


MOVING, STILL = np.arange(10.0), np.full(10, 0.5)


def test_most_features_constant_is_said_with_names():
    data = visited([STILL, MOVING, STILL, STILL, STILL])
    with pytest.warns(PivecWarning, match=r"4 of 5 .*x\[0\], x\[2\], x\[3\]"):
        warn_of_constants(data)


def test_a_few_constants_and_values_nobody_visits_are_usual():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_constants(visited([STILL, MOVING, MOVING]))
        warn_of_constants(visited([(MOVING > 4).astype(float)]))  # which differs between policies
        warn_of_constants(visited([STILL, STILL, MOVING % 2], ["x=0", "x=1", "x=2"]))


def nothing(observations):
    return np.zeros((len(observations), 3))


def test_a_comparison_of_what_coincides_warns(tmp_path):
    with (
        pytest.warns(PivecWarning, match="distances are 0"),
        pytest.warns(PivecWarning, match="all 74 states"),
        pytest.warns(PivecWarning, match="alike"),
    ):
        pivec.compare(
            "CartPole-v1", ["random:2"], tmp_path, episodes=2, features=nothing, method="gaussian"
        )
    page = (tmp_path / "report.html").read_text()
    assert "distances are 0" in page
    assert "all 74 states" in page
