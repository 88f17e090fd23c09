"""What is said follows from numbers alone; all claims of the paper are in one table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pivec.errors import BadData, PivecError
from reproduction.claims import retell, verify
from reproduction.published import toml
from reproduction.recipes import NAMES
from reproduction.runner import reproduce

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


def test_a_claim_that_does_not_hold_has_its_reason():
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (RESULTS / "index.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith("| no.")
    ]
    others = [(*cells[:3], cells[7]) for cells in rows if cells[6] not in ("holds", "---")]
    assert others
    assert [row for row in others if not row[-1]] == []


def in_folders(out, parts):
    """Write results of clipping, cut by environments, a folder for each part."""
    files = sorted((RESULTS / "paper").glob("clipping*/numbers.json"))
    content, *others = (json.loads(file.read_text()) for file in files)
    for other in others:
        for key in ("trained", "runs", "summary", "curves"):
            content[key] += other[key]
    for name, places in parts.items():
        folder = out / "paper" / name
        folder.mkdir(parents=True)
        rows = {
            key: [row for row in content[key] if row["environment"] in places]
            for key in ("trained", "runs", "summary", "curves")
        }
        counts = content["counts"] | {"environments": places}
        (folder / "numbers.json").write_text(json.dumps({**content, **rows, "counts": counts}))
    retell(out)
    lines = (out / "index.md").read_text().splitlines()
    return [line for line in lines if "the distance grows by more in LunarLander" in line]


def test_environments_of_several_folders_are_judged_together(tmp_path):
    flat, rest = ["CartPole-v1", "Pendulum-v1"], ["LunarLander-v3", "BipedalWalker-v3"]
    [whole] = in_folders(tmp_path / "a", {"clipping": ["Acrobot-v1", *flat, *rest]})
    [joint] = in_folders(
        tmp_path / "b", {"clipping": ["Acrobot-v1", *flat], "clipping-Box2D": rest}
    )
    cells = [cell.strip() for cell in joint.split("|")]
    assert cells[6].startswith("paper: [clipping](paper/clipping/README.md), [clipping-Box2D](")
    assert [*cells[:6], *cells[7:]] == [
        cell.strip() for number, cell in enumerate(whole.split("|")) if number != 6
    ]
    assert " cannot be told " not in joint


def test_environments_that_are_in_two_folders_are_judged_by_each(tmp_path):
    flat = ["CartPole-v1", "Pendulum-v1"]
    lines = in_folders(tmp_path, {"clipping": flat, "clipping-again": flat[:1]})
    assert len(lines) == 2
    assert all("cannot be told" in line for line in lines)


def test_what_holds_no_numbers_is_refused(tmp_path):
    with pytest.raises(PivecError, match="has no results"):
        verify(tmp_path)
    (tmp_path / "numbers.json").write_text('{"recipe": "gridworld"}')
    with pytest.raises(BadData, match="no numbers of a recipe"):
        verify(tmp_path)
