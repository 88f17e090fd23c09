"""How far two policies are from each other, compiled for many small checks.

The numbers are those of `pivec.characterizations`: `symmetric_kl` is that of "gaussian", and
`supervector_distance` that of "supervector" with ``init="kmeans"`` and ``warm_start=False``. Those
are made for millions of states; on a few hundred most of their time goes into preparations.
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
def largest_total_variation(rows, n, old, new, n_actions):
    """Largest ½ Σ_a |π(a|s) − π'(a|s)| of the first ``n`` of ``rows``, from log probabilities."""
    largest = 0.0
    for i in range(n):
        total = 0.0
        for j in range(n_actions):
            total += abs(np.exp(old[rows[i], j]) - np.exp(new[rows[i], j]))
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
    for d in range(D):
        mean[d] /= n
    for i in range(n):
        for d in range(D):
            variance[d] += (states[i, d] - mean[d]) ** 2
    for d in range(D):
        variance[d] /= n
    return mean, variance


@compiled
def symmetric_kl(states, other):
    """KL divergence both ways, summed, between diagonal Gaussians of two sets of states."""
    mean_a, var_a = _moments(states)
    mean_b, var_b = _moments(other)
    total = 0.0
    for d in range(len(mean_a)):
        a, b = var_a[d] + _VARIANCE, var_b[d] + _VARIANCE
        square = (mean_a[d] - mean_b[d]) ** 2
        total += 0.5 * ((a + square) / b + (b + square) / a) - 1.0
    return total


@compiled
def _seeds(points, K, rng):
    """k-means++ with a few candidates each, as `pivec.mixtures.start.plus_plus`."""
    n, D = points.shape
    trials = 2 + int(np.log(K))
    centres = np.empty((K, D))
    centres[0] = points[int(rng.random() * n)]
    nearest = np.full(n, np.inf)
    for k in range(K):
        if k > 0:
            total = nearest.sum()
            best_sum, best = np.inf, 0
            for _ in range(trials):
                # With all states on seeds already, any of them is as good as another.
                left, candidate = rng.random() * total, 0
                while candidate < n - 1 and left >= nearest[candidate]:
                    left -= nearest[candidate]
                    candidate += 1
                reduced = 0.0
                for i in range(n):
                    reduced += min(nearest[i], _square(points, i, points, candidate))
                if reduced < best_sum:
                    best_sum, best = reduced, candidate
            centres[k] = points[best]
        for i in range(n):
            nearest[i] = min(nearest[i], _square(points, i, centres, k))
    return centres


@compiled
def _square(a, i, b, j):
    total = 0.0
    for d in range(a.shape[1]):
        total += (a[i, d] - b[j, d]) ** 2
    return total


@compiled
def _hard_shares(points, centres, shares):
    """Give each state wholly to its nearest centre."""
    for i in range(len(points)):
        nearest, best = np.inf, 0
        for k in range(len(centres)):
            square = _square(points, i, centres, k)
            if square < nearest:
                nearest, best = square, k
        shares[i] = 0.0
        shares[i, best] = 1.0


@compiled
def _soft_shares(points, weights, means, variances, shares):
    """E-step: fill in the responsibilities; the mean log-likelihood."""
    n, D = points.shape
    K = len(weights)
    constants, inverse = np.empty(K), 0.5 / variances
    for k in range(K):
        # A component without states has weight 0, whose logarithm -inf is right: it gets nothing.
        constants[k] = np.log(weights[k]) if weights[k] > 0 else -np.inf
        for d in range(D):
            constants[k] -= 0.5 * np.log(2.0 * np.pi * variances[k, d])
    total = 0.0
    for i in range(n):
        largest = -np.inf
        for k in range(K):
            value = constants[k]
            for d in range(D):
                value -= (points[i, d] - means[k, d]) ** 2 * inverse[k, d]
            shares[i, k] = value
            largest = max(largest, value)
        density = 0.0
        for k in range(K):
            value = shares[i, k] - largest
            shares[i, k] = np.exp(value) if value > _FAR else 0.0
            density += shares[i, k]
        for k in range(K):
            shares[i, k] /= density
        total += largest + np.log(density)
    return total / n


