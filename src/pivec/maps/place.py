"""New policies in an existing map: the map stays as it is."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.arguments import Count, checked
from pivec.errors import BadData
from pivec.maps.neighbours import nearest
from pivec.maps.optimise import embed_new, threads_for
from pivec.maps.tsne import checked_vectors

Array = NDArray[np.float64]

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
