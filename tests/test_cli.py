"""The command line as people use it: exit codes, sentences, and what is left on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pivec

MINE = """
import numpy as np

def lean(observations):
    return (observations[:, 2] > 0).astype(int)

class Broken:
    def act(self, observations, rng, deterministic=False):
        raise RuntimeError("no such thing")
"""


@pytest.fixture
def run(run, tmp_path):
    """Call the command line where a module of the user's is."""
    (tmp_path / "mine.py").write_text(MINE)
    yield run
    sys.modules.pop("mine", None)


def test_compare_in_one_go(run, tmp_path):
    done = run(
        "compare", "CartPole-v1", "mine:lean", "random:2", "--episodes", 3, "--components", 4
    )
    assert done.out.splitlines()[-1] == "Report: pivec-out/report.html"
    assert "farthest" in done.out
    assert "95 % interval" in done.out
    assert "cannot be distinguished" in done.out
    assert (tmp_path / "pivec-out/report.html").exists()


@pytest.mark.bits
def test_a_store_gives_the_files_of_compare(run, tmp_path):
    run("collect", "CartPole-v1", "mine:lean", "random:2", "--episodes", 3, "--out", "a/states")
    assert "mine:lean" in run("store", "ls", "a").out
    run("store", "verify", "a/states")
    run("compare", "CartPole-v1", "mine:lean", "random:2", "--episodes", 3, "--components", 4,
        "--out", "b", "-q")  # fmt: skip
    files = {path.name for path in (tmp_path / "b").iterdir()}
    for source, out in (("a/states", "a"), ("a", "c"), ("store:a/states", "c")):
        run("compare", source, "--components", 4, "--out", out, "-q")
        assert {path.name for path in (tmp_path / out).iterdir()} == files
        for name in ("distances.csv", "pairs.csv"):
            assert (tmp_path / out / name).read_text() == (tmp_path / "b" / name).read_text()
    assert pivec.Store("c/states").settings == pivec.Store("a/states").settings
    # A store that has grown since is copied again.
    run("collect", "CartPole-v1", "mine:lean", "random:2", "--episodes", 5, "--out", "a/states")
    run("compare", "a", "--components", 4, "--out", "c", "-q")
    assert pivec.load("c").n_episodes == 15


