"""MAP adaptation of many policies: their statistics in one pass, and the offsets of their means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, UsageError
from pivec.mixtures.accumulate import check_starts
from pivec.mixtures.accumulate import kernel as kernel_of
from pivec.mixtures.fold import Fold
from pivec.mixtures.mixture import Mixture
from pivec.mixtures.source import StateSource, as_source, numbered_blocks
from pivec.progress import Progress

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EpisodeMoments:
    """Sums over the episodes e of a policy, for standard errors without a second pass.

    Attributes
    ----------
    nn : array of shape (P, K)
        Σ_e n², where n is the count of one component in episode e.
    nf, ff : arrays of shape (P, K, D)
        Σ_e n·f and Σ_e f², where f is the centred sum of one component in episode e.
    """

    nn: Array
    nf: Array
    ff: Array


@dataclass(frozen=True, eq=False)
class PolicyStatistics:
    """Counts and centred sums of every policy about one mixture, see `Statistics`.

    Attributes
    ----------
    counts : array of shape (P, K)
        n = Σ r over the policy's states.
    sums : array of shape (P, K, D)
        f = Σ r (x − μ)/σ over the policy's states.
    n_episodes : array of shape (P,)
        Episodes of each policy.
    moments : EpisodeMoments or None
        Sums over episodes, if they were asked for.
    """

    counts: Array
    sums: Array
    n_episodes: NDArray[np.int64]
    moments: EpisodeMoments | None = None


def policy_statistics(
    states: StateSource | NDArray[Any],
    episode_starts: NDArray[np.int64],
    policy_starts: NDArray[np.int64],
    mixture: Mixture,
    *,
    episode_moments: bool = False,
    device: str = "auto",
    progress: bool = False,
) -> PolicyStatistics:
    """Statistics of every policy in one pass over the states.

    Parameters
    ----------
    states : StateSource or array of shape (n, D)
        Raw states of all policies, one after another.
    episode_starts : array of shape (E + 1,)
        First row of each episode, then the number of states.
    policy_starts : array of shape (P + 1,)
        First episode of each policy, then the number of episodes.
    mixture : Mixture
        The background model.
    episode_moments : bool
        Also sum n², n·f and f² over the episodes of each policy.
    device : str
        See `pivec.mixtures.engine_name`.
    progress : bool
        Draw a bar of states.

    Returns
    -------
    PolicyStatistics
        One row a policy; a policy without states has zeros.

    Examples
    --------
    >>> import numpy as np
    >>> mixture = Mixture([0.5, 0.5], [[-1.0], [1.0]], [[0.1], [0.1]], [0.0], [1.0])
    >>> states = np.array([[-1.0], [1.0], [1.0]])
    >>> statistics = policy_statistics(states, [0, 1, 2, 3], [0, 1, 3], mixture, device="numpy")
    >>> statistics.counts.round(3)
    array([[1., 0.], [0., 2.]])
    """
    source = as_source(states)
    if source.n_features != mixture.n_features:
        raise BadData(
            f"states for this mixture must have {mixture.n_features} features, "
            f"but have {source.n_features}."
        )
    episodes = check_starts(episode_starts, source.n_states, "episode_starts")
    policies = check_starts(policy_starts, len(episodes) - 1, "policy_starts")
    n_policies = len(policies) - 1
    if episode_moments:
        starts, owners = episodes, np.repeat(np.arange(n_policies), np.diff(policies))
    else:
        starts, owners = episodes[policies], np.arange(n_policies)
    fold = Fold(n_policies, mixture, episode_moments)
    kernel = kernel_of(device)
    with Progress("adapting", total=source.n_states, unit="states", show=progress) as bar:
        for first, block in numbered_blocks(source):
            last = first + len(block)
            # Segments that overlap the block; those it cuts are continued in the next one.
            s0 = int(np.searchsorted(starts, first, side="right")) - 1
            s1 = int(np.searchsorted(starts, last, side="left"))
            local = starts[s0 : s1 + 1] - first
            kernel.fold_segments(fold, block, local, owners[s0:s1], mixture, first)
            bar.advance(len(block))
    moments = EpisodeMoments(fold.nn, fold.nf, fold.ff) if episode_moments else None
    return PolicyStatistics(fold.counts, fold.sums, np.diff(policies), moments)


def policy_relevance(
    counts: NDArray[Any], relevance: float = 16.0, common_total: float | None = None
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
    check_relevance(relevance)
    check_common_total(common_total)
    total = np.asarray(counts, dtype=np.float64).sum(axis=1, keepdims=True)
    if common_total is None:
        return np.full_like(total, relevance)
    return np.where(total > 0, relevance * total / common_total, relevance)


def check_relevance(relevance: float | NDArray[Any]) -> None:
    """Refuse a relevance factor that is not positive."""
    if not np.all(np.asarray(relevance) > 0):
        raise UsageError(f"the relevance factor must be positive, but is {relevance}.")


def check_common_total(common_total: float | None) -> None:
    """Refuse a common total that no policy can have."""
    if common_total is not None and not 0 < common_total < np.inf:
        raise UsageError(f"common_total must be a positive number or None, but is {common_total}.")


def map_offsets(
    counts: NDArray[Any],
    sums: NDArray[Any],
    mixture: Mixture,
    relevance: float | NDArray[Any] = 16.0,
) -> Array:
    """Adapted means minus background means, in standardised units, shape (P, K, D).

    Reynolds 2000, eq. 12 and 14 with α = n / (n + ρ): the offset α σ f/n is σ f / (n + ρ), which
    needs no division by a count that may be zero. Differences between policies are then taken
    of small numbers, and keep their digits. ``relevance`` is ρ, or one for each policy, (P, 1).

    Examples
    --------
    >>> import numpy as np
    >>> mixture = Mixture([1.0], [[0.0]], [[4.0]], [0.0], [1.0])
    >>> map_offsets(np.array([[16.0]]), np.array([[[8.0]]]), mixture)
    array([[[0.5]]])
    """
    check_relevance(relevance)
    weight = np.asarray(counts + np.asarray(relevance, dtype=np.float64))[..., None]
    return np.asarray(np.sqrt(mixture.variances) * sums / weight, dtype=np.float64)
