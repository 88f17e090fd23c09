"""All-pairs distances against the formula for one pair."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.errors import UsageError
from pivec.statistics import (
    euclidean,
    matched_kl,
    squared_euclidean,
    squared_euclidean_tensor,
    symmetric_kl_diagonal,
    symmetric_kl_full,
    total_variation,
)


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


def test_full_covariances_that_are_diagonal_agree_with_diagonal_ones(rng):
    means, variances = rng.normal(size=(5, 3)), rng.uniform(0.1, 2, (5, 3))
    full = np.einsum("ij,jk->ijk", variances, np.eye(3))
    expected = symmetric_kl_diagonal(means, variances, means, variances)
    assert np.allclose(symmetric_kl_full(means, full, means, full), expected)
    assert np.allclose(symmetric_kl_full(means[:2], full[:2], means, full), expected[:2])


def mixtures(rng, n, K=3, D=2):
    return (
        rng.dirichlet(np.ones(K), size=n),
        rng.normal(size=(n, K, D)),
        rng.uniform(0.2, 2, (n, K, D)),
    )


def matched(w, m, v, x, n, u):
    """Σ_k w_k (log(w_k/x_k) + KL(N_k || N'_k)), one pair, one way."""
    return sum(w[k] * (np.log(w[k] / x[k]) + kl(m[k], v[k], n[k], u[k])) for k in range(len(w)))


def test_matched_kl_is_both_ways_summed(rng):
    a, b = mixtures(rng, 4), mixtures(rng, 5)
    result = matched_kl(*a, *b)
    for i in range(4):
        for j in range(5):
            p, q = [x[i] for x in a], [x[j] for x in b]
            assert result[i, j] == pytest.approx(matched(*p, *q) + matched(*q, *p))
    square = matched_kl(*a, *a)
    assert np.array_equal(square, square.T)
    assert np.diag(square).max() == 0


def test_matched_kl_with_shared_variances(rng):
    weights, means, variances = mixtures(rng, 6)
    shared = variances[:1]
    everywhere = np.repeat(shared, 6, axis=0)
    assert np.allclose(
        matched_kl(weights, means, shared, weights, means, shared),
        matched_kl(weights, means, everywhere, weights, means, everywhere),
    )


def test_matched_kl_bounds_the_kl_divergence(rng):
    """Monte Carlo of the true divergence, both ways, stays below."""
    weights, means, variances = mixtures(rng, 2, K=2, D=1)

    def log_density(x, i):
        each = -0.5 * (
            np.log(2 * np.pi * variances[i, :, 0]) + (x - means[i, :, 0]) ** 2 / variances[i, :, 0]
        )
        return np.log((weights[i] * np.exp(each)).sum(axis=1))

    total = 0.0
    for i, j in ((0, 1), (1, 0)):
        k = rng.choice(2, p=weights[i], size=20_000)
        x = (means[i, k, 0] + np.sqrt(variances[i, k, 0]) * rng.normal(size=20_000))[:, None]
        total += (log_density(x, i) - log_density(x, j)).mean()
    bound = matched_kl(weights, means, variances, weights, means, variances)[0, 1]
    assert 0 < total < bound


def test_euclidean_and_total_variation(rng):
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    gaps = x[:, None] - y[None]
    assert np.allclose(euclidean(x, y), np.sqrt((gaps**2).sum(axis=-1)))
    assert np.allclose(total_variation(x, y), 0.5 * np.abs(gaps).sum(axis=-1))


def test_the_graphics_card_path_agrees(rng):
    torch = pytest.importorskip("torch")

    def on_card(*rows):
        return squared_euclidean_tensor(*map(torch.from_numpy, rows)).numpy()

    x = rng.normal(size=(300, 20))
    x[1] = x[0] + 1e-9 * rng.normal(size=20)
    y = rng.normal(size=(40, 20))
    assert np.allclose(on_card(x, x), squared_euclidean(x), rtol=1e-9)
    assert np.allclose(on_card(x, y), squared_euclidean(x, y))
    exact = ((x[0] - x[1]) ** 2).sum()
    assert on_card(x, x)[0, 1] == pytest.approx(exact, rel=1e-6)


def test_a_missing_graphics_card_is_said(rng):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(UsageError, match="there is none"):
        squared_euclidean(rng.normal(size=(3, 2)), device="cuda")
