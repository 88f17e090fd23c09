"""Data of several sources one after another, without copying states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pivec.errors import BadData
from pivec.states.visited import VisitedStates


def joined(parts: Sequence[VisitedStates]) -> VisitedStates:
    """Put the policies of all parts one after another; their labels must differ.

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
            f"actions, but have {' and '.join(str(len(each)) for each in names)} features"
        )
    lengths = np.concatenate([part.lengths for part in parts])
    counts = np.concatenate([np.diff(part.policy_starts) for part in parts])
    return VisitedStates(
        [chunk for part in parts for chunk in part._chunks],
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([[0], np.cumsum(counts)]),
        [info for part in parts for info in part.policies],
        **{
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("returns", "seeds", "terminated", "truncated")
        },
        feature_names=parts[0].feature_names,
        environment=parts[0].environment,
        has_actions=parts[0].has_actions,
        actors=[actor for part in parts for actor in part._actors or [None] * len(part)],
    )
