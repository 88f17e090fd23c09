"""Vectorised lanes are Gymnasium's environments, bit for bit, whichever lanes are stepped."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from pivec.rollouts import Environment, GymnasiumLanes, Layout, choose_array_lanes, make_lanes

KINDS = ("CartPole-v1", "Pendulum-v1", "Acrobot-v1")


def act(space, observations, step, rng):
    """Actions that swing up, so that angles wrap and speeds reach their bounds."""
    if isinstance(space, gym.spaces.Box):
        swing = np.sign(observations[:, 2] + 1e-3) * rng.uniform(0, 3, len(observations))
        return swing[:, None].astype(np.float32)
    if space.n == 3:
        return np.where(observations[:, 5] > 0, 2, 0)
    return (observations[:, 2] + rng.normal(0, 0.05, len(observations)) > 0).astype(int)


@pytest.mark.bits
@pytest.mark.parametrize("name", KINDS)
def test_lanes_repeat_gymnasium_bit_for_bit(name, rng):
    n, steps = 5, 600
    environment = Environment(name)
    fast = make_lanes(environment, "gymnasium", Layout(1, n))
    slow = GymnasiumLanes(environment, n)
    assert not isinstance(fast, GymnasiumLanes)
    assert fast.observation_space == slow.observation_space
    for lane in range(n):
        for lanes in (fast, slow):
            lanes.reset(lane, seed=lane)
    ends = 0
    for step in range(steps):
        assert np.array_equal(fast.observations, slow.observations)
        assert fast.observations.dtype == slow.observations.dtype
        actions = act(fast.action_space, slow.observations, step, rng)
        idle = step % n
        some = np.array([lane for lane in range(n) if lane != idle])
        if name == "CartPole-v1":
            some = np.arange(n)  # Gymnasium's version steps all of them
        ours, theirs = fast.step(some, actions), slow.step(some, actions)
        assert np.allclose(ours[0], theirs[0], rtol=0, atol=1e-9)
        if name != "Pendulum-v1":
            assert np.array_equal(ours[0], theirs[0])
        for mine, other in zip(ours[1:], theirs[1:], strict=True):
            assert np.array_equal(mine, other)
        for lane in some[theirs[1] | theirs[2]].tolist():
            ends += 1
            for lanes in (fast, slow):
                lanes.reset(lane, seed=1000 + step * n + lane)
    assert ends >= n
    fast.close()
    slow.close()


def test_arguments_reach_the_vectorised_version():
    environment = Environment("Pendulum-v1", {"g": 3.0})
    lanes, env = make_lanes(environment, "gymnasium", Layout(1, 1)), environment.make()
    assert not isinstance(lanes, GymnasiumLanes)
    lanes.reset(0, 4)
    env.reset(seed=4)
    lanes.step(np.array([0]), np.ones((1, 1), np.float32))
    assert np.array_equal(env.step(np.ones(1, np.float32))[0], lanes.observations[0])


@pytest.mark.parametrize("name", KINDS)
def test_whatever_is_around_the_environment_makes_it_another(name):
    around = "gymnasium.wrappers:TimeAwareObservation"
    assert choose_array_lanes(Environment(name)) is not None
    for environment in (
        Environment(name, {"max_episode_steps": 7}),
        Environment(name, {"render_mode": "rgb_array"}),
        Environment(name, wrappers=(around,)),
        Environment(name, factory=lambda: gym.make(name)),
        Environment("MountainCar-v0"),
    ):
        assert choose_array_lanes(environment) is None


def test_a_changed_acrobot_is_stepped_by_gymnasium(monkeypatch):
    from gymnasium.envs.classic_control.acrobot import AcrobotEnv

    monkeypatch.setattr(AcrobotEnv, "book_or_nips", "nips")
    assert choose_array_lanes(Environment("Acrobot-v1")) is None
