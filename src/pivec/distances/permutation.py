"""The permutation test: were two policies the same, it would not matter whose an episode is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_ROUNDING = 1e-9  # of a distance: equal divisions must count as equal


@dataclass(frozen=True)
class PermutationTest:
    """The outcome of a test of "the same behaviour"."""

    p_value: float  # how often chance alone gives a distance at least as large
    distance: float
    permutations: int


def sides(n_a: int, n_b: int, permutations: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Divide n_a + n_b episodes anew: a row a division, True on the side of ``a``; first the true.

    Examples
    --------
    >>> sides(1, 2, 3, np.random.default_rng(0)).sum(axis=1)
    array([1, 1, 1, 1])
    """
    true = np.arange(n_a + n_b) < n_a
    return np.concatenate([true[None], rng.permuted(np.tile(true, (permutations, 1)), axis=1)])


def mean_differences(influences: Array, divisions: NDArray[np.bool_]) -> Array:
    """Squared distances of the mean influences of the two sides of each division.

    The points of a side are, to first order, those of all episodes together and the mean of its
    influences. From products of influences, |Σ c_e I_e|² is cᵀGc, one matrix product for all.
    """
    n_a = divisions[0].sum()
    weights = np.where(divisions, 1.0 / n_a, -1.0 / (divisions.shape[1] - n_a))
    gram = influences @ influences.copy().T
    return np.asarray(np.einsum("de,de->d", weights @ gram, weights))


def share_as_large(distances: Array) -> float:
    """P-value of the first distance among all: exact whatever the distribution of the episodes.

    Examples
    --------
    >>> share_as_large(np.array([3.0, 1.0, 3.0, 2.0]))
    0.5
    """
    return float((distances >= distances[0] * (1.0 - _ROUNDING)).mean())
