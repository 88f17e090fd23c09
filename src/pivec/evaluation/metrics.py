"""The paper's three metrics of a characterization, from matrices of distances (Section 6.2).

Only pairs of different policies count: the upper triangle without the diagonal. With fewer than
three policies there is no relation between distances to judge, and all three are NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import BadData, UsageError

Array = NDArray[np.float64]
FEWEST_POLICIES = 3


def return_correlation(distances: ArrayLike, mean_returns: ArrayLike) -> float:
    """Pearson correlation of distances with the differences of the policies' mean returns.

    NaN where it has no meaning: a mean return is not known, or all distances, or all differences
    of returns, are the same.

    Examples
    --------
    >>> d = [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    >>> return_correlation(d, [0.0, 5.0, 10.0])
    1.0
    """
    d = checked_distances(distances)
    returns = np.asarray(mean_returns, dtype=np.float64)
    if returns.shape != (len(d),):
        raise UsageError(
            f"expected one mean return for each of the {len(d)} policies, but got shape "
            f"{returns.shape}"
        )
    if len(d) < FEWEST_POLICIES or not np.isfinite(returns).all():
        return np.nan
    far, apart = _pairs(d), _pairs(np.abs(returns[:, None] - returns[None, :]))
    if np.ptp(far) == 0.0 or np.ptp(apart) == 0.0:
        return np.nan
    # Scaled first, so that squares of very large or very small distances stay in range.
    return float(np.corrcoef(far / np.abs(far).max(), apart / apart.max())[0, 1])


def min_max(distances: ArrayLike) -> Array:
    """Shift and scale distances to [0, 1], by the least and the largest of the whole matrix.

    NaN everywhere if all are the same: then nothing is relative to anything.

    Examples
    --------
    >>> min_max([[0, 4], [4, 0]])
    array([[0., 1.],
           [1., 0.]])
    """
    d = checked_distances(distances)
    low, high = (float(d.min()), float(d.max())) if d.size else (0.0, 0.0)
    if low == high:
        return np.full_like(d, np.nan)
    # Scaled first: the difference of huge distances may be too large for a float.
    largest = max(abs(low), abs(high))
    result: Array = (d / largest - low / largest) / (high / largest - low / largest)
    return result


def pair_errors(distances: ArrayLike, anchor: ArrayLike) -> Array:
    """Relative difference of each pair from the anchor's distance, in percent, both normalised.

    The anchor is the distance with the most data. Pairs whose normalised distance is 0 in it have
    no relative error and are NaN, as all are if a matrix is constant.

    Examples
    --------
    >>> anchor = np.array([[0, 2, 4], [2, 0, 4], [4, 4, 0]])
    >>> pair_errors([[0, 3, 4], [3, 0, 4], [4, 4, 0]], anchor)
    array([50.,  0.,  0.])
    """
    d, truth = min_max(distances), min_max(anchor)
    if d.shape != truth.shape:
        raise UsageError(
            f"expected distances of the anchor's {len(truth)} policies, but these are of {len(d)}"
        )
    values, true = _pairs(d), _pairs(truth)
    true[true == 0.0] = np.nan
    if len(d) < FEWEST_POLICIES:
        true[:] = np.nan
    return np.asarray(100.0 * np.abs(values - true) / true)


def distance_error(distances: ArrayLike, anchor: ArrayLike) -> float:
    """Mean of `pair_errors`, without pairs that have none; NaN if no pair is left.

    Examples
    --------
    >>> anchor = np.array([[0, 2, 4], [2, 0, 4], [4, 4, 0]])
    >>> distance_error(10 * anchor, anchor)
    0.0
    >>> distance_error([[0, 3, 4], [3, 0, 4], [4, 4, 0]], anchor)  # 50 %, 0 and 0
    16.666...
    """
    return mean_known(pair_errors(distances, anchor))


def mean_known(values: Array) -> float:
    """Mean of what is not NaN; NaN if nothing is left."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan


def told_apart(anchor: ArrayLike, halves: ArrayLike) -> NDArray[np.bool_]:
    """Tell which pairs are farther apart than either policy is from itself.

    ``halves`` has the distance between two halves of each policy's trajectories.

    Examples
    --------
    >>> told_apart([[0, 3, 4], [3, 0, 1], [4, 1, 0]], [1, 2, 1])
    array([ True,  True, False])
    """
    own = np.asarray(halves, dtype=np.float64)
    return np.asarray(_pairs(checked_distances(anchor)) > _pairs(np.maximum.outer(own, own)))


def distance_variance(repetitions: Sequence[ArrayLike]) -> float:
    """Mean coefficient of variation of the normalised distances over repetitions.

    For each pair the standard deviation (of the repetitions themselves, not an estimate for
    more) over the mean; pairs whose mean is 0 are left out. NaN with fewer than two repetitions,
    if no pair is left, or if a matrix is constant.

    Examples
    --------
    >>> d = np.array([[0, 2, 4], [2, 0, 4], [4, 4, 0]])
    >>> distance_variance([d, 3 * d])
    0.0
    """
    matrices = [min_max(matrix) for matrix in repetitions]
    sizes = sorted({len(matrix) for matrix in matrices})
    if len(sizes) > 1:
        raise UsageError(
            "expected distances of the same policies in every repetition, but there are "
            + " and ".join(map(str, sizes))
        )
    if len(matrices) < 2 or sizes[0] < FEWEST_POLICIES:
        return np.nan
    values = np.stack([_pairs(matrix) for matrix in matrices])
    means = values.mean(axis=0)
    kept = means != 0.0
    if not kept.any():
        return np.nan
    return float(np.mean(values[:, kept].std(axis=0) / means[kept]))


def checked_distances(distances: ArrayLike) -> Array:
    """Refuse what is not a square matrix of finite numbers."""
    d = np.asarray(distances, dtype=np.float64)
    if d.ndim != 2 or d.shape[0] != d.shape[1]:
        raise UsageError(f"distances must be a square matrix, but have shape {d.shape}")
    if not np.isfinite(d).all():
        raise BadData(
            f"distances must be finite, but {int((~np.isfinite(d)).sum())} of {d.size} are not: "
            "look for policies whose states are constant or huge"
        )
    return d


def _pairs(matrix: Array) -> Array:
    return np.asarray(matrix[np.triu_indices(len(matrix), k=1)])
