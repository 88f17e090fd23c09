"""Whole runs in processes of their own: finished, repeated, killed, mistaken."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from training_worlds import Broken, Follow, Switches

from pivec.errors import MissingExtra, PivecError, UsageError
from reproduction.training.train import train

FEW = {"generations": 4, "population": 8, "episodes": 1, "keep_every": 2, "max_steps": 30}


def test_runs_are_finished_once_and_other_settings_refused(tmp_path):
    pytest.importorskip("stable_baselines3")
    options = {"steps": 768, "checkpoints": 4, "runs": 2, "engine": "processes", "jobs": 2}
    runs = train("CartPole-v1", "ppo", tmp_path, settings={"n_epochs": 2}, **options)
    assert sorted(path.name for path in runs[1].folder.glob("*.safetensors")) == [
        *("step_0.safetensors", "step_256.safetensors", "step_512.safetensors"),
        "step_768.safetensors",
    ]
    about = json.loads((tmp_path / "ppo-1" / "run.json").read_text())["run"]
    assert (about["seed"], about["settings"]["n_epochs"]) == (1, 2)
    again = train("CartPole-v1", "ppo", tmp_path, settings={"n_epochs": 2}, **options)
    assert all(run.reused for run in again)
    with pytest.raises(UsageError, match="n_epochs is 2 there and 3 here"):
        train("CartPole-v1", "ppo", tmp_path, settings={"n_epochs": 3}, **options)


def test_nothing_random_happens_here(tmp_path):
    pytest.importorskip("neat")
    before = random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    [one] = train("CartPole-v1", "neat", tmp_path, settings=FEW)
    assert len(list(one.folder.rglob("*.neat"))) == 4
    assert random.getstate() == before[0]
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


def test_a_killed_command_goes_on(tmp_path):
    pytest.importorskip("cma")
    pytest.importorskip("fcntl")
    settings = {**FEW, "generations": 80, "population": 32, "max_steps": 500, "keep_every": 40}
    out = str(tmp_path / "a")
    code = "from reproduction.training.train import train\n"
    code += f"train('CartPole-v1', 'cmaes', {out!r}, settings={settings})"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3])
    ledger = tmp_path / "a" / "cmaes-0" / "state" / "generations.jsonl"
    deadline = time.monotonic() + 60
    while not ledger.exists() or ledger.read_bytes().count(b"\n") < 3:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _wait_for_release(ledger.parent / "lock", deadline)
    played = ledger.read_bytes().count(b"\n")
    assert 3 <= played < 80
    begun = ledger.read_bytes().splitlines()[:3]
    [one] = train("CartPole-v1", "cmaes", tmp_path / "a", settings=settings)
    assert not one.reused
    assert one.reason
    assert ledger.read_bytes().splitlines()[:3] == begun
    assert ledger.read_bytes().count(b"\n") > played


def _wait_for_release(path, deadline):
    """The run's process ends when its parent is gone, and with it the lock."""
    import fcntl

    with open(path, "ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                assert time.monotonic() < deadline, "the process of the run goes on"
                time.sleep(0.02)
            else:
                return


def test_failures_of_the_environment_are_told(tmp_path):
    pytest.importorskip("cma")
    with pytest.raises(PivecError, match=r"cmaes-0: .*out of order"):
        train(Broken, "cmaes", tmp_path, settings=FEW)


def test_one_run_that_cannot_go_on_does_not_stop_the_others(tmp_path):
    pytest.importorskip("cma")
    [one] = train(Follow, "cmaes", tmp_path, settings=FEW)
    content = json.loads((one.folder / "run.json").read_text())
    content["result"] = None
    (one.folder / "run.json").write_text(json.dumps(content))
    rows = (one.folder / "state" / "generations.jsonl").read_text()
    (one.folder / "state" / "generations.jsonl").write_text(
        rows.replace('"checksum": "', '"checksum": "x')
    )
    with pytest.raises(PivecError, match=r"cmaes-0: .*comes out differently"):
        train(Follow, "cmaes", tmp_path, runs=2, settings=FEW)
    assert json.loads((tmp_path / "cmaes-1" / "run.json").read_text())["result"] is not None


def test_requests_that_make_no_sense(tmp_path):
    pytest.importorskip("cma")
    with pytest.raises(UsageError, match="MultiBinary"):
        train(Switches, "cmaes", tmp_path)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pivec\[train\]"):
        train("CartPole-v1", "ppo", tmp_path)
