"""Figure 1: the scenarios, exact and simulated visits, and the recipe."""

from __future__ import annotations

import csv
import json

import gymnasium
import numpy as np
import pytest

import pivec
from reproduction.recipes.gridworld import (
    LENGTH,
    _tails,
    exact_visits,
    scenarios,
    simulated_visits,
    state_distance,
    transition_matrix,
)
from reproduction.runner import reproduce
from reproduction.worlds.grid_world import MOVES

WORLDS = {world.name: world for world in scenarios()}
POLICIES = [(name, colour) for name in WORLDS for colour in ("blue", "green")]


def walked(world, policy):
    """Cells (column, row) of the deterministic way from the start, in the environment itself."""
    walls = [(int(column), int(row)) for row, column in np.argwhere(world.walls)]
    env = gymnasium.make("pivec/GridWorld-v0", walls=walls)
    shown, _ = env.reset(seed=0)
    way, over = [tuple(shown.astype(int))], False
    while not over:
        column, row = way[-1]
        shown, reward, terminated, truncated, _ = env.step(int(policy[row, column]))
        way.append(tuple(int(x) for x in shown))
        over = terminated or truncated
    return way, float(reward)


def test_distinct_policies_take_the_two_edges():
    world = WORLDS["distinct"]
    blue, reward = walked(world, world.blue)
    assert blue == [(0, row) for row in range(5)] + [(column, 4) for column in range(1, 5)]
    green, same = walked(world, world.green)
    assert green == [(column, row) for row, column in blue]
    assert reward == same == 0.984
    assert not world.walls.any()


def test_the_doorway_is_passed_by_one_policy_and_they_differ_in_the_cell_before_it():
    world = WORLDS["doorway"]
    assert {(c, r) for r, c in np.argwhere(world.walls)} == {(2, row) for row in (0, 1, 3, 4)}
    assert np.argwhere(world.blue != world.green).tolist() == [[2, 1]]
    blue, reward = walked(world, world.blue)
    assert (2, 2) in blue
    assert reward == 0.984
    green, reward = walked(world, world.green)
    assert max(column for column, _ in green) == 1
    assert (len(green), reward) == (501, 0.0)


def test_the_door_is_reached_from_every_cell_before_it():
    world = WORLDS["doorway"]
    matrix = transition_matrix(world.walls, world.blue, 0.0)
    reached = np.linalg.matrix_power(matrix + np.diag([0] * 24 + [1.0]), 30)[:, -1]
    assert (reached[~world.walls.ravel()] == 1).all()


def test_unreachable_policies_differ_only_where_nobody_gets():
    world = WORLDS["unreachable"]
    walls = {(1, 0), (1, 1), (1, 2), (1, 3), (2, 3), (3, 3), (4, 3)}
    assert {(int(c), int(r)) for r, c in np.argwhere(world.walls)} == walls
    differ = world.blue != world.green
    assert differ.sum() == 9
    assert not (differ & world.reachable).any()
    assert not (differ & world.walls).any()
    assert walked(world, world.blue) == walked(world, world.green)


@pytest.mark.parametrize(
    ("name", "expected"), [("distinct", 32), ("doorway", 2), ("unreachable", 18)]
)
def test_the_distance_by_actions_is_the_papers_sum(name, expected):
    world = WORLDS[name]
    total = 0.0
    for row in range(5):
        for column in range(5):
            if world.walls[row, column] or (row, column) == (4, 4):
                continue
            for action in range(4):
                blue, green = world.blue[row, column], world.green[row, column]
                total += abs(float(blue == action) - float(green == action))
    assert world.action_distance == total == expected


def slow_visits(world, policy, probability, timeout):
    """Follow the distribution over cells step by step, from the rules of the world."""
    here, visits, returned = {(0, 0): 1.0}, np.zeros((5, 5)), 0.0
    for step in range(1, timeout + 1):
        after: dict[tuple[int, int], float] = {}
        for (row, column), share in here.items():
            for action, (right, up) in enumerate(MOVES.tolist()):
                p = probability / 4 + (1 - probability) * (policy[row, column] == action)
                y, x = row + up, column + right
                if not (0 <= y < 5 and 0 <= x < 5) or world.walls[y, x]:
                    y, x = row, column
                after[y, x] = after.get((y, x), 0.0) + share * p
        for cell, share in after.items():
            visits[cell] += share
        returned += after.pop((4, 4), 0.0) * (1 - step / timeout)
        here = after
    return visits, returned


