"""Views of two policies against slow formulas, and their joint test."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.states import VisitedStates
from pivec.statistics import (
    covariance_view,
    episode_view,
    feature_views,
    joint_test,
    kinds_view,
    pooled_influences,
    share_bound,
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


def test_the_distance_of_covariances_is_that_of_normal_distributions(rng):
    a, b = walks(rng, 400), walks(rng, 400, correlation=0.4)
    view = covariance_view(a, b, "xyz")
    assert "x and y" in view.words
    sure = view_intervals(view, 0.95)
    one, other = np.eye(2), np.array([[1, 0.4], [0.4, 1]])
    middle = np.linalg.det((one + other) / 2)
    hellinger = 1 - (np.linalg.det(one) * np.linalg.det(other)) ** 0.25 / np.sqrt(middle)
    assert sure.low < hellinger < sure.high
    assert sure.distance == pytest.approx(hellinger, rel=0.15)
    # The distributions of single features do not matter.
    bent = VisitedStates.from_arrays([[np.exp(episode) for episode in b.episodes()]])
    warped = VisitedStates.from_arrays([[np.exp(episode) for episode in a.episodes()]])
    assert view_intervals(covariance_view(warped, bent, "xyz"), 0.95).distance == pytest.approx(
        sure.distance, rel=0.02
    )


def test_features_that_follow_from_others_are_no_direction_of_their_own(rng):
    a, b = walks(rng), walks(rng, correlation=0.5)
    double = [
        VisitedStates.from_arrays([[np.hstack([e, e[:, :1], 0 * e[:, :1]]) for e in x.episodes()]])
        for x in (a, b)
    ]
    once, twice = (
        view_intervals(covariance_view(*pair, "xyzuv"), 0.9) for pair in ((a, b), double)
    )
    assert twice.distance == pytest.approx(once.distance, rel=0.05, abs=1e-3)


@pytest.mark.parametrize("bins", [2, 3, 8])
@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_the_bound_of_shares_covers_as_often_as_it_says(bins, shift, rng):
    p = np.full(bins, 1 / bins)
    q = (1 - shift) * p + shift * np.eye(bins)[0]
    true, m, missed = 0.5 * ((np.sqrt(p) - np.sqrt(q)) ** 2).sum(), 100, []
    for _ in range(300):
        shares = [rng.multinomial(m, s) / m for s in (p, q)]
        distance = 0.5 * ((np.sqrt(shares[0]) - np.sqrt(shares[1])) ** 2).sum()
        noise = (bins - 1) / (4 * m)
        missed.append(share_bound(distance - noise, noise, bins, 0.95) < true)
    assert (0.02 if shift else 0.0) <= np.mean(missed) <= 0.09


def test_bounds_of_shares_at_the_ends():
    assert np.isnan(share_bound(0.5, np.nan, 3, 0.95))
    assert share_bound(0.0, 0.0, 1, 0.95) == 0.0
    exact, normal = (share_bound(0.5, 0.5 / far, 2, 0.95) for far in (999, 1001))
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
