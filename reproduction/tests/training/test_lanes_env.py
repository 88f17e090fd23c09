"""Lanes as an environment of Stable-Baselines3: its own checker, and Gymnasium's episodes."""

from __future__ import annotations

import numpy as np
import pytest
from training_worlds import Nested

from pivec.rollouts import Environment

pytest.importorskip("stable_baselines3")

from reproduction.training.reinforcement import LanesVecEnv


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0"])
def test_every_episode_is_one_of_gymnasium(name):
    env = LanesVecEnv(Environment(name), 2)
    env.seed(3)
    starts = [env.reset()]
    rng = np.random.default_rng(0)
    single = Environment(name).make()
    # The seeds of the first episodes, as the stream gives them.
    children = np.random.SeedSequence(3).spawn(2)
    seeds = [np.random.default_rng(child).integers(0, 2**31, 64)[::-1] for child in children]
    episode, returned = 0, 0.0
    expected, _ = single.reset(seed=int(seeds[1][episode]))
    np.testing.assert_array_equal(starts[0][1], expected)
    discrete = hasattr(single.action_space, "n")
    for _ in range(520):
        actions = (
            rng.integers(0, single.action_space.n, 2)
            if discrete
            else rng.uniform(-2, 2, (2, 1)).astype(np.float32)
        )
        seen, rewards, dones, infos = env.step(actions)
        shown, reward, terminated, truncated, _ = single.step(
            int(actions[1]) if discrete else actions[1]
        )
        returned += float(reward)
        assert rewards[1] == np.float32(reward)
        assert dones[1] == (terminated or truncated)
        if dones[1]:
            np.testing.assert_array_equal(infos[1]["terminal_observation"], shown)
            assert infos[1]["TimeLimit.truncated"] == (truncated and not terminated)
            assert infos[1]["episode"]["r"] == pytest.approx(returned)
            episode, returned = episode + 1, 0.0
            shown, _ = single.reset(seed=int(seeds[1][episode]))
        np.testing.assert_array_equal(seen[1], shown)
    assert episode > 0


def test_the_seed_decides_everything_after_a_reset():
    env = LanesVecEnv(Environment("CartPole-v1"), 3)
    runs = []
    for _ in range(2):
        env.seed(7)
        seen = [env.reset()]
        for _ in range(80):
            seen.append(env.step(np.array([0, 1, 1]))[0])
        runs.append(np.array(seen))
    np.testing.assert_array_equal(*runs)
    assert len(np.unique(runs[0][0], axis=0)) == 3


def test_what_was_returned_is_not_overwritten():
    env = LanesVecEnv(Environment("CartPole-v1"), 2)
    first = env.reset()
    kept = first.copy()
    env.step(np.array([0, 1]))
    np.testing.assert_array_equal(first, kept)


def test_observations_in_parts_are_flat():
    env = LanesVecEnv(Environment.of(Nested), 2)
    assert env.reset().shape == (2, *env.observation_space.shape) == (2, 3)
