"""Environments by name and from packages, and what a user is told about unknown ones."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from importlib.resources import files

import gymnasium
import pytest

import pivec
from pivec.errors import UsageError
from pivec.policies import load_policies
from pivec.rollouts import Environment, environment_of


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("MiniHack-Room-5x5-v0", "minihack"),
        ("FetchReach-v4", "gymnasium-robotics"),
        ("PointMaze_UMaze-v3", "gymnasium-robotics"),
        ("highway-fast-v0", "highway-env"),
        ("PandaReachDense-v3", "panda-gym"),
        ("AntBulletEnv-v0", "pybullet-envs-gymnasium"),
        ("dm_control/cartpole-balance-v0", "shimmy[dm-control]"),
        ("PongNoFrameskip-v4", "pivec[atari]"),
        ("four-room-v0", "mo-gymnasium"),
        ("procgen:procgen-coinrun-v0", "procgen-mirror"),
        ("procgen-coinrun-v0", "procgen-mirror"),
        ("VizdoomBasic-v1", "vizdoom"),
        ("PyFlyt/QuadX-Hover-v4", "pyflyt"),
        ("sumo-rl-v0", "sumo-rl"),
        ("gym_pusht/PushT-v0", "gym-pusht"),
    ],
)
def test_a_missing_package_is_named(monkeypatch, name, package):
    monkeypatch.setattr("pivec.rollouts.environment.find_spec", lambda _: None)
    monkeypatch.delitem(gymnasium.registry, name, raising=False)
    with pytest.raises(UsageError, match=re.escape(f'pip install "{package}"')):
        Environment(name).make()


@pytest.mark.parametrize(
    ("name", "module"),
    [("MiniGrid-Empty-5x5-v0", "minigrid"), ("PongNoFrameskip-v4", "ale_py")],
)
def test_a_package_that_is_there_registers_by_itself(name, module):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"needs {module}")
    code = f"from pivec.rollouts import Environment; Environment({name!r}).make()"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cartpole-v1", "did you mean CartPole-v1"),
        ("nowhere/Thing-v0", "--imports"),
    ],
)
def test_an_unknown_name_tells_what_is_meant_or_how_to_register_it(name, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        Environment(name).make()


SHELF = files("pivec") / "demo_policies"


@pytest.mark.parametrize(
    ("name", "words"),
    [("CartPole-v1", "CartPole-v1 (4 values, 2 actions)"),
     ("Pendulum-v1", "Pendulum-v1 (3 values, 1 action)")],
)  # fmt: skip
def test_a_policy_fits_its_environment(name, words):
    named = load_policies(str(SHELF / name))[0]
    with pytest.raises(UsageError, match=re.escape(words)):
        environment_of(None, [], acting=[named.policy])


def test_what_fits_everything_or_cannot_be_asked_tells_nothing():
    for acting in ([load_policies("random")[0].policy], [lambda seen: seen], []):
        with pytest.raises(UsageError) as error:
            environment_of(None, [], acting=acting)
        assert " fits " not in str(error.value)


def test_the_sentence_tells_the_next_step():
    policy = load_policies(str(SHELF / "CartPole-v1"))[0].policy
    with pytest.raises(UsageError, match=r"CartPole-v1 \(4 values"):
        pivec.collect(None, {"mine": policy}, episodes=1)
