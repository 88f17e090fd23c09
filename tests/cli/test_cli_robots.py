"""Datasets of robots on the command line: compared with frames, and cleaned of odd episodes."""

from __future__ import annotations

import json
import shlex
import sys

import numpy as np
import pytest
from PIL import Image

from robot_files import MOTORS, colour, walks, write_lerobot, write_robomimic

ODD = 12


@pytest.fixture
def datasets(tmp_path):
    pytest.importorskip("av")
    for number, version in enumerate(("v2.1", "v3.0")):
        made = walks(number, n=8, shift=number / 2)
        write_lerobot(tmp_path / f"rollouts_{'ab'[number]}", made, version, videos=True)
    return tmp_path


def test_compare_shows_frames_of_the_videos(datasets, run):
    said = run("compare", "rollouts_a/", "rollouts_b/", "--components", 4).out
    assert "no picture" not in said
    out = datasets / "pivec-out"
    regions = json.loads((out / "regions.json").read_text())["regions"]
    assert len(regions) == 4
    for region in regions:
        visit = region["frame"]["visit"]
        image = np.asarray(Image.open(out / region["frame"]["path"]).convert("RGB"))
        expected = colour(visit["episode"], visit["step"])
        assert np.abs(image.mean(axis=(0, 1)) - expected).max() < 8
    unusual = json.loads((out / "unusual.json").read_text())
    assert [clip["reason"] for clip in unusual["clips"]] == ["", ""]
    assert {sheet["seed"] for clip in unusual["clips"] for sheet in clip["sheets"]} == {-1}
    page = (out / "report.html").read_text()
    for region in regions:
        assert region["frame"]["path"].split("/")[-1] in page
    sheets = [sheet["path"] for clip in unusual["clips"] for sheet in clip["sheets"]]
    assert all(sheet.split("/")[-1] in page for sheet in sheets)
    said = run("explain", "pivec-out", "rollouts_a", "rollouts_b").out
    assert "Note" not in said
    folder = out / "explain" / "rollouts_a--rollouts_b"
    explained = json.loads((folder / "explain.json").read_text())
    assert len(explained["clips"]) == 2
    assert all(clip["path"] for clip in explained["clips"])


def test_without_the_extra_there_are_numbers_and_a_note(datasets, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    said = run("compare", "rollouts_a", "rollouts_b", "--components", 4).out
    assert "pivec[robots]" in said
    assert (datasets / "pivec-out" / "report.html").exists()
    assert not (datasets / "pivec-out" / "regions.json").exists()


def test_unusual_takes_a_dataset_and_names_what_to_delete(tmp_path, run, rng):
    made = [rng.normal(size=(50, 3)).astype(np.float32) for _ in range(20)]
    made[ODD] += 3.0
    numbers = [*range(10), *range(20, 30)]
    write_lerobot(tmp_path / "demos", made, numbers=numbers)
    said = run("unusual", "demos", "--top", 3, "--out", "found").out
    assert said.startswith(f"Episode {ODD} of demos")
    settings = json.loads((tmp_path / "found" / "delete-demos.json").read_text())
    assert settings["operation"]["episode_indices"] == [numbers[ODD]]
    assert settings["operation"]["type"] == "delete_episodes"
    assert settings["root"] == str(tmp_path / "demos")
    [line] = [line for line in said.splitlines() if "lerobot-edit-dataset" in line]
    words = shlex.split(line[line.index("lerobot-edit-dataset") :])
    given = dict(zip(words[1::2], words[2::2], strict=True))
    assert given["--operation.type"] == "delete_episodes"
    assert (
        json.loads(given["--operation.episode_indices"]) == settings["operation"]["episode_indices"]
    )
    assert given["--new_repo_id"] != given["--repo_id"]


def test_import_says_what_was_read(datasets, run):
    write_robomimic(datasets / "lift.hdf5", walks(), images=False)
    said = run("import", "lift.hdf5", "--out", "lift").out
    assert "States of object, pos[0], pos[1]" in said
    said = run("import", "rollouts_a", "rollouts_b", "--out", "both").out
    assert f"States of {', '.join(MOTORS)}" in said
    assert "2 policies, 16 episodes" in said
