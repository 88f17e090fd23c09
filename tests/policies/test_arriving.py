"""Policies that appear while one looks: read when they are still, once, until they change."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from pivec.errors import BadPolicyFile, PivecWarning, UsageError
from pivec.policies import CheckpointWatcher, PolicyInfo, named_together

SHIPPED = Path(str(files("pivec"))) / "demo_policies" / "CartPole-v1"


def put(path, step=0, *, ago=60.0):
    """Let a checkpoint stand there that was written some time ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(SHIPPED / "a2c-0" / f"step_{step}.safetensors", path)
    os.utime(path, (time.time() - ago,) * 2)


def labels(policies):
    return [named.info.label for named in policies]


def test_each_policy_comes_once_and_again_when_it_is_written_over(tmp_path):
    watcher = CheckpointWatcher([tmp_path, "random:2"], settle=5.0)
    put(tmp_path / "run-0" / "step_0.safetensors")
    first = watcher.poll()
    assert labels(first) == ["random-0", "random-1", "run-0/step_0"]
    assert watcher.poll() == []
    put(tmp_path / "run-0" / "step_0.safetensors", 2520, ago=30.0)
    [again] = watcher.poll()
    assert again.info.label == "run-0/step_0"
    assert again.info.fingerprint != first[-1].info.fingerprint


def test_a_file_that_is_being_written_is_left_alone(tmp_path, monkeypatch):
    watcher = CheckpointWatcher(tmp_path, settle=5.0)
    path = tmp_path / "model.safetensors"
    put(path, ago=0.0)
    whole = path.read_bytes()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    path.write_bytes(whole[:100])
    assert watcher.poll() == []
    path.write_bytes(whole)
    for _ in range(3):  # which takes no time
        assert watcher.poll() == []
        assert watcher.n_incomplete == 1
    now += 4.0
    assert watcher.poll() == []
    now += 2.0
    assert labels(watcher.poll()) == [f"{tmp_path.name}/model"]
    assert watcher.n_incomplete == 0


def test_what_is_not_there_yet_is_waited_for_and_a_mistake_is_not(tmp_path):
    folder, pattern = str(tmp_path / "runs"), str(tmp_path / "more" / "*.zip")
    watcher = CheckpointWatcher([folder, pattern], settle=5.0)
    assert watcher.poll() == []
    assert watcher.missing == [folder, pattern]
    put(tmp_path / "runs" / "m.safetensors")
    assert labels(watcher.poll()) == ["runs/m"]
    assert watcher.missing == [pattern]
    for spec in ("no.such:policy", "random:0", ""):
        with pytest.raises(UsageError):
            CheckpointWatcher(spec, settle=5.0).poll()


def test_a_damaged_file_is_named_once_and_read_when_it_has_changed(tmp_path):
    path = tmp_path / "model.safetensors"
    put(path)
    path.write_bytes(path.read_bytes()[:200])
    os.utime(path, (1e9, 1e9))
    watcher = CheckpointWatcher(tmp_path, settle=5.0)
    with pytest.warns(PivecWarning, match=r"model\.safetensors"):
        assert watcher.poll() == []
    (tmp_path / "other").mkdir()  # what it lacks may have come: it is tried, and said no more
    assert watcher.poll() == []
    put(path)
    assert len(watcher.poll()) == 1


def test_a_policy_that_cannot_act_comes_back_when_its_file_changes(tmp_path):
    path = tmp_path / "model.safetensors"
    put(path)
    watcher = CheckpointWatcher(tmp_path, settle=5.0)
    [policy] = watcher.poll()
    with pytest.warns(PivecWarning, match="too wide"):
        watcher.reject(policy, BadPolicyFile("too wide"))
    assert watcher.poll() == []
    put(path, 2520, ago=40.0)
    assert len(watcher.poll()) == 1


def test_a_file_that_vanishes_is_no_mistake(tmp_path):
    put(tmp_path / "a.safetensors")
    (tmp_path / "b.safetensors").symlink_to(tmp_path / "gone")
    assert len(CheckpointWatcher(tmp_path, settle=5.0).poll()) == 1


def test_names_are_those_that_all_files_together_have():
    first = PolicyInfo("run/5", "run", 5, "a/run/5.zip", {}, "x")
    second = PolicyInfo("run/5", "run", 5, "b/run/5.zip", {}, "y")
    random = PolicyInfo("random", "random", None, "random", {}, "z")
    for given in ([first, random, second], [second, first, random]):
        named = named_together(given)
        assert [(info.label, info.group) for info in named] == [
            ("a/run/5", "a/run"), ("b/run/5", "b/run"), ("random", "random")
        ]  # fmt: skip
    later = replace(first, fingerprint="w")
    assert named_together([first, later])[0].fingerprint == "w"


def test_copies_are_one_policy_whichever_came_first():
    best = PolicyInfo("run/best", "run", None, "run/best.zip", {}, "x")
    step = PolicyInfo("run/5_steps", "run", 5, "run/5_steps.zip", {}, "x")
    for given in ([best, step], [step, best]):
        [named] = named_together(given)
        assert named.label == "run/5_steps"
        assert named.metadata["also"] == ["run/best"]
        [again] = named_together([named, best])
        assert again == named
