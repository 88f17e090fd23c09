"""Cloning followed epoch by epoch: normalised returns, and what is found."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.paper.imitation.page import all_notes, findings, table
from pivec.paper.imitation.recipe import RECIPE, experts, normalised_return
from pivec.paper.rows import pearson
from pivec.paper.workshop import Workshop


def test_experts_are_the_runs_of_other_recipes(tmp_path):
    shop = Workshop(tmp_path, "paper")
    counts = RECIPE.counts["paper"]
    assert (counts.trajectories, counts.epochs, counts.episodes) == (10, 50, 100)
    ours = experts(shop, counts, "LunarLander-v3")
    assert ours.key == shop.training("LunarLander-v3", "ppo", 1).key
    assert ours.runs == 5


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


def runs_with(correlations, last=0.1, environment="LunarLander-v3", expert=250.0):
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
        }
        for i, value in enumerate(correlations)
    ]


def test_findings_follow_the_numbers():
    changes, nearer = findings(runs_with([-0.5, -0.1]))
    assert changes.holds
    assert changes.ours.startswith("-0.300 ± 0.200")
    assert nearer.holds
    changes, nearer = findings(runs_with([0.5, -0.1], last=2.0))
    assert (changes.holds, nearer.holds) == (False, False)
    assert "-0.465 ± 0.297" in table(runs_with([0.5]))


def test_poor_experts_are_said_to_be_poor():
    poor = runs_with([-0.5], environment="BipedalWalkerHardcore-v3", expert=-90.0)
    expected = "for 500,000 steps (the paper: 100,000,000), have returns of at most -90"
    assert expected in all_notes(poor)[-1]
    assert not any("of a learner" in note for note in all_notes(runs_with([-0.5])))
