"""The base of vectorised environments: seeds, streams, autoreset, lanes stepped by themselves."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

import reproduction.worlds
from reproduction.worlds import ArrayVectorEnv

SPACES = spaces.Box(-100, 100, (1,), np.float64), spaces.Discrete(2)


class Single(gymnasium.Env):
    """A walk of random steps, as many numbers a step as the action says, that ends beyond 4."""

    observation_space, action_space = SPACES

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.random(1)
        return self.place.copy(), {}

    def step(self, action):
        self.place = self.place + self.np_random.random(2)[action]
        return self.place.copy(), float(action), bool(self.place[0] > 4), False, {}


class Many(ArrayVectorEnv):
    def __init__(self, num_envs, max_episode_steps=9):
        super().__init__(num_envs, *SPACES, max_episode_steps)
        self.places = np.zeros(num_envs)

    def start_episodes(self, lanes):
        self.places[lanes] = self.random(lanes)[:, 0]

    def move(self, lanes, actions):
        self.places[lanes] += self.random(lanes, 2)[np.arange(len(lanes)), actions]
        return actions.astype(float), self.places[lanes] > 4

    def observe(self, lanes):
        return self.places[lanes, None]

    def picture(self, lane):
        return np.zeros((1, 1, 3), np.uint8)


@pytest.mark.bits
def test_lanes_repeat_single_environments_beyond_what_is_drawn_at_a_time() -> None:
    many = Many(3)
    singles = [gymnasium.wrappers.TimeLimit(Single(), 9) for _ in range(3)]
    shown, _ = many.reset(seed=7)
    for i, env in enumerate(singles):
        assert env.reset(seed=7 + i)[0] == shown[i]
    over = [False] * 3
    ends = set()
    rng = np.random.default_rng(0)
    for _ in range(400):  # more than 256 numbers a lane, in episodes of different lengths
        actions = rng.integers(0, 2, 3)
        shown, rewards, terminated, truncated, info = many.step(actions)
        assert info == {}
        for i, env in enumerate(singles):
            one = (env.reset()[0], 0.0, False, False) if over[i] else env.step(actions[i])[:4]
            assert (one[0], *one[1:]) == (shown[i], rewards[i], terminated[i], truncated[i])
            over[i] = one[2] or one[3]
            ends.add(one[2:])
    assert ends == {(False, False), (True, False), (False, True), (True, True)}


def test_a_seed_for_each_lane_or_none_at_all() -> None:
    many = Many(2)
    first, _ = many.reset(seed=[4, 3])
    np.testing.assert_array_equal(first[::-1], many.reset(seed=np.int64(3))[0])
    goes_on, _ = many.reset()
    assert (goes_on != first).all()  # the streams go on
    unseeded = Many(2).reset()[0]
    assert unseeded[0] != unseeded[1]


def test_lanes_can_be_stepped_and_reset_by_themselves() -> None:
    many = Many(3)
    many.reset(seed=0)
    before = many.observations.copy()
    rewards, terminated, truncated = many.step_lanes(np.array([2, 0]), np.array([1, 0]))
    assert rewards.tolist() == [1.0, 0.0]
    assert not terminated.any()
    assert not truncated.any()
    assert many.observations[1] == before[1]
    assert (many.observations[[0, 2]] > before[[0, 2]]).all()
    many.reset_lanes(np.array([2]), [2])
    assert many.observations[2] == before[2]


def test_what_is_handed_out_does_not_change_later() -> None:
    many = Many(2)
    shown, _ = many.reset(seed=0)
    kept = shown.copy()
    many.step(np.zeros(2, int))
    np.testing.assert_array_equal(shown, kept)


def test_autoreset_is_what_the_metadata_say() -> None:
    assert Many.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    many = Many(1, max_episode_steps=1)
    many.reset(seed=0)
    assert many.step(np.array([1]))[3].all()
    _, rewards, _, truncated, _ = many.step(np.array([1]))
    assert rewards[0] == 0.0
    assert not truncated.any()


def test_a_base_class_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="abstract"):
        ArrayVectorEnv(1, *SPACES, 5)


def test_registering_twice_is_quiet_and_all_have_vectorised_versions() -> None:
    reproduction.worlds.register()
    ours = [spec for name, spec in gymnasium.registry.items() if name.startswith("pivec/")]
    assert len(ours) == 3
    for spec in ours:
        assert isinstance(gymnasium.make_vec(spec.id, num_envs=2).unwrapped, ArrayVectorEnv)


def test_gymnasium_finds_them_by_module_and_name_without_an_import() -> None:
    name = "reproduction.worlds:pivec/DeceptivePoint-v0"
    code = f"import gymnasium; print(gymnasium.make({name!r}).spec.id)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "pivec/DeceptivePoint-v0"
