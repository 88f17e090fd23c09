"""What is handed to a report must fit together."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.errors import UsageError
from pivec.report.distances_figure import distances_figure
from pivec.report.findings import colours_of_groups, training_runs
from pivec.report.tables import write_distances_csv


def test_runs_are_groups_with_steps_in_order(make_report):
    steps = [400, 300, 200, 100, 1, None, 3, 2, None, None, 50]
    rows = make_report({"step": steps}).rows
    assert training_runs(rows) == {"ppo": [3, 2, 1, 0], "a2c": [4, 7, 6]}
    assert list(colours_of_groups(rows)) == ["a2c", "ppo"]


@pytest.mark.parametrize(
    ("change", "word"), [("rows", "at least one"), ("measured", "11 policies")]
)
def test_what_does_not_fit_is_refused(make_report, measured_of, change, word):
    values = {"rows": [], "measured": measured_of(3)}
    with pytest.raises(UsageError, match=word):
        make_report(**{change: values[change]})


def test_distances_that_do_not_fit_are_refused(make_report, measured_of, tmp_path):
    report = make_report()
    with pytest.raises(UsageError, match="distances"):
        distances_figure(np.zeros((2, 2)), report.rows)
    with pytest.raises(UsageError, match="distances"):
        write_distances_csv(tmp_path / "d.csv", ["a", "b", "c"], measured_of(2))
