"""The order of policies in a heatmap: alike beside alike, or run by run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import UsageError
from pivec.policies import natural_key
from pivec.report.layout import checked_distances

# Optimal leaf ordering takes time with the square of the rows and more; beyond, the plain tree.
OPTIMAL_ROWS = 500


def leaf_order(distances: ArrayLike) -> NDArray[np.intp]:
    """Order policies so that close ones are side by side: the leaves of an average-linkage tree.

    Gives row numbers of the distances, (n, n), in their new order. Up to 500 rows, the subtrees
    are turned such that the sum of the distances of neighbours is smallest (Bar-Joseph et al.
    2001); beyond, they are left as they come. The end with the smaller row number comes first.

    Examples
    --------
    >>> leaf_order([[0, 9, 1], [9, 0, 7], [1, 7, 0]])
    array([0, 2, 1])
    """
    d = checked_distances(distances)
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
    if len(groups) != len(steps):
        raise UsageError(
            f"groups and steps must have one entry a policy each, but have {len(groups)} and "
            f"{len(steps)}"
        )

    ranks = {name: k for k, name in enumerate(sorted(set(groups) - {""}, key=natural_key))}

    def key(i: int) -> tuple[int, bool, int]:
        step = steps[i]
        return ranks.get(groups[i], len(ranks)), step is None, step or 0

    return np.array(sorted(range(len(groups)), key=key), dtype=np.intp)