@pytest.mark.parametrize(("name", "colour"), POLICIES)
@pytest.mark.parametrize(("probability", "timeout"), [(0.0, 30), (0.35, 30), (1.0, 77)])
def test_exact_visits_are_those_followed_step_by_step(name, colour, probability, timeout):
    world = WORLDS[name]
    policy = getattr(world, colour)
    visits, returned = slow_visits(world, policy, probability, timeout)
    found = exact_visits(world.walls, policy, probability, timeout=timeout)
    assert np.allclose(found.distribution, visits / visits.sum(), rtol=1e-10, atol=1e-13)
    assert np.isclose(found.mean_steps, visits.sum(), rtol=1e-10)
    assert np.isclose(found.mean_return, returned, rtol=1e-9, atol=1e-12)
    visits[0, 0] += 1
    with_start = exact_visits(world.walls, policy, probability, with_start=True, timeout=timeout)
    assert np.allclose(with_start.distribution, visits / visits.sum(), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(("name", "colour"), POLICIES)
@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_simulation_and_linear_algebra_agree_within_sampling_error(name, colour, probability):
    world = WORLDS[name]
    policy = getattr(world, colour)
    rng = np.random.default_rng([1, len(name), int(10 * probability), len(colour)])
    played = simulated_visits(world.walls, policy, probability, rng, 3_000)
    exact = exact_visits(world.walls, policy, probability)
    often = exact.distribution > 1e-3  # rarer cells have errors that are not normal
    z = (played.distribution - exact.distribution)[often] / played.errors[often]
    assert np.abs(z).max() < 4.5
    assert 0.3 < np.sqrt((z**2).mean()) < 2
    assert played.distribution[~often].sum() == pytest.approx(
        exact.distribution[~often].sum(), abs=2e-3
    )
    assert played.distribution[world.walls | ~world.reachable].sum() == 0
    assert played.mean_return == pytest.approx(1 - played.mean_steps / 500)
    assert played.mean_return == pytest.approx(exact.mean_return, abs=0.012)


def test_without_random_actions_both_are_the_same():
    for world in WORLDS.values():
        for policy in (world.blue, world.green):
            exact = exact_visits(world.walls, policy, 0.0)
            played = simulated_visits(world.walls, policy, 0.0, np.random.default_rng(0), 2)
            assert np.allclose(exact.distribution, played.distribution, atol=1e-12)
            assert not played.errors.any()


def test_standard_errors_are_the_scatter_of_repetitions():
    world = WORLDS["distinct"]
    runs = [
        simulated_visits(world.walls, world.blue, 0.5, np.random.default_rng(i), 200)
        for i in range(200)
    ]
    scatter = np.std([run.distribution for run in runs], axis=0)
    claimed = np.sqrt(np.mean([run.errors**2 for run in runs], axis=0))
    often = claimed > 1e-3
    assert often.sum() > 5
    assert np.allclose(claimed[often], scatter[often], rtol=0.2)


def test_collected_states_give_the_same_distance_by_discretization():
    world = WORLDS["doorway"]
    walls = [(int(column), int(row)) for row, column in np.argwhere(world.walls)]

    def policy(table):
        return lambda shown: table[shown[:, 1].astype(int), shown[:, 0].astype(int)]

    data = pivec.collect(
        "pivec/GridWorld-v0",
        {"blue": policy(world.blue), "green": policy(world.green)},
        episodes=2_000,
        env_kwargs={"walls": walls, "random_action": 0.3},
    )
    halved = pivec.characterization("discretization").fit(data).distances(data)[0, 1]
    blue, green = (
        exact_visits(world.walls, table, 0.3, with_start=True).distribution
        for table in (world.blue, world.green)
    )
    assert 2 * halved == pytest.approx(state_distance(blue, green), abs=0.02)


def test_arrows_stay_in_their_cell_and_apart():
    for blue in range(4):
        for green in range(4):
            tails = _tails(blue, green)
            heads = tails + LENGTH * MOVES[[blue, green]]
            assert np.abs(np.concatenate([tails, heads])).max() < 0.45
            assert np.linalg.norm(heads[0] - heads[1]) > 0.3


def test_the_recipe_writes_everything_and_again_the_same(tmp_path):
    first = reproduce("gridworld", "smoke", tmp_path / "a")["gridworld"]
    again = reproduce("gridworld", "smoke", tmp_path / "a")["gridworld"]
    anew = reproduce("gridworld", "smoke", tmp_path / "b")["gridworld"]
    other = reproduce("gridworld", "smoke", tmp_path / "c", seed=1)["gridworld"]
    numbers = [(each / "numbers.json").read_text() for each in (first, again, anew, other)]
    assert numbers[0] == numbers[1] == numbers[2] != numbers[3]
    content = json.loads(numbers[0])
    assert all(finding["holds"] for finding in content["findings"])
    rows = list(csv.DictReader((first / "numbers.csv").read_text().splitlines()))
    assert len(rows) == 9
    unreachable = [row for row in rows if row["scenario"] == "unreachable"]
    assert [float(row["state_distance"]) for row in unreachable] == pytest.approx([0, 0, 0])
    assert float(unreachable[1]["state_distance_simulated"]) > 0
    assert (first / "gridworld.png").stat().st_size < 300_000
    page = (first / "README.md").read_text()
    assert "| unreachable | 0.5 | 18 of 34 | 0.000 of 2 |" in page
