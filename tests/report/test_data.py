"""What is handed to a report must fit together."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.errors import UsageError


def test_runs_are_groups_with_steps_in_order(make_report):
    report = make_report(steps=[400, 300, 200, 100, 1, None, 3, 2, None, None, 50])
    assert report.runs() == {"ppo": [3, 2, 1, 0], "a2c": [4, 7, 6]}
    assert report.group_names() == ["a2c", "ppo"]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"groups": ["a"]}, "groups"),
        ({"positions": np.zeros((3, 2))}, "positions"),
        ({"return_stds": np.zeros(2)}, "return_stds"),
        ({"distances": np.zeros((2, 2))}, "distances"),
        ({"nearest": [(0, 99, 1.0)]}, "pair"),
        ({"travel": [("ppo", [1, 2], [0.0])]}, "travel"),
    ],
)
def test_what_does_not_fit_is_refused(make_report, change, word):
    with pytest.raises(UsageError, match=word):
        make_report(**change)
