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
# What an extra brings, to know whether an example can run here.
MODULES = {"sb3": "stable_baselines3", "train": "stable_baselines3", "ribs": "ribs"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example, tmp_path):
    text = ast.get_docstring(ast.parse(example.read_text()))
    for extra in re.findall(r"pivec\[(\w+)\]", text):
        if importlib.util.find_spec(MODULES[extra]) is None:
            pytest.skip(f"needs pivec[{extra}]")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example), "--smoke"],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_what_it_shows_and_what_it_needs(example):
    text = ast.get_docstring(ast.parse(example.read_text()))
    assert len(text.splitlines()[0]) > 20
    assert re.search("needs|pip install", text, re.IGNORECASE)


def test_there_are_examples():
    assert len(EXAMPLES) >= 4
