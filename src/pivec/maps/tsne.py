"""A map of policies: t-SNE of their descriptions, the same picture each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.arguments import Count, Range, Seed, checked
from pivec.distances.measured import nearest_of_rows
from pivec.errors import BadData
from pivec.maps.linear import classical_scaling, principal_components
from pivec.maps.neighbours import Array, Indices, nearest
from pivec.maps.optimise import affinities, embed, threads_for

# Up to this many policies the layout is linear: t-SNE of 6 to 10 policies kept drifting apart for
# as long as it was run, while from 12 on it settles within the usual number of steps.
FEW_POLICIES = 11
# Vectors are reduced to so many principal components when there are more policies than MANY_ROWS.
N_COMPONENTS = 50
MANY_ROWS = 1000


@dataclass(frozen=True)
class PolicyMap:
    """Where each policy lies in the plane, and how it came there."""

    positions: Array  # read-only
    # ``pca`` (of vectors) and ``mds`` (of distances) are the linear layouts of few policies;
    # ``single`` is one policy at the origin; ``identical`` are policies of one description, all at
    # the origin.
    method: str
    perplexity: float  # the perplexity used; NaN where the method has none

    def __post_init__(self) -> None:
        self.positions.flags.writeable = False


@checked
def tsne_map(
    vectors: ArrayLike,
    *,
    metric: Literal["euclidean", "precomputed"] = "euclidean",
    random_state: Seed = 0,
    perplexity: Annotated[float, Range(1)] = 30.0,
    n_iter: Count = 500,
    n_jobs: Count | None = None,
) -> PolicyMap:
    """Lay policies out in the plane so that neighbours by description are neighbours there.

    Vectors are compared by Euclidean distance. Scaled supervectors (by sqrt(w / 2) / sigma) make
    that the paper's distance, as its published maps used it.

    Parameters
    ----------
    vectors : (n, n_values) array
        One row a policy. Beyond 1000 rows and 50 columns, t-SNE sees the 50 leading principal
        components. Up to 11 policies are laid out by their first two components.
    metric : {"euclidean", "precomputed"}
        With "precomputed", ``vectors`` are distances, (n, n), symmetric and not negative. They
        take the place of *squared* Euclidean ones in t-SNE's Gaussian kernel, as the paper's do:
        for scaled supervectors the picture is that of the vectors.
    random_state : int
        Seed of the small noise that parts equal starting positions.
    perplexity : float
        The effective number of neighbours of a policy; at most half of the other policies.
    n_iter : int
        Steps of the optimisation after its first phase.
    n_jobs : int, optional
        Threads; by default one for small maps and all cores for large ones. Does not change
        the result.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> vectors = np.repeat(rng.normal(size=(3, 8)), 10, axis=0) + rng.normal(size=(30, 8)) / 10
    >>> result = tsne_map(vectors)
    >>> result.positions.shape, result.method, result.perplexity
    ((30, 2), 'tsne', 14.5)
    >>> tsne_map([[0.0, 9.0], [9.0, 0.0]], metric="precomputed")
    PolicyMap(positions=array([[ 1.5,  0. ], [-1.5,  0. ]]), method='mds', perplexity=nan)
    """
    given = _of_vectors(vectors) if metric == "euclidean" else _of_distances(vectors)
    n = len(given.linear)
    if n <= FEW_POLICIES or not given.linear.any():
        return PolicyMap(given.linear, "single" if n == 1 else given.method, np.nan)
    perplexity = min(perplexity, (n - 1) / 2)
    threads = threads_for(n, n_jobs)
    indices, distances = given.nearest(min(n - 1, int(3 * perplexity)), threads)
    P = affinities(indices, distances, perplexity, n_threads=threads)
    # Noise of a hundredth of the spread, so that equal rows can move apart.
    noise = np.random.default_rng(random_state).normal(
        0.0, 0.01 * np.std(given.linear[:, 0]), given.linear.shape
    )
    positions = embed(P, given.linear + noise, n_iter=n_iter, n_threads=threads)
    return PolicyMap(positions, "tsne", perplexity)


class _Given(NamedTuple):
    """What t-SNE needs of policies.

    ``linear`` is their linear layout by ``method``, (n, 2), and ``nearest(k, n_threads)`` gives
    their neighbours and the distances to them, in units of the typical one.
    """

    linear: Array
    method: str
    nearest: Callable[[int, int], tuple[Indices, Array]]


def _of_vectors(vectors: ArrayLike) -> _Given:
    x = checked_vectors(vectors, "vectors")
    if len(x) > MANY_ROWS and x.shape[1] > N_COMPONENTS:
        points = principal_components(x, N_COMPONENTS)
        linear = points[:, :2]
    else:
        points = np.asarray(x, dtype=np.float64) - x.mean(axis=0, dtype=np.float64)
        linear = principal_components(points, 2)
    size = np.sqrt(np.mean(np.einsum("ij,ij->i", points, points)))

    def neighbours(k: int, n_threads: int) -> tuple[Indices, Array]:
        indices, distances = nearest(points, k, n_threads=n_threads)
        return indices, distances / size

    # Rows that differ by no more than the rounding of their mean are the same.
    if size <= 1e-12 * np.abs(x).max(initial=0.0):
        return _Given(np.zeros((len(x), 2)), "identical", neighbours)
    return _Given(linear, "pca", neighbours)


def _of_distances(distances: ArrayLike) -> _Given:
    d = checked_distances(distances)

    def neighbours(k: int, _: int) -> tuple[Indices, Array]:
        indices, near = nearest_of_rows(d, 0, k)
        return indices, np.sqrt(near / d.mean())

    if not d.any():
        return _Given(np.zeros((len(d), 2)), "identical", neighbours)
    return _Given(classical_scaling(d), "mds", neighbours)


def checked_vectors(vectors: ArrayLike, name: str) -> NDArray[Any]:
    """Return ``vectors`` as a finite array of at least one row, or raise `BadData`."""
    x = np.asarray(vectors)
    if x.ndim != 2 or len(x) == 0 or x.dtype.kind not in "fiub":
        raise BadData(
            f"{name} must be a two-dimensional array of numbers with one row a policy, "
            f"but has shape {x.shape} and type {x.dtype}"
        )
    if not np.isfinite(x).all():
        bad = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
        raise BadData(
            f"{name} must be finite, but row {bad} holds NaN or infinity; leave that policy out"
        )
    return x


def checked_distances(distances: ArrayLike) -> Array:
    """Return ``distances`` as a square float64 array with zero diagonal, or raise `BadData`."""
    d = np.array(distances, dtype=np.float64)
    if d.ndim != 2 or d.shape[0] != d.shape[1] or len(d) == 0:
        raise BadData(
            f"distances must be a square matrix with one row a policy, but have shape {d.shape}"
        )
    np.fill_diagonal(d, 0.0)
    if not np.isfinite(d).all() or d.min() < 0:
        i, j = (int(v[0]) for v in np.nonzero(~(np.isfinite(d) & (d >= 0))))
        raise BadData(
            f"distances must be finite and not negative, but entry ({i}, {j}) is {d[i, j]}; "
            "leave that policy out"
        )
    if np.abs(d - d.T).max() > 1e-6 * d.max():
        raise BadData(
            "distances must be symmetric, but entries (i, j) and (j, i) differ; "
            "use (distances + distances.T) / 2 if that is meant"
        )
    return d
