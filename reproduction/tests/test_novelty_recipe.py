"""The recipe of novelty search: its statistics and its findings."""

from __future__ import annotations

import numpy as np
import pytest

from reproduction.pipeline import Pipeline
from reproduction.recipes import novelty as recipe
from reproduction.recipes.novelty import EDGE, METHODS, RECIPE, curve, findings, table, trainings
from reproduction.tables import bootstrap_interval
from reproduction.training.novelty import Generation

OUT, IN = [3.9, 3.5, 4.0, 3.8, 0.69], [0.70, 0.69, 0.70, 0.65, 0.70]


def came_out(finals):
    """Findings of runs whose best returns are these, by method."""
    values = {name: np.array(each) for name, each in zip(METHODS, finals, strict=True)}
    rng = np.random.default_rng(0)
    curves = {
        name: curve(np.ones((len(each), 1)), each[:, None], rng) for name, each in values.items()
    }
    return findings(curves, values, values, rng), table(curves, values, values)


def test_the_interval_covers_the_mean_as_often_as_it_says(rng) -> None:
    hits = 0
    for _ in range(50):
        low, high = bootstrap_interval(rng.normal(1.0, 2.0, (30, 4)), rng)
        hits += int(((low <= 1.0) & (high >= 1.0)).sum())
    assert 175 <= hits <= 199


def test_curves_are_means_over_runs(rng) -> None:
    best = np.maximum.accumulate(rng.normal(size=(6, 9)), axis=1)
    made = curve(np.tile(np.arange(9.0), (6, 1)), best, rng)
    np.testing.assert_allclose(made["mean"], best.mean(axis=0))
    assert made["steps"] == list(range(9))
    assert (np.array(made["low"]) <= made["mean"]).all()
    assert (np.array(made["high"]) >= made["mean"]).all()


def test_findings_say_what_came_out() -> None:
    better = [value + 0.01 for value in OUT[::-1]]
    found, lines = came_out([IN, better, OUT, OUT, OUT])
    assert [each.holds for each in found] == [True] * 8
    assert "out in 4 of 5 runs" in found[3].ours
    assert "| 0.70 | 0 of 5 |" in lines.splitlines()[2]
    found, _ = came_out([OUT, OUT, IN, better, IN])
    holds = [each.holds for each in found]
    assert holds == [False, True, True, False, True, False, False, None]
    assert found[-1].why == "worse, but not significantly so"


def test_the_edge_of_the_bar_is_what_no_policy_in_the_pocket_passes() -> None:
    from reproduction.worlds.deceptive_point import START, inside_walls

    heights = START[1] + np.array([EDGE - 1e-6, EDGE + 1e-6])
    assert inside_walls(np.stack([np.zeros(2), heights], axis=1)).tolist() == [False, True]


def test_the_paper_scale_has_the_papers_counts(tmp_path) -> None:
    planned = trainings(Pipeline(tmp_path, "paper"), RECIPE.counts["paper"])
    assert [each.runs for each in planned.values()] == [10] * 5
    for each in planned.values():
        assert each.settings["generations"] == 128
        assert each.settings["batch_episodes"] == 100
        assert each.settings["behaviour_episodes"] == 5
    assert len({each.key for each in planned.values()}) == 5


def test_numbers_are_the_best_of_generations_and_of_policies(tmp_path, monkeypatch) -> None:
    def generations(_):
        return [Generation(i, 10 * i, 0, 0.1 * i, 0.1 * i, 0.0, x) for i, x in enumerate([1, 3, 2])]

    monkeypatch.setattr(Pipeline, "train", lambda *_: None)
    monkeypatch.setattr(recipe, "read_generations", generations)
    monkeypatch.setattr(recipe, "best_ways", lambda *_: [np.zeros((2, 2))])
    numbers = recipe.make(Pipeline(tmp_path, "paper"), recipe.Counts(2)).numbers
    assert [row["method"] for row in numbers["runs"][::2]] == list(METHODS)
    for row in numbers["runs"]:
        assert (row["best_batch_return"], row["best_return"]) == (3.0, pytest.approx(0.2))
        assert (row["out_of_pocket_in_generation"], row["steps"]) == (0, 20)
        assert numbers["curves"][row["method"]]["mean"] == [1, 3, 3]
    assert "| 3.00 | 2 of 2 | 0.20 | 0.20 |" in recipe.judge(numbers, recipe.Counts(2)).tables