@compiled
def _sums(points, shares, first, last, means, counts, sums, squares):
    """Σ r, Σ r (x − μ) and Σ r (x − μ)² over states from ``first`` to ``last``."""
    counts[:], sums[:], squares[:] = 0.0, 0.0, 0.0
    K, D = means.shape
    for i in range(first, last):
        for k in range(K):
            r = shares[i, k]
            if r > 0.0:
                counts[k] += r
                for d in range(D):
                    e = points[i, d] - means[k, d]
                    sums[k, d] += r * e
                    squares[k, d] += r * e * e


@compiled
def _maximise(n, counts, sums, squares, weights, means, variances):
    """M-step in place, variances at least at the floor; components without states stay."""
    K, D = means.shape
    for k in range(K):
        weights[k] = counts[k] / n
        if counts[k] > 1e-15:
            for d in range(D):
                shift = sums[k, d] / counts[k]
                means[k, d] += shift
                variances[k, d] = max(squares[k, d] / counts[k] - shift * shift, _FLOOR)


@compiled
def fit_background(points, K, rng):
    """Mixture of K diagonal Gaussians by k-means and EM: weights, means, variances, passes."""
    n, D = points.shape
    means = _seeds(points, K, rng)
    shares = np.empty((n, K))
    counts, sums, squares = np.empty(K), np.empty((K, D)), np.empty((K, D))
    for _ in range(_LLOYD_STEPS):
        _hard_shares(points, means, shares)
        _sums(points, shares, 0, n, means, counts, sums, squares)
        moved = 0.0
        for k in range(K):
            if counts[k] > 0:
                for d in range(D):
                    step = sums[k, d] / counts[k]
                    means[k, d] += step
                    moved += step * step
        if moved <= _LLOYD_TOL * D:
            break
    weights, variances = np.empty(K), np.ones((K, D))
    _hard_shares(points, means, shares)
    _sums(points, shares, 0, n, means, counts, sums, squares)
    _maximise(n, counts, sums, squares, weights, means, variances)
    previous, passes = -np.inf, 0
    for _ in range(_MAX_ITER):
        likelihood = _soft_shares(points, weights, means, variances, shares)
        _sums(points, shares, 0, n, means, counts, sums, squares)
        _maximise(n, counts, sums, squares, weights, means, variances)
        passes += 1
        if abs(likelihood - previous) < _TOL:
            break
        previous = likelihood
    return weights, means, variances, passes


@compiled
def supervector_distance(states, other, K, rng):
    """Upper bound of the KL divergence (eq. 6) of two policies, on a background of their states."""
    n, m, D = len(states), len(other), states.shape[1]
    points = np.empty((n + m, D))
    points[:n], points[n:] = states, other
    mean, variance = _moments(points)
    for d in range(D):
        scale = 1.0 / np.sqrt(variance[d]) if variance[d] > 0 else 1.0
        for i in range(n + m):
            points[i, d] = (points[i, d] - mean[d]) * scale
    weights, means, variances, _ = fit_background(points, K, rng)
    shares = np.empty((n + m, K))
    _soft_shares(points, weights, means, variances, shares)
    counts, squares = np.empty((2, K)), np.empty((K, D))
    sums = np.empty((2, K, D))
    _sums(points, shares, 0, n, means, counts[0], sums[0], squares)
    _sums(points, shares, n, n + m, means, counts[1], sums[1], squares)
    total = 0.0
    for k in range(K):
        a, b = 1.0 / (counts[0, k] + _RELEVANCE), 1.0 / (counts[1, k] + _RELEVANCE)
        for d in range(D):
            difference = sums[0, k, d] * a - sums[1, k, d] * b
            total += 0.5 * weights[k] * difference * difference / variances[k, d]
    return total
