"""A small comparison to report: two runs, two lone policies, one of an earlier map."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pivec.characterizations import Measured
from pivec.report import Findings, PolicyRow, PolicyTable
from pivec.report.pages import web_folder
from pivec.run_log import RunLog
from pivec.statistics import Intervals, Pairs, Travel, behaviour_classes


def rows_of(n, *, seed=0, **columns):
    """Make rows from columns: a list of n values each."""
    rng = np.random.default_rng(seed)
    values = {
        "label": [f"p{i}" for i in range(n)],
        "group": [""] * n,
        "step": [None] * n,
        "x": rng.normal(size=n).tolist(),
        "y": rng.normal(size=n).tolist(),
        "mean_return": rng.normal(size=n).tolist(),
        "episodes": [1] * n,
        "states": [1] * n,
        "source": [""] * n,
    } | columns
    lines = zip(*values.values(), strict=True)
    return PolicyTable(PolicyRow(**dict(zip(values, line, strict=True))) for line in lines)


def measured_of(n, matrix=None, nearest=(), farthest=(), travels=(), intervals=None):
    """Make what the distances of n policies tell; pairs are (i, j, distance)."""
    none = np.zeros((n, 0))
    pairs = (
        Pairs.of(*zip(*part, strict=True)) if part else Pairs.of() for part in (nearest, farthest)
    )
    return Measured(matrix, none.astype(int), none, *pairs, list(travels), intervals=intervals)


def intervals_of(matrix, half):
    """Make intervals that reach so far to both sides of the distances."""
    d, half = np.asarray(matrix, float), np.broadcast_to(half, np.shape(matrix))
    return Intervals(
        distance=d,
        low=np.maximum(d - half, 0),
        high=d + half,
        standard_error=half / 2,
        noise=half / 4,
        p_value=np.where(d > half, 0.001, 0.5),
        first=half**2 / 8,
        second=half**2 / 8,
        level=0.95,
    )


def log_of(**facts):
    """Make a log of a run without a folder, with other facts than usual."""
    log = RunLog("nowhere", facts.pop("command", "pivec compare CartPole-v1 runs/*.zip"))
    log.settings = {"seed": "0", "map": "tsne"}
    log.timings = {"collect": 1.5, "map": 0.5}
    for name, value in facts.items():
        setattr(log, name, value)
    return log


def small_report(columns=None, distances=None, **changes):
    rng = np.random.default_rng(0)
    n = 11
    x = rng.normal(size=(n, 4))
    row_columns = {
        "label": [f"policy {i}" for i in range(n)],
        "group": ["ppo"] * 4 + ["a2c"] * 4 + ["", "", "old"],
        "step": [100, 200, 300, 400] * 2 + [None, None, 50],
        "x": x[:, 0].tolist(),
        "y": x[:, 1].tolist(),
        "mean_return": (rng.normal(size=n) * 100).tolist(),
        "return_std": rng.random(n).tolist(),
        "episodes": [10] * n,
        "states": [2000] * n,
        "source": [f"runs/{i}.zip" for i in range(n)],
        "reference": [False] * 10 + [True],
    }
    of_distances = {
        "matrix": ((x[:, None] - x[None]) ** 2).sum(axis=-1),
        "nearest": [(0, 1, 0.25)],
        "farthest": [(2, 9, 12.5)],
        "travels": [Travel("ppo", (0, 1, 2, 3), (100, 200, 300, 400), np.array([1.0, 0.5, 1.0]))],
    }
    values = {
        "environment": "CartPole-v1",
        "policies": rows_of(n, **row_columns | (columns or {})),
        "measured": measured_of(n, **of_distances | (distances or {})),
        "log": log_of(),
        "method": "First paragraph.\n\nSecond paragraph.",
        "formula": "d = |p - q|",
    }
    values |= changes
    if (sure := values["measured"].intervals) is not None:
        values["behaviours"] = behaviour_classes(sure.distance, values["policies"].labels)
    return Findings(**values)


@pytest.fixture
def make_report():
    return small_report


@pytest.fixture(name="rows_of")
def make_rows():
    return rows_of


@pytest.fixture(name="measured_of")
def make_measured():
    return measured_of


@pytest.fixture(name="intervals_of")
def make_intervals():
    return intervals_of


@pytest.fixture(name="log_of")
def make_log():
    return log_of


@pytest.fixture
def report():
    return small_report()


@pytest.fixture(scope="session")
def web_program(tmp_path_factory):
    """Bundle code that uses the page's modules (``@web/...``) into a program that answers JSON."""
    node, tools = shutil.which("node"), Path(sys.prefix, "node/node_modules")
    if node is None or not (tools / ".bin/esbuild").exists():
        pytest.skip("needs node, and the tools that `make check` installs")

    def bundled(code):
        folder = tmp_path_factory.mktemp("web")
        (folder / "program.ts").write_text(code)
        command = [tools / ".bin/esbuild", "program.ts", "--bundle", "--platform=node"]
        command += [f"--alias:@web={web_folder()}", "--outfile=program.cjs", "--log-level=warning"]
        subprocess.run(command, cwd=folder, env=os.environ | {"NODE_PATH": str(tools)}, check=True)

        def program(asked):
            done = subprocess.run(
                [node, folder / "program.cjs"],
                input=json.dumps(asked),
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        return program

    return bundled
