"""Data that several tests share."""

from __future__ import annotations

import signal
import sys

import numpy as np
import pytest

from pivec.cli import main
from pivec.states import VisitedStates
from ray_cluster import add_node, ray_address, ray_engine  # noqa: F401  (fixtures)


def pytest_configure() -> None:
    """Let Ctrl-C be tested in a shell's background too: jobs there ignore it, as do their own."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def make_walks(places, *, episodes=4, length=60, features=3, seed=0):
    """Episodes of normal states around one place for each policy."""
    rng = np.random.default_rng(seed)
    return [
        [rng.normal(place, 1.0, (length, features)).astype(np.float32) for _ in range(episodes)]
        for place in places
    ]


@pytest.fixture
def walks() -> VisitedStates:
    """Six policies of two runs that move apart, and returns to match."""
    places = [0.0, 0.5, 1.0, 0.0, -0.5, -1.0]
    return VisitedStates.from_arrays(
        make_walks(places),
        labels=[f"run_{i // 3}/{100 * (i % 3)}" for i in range(6)],
        groups=[f"run_{i // 3}" for i in range(6)],
        steps=[100 * (i % 3) for i in range(6)],
        returns=[[10 * abs(place) + e for e in range(4)] for place in places],
        environment="Walk-v0",
    )


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Call the command line in this process and an empty folder, as a fresh one would see it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["pivec", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        done = capsys.readouterr()
        assert stop.value.code == code, done.out + done.err
        assert "Traceback" not in done.err
        return done

    return call
