"""Positions and orders of policies: t-SNE and linear maps, placing new policies, heatmap orders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.arguments import Count, Range, Seed, checked
from pivec.characterizations import Measured, Space
from pivec.errors import BadData, UsageError
from pivec.parallel import usable_cores
from pivec.policies import canonical_order, natural_key
from pivec.statistics import nearest_of_rows, squared_euclidean

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

BLOCK_ROWS = 4096  # converted to float64 at a time: a large float32 array is never copied whole
BLOCK_VALUES = 4_000_000  # of temporary arrays while distances of neighbours are computed again
DENSE_ROWS = 2000  # above, two eigenvectors are found by Lanczos steps, not by a full reduction
TREE_ROWS = 10_000  # below, the Barnes-Hut tree is faster; above, interpolation on a grid
SERIAL_ROWS = 5_000  # below, a second thread does not pay
# Up to this many policies the layout is linear: t-SNE of 6 to 10 policies kept drifting apart for
# as long as it was run, while from 12 on it settles within the usual number of steps.
FEW_POLICIES = 11
# Vectors are reduced to so many principal components when there are more policies than MANY_ROWS.
N_COMPONENTS, MANY_ROWS = 50, 1000
FEW_REFERENCES = 30  # with fewer, a new policy is put among its nearest by weight alone
N_NEAREST = 5
PLACING_PERPLEXITY = 5.0  # openTSNE's choice for new points: the five nearest or so decide
# t-SNE of more episodes takes too long for a report. A change of their last bits moved episodes by
# up to a third of the map after 250 early steps, 5 % after 100, and some billionths of it after 50.
LANDMARKS, EARLY_STEPS, LATE_STEPS = 500, 50, 100
DECIMALS = 9  # of coordinates of episodes: equal ones may differ by rounding
OPTIMAL_ROWS = 500  # of a tree whose leaves are ordered optimally, in time of at least n²
MAX_LEAVES = 4000  # of a tree; more take too long for a picture


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
    n_early: Count = 250,
    n_jobs: Count | None = None,
) -> PolicyMap:
    """Lay policies out in the plane so that neighbours by description are neighbours there.

    Parameters
    ----------
    vectors : (n, n_values) array
        One row per policy. Beyond 1000 rows and 50 columns, t-SNE sees the 50 leading principal
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
    n_early : int
        Steps of its first phase, in which neighbours attract each other more.
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
    if metric == "euclidean":
        x = _checked_vectors(vectors, "vectors")
        if len(x) > MANY_ROWS and x.shape[1] > N_COMPONENTS:
            points = principal_components(x, N_COMPONENTS)
            linear = points[:, :2]
        else:
            points = np.asarray(x, dtype=np.float64) - x.mean(axis=0, dtype=np.float64)
            linear = principal_components(points, 2)
        size = np.sqrt(np.mean(np.einsum("ij,ij->i", points, points)))
        # Rows that differ by no more than the rounding of their mean are the same.
        identical = size <= 1e-12 * np.abs(x).max(initial=0.0)
    else:
        points = _checked_distances(vectors)
        linear, size, identical = classical_scaling(points), points.mean(), not points.any()
    n, method = len(linear), "pca" if metric == "euclidean" else "mds"
    if identical or n <= FEW_POLICIES:
        method = "single" if n == 1 else "identical" if identical else method
        return PolicyMap(np.zeros((n, 2)) if identical else linear, method, np.nan)
    perplexity = min(perplexity, (n - 1) / 2)
    threads, k = threads_for(n, n_jobs), min(n - 1, int(3 * perplexity))
    if metric == "euclidean":
        indices, distances = nearest(points, k, n_threads=threads)
        distances = distances / size
    else:
        indices, distances = nearest_of_rows(points, 0, k)
        distances = np.sqrt(distances / size)
    # Noise of a hundredth of the spread, so that equal rows can move apart.
    noise = np.random.default_rng(random_state).normal(
        0.0, 0.01 * np.std(linear[:, 0]), linear.shape
    )
    start = linear + noise
    opentsne = load_opentsne()
    estimator = opentsne.TSNE(
        n_jobs=threads,
        early_exaggeration_iter=n_early,
        n_iter=n_iter,
        negative_gradient_method=_gradient(n),
        random_state=0,
    )
    P = opentsne.affinity.joint_probabilities_nn(
        indices, distances, [perplexity], symmetrize=True, n_jobs=threads
    )
    embedding = estimator.fit(
        affinities=opentsne.affinity.PrecomputedAffinities(P, normalize=False),
        # Kobak & Berens 2019: a small start keeps the global arrangement of the first components.
        initialization=start * (1e-4 / np.std(start[:, 0])),
    )
    return PolicyMap(np.array(embedding, dtype=np.float64), "tsne", perplexity)


