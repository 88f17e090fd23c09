"""`store:DIR` stands where a policy may, and brings what its store holds."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import pivec
from pivec.errors import BadStore, PivecError, PivecWarning, UsageError
from pivec.integrations.gymnasium import RecordStates
from pivec.states import import_recorded


def lean(observations):
    return (observations[:, 2] > 0).astype(int)


@pytest.fixture
def store(tmp_path):
    pivec.collect(
        "CartPole-v1", {"lean": lean, "r": "random"}, 3, store=tmp_path / "s", actions=True
    )
    return tmp_path / "s"


def test_a_store_is_compared_without_collecting_again(store, tmp_path):
    both = [f"store:{store}", "random"]
    with pytest.warns(PivecWarning, match="'r' and 'random'"):
        result = pivec.compare(
            "CartPole-v1", both, tmp_path / "out", episodes=3, parameters={"n_components": 3}
        )
    assert set(result.labels) == {"lean", "r", "random"}
    before, after = pivec.load(store), pivec.load(tmp_path / "out")
    for label in ("lean", "r"):
        assert np.array_equal(before[label].states, after[label].states)
        assert np.array_equal(before[label].returns, after[label].returns)
        assert np.array_equal(before[label].terminated, after[label].terminated)


def test_actions_come_along(store):
    data = pivec.collect("CartPole-v1", f"store:{store}", actions=True)
    assert np.array_equal(data.actions, pivec.load(store).actions)


def test_states_that_are_rows_already_are_not_flattened_again(tmp_path):
    env = RecordStates(gymnasium.make("FrozenLake-v1"), tmp_path / "s", policy="down")
    env.reset(seed=0)
    for _ in range(5):
        _, _, terminated, truncated, _ = env.step(1)
        if terminated or truncated:
            break
    env.close()
    before = pivec.load(tmp_path / "s")
    data = pivec.collect("FrozenLake-v1", f"store:{tmp_path / 's'}")
    assert data.n_features == 16
    assert np.array_equal(data.states, before.states)


def test_a_changed_store_is_read_again(store, tmp_path):
    first = import_recorded([f"store:{store}"], tmp_path / "copy")["lean"].states.copy()
    other = tmp_path / "other"
    pivec.collect("CartPole-v1", {"lean": lean}, 3, seed=5, store=other, actions=True)
    again = import_recorded([f"store:{other}"], tmp_path / "copy")
    assert not np.array_equal(first, again["lean"].states)


def test_mistakes_are_named(tmp_path, store):
    with pytest.raises(UsageError, match="nowhere"):
        pivec.collect("CartPole-v1", f"store:{tmp_path / 'nowhere'}")
    with pytest.raises(PivecError, match=r"4 values.* 3"):
        pivec.collect("Pendulum-v1", f"store:{store}")
    pivec.Store(tmp_path / "empty", {"environment": ""}, ["x"])
    with pytest.raises(BadStore, match="empty"):
        pivec.collect("CartPole-v1", f"store:{tmp_path / 'empty'}")
