"""VisitedStates: cut, picked and sampled without losing or mixing anything."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.errors import BadData, UsageError
from pivec.states import VisitedStates


@pytest.fixture
def lists(rng):
    return [
        [rng.normal(size=(n, 3)).astype(np.float32) for n in lengths]
        for lengths in ([4, 2, 7], [3], [1, 6])
    ]


@pytest.fixture
def data(lists):
    return VisitedStates.from_arrays(
        lists, labels=["a", "b", "c"], groups=["x", "y", "x"], returns=[[1, 2, 3], 4, [5, 7]]
    )


def test_the_flat_array_is_all_states_in_order(data, lists):
    flat = np.concatenate([episode for policy in lists for episode in policy])
    assert data.states.dtype == np.float32
    assert data.states.flags.c_contiguous
    assert not data.states.flags.writeable
    assert np.array_equal(data.states, flat)
    assert data.episode_starts.tolist() == [0, 4, 6, 13, 16, 17, 23]
    assert data.policy_starts.tolist() == [0, 3, 4, 6]
    assert data.mean_returns.tolist() == [2, 4, 6]
    assert len(data) == 3


def test_one_policy_by_number_label_or_slice(data, lists):
    for part in (data[2], data["c"], data[-1], data[2:]):
        assert np.array_equal(part.states, np.concatenate(lists[2]))
        assert part.episode_starts.tolist() == [0, 1, 7]
        assert part.returns.tolist() == [5, 7]
    assert np.shares_memory(data[0].policy_states(0), data.states)


def test_selecting_keeps_the_order_asked_for(data, lists):
    part = data.select(["c", "a"])
    assert part.labels == ("c", "a")
    assert np.array_equal(part.states, np.concatenate([*lists[2], *lists[0]]))
    assert data.select(np.array([False, True, True])).labels == ("b", "c")
    assert data.select(groups="x").labels == ("a", "c")
    assert data.select([0, 1], groups=["x"]).labels == ("a",)
    assert part.select(["a"])[0].n_states == 13


def test_sampled_episodes_are_whole_and_different(data, lists):
    some = data.select(["a", "c"]).sample_episodes(2, np.random.default_rng(0))
    assert np.diff(some.policy_starts).tolist() == [2, 2]
    for episode in some.episodes():
        assert any(np.array_equal(episode, known) for known in (*lists[0], *lists[2]))
    assert len({episode.tobytes() for episode in some.episodes()}) == 4
    again = data.select(["a", "c"]).sample_episodes(2, np.random.default_rng(0))
    assert np.array_equal(again.states, some.states)


def test_sampled_actions_go_with_their_episodes(lists, rng):
    moves = [[episode[1:, 0] for episode in policy] for policy in lists]
    data = VisitedStates.from_arrays(lists, actions=moves)
    assert np.array_equal(data.actions, np.concatenate([m for policy in moves for m in policy]))
    part = data.select([0]).sample_episodes(2, rng)
    firsts = np.concatenate([episode[1:, 0] for episode in part.episodes()])
    assert np.array_equal(part.actions, firsts)


@pytest.mark.parametrize("rows", [1, 2, 5, 7, 100])
def test_blocks_and_take_agree_with_the_flat_array(data, rows):
    picked = data.select(["a", "b", "c"])  # not flat yet
    blocks = list(picked.blocks(rows))
    assert np.array_equal(np.concatenate(blocks), data.states)
    assert all(len(block) == rows for block in blocks[:-1])
    wanted = np.array([0, 3, 5, 13, 16, 22])
    assert np.array_equal(picked.take(wanted), data.states[wanted])
    assert np.array_equal(data.take(wanted), data.states[wanted])
    assert np.array_equal(np.concatenate(list(data.blocks(rows))), data.states)


@pytest.mark.parametrize(
    ("policies", "options", "message"),
    [
        ([], {}, "at least one policy"),
        ([[]], {}, "policy-0 has no episodes"),
        ([[np.zeros((0, 2))]], {}, r"episode 0 of policy-0.*\(0, 2\)"),
        ([[np.zeros(3)]], {}, r"\(3,\)"),
        ([[np.zeros((2, 2))], [np.zeros((2, 3))]], {}, r"policy-1.*, 2\).*\(2, 3\)"),
        ([[np.array([[0, 1], [0, np.nan]])]], {}, "step 1 of episode 0 .*nan in feature 1"),
        ([[np.array([[0, 1e300]])]], {}, "inf in feature 1"),
        ([[np.zeros((2, 2))]], {"labels": ["a", "b"]}, "labels .* 1 policies, but has 2"),
        ([[np.zeros((2, 2))]] * 2, {"labels": ["a", "a"]}, "'a'"),
        ([[np.zeros((2, 2))]], {"returns": [[1, 2]]}, "returns of policy-0"),
        ([[np.zeros((2, 2))]], {"feature_names": ["x"]}, "feature_names needs 2"),
        ([[np.zeros((2, 2))]], {"actions": [[np.zeros(2)]]}, "policy-0 .*action"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_mistakes_are_named(policies, options, message):
    with pytest.raises((BadData, UsageError), match=message):
        VisitedStates.from_arrays(policies, **options)


def test_wrong_selections_are_named(data, rng):
    for wrong, message in (
        (lambda: data["z"], "'z'"),
        (lambda: data.select(groups="z"), "'z'.* 'x', 'y'"),
        (lambda: data.select([]), "at least one"),
        (lambda: data.select([True]), "mask"),
        (lambda: data.sample_episodes(2, rng), "'b' has 1"),
    ):
        with pytest.raises(UsageError, match=message):
            wrong()
    with pytest.raises(IndexError):
        data[3]


def test_states_far_from_zero_keep_their_digits():
    rng = np.random.default_rng(0)
    walks = [[rng.uniform(-1, 1, (20, 2)) for _ in range(2)] for _ in range(3)]
    far = [[walk + np.array([1e9, 0.0]) for walk in episodes] for episodes in walks]
    near, data = VisitedStates.from_arrays(walks), VisitedStates.from_arrays(far)
    assert data.feature_names == ("x[0] - 1000000000", "x[1]")
    assert np.allclose(data.states, near.states, atol=1e-6)
    turned = VisitedStates.from_arrays(far[::-1])
    assert np.array_equal(turned["policy-2"].states, data["policy-0"].states)


def test_what_float32_can_show_stays_where_it_is():
    for walk in ([[1e9], [1e9]], [[1e9], [2e9]], [[5.0], [5.0 + 1e-9]], [[1e9], [1e9 + 1e-6]]):
        data = VisitedStates.from_arrays([[np.array(walk)]])
        assert data.feature_names == ("x[0]",)
        assert np.array_equal(data.states, np.float32(walk))
