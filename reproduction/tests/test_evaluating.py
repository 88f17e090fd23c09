"""What metrics and components share: sets of policies, units, rows and averages."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.statistics import Evaluation, Row
from reproduction.evaluations import (
    averages,
    evaluated,
    mean_returns,
    policy_sets,
    unit_rows,
)
from reproduction.pipeline import Collection, Pipeline, Training
from reproduction.published import toml
from reproduction.recipes import Calculation, components, metrics
from reproduction.recipes.cost import shipped_policies

pytest.importorskip("Box2D")  # here, where warnings are no errors: they would crash it

NAN = float("nan")


@pytest.fixture
def pipeline(tmp_path):
    return Pipeline(tmp_path, "smoke")


def test_each_set_is_one_run_of_the_training_that_other_recipes_share(pipeline):
    counts = metrics.Counts(sets=3, policies=5, episodes=6)
    sets = policy_sets(pipeline, counts, "CartPole-v1")
    assert [one.runs for one in sets] == [(0,), (1,), (2,)]
    assert len({one.key for one in sets}) == 3
    assert {one.trainings[0].key for one in sets} == {
        pipeline.training("CartPole-v1", "ppo", 5).key
    }


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_metrics_and_components_need_the_same_runs_and_sets(tmp_path, scale):
    pipeline = Pipeline(tmp_path, scale)
    found = [
        [
            need
            for need in one.RECIPE.needs(pipeline, one.RECIPE.counts[scale])
            if isinstance(need, Training | Collection)
        ]
        for one in (metrics, components)
    ]
    assert found[0] == found[1]
    assert len(found[0]) == sum(1 + need.runs for need in found[0] if isinstance(need, Training))


def test_the_plan_counts_every_trajectory_of_every_characterization(tmp_path):
    pipeline, counts = Pipeline(tmp_path, "paper"), metrics.RECIPE.counts["paper"]
    work = [need for need in metrics.needs(pipeline, counts) if isinstance(need, Calculation)]
    assert len(work) == 7 * 5  # characterizations and environments
    trajectories = 3 * 100 * 3 * (100 + 50 + 25 + 10)
    lengths = toml("lengths")["CartPole-v1"]["ppo"]["steps"], 200
    assert {need.amount for need in work if "CartPole" in need.what or "Pendulum" in need.what} == {
        trajectories * (length + 1) / 1e6 for length in lengths
    }


def test_the_supervectors_of_metrics_are_a_row_of_components(pipeline, monkeypatch):
    """The same unit, so that it is computed once."""
    counts = {"environments": ("CartPole-v1",), "sets": 1, "policies": 3, "episodes": 4,
              "sizes": (2,), "repetitions": 2}  # fmt: skip
    monkeypatch.setattr(Pipeline, "train", lambda *_: None)
    monkeypatch.setattr(Pipeline, "policies", lambda *_: shipped_policies(3))
    for module, own in (
        (
            metrics,
            {"methods": ("supervector",), "parameters": {"supervector": {"n_components": 4}}},
        ),
        (components, {"components": (1, 4)}),
    ):
        chosen = module.Counts(**counts, **own)
        found = evaluated(pipeline, chosen, module.methods_of(chosen))
        assert found.computed == (4 if module is metrics else 2)  # there with both fits
    assert len(list((pipeline.cache / "evaluation" / "units").iterdir())) == 6
    [returns] = mean_returns(pipeline, chosen)["CartPole-v1"]
    assert len(returns) == 3


def some_rows():
    return Evaluation(
        (
            Row("Walk-v0", "gaussian", "Walk-v0 0", 10, 1, 0.5, NAN, 0.25),
            Row("Walk-v0", "gaussian", "Walk-v0 0", 10, 2, 0.7, 30.0, 0.25),
            Row("Walk-v0", "gaussian", "Walk-v0 1", 10, 1, 0.9, NAN, 0.75),
            Row("Walk-v0", "gaussian", "Walk-v0 1", 10, 2, 0.9, 10.0, 0.75),
        )
    )


def test_rows_have_the_number_of_the_set_and_none_where_nothing_is_known():
    rows = unit_rows(some_rows())
    assert [row["set"] for row in rows] == [0, 0, 1, 1]
    assert [row["error_percent"] for row in rows] == [None, 30.0, None, 10.0]


def test_averages_are_over_sets_and_draws():
    [row] = averages(some_rows())
    assert row["correlation"] == pytest.approx(0.75)
    assert row["correlation_std"] == pytest.approx(np.std([0.5, 0.7, 0.9, 0.9]))
    assert row["error_percent"] == pytest.approx(20.0)
    assert (row["variance"], row["variance_std"]) == (0.5, 0.25)  # one a set


def test_one_value_has_no_deviation():
    [row] = averages(Evaluation(some_rows().rows[:1]))
    assert row["correlation_std"] is None
    assert row["error_percent"] is None
