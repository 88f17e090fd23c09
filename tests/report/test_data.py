"""What is handed to a report must fit together."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.errors import UsageError
from pivec.report import PolicyTable, matrix_figure, write_distances


def test_runs_are_groups_with_steps_in_order(make_report):
    steps = [400, 300, 200, 100, 1, None, 3, 2, None, None, 50]
    policies = make_report({"step": steps}).policies
    assert policies.runs == {"ppo": [3, 2, 1, 0], "a2c": [4, 7, 6]}
    assert list(policies.group_colours) == ["a2c", "ppo"]


def test_what_does_not_fit_is_refused(make_report, measured_of):
    with pytest.raises(UsageError, match="at least one"):
        PolicyTable([])
    with pytest.raises(UsageError, match="11 policies"):
        make_report(measured=measured_of(3))


def test_distances_that_do_not_fit_are_refused(make_report, measured_of, tmp_path):
    report = make_report()
    with pytest.raises(UsageError, match="distances"):
        matrix_figure(np.zeros((2, 2)), report.policies, report.policies.order)
    with pytest.raises(UsageError, match="distances"):
        write_distances(tmp_path, ["a", "b", "c"], measured_of(2))
