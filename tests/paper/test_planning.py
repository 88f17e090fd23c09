"""The plan: every stage once, what is there already is not counted, amounts are the recipe's."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pivec.paper import planning
from pivec.paper.recipes import NAMES, Calculation, Recipe, recipe
from pivec.paper.workshop import Collection, Workshop

pytest.importorskip("stable_baselines3")
pytest.importorskip("Box2D")  # here, where warnings are no errors: they would crash it


@dataclass(frozen=True)
class Counts:
    runs: int


def needs(shop, counts):
    ppo = shop.training("CartPole-v1", "ppo", counts.runs)
    neat = shop.training("CartPole-v1", "neat", 1)
    return [ppo, neat, Collection((ppo, neat), 4, 5), Calculation("sums", 10, lambda: 0.5)]


@pytest.fixture
def _recipes(monkeypatch):
    both = [
        Recipe(name, "", dict.fromkeys(("smoke", "small", "paper"), Counts(1)), needs, None, None)
        for name in ("one", "two")
    ]
    monkeypatch.setattr(planning, "chosen_recipes", lambda names: both)


@pytest.mark.usefixtures("_recipes")
def test_stages_are_planned_once_and_not_when_they_are_there(tmp_path):
    steps = planning.plan(["one", "two"], "smoke", tmp_path)
    assert [(step.recipe, step.what) for step in steps] == [
        ("one", "train ppo in CartPole-v1"),
        ("one", "train neat in CartPole-v1"),
        ("one", "collect ppo, neat in CartPole-v1"),
        ("one", "sums"),
        ("two", "sums"),
    ]
    assert not any(step.done for step in steps)
    assert all(step.seconds > 0 for step in steps)
    assert steps[3].seconds == 5.0
    # 5 policies of PPO, 5 of NEAT's 6; 4 episodes of at most 501 states of 4 numbers of 4 bytes.
    assert steps[2].bytes == 10 * 4 * 501 * 4 * 4
    shop = Workshop(tmp_path / "cache", "smoke")
    collection = needs(shop, Counts(1))[2]
    shop.collect(collection)
    later = planning.plan("one", "smoke", tmp_path)
    assert [step.done for step in later[:3]] == [True] * 3
    assert sum(step.bytes for step in later) == 0


LONG = ("evolution", "clipping", "imitation", "cost", "metrics", "components")


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[pytest.mark.slow] * (each in LONG)) for each in NAMES],
)
def test_every_recipe_has_a_plan_at_the_paper_scale(tmp_path, name):
    own = getattr(recipe(name).counts["paper"], "environments", ())
    few = ["CartPole-v1"] if "CartPole-v1" in own else None
    steps = planning.plan(name, "paper", tmp_path, environments=few)
    assert steps
    assert all(step.seconds > 0 for step in steps)
