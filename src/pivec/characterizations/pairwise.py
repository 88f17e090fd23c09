"""Distances between all rows of two sets, in closed form and in tiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Rows of a tile: 1024 × 1024 float64 results are 8 MB.
_TILE = 1024


def squared_euclidean(
    a: NDArray[np.float64], b: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Squared Euclidean distances of all rows of ``a`` to all of ``b`` (or of ``a``).

    By |x|² + |y|² − 2xy in float64, where pairs so close that this cancels are computed again
    from the difference itself: a distance keeps its digits however small it is.

    Examples
    --------
    >>> squared_euclidean(np.array([[0.0, 0.0], [3.0, 4.0]]))
    array([[ 0., 25.],
           [25.,  0.]])
    """
    symmetric = b is None
    other = a if b is None else b
    result = np.empty((len(a), len(other)))
    norms_a = np.einsum("ij,ij->i", a, a)
    norms_b = norms_a if symmetric else np.einsum("ij,ij->i", other, other)
    for i in range(0, len(a), _TILE):
        rows = slice(i, i + _TILE)
        for j in range(i if symmetric else 0, len(other), _TILE):
            columns = slice(j, j + _TILE)
            # A copy of the operand: x @ x.T takes BLAS's SYRK path, which crashes on some builds.
            right = other[columns].copy() if symmetric and i == j else other[columns]
            tile = a[rows] @ right.T
            tile *= -2.0
            scale = norms_a[rows, None] + norms_b[None, columns]
            tile += scale
            # The product is off by about 1e-16 of the norms: below 1e-8 of them the difference
            # would have fewer than eight digits.
            near_i, near_j = np.nonzero(tile < 1e-8 * scale)
            for start in range(0, len(near_i), _TILE):
                some = slice(start, start + _TILE)
                gap = a[rows][near_i[some]] - right[near_j[some]]
                tile[near_i[some], near_j[some]] = np.einsum("ij,ij->i", gap, gap)
            result[rows, columns] = tile
            if symmetric and j > i:
                result[columns, rows] = tile.T
    return result


def symmetric_kl_diagonal(
    means_a: NDArray[np.float64],
    variances_a: NDArray[np.float64],
    means_b: NDArray[np.float64],
    variances_b: NDArray[np.float64],
) -> NDArray[np.float64]:
    """KL(a || b) + KL(b || a) of diagonal Gaussians, for all pairs of rows.

    The logarithms of the two directions cancel, which leaves, for each feature,
    ½ (v_a/v_b + v_b/v_a + (m_a − m_b)² (1/v_a + 1/v_b)) − 1
    = ½ ((v_a − v_b)² / (v_a v_b) + (m_a − m_b)² (1/v_a + 1/v_b)).

    Examples
    --------
    >>> one = np.ones((1, 1))
    >>> symmetric_kl_diagonal(0 * one, one, one, one)
    array([[1.]])
    """
    result = np.empty((len(means_a), len(means_b)))
    # One row at a time against all others, features summed by a product: (n, d) temporaries.
    for i, (mean, variance) in enumerate(zip(means_a, variances_a, strict=True)):
        spread = (variance - variances_b) ** 2 / (variance * variances_b)
        shift = (mean - means_b) ** 2 * (1.0 / variance + 1.0 / variances_b)
        result[i] = 0.5 * (spread + shift).sum(axis=1)
    return result
