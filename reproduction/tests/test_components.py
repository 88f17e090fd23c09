"""The heatmaps over components: their grids, and what is said of them."""

from __future__ import annotations

import numpy as np
import pytest

from reproduction.recipes.components import (
    RECIPE,
    components_figure,
    findings,
    grid,
    methods_of,
    overall_ranks,
    steadiest,
    tables,
)


def averages(variances, environment="Walk-v0", sizes=(100, 10)):
    return [
        {
            "environment": environment,
            "components": k,
            "trajectories": size,
            "correlation": 0.5,
            "error_percent": 200 * variance,
            "variance": variance * 100 / size,
        }
        for k, variance in variances.items()
        for size in sizes
    ]


def test_a_grid_has_components_up_and_trajectories_down_times_a_hundred():
    components, sizes, values = grid(averages({4: 0.02, 1: 0.01}), "Walk-v0", "variance")
    assert (components, sizes) == ([1, 4], [100, 10])
    np.testing.assert_allclose(values, [[1, 10], [2, 20]])
    percent = grid(averages({1: 0.01}), "Walk-v0", "error_percent")[2]
    np.testing.assert_allclose(percent, [[2, 2]])  # a percentage is times a hundred already


def test_the_steadiest_is_lowest_on_average():
    summary = averages({1: 0.03, 4: 0.01, 64: 0.02})
    assert steadiest(summary, "Walk-v0", "variance") == 4
    for row in summary:
        row["variance"] = None
    assert steadiest(summary, "Walk-v0", "variance") is None


def test_ranks_are_averaged_over_all_cells():
    summary = averages({1: 0.03, 4: 0.01, 64: 0.02}) + averages({1: 0.02, 4: 0.01, 64: 0.03}, "B")
    assert overall_ranks(summary) == {1: 2.5, 4: 1.0, 64: 2.5}


def test_findings_follow_the_numbers():
    few, by_error, most = findings(averages({1: 0.01, 8: 0.02, 64: 0.03}))
    assert few.holds is True
    assert (few.of, few.ours) == ("components-few", "Walk 1")
    assert most.holds is False
    assert most.claim.startswith("64 components")
    few, by_error, most = findings(averages({1: 0.03, 8: 0.02, 64: 0.01}))
    assert (few.holds, by_error.holds, most.holds) == (False, False, True)


def test_few_components_are_stablest_by_variance_not_by_error():
    summary = averages({1: 0.03, 8: 0.02, 64: 0.01})
    for row in summary:
        row["error_percent"] = row["components"]
    few, by_error, _ = findings(summary)
    assert (few.of, few.holds) == ("components-few", False)
    assert (by_error.of, by_error.holds) == ("", True)


def test_the_tables_name_what_is_better():
    text = tables(averages({1: 0.01}))
    assert "**Walk-v0: Distance variance** times a hundred, lower is better" in text
    assert "| 1 | 1.0 | 10.0 |" in text


def test_the_figure_has_a_heatmap_for_each_metric_and_environment():
    summary = averages({1: 0.01, 2: 0.5}) + averages({1: 0.3, 2: 0.2}, "Fly-v0")
    summary[0]["variance"] = None  # a hole is left empty
    figure = components_figure(summary, sets=3, repetitions=3)
    assert len(figure.axes) == 6
    texts = [[text.get_text() for text in axes.texts] for axes in figure.axes]
    assert texts[0] == ["50"] * 4
    assert len(texts[4]) == 3


def test_the_papers_sweep():
    assert RECIPE.counts["paper"].components == (1, 2, 4, 8, 16, 32, 64)
    papers_fit = {"init": "kmeans", "warm_start": False, "n_init": 1, "tol": 1e-3, "max_iter": 100,
                  "max_states": 10_000_000, "sampling": "uniform"}  # fmt: skip
    chosen = methods_of(RECIPE.counts["paper"])["64"]
    assert chosen == ("supervector", {"n_components": 64, **papers_fit})


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_draws_are_smaller_than_what_is_collected(scale):
    assert max(RECIPE.counts[scale].sizes) < RECIPE.counts[scale].episodes
