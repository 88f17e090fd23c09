"""A small comparison of the backends, as benchmarks/backends.py makes it at full size."""

from __future__ import annotations

import importlib
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import pivec

pytest.importorskip("Box2D")  # before EnvPool: see import_envpool
pytest.importorskip("envpool")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def compare(monkeypatch):
    if not BENCHMARKS.exists():
        pytest.skip("the benchmarks are not here")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("backends").compare
    for name in ("backends", "measure", "trained"):
        sys.modules.pop(name, None)


def pilot(observations):
    """Land: the heuristic that Gymnasium ships, on a batch."""
    x, y, vx, vy, angle, spin, left, right = observations.T
    tilt = (np.clip(0.5 * x + vx, -0.4, 0.4) - angle) * 0.5 - spin
    lift = (0.55 * np.abs(x) - y) * 0.5 - vy * 0.5
    down = (left > 0) | (right > 0)
    tilt, lift = np.where(down, 0, tilt), np.where(down, -0.5 * vy, lift)
    turn = np.where(tilt < -0.05, 3, np.where(tilt > 0.05, 1, 0))
    return np.where((lift > np.abs(tilt)) & (lift > 0.05), 2, turn)


def resting(data):
    """Heights of landers that stand still on the pad."""
    states = data.states
    still = (states[:, 6:] > 0).all(axis=1) & (np.abs(states[:, 3]) < 1e-3)
    return states[still & (np.abs(states[:, 0]) < 0.1), 1]


def both(env, policy, episodes, **options):
    return [
        pivec.collect(env, policy, episodes, backend=backend, seed=seed, **options)
        for seed, backend in enumerate(("gymnasium", "envpool"))
    ]


def test_cartpole_under_a_trained_policy(compare):
    shelf = sorted((files("pivec") / "demo_policies/CartPole-v1").rglob("*.safetensors"))
    found, p = compare(*both("CartPole-v1", [str(shelf[-1]), str(shelf[0])], 50), deals=300)
    assert p > 0.01
    assert len(found) == 4 * 3 + 2


def test_the_comparison_finds_what_is_different(compare):
    one = pivec.collect("CartPole-v1", "random", 50)
    names = one.feature_names
    other = pivec.collect(
        "CartPole-v1", "random", 50, features=lambda o: o + 0.05, feature_names=names
    )
    _, p = compare(one, other, deals=300)
    assert p < 0.01


def test_landers_rest_higher_in_envpool_and_the_comparison_finds_it(compare):
    gym, fast = both("LunarLander-v3", {"pilot": pilot}, 30)
    assert np.median(resting(fast)) - np.median(resting(gym)) == pytest.approx(0.005, abs=0.001)
    found, p = compare(gym, fast, deals=300)
    assert found["x[1] terminal"][1] < 0.01
    assert p < 0.01
