"""Classes of policies that cannot be distinguished."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.statistics import behaviour_classes, benjamini_hochberg


def noisy(rng, n, kinds, error=1.0):
    """Give p-values and distances of policies measured with a normal error."""
    from scipy.stats import norm

    x = np.arange(n) % kinds * 6.0 + error * rng.normal(size=n)
    z = np.abs(x[:, None] - x) / (np.sqrt(2) * error)
    return 2 * norm.sf(z), (x[:, None] - x) ** 2


def test_no_two_of_a_class_are_told_apart(rng):
    p, d = noisy(rng, 40, 7, error=3.0)
    found = behaviour_classes(p, d, [f"p{i}" for i in range(40)])
    i, j = np.triu_indices(40, 1)
    apart = benjamini_hochberg(p[i, j]) <= 0.05
    numbers = np.array(found.numbers)
    assert apart.any()
    assert not (apart & (numbers[i] == numbers[j])).any()
    # Nor could two classes be one.
    for a in range(1, len(found) + 1):
        for b in range(1, a):
            both = ((numbers[i] == a) & (numbers[j] == b)) | ((numbers[i] == b) & (numbers[j] == a))
            assert (apart & both).any()


def test_clear_behaviours_are_recovered(rng):
    p, d = noisy(rng, 30, 5, error=0.5)
    found = behaviour_classes(p, d, [f"p{i}" for i in range(30)], rate=1e-4)
    assert len(found) == 5
    assert {len(set(found.numbers[k::5])) for k in range(5)} == {1}
    assert found.n_policies == 30


def test_classes_do_not_depend_on_the_order(rng):
    p, d = noisy(rng, 25, 4, error=2.5)
    labels = [f"run-{i}" for i in range(25)]
    first = behaviour_classes(p, d, labels)
    order = rng.permutation(25)
    again = behaviour_classes(
        p[np.ix_(order, order)], d[np.ix_(order, order)], [labels[i] for i in order]
    )
    assert again.numbers == tuple(first.numbers[i] for i in order)
    assert [order[m] for m in again.medoids] == list(first.medoids)


def test_larger_classes_come_first_and_have_a_middle():
    x = np.array([0.0, 9.0, 9.1, 9.3, 5.0, 5.2])
    d = (x[:, None] - x) ** 2
    p = np.where(d < 1, 0.5, 1e-6)
    found = behaviour_classes(p, d, ["c", "x", "y", "z", "b-10", "b-9"])
    assert found.numbers == (3, 1, 1, 1, 2, 2)
    assert found.medoids == (2, 5, 0)  # of the pair the one that comes first by name: b-9


def test_policies_without_a_test_have_no_class():
    p = np.array([[1.0, 0.8, np.nan], [0.8, 1.0, np.nan], [np.nan, np.nan, 1.0]])
    found = behaviour_classes(p, 1 - np.nan_to_num(p), ["a", "b", "c"])
    assert found.numbers == (1, 1, None)
    assert (len(found), found.n_policies) == (1, 2)


@pytest.mark.parametrize("n", [1, 2])
def test_few_policies(n):
    found = behaviour_classes(np.ones((n, n)), np.zeros((n, n)), ["a", "b"][:n])
    assert found.numbers == (1,) * n
