"""Slow, obvious float64 formulas that the kernels are held against, and data for them."""

from __future__ import annotations

import importlib.util

import numpy as np

from pivec.mixtures import Mixture

ENGINES = ["numpy", "numba", "torch-cpu"]
if importlib.util.find_spec("torch") is not None:
    import torch

    if torch.cuda.is_available():
        ENGINES.append("cuda")


def log_densities(states, mixture):
    """log w_k N(x; μ_k, σ_k²) of every state and component, (n, K), one component at a time."""
    x = (np.asarray(states, dtype=np.float64) - mixture.center) / mixture.scale
    columns = []
    for w, mu, variance in zip(mixture.weights, mixture.means, mixture.variances, strict=True):
        exponent = -0.5 * (np.log(2 * np.pi * variance) + (x - mu) ** 2 / variance).sum(axis=1)
        with np.errstate(divide="ignore"):
            columns.append(np.log(w) + exponent)
    return np.stack(columns, axis=1)


def responsibilities(states, mixture):
    """Posterior of the components (n, K), and log-density of the states (n,)."""
    logits = log_densities(states, mixture)
    top = logits.max(axis=1, keepdims=True)
    density = top[:, 0] + np.log(np.exp(logits - top).sum(axis=1))
    return np.exp(logits - density[:, None]), density


def statistics(states, mixture):
    """Counts (K,), centred sums and squares (K, D), and the log-likelihood."""
    r, density = responsibilities(states, mixture)
    x = (np.asarray(states, dtype=np.float64) - mixture.center) / mixture.scale
    K, D = mixture.means.shape
    sums, squares = np.zeros((K, D)), np.zeros((K, D))
    for k in range(K):
        z = (x - mixture.means[k]) / np.sqrt(mixture.variances[k])
        sums[k] = r[:, k] @ z
        squares[k] = r[:, k] @ z**2
    return r.sum(axis=0), sums, squares, density.sum()


def assert_statistics_match(got, expected, tolerance):
    """Hold statistics against (counts, sums, squares, log-likelihood), relative to the counts."""
    counts, sums, squares, likelihood = expected
    np.testing.assert_allclose(got.counts, counts, rtol=tolerance, atol=tolerance)
    n = np.maximum(counts, 1e-3)[:, None]
    assert (np.abs(got.sums - sums) <= tolerance * np.maximum(n, np.sqrt(n * squares))).all()
    assert (np.abs(got.squares - squares) <= tolerance * np.maximum(n, squares)).all()
    assert abs(got.log_likelihood - likelihood) <= tolerance * max(abs(likelihood), got.n_states)


def clusters(n_states, n_features, n_clusters=10, seed=0, dtype=np.float32):
    """Raw states in clusters, with columns of different place and scale."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(scale=3, size=(n_clusters, n_features))
    labels = rng.integers(n_clusters, size=n_states)
    states = centers[labels] + rng.normal(size=(n_states, n_features))
    return (states * rng.uniform(0.1, 10, n_features) + rng.normal(size=n_features)).astype(dtype)


def spiky(n_states, n_features=8, seed=0):
    """Clusters with 0/1 columns, and one that is exactly 1.0 in 94 % of the states."""
    rng = np.random.default_rng(seed)
    states = clusters(n_states, n_features, 6, seed)
    states[:, 0] = np.where(rng.random(n_states) < 0.94, 1.0, rng.random(n_states))
    states[:, 1] = states[:, 1] > np.median(states[:, 1])
    states[:, 2] = rng.random(n_states) < 0.03
    return states


def random_mixture(states, n_components, seed=0, narrow=False):
    """Some mixture on these states; ``narrow`` has variances of 1e-6 in the spiky columns."""
    rng = np.random.default_rng(seed)
    wide = np.asarray(states, dtype=np.float64)
    center, scale = wide.mean(axis=0), wide.std(axis=0)
    chosen = wide[rng.choice(len(wide), n_components, replace=False)]
    variances = rng.uniform(0.05, 0.5, size=(n_components, wide.shape[1]))
    if narrow:
        variances[: n_components // 2, :3] = 1e-6
    weights = rng.dirichlet(np.full(n_components, 3.0))
    return Mixture(weights, (chosen - center) / scale, variances, center, scale)
