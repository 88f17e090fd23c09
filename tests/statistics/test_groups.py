"""Numbers of groups of runs against slow formulas and known cases."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

from pivec.statistics import (
    Estimate,
    effective_number,
    mean_between,
    mean_within,
    permanova,
    run_distances,
    shares_of,
)


def squares(x, y=None):
    y = x if y is None else y
    return ((x[:, None] - y[None]) ** 2).sum(axis=-1)


def test_distances_of_runs_are_those_of_their_means(rng):
    x, runs = rng.normal(size=(9, 3)), [0, 2, 1, 1, 0, 2, 2, 2, 0]
    means = np.array([np.mean([p for p, r in zip(x, runs, strict=True) if r == k], axis=0)
                      for k in range(3)])  # fmt: skip
    found = run_distances(squares(x), shares_of(runs))
    np.testing.assert_allclose(found, squares(means), atol=1e-12)


def welch(x, labels):
    """Welch's analysis of variance of points, with the squared lengths of their differences."""
    k = labels.max() + 1
    parts = [x[labels == g] for g in range(k)]
    means = [part.mean(axis=0) for part in parts]
    pooled = sum(((p - m) ** 2).sum() for p, m in zip(parts, means, strict=True)) / (len(x) - k)
    w, freedom = [], []
    for part, mean in zip(parts, means, strict=True):
        n = len(part)
        spread = ((part - mean) ** 2).sum() / (n - 1) if n > 1 else pooled
        w.append(n / spread)
        freedom.append(n - 1 if n > 1 else len(x) - k)
    centre = sum(a * m for a, m in zip(w, means, strict=True)) / sum(w)
    top = sum(a * ((m - centre) ** 2).sum() for a, m in zip(w, means, strict=True)) / (k - 1)
    few = sum((1 - a / sum(w)) ** 2 / f for a, f in zip(w, freedom, strict=True))
    return top / (1 + 2 * (k - 2) / (k**2 - 1) * few)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("sizes", [(4, 5, 2), (3, 6), (1, 4, 3)])
def test_f_is_that_of_welch(rng, width, sizes):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    x = rng.normal(size=(len(labels), width))
    test = permanova(squares(x), labels.tolist())
    assert test.f == pytest.approx(welch(x, labels))
    parts = [x[labels == g] for g in range(len(sizes))]
    within = sum(((part - part.mean(axis=0)) ** 2).sum() for part in parts)
    assert test.r2 == pytest.approx(1 - within / ((x - x.mean(axis=0)) ** 2).sum())


def test_exact_p_value_is_that_of_all_orders_of_the_runs(rng):
    """Of runs as they are, or scaled to the same spread, whichever is larger."""
    labels = np.array([0, 0, 0, 0, 1, 1, 1])
    for _ in range(2):
        x = rng.normal(size=(7, 2)) * np.where(labels == 0, 3.0, 1.0)[:, None]
        test = permanova(squares(x), labels.tolist())
        parts = [x[labels == g] for g in range(2)]
        w = [len(p) * (len(p) - 1) / ((p - p.mean(axis=0)) ** 2).sum() for p in parts]
        centre = (w[0] * parts[0].mean(axis=0) + w[1] * parts[1].mean(axis=0)) / sum(w)
        scales = np.array([math.sqrt(((p - centre) ** 2).sum() / len(p)) for p in parts])[labels]
        z = (x - centre) / scales[:, None]
        orders = [list(order) for order in permutations(range(7))]
        least = welch(x, labels) - 1e-9
        plain = np.mean([welch(x[order], labels) >= least for order in orders])
        scaled = np.mean([welch(z[order] * scales[:, None], labels) >= least for order in orders])
        assert test.p_value == pytest.approx(max(plain, scaled))
        assert test.assignments == 35
        assert test.least_p == pytest.approx(1 / 35)


def test_three_and_three_runs_cannot_give_less_than_a_tenth():
    x = np.array([0.0, 0.1, 0.2, 9.0, 9.1, 9.2])[:, None]
    test = permanova(squares(x), [0, 0, 0, 1, 1, 1])
    assert test.p_value == test.least_p == 0.1
    assert test.chance_r2 == 0.2


def test_with_many_runs_divisions_are_drawn(rng):
    x = rng.normal(size=(30, 2))
    x[:15, 0] += 2.0
    groups = [0] * 15 + [1] * 15
    drawn = permanova(squares(x), groups, seed=3)
    assert not drawn.exact
    assert drawn.assignments == 999
    assert drawn.p_value <= 0.01
    assert drawn == permanova(squares(x), groups, seed=3)
    assert drawn.least_p == 1 / 1000


def test_p_values_of_equal_groups_are_uniform():
    rng = np.random.default_rng(0)
    groups = [0] * 4 + [1] * 4
    p = [permanova(squares(rng.normal(size=(8, 2))), groups).p_value for _ in range(300)]
    # 35 divisions: at most 3 / 35 for a level of 8.6 %, three standard errors around it.
    assert 0.037 <= np.mean(np.array(p) <= 3.01 / 35) <= 0.134
    assert abs(np.mean(p) - 0.51) < 0.05


def test_runs_that_are_all_the_same_do_not_differ():
    test = permanova(np.zeros((6, 6)), [0, 0, 0, 1, 1, 1])
    assert (test.f, test.r2, test.p_value) == (0.0, 0.0, 1.0)
    apart = np.kron(1 - np.eye(2), np.ones((3, 3)))
    test = permanova(apart, [0, 0, 0, 1, 1, 1])
    assert test.f > 1e6
    assert (test.r2, test.p_value) == (1.0, 0.1)


