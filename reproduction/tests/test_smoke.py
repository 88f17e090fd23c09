"""Every recipe at smoke scale, killed on the way: whole results, the same as undisturbed."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from reproduction.planning import plan
from reproduction.recipes import NAMES

for needed in ("stable_baselines3", "cma", "neat"):
    pytest.importorskip(needed)

PNG_BYTES = 300_000


def command(out, *names):
    arguments = [*names, "--scale", "smoke", "--out", str(out), "--jobs", "2", "--quiet"]
    return [sys.executable, "-m", "reproduction", *arguments]


def run(out, *names):
    done = subprocess.run(command(out, *names), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_and_kill(out, seconds, *names):
    """Start the command and kill it, its children too, unless it is done before."""
    process = subprocess.Popen(
        command(out, *names), start_new_session=True, stdout=subprocess.DEVNULL
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory):
    """All recipes in one folder, killed on the way."""
    out = tmp_path_factory.mktemp("disturbed")
    run_and_kill(out, 12.0, "all")
    told = run(out, "all")
    for name in NAMES:
        assert f"{name}: {out / 'smoke' / name / 'README.md'}" in told
    return out


def test_every_recipe_leaves_everything(disturbed):
    """One test for all: workers that share them would each run all recipes."""
    for name in NAMES:
        check_folder(disturbed / "smoke" / name, name)
    long = [name for name in NAMES if name not in ("gridworld", "extraction", "trust-region")]
    left = [step for step in plan(long, "smoke", disturbed) if not step.done]
    assert not left


def check_folder(folder, name):
    numbers = json.loads((folder / "numbers.json").read_text())
    assert numbers["recipe"] == name
    assert numbers["findings"]
    with open(folder / "numbers.csv") as file:
        rows = list(csv.DictReader(file))
    assert rows
    assert None not in rows[0]
    page = (folder / "README.md").read_text()
    pictures = list(folder.glob("*.png"))
    assert pictures, name
    for picture in pictures:
        assert f"({picture.name})" in page
        assert picture.stat().st_size < PNG_BYTES
    assert json.loads((folder / "run.json").read_text())["settings"]["scale"] == "smoke"


def compare(disturbed, other, names):
    """Numbers must be equal to the last digit, figures too; how long it took is none of them."""
    for name in names:
        for file in ("numbers.json", "numbers.csv", "README.md"):
            ours, theirs = ((out / "smoke" / name / file).read_text() for out in (disturbed, other))
            assert ours == theirs, f"{name}: {file}"
        for picture in (disturbed / "smoke" / name).glob("*.png"):
            same = (other / "smoke" / name / picture.name).read_bytes() == picture.read_bytes()
            assert same, f"{name}: {picture.name}"


@pytest.mark.slow
def test_killed_recipes_give_the_numbers_of_undisturbed_ones(disturbed, tmp_path):
    names = ("gridworld", "clipping", "novelty")
    run(tmp_path, *names)
    compare(disturbed, tmp_path, names)


@pytest.mark.slow
def test_every_recipe_gives_the_numbers_of_an_undisturbed_one(disturbed, tmp_path):
    names = [name for name in NAMES if name != "cost"]  # which measures seconds
    for seconds in np.random.default_rng(7).uniform(4, 20, 3):
        run_and_kill(tmp_path, float(seconds), *names)
    run(tmp_path, *names)
    compare(disturbed, tmp_path, names)
