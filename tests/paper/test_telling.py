"""What is said follows from numbers alone; all claims of the paper are in one table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pivec.errors import BadData, PivecError
from pivec.paper import retell, verify
from pivec.paper.published import toml
from pivec.paper.recipes import NAMES
from pivec.paper.reproduction import reproduce

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    reproduce("gridworld", "smoke", out)
    retell(out)
    return out


def test_committed_results_follow_from_their_numbers():
    assert verify(RESULTS) == []


def test_a_changed_number_is_named(results):
    assert verify(results) == []
    page = results / "smoke" / "gridworld" / "README.md"
    text = page.read_text()
    page.write_text(text.replace("10,000", "10,001").replace("0.0", "0.1", 1))
    [wrong] = verify(results)
    assert str(page) in wrong
    assert retell(results) == [page]
    assert page.read_text() == text


def test_a_page_that_comes_from_no_numbers_is_named(results):
    other = results / "by_hand.md"
    other.write_text("The distance is 3.")
    assert verify(results) == [f"{other} does not come from any numbers"]
    other.unlink()


def test_all_claims_are_in_the_table(results):
    lines = (results / "index.md").read_text().splitlines()
    for number, claim in enumerate(toml("claims")["claims"], 1):
        assert any(line.startswith(f"| {number} | “{claim['words'][:40]}") for line in lines)
        assert claim["recipe"] in (*NAMES, "plan")
    assert any("gridworld-returns" not in line and "holds" in line for line in lines)
    assert any("not run" in line for line in lines)


def test_findings_name_claims_that_there_are():
    keys = {claim["key"] for claim in toml("claims")["claims"]} | {""}
    for file in RESULTS.rglob("numbers.json"):
        assert {finding["of"] for finding in json.loads(file.read_text())["findings"]} <= keys


def test_what_holds_no_numbers_is_refused(tmp_path):
    with pytest.raises(PivecError, match="has no results"):
        verify(tmp_path)
    (tmp_path / "numbers.json").write_text('{"recipe": "gridworld"}')
    with pytest.raises(BadData, match="no numbers of a recipe"):
        verify(tmp_path)
