"""The dangerous path: what each location holds, when the reward comes, single and vectorised."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from lanes import play_beside_singles

import reproduction.worlds  # noqa: F401 - registers
from pivec.errors import UsageError
from reproduction.worlds.dangerous_path import (
    MINE,
    NOTHING,
    RIGHT,
    DangerousPathEnv,
    DangerousPathVectorEnv,
    draw_outcomes,
    locations,
)

NAME = "pivec/DangerousPath-v0"


def first(env: DangerousPathEnv, place: int, kind: int) -> int:
    return int(np.flatnonzero(env.outcomes[place] == kind)[0])


def test_every_location_has_one_right_action_two_mines_and_two_without_effect() -> None:
    outcomes = draw_outcomes(5, 25, 0.5, path_seed=7)
    assert outcomes.shape == (25, 5)
    for kind, count in ((RIGHT, 1), (MINE, 2), (NOTHING, 2)):
        assert ((outcomes == kind).sum(axis=1) == count).all()


def test_which_action_is_what_is_random() -> None:
    outcomes = draw_outcomes(5, 5_000, 0.5, path_seed=0)
    for kind, share in ((RIGHT, 0.2), (MINE, 0.4), (NOTHING, 0.4)):
        assert np.allclose((outcomes == kind).mean(axis=0), share, atol=0.03)


@pytest.mark.parametrize(("mines", "expected"), [(0.0, 0), (0.25, 1), (1.0, 4)])
def test_the_share_of_mines_is_of_the_wrong_actions(mines: float, expected: int) -> None:
    outcomes = draw_outcomes(5, 10, mines, path_seed=0)
    assert ((outcomes == MINE).sum(axis=1) == expected).all()
    assert ((outcomes == RIGHT).sum(axis=1) == 1).all()


def test_the_same_path_seed_is_the_same_path_whatever_the_seed_of_reset() -> None:
    one, other = DangerousPathEnv(path_seed=4), DangerousPathEnv(path_seed=4)
    one.reset(seed=1)
    other.reset(seed=2)
    assert np.array_equal(one.outcomes, other.outcomes)
    assert not np.array_equal(one.outcomes, DangerousPathEnv(path_seed=5).outcomes)


def test_each_location_is_one_step_up_the_axis_of_the_right_action() -> None:
    outcomes = draw_outcomes(3, 6, 0.5, path_seed=0)
    steps = np.diff(locations(outcomes), axis=0)
    assert np.array_equal(steps, (outcomes == RIGHT).astype(np.float32))


def test_right_actions_all_the_way_earn_the_whole_reward_and_end_the_episode() -> None:
    env = gymnasium.make(NAME, path_seed=1)
    env.reset(seed=0)
    total = 0.0
    for place in range(25):
        _, reward, terminated, _, _ = env.step(first(env.unwrapped, place, RIGHT))
        total += float(reward)
        assert terminated == (place == 24)
    assert total == 25.0


def test_the_reward_comes_once_for_a_new_location() -> None:
    env = DangerousPathEnv(path_seed=2)
    env.reset(seed=0)
    rewards = []
    # One step forward, a mine, the same step again, and then a step that is new.
    for place, kind in ((0, RIGHT), (1, MINE), (0, RIGHT), (1, RIGHT)):
        rewards.append(env.step(first(env, place, kind))[1])
    assert rewards == [1.0, 0.0, 0.0, 1.0]


def test_mines_throw_back_to_the_start_and_others_leave_the_agent_where_it_is() -> None:
    env = DangerousPathEnv(path_seed=2)
    start, _ = env.reset(seed=0)
    there = env.step(first(env, 0, RIGHT))[0]
    assert np.array_equal(env.step(first(env, 1, NOTHING))[0], there)
    assert np.array_equal(env.step(first(env, 1, MINE))[0], start)


def test_a_new_episode_forgets_how_far_the_last_one_came() -> None:
    env = DangerousPathEnv(path_seed=2)
    for _ in range(2):
        env.reset(seed=0)
        assert env.step(first(env, 0, RIGHT))[1] == 1.0


def test_episodes_are_cut_after_25_steps() -> None:
    env = gymnasium.make(NAME)
    env.reset(seed=0)
    idle = first(env.unwrapped, 0, NOTHING)
    assert [bool(env.step(idle)[3]) for _ in range(25)] == [False] * 24 + [True]


def test_it_passes_the_checker_of_gymnasium() -> None:
    check_env(gymnasium.make(NAME, render_mode="rgb_array").unwrapped)


def test_the_picture_shows_where_the_agent_is() -> None:
    env = DangerousPathEnv(render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    env.step(first(env, 0, RIGHT))
    after = env.render()
    assert before is not None
    assert before.shape == after.shape
    assert (before != after).any()
    assert DangerousPathEnv().render() is None


@pytest.mark.bits
def test_lanes_equal_single_environments_bit_for_bit() -> None:
    rng = np.random.default_rng(0)

    def mostly_right(lanes: DangerousPathVectorEnv, shown: np.ndarray) -> np.ndarray:
        """So that some episodes reach the end of the path."""
        places = shown.sum(axis=1).astype(int)
        right = lanes.outcomes[np.minimum(places, 5)].argmax(axis=1)
        return np.where(rng.random(4) < 0.8, right, rng.integers(0, 3, 4))

    arguments = {"n_dimensions": 3, "length": 6, "path_seed": 5}
    ends = play_beside_singles(NAME, arguments, DangerousPathVectorEnv, mostly_right, 400)
    assert ends[0] > 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": 0}, "length must be a whole number of at least 1, but is 0"),
        ({"n_dimensions": 2.5}, "n_dimensions must be a whole number"),
        ({"mines": 1.5}, r"mines must be .* is 1\.5"),
        ({"path_seed": -1}, "path_seed must be a whole number of at least 0"),
    ],
)
def test_mistaken_arguments_are_told(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        DangerousPathEnv(**arguments)
