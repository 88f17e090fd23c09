"""A small comparison to report: two runs, two lone policies, one of an earlier map."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.report import ReportData


def small_report(**changes):
    rng = np.random.default_rng(0)
    n = 11
    x = rng.normal(size=(n, 4))
    values = {
        "title": "A comparison",
        "environment": "CartPole-v1",
        "labels": [f"policy {i}" for i in range(n)],
        "groups": ["ppo"] * 4 + ["a2c"] * 4 + ["", "", "old"],
        "steps": [100, 200, 300, 400] * 2 + [None, None, 50],
        "mean_returns": rng.normal(size=n) * 100,
        "return_stds": rng.random(n),
        "n_episodes": [10] * n,
        "n_states": [2000] * n,
        "sources": [f"runs/{i}.zip" for i in range(n)],
        "is_reference": [False] * 10 + [True],
        "positions": x[:, :2],
        "map_method": "tsne",
        "distances": ((x[:, None] - x[None]) ** 2).sum(axis=-1),
        "nearest": [(0, 1, 0.25)],
        "farthest": [(2, 9, 12.5)],
        "travel": [("ppo", [100, 200, 300, 400], [0.0, 1.0, 1.5, 2.5])],
        "settings": {"seed": "0"},
        "timings": {"collect": 1.5, "map": 0.5},
        "versions": {"pivec": "0.1.0"},
        "command": "pivec compare CartPole-v1 runs/*.zip",
        "method": "First paragraph.\n\nSecond paragraph.",
        "formula": "d = |p - q|",
    }
    return ReportData(**(values | changes))


@pytest.fixture
def make_report():
    return small_report


@pytest.fixture
def report():
    return small_report()
