"""q-values of many tests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import false_discovery_control

from pivec.statistics import benjamini_hochberg


@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_q_values_are_those_of_benjamini_and_hochberg(n):
    p = np.random.default_rng(n).uniform(size=n) ** 3
    p[: n // 3] = p[n // 3 : 2 * (n // 3)]  # with ties
    expected = false_discovery_control(p) if n else p
    np.testing.assert_allclose(benjamini_hochberg(p), expected, rtol=1e-12)


def test_their_meaning_is_the_step_up_rule():
    """The k smallest are rejected for the largest k with p_(k) ≤ 0.05 k / m."""
    p = np.random.default_rng(0).uniform(size=200) ** 4
    ranked = np.sort(p)
    k = max(i for i in range(201) if i == 0 or ranked[i - 1] <= 0.05 * i / 200)
    assert (benjamini_hochberg(p) <= 0.05).sum() == k > 0


def test_tests_without_an_answer_do_not_count():
    p = np.array([[0.01, np.nan], [0.02, 0.5]])
    q = benjamini_hochberg(p)
    assert np.isnan(q[0, 1])
    np.testing.assert_allclose(q[[0, 1, 1], [0, 0, 1]], benjamini_hochberg([0.01, 0.02, 0.5]))
