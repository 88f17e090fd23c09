"""Pairs and travels read off a matrix of distances."""

from __future__ import annotations

import numpy as np

from pivec.distances import farthest_pairs, nearest_pairs, travels


def test_pairs_are_those_of_a_full_sort(rng):
    x = rng.normal(size=(80, 2))
    d = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
    i, j = np.triu_indices(80, 1)
    order = np.argsort(d[i, j], kind="stable")
    for count in (1, 7, 4000):
        expected = [(int(i[o]), int(j[o]), float(d[i[o], j[o]])) for o in order[:count]]
        assert nearest_pairs(d, count) == expected
        far = [(int(i[o]), int(j[o]), float(d[i[o], j[o]])) for o in order[::-1][:count]]
        assert [pair[2] for pair in farthest_pairs(d, count)] == [pair[2] for pair in far]


def test_one_policy_has_no_pairs():
    assert nearest_pairs(np.zeros((1, 1))) == []


def test_travel_follows_the_steps_of_each_run(rng):
    d = rng.uniform(size=(6, 6))
    runs = travels(["a", "b", "a", "a", "b", "c"], [20, 1, 10, None, 2, 5], d)
    assert [run.group for run in runs] == ["a", "b"]
    assert runs[0].rows == (2, 0)
    assert runs[0].steps == (10, 20)
    assert runs[0].total == d[2, 0]
    assert travels(["a", "a"], [1, 2], lambda i, j: 7.0)[0].cumulative.tolist() == [0.0, 7.0]
