"""Cloning followed epoch by epoch: normalised returns, and what is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reproduction.pipeline import Pipeline
from reproduction.published import toml
from reproduction.recipes import Calculation
from reproduction.recipes.imitation import (
    RECIPE,
    all_notes,
    experts,
    findings,
    normalised_return,
    table,
)
from reproduction.tables import pearson
from reproduction.training.runs import settings_for

pytest.importorskip("Box2D")  # here, where warnings are no errors: they would crash it


def test_experts_are_the_runs_of_other_recipes(tmp_path):
    pipeline = Pipeline(tmp_path, "paper")
    counts = RECIPE.counts["paper"]
    assert (counts.trajectories, counts.epochs, counts.episodes) == (10, 50, 100)
    ours = experts(pipeline, counts, "LunarLander-v3")
    assert ours.key == pipeline.training("LunarLander-v3", "ppo", 1).key
    assert ours.runs == 5
    fewer = replace(counts, expert_steps={"BipedalWalkerHardcore-v3": 3_000_000})
    assert experts(pipeline, fewer, "LunarLander-v3").key == ours.key
    hard = experts(pipeline, fewer, "BipedalWalkerHardcore-v3")
    assert (hard.settings["steps"], hard.checkpoints) == (3_000_000, 1)


def test_experts_of_hardcore_are_trained_for_as_long_as_there_is_time_and_the_page_says_so(
    tmp_path,
):
    counts, place = RECIPE.counts["paper"], "BipedalWalkerHardcore-v3"
    ours = experts(Pipeline(tmp_path, "paper"), counts, place).settings
    assert ours["steps"] == 20_000_000
    assert settings_for("ppo", place) == {**ours, "steps": 100_000_000}
    runs = runs_with([-0.5], environment=place, expert=310.0, expert_steps=ours["steps"])
    assert "for 20,000,000 steps (the paper: 100,000,000)" in all_notes(runs)[-1]


def test_what_is_planned_of_cloning_follows_the_lengths_of_episodes(tmp_path):
    pipeline, counts = Pipeline(tmp_path, "paper"), RECIPE.counts["paper"]
    work = [need for need in RECIPE.needs(pipeline, counts) if isinstance(need, Calculation)]
    hard, lander = work[:3], work[3:]
    assert hard[0].amount == 5 * 50 * 10 * 2000 / 1e3  # not known, so their limit
    length = toml("lengths")["LunarLander-v3"]["ppo"]["steps"]
    assert lander[0].amount == 5 * 50 * 10 * length / 1e3
    assert lander[2].amount == 50 * min(10, 5 * 51 * 100 * (length + 1) / 1e6)


def test_returns_are_divided_by_the_experts(rng):
    returns = rng.normal(size=20)
    np.testing.assert_allclose(normalised_return(returns, 250.0), returns / 250.0)


@pytest.mark.parametrize("expert", [-80.0, -0.5, 0.5, 250.0])
def test_better_is_higher_and_the_expert_is_one_whatever_its_sign(expert, rng):
    returns = np.sort(rng.normal(scale=100, size=20))
    normalised = normalised_return(returns, expert)
    assert (np.diff(normalised) > 0).all()
    assert normalised_return(np.array([expert]), expert) == 1.0
    distance = rng.normal(size=20)
    assert pearson(np.diff(distance), np.diff(normalised)) == pytest.approx(
        pearson(np.diff(distance), np.diff(returns))
    )


def runs_with(correlations, last=0.1, environment="LunarLander-v3", expert=250.0, **more):
    return [
        {
            "environment": environment,
            "run": i,
            "expert_steps": 500_000,
            "expert_return": expert,
            "correlation": value,
            "correlation_of_levels": -0.9,
            "by_chance": 0.01,
            "first_distance": 1.0,
            "last_distance": last,
            "first_return": -100.0,
            "last_return": 200.0,
            "first_steps": 0.5,
            "last_steps": 0.1,
            "correlation_of_steps": -0.4,
            "correlation_by_visitation": -0.2,
            **more,
        }
        for i, value in enumerate(correlations)
    ]


def test_findings_follow_the_numbers():
    changes, nearer, slower = findings(runs_with([-0.5, -0.1]))
    assert changes.holds
    assert changes.ours.startswith("-0.300 ± 0.200")
    assert nearer.holds
    assert slower.holds
    changes, nearer, _ = findings(runs_with([0.5, -0.1], last=2.0))
    assert (changes.holds, nearer.holds) == (False, False)
    assert "-0.465 ± 0.297" in table(runs_with([0.5]))
    one_run = findings(runs_with([0.5]))
    assert {one.place for one in one_run} == {"LunarLander-v3"}
    assert one_run[0].ours == "0.500 over 1 run"  # which has no deviation


@pytest.mark.parametrize(
    ("first", "last", "ranks", "holds"),
    [(0.5, 0.1, -0.4, True), (0.5, 0.1, 0.1, False), (0.1, 0.5, -0.4, False)],
)
def test_steps_slow_down_by_both_criteria(first, last, ranks, holds):
    steps = {"first_steps": first, "last_steps": last, "correlation_of_steps": ranks}
    assert findings(runs_with([-0.5, -0.1], **steps))[-1].holds is holds


def test_both_environments_are_judged_together_and_each():
    hard = runs_with([0.9], environment="BipedalWalkerHardcore-v3", expert=-90.0)
    of = [one for one in findings(runs_with([-0.5, -0.1]) + hard) if "correl" in one.of]
    assert [one.place for one in of] == ["", "LunarLander-v3", "BipedalWalkerHardcore-v3"]
    assert [one.holds for one in of] == [False, True, False]
    assert of[-1].why == "the best expert has a return of -90 after 500,000 steps"


def test_poor_experts_are_said_to_be_poor():
    poor = runs_with([-0.5], environment="BipedalWalkerHardcore-v3", expert=-90.0)
    steps, returns = all_notes(poor)[-2:]
    assert "for 500,000 steps (the paper: 100,000,000). What falls to zero" in steps
    assert "have returns of at most -90" in returns
    assert not any("of a learner" in note for note in all_notes(runs_with([-0.5])))
