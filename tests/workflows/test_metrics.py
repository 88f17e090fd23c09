"""The three metrics against slow, obvious loops, and what they say when there is nothing to say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pivec.errors import BadData, UsageError
from pivec.statistics import (
    distance_variance,
    is_significant,
    mean_known,
    min_max,
    pair_errors,
    return_correlation,
)


def distance_error(d, anchor):
    return mean_known(pair_errors(d, anchor))


def random_distances(rng, n=7, scale=1.0):
    x = rng.normal(size=(n, 3))
    return scale * ((x[:, None] - x[None]) ** 2).sum(axis=-1)


def pairs(n):
    return [(i, j) for i in range(n) for j in range(i + 1, n)]


def slow_normalised(d):
    low, high = min(map(min, d.tolist())), max(map(max, d.tolist()))
    return [[(value - low) / (high - low) for value in row] for row in d.tolist()]


def slow_correlation(d, returns):
    x = [d[i][j] for i, j in pairs(len(d))]
    y = [abs(returns[i] - returns[j]) for i, j in pairs(len(d))]
    mx, my = sum(x) / len(x), sum(y) / len(y)
    top = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    return top / math.sqrt(sum((a - mx) ** 2 for a in x) * sum((b - my) ** 2 for b in y))


def slow_error(d, anchor):
    a, b = slow_normalised(d), slow_normalised(anchor)
    errors = [abs(a[i][j] - b[i][j]) / abs(b[i][j]) for i, j in pairs(len(d)) if b[i][j]]
    return 100 * sum(errors) / len(errors)


def slow_variance(matrices):
    normal = [slow_normalised(d) for d in matrices]
    ratios = []
    for i, j in pairs(len(matrices[0])):
        values = [d[i][j] for d in normal]
        mean = sum(values) / len(values)
        if mean:
            std = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
            ratios.append(std / mean)
    return sum(ratios) / len(ratios)


def test_the_error_of_each_pair(rng):
    d, anchor = random_distances(rng), random_distances(rng)
    a, b = slow_normalised(d), slow_normalised(anchor)
    expected = [100 * abs(a[i][j] - b[i][j]) / b[i][j] for i, j in pairs(len(d))]
    np.testing.assert_allclose(pair_errors(d, anchor), expected)


def test_pairs_are_told_apart_that_are_farther_than_both_are_from_themselves(rng):
    d, halves = random_distances(rng), rng.uniform(0, 6, 7)
    expected = [d[i, j] > halves[i] and d[i, j] > halves[j] for i, j in pairs(7)]
    assert 0 < sum(expected) < 21
    assert is_significant(d, halves).tolist() == expected


@pytest.mark.parametrize("n", [3, 4, 20])
def test_metrics_agree_with_loops(rng, n):
    matrices = [random_distances(rng, n) for _ in range(3)]
    returns = rng.normal(size=n)
    assert return_correlation(matrices[0], returns) == pytest.approx(
        slow_correlation(matrices[0], returns)
    )
    assert distance_error(matrices[1], matrices[0]) == pytest.approx(
        slow_error(matrices[1], matrices[0])
    )
    assert distance_variance(matrices) == pytest.approx(slow_variance(matrices))
    assert np.allclose(min_max(matrices[0]), slow_normalised(matrices[0]))


def test_the_whole_matrix_is_normalised_not_only_the_pairs():
    d = np.array([[0.0, 2.0, 4.0], [2.0, 0.0, 3.0], [4.0, 3.0, 0.0]])
    assert min_max(d)[0, 1] == 0.5  # over the pairs alone it would be 0


def test_scale_and_lower_triangle_do_not_matter(rng):
    d, anchor, returns = random_distances(rng), random_distances(rng), rng.normal(size=7)
    assert distance_error(1e-9 * d, 1e12 * anchor) == pytest.approx(distance_error(d, anchor))
    assert distance_variance([5 * d, anchor]) == pytest.approx(distance_variance([d, anchor]))
    for scale in (1e-200, 1e200):
        assert return_correlation(scale * d, returns) == pytest.approx(
            return_correlation(d, returns)
        )
    lower = d.copy()
    lower[np.tril_indices(7, k=-1)] = d[2, 1]
    assert return_correlation(lower, returns) == return_correlation(d, returns)


def test_pairs_of_no_distance_are_left_out(rng):
    anchor, d = random_distances(rng), random_distances(rng)
    anchor[0, 1] = anchor[1, 0] = 0.0
    assert distance_error(d, anchor) == pytest.approx(slow_error(d, anchor))
    d[0, 1] = d[1, 0] = 0.0
    assert distance_variance([d, anchor]) == pytest.approx(slow_variance([d, anchor]))


def test_equal_policies_in_one_draw_count_fully(rng):
    d = random_distances(rng)
    other = d.copy()
    other[0, 1] = other[1, 0] = 0.0
    assert distance_error(other, d) == pytest.approx(100 / 21)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_fewer_than_three_policies_give_nan(n):
    d = np.ones((n, n)) - np.eye(n)
    assert math.isnan(return_correlation(d, np.arange(n)))
    assert math.isnan(distance_error(d, d))
    assert math.isnan(distance_variance([d, d]))


def test_constant_distances_give_nan(rng):
    d, zero = random_distances(rng), np.zeros((7, 7))
    assert np.isnan(min_max(zero)).all()
    assert math.isnan(return_correlation(zero, np.arange(7)))
    assert math.isnan(return_correlation(1.0 - np.eye(7), np.arange(7)))
    assert math.isnan(distance_error(zero, d))
    assert math.isnan(distance_error(d, zero))
    assert math.isnan(distance_variance([d, zero]))


def test_unknown_or_equal_returns_give_no_correlation(rng):
    d = random_distances(rng)
    assert math.isnan(return_correlation(d, np.full(7, 3.0)))
    assert math.isnan(return_correlation(d, [np.nan, *range(6)]))


def test_one_repetition_has_no_variance(rng):
    assert math.isnan(distance_variance([random_distances(rng)]))
    assert math.isnan(distance_variance([]))


def test_perfect_and_opposite_correlation():
    returns = np.array([0.0, 1.0, 3.0, 7.0])
    d = np.abs(returns[:, None] - returns)
    assert return_correlation(d, returns) == pytest.approx(1.0)
    assert return_correlation((10 - d) * (1 - np.eye(4)), returns) == pytest.approx(-1.0)


def test_mistakes_are_named(rng):
    d = random_distances(rng)
    with pytest.raises(UsageError, match="square"):
        return_correlation(d[:3], np.arange(7))
    with pytest.raises(UsageError, match="one mean return for each of the 7"):
        return_correlation(d, np.arange(6))
    with pytest.raises(UsageError, match="anchor's 7"):
        distance_error(d[:4, :4], d)
    with pytest.raises(UsageError, match="4 and 7"):
        distance_variance([d[:4, :4], d])
    d[0, 1] = np.inf
    with pytest.raises(BadData, match="1 of 49"):
        min_max(d)
