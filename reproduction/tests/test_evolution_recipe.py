"""Maps of training: areas, spreads and steps of runs, and what is found."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from pivec.figures import MAX_PNG_BYTES, to_png
from reproduction.pipeline import Pipeline
from reproduction.recipes.evolution import (
    ENVIRONMENTS,
    RECIPE,
    Map,
    all_notes,
    covered,
    evolution_figure,
    findings,
    map_cells,
    mean_distance,
    mean_step,
    measured,
    space,
    table,
)
from reproduction.supervectors import Described


def test_runs_of_reinforcement_learning_are_shared_and_populations_have_one(tmp_path):
    pipeline = Pipeline(tmp_path, "paper")
    compared = space(pipeline, RECIPE.counts["paper"], "CartPole-v1")
    trainings = compared.policies.trainings
    assert [(training.name, training.runs) for training in trainings] == [
        ("ppo", 5), ("a2c", 5), ("neat", 1), ("cmaes", 1),
    ]  # fmt: skip
    assert trainings[0].key == pipeline.training("CartPole-v1", "ppo", 1).key
    # At most 100 policies of an algorithm.
    assert [part.policies for part in compared.background] == [20, 20, 100, 100]


def test_cells_are_square_and_cover_the_longer_side(rng):
    positions = rng.uniform(size=(500, 2)) * [8.0, 3.0]
    cells = map_cells(positions, 4)
    assert cells.max() < 16
    low = positions.min(axis=0)
    side = np.ptp(positions[:, 0]) / 4
    slow = [min(int((x - low[0]) / side), 3) * 4 + min(int((y - low[1]) / side), 3)
            for x, y in positions]  # fmt: skip
    np.testing.assert_array_equal(cells, slow)
    assert map_cells(np.zeros((3, 2)), 4).tolist() == [0, 0, 0]


def test_covered_cells_of_draws_have_their_expected_number(rng):
    cells = np.array([0] * 6 + [1] * 3 + [2])
    # A cell is missed by a draw of 4 if all 4 are among the others.
    slow = [len({cells[i] for i in some}) for some in combinations(range(10), 4)]
    assert covered(cells, 4, 4000, rng) == pytest.approx(np.mean(slow), abs=0.05)
    assert covered(cells, 10, 3, rng) == 3


def test_mean_distance_is_that_of_all_pairs(rng):
    points = rng.normal(size=(12, 5)).astype(np.float32)
    slow = np.mean([((a - b).astype(float) ** 2).sum() for a, b in combinations(points, 2)])
    assert mean_distance(points) == pytest.approx(slow, rel=1e-5)
    assert mean_distance(points[:1]) == 0.0


def test_steps_of_a_population_are_those_of_its_means_without_noise(rng):
    points = rng.normal(size=(6, 2))
    chance = np.arange(6.0)
    path = [points[1:3].mean(0), points[3], points[[0, 4, 5]].mean(0)]
    noise = [1.5 / 2, 3.0, 3.0 / 3]
    slow = np.mean(
        [((path[i + 1] - path[i]) ** 2).sum() - (noise[i] + noise[i + 1]) / 2 for i in range(2)]
    )
    assert mean_step(points, chance, np.array([20, 0, 0, 10, 20, 20])) == pytest.approx(slow)


def test_spread_and_step_of_a_policy_that_does_not_change_are_nothing():
    """Samples of one policy, with the noise that its chance distance tells."""
    rng = np.random.default_rng(1)
    n, noise = 400, 0.3
    points = rng.normal(scale=noise, size=(n, 8)).astype(np.float32)
    chance = np.full(n, 2 * 8 * noise**2)
    groups = np.array([f"{name}-0" for name in ("ppo", "a2c", "neat", "cmaes")]).repeat(n // 4)
    order = np.tile(np.arange(n // 4), 4)
    order[groups == "neat-0"] //= 10
    policies = Described(points, np.zeros(n), chance, groups, order, points, chance / 2)
    drawn = Map(policies, points[:, :2].astype(float))
    for row in measured("CartPole-v1", drawn, np.ones(n, bool), 0):
        assert abs(row["spread"]) < 0.1 * chance[0]
        assert abs(row["step"]) < 0.1 * chance[0]


@pytest.fixture
def found(rng):
    """Narrow runs that move along a line, and wide clouds."""
    parts = {
        "ppo-0": (0.05, 20), "ppo-1": (0.05, 20), "a2c-0": (0.05, 30), "a2c-1": (0.05, 30),
        "neat-0": (2.0, 40), "cmaes-0": (2.0, 25),
    }  # fmt: skip
    points, groups, steps = [], [], []
    for i, (group, (width, n)) in enumerate(parts.items()):
        line = np.zeros((n, 2))
        line[:, 0] = i + 0.01 * np.arange(n)
        points.append(line + width * rng.normal(size=(n, 2)))
        groups += [group] * n
        steps += (
            list(range(n)) if group[:3] in ("ppo", "a2c") else [10 * (k // 5) for k in range(n)]
        )
    x = np.concatenate(points)
    returns, chance = rng.uniform(0, 500, len(x)), np.full(len(x), 0.001)
    single = x.astype(np.float32)
    of_runs = np.array(groups), np.array(steps)
    return Map(Described(single, returns, chance, *of_runs, single, chance / 2), x)


def test_wide_clouds_cover_more_at_equal_numbers(found):
    rows = measured_with_ends(found)
    by = {f"{row['algorithm']}-{row['run']}": row for row in rows}
    assert {row["compared_policies"] for row in rows} == {20}
    for population in ("neat-0", "cmaes-0"):
        for run in ("ppo-0", "ppo-1", "a2c-0", "a2c-1"):
            assert by[population]["area"] > 2 * by[run]["area"]
            assert by[population]["spread"] > 10 * by[run]["spread"]
    assert by["ppo-0"]["area"] <= 20
    assert by["ppo-0"]["area_of_algorithm"] == by["ppo-1"]["area_of_algorithm"]
    assert rows == measured_with_ends(found)
    assert [*held(rows)[:3], *held(rows)[4:]] == [True, True, True, True, None]
    assert "| CartPole |" in table(rows)
    assert "CartPole PPO 20 of 20 and A2C 30 of 30" in all_notes(rows)[1]


def measured_with_ends(drawn, new=None, **end):
    """Rows of a search of CMA-ES that stopped, or as ``end`` tells."""
    new = np.ones(len(drawn.positions), bool) if new is None else new
    rows = measured("CartPole-v1", drawn, new, 0)
    stopped = {"generations": 5, "all_generations": 9, "end": "CMA-ES stopped by itself", **end}
    return [{**row, **stopped} for row in rows]


def held(rows):
    """NEAT and CMA-ES wide, both apart, worms, stops, count."""
    return [one.holds for one in findings(rows)]


def test_a_network_that_is_kept_twice_counts_once(found):
    new = np.ones(len(found.positions), bool)
    rows = found.policies.rows("ppo-0")
    new[rows[5:]] = False
    one, *_ = measured("CartPole-v1", found, new, 0)
    assert (one["policies"], one["distinct"], one["compared_policies"]) == (20, 5, 5)
    points = found.policies.points[rows[:5]]
    assert one["spread"] == pytest.approx(mean_distance(points) - 0.001)


def test_each_population_is_judged_by_itself(found):
    rows = measured_with_ends(found)
    for row in rows:
        row["area"] = {"ppo": 5.0, "a2c": 9.0, "neat": 9.5, "cmaes": 8.0}[row["algorithm"]]
    assert held(rows)[:2] == [True, False]
    assert "its best return is" in findings(rows)[1].why


@pytest.mark.parametrize(
    ("end", "holds"), [({}, True), ({"generations": 9}, False), ({"generations": None}, None)]
)
def test_an_early_end_is_told_from_the_last_generation(found, end, holds):
    assert findings(measured_with_ends(found, **end))[-2].holds is holds


def test_policies_are_counted_where_all_environments_are(found):
    rows = measured_with_ends(found)
    many = [
        {**row, "environment": place, "policies": 1000, "run": 4 * row["run"]}
        for place in ENVIRONMENTS
        for row in rows
    ]
    assert findings(many)[-1].holds is True
    assert findings(many[:-6])[-1].holds is None


def test_results_of_earlier_versions_can_be_told(found):
    new = ("distinct", "generations", "all_generations", "end")
    rows = [
        {key: value for key, value in row.items() if key not in new}
        for row in measured_with_ends(found)
    ]
    assert [*held(rows)[:3], *held(rows)[4:]] == [True, True, True, None, None]
    assert "| – |" in table(rows)
    assert sum("earlier version" in note for note in all_notes(rows)) == 1


def test_findings_say_no_when_runs_cover_more(found):
    rows = measured_with_ends(found)
    for row in rows:
        wide = row["algorithm"] in ("ppo", "a2c")
        row["area"], row["spread"] = (9.0, 9.0) if wide else (1.0, 1.0)
    assert held(rows)[:3] == [False, False, False]


def test_a_picture_of_thousands_of_policies_is_small(rng):
    n = 4000
    groups = np.array([f"{name}-0" for name in ("ppo", "a2c", "neat", "cmaes")]).repeat(n // 4)
    x, returns = rng.normal(size=(n, 2)), rng.uniform(0, 500, n)
    drawn = Map(Described(x, returns, np.zeros(n), groups, np.arange(n), x, np.zeros(n)), x)
    assert len(to_png(evolution_figure({"CartPole-v1": drawn}))) <= MAX_PNG_BYTES
