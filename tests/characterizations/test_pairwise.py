"""All-pairs distances against the formula for one pair."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.characterizations.pairwise import squared_euclidean, symmetric_kl_diagonal


@pytest.mark.parametrize("n", [1, 2, 1024, 1100])
def test_squared_euclidean_of_all_pairs(rng, n):
    x = rng.normal(size=(n, 7))
    expected = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
    result = squared_euclidean(x)
    assert np.allclose(result, expected, rtol=1e-9, atol=0)
    assert np.array_equal(result, result.T)
    y = rng.normal(size=(5, 7))
    assert np.allclose(squared_euclidean(x, y), ((x[:, None] - y[None]) ** 2).sum(axis=-1))


def test_close_pairs_keep_their_digits(rng):
    x = rng.normal(size=(50, 20))
    near = x + 1e-9 * rng.normal(size=x.shape)
    expected = ((x - near) ** 2).sum(axis=1)
    assert np.allclose(np.diag(squared_euclidean(x, near)), expected, rtol=1e-6)
    both = squared_euclidean(np.concatenate([x, near]))
    assert np.allclose(np.diag(both[:50, 50:]), expected, rtol=1e-6)


def kl(mean_a, var_a, mean_b, var_b):
    return 0.5 * np.sum(np.log(var_b / var_a) + (var_a + (mean_a - mean_b) ** 2) / var_b - 1)


def test_symmetric_kl_is_both_directions_summed(rng):
    means, other = rng.normal(size=(2, 6, 3))
    variances, wide = rng.uniform(0.1, 2, (2, 6, 3))
    result = symmetric_kl_diagonal(means, variances, other, wide)
    for i in range(6):
        for j in range(6):
            forth = kl(means[i], variances[i], other[j], wide[j])
            back = kl(other[j], wide[j], means[i], variances[i])
            assert result[i, j] == pytest.approx(forth + back)
