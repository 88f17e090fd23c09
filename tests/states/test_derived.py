"""Joined, regrouped and thinned data, and features that are constant."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pivec
from pivec.errors import BadData, PivecWarning, UsageError
from pivec.states import (
    RecordedStates,
    Store,
    VisitedStates,
    find_recorded,
    import_recorded,
    joined,
    moves_of,
    over_policies,
    regrouped,
    thin,
    thinned_alike,
    warn_of_constants,
)


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


def slow_moves(episode):
    """Moves of an episode that is not thinned, in float64."""
    rows = np.asarray(episode, dtype=np.float64)
    if len(rows) == 1:
        return np.concatenate([rows, np.zeros_like(rows)], axis=1)
    return np.array([[*rows[t], *(rows[t + 1] - rows[t])] for t in range(len(rows) - 1)])


@pytest.fixture
def walking(rng):
    """Three policies with episodes of 1 to 9 states, of which one has a single state only."""
    lengths = [[3, 1, 9], [1], [2, 4]]
    walks = [[rng.normal(1e3, 1.0, size=(n, 3)) for n in some] for some in lengths]
    actions = [[np.arange(n - 1) for n in some] for some in lengths]
    returns = [[1.0, 2.0, 3.0], [4.0], [5.0, 6.0]]
    return VisitedStates.from_arrays(
        walks,
        groups=["a", "a", "b"],
        returns=returns,
        actions=actions,
        feature_names=["x", "y", "z"],
    )


def test_moves_are_the_states_and_their_next_steps(walking):
    moves = moves_of(walking)
    expected = [slow_moves(episode).astype(np.float32) for episode in walking.episodes()]
    for found, slow in zip(moves.episodes(), expected, strict=True):
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, slow)
    assert moves.states.tolist() == np.concatenate(expected).tolist()
    assert moves.lengths.tolist() == [2, 1, 8, 1, 1, 3]
    assert moves.feature_names == ("x", "y", "z", "Δx", "Δy", "Δz")
    assert not moves.has_actions
    assert moves.policies == walking.policies
    for name in ("returns", "seeds", "terminated", "truncated", "policy_starts"):
        np.testing.assert_array_equal(getattr(moves, name), getattr(walking, name))


def all_states(data):
    return data.states


def test_moves_are_data_like_any_other(walking, rng):
    moves = moves_of(walking)
    everything = moves.states
    again = pickle.loads(pickle.dumps(moves_of(walking)))
    np.testing.assert_array_equal(again.states, everything)
    np.testing.assert_array_equal(moves.select(groups="b").states, everything[-4:])
    np.testing.assert_array_equal(np.concatenate(list(again.blocks(4))), everything)
    np.testing.assert_array_equal(again.take([0, 4, 12]), everything[[0, 4, 12]])
    drawn = moves_of(walking).sample_episodes(1, np.random.default_rng(3))
    chosen = moves_of(walking.sample_episodes(1, np.random.default_rng(3)))
    np.testing.assert_array_equal(drawn.states, chosen.states)
    assert len(rows_of(thin(moves, rng, max_states=6))) == 6
    groups = [np.array([5, 0]), np.array([1])]
    np.testing.assert_array_equal(
        regrouped([moves], groups).states, moves_of(regrouped([walking], groups)).states
    )
    parts = over_policies(all_states, moves, ranges=[(0, 1), (1, 3)])
    np.testing.assert_array_equal(np.concatenate(list(parts)), everything)


def test_moves_of_a_store_are_computed_on_demand(walking, tmp_path):
    with (store := Store(tmp_path / "states", {}, walking.feature_names)).writing():
        for record in walking.records:
            store.add(record)
    moves = moves_of(store.load())
    sent = pickle.dumps(moves.without_policies())
    np.testing.assert_array_equal(pickle.loads(sent).states, moves_of(walking).states)


def thinned(data, limit):
    return RecordedStates(find_recorded(data), max_states_per_policy=limit).run()


def thinned_to(walks, limits):
    """The moves of one episode per policy, thinned to these numbers of states, and all moves."""
    data = VisitedStates.from_arrays(walks)
    parts = [thinned(data[i], limit) for i, limit in enumerate(limits)]
    moves = [slow_moves(episode).astype(np.float32) for episode in data.episodes()]
    return joined(parts), [{row.tobytes() for row in own} for own in moves]


def test_moves_of_thinned_episodes_are_single_steps(rng):
    walks = [[rng.normal(size=(n, 2)).astype(np.float32)] for n in (41, 41, 30, 3)]
    data, steps = thinned_to(walks, (22, 10, 30, 3))
    assert [record.every for record in data.records] == [2, 8, 1, 1]
    assert data.episode_steps.tolist() == [40, 40, 29, 2]
    moves = moves_of(data)
    assert moves.lengths.tolist() == [10, 3, 29, 2]  # at 0, 4, ..., 36 and 0, 16, 32
    for found, known in zip(moves.episodes(), steps, strict=True):
        assert {row.tobytes() for row in found} <= known
    assert moves.policies[0].metadata.keys() == data.policies[2].metadata.keys()
    # Episodes that are thinned differently may become one policy.
    groups = [np.array([2, 0]), np.array([1])]
    together = moves_of(regrouped([data], groups))
    np.testing.assert_array_equal(together.states, regrouped([moves], groups).states)
    assert regrouped([data], groups).episode_steps.tolist() == [29, 40, 40]
    # All episodes of a policy are thinned alike, and the smallest factor is found.
    several = VisitedStates.from_arrays([[walks[0][0]] * 3 + [walks[2][0]] * 2])
    for limit, every, counts in ((60, 4, [12] * 3 + [10] * 2), (30, 16, [6] * 3 + [4] * 2)):
        found = thinned(several, limit)
        assert (found.records[0].every, found.lengths.tolist()) == (every, counts)
    alike = thinned_alike(data[:2], data[2:])
    assert {record.every for part in alike for record in part.records} == {8}
    np.testing.assert_array_equal(alike[0].states, thinned_to(walks[:2], (10, 10))[0].states)
    assert alike[1].lengths.tolist() == [6, 2]
    again = thinned(data[0], 10)
    assert again.records[0].every == 8
    np.testing.assert_array_equal(again.states, thinned_to(walks[:1], (10,))[0].states)


@pytest.mark.parametrize("limit", [8, 12, 20, 34, 50])
def test_moves_of_thinned_episodes_are_at_regular_times(limit):
    """Whatever the length of episodes, moves are as far apart in time."""
    walks = [np.arange(n, dtype=float)[:, None] for n in (20, 33, 34, 57, 65, 66, 100)]
    for walk in walks:
        data = thinned(VisitedStates.from_arrays([[walk]]), limit)
        every = data.records[0].every
        if every > 1:
            times = moves_of(data).states[:, 0]
            assert times.tolist() == list(range(0, len(walk) - 1, 2 * every))


SECONDS = pa.array(np.arange(6) * 1000, pa.timestamp("ms"))


def recorded(label, column, times):
    """A policy whose states were recorded at these times."""
    columns = {"policy": [label] * len(times), "x": np.arange(len(times), dtype=float)}
    columns |= {column: times} if column else {"episode": [0] * len(times)}
    return VisitedStates.from_pandas(pa.table(columns))


@pytest.mark.parametrize(
    ("first", "second", "facts"),
    [
        (("step", np.arange(0, 60, 10)), ("step", np.arange(6)), ("10", "1")),
        (("step", np.arange(0, 60, 10)), ("", np.arange(6)), ("10", "1")),
        (("t", np.arange(6) * 0.02), ("t", np.arange(6) * 0.05), ("0.02", "0.05")),
        (
            ("time", pa.array(np.arange(6), pa.timestamp("s"))),
            ("t", np.arange(6) * 0.5),
            ("0.5", "1"),
        ),
        (("time", pa.array(np.arange(6), pa.timestamp("s"))), ("t", np.arange(6) * 1.0), ()),
        (("step", np.arange(0, 60, 10)), ("step", np.arange(5, 95, 10)), ()),
        (("step", np.arange(6)), ("", np.arange(6)), ()),
        (("t", np.arange(6) * 0.02), ("t", np.arange(6) * 0.0201), ()),
        (("t", np.arange(6) * 0.02), ("step", np.arange(6)), ()),
        (("t", [0, 0.02, 0.04, 0.5, 0.52, 0.54]), ("t", np.arange(6) * 0.02), ()),
    ],
)
def test_moves_need_states_equally_far_apart(first, second, facts):
    one, other = recorded("one", *first), recorded("other", *second)
    if not facts:
        assert moves_of(joined([one, other])).n_features == 2
        return
    with pytest.raises(BadData) as error:
        moves_of(joined([one, other]))
    assert all(fact in str(error.value) for fact in ("'one'", "'other'", *facts))


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


def test_a_store_remembers_how_far_apart_states_are(tmp_path):
    frame = pa.table({"x": np.arange(6.0), "step": np.arange(0, 60, 10)})
    pq.write_table(frame, tmp_path / "log.parquet")
    for _ in range(2):  # the second time it is there already
        data = import_recorded([tmp_path / "log.parquet"], tmp_path / "states")
        assert data.policies[0].metadata == {"steps_apart": 10.0}
