"""Behaviours: classes of policies that cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pivec.policies import natural_key
from pivec.statistics.intervals import RATE, benjamini_hochberg

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Behaviours:
    """Policies in classes; the largest class is number 1.

    No two policies of a class are told apart, at a false discovery rate over all pairs. It does
    not follow that they are the same, nor that policies of different classes are told apart:
    being alike is not transitive. More episodes tell more apart, and give more classes.
    """

    # The class of each policy, from 1; None where it has too few episodes for a test.
    numbers: tuple[int | None, ...]
    # The policy in the middle of each class: with the smallest sum of distances to the others.
    medoids: tuple[int, ...]
    rate: float  # of false discoveries: at most so many of the pairs told apart are the same

    def __len__(self) -> int:
        return len(self.medoids)

    @property
    def n_policies(self) -> int:
        """Policies that have a class."""
        return sum(number is not None for number in self.numbers)


def behaviours(
    p_values: Array, distances: Array, labels: Sequence[str], rate: float = RATE
) -> Behaviours:
    """Put policies into classes in which no two are told apart.

    Classes are joined, those least told apart first, as long as no two policies of both are told
    apart (complete linkage on p-values, cut where Benjamini and Hochberg's rule cuts). There may
    be other such classes; these do not depend on the order of the policies.

    Parameters
    ----------
    p_values : (n, n) array
        Of "the same behaviour", symmetric; NaN where it is not known.
    distances : (n, n) array
        To find the policy in the middle of a class.
    labels : n texts
        Names of the policies, all different.
    rate : float
        False discovery rate.

    Examples
    --------
    >>> p = np.array([[1.0, 0.6, 1e-4], [0.6, 1.0, 1e-5], [1e-4, 1e-5, 1.0]])
    >>> behaviours(p, 1.0 - p, ["a", "b", "c"]).numbers
    (1, 1, 2)
    """
    known = np.flatnonzero(~np.isnan(p_values).all(axis=1, where=~np.eye(len(labels), dtype=bool)))
    if len(labels) == 1:
        known = np.arange(1)
    order = np.array(sorted(known.tolist(), key=lambda i: (natural_key(labels[i]), labels[i])))
    classes: dict[int, list[int]] = {}
    for i, number in zip(order.tolist(), _linked(p_values, order, rate), strict=True):
        classes.setdefault(number, []).append(i)
    middles = [_middle(distances, rows) for rows in classes.values()]
    ranked = sorted(
        zip(middles, classes.values(), strict=True),
        key=lambda pair: (-len(pair[1]), natural_key(labels[pair[0]]), labels[pair[0]]),
    )
    numbers: list[int | None] = [None] * len(labels)
    for number, (_, rows) in enumerate(ranked, start=1):
        for i in rows:
            numbers[i] = number
    return Behaviours(tuple(numbers), tuple(middle for middle, _ in ranked), rate)


def _middle(distances: Array, rows: list[int]) -> int:
    sums = distances[np.ix_(rows, rows)].sum(axis=1)
    # Of two that are equal but for rounding, as those of a class of two, the first.
    return rows[int((sums <= sums.min() + 1e-9 * np.abs(sums).max()).argmax())]


def _linked(p_values: Array, order: NDArray[np.intp], rate: float) -> list[int]:
    """Cut the complete-linkage tree of the policies of ``order`` where pairs are told apart."""
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(order) < 2:
        return [1] * len(order)
    i, j = np.triu_indices(len(order), 1)
    p = p_values[order[i], order[j]]
    apart = benjamini_hochberg(p) <= rate
    # Pairs told apart are farther than all others.
    heights = np.where(apart, 2.0, 1.0 - p)
    return [int(number) for number in fcluster(linkage(heights, "complete"), 1.5, "distance")]
