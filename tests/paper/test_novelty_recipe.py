"""The recipe of novelty search: its statistics, its findings, and the whole at smoke scale."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from pivec.paper.novelty.page import EDGE, findings, table
from pivec.paper.novelty.recipe import METHODS, RECIPE, curve, trainings
from pivec.paper.reproduction import reproduce
from pivec.paper.rows import bootstrap_interval
from pivec.paper.workshop import Workshop

OUT, IN = [3.9, 3.5, 4.0, 3.8, 0.69], [0.70, 0.69, 0.70, 0.65, 0.70]


def came_out(finals):
    """Findings of runs whose best returns are these, by method."""
    values = {name: np.array(each) for name, each in zip(METHODS, finals, strict=True)}
    rng = np.random.default_rng(0)
    curves = {
        name: curve(np.ones((len(each), 1)), each[:, None], rng) for name, each in values.items()
    }
    return findings(curves, values, rng), table(curves, values)


def test_the_interval_covers_the_mean_as_often_as_it_says(rng) -> None:
    hits = 0
    for _ in range(200):
        low, high = bootstrap_interval(rng.normal(1.0, 2.0, (30, 1)), rng)
        hits += low[0] <= 1.0 <= high[0]
    assert 175 <= hits <= 199


def test_curves_are_means_over_runs(rng) -> None:
    best = np.maximum.accumulate(rng.normal(size=(6, 9)), axis=1)
    made = curve(np.tile(np.arange(9.0), (6, 1)), best, rng)
    np.testing.assert_allclose(made["mean"], best.mean(axis=0))
    assert made["steps"] == list(range(9))
    assert (np.array(made["low"]) <= made["mean"]).all()
    assert (np.array(made["high"]) >= made["mean"]).all()


def test_findings_say_what_came_out() -> None:
    found, lines = came_out([IN, OUT, OUT, OUT])
    assert [each.holds for each in found] == [True] * 6
    assert "out in 4 of 5 runs" in found[1].ours
    assert lines.splitlines()[2].endswith("| 0.70 | 0 of 5 |")
    found, _ = came_out([OUT, OUT, IN, OUT])
    assert [each.holds for each in found] == [False, True, False, True, False, True]


def test_the_edge_of_the_bar_is_what_no_policy_in_the_pocket_passes() -> None:
    from pivec.paper.novelty.world import START, inside_walls

    heights = START[1] + np.array([EDGE - 1e-6, EDGE + 1e-6])
    assert inside_walls(np.stack([np.zeros(2), heights], axis=1)).tolist() == [False, True]


def test_the_paper_scale_has_the_papers_counts(tmp_path) -> None:
    planned = trainings(Workshop(tmp_path, "paper"), RECIPE.counts["paper"])
    assert [each.runs for each in planned.values()] == [10] * 4
    for each in planned.values():
        assert each.settings["generations"] == 128
        assert each.settings["batch_episodes"] == 100
        assert each.settings["behaviour_episodes"] == 5
    assert len({each.key for each in planned.values()}) == 4


def test_the_whole_recipe_at_smoke_scale(tmp_path) -> None:
    folder = reproduce("novelty", "smoke", tmp_path, jobs=2)["novelty"]
    numbers = json.loads((folder / "numbers.json").read_text())
    assert set(numbers["curves"]) == set(METHODS)
    assert all(each["holds"] is None for each in numbers["findings"])
    with open(folder / "numbers.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == list(METHODS)
    for row in rows:
        assert float(row["best_return"]) == pytest.approx(
            numbers["curves"][row["method"]]["mean"][-1]
        )
    assert (folder / "novelty.png").stat().st_size > 10_000
    before = (folder / "numbers.json").read_text()
    reproduce("novelty", "smoke", tmp_path)
    assert (folder / "numbers.json").read_text() == before
