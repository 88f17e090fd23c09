"""Outcomes: further numbers and texts of episodes, which stay with them wherever they go."""

import numpy as np
import pytest

import pivec
from pivec import VisitedStates
from pivec.errors import BadData, UsageError
from pivec.states import Store, joined, regrouped


@pytest.fixture
def data(rng):
    episodes = [[rng.normal(size=(n, 2)) for n in (4, 3, 5)], [rng.normal(size=(2, 2))] * 2]
    return VisitedStates.from_arrays(
        episodes,
        labels=["a", "b"],
        outcomes={
            "success": [[True, False, None], [1, 0]],
            "task": [["lift", "", "stack"], ["lift", None]],
        },
    )


def test_unknown_numbers_are_nan_and_unknown_texts_empty(data):
    np.testing.assert_array_equal(data.outcomes["success"], [1, 0, np.nan, 1, 0])
    assert data.outcomes["task"].tolist() == ["lift", "", "stack", "lift", ""]


def test_they_stay_with_their_episodes(data, tmp_path):
    few = data.select(["a"]).sample_episodes(2, np.random.default_rng(0))
    kept = [np.flatnonzero([np.array_equal(s, e) for s in data.episodes()])[0]
            for e in few.episodes()]  # fmt: skip
    np.testing.assert_array_equal(few.outcomes["success"], data.outcomes["success"][kept])
    every = regrouped([data], [np.array([4, 2]), np.array([0])])
    np.testing.assert_array_equal(every.outcomes["success"], [0, np.nan, 1])
    assert every.outcomes["task"].tolist() == ["", "stack", "lift"]


def test_data_without_them_has_unknown_ones(data, rng):
    other = VisitedStates.from_arrays([[rng.normal(size=(3, 2))]], labels=["c"])
    both = joined([data, other])
    np.testing.assert_array_equal(both.outcomes["success"], [1, 0, np.nan, 1, 0, np.nan])
    assert both.outcomes["task"].tolist() == ["lift", "", "stack", "lift", "", ""]
    numbers = VisitedStates.from_arrays(
        [[rng.normal(size=(3, 2))]], labels=["c"], outcomes={"task": [[7]]}
    )
    assert joined([data, numbers]).outcomes["task"].tolist()[-1] == "7"


def test_a_store_keeps_them(data, tmp_path):
    store = Store(tmp_path / "states", {}, data.feature_names)
    with store.writing():
        for record in data.records:
            store.add(record)
    loaded = pivec.load(tmp_path / "states")
    np.testing.assert_array_equal(loaded.outcomes["success"], data.outcomes["success"])
    assert loaded.outcomes["task"].tolist() == data.outcomes["task"].tolist()
    table = loaded.to_pandas("episodes")
    np.testing.assert_array_equal(table["success"], data.outcomes["success"])
    assert table["task"].tolist() == data.outcomes["task"].tolist()


@pytest.mark.parametrize(
    ("outcomes", "error", "fact"),
    [
        ({"success": [[1, 0]]}, UsageError, "one entry for each of 2"),
        ({"success": [[1, 0], [1, 0]]}, UsageError, "3 episodes"),
        ({"length": [[1, 0, 1], [1, 0]]}, UsageError, "length"),
        ({"success": [[1, [], 1], [1, 0]]}, BadData, "success"),
    ],
)
def test_mistakes_are_named(rng, outcomes, error, fact):
    episodes = [[rng.normal(size=(n, 2)) for n in (4, 3, 5)], [rng.normal(size=(2, 2))] * 2]
    with pytest.raises(error, match=fact):
        VisitedStates.from_arrays(episodes, outcomes=outcomes)
