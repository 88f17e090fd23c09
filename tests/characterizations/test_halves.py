"""Noise of supervectors, from halves of the episodes, against slow, obvious formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pivec.characterizations import (
    Space,
    Supervector,
    Visitation,
    measure,
    unbiased_points,
    without_noise,
)
from pivec.parallel import using
from pivec.states import VisitedStates


def walks(rng, place, n):
    """Short episodes that visit some regions seldom, as `n` lists of states."""
    return [
        rng.normal(place + 2 * (rng.random() < 0.2), 0.5, (int(rng.integers(2, 9)), 2))
        for _ in range(n)
    ]


@pytest.fixture(scope="module")
def method():
    rng = np.random.default_rng(0)
    return Supervector(n_components=6).fit(
        VisitedStates.from_arrays([walks(rng, place, 60) for place in (0, 0.5, 1)])
    )


@pytest.fixture(scope="module")
def data():
    """Halves of 3 and of 6 episodes, three or two times, are as many as all of them."""
    rng = np.random.default_rng(1)
    policies = [walks(rng, place, n) for place, n in ((0, 6), (0.5, 3), (0, 6), (1, 3), (0, 2))]
    return VisitedStates.from_arrays(
        policies, labels=list("abcde"), groups=["run"] * 5, steps=range(5)
    )


def halves(method, data, policy):
    """Points of both halves of each division, from repeated episodes."""
    episodes = [e.states for e in data.records[policy].as_episodes()]
    m, half = len(episodes), len(episodes) // 2
    sides = np.arange(m) // half
    rng = np.random.default_rng(m)
    divisions = rng.permuted(np.tile(sides, (20, 1)), axis=1)

    def points(own):
        return method.describe(VisitedStates.from_arrays([own * (m // half)])).points[0]

    return np.array(
        [
            [
                points([e for e, of in zip(episodes, row, strict=True) if of == side])
                for row in divisions
            ]
            for side in (0, 1)
        ]
    )


def test_distances_are_means_of_products_of_halves(method, data):
    sure = method.intervals(data)
    parts = [halves(method, data, p) for p in range(len(data))]
    for p in range(len(data)):
        for q in range(len(data)):
            if p != q:
                products = []
                for first, second in zip(*parts[p], strict=True):
                    for a, b in zip(*parts[q], strict=True):  # which half is the first is arbitrary
                        products += [(first - a) @ (second - b), (first - b) @ (second - a)]
                assert sure.distance[p, q] == pytest.approx(np.mean(products), rel=1e-4, abs=1e-7)


def test_everything_uses_the_same_noise(method, data):
    described = method.describe(data, influences=True)
    d = method.intervals(data).distance
    measured = measure(method, described)
    [run] = measured.travels
    points, noise = unbiased_points(described)
    slow = ((points[:, None] - points) ** 2).sum(axis=2) - noise - noise[:, None]
    i, j = np.triu_indices(len(d), 1)
    known = method.pair_intervals(described, i, j, method.distances(described)[i, j])
    for found in (
        known.distance,
        measured.intervals.distance[i, j],
        without_noise(method, described, method.distances(described))[i, j],
        slow[i, j],
    ):
        np.testing.assert_allclose(found, d[i, j], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(run.legs, np.diag(d, 1), rtol=1e-6, atol=1e-9)
    known_all = method.intervals(described)
    for name in ("low", "high", "p_value", "noise"):
        np.testing.assert_allclose(
            getattr(known, name), getattr(known_all, name)[i, j], rtol=1e-4, atol=1e-9
        )


@pytest.mark.parametrize("episodes", [2, 5, 10, 25, 100])
def test_equal_policies_are_zero_apart_on_average(method, episodes):
    rng = np.random.default_rng(episodes)
    n = 200
    described = method.describe(
        VisitedStates.from_arrays([walks(rng, 0.5, episodes) for _ in range(2 * n)]),
        influences=True,
    )
    i, j = np.arange(n), np.arange(n, 2 * n)
    raw = ((described.points[i] - described.points[j]) ** 2).sum(axis=1)
    sure = method.pair_intervals(described, i, j, raw)
    error = sure.distance.std() / np.sqrt(n)
    assert abs(sure.distance.mean()) < 2 * error
    if episodes >= 10:
        assert 0.01 < (sure.p_value <= 0.05).mean() < 0.1


def test_leaving_out_episodes_is_wrong_for_short_ones(method):
    """The reason for halves: the first-order estimate of what sampling adds is off by more."""
    rng = np.random.default_rng(0)
    data = VisitedStates.from_arrays([walks(rng, 0.5, 5) for _ in range(3000)])
    described = method.describe(data, influences=True)
    ratios = []
    for source in (described, replace(described, arrays=without_halves(described))):
        points, noise = unbiased_points(source)
        ratios.append(noise.mean() / points.var(axis=0, ddof=1).sum())
    halved, left_out = np.abs(np.array(ratios) - 1)
    assert halved < 0.03 < 0.06 < left_out


def without_halves(described):
    return {name: a for name, a in described.arrays.items() if not name.startswith("half")}


def test_policies_described_without_halves_are_compared_by_influences(method, data):
    """As those of spaces of earlier versions; also if only one side has halves."""
    described = method.describe(data, influences=True)
    earlier = replace(described, arrays=without_halves(described))
    expected = method.intervals(earlier).distance[:2, 2:]
    mixed = method.intervals(earlier.select([0, 1]), described.select([2, 3, 4])).distance
    np.testing.assert_allclose(mixed, expected, rtol=1e-6, atol=1e-9)
    assert not np.allclose(method.intervals(described).distance[:2, 2:], expected, rtol=0.01)


def test_halves_depend_on_nothing_but_the_policy(method, data):
    described = method.describe(data, influences=True)
    order = [3, 0, 4, 2, 1]
    turned = method.describe(data.select(order), influences=True)
    alone = method.describe(data[2], influences=True)
    with using("processes", 2):
        elsewhere = method.describe(data, influences=True)
    for name in ("half_offsets", "half_noise"):
        own = described.arrays[name]
        np.testing.assert_array_equal(turned.arrays[name], own[order])
        np.testing.assert_array_equal(alone.arrays[name][0], own[2])
        np.testing.assert_array_equal(elsewhere.arrays[name], own)


def test_the_noise_of_one_episode_is_unknown_and_is_saved(method, data, tmp_path):
    rng = np.random.default_rng(2)
    described = method.describe(
        VisitedStates.from_arrays([walks(rng, 0, 4), walks(rng, 0, 1)]), influences=True
    )
    assert np.isnan(described.arrays["half_noise"]).tolist() == [False, True]
    Space(method, described).save(tmp_path)
    loaded = Space.load(tmp_path).descriptions
    for name in ("half_offsets", "half_noise"):
        np.testing.assert_array_equal(loaded.arrays[name], described.arrays[name])


def test_equal_episodes_have_no_noise(method):
    data = VisitedStates.from_arrays([[np.full((5, 2), place)] * 7 for place in (0.0, 1.0)])
    described = method.describe(data, influences=True)
    np.testing.assert_allclose(described.arrays["half_noise"], 0, atol=1e-25)
    np.testing.assert_allclose(described.arrays["half_offsets"], 0, atol=1e-12)


def test_only_supervectors_have_halves(data):
    described = Visitation(n_components=4).fit(data).describe(data, influences=True)
    assert "half_noise" not in described.arrays
