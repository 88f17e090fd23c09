"""Fewer states for a fit: so many policies, episodes and states at most, drawn evenly."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import UsageError
from pivec.states.chunks import joined_blocks
from pivec.states.visited import VisitedStates


class ThinnedStates:
    """Some states of each policy, gathered from the data when they are needed.

    Has what a fit needs of `VisitedStates`: ``n_states``, ``n_features``, ``blocks``, ``take``.
    """

    def __init__(self, data: VisitedStates, rows: list[NDArray[np.int64]]) -> None:
        self._data, self._rows = data, rows
        self._starts = np.concatenate([[0], np.cumsum([len(some) for some in rows])])
        self.n_states = int(self._starts[-1])
        self.n_features = data.n_features

    def blocks(self, rows: int) -> Iterator[NDArray[np.float32]]:
        """Go through all states in blocks of at most ``rows``, in order."""
        pieces = (self._data.policy_states(i)[some] for i, some in enumerate(self._rows))
        return joined_blocks(pieces, rows)

    def take(self, rows: ArrayLike) -> NDArray[np.float32]:
        """Take single states by their sorted numbers."""
        wanted = np.asarray(rows, dtype=np.int64)
        policies = np.searchsorted(self._starts, wanted, side="right") - 1
        original = np.concatenate(
            [
                self._data.state_starts[i] + self._rows[i][wanted[policies == i] - self._starts[i]]
                for i in np.unique(policies).tolist()
            ]
            or [np.zeros(0, dtype=np.int64)]
        )
        return self._data.take(original)


def thin(
    data: VisitedStates,
    rng: np.random.Generator,
    *,
    max_policies: int | None = None,
    max_episodes: int | None = None,
    max_states: int | None = None,
) -> VisitedStates | ThinnedStates:
    """Draw at most so many policies, episodes of each, and states in all.

    States are drawn evenly: every policy gives the same number of them, or all it has if that is
    fewer. Nothing is copied until blocks are asked for.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[np.zeros((100, 1))], [np.ones((10, 1))]])
    >>> some = thin(data, np.random.default_rng(0), max_states=30)
    >>> np.concatenate(list(some.blocks(1000))).sum(), some.n_states
    (np.float32(10.0), 30)
    """
    for name, value in (
        ("max_policies", max_policies),
        ("max_episodes", max_episodes),
        ("max_states", max_states),
    ):
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1, but is {value}")
    if max_policies is not None and max_policies < len(data):
        data = data.select(np.sort(rng.choice(len(data), size=max_policies, replace=False)))
    if max_episodes is not None and max_episodes < np.diff(data.policy_starts).max():
        data = data.sample_episodes(max_episodes, rng, at_most=True)
    if max_states is None or max_states >= data.n_states:
        return data
    sizes = np.diff(data.state_starts)
    quotas = _even_quotas(sizes, max_states)
    return ThinnedStates(
        data,
        [
            np.sort(rng.choice(size, size=quota, replace=False))
            for size, quota in zip(sizes, quotas, strict=True)
        ],
    )


def _even_quotas(sizes: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Share ``total`` out over policies of these sizes as evenly as they allow."""
    quotas = np.zeros_like(sizes)
    order = np.argsort(sizes, kind="stable")
    left = total
    for position, policy in enumerate(order):
        share = left // (len(order) - position)  # the smallest first: what they lack goes on
        quotas[policy] = min(sizes[policy], share)
        left -= int(quotas[policy])
    return quotas
