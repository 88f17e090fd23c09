"""Pairs and travels read off a matrix of distances."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.characterizations import characterization
from pivec.distances import farthest_pairs, measure, nearest_pairs, travels
from pivec.states import VisitedStates


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


@pytest.mark.parametrize("name", ["supervector", "gaussian"])
def test_many_policies_by_rows_agree_with_the_whole_matrix(name, rng, monkeypatch):
    monkeypatch.setattr("pivec.distances.measured._ROWS_BYTES", 8 * 50 * 7)  # seven rows at a time
    places = rng.normal(size=(50, 3))
    data = VisitedStates.from_arrays(
        [[rng.normal(place, 1, (30, 3))] for place in places],
        groups=[f"run-{i % 5}" for i in range(50)],
        steps=list(range(50)),
    )
    method = characterization(name, **({"n_components": 2} if name == "supervector" else {}))
    described = method.fit(data).describe(data)
    all_of_it = measure(method, described, k=4)
    by_rows = measure(method, described, k=4, whole=10)
    assert by_rows.matrix is None
    assert np.array_equal(all_of_it.neighbours, by_rows.neighbours)
    assert np.allclose(all_of_it.neighbour_distances, by_rows.neighbour_distances)
    for which in ("nearest", "farthest"):
        pairs, same = getattr(all_of_it, which), getattr(by_rows, which)
        assert [pair[:2] for pair in pairs] == [pair[:2] for pair in same]
    for run, again in zip(all_of_it.travels, by_rows.travels, strict=True):
        assert run.group == again.group
        assert np.allclose(run.legs, again.legs)
    own = np.argsort(all_of_it.matrix + np.diag([np.inf] * 50), axis=1)[:, :4]
    assert np.array_equal(own, all_of_it.neighbours)


def test_one_policy_is_measured(walks):
    method = characterization("gaussian").fit(walks)
    measured = measure(method, method.describe(walks[0]))
    assert measured.neighbours.shape == (1, 0)
    assert measured.nearest == []
