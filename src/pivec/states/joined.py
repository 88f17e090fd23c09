"""Data put together: the policies of several sources, or episodes anew as other policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData
from pivec.states.visited import VisitedStates


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
    first = parts[0]
    return VisitedStates(
        records, first.feature_names, first.environment, has_actions=first.has_actions
    )


def regrouped(parts: Sequence[VisitedStates], groups: Sequence[NDArray[Any]]) -> VisitedStates:
    """Make a policy of each group of episodes, numbered through all parts.

    States, actions and returns are kept; who acted is not.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[[[0.0]], [[1.0]]], [[[2.0]]]])
    >>> regrouped([data], [np.array([0, 2]), np.array([1])])["policy-0"].states.ravel()
    array([0., 2.], dtype=float32)
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
