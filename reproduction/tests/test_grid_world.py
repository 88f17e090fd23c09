"""The grid world: walls, random actions, the return, single and vectorised."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.utils.seeding import np_random
from lanes import play_beside_singles

import pivec
from pivec.errors import UsageError
from reproduction.worlds.grid_world import (
    DOWN,
    LEFT,
    RIGHT,
    UP,
    GridWorldEnv,
    GridWorldVectorEnv,
    disturbed,
    next_cells,
    wall_mask,
)

NAME = "pivec/GridWorld-v0"
DOOR = [(2, row) for row in (0, 1, 3, 4)]


def test_steps_lead_to_the_next_cell_unless_a_wall_or_the_edge_is_there() -> None:
    walls = wall_mask(4, 3, [(1, 1), (3, 0)])
    table = next_cells(walls)
    for row in range(3):
        for column in range(4):
            for action, (right, up) in {
                UP: (0, 1),
                RIGHT: (1, 0),
                DOWN: (0, -1),
                LEFT: (-1, 0),
            }.items():
                x, y = column + right, row + up
                free = 0 <= x < 4 and 0 <= y < 3 and not walls[y, x]
                expected = (x, y) if free else (column, row)
                assert table[row * 4 + column, action] == expected[1] * 4 + expected[0]


def test_the_shortest_way_is_worth_all_but_its_steps() -> None:
    env = gymnasium.make(NAME)
    shown, _ = env.reset(seed=0)
    assert np.array_equal(shown, [0, 0])
    outcomes = [env.step(action)[:4] for action in [UP] * 4 + [RIGHT] * 4]
    assert [outcome[1] for outcome in outcomes[:-1]] == [0.0] * 7
    assert np.array_equal(outcomes[-1][0], [4, 4])
    assert outcomes[-1][1:] == (1 - 8 / 500, True, False)


def test_an_episode_is_cut_after_500_steps_and_worth_nothing() -> None:
    env = gymnasium.make(NAME)
    env.reset(seed=0)
    outcomes = [env.step(LEFT)[1:4] for _ in range(500)]
    assert outcomes == [(0.0, False, False)] * 499 + [(0.0, False, True)]


def test_the_goal_reached_with_the_last_step_is_worth_nothing() -> None:
    env = gymnasium.make(NAME)
    env.reset(seed=0)
    for action in [LEFT] * 492 + [UP] * 4 + [RIGHT] * 4:
        _, reward, terminated, _, _ = env.step(action)
    assert terminated
    assert reward == 0.0


def test_a_wall_is_not_entered_and_its_door_is() -> None:
    env = GridWorldEnv(walls=DOOR)
    env.reset(seed=0)
    assert np.array_equal([env.step(RIGHT)[0][0] for _ in range(3)], [1, 1, 1])
    shown = [env.step(action)[0] for action in (UP, UP, RIGHT, RIGHT)]
    assert np.array_equal(shown[-1], [3, 2])


def test_random_actions_come_with_their_probability_each_as_likely() -> None:
    noise = np.random.default_rng(0).random(200_000)
    taken = disturbed(np.full(len(noise), DOWN), noise, 0.6)
    shares = np.bincount(taken, minlength=4) / len(taken)
    assert np.allclose(shares, [0.15, 0.15, 0.55, 0.15], atol=0.004)


@pytest.mark.parametrize("probability", [0.0, 1e-300, 0.3, 1.0])
def test_random_actions_follow_from_one_number(probability: float) -> None:
    noise = np.array([0.0, 0.1, 0.29999999999999993, 0.3, 0.75, np.nextafter(1, 0)])
    expected = [int(4 * u / probability) if u < probability else 2 for u in noise]
    assert disturbed(np.full(6, 2), noise, probability).tolist() == expected


def test_with_probability_one_the_action_does_not_matter() -> None:
    def way(action: int) -> list[list[float]]:
        env = GridWorldEnv(random_action=1.0)
        env.reset(seed=3)
        return [env.step(action)[0].tolist() for _ in range(30)]

    assert way(UP) == way(DOWN)
    assert len({tuple(place) for place in way(UP)}) > 3


def test_random_numbers_are_gymnasiums_of_the_seed() -> None:
    env = GridWorldEnv(random_action=0.5)
    shown, _ = env.reset(seed=3)
    noise, table, cell = np_random(3)[0].random(40), next_cells(env.lanes.walls), 0
    for number in noise:
        cell = table[cell, disturbed(np.array([UP]), np.array([number]), 0.5)[0]]
        shown = env.step(UP)[0]
        assert shown.tolist() == [cell % 5, cell // 5]


def test_it_passes_the_checker_of_gymnasium_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(NAME, random_action=0.5, render_mode="rgb_array").unwrapped)


@pytest.mark.bits
@pytest.mark.parametrize("random_action", [0.0, 0.4])
def test_lanes_equal_single_environments_bit_for_bit(random_action: float) -> None:
    rng = np.random.default_rng(0)

    def first_stays_left(_: GridWorldVectorEnv, __: np.ndarray) -> np.ndarray:
        """So that an episode is cut."""
        return np.append(LEFT, rng.integers(0, 4, 3))

    arguments = {"width": 4, "height": 3, "walls": [(1, 1)], "random_action": random_action}
    ends = play_beside_singles(NAME, arguments, GridWorldVectorEnv, first_stays_left, 700)
    assert ends.sum() > 10
    assert (ends > 0).all() or random_action > 0


def test_collect_takes_the_lanes_and_keeps_coordinates() -> None:
    def right_then_up(observations: np.ndarray) -> np.ndarray:
        return np.where(observations[:, 0] < 4, RIGHT, UP)

    data = pivec.collect(
        NAME, {"right": right_then_up}, episodes=3, env_kwargs={"random_action": 0.2, "walls": []}
    )
    assert data.n_features == 2
    assert (data.states[data.episode_starts[:-1]] == 0).all()
    assert (data.states[data.episode_starts[1:] - 1] == 4).all()
    steps = np.diff(data.episode_starts) - 1
    assert np.array_equal(data.returns, 1 - steps / 500)


def test_the_picture_shows_where_the_agent_is_with_the_goal_at_the_upper_right() -> None:
    env = GridWorldEnv(walls=[(2, 2)], render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    env.step(UP)
    after = env.render()
    assert before is not None
    assert before.shape == after.shape == (240, 240, 3)
    agent, nothing = (0, 114, 178), (255, 255, 255)
    assert tuple(before[216, 24]) == tuple(after[168, 24]) == agent
    assert tuple(after[216, 24]) == nothing
    assert tuple(before[24, 216]) not in (agent, nothing, tuple(before[120, 120]))
    assert GridWorldEnv().render() is None
    envs = GridWorldVectorEnv(2, walls=[(2, 2)], render_mode="rgb_array")
    envs.reset(seed=0)
    assert np.array_equal(envs.render()[1], before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"walls": [(5, 0)]}, r"inside of 5 × 5 cells, .* but one is \(5, 0\)"),
        ({"walls": [(1, 0.5)]}, r"pairs \(column, row\)"),
        ({"walls": [3]}, "but one is 3"),
        ({"walls": [(0, 0)]}, "the start at the lower left .* must be free"),
        ({"walls": [(4, 4)]}, "the goal at the upper right must be free"),
        ({"width": 0}, "width must be a whole number of at least 1, but is 0"),
        ({"height": 2.0}, "height must be a whole number of at least 1, but is 2.0"),
        ({"random_action": 1.5}, "a probability from 0 to 1, but is 1.5"),
    ],
)
def test_mistaken_arguments_are_told(arguments: dict[str, float], message: str) -> None:
    for make in (GridWorldEnv, GridWorldVectorEnv):
        with pytest.raises(UsageError, match=message):
            make(**arguments)
