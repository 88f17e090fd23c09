"""MAP adaptation of many policies: their statistics in one pass, and what is adapted by them.

Reynolds 2000, equations 11 to 14, in centred form: nothing large cancels, and nothing is divided
by a count that may be zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Positive, checked
from pivec.errors import BadData, UsageError
from pivec.mixtures.accumulate import Kernel, Passes
from pivec.mixtures.model import Mixture
from pivec.mixtures.source import Starts, StateSource, as_source
from pivec.states import overlapping

Array = NDArray[np.float64]
Relevance = float | NDArray[Any]
"""The relevance factor ρ: one for all policies, or one for each, (P, 1)."""


@dataclass(frozen=True, eq=False)
class PolicyStatistics:
    """Counts (P, K), centred sums and, if asked for, squares (P, K, D); see `Statistics`."""

    counts: Array
    sums: Array
    squares: Array | None = None

    @staticmethod
    def zero(n: int, mixture: Mixture, squares: bool = False) -> PolicyStatistics:
        """Statistics of so many policies without states."""
        shape = (n, *mixture.means.shape)
        return PolicyStatistics(
            np.zeros(shape[:2]), np.zeros(shape), np.zeros(shape) if squares else None
        )

    def add(self, where: int | slice, other: PolicyStatistics) -> None:
        """Add statistics to those of some policies."""
        self.counts[where] += other.counts
        self.sums[where] += other.sums
        if self.squares is not None and other.squares is not None:
            self.squares[where] += other.squares


def policy_statistics(
    states: StateSource | NDArray[Any],
    starts: Starts,
    mixture: Mixture,
    *,
    squares: bool = False,
    device: str = "auto",
) -> PolicyStatistics:
    """Statistics of every policy in one pass over the raw states, one policy after another.

    ``starts``, (P + 1,), has the first state of each policy, then the number of states; a policy
    without states has zeros. Variances need ``squares`` too.

    Examples
    --------
    >>> import numpy as np
    >>> mixture = Mixture([0.5, 0.5], [[-1.0], [1.0]], [[0.1], [0.1]], [0.0], [1.0])
    >>> states = np.array([[-1.0], [1.0], [1.0]])
    >>> policy_statistics(states, [0, 1, 3], mixture, device="numpy").counts.round(3)
    array([[1., 0.], [0., 2.]])
    """
    source = as_source(states)
    if source.n_features != mixture.n_features:
        raise BadData(
            f"states for this mixture must have {mixture.n_features} features, "
            f"but have {source.n_features}"
        )
    starts = _checked_starts(starts, source.n_states)
    passes = Passes(source, device, hold=False)
    cuts = [overlapping(starts, *span) for span in passes.spans]
    parts = [
        (*span, starts[s0 : s1 + 1] - span[0])
        for span, (s0, s1) in zip(passes.spans, cuts, strict=True)
    ]
    total = PolicyStatistics.zero(len(starts) - 1, mixture, squares)
    blocks = passes.in_order(_of_segments, parts, mixture, squares)
    for (s0, s1), block in zip(cuts, blocks, strict=True):
        total.add(slice(s0, s1), block)
    return total


def _of_segments(
    kernel: Kernel, block: Any, part: tuple[int, int, Starts], mixture: Mixture, squares: bool
) -> PolicyStatistics:
    """Statistics of the policies of a block; those of a policy that is cut add up."""
    first, last, starts = part
    result = PolicyStatistics.zero(len(starts) - 1, mixture, squares)
    if not squares:
        kernel.add_segments(block, starts, mixture, (result.counts, result.sums), first)
        return result
    for p, (low, high) in enumerate(pairwise(np.clip(starts, 0, last - first).tolist())):
        if high > low:
            own = kernel.accumulate(block[low:high], mixture, False, first + low)
            result.add(p, PolicyStatistics(own.counts, own.sums, own.squares))
    return result


def _checked_starts(starts: Any, end: int) -> Starts:
    """Give starts as int64, refusing those that do not cut 0..end into consecutive pieces."""
    result = np.ascontiguousarray(starts, dtype=np.int64)
    brief = np.array2string(result, threshold=6, edgeitems=2, separator=", ")
    if result.ndim != 1 or len(result) < 1 or result[0] != 0 or result[-1] != end:
        raise BadData(f"starts must run from 0 to {end}, but are {brief}")
    if (np.diff(result) < 0).any():
        raise BadData(f"starts must not fall, but are {brief}")
    return result


@checked
def policy_relevance(
    counts: NDArray[Any], relevance: Positive = 16.0, common_total: Positive | None = None
) -> Array:
    """Relevance factors of policies, shape (P, 1), as if all had ``common_total`` states.

    A policy of T states whose counts and sums are rescaled by N/T is adapted as with the factor
    ρ T/N. Without a common total it is ρ for all, as in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> policy_relevance(np.array([[500.0, 500.0], [50.0, 50.0]]), 16.0, common_total=1000)
    array([[16. ], [ 1.6]])
    """
    total = np.asarray(counts, dtype=np.float64).sum(axis=1, keepdims=True)
    if common_total is None:
        return np.full_like(total, relevance)
    return np.where(total > 0, relevance * total / common_total, relevance)


def _factor(relevance: Relevance) -> Array:
    """Give the relevance factor as an array, refusing one that is not positive."""
    result = np.asarray(relevance, dtype=np.float64)
    if not (result > 0).all():
        raise UsageError(f"the relevance factor must be positive, but is {relevance}")
    return result


def map_offsets(
    counts: NDArray[Any], sums: NDArray[Any], mixture: Mixture, relevance: Relevance = 16.0
) -> Array:
    """Adapted means minus background means, in standardised units, shape (P, K, D).

    Reynolds 2000, eq. 12 and 14 with α = n / (n + ρ): the offset α σ f/n is σ f / (n + ρ).
    Differences between policies are then taken of small numbers, and keep their digits.
    """
    weight = np.asarray(counts + _factor(relevance))[..., None]
    return np.asarray(np.sqrt(mixture.variances) * sums / weight, dtype=np.float64)


def map_weights(counts: NDArray[Any], mixture: Mixture, relevance: Relevance = 16.0) -> Array:
    """Adapted weights of every policy, shape (P, K): positive, with sum 1.

    Reynolds 2000, eq. 11: (α n/T + (1 − α) w) γ, where T is the number of the policy's states and
    γ makes the sum 1.
    """
    n = np.asarray(counts, dtype=np.float64)
    total = n.sum(axis=1, keepdims=True)
    observed = np.divide(n, total, out=np.zeros_like(n), where=total > 0)
    alpha = n / (n + _factor(relevance))
    weights = alpha * observed + (1 - alpha) * mixture.weights
    # A component of weight zero has no data either: the least number keeps its logarithm finite.
    weights = np.maximum(weights, np.finfo(np.float64).tiny)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def map_variances(
    statistics: PolicyStatistics,
    offsets: Array,
    mixture: Mixture,
    relevance: Relevance = 16.0,
    floor: float = 1e-6,
) -> Array:
    """Adapted variances of every policy in standardised units, at least ``floor``, (P, K, D).

    Reynolds 2000, eq. 13, is α E[x²] + (1 − α)(σ² + μ²) − μ̂². Seen from the background's mean,
    with the centred squares s and the ``offsets`` o = μ̂ − μ of `map_offsets` with the same
    relevance factor, it is σ² (s + ρ)/(n + ρ) − o².
    """
    if statistics.squares is None:
        raise UsageError("variances need statistics with squares=True")
    rho = _factor(relevance)[..., None]
    spread = mixture.variances * (statistics.squares + rho) / (statistics.counts[..., None] + rho)
    return np.maximum(spread - offsets**2, floor)
