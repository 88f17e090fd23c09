"""The deceptive point: the pocket, the way around it, single and vectorised."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import pivec
from reproduction.worlds.deceptive_point import WALLS, drawn, inside_walls, moved

NAME = "pivec/DeceptivePoint-v0"
UP, LEFT, DOWN, RIGHT = -0.5, 0.0, 0.5, 1.0


def walk(actions):
    """Play an episode; its return and the places."""
    env = gymnasium.make(NAME)
    places = [env.reset(seed=0)[0]]
    total = 0.0
    for action in actions:
        place, reward, terminated, truncated, _ = env.step(np.array([action], np.float32))
        places.append(place)
        total += reward
    assert not terminated
    assert truncated == (len(actions) == 100)
    return total, np.array(places)


def test_straight_up_ends_in_the_pocket_with_0_65() -> None:
    total, places = walk([UP] * 100)
    assert total == pytest.approx(0.65, abs=1e-12)
    np.testing.assert_allclose(places[-1], [0.0, -0.25], atol=1e-6)
    np.testing.assert_allclose(places[13], places[-1])


def test_no_way_within_the_pocket_is_worth_more_than_0_70() -> None:
    # Up with a slant comes closer to the bar than whole steps do, but never into it.
    best = max(walk([UP + slant] * 100)[0] for slant in np.linspace(-0.15, 0.15, 61))
    assert 0.69 < best <= 0.70


def test_ways_around_the_pocket() -> None:
    # 30 degrees under the left bar and up: about what the paper's best policies reached.
    total, _ = walk([LEFT + 1 / 6] * 18 + [UP] * 82)
    assert total == pytest.approx(3.65)
    # As short as steps along the axes can be, on either side.
    assert walk([DOWN] + [LEFT] * 16 + [UP] * 83)[0] == pytest.approx(4.1)
    assert walk([DOWN] + [RIGHT] * 16 + [UP] * 83)[0] == pytest.approx(4.1)
    # The shortest of two straight legs.
    assert walk([LEFT + 1.75 / 180] * 16 + [UP] * 84)[0] == pytest.approx(4.1756, abs=1e-4)


def test_going_sideways_at_the_height_of_the_start_ends_at_a_bar() -> None:
    for direction, sign in ((LEFT, -1), (RIGHT, 1)):
        total, places = walk([direction] * 100)
        assert total == pytest.approx(0.0, abs=1e-12)
        assert places[-1, 0] == pytest.approx(sign * 0.65, abs=1e-6)


def test_the_walls_are_one_bar_and_two_down_from_its_ends() -> None:
    rows = ["#" * 19 if row == 10 else "#" + "." * 17 + "#" for row in range(1, 11)]
    expected = np.zeros((25, 25), dtype=bool)
    expected[1:11, 3:22] = np.array([[cell == "#" for cell in row] for row in rows])
    np.testing.assert_array_equal(WALLS, expected)
    middles = (np.arange(25) + 0.5) * 0.08 - 1
    points = np.stack(np.meshgrid(middles, middles), axis=-1).reshape(-1, 2)
    np.testing.assert_array_equal(inside_walls(points).reshape(25, 25), WALLS)


def test_there_is_nothing_beyond_the_square() -> None:
    places = np.array([[0.0, 50.0], [-50.0, -0.16], [1.0, -0.16], [0.0, -1.5], [50.0, 50.0]])
    assert not inside_walls(places).any()


def test_angles_go_from_right_over_left_to_right_and_actions_are_clipped() -> None:
    here = np.tile([0.0, 2.0], (5, 1))
    steps = moved(here, np.array([-1.0, UP, LEFT, DOWN, 7.0], np.float32)) - here
    expected = 0.05 * np.array([[1, 0], [0, 1], [-1, 0], [0, -1], [1, 0]])
    np.testing.assert_allclose(steps, expected, atol=1e-12)


def test_gymnasiums_checker_has_nothing_to_say() -> None:
    for mode in (None, "rgb_array"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(gymnasium.make(NAME, render_mode=mode).unwrapped)


@pytest.mark.bits
def test_the_vectorised_one_equals_single_ones_over_several_episodes() -> None:
    n = 7
    many = gymnasium.make_vec(NAME, num_envs=n)
    singles = [gymnasium.make(NAME) for _ in range(n)]
    rng = np.random.default_rng(0)
    shown, _ = many.reset(seed=5)
    for i, env in enumerate(singles):
        np.testing.assert_array_equal(env.reset(seed=5 + i)[0], shown[i])
    over = [False] * n
    for _ in range(250):
        actions = rng.uniform(-1, 1, (n, 1)).astype(np.float32)
        shown, rewards, terminated, truncated, _ = many.step(actions)
        for i, env in enumerate(singles):
            one = (env.reset()[0], 0.0, False, False) if over[i] else env.step(actions[i])[:4]
            np.testing.assert_array_equal(one[0], shown[i])
            assert one[1:] == (rewards[i], terminated[i], truncated[i])
            over[i] = one[2] or one[3]


def test_collect_steps_it_on_arrays_as_it_would_one_by_one() -> None:
    policies = {"random": "random", "up": lambda seen: np.full((len(seen), 1), UP, np.float32)}
    fast = pivec.collect(NAME, policies, episodes=3)
    slow = pivec.collect(lambda: gymnasium.make(NAME), policies, episodes=3)
    np.testing.assert_array_equal(fast.states, slow.states)
    np.testing.assert_array_equal(fast.returns, slow.returns)
    assert fast["up"].returns.tolist() == pytest.approx([0.65] * 3)


def test_the_picture_shows_walls_the_way_and_the_point() -> None:
    env = gymnasium.make(NAME, render_mode="rgb_array")
    env.reset(seed=0)
    for _ in range(5):
        env.step(np.array([UP], np.float32))
    image = env.render()
    assert image.shape == (400, 240, 3)
    assert image.dtype == np.uint8
    red = np.argwhere((image == (214, 39, 40)).all(axis=-1)).mean(axis=0)
    np.testing.assert_allclose(red, [(3.5 + 0.65) * 80, 1.5 * 80], atol=1)
    bar = image[round((3.5 + 0.16) * 80), round(1.5 * 80)]
    assert bar.max() < 100
    many = gymnasium.make_vec(NAME, num_envs=2, render_mode="rgb_array")
    many.reset(seed=0)
    for _ in range(5):
        many.step(np.full((2, 1), UP, np.float32))
    np.testing.assert_array_equal(many.render()[1], image)


def test_a_point_out_of_sight_is_drawn_at_the_edge() -> None:
    image = drawn(np.array([[0.0, 20.0]]))
    assert (image == (214, 39, 40)).all(axis=-1)[:10].any()
