"""How far two policies are from each other, compiled for many small checks.

The numbers are those of `pivec.characterizations`: `symmetric_kl` is that of "gaussian", and
`supervector_distance` that of "supervector" with ``init="kmeans"`` and ``warm_start=False``. Those
are made for millions of states; on a few hundred most of their time goes into preparations, so that
a run would take many minutes instead of seconds (benchmarks/trust_region.py).
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import numpy as np

from pivec.paper.trust_region.network import compiled

_VARIANCE = 1e-7  # added to the variances of Gaussians
_RELEVANCE = 16.0
_FLOOR = 1e-6  # least variance of a component, in standardised units
_TOL, _MAX_ITER = 1e-3, 100
_LLOYD_TOL, _LLOYD_STEPS = 1e-4, 300
_FAR = -60.0  # logarithm of a share too small to count in a sum of float64


@compiled
def largest_total_variation(old, new, seen):
    """Largest ½ Σ_a |π(a|s) − π'(a|s)| of the ``seen`` states, from log probabilities."""
    largest = 0.0
    for i in range(len(old)):
        if seen[i]:
            largest = max(largest, 0.5 * np.abs(np.exp(old[i]) - np.exp(new[i])).sum())
    return largest


@compiled
def _moments(states):
    """Mean and variance of every feature."""
    mean = states.sum(axis=0) / len(states)
    return mean, ((states - mean) ** 2).sum(axis=0) / len(states)


@compiled
def symmetric_kl(states, other):
    """KL divergence both ways, summed, between diagonal Gaussians of two sets of states."""
    mean, variance = _moments(states)
    other_mean, other_variance = _moments(other)
    a, b, square = variance + _VARIANCE, other_variance + _VARIANCE, (mean - other_mean) ** 2
    return (0.5 * ((a + square) / b + (b + square) / a) - 1.0).sum()


@compiled
def _squares(points, centre):
    """Squared distances of all points to one."""
    squares = np.zeros(len(points))
    for i in range(len(points)):
        for d in range(len(centre)):
            squares[i] += (points[i, d] - centre[d]) ** 2
    return squares


@compiled
def _seeds(points, K, rng):
    """k-means++ with a few candidates each, as `pivec.mixtures.start.plus_plus`."""
    n = len(points)
    centres = np.empty((K, points.shape[1]))
    centres[0] = points[int(rng.random() * n)]
    nearest = _squares(points, centres[0])
    for k in range(1, K):
        total, reduced = nearest.sum(), nearest
        for trial in range(2 + int(np.log(K))):
            # With all states on seeds already, any of them is as good as another.
            left, candidate = rng.random() * total, 0
            while candidate < n - 1 and left >= nearest[candidate]:
                left -= nearest[candidate]
                candidate += 1
            nearer = np.minimum(nearest, _squares(points, points[candidate]))
            if trial == 0 or nearer.sum() < reduced.sum():
                reduced, centres[k] = nearer, points[candidate]
        nearest = reduced
    return centres


@compiled
def _hard_shares(points, means):
    """Give each state wholly to its nearest centre: shares (n, K)."""
    squares = np.empty((len(means), len(points)))
    for k in range(len(means)):
        squares[k] = _squares(points, means[k])
    shares = np.zeros((len(points), len(means)))
    for i in range(len(points)):
        shares[i, squares[:, i].argmin()] = 1.0
    return shares


@compiled
def _soft_shares(points, weights, means, variances):
    """E-step: the responsibilities, (n, K), and the mean log-likelihood."""
    n, D = points.shape
    K = len(weights)
    shares, inverse = np.empty((n, K)), 0.5 / variances
    # A component without states has weight 0, whose logarithm -inf is right: it gets nothing.
    constants = np.log(weights) - 0.5 * np.log(2.0 * np.pi * variances).sum(axis=1)
    total = 0.0
    for i in range(n):
        for k in range(K):
            value = constants[k]
            for d in range(D):
                value -= (points[i, d] - means[k, d]) ** 2 * inverse[k, d]
            shares[i, k] = value
        largest, density = shares[i].max(), 0.0
        for k in range(K):
            value = shares[i, k] - largest
            shares[i, k] = np.exp(value) if value > _FAR else 0.0
            density += shares[i, k]
        shares[i] /= density
        total += largest + np.log(density)
    return shares, total / n


@compiled
def _sums(points, shares, means):
    """Σ r, Σ r (x − μ) and Σ r (x − μ)² over the states."""
    K, D = means.shape
    counts, sums, squares = np.zeros(K), np.zeros((K, D)), np.zeros((K, D))
    for i in range(len(points)):
        for k in range(K):
            r = shares[i, k]
            if r > 0.0:
                counts[k] += r
                for d in range(D):
                    e = points[i, d] - means[k, d]
                    sums[k, d] += r * e
                    squares[k, d] += r * e * e
    return counts, sums, squares


@compiled
def _maximise(points, shares, weights, means, variances):
    """M-step in place, components without states stay; how far the means moved, squared."""
    counts, sums, squares = _sums(points, shares, means)
    moved = 0.0
    for k in range(len(means)):
        weights[k] = counts[k] / len(points)
        if counts[k] > 1e-15:
            shift = sums[k] / counts[k]
            means[k] += shift
            variances[k] = np.maximum(squares[k] / counts[k] - shift * shift, _FLOOR)
            moved += (shift * shift).sum()
    return moved


@compiled
def fit_background(points, K, rng):
    """Mixture of K diagonal Gaussians by k-means and EM: weights, means, variances, passes."""
    D = points.shape[1]
    weights, means, variances = np.empty(K), _seeds(points, K, rng), np.ones((K, D))
    for _ in range(_LLOYD_STEPS):
        shares = _hard_shares(points, means)
        if _maximise(points, shares, weights, means, variances) <= _LLOYD_TOL * D:
            break
    variances[:] = 1.0
    _maximise(points, _hard_shares(points, means), weights, means, variances)
    previous, passes = -np.inf, 0
    for _ in range(_MAX_ITER):
        shares, likelihood = _soft_shares(points, weights, means, variances)
        _maximise(points, shares, weights, means, variances)
        passes += 1
        if abs(likelihood - previous) < _TOL:
            break
        previous = likelihood
    return weights, means, variances, passes


@compiled
def supervector_distance(states, other, K, rng):
    """Upper bound of the KL divergence (eq. 6) of two policies, on a background of their states."""
    n = len(states)
    points = np.concatenate((states, other))
    mean, variance = _moments(points)
    for d in range(len(variance)):
        points[:, d] = (points[:, d] - mean[d]) / (np.sqrt(variance[d]) or 1.0)
    weights, means, variances, _ = fit_background(points, K, rng)
    shares, _ = _soft_shares(points, weights, means, variances)
    counts, sums, _ = _sums(points[:n], shares[:n], means)
    other_counts, other_sums, _ = _sums(points[n:], shares[n:], means)
    total = 0.0
    for k in range(K):
        a, b = counts[k] + _RELEVANCE, other_counts[k] + _RELEVANCE
        difference = sums[k] / a - other_sums[k] / b
        total += 0.5 * weights[k] * (difference * difference / variances[k]).sum()
    return total
