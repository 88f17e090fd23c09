"""The policies that ship with the package."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest

import pivec.policies
from pivec.policies import load_policies

FOLDER = Path(pivec.policies.__file__).parent.parent / "demo_policies"


@pytest.mark.parametrize(
    ("name", "runs", "checkpoints"), [("CartPole-v1", 6, 8), ("Pendulum-v1", 4, 6)]
)
def test_they_are_all_there_and_fit_their_environment(name, runs, checkpoints):
    named = load_policies(FOLDER / name)
    assert len({each.info.group for each in named}) == runs
    assert len(named) == runs * checkpoints
    assert len({each.policy.architecture for each in named}) == 1
    assert len({each.policy.fingerprint for each in named}) == len(named)
    env = gymnasium.make(name)
    for each in named:
        each.policy.bind(env.observation_space, env.action_space)
        assert each.info.metadata["environment"] == name
        assert each.info.metadata["step"] == each.info.step
        assert each.info.metadata["algorithm"].lower() == each.info.group.partition("-")[0]
    for group in {each.info.group for each in named}:
        steps = [each.info.step for each in named if each.info.group == group]
        assert steps == sorted(steps)
        assert steps[0] == 0


def test_the_last_checkpoints_balance_the_pole():
    env = gymnasium.make("CartPole-v1")
    rng = np.random.default_rng(0)
    for run in ("ppo-0", "a2c-0"):
        policy = load_policies(FOLDER / "CartPole-v1" / run)[-1].policy
        observation, _ = env.reset(seed=0)
        total, over = 0.0, False
        while not over:
            action = policy.act(observation[None], rng)[0]
            observation, reward, terminated, truncated, _ = env.step(action)
            total, over = total + reward, terminated or truncated
        assert total > 400


def test_they_stay_small():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 1_400_000
