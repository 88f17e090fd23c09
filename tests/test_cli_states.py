"""collect, import, export and compare on the command line, with recorded states among policies."""

from __future__ import annotations

import json
import sys

import gymnasium
import numpy as np
import pytest

import pivec

MINE = """
import gymnasium as gym
import numpy as np
from gymnasium import spaces

def lean(observations):
    return (observations[:, 2] > 0).astype(int)

def half(observations):
    return observations[:, :2]

class Shift(gym.ObservationWrapper):
    def __init__(self, env, by=1.0):
        super().__init__(env)
        self.by = by

    def observation(self, observation):
        return (observation + self.by).astype(np.float32)

class Line(gym.Env):
    observation_space = spaces.Box(-9, 9, (1,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.place.copy(), {}

    def step(self, action):
        self.place += 2 * action - 1
        return self.place.copy(), 0.0, bool(abs(self.place[0]) > 5), False, {}

gym.register("Line-v0", Line, max_episode_steps=40)
"""


@pytest.fixture
def run(run, tmp_path, monkeypatch):
    (tmp_path / "mine_too.py").write_text(MINE)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.syspath_prepend(tmp_path)
    yield run
    sys.modules.pop("mine_too", None)
    gymnasium.registry.pop("Line-v0", None)


def test_policies_and_recorded_states_become_one_map(run, tmp_path):
    run(
        "collect",
        "CartPole-v1",
        "random",
        "--episodes",
        4,
        "--actions",
        "--out",
        "old",
        "--seed",
        7,
    )
    run("export", "old", "npz:demos")
    specs = ["mine_too:lean", "random:2", "npz:demos"]
    if _has_minari():
        run("export", "old", "minari:cartpole/old-v0")
        specs.append("minari:cartpole/old-v0")
    run("compare", "CartPole-v1", *specs, "--episodes", 4, "--components", 4, "--jobs", 2)
    rows = (tmp_path / "pivec-out/map.csv").read_text().splitlines()
    assert len(rows) == 1 + 3 + len(specs) - 2
    assert json.loads((tmp_path / "pivec-out/run.json").read_text())["settings"]["backend"] == (
        "gymnasium"
    )


def _has_minari():
    from importlib.util import find_spec

    return find_spec("minari") is not None


def test_import_and_export(run, tmp_path):
    run("collect", "CartPole-v1", "random:2", "--episodes", 3, "--out", "s")
    assert "out.parquet" in run("export", "s", "out.parquet", "--level", "episodes").out
    run("export", "s", "npz:folder")
    done = run("import", "folder", "--out", "back", "--env", "CartPole-v1")
    assert "2 policies, 6 episodes" in done.out
    assert np.array_equal(pivec.load("back").states, pivec.load("s").states)
    assert "random-0" in run("store", "ls", "back").out


def test_environments_of_a_module_wrappers_and_features(run):
    run("collect", "Line-v0", "random:2", "--imports", "mine_too", "--episodes", 2, "--out", "a",
        "--jobs", 2)  # fmt: skip
    assert pivec.load("a").n_features == 1
    run("collect", "CartPole-v1", "random", "--episodes", 2, "--out", "b",
        "--wrappers", 'mine_too:Shift{"by": 5}', "--features", "mine_too:half")  # fmt: skip
    data = pivec.load("b")
    assert data.n_features == 2
    assert data.states.min() > 0
    settings = pivec.Store("b").settings
    assert settings["wrappers"] == [
        {"kind": "import", "name": "mine_too:Shift", "arguments": {"by": 5}}
    ]
    assert settings["features"] == {"kind": "function", "name": "half"}


def test_clips(run, tmp_path):
    pytest.importorskip("pygame")
    done = run("collect", "FrozenLake-v1", "random:2", "--episodes", 3, "--out", "s",
               "--wrappers", "gymnasium.wrappers:TimeAwareObservation",
               "--render", "films", "--render-episodes", "0,2")  # fmt: skip
    assert "4 clips: films" in done.out
    assert len(list((tmp_path / "films").glob("*/*.gif"))) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["collect", "CartPole-v1", "random", "--out", "s", "--backend", "isaac"], "gymnasium or"),
        (["collect", "CartPole-v1", "random", "--out", "s", "--features", "x.pt"], "--trust"),
        (["collect", "CartPole-v1", "random", "--out", "s", "--wrappers", "x"], "module:name"),
        (["collect", "CartPole-v1", "random", "--out", "s", "--imports", "nowhere"], "'nowhere'"),
        (
            ["collect", "CartPole-v1", "random", "--out", "s", "--episodes", "5",
             "--max-states-per-policy", "9"],
            "20 or more",
        ),
        (
            ["collect", "CartPole-v1", "random", "--out", "s", "--episodes", "1", "--render", "f",
             "--render-episodes", "1"],
            "--render-episodes 1",
        ),
        (["compare", "CartPole-v1", "npz:nowhere"], "not a folder"),
        (["import", "nowhere", "--out", "s"], "not a folder"),
        (["export", "nowhere", "x.parquet"], "is not a store"),
    ],
)  # fmt: skip
def test_mistakes_are_sentences(run, arguments, words):
    done = run(*arguments, code=2)
    assert words in done.err
