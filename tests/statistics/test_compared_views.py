"""Views of two policies against slow formulas, and their joint test."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.states import VisitedStates
from pivec.statistics import (
    chi2_bound,
    episode_view,
    feature_views,
    joint_test,
    kinds_view,
    pair_views,
    pooled_influences,
    share_view,
    view_intervals,
)


def walks(rng, episodes=30, correlation=0.0, scale=1.0, features=3):
    mix = np.eye(features)
    mix[1, :2] = correlation, np.sqrt(1 - correlation**2)
    lengths = rng.integers(40, 60, episodes)
    return VisitedStates.from_arrays(
        [[scale * rng.normal(size=(n, features)) @ mix.T for n in lengths]]
    )


def test_shares_of_a_feature_are_those_of_a_histogram(rng):
    a, b = walks(rng), walks(rng, scale=2.0)
    view = feature_views(a, b, "xyz", ("m", "", ""))[1]
    # Both policies have equal shares in the quantiles.
    n = max(a.n_states, b.n_states)
    both = np.concatenate([np.resize(a.states[:, 1], n), np.resize(b.states[:, 1], n)])
    edges = np.quantile(both, (0.02, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 0.98))
    for data, rows in zip((a, b), view.episodes, strict=True):
        for episode, found in zip(data.episodes(), rows, strict=True):
            counts, _ = np.histogram(episode[:, 1], [-np.inf, *edges, np.inf])
            assert found == pytest.approx(counts / len(episode), abs=1.01 / len(episode))
    p, q = (rows.mean(axis=0) for rows in view.episodes)
    pooled = 0.01 * (p + q) / 2
    roots = [np.sqrt((s + pooled) / 1.01) for s in (p, q)]
    sure = view_intervals(view, 0.9)
    squared = 0.5 * ((roots[0] - roots[1]) ** 2).sum()
    assert sure.distance + sure.noise == pytest.approx(squared)


def test_pairs_are_shares_of_nine_bins_of_two_features(rng):
    a, b = walks(rng), walks(rng, correlation=0.7)
    views = pair_views(a, b, "xyz")
    assert [view.name for view in views] == ["x & y", "x & z", "y & z"]
    both = np.concatenate(
        [np.resize(side.states, (max(a.n_states, b.n_states), 3)) for side in (a, b)]
    )
    edges = np.concatenate(
        [[[-np.inf] * 3], np.quantile(both, (1 / 3, 2 / 3), axis=0), [[np.inf] * 3]]
    )
    for data, rows in zip((a, b), views[1].episodes, strict=True):
        for episode, found in zip(data.episodes(), rows, strict=True):
            counts, _, _ = np.histogram2d(episode[:, 0], episode[:, 2], [edges[:, 0], edges[:, 2]])
            assert found.sum() == pytest.approx(1)
            assert found == pytest.approx(counts.ravel() / len(episode), abs=2.01 / len(episode))
    sure = [view_intervals(view, 0.9) for view in views]
    assert sure[0].low > 0.02
    assert sure[1].low == sure[2].low == 0.0
    assert sure[0].distance == pytest.approx(0.055, abs=0.015)  # of normal distributions
    single = [view_intervals(view, 0.9) for view in feature_views(a, b, "xyz", ("",) * 3)]
    assert all(one.high < 0.02 for one in single)


@pytest.mark.parametrize("bins", [2, 3, 8])
@pytest.mark.parametrize("shift", [0.0, 0.2, 0.5])
def test_bounds_of_shares_of_episodes_cover_as_often_as_they_say(bins, shift, rng):
    p = np.full(bins, 1 / bins)
    q = (1 - shift) * p + shift * np.eye(bins)[0]
    true, missed = 0.5 * ((np.sqrt(p) - np.sqrt(q)) ** 2).sum(), []
    for _ in range(400):
        sides = [np.eye(bins)[rng.choice(bins, 100, p=s)] for s in (p, q)]
        missed.append(view_intervals(share_view("", *sides, by_episode=True), 0.9).high < true)
    # Distances within the noise are never excluded.
    assert (0.02 if shift == 0.5 else 0.0) <= np.mean(missed) <= 0.09


@pytest.mark.parametrize("decay", [1.0, 0.5])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("size", [0.0, 0.02, 0.2])
def test_chi2_bounds_cover_as_often_as_they_say(decay, axis, size, rng):
    """Points with normal noise that falls along the axes; the difference is along one of them."""
    deviations = 0.05 * decay ** np.arange(6.0)
    difference = np.sqrt(size) * np.eye(6)[axis]
    second, missed = 2 * (deviations**4).sum(), []
    for points in difference + rng.normal(size=(1000, 6)) * deviations:
        squares = (points**2).sum()
        slope = min(4 * (points**2 * deviations**2).sum() / squares, 4 * np.sqrt(second / 2))
        distance = squares - (deviations**2).sum()
        missed.append(chi2_bound(distance, slope, second, 0.95) < size)
    # Differences along the least noisy axis are known better than the bound knows.
    assert (0.02 if size == 0.2 and axis == 0 else 0.0) <= np.mean(missed) <= 0.075


def test_chi2_bounds_against_simulated_quantiles(rng):
    second, slope = 2 * 5 * 0.01**2, 4 * 0.01  # five directions of variance 0.01
    high = chi2_bound(0.03, slope, second, 0.95)
    points = rng.normal(size=(200_000, 5)) * 0.1 + np.sqrt(high) * np.eye(5)[0]
    assert np.mean((points**2).sum(1) - 0.05 < 0.03) == pytest.approx(0.05, abs=0.003)


def test_chi2_bounds_at_the_ends():
    assert np.isnan(chi2_bound(0.5, 1.0, np.nan, 0.95))
    assert chi2_bound(0.0, 0.0, 0.0, 0.95) == 0.0
    exact, normal = (chi2_bound(0.5, 4 * c, 2 * c**2, 0.95) for c in (0.5 / 990, 0.5 / 1010))
    assert exact == pytest.approx(normal, rel=0.01)


def test_rare_kinds_of_episodes_and_lengths_are_seen(rng):
    lengths = rng.integers(100, 200, (2, 100)).astype(float)
    assert view_intervals(episode_view("length", *lengths), 0.9).low == 0
    assert view_intervals(episode_view("length", lengths[0], lengths[1] + 40), 0.9).low > 0.03
    a, b = rng.normal(size=(2, 100, 2))
    b[:30] += 20
    sure = view_intervals(kinds_view(a, b), 0.9)
    assert sure.low > 0.05
    assert sure.distance == pytest.approx(1 - np.sqrt(0.7), abs=0.1)


def test_the_joint_test_keeps_its_level_and_finds_one_view_of_many(rng):
    def p_value(shift):
        views = [rng.normal(size=(40, n)) for n in (1, 2, 5, 30, 30)]
        views[0][:20] += shift
        return joint_test(views, 20, 99, 0)

    assert np.mean([p_value(0.0) <= 0.05 for _ in range(100)]) < 0.1
    assert np.mean([p_value(2.0) <= 0.05 for _ in range(20)]) > 0.9
    same = np.zeros((40, 3))
    assert joint_test([same], 20, 99, 0) == 1.0


def test_influences_are_those_of_leaving_out(rng):
    view = feature_views(walks(rng, 6), walks(rng, 5), "xyz", ("m", "", ""))[0]
    rows = np.concatenate(view.episodes)
    left_out = np.array([np.delete(rows, e, axis=0).mean(axis=0) for e in range(len(rows))])
    points = view.points(left_out)
    assert pooled_influences(view) == pytest.approx(10 * (points.mean(axis=0) - points))
