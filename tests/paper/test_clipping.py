"""The clip ratio: what is trained, what is measured of a run, and what is found."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.paper.clipping.page import findings, table
from pivec.paper.clipping.recipe import RECIPE, curves, run_of, space, summary, trainings
from pivec.paper.described import Described, successive_distances
from pivec.paper.published import published, scaled_return
from pivec.paper.rows import pearson
from pivec.paper.workshop import Workshop


@pytest.fixture
def shop(tmp_path):
    return Workshop(tmp_path, "paper")


def test_both_clips_are_the_ratio_and_do_not_decay(shop):
    ours = {one.name: one for one in trainings(shop, RECIPE.counts["paper"], "CartPole-v1")}
    usual = shop.training("CartPole-v1", "ppo", 5)
    assert ours["a2c"].key == shop.training("CartPole-v1", "a2c", 5).key
    for name, ratio in (("clip 0.5", 0.5), ("clip 0.2", 0.2)):
        settings = ours[name].settings
        assert settings["clip_range"] == settings["clip_range_vf"] == ratio
        assert settings["decay"] == ["learning_rate"]
        assert ours[name].checkpoints == 50
        others = {key for key in settings if settings[key] != usual.settings[key]}
        assert others <= {"clip_range", "clip_range_vf", "decay"}
    assert len({one.key for one in ours.values()} | {usual.key}) == 13


@pytest.mark.parametrize(
    "name", ["BipedalWalker-v3", "LunarLander-v3", "Acrobot-v1", "Pendulum-v1"]
)
def test_elsewhere_0_2_is_what_other_recipes_train(shop, name):
    ours = {one.name: one for one in trainings(shop, RECIPE.counts["paper"], name)}
    assert ours["clip 0.2"].key == shop.training(name, "ppo", 5).key
    assert ours["clip 0.3"].checkpoints == 50


def test_the_paper_has_a_number_for_all_that_is_trained(shop):
    counts = RECIPE.counts["paper"]
    for part in ("distance", "correlation"):
        theirs = published()["clipping"][part]
        assert set(theirs) == set(counts.environments)
        for each in theirs.values():
            assert list(each) == [f"{ratio:g}" for ratio in counts.ratios] + ["a2c"]
    assert set(published()["reward_range"]) == set(counts.environments)


def test_the_background_is_fitted_on_all_policies(shop):
    counts = RECIPE.counts["paper"]
    compared = space(shop, counts, "CartPole-v1")
    assert sum(part.policies * counts.runs for part in compared.background) == 3_000
    assert compared.policies.policies == 50


def test_a_run_is_followed_in_the_order_of_training(rng):
    points = rng.normal(size=(8, 3)).astype(np.float32)
    steps = np.array([30, 0, 10, 20, 5, 6, 7, 8])
    groups = np.array(["a"] * 4 + ["b"] * 4)
    returns = np.arange(8.0)
    found = Described(points, returns, np.array([0.1, 0.1, 0.2, 0.2, 9, 9, 9, 9]), groups, steps)
    run = run_of(found, "a")
    order = [1, 2, 3, 0]
    slow = [((points[i] - points[j]).astype(float) ** 2).sum() for i, j in ((1, 2), (2, 3), (3, 0))]
    np.testing.assert_allclose(run.legs, slow, rtol=1e-6)
    np.testing.assert_array_equal(run.returns, returns[order])
    np.testing.assert_allclose(run.share, [0, 1 / 3, 2 / 3, 1])
    assert run.distance == pytest.approx(sum(slow))
    # The return of a checkpoint goes with the distance to the next.
    assert run.correlation == pytest.approx(np.corrcoef(returns[order][:3], slow)[0, 1])
    beyond = np.array(slow) - [0.15, 0.2, 0.15]
    expected = np.corrcoef(returns[order][:3], beyond)[0, 1]
    assert run.correlation_beyond_chance == pytest.approx(expected)


def test_distances_of_successive_rows(rng):
    points = rng.normal(size=(5, 4))
    slow = [sum((a - b) ** 2 for a, b in zip(points[i], points[i + 1], strict=True))
            for i in range(4)]  # fmt: skip
    np.testing.assert_allclose(successive_distances(points), slow)


def test_correlations_are_those_of_others(rng):
    a, b = rng.normal(size=(2, 30))
    b = b.round(1)
    assert pearson(a, b) == pytest.approx(np.corrcoef(a, b)[0, 1])
    assert np.isnan(pearson(np.ones(3), np.arange(3.0)))


def rows_of(distance, correlation, environment="LunarLander-v3"):
    """Two runs for each setting."""
    return [
        {
            "environment": environment,
            "setting": setting,
            "run": run,
            "distance": distance[setting] + 0.1 * run,
            "correlation": correlation[setting],
            "correlation_beyond_chance": correlation[setting] - 0.1,
            "by_chance": 0.1,
            "first_return": 0.0,
            "last_return": 1.0,
        }
        for setting in distance
        for run in range(2)
    ]


def test_findings_follow_the_numbers():
    distance = {"0.01": 1.0, "0.1": 2.0, "0.2": 3.0, "10": 5.0, "a2c": 9.0}
    correlation = {"0.01": 0.5, "0.1": -0.1, "0.2": -0.2, "10": 0.5, "a2c": 0.5}
    grows, farther, falls = findings(rows_of(distance, correlation))
    assert grows.holds
    assert farther.holds
    assert falls.holds
    assert falls.ours.startswith("-0.20 to -0.10; ")
    assert falls.ours.endswith(" -0.30 to -0.20")
    distance |= {"0.01": 9.0, "10": 0.5, "a2c": 2.0}
    correlation |= {"0.1": 0.01}
    grows, farther, falls = findings(rows_of(distance, correlation))
    assert [grows.holds, farther.holds, falls.holds] == [False, False, False]


def test_findings_are_of_the_environments_that_are_there():
    settings = {"0.1": 1.0, "0.2": 2.0, "a2c": 1.0}
    found = findings(rows_of(settings, settings, "CartPole-v1"))
    assert len(found) == 1
    assert "CartPole" in found[0].claim


def test_the_table_has_ours_and_the_papers():
    settings = {"0.2": 3.0, "a2c": 9.0}
    rows = rows_of(settings, settings)
    [ours, _] = summary(rows)
    assert ours["distance_mean"] == pytest.approx(3.05)
    assert ours["distance_std"] == pytest.approx(0.05)
    text = table(summary(rows))
    assert "| 0.2 | 3.0 ± 0.1 (9.7 ± 1.1) |" in text
    assert "| A2C | 9.00 ± 0.00 (0.40 ± 0.10) |" in text


def test_curves_are_means_over_runs(rng):
    points = rng.normal(size=(6, 2)).astype(np.float32)
    groups = np.array(["a"] * 3 + ["b"] * 3)
    found = Described(points, np.arange(6.0), np.zeros(6), groups, np.array([0, 1, 2] * 2))
    runs = [run_of(found, "a"), run_of(found, "b")]
    [curve] = curves({"CartPole-v1": {"0.2": runs}})
    assert curve["returns"] == [1.5, 2.5, 3.5]
    np.testing.assert_allclose(curve["legs"], (runs[0].legs + runs[1].legs) / 2)


def test_returns_are_scaled_by_the_papers_ranges():
    np.testing.assert_allclose(
        scaled_return("Pendulum-v1", np.array([-1600, -900, -200])), [0, 0.5, 1]
    )
