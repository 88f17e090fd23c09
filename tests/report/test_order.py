"""Orders for heatmaps: permutations that put alike beside alike."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pivec.errors import BadData
from pivec.report import layout as order_module
from pivec.report.layout import group_order, leaf_order


def distances_on_a_line(places):
    return np.abs(np.subtract.outer(places, places)).astype(float)


def test_points_on_a_line_come_in_their_order():
    places = np.random.default_rng(0).permutation(40) ** 1.5
    order = leaf_order(distances_on_a_line(places))
    line = places[order]
    assert np.array_equal(np.sort(line), line) or np.array_equal(np.sort(line)[::-1], line)


def test_order_is_a_permutation_and_repeats():
    x = np.random.default_rng(1).normal(size=(60, 3))
    d = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
    first = leaf_order(d)
    assert np.array_equal(np.sort(first), np.arange(60))
    assert np.array_equal(first, leaf_order(d))
    assert first[0] < first[-1]


def test_optimal_order_is_not_longer_than_the_plain_one(monkeypatch):
    x = np.random.default_rng(2).normal(size=(30, 3))
    d = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
    best = leaf_order(d)
    monkeypatch.setattr(order_module, "OPTIMAL_ROWS", 0)
    plain = leaf_order(d)
    assert sum(d[a, b] for a, b in itertools.pairwise(best)) < sum(
        d[a, b] for a, b in itertools.pairwise(plain)
    )


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows(n):
    assert np.array_equal(np.sort(leaf_order(np.ones((n, n)) - np.eye(n))), np.arange(n))


def test_nan_is_refused():
    with pytest.raises(BadData, match="finite"):
        leaf_order([[0, np.nan], [np.nan, 0]])


def test_groups_by_number_then_step_then_the_lone():
    groups = ["run10", "run9", "", "run9", "run9", "Run"]
    steps = [5, None, 3, 20, 10, 1]
    assert group_order(groups, steps).tolist() == [5, 4, 3, 1, 0, 2]


def test_equal_steps_stay_as_given():
    assert group_order(["a"] * 3, [1, 1, 0]).tolist() == [2, 0, 1]


def test_odd_digits_do_not_break_the_order():
    assert sorted(group_order(["a²", "a٣", "a3", "3a"], [None] * 4).tolist()) == [0, 1, 2, 3]
