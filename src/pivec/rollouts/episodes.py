"""What is kept of an episode while it is played and after, and how very long ones are thinned.

Thinned to every k-th state, an episode keeps its states 0, k, 2k, ... and the terminal one. All
episodes of a policy have the same k, the smallest power of two that brings the policy below its
limit, so long and short episodes keep their weights, and k does not depend on the schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.policies.policy import NamedPolicy


@dataclass
class Episode:
    """One played episode: first observation, every later one and the terminal one.

    ``actions`` holds the action taken in each kept state but the terminal one.
    """

    states: NDArray[np.float32]
    actions: NDArray[Any] | None
    total_reward: float
    seed: int
    terminated: bool
    truncated: bool

    def halve(self) -> None:
        """Keep every second state, and the terminal one."""
        self.states = halved(self.states)
        if self.actions is not None:
            self.actions = self.actions[::2].copy()


@dataclass
class PlayedPolicy:
    """All episodes of one policy, in the order of their numbers.

    ``every`` is k of the thinning, 1 if all states are kept.
    """

    index: int
    named: NamedPolicy
    episodes: list[Episode]
    every: int = 1


class LaneRecord:
    """The rows of the episode that is being played in one lane."""

    def __init__(self) -> None:
        self.states: list[NDArray[np.float32]] = []
        self.actions: list[NDArray[Any]] = []
        self.steps = 0  # rows that came in, kept or not
        self.kept = 0

    def add(
        self, states: NDArray[np.float32], actions: NDArray[Any] | None, every: int = 1
    ) -> None:
        """Take in the next rows; copies are kept, of every k-th row of the episode."""
        mine = slice(-self.steps % every, None, every)
        self.states.append(states[mine].copy())
        if actions is not None:
            self.actions.append(actions[mine].copy())
        self.steps += len(states)
        self.kept += len(self.states[-1])

    def halve(self) -> None:
        """Keep every second of the rows."""
        self.states = [np.concatenate(self.states)[::2].copy()] if self.states else []
        self.actions = [np.concatenate(self.actions)[::2].copy()] if self.actions else []
        self.kept = sum(map(len, self.states))

    def finish(
        self, terminal: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[Any] | None]:
        """Put states and actions together, the terminal state last."""
        states = np.concatenate([*self.states, terminal])
        return states, np.concatenate(self.actions) if self.actions else None


def halved(states: NDArray[Any]) -> NDArray[Any]:
    """Keep every second state of an episode, and the terminal one.

    Examples
    --------
    >>> halved(np.arange(6))
    array([0, 2, 4, 5])
    """
    return np.concatenate([states[:-1:2], states[-1:]])


def smallest_stride(lengths: NDArray[np.int64], limit: int) -> int:
    """Find the smallest power of two k that thins episodes of these lengths to ``limit`` states.

    Examples
    --------
    >>> smallest_stride(np.array([100, 50]), 60)
    4
    """
    every = 1
    while int((-(-(lengths - 1) // every) + 1).sum()) > limit:
        every *= 2
    return every