def _checked_vectors(vectors: ArrayLike, name: str) -> NDArray[Any]:
    """Return ``vectors`` as a finite array of at least one row, or raise `BadData`."""
    x = np.asarray(vectors)
    if x.ndim != 2 or len(x) == 0 or x.dtype.kind not in "fiub":
        raise BadData(
            f"{name} must be a two-dimensional array of numbers with one row per policy, "
            f"but has shape {x.shape} and type {x.dtype}"
        )
    if not (finite := np.isfinite(x).all(axis=1)).all():
        raise BadData(
            f"{name} must be finite, but row {int(finite.argmin())} holds NaN or infinity; leave "
            "that policy out"
        )
    return x


def _checked_distances(distances: ArrayLike) -> Array:
    """Return ``distances`` as a square float64 array with zero diagonal, or raise `BadData`."""
    d = np.array(distances, dtype=np.float64)
    if d.ndim != 2 or d.shape[0] != d.shape[1] or len(d) == 0:
        raise BadData(
            f"distances must be a square matrix with one row per policy, but have shape {d.shape}"
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


def principal_components(vectors: NDArray[Any], n_components: int) -> Array:
    """Centred scores of rows on their principal components; columns beyond the rank are 0."""
    from scipy.linalg import eigh

    n, n_values = vectors.shape
    scores = np.zeros((n, n_components))
    k = min(n_components, n, n_values)
    if k == 0:
        return scores
    center = vectors.mean(axis=0, dtype=np.float64)
    if n_values <= n:
        # In blocks of rows, so that nothing of the size of the data is made.
        blocks = [slice(start, start + BLOCK_ROWS) for start in range(0, n, BLOCK_ROWS)]
        scatter = np.zeros((n_values, n_values))
        for rows in blocks:
            block = vectors[rows] - center
            scatter += block.T @ block
        axes = eigh(scatter, subset_by_index=(n_values - k, n_values - 1))[1][:, ::-1]
        for rows in blocks:
            scores[rows, :k] = (vectors[rows] - center) @ axes
    else:
        centred = vectors - center
        pairs = eigh(centred @ centred.T.copy(), subset_by_index=(n - k, n - 1))
        scores[:, :k] = _scaled(*pairs)
    return _with_fixed_signs(scores)


def classical_scaling(squared_distances: NDArray[Any], n_components: int = 2) -> Array:
    """Positions whose squared distances come closest to those given (Torgerson 1952).

    Directions of negative eigenvalue are left out.
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
        values, axes = eigsh(products, k=k, which="LA", v0=np.cos(np.arange(n, dtype=np.float64)))
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


def nearest(
    reference: Array, k: int, query: Array | None = None, *, n_threads: int = 1
) -> tuple[Indices, Array]:
    """Find the ``k`` rows of ``reference`` nearest to each row of ``query`` (or of itself).

    Returns row numbers and Euclidean distances, (m, k) each, nearest first. Exact search takes 5 s
    for 30 000 rows of 50 values, less than the approximate indexes of t-SNE libraries.
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


def threads_for(n: int, n_jobs: int | None) -> int:
    """Choose the number of threads for ``n`` rows; ``n_jobs`` if it is given."""
    return n_jobs or (1 if n < SERIAL_ROWS else usable_cores())


def _gradient(n: int) -> str:
    return "bh" if n < TREE_ROWS else "fft"


def load_opentsne() -> ModuleType:
    """Import openTSNE with OpenMP threads that sleep while they wait.

    Spinning threads were up to twenty times slower on a busy machine. The setting is read when
    the OpenMP library is loaded; a user's own is kept.
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


@checked
def place(
    reference_vectors: ArrayLike,
    reference_positions: ArrayLike,
    new_vectors: ArrayLike,
    *,
    n_jobs: Count | None = None,
) -> Array:
    """Positions of new policies in a map made earlier of others.

    Each new policy starts at the mean of the positions of its five nearest reference policies,
    weighted by 1 / squared distance. With 30 reference policies or more, t-SNE's objective is then
    minimised for its position alone, the map being fixed (Poličar et al. 2019). A new policy whose
    vector equals one of the reference takes its position (the mean, if several are equal). A
    position does not depend on the other new policies.

    Examples
    --------
    >>> place([[0.0], [1.0]], [[0.0, 0.0], [10.0, 0.0]], [[0.5], [1.0]])
    array([[ 5., 0.], [10., 0.]])
    """
    reference = _checked_vectors(reference_vectors, "reference_vectors").astype(np.float64)
    positions = _checked_vectors(reference_positions, "reference_positions").astype(np.float64)
    new = np.asarray(new_vectors)
    n, n_values = reference.shape
    if new.shape != (0,) and (new.ndim != 2 or new.shape[1] != n_values):
        raise BadData(
            f"new_vectors must have {n_values} columns as the reference has, but have shape "
            f"{new.shape}; describe them in the same space"
        )
    if positions.shape != (n, 2):
        raise BadData(
            f"reference_positions must have shape ({n}, 2), one row per reference vector, "
            f"but have shape {positions.shape}"
        )
    if len(new) == 0:
        return np.zeros((0, 2))
    new = _checked_vectors(new, "new_vectors").astype(np.float64)
    threads = threads_for(max(n, len(new)), n_jobs)
    center = reference.mean(axis=0)
    k = _n_nearest(n)
    indices, distances = nearest(reference - center, k, new - center, n_threads=threads)
    equal = distances <= 1e-12 * np.sqrt(np.mean((reference - center) ** 2) * n_values)
    return _place_among(indices, distances, equal, positions, threads)


def place_by_distances(distances: ArrayLike, reference_positions: ArrayLike) -> Array:
    """As `place`, where there are no vectors: ``distances``, (m, n), are to the reference."""
    positions = _checked_vectors(reference_positions, "reference_positions").astype(np.float64)
    n = len(positions)
    table = np.asarray(distances, dtype=np.float64).reshape(-1, n)
    if not len(table):
        return np.zeros((0, 2))
    indices = np.argsort(table, axis=1, kind="stable")[:, : _n_nearest(n)]
    near = np.take_along_axis(table, indices, axis=1)
    equal = near <= 1e-12 * table.max()
    return _place_among(indices, near, equal, positions, threads_for(max(table.shape), None))


def _n_nearest(n: int) -> int:
    return min(n, N_NEAREST if n < FEW_REFERENCES else int(3 * PLACING_PERPLEXITY))


def _place_among(
    indices: Indices, distances: Array, equal: NDArray[np.bool_], positions: Array, threads: int
) -> Array:
    """Place by the nearest of the reference, (m, k) each; ``equal`` are those at no distance."""
    near, equal_near = distances[:, :N_NEAREST], equal[:, :N_NEAREST]
    # Relative to the nearest: no overflow, however small the distances are.
    ratio = np.divide(near[:, :1], near, out=np.ones_like(near), where=near > 0)
    known = np.asarray(equal_near.any(axis=1))
    weights = np.where(known[:, None], equal_near, ratio**2).astype(np.float64)
    weights /= weights.sum(axis=1, keepdims=True)
    start = np.asarray(np.einsum("mk,mkd->md", weights, positions[indices[:, :N_NEAREST]]))
    n = len(positions)
    if n < FEW_REFERENCES:
        return start
    opentsne = load_opentsne()
    P = opentsne.affinity.joint_probabilities_nn(
        indices,
        distances,
        [PLACING_PERPLEXITY],
        symmetrize=False,
        normalization="point-wise",
        n_reference_samples=n,
        n_jobs=threads,
    )
    # openTSNE's interpolation grid centres a map in place; so it is handed a centred copy.
    middle = (positions.max(axis=0) + positions.min(axis=0)) / 2
    empty = opentsne.affinity.PrecomputedAffinities(np.zeros((n, 0)), normalize=False)
    # By the size of the map, so that positions do not depend on the number of new rows.
    reference = opentsne.tsne.TSNEEmbedding(
        positions - middle, affinities=empty, negative_gradient_method=_gradient(n)
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
        n_jobs=threads,
        theta=0.5,
        inplace=True,
    )
    placed: Array = np.array(embedding, dtype=np.float64) + middle
    known = np.asarray(equal.any(axis=1))
    placed[known] = start[known]
    return placed


class LandmarkMap:
    """Classical scaling of landmarks, and the places of others by their distances to them.

    Landmark scaling of de Silva and Tenenbaum (2004). Distances, (n, n), take the place of squared
    Euclidean ones; it needs nothing else, so it serves every characterization.

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
            raise BadData(f"distances must be finite and of shape (n, n), but have {d.shape}")
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
            raise BadData(f"distances must have shape (m, {len(self._means)}), but have {d.shape}")
        return np.asarray(-0.5 * (d - self._means) @ self._directions)


def landmark_tsne(points: Array, sample: Array) -> Array:
    """Lay points out in the plane, (n, 2), by t-SNE of at most 500 of a sample of them.

    Each point is at the mean of the positions of these landmarks, weighted by 1 / distance⁶
    (Shepard 1968). Unlike a choice of the nearest ones, this does not depend on last bits, and
    t-SNE is stopped before it amplifies them.

    Examples
    --------
    >>> sample = np.array([[0.0], [1.0], [5.0]])
    >>> landmark_tsne(np.array([[5.0], [5.1], [0.5]]), sample).round(3)[:, 0]
    array([ 3. ,  3. , -1.5])
    """
    chosen = sample[np.sort(np.random.default_rng(0).permutation(len(sample))[:LANDMARKS])]
    chosen = chosen.round(DECIMALS) + 0.0
    # Equal ones would push each other apart.
    landmarks = chosen[np.sort(np.unique(chosen, axis=0, return_index=True)[1])]
    made = tsne_map(landmarks, n_iter=LATE_STEPS, n_early=EARLY_STEPS)
    squares = squared_euclidean(points.round(DECIMALS), landmarks)
    near = squares.min(axis=1, keepdims=True)
    weights = np.divide(near, squares, out=np.ones_like(squares), where=squares > 0.0) ** 3
    return np.asarray(weights @ made.positions / weights.sum(axis=1, keepdims=True))


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


def leaf_order(distances: ArrayLike) -> NDArray[np.intp]:
    """Order policies so that close ones are side by side: the leaves of an average-linkage tree.

    Gives row numbers of the distances, (n, n), in their new order. Up to 500 rows, the subtrees
    are turned such that the sum of the distances of neighbours is smallest (Bar-Joseph et al.
    2001); beyond, they are left as they come. The end with the smaller row number comes first.
    """
    d = _checked_distances(distances)
    n = len(d)
    if n <= 2:
        return np.arange(n)
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    condensed = squareform((d + d.T) / 2, checks=False)
    tree = linkage(condensed, method="average", optimal_ordering=n <= OPTIMAL_ROWS)
    order = np.asarray(leaves_list(tree), dtype=np.intp)
    return order[::-1].copy() if order[0] > order[-1] else order


def group_order(groups: Sequence[str], steps: Sequence[int | None]) -> NDArray[np.intp]:
    """Order policies by group and then by training step.

    Groups come in order of their text, numbers in it by value (``run 2`` before ``run 10``), and
    policies without one last; no step is last in its group, and equal ones stay as given.
    """
    ranks = {name: k for k, name in enumerate(sorted(set(groups) - {""}, key=natural_key))}

    def key(i: int) -> tuple[int, bool, int]:
        step = steps[i]
        return ranks.get(groups[i], len(ranks)), step is None, step or 0

    return np.array(sorted(range(len(groups)), key=key), dtype=np.intp)


def blocks_of(groups: Sequence[str]) -> list[tuple[str, int, int]]:
    """Stretches of equal groups as (group, first row, row after the last)."""
    cuts = [i for i in range(len(groups)) if i == 0 or groups[i] != groups[i - 1]]
    return [(groups[a], a, b) for a, b in zip(cuts, [*cuts[1:], len(groups)], strict=True)]


def has_groups(groups: Sequence[str]) -> bool:
    """Return whether groups divide the rows into blocks worth keeping together."""
    names = set(groups)
    return 1 <= len(names - {""}) <= max(1, len(groups) / 1.5) and len(names) > 1


def heatmap_order(d: Array, groups: Sequence[str], by_group: Indices) -> Indices:
    """Order policies so that similar ones are neighbours, but runs stay together.

    ``by_group`` is their order by group and training step; groups of small mean distance come side
    by side. Without groups, policies follow `leaf_order`.
    """
    if not has_groups(groups):
        return leaf_order(d) if len(groups) <= MAX_LEAVES else np.arange(len(groups))
    blocks = blocks_of([groups[i] for i in by_group])
    if len(blocks) > MAX_LEAVES:
        return by_group
    starts = np.array([start for _, start, _ in blocks])
    counts = np.array([stop - start for _, start, stop in blocks], dtype=np.float64)
    pieces = [by_group[start:stop] for _, start, stop in blocks]
    means = np.array(
        [np.add.reduceat(d[piece].mean(axis=0)[by_group], starts) / counts for piece in pieces]
    )
    return np.concatenate([pieces[k] for k in leaf_order((means + means.T) / 2)])
