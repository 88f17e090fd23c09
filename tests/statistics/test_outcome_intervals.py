"""Intervals of rates, means and their differences, against explicit formulas and by simulation."""

import numpy as np
import pytest
from scipy.stats import norm, t, ttest_1samp

from pivec.statistics import (
    difference_intervals,
    is_rate,
    outcome_intervals,
    runs_needed,
    wilson_intervals,
)


@pytest.mark.parametrize(("count", "total"), [(0, 7), (3, 7), (7, 7), (41, 50), (1, 1)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_ends_of_wilson_solve_its_equation(count, total, level):
    """|p̂ − p| = z √(p (1 − p) / n), a quadratic equation in p (Wilson 1927)."""
    z, share = norm.ppf((1 + level) / 2), count / total
    a, b, c = 1 + z**2 / total, -(2 * share + z**2 / total), share**2
    root = np.sqrt(max(b**2 - 4 * a * c, 0))
    expected = [max((-b - root) / (2 * a), 0), min((-b + root) / (2 * a), 1)]
    np.testing.assert_allclose(np.ravel(wilson_intervals(count, total, level)), expected, atol=1e-9)
    values = np.r_[np.ones(count), np.zeros(total - count), np.nan]
    assert is_rate(values)
    np.testing.assert_allclose(outcome_intervals(values, True, level)[1:], expected, atol=1e-9)


def test_means_have_students_interval(rng):
    values = rng.normal(3.0, 2.0, 9)
    reach = t.ppf(0.975, 8) * values.std(ddof=1) / 3.0
    expected = [values.mean(), values.mean() - reach, values.mean() + reach]
    np.testing.assert_allclose(outcome_intervals(np.r_[values, np.nan], False), expected)
    assert np.isnan(outcome_intervals(np.array([1.5]), False)[1:]).all()
    assert np.isnan(outcome_intervals(np.array([np.nan]), False)).all()
    assert not is_rate([0.0, 1.0, 2.0])
    assert not is_rate([np.nan])


def _difference(values, rate, paired=False):
    ends = np.array([outcome_intervals(own, rate) for own in values]).T
    found = difference_intervals(values, ends, np.array([0]), np.array([1]), paired=paired)
    return [float(x[0]) for x in found]


def test_difference_of_rates_is_newcombes():
    """56 of 70 and 48 of 80: 0.2, from 0.0524 to 0.3339 (Newcombe 1998, method 10)."""
    values = [np.repeat([1.0, 0.0], [56, 14]), np.repeat([1.0, 0.0], [48, 32])]
    difference, low, high, p = _difference(values, True)
    np.testing.assert_allclose([difference, low, high], [0.2, 0.0524, 0.3339], atol=5e-5)
    assert p < 0.05


def test_differences_of_pairs_are_those_of_a_paired_t_test(rng):
    common = rng.normal(size=400)
    a, b = common + 0.3 * rng.normal(size=400), common + 0.3 * rng.normal(size=400) + 0.05
    _, low, high, p = _difference([a, b], False, paired=True)
    exact = ttest_1samp(a - b, 0.0)
    np.testing.assert_allclose([low, high], exact.confidence_interval(0.95), rtol=2e-3)
    assert p == pytest.approx(exact.pvalue, abs=2e-3)
    assert _difference([a, b], False)[3] > 3 * p


@pytest.mark.parametrize("paired", [False, True])
def test_differences_reject_at_their_level(paired):
    rng, rejected = np.random.default_rng(1), 0
    for _ in range(1000):
        skill = rng.random(40) if paired else np.full((2, 40), 0.7)
        values = list((rng.random((2, 40)) < skill).astype(float))
        rejected += _difference(values, True, paired)[3] <= 0.05
    assert 20 <= rejected <= 75


@pytest.mark.parametrize(("sizes", "needed"), [([3, 3], 4), ([2, 2], 4), ([4, 4], 4), ([1] * 3, 3)])
def test_runs_that_a_test_needs(sizes, needed):
    assert runs_needed(sizes) == needed