def test_new_policies_in_an_earlier_space(run):
    run(
        "compare", "CartPole-v1", "random:3", "--episodes", 3, "--components", 4, "--out", "a", "-q"
    )
    done = run("compare", "CartPole-v1", "mine:lean", "--episodes", 3, "--space", "a", "--out", "b")
    assert "mine:lean" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["compare", "CartPole-v99", "random"], 2, "CartPole"),
        (["compare", "CartPole-v1", "nothing/*.zip"], 2, "nothing/*.zip"),
        (["compare", "CartPole-v1", "no_such_file.zip"], 2, "no_such_file.zip"),
        (["compare", "CartPole-v1", "mine:nobody"], 2, "nobody"),
        (["compare", "CartPole-v1", "mine:Broken"], 1, "no such thing"),
        (["compare", "CartPole-v1"], 2, "expected policies after CartPole-v1"),
        (["compare", "nowhere"], 2, "nowhere"),
        (["compare", "mine.py"], 2, "mine.py"),
        (["compare", "CartPole-v1", "random", "--episodes", "0"], 2, "episodes"),
        (["compare", "CartPole-v1", "random", "--method", "supervectr"], 2, "did you mean"),
        (["compare", "CartPole-v1", "random", "--parameters", "x"], 2, "KEY=VALUE"),
        (["compare", "CartPole-v1", "random", "--parameters", "x=1"], 2, "n_components"),
        (["compare", "CartPole-v1", "random", "--space", "nowhere"], 2, "holds no space"),
        (["compare", "Pendulum-v1", "mine:lean", "--episodes", "1"], 2, "shape"),
        (["compare", "Pendulum-v1", "random", "--env-kwargs", "colour=1"], 2, "colour"),
        (["store", "ls", "nowhere"], 2, "is not a store"),
        (["explain", "nowhere"], 2, "nowhere"),
        (["demo", "--env", "Go-v0"], 2, "CartPole-v1"),
        (
            ["compare", "CartPole-v1", "random", "--parameters", "n_components=abc"],
            2,
            "whole number",
        ),
        (["compare", "CartPole-v1", "random", "--parameters", "n_component=4"], 2, "did you mean"),
        (["compare", "CartPole-v1", "random", "--n-envs", "0"], 2, "n_envs"),
        (["compare", "CartPole-v1", "random", "--seed", "-1"], 2, "seed"),
        (["compare", "CartPole-v1", "random", "--episodes", "9" * 30], 2, "episodes must be"),
        (["collect", "CartPole-v1", "random", "--out", "s", "--render-episodes", "a"], 2, "whole"),
        (["evaluate", "nowhere", "--sizes", "a,b"], 2, "whole numbers"),
        (["evaluate", "nowhere", "--sizes", "2", "--methods", "gausian"], 2, "did you mean"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_a_mistake_is_one_sentence_and_an_exit_code(run, arguments, code, words):
    done = run(*arguments, code=code)
    assert words in done.err
    assert not done.out


def test_an_export_needs_its_folder_and_a_page_makes_it(run, tmp_path):
    run("compare", "CartPole-v1", "random:2", "--episodes", 2, "--components", 2, "-q")
    assert "folder that exists" in run("export", "pivec-out", "no/x.parquet", code=2).err
    (tmp_path / "d.parquet").mkdir()
    assert "expected a file" in run("export", "pivec-out", "d.parquet", code=2).err
    run("compare", "pivec-out", "--components", 2, "--out", "new/folder", "-q")
    assert (tmp_path / "new/folder/report.html").exists()
    for damaged in ("[]", "{", '{"settings": 3}', '{"warnings": []}',
                    '{"warnings": {"map": [3, {"text": 1}]}}'):  # fmt: skip
        (tmp_path / "pivec-out/run.json").write_text(damaged)
        pivec.load_comparison("pivec-out").write_report()


def test_debug_shows_the_traceback(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pivec", "compare", "Nope-v1", "random", "--debug"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(pivec.__file__).parents[1])},
        check=False,
    )
    assert done.returncode != 0
    assert "Traceback" in done.stderr


def test_ctrl_c_keeps_what_was_collected(run, tmp_path, monkeypatch):
    from pivec.states.arrow import encode

    written = []

    def stop_after_two(record, *more):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(record.info.label)
        return encode(record, *more)

    monkeypatch.setattr("pivec.states.store.encode", stop_after_two)
    done = run("collect", "CartPole-v1", "random:4", "--episodes", 2, "--out", "s", code=130)
    assert "Interrupted" in done.err
    monkeypatch.setattr("pivec.states.store.encode", encode)
    assert set(pivec.Store(tmp_path / "s")) == set(written)
    run("collect", "CartPole-v1", "random:4", "--episodes", 2, "--out", "s")
    assert len(pivec.Store(tmp_path / "s")) == 4


def test_a_damaged_store_fails_with_1(run, tmp_path):
    run("collect", "CartPole-v1", "random", "--episodes", 2, "--out", "s")
    file = next((tmp_path / "s").glob("*.arrow"))
    file.write_bytes(file.read_bytes() + b"x")
    assert "checksum" in run("store", "verify", "s", code=1).err
    assert "checksum" in run("compare", "s", "--out", "x", code=1).err


def test_version_and_help(run):
    assert run("--version").out.strip() == f"pivec {pivec.__version__}"
    commands = (
        "demo compare same plan groups explain regions unusual evaluate collect import export"
    )
    listed = run("--help").out
    for command in [*commands.split(), "store", "serve", "watch", "encoder"]:
        assert f" {command} " in listed
        assert "Usage" in run(command, "--help").out
    for gone in ("describe", "distances", "map", "report", "train", "reproduce"):
        assert gone in run(gone, code=2).err


def test_the_demo_ends_with_the_report(run, tmp_path):
    done = run("demo", "--episodes", 4)
    assert done.out.splitlines()[-1] == "Report: pivec-demo/report.html"
    assert "ppo-0" in (tmp_path / "pivec-demo/report.html").read_text()
