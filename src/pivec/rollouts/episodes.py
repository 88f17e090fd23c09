"""What is kept of an episode while it is played and after, and how very long ones are thinned.

Thinned to every k-th state, an episode keeps its states 0, k, 2k, ... and the terminal one. All
episodes of a policy have the same k, the smallest power of two that brings the policy below its
limit, so long and short episodes keep their weights, and k does not depend on the schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.policy import NamedPolicy

_STEPS, _BYTES = 128, 64 << 20  # of a page, at most


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

    def add(self, states: NDArray[np.float32], actions: NDArray[Any] | None, steps: int) -> None:
        """Take in copies of the rows that are kept of so many steps."""
        self.states.append(states.copy())
        if actions is not None:
            self.actions.append(actions.copy())
        self.steps += int(steps)
        self.kept += len(states)

    def halve(self) -> None:
        """Keep every second of the rows."""
        self.states = [np.concatenate(self.states)[::2].copy()] if self.states else []
        self.actions = [np.concatenate(self.actions)[::2].copy()] if self.actions else []
        self.kept = sum(map(len, self.states))


class Pages:
    """What lanes show and do, step by step; gives the rows of an episode when it ends.

    When a page is full, what belongs to episodes that go on is put aside, and the next page begins.
    ``rows`` (n_lanes, n_features) are such as will be written.
    """

    def __init__(self, rows: NDArray[np.float32]) -> None:
        self.steps = int(np.clip(_BYTES // max(1, rows.nbytes), 1, _STEPS))
        self.time = 0  # steps on the page
        self.aside = [LaneRecord() for _ in rows]
        self.lengths = np.zeros(len(rows), dtype=np.int64)  # steps of the episodes, their rewards
        self.totals = np.zeros(len(rows))
        self.seeds = np.full(len(rows), -1, dtype=np.int64)
        self._since = np.zeros(len(rows), dtype=np.intp)
        self._states = np.zeros((self.steps, *rows.shape), dtype=np.float32)
        self._actions: NDArray[Any] | None = None

    def begin(self, lane: int, seed: int) -> None:
        """Forget what ran in a lane: an episode begins there with the next step."""
        self._since[lane], self.seeds[lane] = self.time, seed
        self.lengths[lane], self.totals[lane] = 0, 0.0
        if self.aside[lane].steps:
            self.aside[lane] = LaneRecord()

    def write(self, rows: NDArray[Any]) -> None:
        """Write what all lanes show in the next steps, (n_steps, n_lanes, ...)."""
        self._states[self.time : self.time + len(rows)] = rows
        self.time += len(rows)

    def write_actions(self, actions: NDArray[Any]) -> None:
        """Write what is done in the last steps, (n_steps, n_lanes, ...)."""
        if self._actions is None:
            self._actions = np.zeros((self.steps, *actions.shape[1:]), dtype=actions.dtype)
        self._actions[self.time - len(actions) : self.time] = actions

    def amend(self, lanes: NDArray[np.intp], columns: list[int], rows: NDArray[Any]) -> None:
        """Write some columns of the last step again for these lanes."""
        where = np.ix_(lanes, np.array(columns))
        self._states[self.time - 1][where] = rows[where]

    def turn(
        self, lanes: NDArray[np.intp], every: Callable[[int], int] = lambda _: 1
    ) -> NDArray[np.intp]:
        """Begin a page; give those of ``lanes``, where episodes run, that have rows on the last."""
        going_on = lanes[self._since[lanes] < self.time]
        for lane in going_on.tolist():
            self.aside[lane].add(*self._rows(lane, every(lane)), self.time - self._since[lane])
        self._since[:] = 0
        self.time = 0
        return going_on

    def finish(
        self,
        lane: int,
        terminal: NDArray[np.float32],
        terminated: bool,
        truncated: bool,
        every: int = 1,
    ) -> Episode:
        """Put the episode of a lane together, the terminal state last."""
        before, (states, actions) = self.aside[lane], self._rows(lane, every)
        if before.steps:
            self.aside[lane] = LaneRecord()
        return Episode(
            np.concatenate([*before.states, states, terminal[None]]),
            None if actions is None else np.concatenate([*before.actions, actions]),
            float(self.totals[lane]),
            int(self.seeds[lane]),
            terminated,
            truncated,
        )

    def _rows(self, lane: int, every: int) -> tuple[NDArray[np.float32], NDArray[Any] | None]:
        """Give what the page has of the lane's episode, of every k-th row."""
        mine = slice(self._since[lane] + -self.aside[lane].steps % every, self.time, every)
        return self._states[mine, lane], None if self._actions is None else self._actions[
            mine, lane
        ]


@dataclass(frozen=True)
class Quota:
    """Which episodes a policy is to play: all before ``end`` that it has not played already.

    ``lengths`` are the states that are kept of those it has, thinned to every k-th: they count for
    its limit. ``seeds`` are those of all its episodes, where they do not follow from what the
    policy is.
    """

    end: int
    lengths: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    every: int = 1
    seeds: NDArray[np.int64] | None = None

    @property
    def first(self) -> int:
        """The number of the first episode to play."""
        return len(self.lengths)


@dataclass
class PlayedPolicy:
    """The episodes that one policy has played, in the order of their numbers.

    ``every`` is k of the thinning, 1 if all states are kept.
    """

    index: int
    named: NamedPolicy
    episodes: list[Episode]
    every: int = 1


class PolicyEpisodes:
    """The episodes of one policy, thinned as they come in so that ``limit`` states are enough.

    Those that ``quota`` says are kept elsewhere count for the limit.
    """

    def __init__(self, limit: int | None = None, quota: Quota | None = None) -> None:
        self.every = 1 if quota is None else quota.every
        self._elsewhere = np.zeros(0, np.int64) if quota is None else quota.lengths
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
        whole = len(self) + len(self._elsewhere)
        if 2 * whole + sum(record.kept > 0 for record in in_flight) > self._limit:
            raise UsageError(
                f"{self._limit} states of a policy are too few for its episodes: each keeps at "
                "least its first and its terminal state, so raise max_states_per_policy"
            )
        while self._n_states + sum(record.kept for record in in_flight) > self._limit:
            self.every *= 2
            parts: list[Episode | LaneRecord] = [*self._episodes.values(), *in_flight]
            for part in parts:
                part.halve()
            self._elsewhere = self._elsewhere // 2 + 1  # as `Episode.halve` leaves them

    def all(self) -> list[Episode]:
        """Return the episodes in the order of their numbers."""
        return [self._episodes[number] for number in sorted(self._episodes)]

    @property
    def _n_states(self) -> int:
        mine = sum(len(episode.states) for episode in self._episodes.values())
        return mine + int(self._elsewhere.sum())
