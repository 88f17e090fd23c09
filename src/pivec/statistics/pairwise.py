"""Distances between all rows of two sets, in closed form, on all cores or a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.parallel import run_tasks, single_threaded_blas, torch_device

# Rows of a tile: 1024 × 1024 float64 results are 8 MB, and the product runs at full speed. Fewer
# rows make smaller tiles, so that there is work for all cores and a mirrored half to skip.
_TILE = 1024
_LEAST_TILE, _TILES = 128, 6
# |x|² + |y|² − 2xy is off by about 1e-16 of the squared norms. Below this share of them, a distance
# would have fewer than six digits, and is recomputed from the difference itself.
_NEAR = 1e-9

Array = NDArray[np.float64]


def squared_euclidean(
    a: Array, b: Array | None = None, *, out: Array | None = None, device: str = "cpu"
) -> Array:
    """Squared Euclidean distances of all rows of ``a`` to all of ``b`` (or of ``a``).

    Small distances keep their digits. Needs some tens of megabytes besides the result, which is
    written to ``out`` if given, for example a memory map. Without ``b`` each pair is computed once.
    The ``device`` "cuda" computes on the GPU, any other on the CPU.
    """
    other = a if b is None else b
    same = other is a
    shape = (len(a), len(other))
    result = np.empty(shape) if out is None else out
    if device == "cuda":
        place = torch_device(device)
        import torch

        tensors = (torch.as_tensor(rows, dtype=torch.float64, device=place) for rows in (a, other))
        result[:] = squared_euclidean_tensor(*tensors).cpu().numpy()
        return result
    norms_a = np.einsum("ij,ij->i", a, a)
    norms_b = norms_a if same else np.einsum("ij,ij->i", other, other)
    size = min(_TILE, max(_LEAST_TILE, -(-max(shape) // _TILES)))
    corners = [
        (i, j) for i in range(0, shape[0], size) for j in range(i if same else 0, shape[1], size)
    ]

    def work(task: int) -> None:
        i, j = corners[task]
        rows, columns = slice(i, i + size), slice(j, j + size)
        tile = _tile(a[rows], other[columns], norms_a[rows], norms_b[columns])
        result[rows, columns] = tile
        if same and i != j:
            result[columns, rows] = tile.T
        elif same:
            # Both halves of a tile on the diagonal come from one, so that they are equal.
            lower = np.tril_indices(len(tile), -1)
            result[rows, columns][lower] = tile.T[lower]

    # One worker per core with single-threaded products: threads inside products this small wait for
    # each other.
    with single_threaded_blas():
        run_tasks(work, len(corners))
    return result


def paired_squares(a: Array, b: Array, i: NDArray[np.intp], j: NDArray[np.intp]) -> Array:
    """Squared Euclidean distances of rows a[i] to rows b[j], one per pair."""
    result = np.empty(len(i))
    for start in range(0, len(i), _TILE):
        part = slice(start, start + _TILE)
        gap = a[i[part]] - b[j[part]]
        result[part] = np.einsum("ij,ij->i", gap, gap)
    return result


def arranged(matrix: Array, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Array:
    """Reorder rows and columns; a matrix that is in order already is not copied."""
    both = zip(matrix.shape, (rows, columns), strict=True)
    in_order = all(np.array_equal(order, np.arange(n)) for n, order in both)
    return matrix if in_order else matrix[np.ix_(rows, columns)]


def _tile(left: Array, right: Array, norms_left: Array, norms_right: Array) -> Array:
    # A copy where both are the same rows: x @ x.T takes BLAS's SYRK path, which crashes in some
    # builds.
    same = len(left) == len(right) and left.ctypes.data == right.ctypes.data
    tile = left @ (right.copy() if same else right).T
    tile *= -2.0
    scale = norms_left[:, None] + norms_right
    tile += scale
    scale *= _NEAR
    if same:
        np.fill_diagonal(tile, 0.0)
        np.fill_diagonal(scale, 0.0)  # known, and not to be computed again
    near_i, near_j = np.nonzero(tile < scale)
    for start in range(0, len(near_i), _TILE):
        i, j = near_i[start : start + _TILE], near_j[start : start + _TILE]
        gap = left[i] - right[j]
        tile[i, j] = np.einsum("ij,ij->i", gap, gap)
    return tile


def _by_rows(
    shape: tuple[int, int],
    same: bool,
    tile: int,
    distances: Callable[[int, slice], Array],
) -> Array:
    """Fill a matrix row by row on all cores; ``distances(i, columns)`` is a piece of row i."""
    result = np.empty(shape)

    def work(i: int) -> None:
        for j in range(i if same else 0, shape[1], tile):
            columns = slice(j, j + tile)
            result[i, columns] = distances(i, columns)
            if same:
                result[columns, i] = result[i, columns]

    run_tasks(work, shape[0])
    return result


def symmetric_kl_diagonal(
    means_a: Array, variances_a: Array, means_b: Array, variances_b: Array
) -> Array:
    """KL(a || b) + KL(b || a) of diagonal Gaussians, for all pairs of rows.

    The logarithms of the two directions cancel, which leaves, for each feature,
    ½ (v_a/v_b + v_b/v_a + (m_a − m_b)² (1/v_a + 1/v_b)) − 1
    = ½ ((v_a − v_b)² / (v_a v_b) + (m_a − m_b)² (1/v_a + 1/v_b)).
    """
    same = means_b is means_a and variances_b is variances_a
    precisions_a = 1.0 / variances_a
    precisions_b = precisions_a if same else 1.0 / variances_b

    # One row at a time against all others: (m, d) temporaries, and no cancellation.
    def row(i: int, columns: slice) -> Array:
        terms = variances_b[columns] - variances_a[i]
        terms *= terms
        terms *= precisions_b[columns]
        gaps = means_b[columns] - means_a[i]
        gaps *= gaps
        terms += gaps
        sums = terms @ precisions_a[i]
        sums += np.einsum("ij,ij->i", gaps, precisions_b[columns])
        return np.asarray(0.5 * sums)

    return _by_rows((len(means_a), len(means_b)), same, max(1, len(means_b)), row)


def euclidean(a: Array, b: Array | None = None) -> Array:
    """Euclidean distances of all rows of ``a`` to all of ``b`` (or of ``a``)."""
    result = squared_euclidean(a, b)
    return np.sqrt(result, out=result)


def total_variation(a: Array, b: Array) -> Array:
    """½ Σ |x − y| for all pairs of rows."""
    from scipy.spatial.distance import cdist

    return np.asarray(0.5 * cdist(a, b, "cityblock"))


def symmetric_kl_full(
    means_a: Array, covariances_a: Array, means_b: Array, covariances_b: Array
) -> Array:
    """KL(a || b) + KL(b || a) of Gaussians with full covariances, for all pairs.

    The logarithms of the two directions cancel. What is left, with precisions P = S⁻¹, is
    ½ (tr((S_a − S_b)(P_b − P_a)) + (m_a − m_b)ᵀ (P_a + P_b) (m_a − m_b)),
    a form in differences: close Gaussians keep their digits.

    Covariances are positive definite.
    """
    same = means_b is means_a and covariances_b is covariances_a
    precisions_a = _inverses(covariances_a)
    precisions_b = precisions_a if same else _inverses(covariances_b)

    def row(i: int, columns: slice) -> Array:
        spread = covariances_a[i] - covariances_b[columns]
        spread *= precisions_b[columns] - precisions_a[i]
        gap = means_a[i] - means_b[columns]
        both = precisions_a[i] + precisions_b[columns]
        shift = np.einsum("ij,ij->i", (both @ gap[:, :, None])[:, :, 0], gap)
        return np.asarray(np.maximum(0.5 * (spread.sum(axis=(1, 2)) + shift), 0.0))

    return _by_rows((len(means_a), len(means_b)), same, _TILE, row)


def _inverses(covariances: Array) -> Array:
    """Invert positive definite matrices through their Cholesky factors, (n, d, d)."""
    factors = np.linalg.inv(np.linalg.cholesky(covariances))
    return np.asarray(np.swapaxes(factors, 1, 2) @ factors)


def matched_kl(
    weights_a: Array,
    means_a: Array,
    variances_a: Array,
    weights_b: Array,
    means_b: Array,
    variances_b: Array,
) -> Array:
    """Upper bound of the KL divergence of two mixtures, both ways summed, for all pairs.

    Components are matched by number: Σ_k w_k (log(w_k/w′_k) + KL(N_k || N′_k)), and the same with
    the two exchanged (Do 2003). The logarithms of both ways are joined, so that each term is a
    product of differences: for each component
    (w − w′)(log w − log w′) + ½ Σ_d (w (r − 1 − log r) + w′ (1/r − 1 + log r)
    + (μ − μ′)² (w/v′ + w′/v)), with r = v/v′.

    Variances may be (1, K, D) if all are the same.
    """
    shared = len(variances_a) == 1 and variances_a is variances_b
    same = weights_a is weights_b and means_a is means_b and variances_a is variances_b
    logs_a, logs_b = np.log(weights_a), np.log(weights_b)
    variances_a = np.broadcast_to(variances_a, means_a.shape)
    variances_b = np.broadcast_to(variances_b, means_b.shape)

    def row(i: int, columns: slice) -> Array:
        w, other = weights_a[i], weights_b[columns]
        terms = (w - other) * (logs_a[i] - logs_b[columns])
        gaps = np.square(means_a[i] - means_b[columns])
        if shared:
            terms += 0.5 * (w + other) * (gaps / variances_a[i]).sum(axis=2)
        else:
            v, v_other = variances_a[i], variances_b[columns]
            excess, deficit = _log_excess((v - v_other) / v_other), _log_excess((v_other - v) / v)
            forth = w * (excess + gaps / v_other).sum(axis=2)
            back = other * (deficit + gaps / v).sum(axis=2)
            terms += 0.5 * (forth + back)
        return np.asarray(np.maximum(terms.sum(axis=1), 0.0))

    tile = max(1, (1 << 20) // max(1, int(np.prod(means_b.shape[1:]))))
    return _by_rows((len(means_a), len(means_b)), same, tile, row)


def _log_excess(x: Array) -> Array:
    """Give x − log(1 + x), never negative; where x is tiny only few digits of it are left."""
    return np.maximum(x - np.log1p(x), 0.0)


# On a GPU: rows of a stripe of the result, and pairs recomputed at a time.
_ROWS, _PAIRS = 4096, 65_536


def squared_euclidean_tensor(left: Any, right: Any, near: float = 1e-9) -> Any:
    """Squared Euclidean distances of all rows of two tensors, like `squared_euclidean`."""
    import torch

    norms, others = ((rows * rows).sum(dim=1) for rows in (left, right))
    result = left.new_empty(len(left), len(right))
    for start in range(0, len(left), _ROWS):
        rows = slice(start, start + _ROWS)
        scale = norms[rows, None] + others
        stripe = torch.addmm(scale, left[rows], right.T, alpha=-2.0, out=result[rows])
        i, j = (stripe < scale.mul_(near)).nonzero(as_tuple=True)
        for first in range(0, len(i), _PAIRS):
            pairs = slice(first, first + _PAIRS)
            gap = left[rows][i[pairs]] - right[j[pairs]]
            stripe[i[pairs], j[pairs]] = (gap * gap).sum(dim=1)
    return result
