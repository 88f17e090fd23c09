"""`pivec evaluate` as people use it."""

from __future__ import annotations

import csv
from functools import partial

import numpy as np
import pytest

from pivec.states import VisitedStates
from pivec.workflows import write_store


@pytest.fixture
def run(run, tmp_path):
    """Call `pivec evaluate` where a store is."""
    rng = np.random.default_rng(0)
    states = [[rng.normal(place, 1.0, (12, 2)) for _ in range(6)] for place in range(4)]
    data = VisitedStates.from_arrays(states, returns=range(4), environment="Walk-v0")
    write_store(data, tmp_path / "store", {"environment": "Walk-v0"})
    return partial(run, "evaluate")


def test_a_store_from_end_to_end(run, tmp_path):
    arguments = ["store", "--methods", "supervector,gaussian", "--sizes", "3",
                 "--repetitions", 2, "--parameters", "supervector.n_components=2",
                 "--out", "out"]  # fmt: skip
    done = run(*arguments)
    assert done.out.splitlines()[-1] == "Figure: out/evaluation.png"
    assert "supervector" in done.out
    assert "Walk-v0" in done.out
    assert (tmp_path / "out/evaluation.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "out/evaluation.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 4
    assert all(float(line["peak_mb"]) > 10 and not line["problem"] for line in table)
    assert "| gaussian | 3 |" in (tmp_path / "out/evaluation.md").read_text()
    units = {path: path.stat().st_mtime_ns for path in (tmp_path / "out/units").iterdir()}
    assert len(units) == 4
    assert run(*arguments, "--quiet").out.splitlines() == ["Figure: out/evaluation.png"]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out/units").iterdir()} == units


def test_a_method_that_fails_is_shown_and_the_exit_code_is_1(run):
    done = run("store", "--methods", "gaussian,supervector", "--sizes", 2, "--repetitions", 1,
               "--parameters", "supervector.n_components=9999", code=1)  # fmt: skip
    assert "failed supervector on store" in done.out
    assert done.out.splitlines()[-1] == "Figure: pivec-eval/evaluation.png"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["store", "--methods", "gaussian"], 2, "--episodes 200"),
        (["store", "--methods", "gausian", "--sizes", "2"], 2, "did you mean"),
        (["store", "--methods", ",", "--sizes", "2"], 2, "--methods expects"),
        (["store", "--sizes", "2,x"], 2, "--sizes expects"),
        (["store", "--sizes", "2,"], 2, "--sizes expects"),
        (["store", "--sizes", "2", "--parameters", "n_components=2"], 2, "METHOD.KEY=VALUE"),
        (["store", "--sizes", "2", "--parameters", "nothing.k=2"], 2, "not among the methods"),
        (["nowhere"], 2, "is not a store"),
        ([], 2, "STORE"),
    ],
)
def test_a_mistake_is_one_sentence_and_an_exit_code(run, arguments, code, words):
    done = run(*arguments, code=code)
    assert words in done.err
    assert not done.out


def test_help_teaches(run):
    text = run("--help").out
    for word in ("correlation", "error", "variance", "Example", "--parameters", "--jobs"):
        assert word in text
