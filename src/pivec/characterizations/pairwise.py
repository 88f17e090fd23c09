"""Distances between all rows of two sets, in closed form, by tiles and on all cores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.mixtures.workers import run_tasks

# Rows of a tile: 1024 × 1024 float64 results are 8 MB, and the product runs at full speed.
_TILE = 1024
# |x|² + |y|² − 2xy is off by about 1e-16 of the squared norms. Below this share of them, a distance
# would have fewer than six digits, and is computed again from the difference itself.
_NEAR = 1e-9


def squared_euclidean(
    a: NDArray[np.float64],
    b: NDArray[np.float64] | None = None,
    *,
    out: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Squared Euclidean distances of all rows of ``a`` to all of ``b`` (or of ``a``).

    A distance keeps its digits however small it is. Beside the result this takes some tens of
    megabytes, and without ``b`` each pair is computed once.

    Parameters
    ----------
    a : (n, d) array
    b : (m, d) array, optional
    out : (n, m) float64 array, optional
        Where to write: a memory map, if the result is larger than memory.

    Examples
    --------
    >>> squared_euclidean(np.array([[0.0, 0.0], [3.0, 4.0]]))
    array([[ 0., 25.],
           [25.,  0.]])
    """
    from threadpoolctl import threadpool_limits

    other = a if b is None else b
    shape = (len(a), len(other))
    result = np.empty(shape) if out is None else out
    if result.shape != shape or result.dtype != np.float64:
        raise UsageError(
            f"out must be a float64 array of shape {shape}, but is {result.dtype} of {result.shape}"
        )
    norms_a = np.einsum("ij,ij->i", a, a)
    norms_b = norms_a if b is None else np.einsum("ij,ij->i", other, other)
    corners = [
        (i, j)
        for i in range(0, shape[0], _TILE)
        for j in range(i if b is None else 0, shape[1], _TILE)
    ]

    def work(task: int) -> None:
        i, j = corners[task]
        rows, columns = slice(i, i + _TILE), slice(j, j + _TILE)
        tile = _tile(a[rows], other[columns], norms_a[rows], norms_b[columns])
        result[rows, columns] = tile
        if b is None and i != j:
            result[columns, rows] = tile.T
        elif b is None:
            # Both halves of a tile on the diagonal come from one, so that they are equal.
            lower = np.tril_indices(len(tile), -1)
            result[rows, columns][lower] = tile.T[lower]

    # One worker a core with a product on one thread each: threads inside products this small
    # wait for each other.
    with threadpool_limits(limits=1):
        run_tasks(work, len(corners))
    return result


def _tile(
    left: NDArray[np.float64],
    right: NDArray[np.float64],
    norms_left: NDArray[np.float64],
    norms_right: NDArray[np.float64],
) -> NDArray[np.float64]:
    # A copy where both are the same rows: x @ x.T takes BLAS's SYRK path, which crashes in some
    # builds.
    tile = left @ (right.copy() if right.base is left.base else right).T
    tile *= -2.0
    scale = norms_left[:, None] + norms_right
    tile += scale
    scale *= _NEAR
    near_i, near_j = np.nonzero(tile < scale)
    for start in range(0, len(near_i), _TILE):
        i, j = near_i[start : start + _TILE], near_j[start : start + _TILE]
        gap = left[i] - right[j]
        tile[i, j] = np.einsum("ij,ij->i", gap, gap)
    return tile


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
    # One row at a time against all others: (n, d) temporaries, and no cancellation.
    for i, (mean, variance) in enumerate(zip(means_a, variances_a, strict=True)):
        spread = (variance - variances_b) ** 2 / (variance * variances_b)
        shift = (mean - means_b) ** 2 * (1.0 / variance + 1.0 / variances_b)
        result[i] = 0.5 * (spread + shift).sum(axis=1)
    return result
