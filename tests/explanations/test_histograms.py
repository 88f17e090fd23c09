"""Histograms of features: shares of time, every episode counting the same, in bins for all."""

from __future__ import annotations

import numpy as np
import pytest

import pivec
import pivec.explanations.differences as module
from pivec.explanations import Feature, feature_histograms

FEATURES = (Feature("height", "m"), Feature("touch", absent="no touch"), Feature("gear"))


@pytest.fixture
def data(rng):
    """Give five policies with episodes of different lengths; the features differ in kind."""

    def episode(place):
        n = int(rng.integers(5, 200))
        height = rng.normal(place, 1.0, n).astype(np.float32)
        height[rng.random(n) < 0.01] = 1000.0  # beyond all bins
        return np.stack([height, rng.random(n) < place / 5, rng.integers(1, 5, n)], axis=1)

    return pivec.VisitedStates.from_arrays(
        [[episode(place) for _ in range(int(rng.integers(1, 12)))] for place in range(5)]
    )


def counted(episodes, j, edges, by_state):
    """Count by np.histogram in double precision; the end bins are open, and bins end in edges."""
    ends = np.concatenate([[-np.inf], edges[1:-1], [np.inf]])

    def shares(episode):
        # Its bins begin with their edges, so all signs are turned.
        own = np.clip(-episode[:, j].astype(np.float64), -1e300, 1e300)
        turned = np.clip(-ends[::-1], -1e300, 1e300)
        return np.histogram(own, turned)[0][::-1] / len(episode)

    rows = [np.concatenate(episodes)] if by_state else episodes
    return np.mean([shares(row) for row in rows], axis=0)


@pytest.mark.parametrize("by_state", [False, True])
@pytest.mark.parametrize("block", [1 << 18, 64])
def test_shares_are_those_of_a_histogram_in_double_precision(data, by_state, block, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", block)
    found = feature_histograms(data, FEATURES, range(3), by_state)
    assert found.features == FEATURES
    assert [len(edges) for edges in found.edges] == [25, 3, 5]
    for j, (edges, shares) in enumerate(zip(found.edges, found.shares, strict=True)):
        for p in range(len(data)):
            slow = counted(list(data[p].episodes()), j, edges, by_state)
            assert shares[p] == pytest.approx(slow, abs=1e-12)
        assert shares.sum(axis=1) == pytest.approx(np.ones(5))
    assert found.edges[0][-1] < 20  # outliers are in the last bin
    assert found.edges[2].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5]


def test_values_at_edges_are_in_the_bin_below():
    """Edges are not numbers of float32, states are."""
    values = np.repeat(np.float32([0.1, 0.2, 0.3]), 40)[:, None]
    data = pivec.VisitedStates.from_arrays([[values]])
    for cut, below in ((0.1, 0), (float(np.float32(0.1)), 40), (0.2, 40), (0.3, 80), (0.31, 120)):
        [shares] = module.times_between(data, [np.array([cut])], False)
        assert np.count_nonzero(values.astype(float) <= cut) == below
        assert shares[0, 0] == pytest.approx(below / 120)


def test_other_orders_of_policies_give_the_same(data):
    order = [3, 0, 4, 2, 1]
    there = feature_histograms(data, FEATURES, range(3), False)
    other = feature_histograms(data.select(order), FEATURES, range(3), False)
    for j in range(3):
        assert np.array_equal(other.edges[j], there.edges[j])
        assert np.array_equal(other.shares[j], there.shares[j][order])


def test_of_many_features_those_are_shown_whose_means_differ(rng):
    wide = rng.normal(size=(6, 4, 50, 40))
    wide[:, :, :, 30:] += np.arange(6)[:, None, None, None]
    data = pivec.VisitedStates.from_arrays(wide)
    features = [Feature(f"x{j}") for j in range(40)]
    found = feature_histograms(data, features, range(40), False)
    names = [feature.name for feature in found.features]
    assert len(names) == 12
    assert {f"x{j}" for j in range(30, 40)} <= set(names)
    assert "12 of 40 features" in found.notes[0]
    j = int(names[-1][1:])
    slow = counted(list(data[5].episodes()), j, found.edges[-1], False)
    assert found.shares[-1][5] == pytest.approx(slow)
    # Others that the characterization leaves out are not looked at.
    few = feature_histograms(data, features[30:32], [38, 35], False)
    slow = counted(list(data[5].episodes()), 35, few.edges[1], False)
    assert few.shares[1][5] == pytest.approx(slow)


def test_of_very_many_states_the_first_episodes_are_counted(data, monkeypatch):
    lengths = [list(map(len, data[p].episodes())) for p in range(5)]
    few = sum(length for own in lengths for length in own[:2])
    monkeypatch.setattr(module, "_SPREAD", 3 * few)
    found = feature_histograms(data, FEATURES, range(3), False)
    assert "first 2 of" in found.notes[0]
    slow = counted(list(data[4].episodes())[:2], 0, found.edges[0], False)
    assert found.shares[0][4] == pytest.approx(slow)
    monkeypatch.setattr(module, "_SPREAD", 3)
    assert feature_histograms(data, FEATURES, range(3), False) is None


def test_too_many_shares_are_left_out(data):
    most = 5 * 3 * 24
    assert feature_histograms(data, FEATURES, range(3), False, most)
    assert feature_histograms(data, FEATURES, range(3), False, most - 1) is None


def test_a_feature_that_is_constant_or_nearly_so_has_bins(rng):
    constant = np.full((3000, 1), 7.0)
    nearly = constant.copy()
    nearly[:30, 0] = 7.0 + np.arange(1, 31)
    data = pivec.VisitedStates.from_arrays([[constant], [nearly]])
    alone = feature_histograms(data.select([0]), [Feature("x")], [0], False)
    assert alone.edges[0].tolist() == [6.5, 7.5]
    assert alone.shares[0] == pytest.approx(np.ones((1, 1)))
    both = feature_histograms(data, [Feature("x")], [0], False)
    assert (np.diff(both.edges[0]) > 0).all()
    assert both.shares[0].sum(axis=1) == pytest.approx([1, 1])
