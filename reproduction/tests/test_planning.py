"""The plan: every stage once, what is there already is not counted, amounts are the recipe's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from reproduction import planning
from reproduction.__main__ import print_plan
from reproduction.pipeline import Collection, Pipeline
from reproduction.planning import Step
from reproduction.published import toml
from reproduction.recipes import NAMES, Calculation, Recipe, components, metrics, recipe
from reproduction.training.runs import settings_for

pytest.importorskip("stable_baselines3")
pytest.importorskip("Box2D")  # here, where warnings are no errors: they would crash it


@dataclass(frozen=True)
class Counts:
    runs: int


def needs(pipeline, counts):
    ppo = pipeline.training("CartPole-v1", "ppo", counts.runs)
    neat = pipeline.training("CartPole-v1", "neat", 1)
    return [ppo, neat, Collection((ppo, neat), 4, 5), Calculation("sums", 10, 0.5)]


@pytest.fixture
def _recipes(monkeypatch):
    both = [
        Recipe(name, "", dict.fromkeys(("smoke", "small", "paper"), Counts(1)), needs, None, None)
        for name in ("one", "two")
    ]
    monkeypatch.setattr("reproduction.runner.chosen_recipes", lambda names: both)


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
    # 5 policies of PPO, 5 of NEAT's 6; 4 episodes of 392 and 319 states of 4 numbers of 4 bytes.
    assert steps[2].bytes == (5 * 4 * 392 + 5 * 4 * 319) * 4 * 4
    pipeline = Pipeline(tmp_path / "cache", "smoke")
    collection = needs(pipeline, Counts(1))[2]
    pipeline.collect(collection)
    later = planning.plan("one", "smoke", tmp_path)
    assert [step.done for step in later[:3]] == [True] * 3
    assert sum(step.bytes for step in later) == 0


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_has_a_plan_at_the_paper_scale(tmp_path, name):
    own = getattr(recipe(name).counts["paper"], "environments", ())
    few = ["CartPole-v1"] if "CartPole-v1" in own else None
    steps = planning.plan(name, "paper", tmp_path, environments=few)
    assert steps
    assert all(step.seconds > 0 for step in steps)


@pytest.mark.parametrize("environment", sorted(toml("lengths")))
def test_lengths_are_of_runs_there_are_and_within_their_limits(environment):
    longest = planning.longest_episode(environment)
    for algorithm, lasts in toml("lengths")[environment].items():
        settings = settings_for(algorithm, environment)
        assert 0 < lasts["steps"] <= longest
        assert set(lasts) <= {"steps", "generations"}
        if "generations" in lasts:
            assert 0 < lasts["generations"] <= settings["generations"]


def training(runs, environment="CartPole-v1", algorithm="ppo"):
    pipeline = Pipeline(Path("unused"), "paper", backend="gymnasium")
    return pipeline.training(environment, algorithm, runs)


def test_expected_are_the_lengths_of_the_table_and_limits_where_it_has_none():
    known = toml("lengths")["CartPole-v1"]
    assert planning.expected_length(training(1)) == known["ppo"]["steps"]
    assert planning.expected_length(training(1, "Pendulum-v1")) == 200
    search = training(1, "CartPole-v1", "cmaes")
    ends = known["cmaes"]["generations"]
    assert planning.expected_generations(search) == ends < search.settings["generations"]
    few = replace(search, settings={**search.settings, "generations": 3})
    assert planning.expected_generations(few) == 3
    neat = training(1, "CartPole-v1", "neat")
    assert planning.expected_generations(neat) == neat.settings["generations"]


def test_states_are_those_of_episodes_that_end_and_searches_that_stop():
    known = toml("lengths")["CartPole-v1"]
    learner, search = training(2), training(1, "CartPole-v1", "cmaes")
    kept = min(300, -(-known["cmaes"]["generations"] // 10) * 32)
    assert planning.n_policies(search) == -(-known["cmaes"]["generations"] // 10) * 32
    assert planning.n_states(Collection((learner, search), 10, 300)) == pytest.approx(
        2 * 300 * 10 * (known["ppo"]["steps"] + 1) + kept * 10 * (known["cmaes"]["steps"] + 1)
    )


def planned(monkeypatch, tmp_path, *needs_of_recipes, scale="smoke"):
    """Plan recipes with these needs."""
    counts = dict.fromkeys(("smoke", "small", "paper"), Counts(1))
    recipes = [
        Recipe(f"{i}", "", counts, lambda _shop, _counts, own=own: list(own), None, None)
        for i, own in enumerate(needs_of_recipes)
    ]
    monkeypatch.setattr("reproduction.runner.chosen_recipes", lambda _: recipes)
    return planning.plan("all", scale, tmp_path)


def test_a_recipe_that_needs_more_runs_than_one_before_trains_the_others(monkeypatch, tmp_path):
    few, more = training(3), training(5)
    assert few.key == more.key
    steps = planned(monkeypatch, tmp_path, [few], [more], [few])
    assert [(step.recipe, step.amount) for step in steps] == [
        ("0", "3 runs, 300,000 steps"),
        ("1", "2 more runs, 200,000 steps"),
    ]
    speed = toml("speeds")["training"]["ppo"]["CartPole-v1"]
    assert [step.seconds for step in steps] == [300_000 / speed, 200_000 / speed]


def test_runs_that_are_finished_are_not_counted_again(monkeypatch, tmp_path):
    monkeypatch.setattr(Pipeline, "is_trained", lambda _, training: training.runs <= 2)
    steps = planned(monkeypatch, tmp_path, [training(2)], [training(5)])
    assert [(step.done, step.amount) for step in steps] == [
        (True, "2 runs, 200,000 steps"),
        (False, "3 more runs, 300,000 steps"),
    ]


def test_work_with_a_key_is_planned_once(monkeypatch, tmp_path):
    work = Calculation("sums", 10, 0.5, key="a")
    other, plain = replace(work, what="other sums", key="b"), Calculation("sums", 10, 0.5)
    steps = planned(monkeypatch, tmp_path, [work, plain], [work, other, plain])
    assert [(step.recipe, step.what) for step in steps] == [
        ("0", "sums"),
        ("0", "sums"),
        ("1", "other sums"),
        ("1", "sums"),
    ]
    assert [step.seconds for step in steps] == [5.0] * 4


def test_supervectors_of_metrics_are_not_counted_again_for_components():
    pipeline = Pipeline(Path("unused"), "paper", backend="gymnasium")
    keys = [
        {
            need.key
            for need in module.needs(pipeline, module.RECIPE.counts["paper"])
            if isinstance(need, Calculation)
        }
        for module in (metrics, components)
    ]
    assert len(keys[0] & keys[1]) == 5  # the paper's fit of 64 components, in each environment


def test_populations_do_not_play_beyond_their_own_limit(monkeypatch, tmp_path):
    search = training(1, "CartPole-v1", "neat")
    few = replace(search, settings={**search.settings, "max_steps": 100})
    [step] = planned(monkeypatch, tmp_path, [few])
    assert step.seconds == pytest.approx(
        planning.playing_seconds("CartPole-v1", 256 * 128 * 2, 100)
    )


def test_the_plan_is_printed_with_totals(capsys):
    steps = [
        Step("one", "train", "3 runs", False, 7200.0, 10**9),
        Step("one", "collect", "5 policies"),
        Step("two", "sums", "10", False, 60.0),
    ]
    print_plan(steps, 2)
    text = " ".join(capsys.readouterr().out.split())
    assert "train 3 runs 2.0 h 1.0 GB" in text
    assert "collect 5 policies done" in text
    assert "one 1.0 h 1.0 GB two 30.0 s" in text
    assert "2.0 h of one core" in text
