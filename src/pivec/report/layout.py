"""A map of policies: t-SNE of their descriptions, the same picture each time."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.arguments import Count, Range, Seed, checked
from pivec.characterizations import Space
from pivec.errors import BadData, UsageError
from pivec.parallel import usable_cores
from pivec.policies import canonical_order
from pivec.report.landmarks import classical_scaling, principal_components
from pivec.statistics import Measured, nearest_of_rows

# -----------------------------------------------------------------------------
# The optimisation inside t-SNE: the one file that calls openTSNE.
#
# openTSNE's gradients do not depend on the number of threads, so that the same input gives the same
# picture, bit for bit, on the same machine.


Array = NDArray[np.float64]

# Below, the Barnes-Hut tree is faster; above, interpolation on a grid (as openTSNE chooses).
TREE_ROWS = 10_000
# Below this many rows a second thread does not pay.
SERIAL_ROWS = 5_000


def threads_for(n: int, n_jobs: int | None) -> int:
    """Choose the number of threads for ``n`` rows; ``n_jobs`` if it is given."""
    return n_jobs or (1 if n < SERIAL_ROWS else usable_cores())


def _gradient(n: int) -> str:
    return "bh" if n < TREE_ROWS else "fft"


def load_opentsne() -> ModuleType:
    """Import openTSNE with OpenMP threads that sleep while they wait.

    Threads that spin were up to twenty times slower on a busy machine. The setting is read when
    the OpenMP library is loaded, so it is made around the import, and not over a user's own.
    """
    key = "OMP_WAIT_POLICY"
    if key in os.environ:
        import openTSNE
    else:
        os.environ[key] = "PASSIVE"
        try:
            import openTSNE
        finally:
            del os.environ[key]
    module: ModuleType = openTSNE
    return module


def affinities(
    neighbours: NDArray[np.intp], distances: Array, perplexity: float, *, n_threads: int = 1
) -> Any:
    """Symmetric joint probabilities P of t-SNE, as a sparse (n, n) matrix with sum 1.

    Of the nearest neighbours of each row and their distances, (n, k), which the Gaussian kernel
    squares.
    """
    return load_opentsne().affinity.joint_probabilities_nn(
        neighbours, distances, [perplexity], symmetrize=True, n_jobs=n_threads
    )


def embed(P: Any, start: Array, *, n_iter: int, n_threads: int = 1) -> Array:
    """Minimise t-SNE's objective for the affinities ``P``; centred positions, (n, 2).

    From the positions ``start``, of which no two may be equal, in 250 steps with exaggerated
    affinities and ``n_iter`` more.
    """
    opentsne = load_opentsne()
    estimator = opentsne.TSNE(
        n_jobs=n_threads,
        n_iter=n_iter,
        negative_gradient_method=_gradient(len(start)),
        random_state=0,
    )
    embedding = estimator.fit(
        affinities=opentsne.affinity.PrecomputedAffinities(P, normalize=False),
        # Kobak & Berens 2019: a small start keeps the global arrangement of the first components.
        initialization=start * (1e-4 / np.std(start[:, 0])),
    )
    return np.array(embedding, dtype=np.float64)


def embed_new(
    neighbours: NDArray[np.intp],
    distances: Array,
    reference_positions: Array,
    start: Array,
    *,
    perplexity: float,
    n_threads: int = 1,
) -> Array:
    """Minimise the same objective for new rows only, each by itself, in a map that is fixed.

    ``neighbours`` and ``distances``, (m, k), are of the nearest reference rows of each new row.
    """
    opentsne = load_opentsne()
    n = len(reference_positions)
    P = opentsne.affinity.joint_probabilities_nn(
        neighbours,
        distances,
        [perplexity],
        symmetrize=False,
        normalization="point-wise",
        n_reference_samples=n,
        n_jobs=n_threads,
    )
    # openTSNE's interpolation grid centres a map in place; so it is handed a centred copy.
    middle = (reference_positions.max(axis=0) + reference_positions.min(axis=0)) / 2
    empty = opentsne.affinity.PrecomputedAffinities(np.zeros((n, 0)), normalize=False)
    # By the size of the map, not by the number of new rows: each row's place is its own affair.
    reference = opentsne.tsne.TSNEEmbedding(
        reference_positions - middle, affinities=empty, negative_gradient_method=_gradient(n)
    )
    embedding = opentsne.tsne.PartialTSNEEmbedding(
        start - middle, reference, P=P, **reference.gradient_descent_params
    )
    embedding.optimize(
        n_iter=250,
        learning_rate=0.1,
        exaggeration=1.5,
        momentum=0.8,
        max_grad_norm=0.25,
        max_step_norm=None,
        n_jobs=n_threads,
        theta=0.5,
        inplace=True,
    )
    placed: Array = np.array(embedding, dtype=np.float64) + middle
    return placed


# -----------------------------------------------------------------------------
# Exact nearest neighbours of vectors.
#
# Exact search costs 5 s for 30 000 rows of 50 values on one core, less than the approximate indexes
# t-SNE libraries use, and it gives the same answer each time.


Indices = NDArray[np.intp]

# Entries of temporary arrays while distances are computed again.
BLOCK_VALUES = 4_000_000


def nearest(
    reference: Array, k: int, query: Array | None = None, *, n_threads: int = 1
) -> tuple[Indices, Array]:
    """Find the ``k`` rows of ``reference`` nearest to each row of ``query``, nearest first.

    Without a query, the nearest others of each row of the reference itself. Returns row numbers
    and Euclidean distances, (m, k) each; the number of threads does not change them.
    """
    from sklearn.neighbors import NearestNeighbors
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=n_threads):
        index = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(reference)
        indices = np.asarray(index.kneighbors(query, return_distance=False), dtype=np.intp)
    # The search itself expands |x - y|² into products, which cancels for nearly equal policies:
    # from differences, identical rows are exactly 0 apart.
    rows = reference if query is None else query
    distances = np.empty(indices.shape)
    together = max(1, BLOCK_VALUES // max(1, k * rows.shape[1]))
    for start in range(0, len(rows), together):
        part = slice(start, start + together)
        difference = reference[indices[part]] - rows[part, None, :]
        distances[part] = np.sqrt(np.einsum("ijk,ijk->ij", difference, difference))
    order = np.lexsort((indices, distances), axis=1)
    return (
        np.take_along_axis(indices, order, axis=1),
        np.take_along_axis(distances, order, axis=1),
    )


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


# -----------------------------------------------------------------------------
# New policies in an existing map: the map stays as it is.


# With fewer reference policies than this, a new one is put among its nearest by weight alone.
FEW_REFERENCES = 30
N_NEAREST = 5
# openTSNE's choice for new points: the five nearest or so decide.
PERPLEXITY = 5.0


@checked
def place(
    reference_vectors: ArrayLike,
    reference_positions: ArrayLike,
    new_vectors: ArrayLike,
    *,
    n_jobs: Count | None = None,
) -> Array:
    """Positions of new policies in a map made earlier of others.

    Each new policy starts at the mean of the positions of its (at most five) nearest reference
    policies, weighted by 1 / squared distance. With 30 reference policies or more, t-SNE's
    objective is then minimised for its position alone, the map being fixed (Poličar et al. 2019);
    with fewer, the weighted mean is the position, by definition. A new policy whose vector equals
    one of the reference takes its position (the mean of them, where several are equal).
    A position does not depend on the other new policies.

    Examples
    --------
    >>> place([[0.0], [1.0]], [[0.0, 0.0], [10.0, 0.0]], [[0.5], [1.0]])
    array([[ 5., 0.], [10., 0.]])
    """
    reference = checked_vectors(reference_vectors, "reference_vectors").astype(np.float64)
    positions = checked_vectors(reference_positions, "reference_positions").astype(np.float64)
    new = np.asarray(new_vectors)
    n, n_values = reference.shape
    if new.shape != (0,) and (new.ndim != 2 or new.shape[1] != n_values):
        raise BadData(
            f"new_vectors must have {n_values} columns as the reference has, but have shape "
            f"{new.shape}; describe them in the same space"
        )
    if positions.shape != (n, 2):
        raise BadData(
            f"reference_positions must have shape ({n}, 2), one row a reference vector, "
            f"but have shape {positions.shape}"
        )
    if len(new) == 0:
        return np.zeros((0, 2))
    new = checked_vectors(new, "new_vectors").astype(np.float64)
    threads = threads_for(max(n, len(new)), n_jobs)
    center = reference.mean(axis=0)
    k = _n_nearest(n)
    indices, distances = nearest(reference - center, k, new - center, n_threads=threads)
    equal = distances <= 1e-12 * np.sqrt(np.mean((reference - center) ** 2) * n_values)
    return _place_among(indices, distances, equal, positions, threads)


def place_by_distances(distances: ArrayLike, reference_positions: ArrayLike) -> Array:
    """As `place`, where there are no vectors: ``distances``, (m, n), are to the reference.

    Examples
    --------
    >>> place_by_distances([[0.5, 0.5], [1.0, 0.0]], [[0.0, 0.0], [10.0, 0.0]])
    array([[ 5., 0.], [10., 0.]])
    """
    positions = checked_vectors(reference_positions, "reference_positions").astype(np.float64)
    n = len(positions)
    table = np.asarray(distances, dtype=np.float64).reshape(-1, n)
    if not len(table):
        return np.zeros((0, 2))
    indices = np.argsort(table, axis=1, kind="stable")[:, : _n_nearest(n)]
    near = np.take_along_axis(table, indices, axis=1)
    equal = near <= 1e-12 * table.max()
    return _place_among(indices, near, equal, positions, threads_for(max(table.shape), None))


def _n_nearest(n: int) -> int:
    return min(n, N_NEAREST if n < FEW_REFERENCES else int(3 * PERPLEXITY))


def _place_among(
    indices: NDArray[np.intp],
    distances: Array,
    equal: NDArray[np.bool_],
    positions: Array,
    threads: int,
) -> Array:
    """Place by the nearest of the reference, (m, k) each; ``equal`` are those at no distance."""
    start: Array = _weighted_mean(
        positions[indices[:, :N_NEAREST]], distances[:, :N_NEAREST], equal[:, :N_NEAREST]
    )
    if len(positions) < FEW_REFERENCES:
        return start
    placed = embed_new(
        indices, distances, positions, start, perplexity=PERPLEXITY, n_threads=threads
    )
    known = equal.any(axis=1)
    placed[known] = start[known]
    return placed


def _weighted_mean(near: Array, distances: Array, equal: NDArray[np.bool_]) -> Array:
    """Mean of (m, k, 2) positions by 1 / distance²; only the equal ones where there are any."""
    nearest = distances[:, :1]
    # Relative to the nearest: no overflow, however small the distances are.
    ratio = np.divide(nearest, distances, out=np.ones_like(distances), where=distances > 0)
    weights = np.where(equal.any(axis=1, keepdims=True), equal, ratio**2).astype(np.float64)
    weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray(np.einsum("mk,mkd->md", weights, near))


# -----------------------------------------------------------------------------
# Where the policies of a space lie in the plane: all of them anew, or new ones among others.


def positions_of(
    space: Space, seed: int, measured: Measured | None
) -> tuple[NDArray[np.float64], str]:
    """Lay out the policies that have no place, or all of them; without points they are measured."""
    described, placed = space.descriptions, np.array(space.is_placed)
    points = described.points
    if space.positions is not None and placed.any() and not placed.all():
        # The map of the earlier space stays as it is; only the new policies are placed.
        new, positions = np.isnan(space.positions[:, 0]), space.positions.copy()
        if points is not None:
            positions[new] = place(points[~placed], positions[~placed], points[new])
        elif new.any():
            rows, columns = (described.select(np.flatnonzero(part)) for part in (new, ~placed))
            apart = space.method.distances(rows, columns)
            positions[new] = place_by_distances(apart, positions[~placed])
        return positions, "placed in an earlier map"
    order = canonical_order(described.policies)
    back = np.argsort(order)
    if points is not None:
        made = tsne_map(points[order], random_state=seed)
        return made.positions[back], made.method
    matrix = None if measured is None else measured.matrix
    if matrix is None:
        raise UsageError(
            f"a map of {len(described)} policies needs vectors, which {space.method.name} "
            "does not give: use visitation, or fewer policies"
        )
    made = tsne_map(matrix[np.ix_(order, order)], metric="precomputed", random_state=seed)
    return made.positions[back], made.method
