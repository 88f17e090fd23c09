"""Data made of data: of several sources, of episodes put together anew, of fewer states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.errors import BadData, UsageError
from pivec.states.visited import VisitedStates

_MOST_TO_DRAW_FROM = 10**9  # of NumPy's hypergeometric distribution


def joined(parts: Sequence[VisitedStates]) -> VisitedStates:
    """Put the policies of all parts one after another, without copying states.

    Their labels must differ.

    Examples
    --------
    >>> a = VisitedStates.from_arrays([[[[0.0], [1.0]]]], labels=["a"])
    >>> b = VisitedStates.from_arrays([[[[2.0]]], [[[3.0]]]], labels=["b", "c"])
    >>> both = joined([a, b])
    >>> both.labels, both.states.ravel().tolist()
    (('a', 'b', 'c'), [0.0, 1.0, 2.0, 3.0])
    """
    names = {part.feature_names for part in parts}
    if len(names) != 1 or len({part.has_actions for part in parts}) != 1:
        raise BadData(
            "data that are put together must have the same features, and all or none of them "
            f"actions, but have {' and '.join(str(len(features)) for features in names)} features"
        )
    records = [record for part in parts for record in part.records]
    return VisitedStates(records, parts[0].feature_names, parts[0].environment)


def regrouped(parts: Sequence[VisitedStates], groups: Sequence[NDArray[Any]]) -> VisitedStates:
    """Make a policy of each group of episodes, numbered through all parts.

    States, actions and returns are kept; who acted is not.
    """
    episodes = [
        episode for part in parts for record in part.records for episode in record.as_episodes()
    ]
    policies = [[episodes[i] for i in group] for group in groups]
    actions = None
    if all(part.has_actions for part in parts):
        actions = [[np.asarray(episode.actions) for episode in policy] for policy in policies]
    return VisitedStates.from_arrays(
        [[episode.states for episode in policy] for policy in policies],
        returns=[[episode.total_reward for episode in policy] for policy in policies],
        actions=actions,
        feature_names=parts[0].feature_names,
        environment=parts[0].environment,
    )


def held(data: VisitedStates) -> VisitedStates:
    """Read all states into memory, once, for what goes through them many times.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[[[0.0]], [[1.0]]]])
    >>> held(data[:1]).states.tolist()
    [[0.0], [1.0]]
    """
    records = [
        replace(record, read_arrays=partial(_same, record.read_arrays())) for record in data.records
    ]
    return VisitedStates(records, data.feature_names, data.environment)


def _same(arrays: Any) -> Any:
    return arrays


class ThinnedStates:
    """Some states of each policy, gathered from the data when they are needed.

    Has what a fit needs of `VisitedStates`: ``n_states``, ``n_features``, ``rows``.
    """

    def __init__(self, data: VisitedStates, rows: NDArray[np.int64]) -> None:
        self._data, self._rows = data, rows  # sorted numbers of the states
        self.n_states = len(rows)
        self.n_features = data.n_features

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        """States ``first`` to ``last - 1``, or to the end."""
        return self._data.take(self._rows[first:last])

    def without_policies(self) -> ThinnedStates:
        """Give the same states without the policies themselves."""
        return ThinnedStates(self._data.without_policies(), self._rows)


@checked
def thin(
    data: VisitedStates,
    rng: np.random.Generator,
    *,
    max_policies: Count | None = None,
    max_episodes: Count | None = None,
    max_states: Count | None = None,
    sampling: Literal["even", "uniform"] = "even",
) -> VisitedStates | ThinnedStates:
    """Draw at most so many policies, episodes of each, and states in all.

    With ``sampling="even"`` every policy gives the same number of states, or all it has if that is
    fewer; with "uniform" every state is as likely as any other, whoever visited it. Nothing is
    copied until rows are asked for.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[np.zeros((100, 1))], [np.ones((10, 1))]])
    >>> thinned = thin(data, np.random.default_rng(0), max_states=30)
    >>> thinned.rows(0, 30).sum(), thinned.n_states
    (np.float32(10.0), 30)
    """
    if max_policies is not None and max_policies < len(data):
        data = data.select(np.sort(rng.choice(len(data), size=max_policies, replace=False)))
    if max_episodes is not None and max_episodes < np.diff(data.policy_starts).max():
        data = data.sample_episodes(max_episodes, rng, at_most=True)
    if max_states is None or max_states >= data.n_states:
        return data
    sizes = np.diff(data.state_starts)
    quotas = _quotas(sizes, max_states, rng, sampling)
    rows = [
        begin + np.sort(rng.choice(size, size=quota, replace=False))
        for begin, size, quota in zip(data.state_starts[:-1], sizes, quotas, strict=True)
    ]
    return ThinnedStates(data, np.concatenate(rows))


def _quotas(
    sizes: NDArray[np.int64], total: int, rng: np.random.Generator, sampling: str
) -> NDArray[np.int64]:
    """Tell how many of ``total`` states come from each of the policies of these sizes."""
    if sampling == "even":
        return _even_quotas(sizes, total)
    if sizes.sum() >= _MOST_TO_DRAW_FROM:
        raise UsageError(
            f"states are drawn uniformly of fewer than {_MOST_TO_DRAW_FROM:,}, but there are "
            f"{sizes.sum():,}: cap policies or episodes too, or draw evenly over the policies"
        )
    # What a draw of all states without replacement takes of each policy; no list of all is needed.
    return rng.multivariate_hypergeometric(sizes, total, method="marginals")


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
