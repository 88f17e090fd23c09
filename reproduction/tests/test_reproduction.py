"""Recipes are found, told apart from mistakes, and what they give is written whole."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, replace

import pytest

from pivec.errors import UsageError
from pivec.figures import new_figure
from reproduction.pipeline import SCALES
from reproduction.recipes import NAMES, Account, Finding, Recipe, Result, recipe
from reproduction.runner import chosen_recipes, counts_of, reproduce, write


@dataclass(frozen=True)
class Counts:
    runs: int
    environments: tuple[str, ...]


def made(scale="smoke"):
    counts = {name: Counts(1_000, ("CartPole-v1", "Pendulum-v1")) for name in SCALES}
    return Recipe("made", "Fig. 0: nothing", counts, lambda *_: [], lambda *_: None, tell)


def tell(numbers, counts):
    rows = [{"run": 0, "value": 1.5}, {"run": 1, "value": 2.5}]
    told = [Finding("", "it grows", "3", "2.5", True), Finding("", "it shrinks", "3", "4", False)]
    return Account(rows, "| ours |\n| --- |\n| 1 |", told, ["A note."])


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_has_counts_for_every_scale(name):
    found = recipe(name)
    assert found.name == name
    assert found.shows
    assert set(found.counts) == set(SCALES)


def test_all_is_every_recipe_and_none_is_twice():
    assert [one.name for one in chosen_recipes("all")] == list(NAMES)
    assert [one.name for one in chosen_recipes(["cost", "gridworld", "cost"])] == [
        "cost",
        "gridworld",
    ]


def test_a_mistyped_recipe_is_told_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean gridworld"):
        chosen_recipes("gridwrld")
    with pytest.raises(UsageError, match="at least one recipe"):
        chosen_recipes([])


def test_some_environments_only():
    assert counts_of(made(), "smoke", ["Pendulum-v1"]).environments == ("Pendulum-v1",)
    assert counts_of(made(), "smoke", None).environments == ("CartPole-v1", "Pendulum-v1")
    with pytest.raises(UsageError, match="made has no environment 'Pong'"):
        counts_of(made(), "smoke", ["Pong"])


def test_fewer_runs_than_the_scale_says():
    assert counts_of(made(), "smoke", runs=2).runs == 2
    assert counts_of(recipe("metrics"), "paper", runs=1).sets == 1
    with pytest.raises(UsageError, match="gridworld trains no runs"):
        counts_of(recipe("gridworld"), "smoke", runs=2)
    with pytest.raises(UsageError, match="--runs is 0"):
        counts_of(made(), "smoke", runs=0)


def test_everything_is_written(tmp_path):
    result = Result({"mean": 0.5}, {"picture": new_figure(2, 2)})
    one = made()
    write(one, result, tmp_path / "deep" / "made", "small", one.counts["small"])
    folder = tmp_path / "deep" / "made"
    assert json.loads((folder / "numbers.json").read_text())["mean"] == 0.5
    assert json.loads((folder / "numbers.json").read_text())["findings"][1]["holds"] is False
    with open(folder / "numbers.csv") as file:
        assert [row["value"] for row in csv.DictReader(file)] == ["1.5", "2.5"]
    page = (folder / "README.md").read_text()
    for part in (
        "# made",
        "runs 1,000",
        "![picture](picture.png)",
        "| it grows | 3 | 2.5 | holds |",
        "| it shrinks | 3 | 4 | **does not** |",
        "- A note.",
    ):
        assert part in page
    assert (folder / "picture.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("scale", "tells", "expected"),
    [("smoke", False, None), ("smoke", True, True), ("small", False, True)],
)
def test_what_is_too_small_tells_nothing(tmp_path, monkeypatch, scale, tells, expected):
    one = replace(made(), make=lambda *_: Result({}, {}), judged_at_smoke=tells)
    monkeypatch.setattr("reproduction.runner.chosen_recipes", lambda _: [one])
    folder = reproduce("made", scale, tmp_path)["made"]
    grows, _ = json.loads((folder / "numbers.json").read_text())["findings"]
    assert grows["holds"] is expected
