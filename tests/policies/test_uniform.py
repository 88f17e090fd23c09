"""The random policy over every kind of action space."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from pivec.errors import UsageError
from pivec.policies import BatchPolicy, UniformPolicy

spaces = gymnasium.spaces
SPACES = [
    spaces.Discrete(3),
    spaces.Discrete(2, start=-1),
    spaces.Box(-2, 2, (1,)),
    spaces.Box(np.array([-1.0, 5.0]), np.array([1.0, 6.0]), dtype=np.float64),
    spaces.Box(0, 255, (2, 2), np.uint8),
    spaces.MultiDiscrete([2, 5, 3]),
    spaces.MultiDiscrete([[2, 3], [4, 5]]),
    spaces.MultiBinary(4),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_actions_are_in_the_space_and_cover_it_evenly(space):
    policy = UniformPolicy().bind(spaces.Box(-1, 1, (3,)), space)
    n = 4000
    actions = policy.act(np.zeros((n, 3)), np.random.default_rng(0))
    assert len(actions) == n
    assert all(space.contains(action) for action in actions[:200])
    space.seed(1)
    sampled = np.array([space.sample() for _ in range(n)])
    error = np.sqrt(2 / n) * sampled.std(axis=0)
    assert (np.abs(actions.mean(axis=0, dtype=float) - sampled.mean(axis=0)) < 5 * error).all()
    if actions.dtype.kind in "iub":
        assert (actions.min(axis=0) == sampled.min(axis=0)).all()
        assert (actions.max(axis=0) == sampled.max(axis=0)).all()


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_it_is_a_batch_policy_with_a_stream_of_numbers(space):
    policy = UniformPolicy().bind(space, space)
    assert isinstance(policy, BatchPolicy)
    rng = np.random.default_rng(3)
    parts = np.concatenate([policy.noise(rng, 2), policy.noise(rng, 5)])
    np.testing.assert_array_equal(parts, policy.noise(np.random.default_rng(3), 7))
    np.testing.assert_array_equal(
        policy.respond(np.zeros(7), parts), policy.act(np.zeros(7), np.random.default_rng(3))
    )
    assert policy.architecture == UniformPolicy().bind(space, space).architecture


def test_the_largest_number_below_one_stays_in_the_space():
    top = np.full((1, 1), np.nextafter(np.float32(1), np.float32(0)))
    policy = UniformPolicy().bind(spaces.Discrete(7), spaces.Discrete(7))
    assert policy.respond([0], top).tolist() == [6]


def test_what_it_cannot_do_is_said():
    anything = spaces.Discrete(2)
    with pytest.raises(UsageError, match="bounds"):
        UniformPolicy().bind(anything, spaces.Box(-np.inf, np.inf, (2,)))
    with pytest.raises(UsageError, match="not Text"):
        UniformPolicy().bind(anything, spaces.Text(3))
    with pytest.raises(UsageError, match="bind"):
        UniformPolicy().act([0], np.random.default_rng(0))
    with pytest.raises(UsageError, match="random policy"):
        UniformPolicy().bind(anything, anything).act([0], np.random.default_rng(0), True)
    with pytest.raises(UsageError, match="2 observations"):
        UniformPolicy().bind(anything, anything).respond([0, 0], np.zeros((3, 1), np.float32))
