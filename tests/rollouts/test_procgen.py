"""Games of Procgen are Gymnasium environments whose episodes follow from their seeds."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import pivec
from pivec.rollouts import Environment

# What the package has of its own interface: levels one after another, drawn when it is made.
PACKAGE = """
import numpy as np

class ProcgenGym3Env:
    def __init__(self, num, env_name, rand_seed, num_threads=4, length=5):
        assert (num, env_name, num_threads) == (1, "maze", 0)
        self.rng, self.length = np.random.default_rng(rand_seed), length
        self.begin()

    def begin(self):
        self.time, self.level = 0, self.rng.integers(1, 200)

    def act(self, actions):
        assert actions.shape == (1,) and actions.dtype == np.int32
        self.time += 1
        self.first = self.time == self.length
        if self.first:
            self.begin()

    def observe(self):
        image = np.full((1, 64, 64, 3), self.level + self.time, np.uint8)
        return np.ones(1, np.float32), {"rgb": image}, np.array([getattr(self, "first", True)])
"""


@pytest.fixture(autouse=True)
def _package(tmp_path, monkeypatch):
    (tmp_path / "procgen.py").write_text(PACKAGE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "procgen", raising=False)
    yield
    sys.modules.pop("procgen", None)


def collected(name, **arguments):
    brightness = {"features": lambda images: images[:, 0, 0, :1].astype(float)}
    return pivec.collect(name, "random", episodes=4, env_kwargs=arguments, **brightness)


@pytest.mark.parametrize("name", ["procgen:procgen-maze-v0", "procgen-maze-v0"])
def test_a_seed_draws_the_level(name):
    data = collected(name)
    np.testing.assert_array_equal(data.states, collected(name).states)
    starts = [episode[0, 0] for episode in data.episodes()]
    assert len(set(starts)) > 1
    np.testing.assert_array_equal(data.returns, 5.0)


def test_the_next_level_is_not_shown_and_arguments_reach_the_game():
    data = collected("procgen-maze-v0", length=3)
    for episode in data.episodes():
        assert (np.diff(episode[:, 0]) <= 1).all()
        assert (np.diff(episode[:, 0]) >= 0).all()
    np.testing.assert_array_equal(data.returns, 3.0)


def test_what_is_seen_is_drawn():
    env = Environment("procgen-maze-v0").make(render_mode="rgb_array")
    seen, _ = env.reset(seed=1)
    np.testing.assert_array_equal(env.render(), seen)
