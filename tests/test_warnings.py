"""Warnings are collected, counted, and reach whoever listened before."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import pivec
from pivec.errors import PivecWarning
from pivec.terminal import CollectedWarning, WarningCollector, raise_again

MINE = """
import warnings
from pivec.errors import PivecWarning

def lean(observations):
    warnings.warn("leaning <b>on</b> it", PivecWarning)
    warnings.warn("\\x1b[33mthat is old\\x1b[0m", FutureWarning)
    return (observations[:, 2] > 0).astype(int)
"""


def warn(text="again", times=1):
    for _ in range(times):
        warnings.warn(text, PivecWarning, stacklevel=1)


def test_a_listener_hears_each_text_once_and_repetitions_are_counted():
    heard = []
    with WarningCollector(heard.append) as notices:
        warn("a", 3)
        warn("b")
    assert [notice.text for notice in heard] == ["a", "b"]
    assert notices.rows == [
        CollectedWarning("a", "PivecWarning", 3),
        CollectedWarning("b", "PivecWarning"),
    ]


def test_without_a_listener_warnings_go_on():
    with pytest.warns(PivecWarning, match="again") as caught, WarningCollector() as notices:
        warn()
    assert len(caught) == 1
    assert notices.rows == [CollectedWarning("again", "PivecWarning")]


def test_what_was_warned_of_before_is_heard_again():
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("default")
        for _ in range(2):
            with WarningCollector() as notices:
                warn("the same line", 2)
            assert notices.rows == [CollectedWarning("the same line", "PivecWarning")]


def test_filters_and_whoever_listened_before_come_back():
    filters, listener = list(warnings.filters), warnings.showwarning
    with WarningCollector(lambda _: None), WarningCollector():
        warn()
    assert warnings.showwarning is listener
    assert list(warnings.filters) == filters


def test_errors_stay_errors():
    with WarningCollector() as notices, pytest.raises(PivecWarning):
        warn()
    assert not notices.rows


@pytest.mark.filterwarnings("default")
def test_what_another_process_counted_is_counted_here():
    with WarningCollector(lambda _: None) as notices:
        raise_again([("old", "DeprecationWarning", 7), ("own", "PivecWarning", 2)])
        raise_again([("own", "PivecWarning", 3)])
    assert notices.rows == [
        CollectedWarning("own", "PivecWarning", 5),
        CollectedWarning("old", "DeprecationWarning", 7),
    ]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "warning_policies.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "warning_policies:lean"
    import sys

    sys.modules.pop("warning_policies", None)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("jobs", [1, 2])
def test_the_command_line_says_each_once_and_the_page_repeats_it_with_a_count(
    run, mine, tmp_path, jobs
):
    done = run("compare", "CartPole-v1", mine, "random", "--episodes", 2, "--components", 2,
               "--jobs", jobs)  # fmt: skip
    lines = done.err.splitlines()
    assert lines[0] == "pivec: warning: leaning <b>on</b> it"
    assert lines[1].startswith("pivec: FutureWarning from another package")
    assert lines[1].endswith("that is old")
    assert len(lines) == 2
    assert done.out.splitlines()[-1].startswith("Report:")
    page = (tmp_path / "pivec-out/report.html").read_text()
    assert "leaning &lt;b&gt;on&lt;/b&gt; it (" in page
    kept = json.loads((tmp_path / "pivec-out/run.json").read_text())["warnings"]["collect"]
    assert [row["kind"] for row in kept] == ["PivecWarning", "FutureWarning"]
    assert kept[0]["times"] > 10


def test_python_gets_warnings_and_the_page_has_them(tmp_path):
    def warning(observations):
        warn("by hand")
        return np.zeros(len(observations), dtype=int)

    with pytest.warns(PivecWarning, match="by hand"):
        pivec.compare(
            "CartPole-v1", {"a": warning, "b": "random"}, tmp_path, episodes=2,
            parameters={"n_components": 2},
        )  # fmt: skip
    assert "by hand" in (tmp_path / "report.html").read_text()
