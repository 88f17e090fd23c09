"""How far two policies are from each other, compiled for many small checks.

The numbers are those of `pivec.characterizations`: `symmetric_kl` is that of "gaussian", and
`supervector_distance` and `visitation_distance` those of "supervector" and "visitation" with
``init="kmeans"`` and ``warm_start=False``, the latter for episodes of equal lengths. Those are made
for millions of states; on a few hundred most of their time goes into preparations, so that a run
would take many minutes instead of seconds (benchmarks/trust_region.py).
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import numpy as np

from reproduction.trust_region.network import compiled

_VARIANCE = 1e-7  # added to the variances of Gaussians
_RELEVANCE = 16.0
_PRIOR = 0.1  # of visitation
_FLOOR = 1e-6  # least variance of a component, in standardised units
_TOL, _MAX_ITER = 1e-3, 100
_LLOYD_TOL, _LLOYD_STEPS = 1e-4, 300
_FAR = -60.0  # logarithm of a share too small to count in a sum of float64


@compiled
def largest_total_variation(old, new, seen):
    """Largest ½ Σ_a |π(a|s) − π'(a|s)| of the ``seen`` states, from log probabilities."""
    largest = 0.0
    for i in seen:
        total = 0.0
        for j in range(old.shape[1]):
            total += abs(np.exp(old[i, j]) - np.exp(new[i, j]))
        largest = max(largest, 0.5 * total)
    return largest


@compiled
def _moments(states):
    """Mean and variance of every feature."""
    n, D = states.shape
    mean, variance = np.zeros(D), np.zeros(D)
    for i in range(n):
        for d in range(D):
            mean[d] += states[i, d]
    mean /= n
    for i in range(n):
        for d in range(D):
            variance[d] += (states[i, d] - mean[d]) ** 2
    return mean, variance / n


@compiled
def symmetric_kl(states, other):
    """KL divergence both ways, summed, between diagonal Gaussians of two sets of states."""
    mean, variance = _moments(states)
    other_mean, other_variance = _moments(other)
    a, b, square = variance + _VARIANCE, other_variance + _VARIANCE, (mean - other_mean) ** 2
    return (0.5 * ((a + square) / b + (b + square) / a) - 1.0).sum()


@compiled
def _square(points, i, centres, k):
    """Squared distance of a point to a centre."""
    square = 0.0
    for d in range(points.shape[1]):
        square += (points[i, d] - centres[k, d]) ** 2
    return square


@compiled
def _nearer(points, nearest, candidate):
    """Squared distances to the nearest seed, with one more point as a seed."""
    nearer = nearest.copy()
    for i in range(len(points)):
        nearer[i] = min(nearest[i], _square(points, i, points, candidate))
    return nearer


@compiled
def _seeds(points, K, rng):
    """k-means++ with a few candidates each, as `pivec.mixtures.fit.plus_plus`."""
    n = len(points)
    seeds = np.empty(K, np.int64)
    seeds[0] = int(rng.random() * n)
    nearest = _nearer(points, np.full(n, np.inf), seeds[0])
    for k in range(1, K):
        total, reduced, least = nearest.sum(), nearest, np.inf
        for _ in range(2 + int(np.log(K))):
            # With all states on seeds already, any of them is as good as another.
            left, candidate = rng.random() * total, 0
            while candidate < n - 1 and left >= nearest[candidate]:
                left -= nearest[candidate]
                candidate += 1
            nearer = _nearer(points, nearest, candidate)
            if nearer.sum() < least:
                reduced, least, seeds[k] = nearer, nearer.sum(), candidate
        nearest = reduced
    return points[seeds]


@compiled
def _hard_shares(points, means):
    """Give each state wholly to its nearest centre: shares (n, K)."""
    shares = np.zeros((len(points), len(means)))
    for i in range(len(points)):
        nearest, least = 0, np.inf
        for k in range(len(means)):
            square = _square(points, i, means, k)
            if square < least:
                nearest, least = k, square
        shares[i, nearest] = 1.0
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
        largest, density = -np.inf, 0.0
        for k in range(K):
            value = constants[k]
            for d in range(D):
                value -= (points[i, d] - means[k, d]) ** 2 * inverse[k, d]
            shares[i, k] = value
            largest = max(largest, value)
        for k in range(K):
            value = shares[i, k] - largest
            if value == 0.0:  # exponentials and logarithms are what takes time here
                shares[i, k] = 1.0
            else:
                shares[i, k] = np.exp(value) if value > _FAR else 0.0
            density += shares[i, k]
        total += largest
        if density > 1.0:
            for k in range(K):
                shares[i, k] /= density
            total += np.log(density)
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
            for d in range(means.shape[1]):
                shift = sums[k, d] / counts[k]
                means[k, d] += shift
                variances[k, d] = max(squares[k, d] / counts[k] - shift * shift, _FLOOR)
                moved += shift * shift
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
def _background_sums(states, other, K, rng):
    """Fit a background on the states of both; its weights and variances, and `_sums` of each."""
    n = len(states)
    points = np.concatenate((states, other))
    mean, variance = _moments(points)
    for d in range(len(variance)):
        points[:, d] = (points[:, d] - mean[d]) / (np.sqrt(variance[d]) or 1.0)
    weights, means, variances, _ = fit_background(points, K, rng)
    shares, _ = _soft_shares(points, weights, means, variances)
    counts, sums, _ = _sums(points[:n], shares[:n], means)
    other_counts, other_sums, _ = _sums(points[n:], shares[n:], means)
    return weights, variances, counts, sums, other_counts, other_sums


@compiled
def supervector_distance(states, other, K, rng):
    """Upper bound of the KL divergence (eq. 6) of two policies, on a background of their states."""
    weights, variances, counts, sums, other_counts, other_sums = _background_sums(
        states, other, K, rng
    )
    total = 0.0
    for k in range(K):
        a, b = counts[k] + _RELEVANCE, other_counts[k] + _RELEVANCE
        difference = sums[k] / a - other_sums[k] / b
        total += 0.5 * weights[k] * (difference * difference / variances[k]).sum()
    return total


@compiled
def _region(count, place, weight, n):
    """Share of time in a region, adapted, and the vector along which a policy is there."""
    share = (count / n + _PRIOR * weight) / (1.0 + _PRIOR)
    vector = 0.5 * place / (count + _PRIOR * n)
    return share, vector, np.sqrt(1.0 + (vector * vector).sum())


@compiled
def visitation_distance(states, other, K, rng):
    """1 − Σ_k √(ω_k ω'_k) u_k·u'_k of two policies, on a background of their states."""
    weights, variances, counts, sums, other_counts, other_sums = _background_sums(
        states, other, K, rng
    )
    total = 1.0
    for k in range(K):
        scale = np.sqrt(variances[k])
        a, u, length = _region(counts[k], sums[k] / scale, weights[k], len(states))
        b, v, other_length = _region(other_counts[k], other_sums[k] / scale, weights[k], len(other))
        total -= np.sqrt(a * b) * (1.0 + (u * v).sum()) / (length * other_length)
    return total
