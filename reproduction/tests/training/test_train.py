"""Whole runs in processes of their own: finished, repeated, killed, mistaken."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from training_worlds import Broken, Follow, Switches

import pivec
from pivec.errors import MissingExtra, PivecError, UsageError
from pivec.parallel import Mirror, files, offered
from pivec.parallel.files import Source
from pivec.parallel.offered import answer
from reproduction.training import novelty
from reproduction.training.train import _Watch, carry_out, plan_runs, train

_UNKNOWN = {"token": "another folder", "_writing": {}, "_sent": None}
FEW = {"generations": 4, "population": 8, "episodes": 1, "keep_every": 2, "max_steps": 30}


def test_the_command_line_from_training_to_comparison(run, tmp_path):
    pytest.importorskip("stable_baselines3")
    pytest.importorskip("neat")
    arguments = ("train", "CartPole-v1", "--algo", "ppo", "--out", "runs", "--steps", 768)
    arguments += ("--checkpoints", 4, "--runs", 2, "--jobs", 2, "--set", "n_epochs=2")
    done = run(*arguments)
    lines = done.out.splitlines()
    assert lines[0] == "Settings: the paper's for CartPole-v1, changed by --set"
    assert lines[1].startswith("ppo-0: 768 steps, return ")
    assert lines[2].endswith("4 policies (all steps are done)")
    assert lines[-1] == "Policies: runs"
    assert sorted(path.name for path in (tmp_path / "runs" / "ppo-1").glob("*.safetensors")) == [
        *("step_0.safetensors", "step_256.safetensors", "step_512.safetensors"),
        "step_768.safetensors",
    ]
    about = json.loads((tmp_path / "runs" / "ppo-1" / "run.json").read_text())["run"]
    assert (about["seed"], about["settings"]["n_epochs"]) == (1, 2)
    small = [part for key, value in FEW.items() for part in ("--set", f"{key}={value}")]
    run("train", "CartPole-v1", "--algo", "neat", "--out", "runs", *small)
    out = run("compare", "CartPole-v1", "runs", "--episodes", 2, "--components", 2).out
    assert "ppo-0" in out
    assert "neat-0" in out
    before = (tmp_path / "runs" / "ppo-0" / "run.json").stat().st_mtime_ns
    again = run(*arguments)
    assert again.out.count("(finished before)") == 2
    assert (tmp_path / "runs" / "ppo-0" / "run.json").stat().st_mtime_ns == before
    other = run(*arguments[:-1], "n_epochs=3", code=2)
    assert "n_epochs is 2 there and 3 here" in other.err


def test_a_cluster_trains_the_same(ray_engine, tmp_path, monkeypatch):
    settings = {"generations": 2, "batch_episodes": 8, "max_steps": 20}
    made = {}
    for name, engine in (("here", "serial"), ("there", ray_engine)):
        if engine is ray_engine:  # whose workers do not know the folder
            engine.offer_files()
            monkeypatch.setattr(Mirror, "__getstate__", lambda mirror: vars(mirror) | _UNKNOWN)
        [result] = train("CartPole-v1", "es", tmp_path / name, settings=settings, engine=engine)
        assert result.folder == tmp_path / name / "es-0"
        made[name] = contents(result.folder)
    assert len(made["here"]) == 6
    assert made["here"] == made["there"]


def contents(folder):
    """Read all files of a run, but what was printed and the time; headers have no order."""
    read = {}
    for file in folder.rglob("*"):
        if file.is_file() and file.name != "log.txt":
            content = file.read_bytes()
            if file.suffix == ".safetensors":
                end = 8 + int.from_bytes(content[:8], "little")
                content = json.loads(content[8:end]), content[end:]
            elif file.name == "run.json":
                content = json.loads(content) | {"seconds": 0}
            read[file.relative_to(folder).as_posix()] = content
    return read


def test_a_run_goes_on_elsewhere_from_the_files_that_came(tmp_path, monkeypatch):
    monkeypatch.setattr(novelty, "_SECONDS", 0.0)  # it saves every generation
    settings = {"generations": 3, "batch_episodes": 8, "max_steps": 20}
    [whole, run] = plan_runs(
        "CartPole-v1", "es", [tmp_path / "a", tmp_path / "b"], settings=settings
    )
    run = replace(run, seed=whole.seed)
    for started in (whole, run):
        started.begin()
    with Mirror(whole.path) as mirror:
        carry_out((whole, mirror), lambda _, seldom=False: True)
    with Mirror(run.path) as mirror:
        # The worker does not see the folder; the driver's has moved, so this process does not.
        there, mirror.folder = pickle.loads(pickle.dumps(mirror)), tmp_path / "driver"
        run.path.rename(mirror.folder)
        monkeypatch.setattr(offered, "_offered", {str(mirror.folder)})
        moved = str(run.path), str(mirror.folder)
        files.use(Source(lambda path, *more: answer(path.replace(*moved), *more), "/", "test"))
        reports = []

        def tell(message, seldom=False):
            if not mirror.receive(message):
                reports.append(message["done"])
                if reports == [1, 2]:
                    raise ZeroDivisionError("the node is gone")
            return True

        with pytest.raises(ZeroDivisionError):
            carry_out((run, there), tell)
        assert (mirror.folder / "state" / "search.npz").exists()
        assert carry_out((run, there), tell).steps > 0
    files.use(None)
    assert reports == [1, 2, 2, 3]
    assert contents(mirror.folder) == contents(whole.path)


def test_mistakes_on_the_command_line(run):
    cases = [
        (("CartPole-v1", "--algo", "sac", "--out", "o"), "expected an algorithm among"),
        (("CartPol-v1", "--algo", "cmaes", "--out", "o"), "did you mean"),
        (("CartPole-v1", "--algo", "ppo", "--out", "o", "--set", "gamma"), "KEY=VALUE"),
        (("CartPole-v1", "--algo", "ppo", "--out", "o", "--set", "gama=1"), "no setting 'gama'"),
        (("CartPole-v1", "--algo", "ppo", "--out", "o", "--runs", 0), "--runs"),
    ]
    for arguments, words in cases:
        assert words in run("train", *arguments, code=2).err
    assert not Path("o").exists()


def test_general_settings_are_announced(run):
    pytest.importorskip("cma")
    small = [part for key, value in FEW.items() for part in ("--set", f"{key}={value}")]
    done = run("train", "MountainCar-v0", "--algo", "cmaes", "--out", "o", *small)
    assert "general ones, since the paper has none for cmaes in MountainCar-v0" in done.out
    assert (
        "Settings"
        not in run(
            "train", "MountainCar-v0", "--algo", "cmaes", "--out", "o", *small, "--quiet"
        ).out
    )


def test_nothing_random_happens_here(tmp_path):
    pytest.importorskip("neat")
    before = random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    [one] = train("CartPole-v1", "neat", tmp_path, settings=FEW)
    assert one.n_policies == 4
    assert random.getstate() == before[0]
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


def test_a_killed_command_goes_on(tmp_path):
    pytest.importorskip("cma")
    pytest.importorskip("fcntl")
    settings = {**FEW, "generations": 80, "population": 32, "max_steps": 500, "keep_every": 40}
    out = str(tmp_path / "a")
    code = "from reproduction.training.train import train\n"
    code += f"train('CartPole-v1', 'cmaes', {out!r}, settings={settings})"
    source = Path(pivec.__file__).parents[1]
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(source)}
    )
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


def test_the_line_shows_return_speed_and_progress():
    class Bar:
        done, note = 0, ""

        def advance(self, count, note=None):
            self.done += count
            self.note = note or self.note

    bar = Bar()
    watch = _Watch(bar, total=5_000, scale=1_000, runs=2)
    watch.take("ppo-0", {"done": 0, "steps": 0, "mean_return": None})
    assert bar.note == "ppo-0 no return yet, 0/s"
    watch.take("ppo-1", {"done": 2_600, "steps": 2_600, "mean_return": 19.26})
    watch.start -= 10
    watch.take("ppo-0", {"done": 500, "steps": 500, "mean_return": -3.0})
    assert bar.done == 3  # thousands, of both
    assert bar.note == "ppo-0 return -3, 50/s"  # what a run had done before does not count
    for name in ("ppo-0", "ppo-1"):
        watch.take(name, {"finished": True})
    assert bar.done == 10


def test_requests_that_make_no_sense(tmp_path):
    pytest.importorskip("cma")
    with pytest.raises(UsageError, match="MultiBinary"):
        train(Switches, "cmaes", tmp_path)
    with pytest.raises(UsageError, match="at least 4"):
        train("CartPole-v1", "cmaes", tmp_path, settings={"population": 3})
    with pytest.raises(UsageError, match="checkpoints must be"):
        train("CartPole-v1", "cmaes", tmp_path, checkpoints=0)
    with pytest.raises(UsageError, match="another process"):
        train(lambda: Follow(), "cmaes", tmp_path)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pivec\[train\]"):
        train("CartPole-v1", "ppo", tmp_path)
