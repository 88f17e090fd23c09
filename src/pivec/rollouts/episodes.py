"""What is kept of an episode while it is played and after, and how very long ones are thinned.

Thinned to every k-th state, an episode keeps its states 0, k, 2k, ... and the terminal one. All
episodes of a policy have the same k, the smallest power of two that brings the policy below its
limit, so long and short episodes keep their weights, and k does not depend on the schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
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
        self.states = np.concatenate([self.states[:-1:2], self.states[-1:]])
        if self.actions is not None:
            self.actions = self.actions[::2].copy()


class LaneRecord:
    """The rows of the episode in one lane that stood on earlier pages."""

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


@dataclass
class PlayedPolicy:
    """All episodes of one policy, in the order of their numbers.

    ``every`` is k of the thinning, 1 if all states are kept.
    """

    index: int
    named: NamedPolicy
    episodes: list[Episode]
    every: int = 1


class PolicyEpisodes:
    """The episodes of one policy, thinned as they come in so that ``limit`` states are enough."""

    def __init__(self, limit: int | None = None) -> None:
        self.every = 1
        self._limit = limit
        self._episodes: dict[int, Episode] = {}

    def __len__(self) -> int:
        return len(self._episodes)

    def put(self, number: int, episode: Episode) -> None:
        """Take in a whole episode that is thinned to every k-th state already."""
        self._episodes[number] = episode

    def append(self, episode: Episode) -> None:
        """Take in one more episode, with all its states."""
        for _ in range(self.every.bit_length() - 1):
            episode.halve()
        self.put(len(self), episode)
        self.thin()

    def thin(self, in_flight: Sequence[LaneRecord] = ()) -> None:
        """Thin everything, what lanes are recording included, until it is within the limit."""
        if self._limit is None:
            return
        if 2 * len(self) + sum(record.kept > 0 for record in in_flight) > self._limit:
            raise UsageError(
                f"{self._limit} states of a policy are too few for its episodes: each keeps at "
                "least its first and its terminal state, so raise max_states_per_policy"
            )
        while self._n_states + sum(record.kept for record in in_flight) > self._limit:
            self.every *= 2
            parts: list[Episode | LaneRecord] = [*self._episodes.values(), *in_flight]
            for part in parts:
                part.halve()

    def all(self) -> list[Episode]:
        """Return the episodes in the order of their numbers."""
        return [self._episodes[number] for number in sorted(self._episodes)]

    @property
    def _n_states(self) -> int:
        return sum(len(episode.states) for episode in self._episodes.values())
