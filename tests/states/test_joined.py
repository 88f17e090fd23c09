"""Data of several sources, one after another."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.errors import BadData, UsageError
from pivec.states import VisitedStates, joined


def test_policies_follow_each_other_with_all_that_is_known(walks) -> None:
    both = joined([walks.select([4, 1]), walks.select([0])])
    expected = walks.select([4, 1, 0])
    assert both.policies == expected.policies
    assert both.environment == "Walk-v0"
    for name in ("states", "returns", "episode_starts", "policy_starts", "seeds", "truncated"):
        np.testing.assert_array_equal(getattr(both, name), getattr(expected, name))


def test_actions_and_policies_come_along() -> None:
    parts = [
        VisitedStates.from_arrays([[np.zeros((3, 1))]], labels=[name], actions=[[np.full(2, i)]])
        for i, name in enumerate("ab")
    ]
    both = joined(parts)
    assert both.actions.tolist() == [0, 0, 1, 1]
    with pytest.raises(UsageError, match="is not kept"):
        both.policy(1)


def test_what_does_not_go_together_is_refused(walks) -> None:
    with pytest.raises(UsageError, match="two policies are called"):
        joined([walks, walks])
    with pytest.raises(BadData, match="same features"):
        joined([walks, VisitedStates.from_arrays([[np.zeros((3, 1))]])])
