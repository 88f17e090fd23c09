"""Folders of LeRobot: one policy each, which needs trust; the row of the libraries runs one."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from pivec.errors import BadPolicyFile
from pivec.policies import load_policies

ROW = Path(__file__).parents[1] / "data" / "libraries" / "lerobot-tdmpc" / "pretrained_model"


def test_a_folder_is_one_policy_that_needs_trust():
    for place in (ROW, ROW / "model.safetensors"):
        with pytest.raises(BadPolicyFile, match=r"LeRobot \(tdmpc\).*--trust"):
            load_policies(place)


@pytest.mark.skipif(importlib.util.find_spec("lerobot") is not None, reason="LeRobot is installed")
def test_without_lerobot_the_way_to_load_it_is_named():
    with pytest.raises(BadPolicyFile, match="pip install lerobot"):
        load_policies(ROW, trust=True)


def test_what_decides_the_actions_is_part_of_the_identity(tmp_path):
    pytest.importorskip("lerobot")
    before = load_policies(ROW, trust=True)[0].info.fingerprint
    shutil.copytree(ROW, tmp_path / "again")
    assert load_policies(tmp_path / "again", trust=True)[0].info.fingerprint == before
    config = json.loads((ROW / "config.json").read_text())
    changed = json.dumps({**config, "n_action_repeats": 3})
    (tmp_path / "again" / "config.json").write_text(changed)
    assert load_policies(tmp_path / "again", trust=True)[0].info.fingerprint != before


def test_other_configurations_are_ignored(tmp_path):
    shutil.copy(ROW / "model.safetensors", tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"type": "bert"}')
    with pytest.raises(BadPolicyFile, match="without a description"):
        load_policies(tmp_path / "model.safetensors")
