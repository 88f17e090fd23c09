"""Exact nearest neighbours, of vectors and of rows of a distance matrix.

Exact search costs 5 s for 30 000 rows of 50 values on one core, less than the approximate indexes
t-SNE libraries use, and it gives the same answer each time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]
Array = NDArray[np.float64]

# Entries of temporary arrays while distances are computed again.
BLOCK_VALUES = 4_000_000


def nearest_among(vectors: Array, k: int, *, n_threads: int = 1) -> tuple[Indices, Array]:
    """Find the ``k`` nearest other rows of each row of ``vectors``, nearest first.

    Parameters
    ----------
    vectors : (n, n_values) float64 array
    k : int
        At most n - 1.
    n_threads : int
        Does not change the result.

    Returns
    -------
    indices, distances : (n, k) arrays
        Euclidean distances, computed from the differences themselves.
    """
    from sklearn.neighbors import NearestNeighbors
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=n_threads):
        index = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(vectors)
        indices = index.kneighbors(return_distance=False)
    return _by_distance(vectors, vectors, np.asarray(indices, dtype=np.intp))


def nearest_in(
    reference: Array, query: Array, k: int, *, n_threads: int = 1
) -> tuple[Indices, Array]:
    """Find the ``k`` rows of ``reference`` nearest to each row of ``query``, nearest first.

    Parameters
    ----------
    reference : (n, n_values) float64 array
    query : (m, n_values) float64 array
    k : int
        At most n.
    n_threads : int
        Does not change the result.

    Returns
    -------
    indices, distances : (m, k) arrays
    """
    from sklearn.neighbors import NearestNeighbors
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=n_threads):
        index = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(reference)
        indices = index.kneighbors(query, return_distance=False)
    return _by_distance(reference, query, np.asarray(indices, dtype=np.intp))


def nearest_by_distance(distances: NDArray[Any], k: int) -> tuple[Indices, Array]:
    """Find the ``k`` nearest others of each row of a square matrix of distances."""
    n = len(distances)
    others = np.array(distances, dtype=np.float64)
    others[np.arange(n), np.arange(n)] = np.inf
    indices = np.argpartition(others, k - 1, axis=1)[:, :k]
    near = np.take_along_axis(others, indices, axis=1)
    order = np.lexsort((indices, near), axis=1)
    return np.take_along_axis(indices, order, axis=1), np.take_along_axis(near, order, axis=1)


def _by_distance(reference: Array, query: Array, indices: Indices) -> tuple[Indices, Array]:
    """Distances to known neighbours from differences: identical rows are exactly 0 apart.

    The search itself expands |x - y|² into products, which cancels for nearly equal policies.
    """
    distances = np.empty(indices.shape)
    rows = max(1, BLOCK_VALUES // max(1, indices.shape[1] * query.shape[1]))
    for start in range(0, len(query), rows):
        part = slice(start, start + rows)
        difference = reference[indices[part]] - query[part, None, :]
        distances[part] = np.sqrt(np.einsum("ijk,ijk->ij", difference, difference))
    order = np.lexsort((indices, distances), axis=1)
    return (
        np.take_along_axis(indices, order, axis=1),
        np.take_along_axis(distances, order, axis=1),
    )
