"""A comparison with a page of each kind, as the commands write them one after another."""

from __future__ import annotations

import sys
from unittest import mock

import numpy as np
import pytest

import pivec
from pivec.cli import main

ODD = "ppo-1/<i>50 % & #1?\u202e"
LABELS = ["ppo-0/0", "ppo-0/100", "ppo-1/0", ODD]
PAGES = {
    "report": "report.html",
    "pair": "explain/ppo-0_0--ppo-0_100/explain.html",
    "run": "explain/run-ppo-0/explain.html",
    "groups": "explain/groups-a--b/explain.html",
    "overview": "explain/explain.html",
    "regions": "regions.html",
    "unusual": "unusual.html",
}


def command(*arguments):
    """Call the command line in this process."""
    with (
        mock.patch.object(sys, "argv", ["pivec", *map(str, arguments)]),
        pytest.raises(SystemExit) as stop,
    ):
        main()
    assert stop.value.code == 0


def leave_site(folder):
    rng = np.random.default_rng(0)
    walks = [[rng.normal(k, 1.0, (40, 2)) for _ in range(6)] for k in range(4)]
    data = pivec.VisitedStates.from_arrays(
        walks,
        labels=LABELS,
        groups=["ppo-0", "ppo-0", "ppo-1", "ppo-1"],
        steps=[0, 100, 0, 100],
        returns=[np.arange(6.0)] * 4,
        environment="Walk-v0",
    )
    pivec.compare(data, out=folder, components=3)
    command("explain", folder, "ppo-0/0", "ppo-0/100", "--clips", 0, "--no-frames")
    command("regions", folder)
    command("unusual", folder)
    command("explain", folder, "--clips", 0, "--no-frames")
    command("explain", folder, "--run", "ppo-0", "--clips", 0)
    command("explain", folder, "--group", "a=ppo-0", "--group", "b=ppo-1")
    return folder
