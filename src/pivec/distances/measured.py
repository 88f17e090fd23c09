"""What is worth knowing of all distances, in memory that does not grow with their number.

Up to some thousand policies the whole matrix is kept. Beyond, it is gone through by rows: each
policy keeps its nearest others, exactly, and the whole keeps its most notable pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pivec.distances.method import Described, Method
from pivec.distances.pairs import Pair, farthest_pairs, nearest_pairs
from pivec.distances.travel import Travel, travels
from pivec.policies.policy import canonical_order

# 4000² float64 distances are 128 MB.
WHOLE = 4000
_ROWS_BYTES = 128 << 20


@dataclass(frozen=True)
class Measured:
    """Distances of policies to each other."""

    matrix: NDArray[np.float64] | None  # all distances; None where there are too many policies
    neighbours: NDArray[np.intp]  # the k nearest others of each policy, nearest first
    neighbour_distances: NDArray[np.float64]
    nearest: list[Pair]  # the most notable pairs
    farthest: list[Pair]
    travels: list[Travel]  # the distance along each run


def measure(
    method: Method,
    described: Described,
    *,
    k: int = 20,
    pairs: int = 10,
    whole: int = WHOLE,
) -> Measured:
    """Measure all distances between policies that ``method`` described.

    Kept are the ``k`` nearest others of each policy, so many nearest and farthest pairs, and the
    whole matrix for up to ``whole`` policies.
    """
    n = len(described)
    k = min(k, n - 1)
    matrix = method.distances(described) if n <= whole else None
    order = np.arange(n) if matrix is not None else canonical_order(described.policies)
    ordered = described.select(order)
    rows = n if matrix is not None else max(1, _ROWS_BYTES // (8 * n))
    neighbours: list[tuple[NDArray[np.intp], NDArray[np.float64]]] = []
    near: list[Pair] = []
    far: list[Pair] = []
    for start in range(0, n, rows):
        block = matrix
        if block is None:
            block = method.distances(ordered.select(range(start, min(start + rows, n))), ordered)
        neighbours.append(nearest_of_rows(block, start, k))
        near += nearest_pairs(block, pairs, first=start)
        far += farthest_pairs(block, pairs, first=start)

    def distance(i: int, j: int) -> float:
        return float(method.distances(described.select([i]), described.select([j]))[0, 0])

    def given(pair: Pair) -> Pair:
        """Tell a pair by the numbers of the policies as they came."""
        i, j = sorted(order[list(pair[:2])].tolist())
        return i, j, pair[2]

    back = np.argsort(order)
    indices, distances = (np.concatenate(part)[back] for part in zip(*neighbours, strict=True))
    return Measured(
        matrix,
        order[indices],
        distances,
        [given(pair) for pair in sorted(near, key=lambda pair: pair[2])[:pairs]],
        [given(pair) for pair in sorted(far, key=lambda pair: -pair[2])[:pairs]],
        travels(described.groups, described.steps, distance if matrix is None else matrix),
    )


def nearest_of_rows(
    block: NDArray[np.float64], first: int, k: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Find the k nearest others in rows ``first``, ``first + 1``, ... of a matrix of distances."""
    others = block.copy()
    own = np.arange(len(block))
    others[own, own + first] = np.inf
    indices = np.argpartition(others, max(k - 1, 0), axis=1)[:, :k]
    distances = np.take_along_axis(others, indices, axis=1)
    order = np.lexsort((indices, distances), axis=1)
    return np.take_along_axis(indices, order, axis=1), np.take_along_axis(distances, order, axis=1)
