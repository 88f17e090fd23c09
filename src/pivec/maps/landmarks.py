"""A map that never moves: the main directions of some landmarks, on which others are projected.

Needs distances only, so it serves every characterization. Where these are squared Euclidean
distances of vectors, it is the projection on the landmarks' principal components.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData
from pivec.maps.linear import classical_scaling

Array = NDArray[np.float64]


class LandmarkMap:
    """Classical scaling of landmarks, and the places of others by their distances to them.

    Landmark scaling of de Silva and Tenenbaum (2004), of the distances between the landmarks,
    (n, n). These take the place of squared Euclidean ones, as everywhere in `pivec.maps`.

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
