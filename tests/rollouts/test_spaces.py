"""Flattening agrees with Gymnasium's own, for every kind of space."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

from pivec.errors import UsageError
from pivec.rollouts import observations as spaces

SPACES = [
    Box(-1, 1, (3,)),
    Box(-1, 1, ()),
    Box(0, 255, (2, 3), np.uint8),
    Discrete(4),
    Discrete(4, start=-2),
    MultiBinary([2, 2]),
    MultiDiscrete([2, 3, 4]),
    MultiDiscrete([[2, 3], [4, 5]]),
    Tuple([Discrete(3), Box(0, 1, (2,))]),
    Dict({"z": Discrete(2), "a": Dict({"inner": Box(0, 1, (1, 2))})}),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_rows_are_those_of_gymnasium(space):
    space.seed(0)
    elements = [space.sample() for _ in range(5)]
    batch = spaces.empty_batch(space, 5)
    for row, element in enumerate(elements):
        spaces.assign(batch, row, element)
    flat = spaces.flatten(space, batch)
    assert flat.dtype == np.float32
    assert np.allclose(flat, [gym.spaces.flatten(space, element) for element in elements])
    assert len(spaces.feature_names(space)) == flat.shape[1]
    assert len(set(spaces.feature_names(space))) == flat.shape[1]
    assert np.array_equal(spaces.flatten(space, spaces.pick(batch, slice(2, 4))), flat[2:4])


def test_spaces_without_a_length_are_refused():
    with pytest.raises(UsageError, match="features="):
        spaces.feature_names(Text(5))
