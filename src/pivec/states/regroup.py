"""Episodes put together anew: those of some data as the policies of another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.states.visited import VisitedStates


def regrouped(parts: Sequence[VisitedStates], groups: Sequence[NDArray[Any]]) -> VisitedStates:
    """Make a policy of each group of episodes, numbered through all parts.

    States, actions and returns are kept; who acted is not.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[[[0.0]], [[1.0]]], [[[2.0]]]])
    >>> regrouped([data], [np.array([0, 2]), np.array([1])])["policy-0"].states.ravel()
    array([0., 2.], dtype=float32)
    """
    episodes = [episode for part in parts for episode in part.episodes()]
    returns = np.concatenate([part.returns for part in parts])
    actions = None
    if all(part.has_actions for part in parts):
        moves = [one for part in parts for one in _moves(part)]
        actions = [[moves[i] for i in group] for group in groups]
    return VisitedStates.from_arrays(
        [[episodes[i] for i in group] for group in groups],
        returns=[returns[group] for group in groups],
        actions=actions,
        feature_names=parts[0].feature_names,
        environment=parts[0].environment,
    )


def _moves(data: VisitedStates) -> list[NDArray[Any]]:
    """Actions of one episode after another: one fewer than states."""
    flat = data.actions
    starts = data.episode_starts - np.arange(data.n_episodes + 1)
    return [] if flat is None else [flat[i:j] for i, j in pairwise(starts.tolist())]
