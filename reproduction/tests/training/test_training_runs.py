"""A folder belongs to one run; a finished one tells its result."""

from __future__ import annotations

import json

import pytest

from pivec.errors import PivecError, UsageError
from pivec.rollouts import Environment
from reproduction.training.runs import Run


def folder(path, seed=3, **settings):
    return Run(path / "ppo-0", "ppo", Environment("CartPole-v1"), seed, settings)


def test_new_unfinished_finished(tmp_path):
    run = folder(tmp_path, gamma=0.9)
    assert run.finished() is None
    run.begin()
    assert run.finished() is None
    run.finish(100, 7.5, "all steps are done")
    result = folder(tmp_path, gamma=0.9).finished()
    assert (result.seed, result.steps, result.mean_return, result.reused) == (3, 100, 7.5, True)
    assert json.loads((run.path / "run.json").read_text())["versions"]["numpy"]


def test_other_settings_are_refused_and_named(tmp_path):
    folder(tmp_path, gamma=0.9).begin()
    with pytest.raises(UsageError, match=r"gamma is 0\.9 there and 0\.8 here"):
        folder(tmp_path, gamma=0.8).finished()
    with pytest.raises(UsageError, match="seed is 3 there and 4 here"):
        folder(tmp_path, seed=4, gamma=0.9).finished()


def test_foreign_folders_are_left_alone(tmp_path):
    (tmp_path / "ppo-0").mkdir()
    (tmp_path / "ppo-0" / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match="another --out"):
        folder(tmp_path).finished()


def test_a_damaged_description_is_told(tmp_path):
    run = folder(tmp_path)
    run.begin()
    (run.path / "run.json").write_text("{")
    with pytest.raises(PivecError, match="cannot be read"):
        run.finished()


def test_one_process_at_a_time(tmp_path):
    pytest.importorskip("fcntl")
    run = folder(tmp_path)
    run.begin()
    with run.claimed(), pytest.raises(PivecError, match="another process"), run.claimed():
        pass
    with run.claimed():
        pass
