"""A map that never moves: the main directions of some landmarks, on which others are projected.

Needs distances only, so it serves every characterization. Where these are squared Euclidean
distances of vectors, it is the projection on the landmarks' principal components.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData

# -----------------------------------------------------------------------------
# Linear layouts: principal components of vectors, classical scaling of squared distances.
#
# Both are used where t-SNE has too few policies to work on, and as its starting positions.


Array = NDArray[np.float64]

# Rows converted to float64 at a time, so that a large float32 array is never copied whole.
BLOCK_ROWS = 4096
# Above this many rows, two eigenvectors are found by Lanczos steps and not by a full reduction.
DENSE_ROWS = 2000


def principal_components(vectors: NDArray[Any], n_components: int) -> Array:
    """Scores of the rows of ``vectors`` on their leading principal components, float64.

    Centred; columns beyond the rank are zero. The sign of a column is such that its entry of
    largest size is positive.
    """
    from scipy.linalg import eigh

    n, n_values = vectors.shape
    scores = np.zeros((n, n_components))
    k = min(n_components, n, n_values)
    if k == 0:
        return scores
    center = vectors.mean(axis=0, dtype=np.float64)
    if n_values <= n:
        # In blocks of rows, so that nothing of the size of the data is made.
        scatter = np.zeros((n_values, n_values))
        for start in range(0, n, BLOCK_ROWS):
            block = vectors[start : start + BLOCK_ROWS] - center
            scatter += block.T @ block
        axes = eigh(scatter, subset_by_index=(n_values - k, n_values - 1))[1][:, ::-1]
        for start in range(0, n, BLOCK_ROWS):
            block = vectors[start : start + BLOCK_ROWS] - center
            scores[start : start + BLOCK_ROWS, :k] = block @ axes
    else:
        centred = vectors - center
        pairs = eigh(centred @ centred.T.copy(), subset_by_index=(n - k, n - 1))
        scores[:, :k] = _scaled(*pairs)
    return _with_fixed_signs(scores)


def classical_scaling(squared_distances: NDArray[Any], n_components: int = 2) -> Array:
    """Positions whose squared distances come closest to those given (Torgerson 1952).

    The distances, (n, n), are symmetric but need not come from a Euclidean space: directions of
    negative eigenvalue are left out. Signs are as in `principal_components`.
    """
    from scipy.linalg import eigh
    from scipy.sparse.linalg import eigsh

    n = len(squared_distances)
    d = np.asarray(squared_distances, dtype=np.float64)
    rows = d.mean(axis=1, keepdims=True)
    # B = -1/2 J D J with J = I - 11'/n holds the inner products of the centred positions.
    products = -0.5 * (d - rows - rows.T + d.mean())
    k = min(n_components, n)
    if n <= DENSE_ROWS:
        values, axes = eigh(products, subset_by_index=(n - k, n - 1))
    else:
        # A fixed starting vector makes the iteration, and with it the picture, repeatable.
        start = np.cos(np.arange(n, dtype=np.float64))
        values, axes = eigsh(products, k=k, which="LA", v0=start)
        by_size = np.argsort(values, kind="stable")
        values, axes = values[by_size], axes[:, by_size]
    positions = np.zeros((n, n_components))
    positions[:, :k] = _scaled(values, axes)
    return _with_fixed_signs(positions)


def _scaled(values: Array, axes: Array) -> Array:
    """Give eigenvectors times the roots of their eigenvalues, the largest first."""
    return np.asarray(axes[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0.0)))


def _with_fixed_signs(scores: Array) -> Array:
    """Turn columns so that the entry of largest size is positive: eigenvectors have no sign."""
    largest = np.argmax(np.abs(scores), axis=0)
    flipped = scores[largest, np.arange(scores.shape[1])] < 0
    scores[:, flipped] *= -1.0
    scores += 0.0  # no negative zeros
    return scores


class LandmarkMap:
    """Classical scaling of landmarks, and the places of others by their distances to them.

    Landmark scaling of de Silva and Tenenbaum (2004), of the distances between the landmarks,
    (n, n). These take the place of squared Euclidean ones, as everywhere in `pivec.report`.

    Attributes
    ----------
    positions : (n, n_components) array
        Of the landmarks.

    Examples
    --------
    >>> at = np.array([0.0, 1.0, 5.0])
    >>> landmarks = LandmarkMap((at[:, None] - at) ** 2, 1)
    >>> landmarks.positions.ravel(), landmarks.place((np.array([[3.0]]) - at) ** 2)
    (array([-2., -1., 3.]), array([[1.]]))
    """

    def __init__(self, distances: NDArray[Any], n_components: int = 2) -> None:
        d = np.asarray(distances, dtype=np.float64)
        if d.ndim != 2 or d.shape[0] != d.shape[1] or not np.isfinite(d).all():
            raise BadData(
                "distances between landmarks must be finite and of shape (n, n), "
                f"but have shape {d.shape}"
            )
        self.positions = classical_scaling(d, n_components)
        self._means = d.mean(axis=0)
        # Columns of the positions are eigenvectors times the roots of their eigenvalues, so
        # the projection -1/2 L^(-1/2) V' needs them divided by the eigenvalues, their squares.
        sizes = np.sum(self.positions**2, axis=0)
        negligible = sizes <= 1e-12 * max(float(self._means.sum()), 1e-300)
        self._directions = np.divide(
            self.positions, sizes, out=np.zeros_like(self.positions), where=~negligible
        )

    def place(self, distances: NDArray[Any]) -> Array:
        """Positions of others, given their distances to the landmarks, (m, n).

        Directions in which the landmarks do not differ are 0.
        """
        d = np.asarray(distances, dtype=np.float64)
        if d.ndim != 2 or d.shape[1] != len(self._means):
            raise BadData(
                f"distances to {len(self._means)} landmarks must have shape "
                f"(m, {len(self._means)}), but have shape {d.shape}"
            )
        return np.asarray(-0.5 * (d - self._means) @ self._directions)
