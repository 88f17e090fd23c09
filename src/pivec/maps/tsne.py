"""A map of policies: t-SNE of their descriptions, the same picture each time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import BadData, UsageError
from pivec.maps.linear import classical_scaling, principal_components
from pivec.maps.neighbours import nearest_among, nearest_by_distance
from pivec.maps.optimise import affinities, embed, threads_for

Array = NDArray[np.float64]

# Up to this many policies the layout is linear: t-SNE of 6 to 10 policies kept drifting apart for
# as long as it was run, while from 12 on it settles within the usual number of steps.
FEW_POLICIES = 11
# Vectors are reduced to so many principal components when there are more policies than MANY_ROWS.
N_COMPONENTS = 50
MANY_ROWS = 1000


@dataclass(frozen=True)
class PolicyMap:
    """Where each policy lies in the plane, and how it came there.

    Attributes
    ----------
    positions : (n, 2) float64 array
        Read-only.
    method : {"tsne", "pca", "mds", "single", "identical"}
        ``pca`` (of vectors) and ``mds`` (of distances) are the linear layouts of few policies;
        ``single`` is one policy at the origin; ``identical`` are policies of one description,
        all at the origin.
    perplexity : float
        The perplexity used; NaN where the method has none.
    """

    positions: Array
    method: str
    perplexity: float

    def __post_init__(self) -> None:
        self.positions.flags.writeable = False


def tsne_map(
    vectors: ArrayLike,
    *,
    random_state: int = 0,
    perplexity: float = 30.0,
    n_iter: int = 500,
    n_jobs: int | None = None,
) -> PolicyMap:
    """Lay policies out in the plane so that neighbours by description are neighbours there.

    Vectors are compared by Euclidean distance. Scaled supervectors (by sqrt(w / 2) / sigma) make
    that the paper's distance, as its published maps used it.

    Parameters
    ----------
    vectors : (n, n_values) array
        One row a policy. With more than 1000 rows and 50 columns, t-SNE sees the 50 leading
        principal components. Up to 11 policies are laid out by their first two components.
    random_state : int
        Seed of the small noise that parts equal starting positions.
    perplexity : float
        The effective number of neighbours of a policy; at most half of the other policies.
    n_iter : int
        Steps of the optimisation after its first phase.
    n_jobs : int, optional
        Threads; by default one for small maps and all cores for large ones. Does not change
        the result.

    Returns
    -------
    PolicyMap

    Raises
    ------
    BadData
        If ``vectors`` is not a finite two-dimensional array with at least one row.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> vectors = np.repeat(rng.normal(size=(3, 8)), 10, axis=0) + rng.normal(size=(30, 8)) / 10
    >>> result = tsne_map(vectors)
    >>> result.positions.shape, result.method, result.perplexity
    ((30, 2), 'tsne', 14.5)
    """
    x = checked_vectors(vectors, "vectors")
    _check_perplexity(perplexity)
    n = len(x)
    threads = threads_for(n, n_jobs)
    if n == 1:
        return PolicyMap(np.zeros((1, 2)), "single", np.nan)
    if n <= FEW_POLICIES:
        positions = principal_components(x, 2)
        identical = not positions.any()
        return PolicyMap(positions, "identical" if identical else "pca", np.nan)

    if n > MANY_ROWS and x.shape[1] > N_COMPONENTS:
        points = principal_components(x, N_COMPONENTS)
        start = points[:, :2]
    else:
        points = np.asarray(x, dtype=np.float64) - x.mean(axis=0, dtype=np.float64)
        start = principal_components(points, 2)
    size = np.sqrt(np.mean(np.einsum("ij,ij->i", points, points)))
    if _negligible(size, x):
        return PolicyMap(np.zeros((n, 2)), "identical", np.nan)

    perplexity = min(perplexity, (n - 1) / 2)
    k = min(n - 1, int(3 * perplexity))
    indices, distances = nearest_among(points, k, n_threads=threads)
    P = affinities(indices, distances / size, perplexity, n_threads=threads)
    start = _parted(start, random_state)
    return PolicyMap(embed(P, start, n_iter=n_iter, n_threads=threads), "tsne", perplexity)


def tsne_map_from_distances(
    distances: ArrayLike,
    *,
    random_state: int = 0,
    perplexity: float = 30.0,
    n_iter: int = 500,
    n_jobs: int | None = None,
) -> PolicyMap:
    """Lay policies out in the plane from their distances alone, where there are no vectors.

    The distances take the place of *squared* Euclidean distances in t-SNE's Gaussian kernel, as
    the paper's do: for scaled supervectors the picture is that of `tsne_map`.

    Parameters
    ----------
    distances : (n, n) array
        Symmetric, not negative; what is on the diagonal is not looked at.
    random_state, perplexity, n_iter, n_jobs
        As for `tsne_map`.

    Returns
    -------
    PolicyMap

    Raises
    ------
    BadData
        If ``distances`` is not such a matrix.

    Examples
    --------
    >>> tsne_map_from_distances([[0.0, 9.0], [9.0, 0.0]])
    PolicyMap(positions=array([[ 1.5,  0. ], [-1.5,  0. ]]), method='mds', perplexity=nan)
    """
    d = checked_distances(distances)
    _check_perplexity(perplexity)
    n = len(d)
    threads = threads_for(n, n_jobs)
    if n == 1:
        return PolicyMap(np.zeros((1, 2)), "single", np.nan)
    if not d.any():
        return PolicyMap(np.zeros((n, 2)), "identical", np.nan)
    start = classical_scaling(d)
    if n <= FEW_POLICIES:
        return PolicyMap(start, "mds", np.nan)

    perplexity = min(perplexity, (n - 1) / 2)
    k = min(n - 1, int(3 * perplexity))
    indices, near = nearest_by_distance(d, k)
    P = affinities(indices, np.sqrt(near / d.mean()), perplexity, n_threads=threads)
    start = _parted(start, random_state)
    return PolicyMap(embed(P, start, n_iter=n_iter, n_threads=threads), "tsne", perplexity)


def checked_vectors(vectors: ArrayLike, name: str) -> NDArray[Any]:
    """Return ``vectors`` as a finite array of at least one row, or raise `BadData`."""
    x = np.asarray(vectors)
    if x.ndim != 2 or len(x) == 0 or x.dtype.kind not in "fiub":
        raise BadData(
            f"{name} must be a two-dimensional array of numbers with one row a policy, "
            f"not one of shape {x.shape} and type {x.dtype}."
        )
    if not np.isfinite(x).all():
        bad = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
        raise BadData(
            f"{name} must be finite, but row {bad} holds NaN or infinity; leave that policy out."
        )
    return x


def checked_distances(distances: ArrayLike) -> Array:
    """Return ``distances`` as a square float64 array with zero diagonal, or raise `BadData`."""
    d = np.array(distances, dtype=np.float64)
    if d.ndim != 2 or d.shape[0] != d.shape[1] or len(d) == 0:
        raise BadData(
            f"distances must be a square matrix with one row a policy, not of shape {d.shape}."
        )
    np.fill_diagonal(d, 0.0)
    if not np.isfinite(d).all() or d.min() < 0:
        i, j = (int(v[0]) for v in np.nonzero(~(np.isfinite(d) & (d >= 0))))
        raise BadData(
            f"distances must be finite and not negative, but entry ({i}, {j}) is {d[i, j]}; "
            "leave that policy out."
        )
    if np.abs(d - d.T).max() > 1e-6 * d.max():
        raise BadData(
            "distances must be symmetric, but entries (i, j) and (j, i) differ; "
            "use (distances + distances.T) / 2 if that is meant."
        )
    return d


def _check_perplexity(perplexity: float) -> None:
    if not perplexity >= 1:
        raise UsageError(f"perplexity must be at least 1, not {perplexity}.")


def _negligible(size: float, vectors: NDArray[Any]) -> bool:
    """Tell whether rows differ by no more than the rounding of their mean."""
    return bool(size <= 1e-12 * np.abs(vectors).max())


def _parted(start: Array, random_state: int) -> Array:
    """Add noise of a hundredth of the spread, so that equal rows can move apart."""
    rng = np.random.default_rng(random_state)
    return start + rng.normal(0.0, 0.01 * np.std(start[:, 0]), start.shape)
