"""Classes of policies that behave alike."""

from __future__ import annotations

import numpy as np
import pytest

import pivec
from pivec.statistics import MARGIN, behaviour_classes


def planted(rng, n, kinds, error=0.004):
    """Give distances of policies whose behaviour is one of some kinds, with a symmetric error."""
    kind = np.arange(n) % kinds
    noise = error * np.triu(rng.normal(size=(n, n)), 1)
    return np.abs(kind[:, None] - kind) * 0.05 + noise + noise.T


def slow_classes(d, margin):
    """Join the two sets of the smallest mean distance until none is within the margin."""
    sets = [[i] for i in range(len(d))]
    while len(sets) > 1:
        means = {
            (a, b): d[np.ix_(sets[a], sets[b])].mean() for b in range(len(sets)) for a in range(b)
        }
        (a, b), least = min(means.items(), key=lambda item: item[1])
        if least > margin:
            break
        sets[a] += sets.pop(b)
    return {frozenset(rows) for rows in sets}


@pytest.mark.parametrize("error", [0.004, 0.03])
def test_classes_are_the_average_linkage_cut_at_the_margin(rng, error):
    d = planted(rng, 24, 4, error)  # some below 0
    found = behaviour_classes(d, [f"p{i}" for i in range(24)])
    numbers = np.array(found.numbers)
    sets = {frozenset(np.flatnonzero(numbers == k).tolist()) for k in range(1, len(found) + 1)}
    assert sets == slow_classes(d, MARGIN)


def test_planted_classes_are_found_with_any_number_of_episodes(rng):
    """Six ways to walk in a plane, three policies each; 100 episodes of 20 steps, then 200."""

    def walk(kind):
        angle = 2 * np.pi * (kind // 2) / 3
        place = 0.8 * np.array([np.cos(angle), np.sin(angle)])
        return place + (0.5 + 0.5 * (kind % 2)) * rng.normal(size=(20, 2))

    counts = {}
    for episodes in (100, 200):
        walks = [[walk(i % 6) for _ in range(episodes)] for i in range(18)]
        data = pivec.VisitedStates.from_arrays(walks)
        method = pivec.characterization("visitation", n_components=12).fit(data)
        found = behaviour_classes(method.intervals(data).distance, data.labels)
        counts[episodes] = len(found)
        assert all(len(set(found.numbers[kind::6])) == 1 for kind in range(6))
    assert counts == {100: 6, 200: 6}


def test_more_precise_distances_do_not_give_more_classes():
    labels = [f"p{i}" for i in range(48)]
    for error in (0.006, 0.003, 0.0005):
        rng = np.random.default_rng(0)
        counts = [len(behaviour_classes(planted(rng, 48, 6, error), labels)) for _ in range(20)]
        assert counts == [6] * 20


def test_classes_do_not_depend_on_the_order(rng):
    d = planted(rng, 25, 4, 0.03)
    labels = [f"run-{i}" for i in range(25)]
    first = behaviour_classes(d, labels)
    order = rng.permutation(25)
    again = behaviour_classes(d[np.ix_(order, order)], [labels[i] for i in order])
    assert again.numbers == tuple(first.numbers[i] for i in order)
    assert [order[m] for m in again.medoids] == list(first.medoids)


def test_larger_classes_come_first_and_have_a_middle():
    x = np.array([0.0, 9.0, 9.1, 9.3, 5.0, 5.2])
    d = (x[:, None] - x) ** 2
    found = behaviour_classes(d, ["c", "x", "y", "z", "b-10", "b-9"], margin=1.0)
    assert found.numbers == (3, 1, 1, 1, 2, 2)
    assert found.medoids == (2, 5, 0)  # of the pair the one that comes first by name: b-9


def test_policies_of_unknown_distance_have_no_class():
    d = np.array([[0.0, 0.01, np.nan], [0.01, 0.0, np.nan], [np.nan, np.nan, 0.0]])
    found = behaviour_classes(d, ["a", "b", "c"])
    assert found.numbers == (1, 1, None)
    assert (len(found), found.n_policies) == (1, 2)


@pytest.mark.parametrize("n", [1, 2])
def test_few_policies(n):
    found = behaviour_classes(np.zeros((n, n)), ["a", "b"][:n])
    assert found.numbers == (1,) * n
