"""Every example runs at smoke size, says what it shows, and fits on a screen or two."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
# What is imported of what an example tells to install, to know whether it can run here.
MODULES = {
    "pivec": "pivec",
    "pivec[sb3]": "stable_baselines3",
    "pivec[ribs]": "ribs",
    "pivec[torch]": "torch",
    "ray[rllib]": "lz4",
}
LONG = {
    "wandb_logging", "mlflow_logging", "cleanrl_loop", "rllib_loop", "qdax_descriptors",
    "ribs_archive", "stopping",
}  # fmt: skip


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path.stem in LONG else [], id=path.stem)
        for path in EXAMPLES
    ],
)
def test_an_example_runs(example, tmp_path):
    text = ast.get_docstring(ast.parse(example.read_text()))
    for package in re.sub('"', "", " ".join(re.findall("pip install (.+)", text))).split():
        if importlib.util.find_spec(MODULES.get(package, package)) is None:
            pytest.skip(f"needs {package}")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example), "--smoke"],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # What was compared, with numbers, and where the report is.
    assert re.search(r"compared|PPO on", done.stdout, re.IGNORECASE)
    assert re.search(r"\d", done.stdout)
    for report in re.findall("^Report: (.+)", done.stdout, re.MULTILINE):
        assert (tmp_path / report).is_file()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_what_it_shows_and_what_it_needs(example):
    text = ast.get_docstring(ast.parse(example.read_text()))
    assert len(text.splitlines()[0]) > 20
    assert re.search("needs|pip install", text, re.IGNORECASE)


def test_there_are_examples():
    assert len(EXAMPLES) >= 4