def test_noise_is_part_of_the_spread(rng):
    """Without it, the spread of runs that behave the same may be negative."""
    x = rng.normal(size=(7, 2))
    noise = 1 - np.eye(7)
    test, noisy = permanova(squares(x), [0] * 3 + [1] * 4), squares(x) - noise
    without = permanova(noisy, [0] * 3 + [1] * 4, noise=noise)
    assert (without.f, without.p_value) == pytest.approx((test.f, test.p_value))


def test_groups_of_unequal_size_and_spread_seldom_raise_a_false_alarm():
    """Three wide and six narrow runs; the classical F rejects in 30 % of cases."""
    rng = np.random.default_rng(0)
    groups, wide = [0] * 3 + [1] * 6, np.array([4.0] * 3 + [1.0] * 6)[:, None]
    p = [permanova(squares(wide * rng.normal(size=(9, 3))), groups).p_value for _ in range(300)]
    assert np.mean(np.array(p) <= 0.05) <= 0.1


def jackknife(function, parts):
    """Variance of a function of one or two sets of runs, by leaving out every run in turn."""
    total = 0.0
    for k, part in enumerate(parts):
        values = []
        for i in range(len(part)):
            without = [np.delete(p, i, axis=0) if m == k else p for m, p in enumerate(parts)]
            values.append(function(*without))
        total += (len(part) - 1) * np.var(values)
    return total


def test_means_within_and_between_leave_out_runs(rng):
    x, y = rng.normal(size=(5, 2)), rng.normal(size=(5, 2)) + 2

    def within(points):
        return squares(points).sum() / (len(points) * (len(points) - 1))

    from scipy.stats import t

    no_noise = np.zeros((5, 5))
    found = mean_within(squares(x), no_noise)
    reach = t.ppf(0.975, 4) * math.sqrt(jackknife(within, [x])) / within(x)
    assert found.value == pytest.approx(within(x))
    assert found.low == pytest.approx(within(x) * math.exp(-reach))
    assert found.high == pytest.approx(within(x) * math.exp(reach))

    def between(a, b):
        return squares(a, b).mean()

    found = mean_between(squares(x, y), no_noise)
    error = math.sqrt(jackknife(between, [x, y])) / between(x, y)
    assert found.value == pytest.approx(between(x, y))
    width = math.log(found.high / found.low) / (2 * error)
    assert t.ppf(0.975, 8) < width < t.ppf(0.975, 4)


@pytest.mark.parametrize("noise", [0.0, 0.7])
def test_intervals_cover_the_mean_over_runs(noise):
    """93 to 98 % with 3 to 10 runs; here 4 and 6, 400 samples: three standard errors are 4 %."""
    rng = np.random.default_rng(1)
    off = 2 * noise**2 * 2 * (1 - np.eye(10))
    covered = []
    for _ in range(400):
        x = rng.normal(size=(10, 2)) * np.array([1.0, 0.5]) + noise * rng.normal(size=(10, 2))
        x[4:, 0] += 1.0
        d = squares(x) - off
        a, ab = mean_within(d[:4, :4], off[:4, :4]), mean_between(d[:4, 4:], off[:4, 4:])
        covered.append((a.low <= 2.5 <= a.high, ab.low <= 3.5 <= ab.high))
    assert (np.mean(covered, axis=0) >= 0.90).all()


def test_too_few_runs_give_no_interval():
    one = mean_within(np.zeros((1, 1)), np.zeros((1, 1)))
    assert math.isnan(one.value)
    two = mean_within(np.array([[0.0, 2.0], [2.0, 0.0]]), np.zeros((2, 2)))
    assert two.value == 2.0
    assert math.isnan(two.low)
    assert mean_between(np.ones((1, 3)), np.zeros((1, 3))).value == 1.0
    assert math.isnan(mean_between(np.ones((1, 3)), np.zeros((1, 3))).high)
    assert mean_within(np.zeros((3, 3)), np.zeros((3, 3))) == Estimate(0.0, 0.0, 0.0)


def leinster_cobbold(z, p):
    return math.exp(-sum(p[i] * math.log(sum(z[i][j] * p[j] for j in range(len(p))))
                         for i in range(len(p))))  # fmt: skip


def test_effective_number_is_the_diversity_of_order_one(rng):
    x, runs = rng.normal(size=(9, 2)), [0, 0, 0, 0, 1, 1, 2, 2, 2]
    z = np.exp(-squares(x))
    shares = shares_of(runs)
    weights = [1 / (3 * runs.count(run)) for run in runs]
    found = effective_number(z, shares)
    assert found.value == pytest.approx(leinster_cobbold(z, weights))
    values = []
    for run in range(3):
        own = [i for i in range(9) if runs[i] != run]
        p = [1 / (2 * runs.count(runs[i])) for i in own]
        values.append(leinster_cobbold(z[np.ix_(own, own)], p))
    from scipy.stats import t

    reach = t.ppf(0.975, 2) * math.sqrt(2 * np.var(values)) / found.value
    assert found.high == pytest.approx(found.value * math.exp(reach))
    assert found.low == pytest.approx(max(found.value * math.exp(-reach), 1.0))


def test_distinct_behaviours_count_and_copies_do_not():
    distinct = np.eye(4)
    assert effective_number(distinct, shares_of(range(4))).value == pytest.approx(4)
    copies = np.kron(distinct, np.ones((3, 3)))
    assert effective_number(copies, shares_of(np.arange(12) % 6)).value == pytest.approx(4)
    assert effective_number(np.ones((5, 5)), shares_of(range(5))) == Estimate(1.0, 1.0, 1.0)
