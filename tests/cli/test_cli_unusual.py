"""`pivec unusual` as people call it, and the warning of policies that are placed elsewhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import pivec
from robot_files import write_lerobot

ESCAPE = "\x1b[31m[bold]$odd$<b>"


def made(folder, *, labels=("a", ESCAPE), earlier=None, far=0.0, seed=0):
    """Make a folder as a comparison leaves it, of walks in which episode 3 of the last is odd."""
    rng = np.random.default_rng(seed)
    arrays = [[rng.normal(0, 1, (30, 2)) for _ in range(12)] for _ in labels]
    arrays[-1][3] += 5.0
    arrays[-1][5][:, 0] += far
    returns = [np.arange(12.0)] * len(labels)
    data = pivec.VisitedStates.from_arrays(arrays, labels, returns=returns, environment="Walk-v0")
    pivec.compare(data, out=folder, space=earlier, components=None if earlier else 4)
    return folder


def test_it_lists_episodes_and_leaves_a_table_and_a_figure(tmp_path, run):
    made(tmp_path / "out")
    said = run("unusual", "out", "--top", 2).out
    lines = said.splitlines()
    assert lines[0].startswith("Episode 3 of ")
    assert lines[0].endswith("times as far from the others as usual")
    assert "\x1b" not in said
    assert "[bold]$odd$<b>" in said
    assert "No policy has " in said
    assert (tmp_path / "out" / "unusual.png").stat().st_size > 5000
    content = json.loads((tmp_path / "out" / "unusual.json").read_text())
    assert content["episodes"][0]["episode"] == 3
    assert len(content["policies"][0]["times"]) == 12
    page = (tmp_path / "out" / "unusual.html").read_text()
    assert "\x1b" not in page
    assert "<b>" not in page
    assert "pivec unusual out --top 2" in page


def test_json_is_all_that_is_printed(tmp_path, run):
    made(tmp_path / "out")
    content = json.loads(run("unusual", "out", "a", "--json", "--out", "there").out)
    assert {row["policy"] for row in content["episodes"]} == {"a"}
    assert content["outside"]["policies"][0]["policy"] == "a"
    assert (tmp_path / "there" / "unusual.png").exists()
    assert not (tmp_path / "out" / "unusual.json").exists()


def test_mistakes_are_sentences(tmp_path, run):
    made(tmp_path / "out")
    assert "has no policy 'b'" in run("unusual", "out", "b", code=2).err
    assert "nowhere holds no space" in run("unusual", "nowhere", code=2).err
    assert "--top" in run("unusual", "out", "--top", 0, code=2).err


def test_a_folder_of_datasets_counts_and_one_with_policies_is_refused(tmp_path, run, rng):
    for name in "ab":
        walks = [rng.normal(size=(20, 3)).astype(np.float32) for _ in range(4)]
        write_lerobot(tmp_path / "both" / name, walks)
    content = json.loads(run("unusual", "both", "--json", "--out", "found").out)
    assert {row["policy"] for row in content["episodes"]} == {"a", "b"}
    [policy, *_] = Path(pivec.__file__).parent.glob("demo_policies/*/*/*.safetensors")
    shutil.copy(policy, tmp_path / "both")
    alone = run("unusual", f"lerobot:{tmp_path / 'both' / 'a'}", "--json", "--out", "alone").out
    assert {row["policy"] for row in json.loads(alone)["episodes"]} == {"a"}
    assert "policies besides" in run("unusual", "both", "--out", "more", code=2).err


def test_policies_that_are_placed_elsewhere_are_warned_of(tmp_path, run):
    made(tmp_path / "old")
    with pytest.warns(
        pivec.errors.PivecWarning, match=r"[89].* % of the states of 'new' are outside"
    ):
        made(tmp_path / "far", labels=["new"], earlier=tmp_path / "old", far=30.0, seed=1)
    made(tmp_path / "near", labels=["new"], earlier=tmp_path / "old", seed=2)
    said = run("unusual", "far").out
    assert "% of the states of new are outside the space" in said
    assert "x[0] 2" in said
    assert "deviations above" in said


def test_clips_that_cannot_be_made_are_a_note(tmp_path, run):
    made(tmp_path / "out")
    said = run("unusual", "out", "--clips").out
    assert "Note: " in said
    assert "recorded elsewhere" in said
    assert said.count("Note: ") == 2  # a policy each
