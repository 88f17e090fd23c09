"""MAP adaptation of weights and variances too: Reynolds 2000, equations 11 and 13, centred."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData
from pivec.mixtures.accumulate import accumulate, check_starts
from pivec.mixtures.adapt import check_relevance
from pivec.mixtures.mixture import Mixture
from pivec.mixtures.source import StateSource, as_source, numbered_blocks

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FullStatistics:
    """Counts, centred sums and centred squares of every policy, see `Statistics`.

    Attributes
    ----------
    counts : array of shape (P, K)
    sums, squares : arrays of shape (P, K, D)
    """

    counts: Array
    sums: Array
    squares: Array


def full_statistics(
    states: StateSource | NDArray[Any],
    policy_starts: NDArray[np.int64],
    mixture: Mixture,
    *,
    device: str = "auto",
) -> FullStatistics:
    """Statistics of every policy with squares, in one pass over the states.

    Parameters
    ----------
    states : StateSource or array of shape (n, D)
        Raw states of all policies, one after another.
    policy_starts : array of shape (P + 1,)
        First state of each policy, then the number of states.
    mixture : Mixture
        The background model.
    device : str
        See `pivec.mixtures.engine_name`.

    Examples
    --------
    >>> mixture = Mixture([1.0], [[0.0]], [[1.0]], [0.0], [1.0])
    >>> full_statistics(np.array([[1.0], [2.0], [3.0]]), [0, 2, 3], mixture).squares.ravel()
    array([5., 9.])
    """
    source = as_source(states)
    if source.n_features != mixture.n_features:
        raise BadData(
            f"states for this mixture must have {mixture.n_features} features, "
            f"but have {source.n_features}."
        )
    starts = check_starts(policy_starts, source.n_states, "policy_starts")
    shape = (len(starts) - 1, *mixture.means.shape)
    counts, sums, squares = np.zeros(shape[:2]), np.zeros(shape), np.zeros(shape)
    for first, block in numbered_blocks(source):
        last = first + len(block)
        # Policies that overlap the block; statistics of the parts of one that is cut add up.
        p0 = int(np.searchsorted(starts, first, side="right")) - 1
        p1 = int(np.searchsorted(starts, last, side="left"))
        for p in range(p0, p1):
            piece = block[max(starts[p] - first, 0) : starts[p + 1] - first]
            if len(piece):
                part = accumulate(piece, mixture, device=device)
                counts[p] += part.counts
                sums[p] += part.sums
                squares[p] += part.squares
    return FullStatistics(counts, sums, squares)


def map_weights(
    counts: NDArray[Any], mixture: Mixture, relevance: float | NDArray[Any] = 16.0
) -> Array:
    """Adapted weights of every policy, shape (P, K): positive, with sum 1.

    Reynolds 2000, eq. 11: (α n/T + (1 − α) w) γ, where T is the number of the policy's states and
    γ makes the sum 1.

    Examples
    --------
    >>> mixture = Mixture([0.5, 0.5], [[-1.0], [1.0]], [[1.0], [1.0]], [0.0], [1.0])
    >>> map_weights(np.array([[16.0, 0.0]]), mixture)
    array([[0.6, 0.4]])
    """
    check_relevance(relevance)
    n = np.asarray(counts, dtype=np.float64)
    total = n.sum(axis=1, keepdims=True)
    observed = np.divide(n, total, out=np.zeros_like(n), where=total > 0)
    alpha = n / (n + relevance)
    weights = alpha * observed + (1 - alpha) * mixture.weights
    # A component of weight zero has no data either: the least number keeps its logarithm finite.
    weights = np.maximum(weights, np.finfo(np.float64).tiny)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def map_variances(
    statistics: FullStatistics,
    offsets: Array,
    mixture: Mixture,
    relevance: float | NDArray[Any] = 16.0,
    floor: float = 1e-6,
) -> Array:
    """Adapted variances of every policy in standardised units, shape (P, K, D).

    Reynolds 2000, eq. 13, is α E[x²] + (1 − α)(σ² + μ²) − μ̂². Seen from the background's mean,
    with the centred squares s and the offset o = μ̂ − μ, it is σ² (s + ρ)/(n + ρ) − o²: no large
    μ² cancels, and nothing is divided by a count that may be zero.

    Parameters
    ----------
    statistics : FullStatistics
    offsets : array of shape (P, K, D)
        Adapted minus background means, of `map_offsets` with the same relevance factor.
    mixture : Mixture
    relevance : float or array of shape (P, 1)
        The relevance factor ρ.
    floor : float
        The least variance, in standardised units.

    Examples
    --------
    >>> mixture = Mixture([1.0], [[0.0]], [[1.0]], [0.0], [1.0])
    >>> statistics = full_statistics(np.array([[-2.0], [2.0]] * 8), [0, 16], mixture)
    >>> map_variances(statistics, np.zeros((1, 1, 1)), mixture)  # half way from 1 to 4
    array([[[2.5]]])
    """
    check_relevance(relevance)
    rho = np.asarray(relevance, dtype=np.float64)[..., None]
    n = statistics.counts[..., None]
    spread = mixture.variances * (statistics.squares + rho) / (n + rho)
    return np.maximum(spread - offsets**2, floor)
