"""Outcomes of episodes that are played: success in the last info, and functions of the user."""

import gymnasium
import numpy as np
import pytest

import pivec
from pivec.errors import BadData, UsageError


class Goal(gymnasium.Env):
    """Ends after a random number of steps; the last info says whether it moved to the right."""

    observation_space = gymnasium.spaces.Box(-100.0, 100.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.left = 0.0, int(self.np_random.integers(2, 9))
        return self._shown(), {}

    def step(self, action):
        self.place += (action - 0.5) + 0.1 * self.np_random.normal()
        self.left -= 1
        info = {"is_success": np.array(self.place > 0.0)} if self.left == 0 else {}
        return self._shown(), self.place, self.left == 0, False, info

    def _shown(self):
        return np.array([self.place], np.float32)


class Silent(Goal):
    def step(self, action):
        return (*super().step(action)[:4], {})


def coin(observations, rng):
    return (rng.random(len(observations)) < 0.5).astype(int)


def biased(observations, rng):
    return (rng.random(len(observations)) < 0.6).astype(int)


def farthest(states, actions, total_reward, info):
    return float(np.abs(states).max())


def side(states, actions, total_reward, info):
    return "right" if states[-1, 0] > 0 else "left"


POLICIES = {"coin": coin, "biased": biased}


def test_success_is_the_last_info_of_each_episode():
    data = pivec.collect(Goal, POLICIES, episodes=12, outcomes={"farthest": farthest, "side": side})
    last = np.array([states[-1, 0] for states in data.episodes()])
    np.testing.assert_array_equal(data.outcomes["success"], last > 0)
    np.testing.assert_array_equal(
        data.outcomes["farthest"], [np.abs(states).max() for states in data.episodes()]
    )
    assert data.outcomes["side"].tolist() == ["right" if x > 0 else "left" for x in last]
    assert pivec.collect(Silent, POLICIES, episodes=2).outcomes == {}


def test_neither_workers_nor_lanes_change_outcomes(tmp_path):
    one = pivec.collect(Goal, POLICIES, episodes=9)
    for options in ({"jobs": 2, "engine": "processes"}, {"n_envs": 3}, {"store": tmp_path / "s"}):
        other = pivec.collect(Goal, POLICIES, episodes=9, **options)
        np.testing.assert_array_equal(other.outcomes["success"], one.outcomes["success"])
    more = pivec.collect(Goal, POLICIES, episodes=12, store=tmp_path / "s")
    assert more.n_episodes == 24
    np.testing.assert_array_equal(more.outcomes["success"][:9], one.outcomes["success"][:9])
    assert not np.isnan(more.outcomes["success"]).any()


@pytest.mark.parametrize(
    ("function", "error", "fact"),
    [
        (lambda *_: 1 / 0, UsageError, "division by zero"),
        (lambda *_: [1, 2], BadData, "must be a number"),
    ],
)
def test_wrong_functions_are_named(function, error, fact):
    with pytest.raises(error, match=fact) as caught:
        pivec.collect(Goal, POLICIES, episodes=2, outcomes={"score": function})
    assert "'score'" in str(caught.value)
    assert "episode 0" in str(caught.value)


def test_unknown_outcomes_are_left_out():
    data = pivec.collect(
        Silent, POLICIES, episodes=3, outcomes={"score": lambda s, a, r, i: r if r > 0 else None}
    )
    np.testing.assert_array_equal(
        data.outcomes["score"], np.where(data.returns > 0, data.returns, np.nan)
    )


def test_common_seeds():
    own = pivec.collect(Goal, POLICIES, episodes=6)
    common = pivec.collect(Goal, POLICIES, episodes=6, same_seeds=True)
    assert not np.intersect1d(*np.split(own.seeds, 2)).size
    first, second = np.split(common.seeds, 2)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(*np.split(common.lengths, 2))  # which the seed determines
    alone = pivec.collect(Goal, {"biased": biased}, episodes=8, same_seeds=True)
    np.testing.assert_array_equal(alone.seeds[:6], second)


def test_common_seeds_belong_to_the_settings_of_a_store(tmp_path):
    pivec.collect(Goal, POLICIES, episodes=2, store=tmp_path / "s")
    with pytest.raises(UsageError, match="same_seeds"):
        pivec.collect(Goal, POLICIES, episodes=2, same_seeds=True, store=tmp_path / "s")
