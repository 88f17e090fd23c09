"""Lanes of pivec's own environments: when they are used, and that they equal single ones."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import reproduction.worlds  # noqa: F401  (registers the environments)
from pivec.rollouts import Environment, GymnasiumLanes, Layout, choose_array_lanes, make_lanes

OURS = ("pivec/DeceptivePoint-v0", "pivec/DangerousPath-v0", "pivec/GridWorld-v0")


@pytest.mark.bits
@pytest.mark.parametrize("name", OURS)
def test_lanes_on_arrays_equal_lanes_stepped_one_by_one(name) -> None:
    fast = make_lanes(Environment(name), "gymnasium", Layout(1, 4))
    slow = GymnasiumLanes(Environment(name), 4)
    assert not isinstance(fast, GymnasiumLanes)
    active = np.arange(4)
    for lane in range(4):
        for lanes in (fast, slow):
            lanes.reset(lane, seed=10 + lane)
    fast.action_space.seed(0)
    for _ in range(60):
        np.testing.assert_array_equal(fast.observations[active], slow.observations[active])
        actions = np.stack([np.asarray(fast.action_space.sample()) for _ in range(4)])
        ours, theirs = fast.step(active, actions), slow.step(active, actions)
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(mine, other)
        active = active[~(ours[1] | ours[2])]
        if not len(active):
            break


def test_what_is_around_the_environment_or_belongs_to_make_is_not_lost() -> None:
    name = OURS[0]
    assert choose_array_lanes(Environment(name)) is not None
    around = ("gymnasium.wrappers:FlattenObservation",)
    assert choose_array_lanes(Environment(name, wrappers=around)) is None
    assert choose_array_lanes(Environment(name, {"max_episode_steps": 7})) is None
    assert choose_array_lanes(Environment(name, factory=lambda: gymnasium.make(name))) is None
    assert choose_array_lanes(Environment("MountainCar-v0")) is None
    lanes = make_lanes(Environment(name, {"max_episode_steps": 2}), "gymnasium", Layout(1, 1))
    lanes.reset(0, seed=0)
    moves = np.zeros((1, 1), np.float32)
    assert [bool(lanes.step(np.array([0]), moves)[2][0]) for _ in range(2)] == [False, True]
