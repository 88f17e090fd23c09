"""The rows of episodes in lanes that step together: a page of steps of all lanes at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.rollouts.episodes import Episode, LaneRecord

_STEPS, _BYTES = 128, 64 << 20  # of a page, at most


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

    def turn(
        self, lanes: NDArray[np.intp], every: Callable[[int], int] = lambda _: 1
    ) -> NDArray[np.intp]:
        """Begin a page; give those of ``lanes``, where episodes run, that have rows on the last."""
        going_on = lanes[self._since[lanes] < self.time]
        for lane in going_on.tolist():
            self._put_aside(lane, every(lane))
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
        self._put_aside(lane, every)
        record, self.aside[lane] = self.aside[lane], LaneRecord()
        states = np.concatenate([*record.states, terminal[None]])
        actions = np.concatenate(record.actions) if record.actions else None
        total, seed = float(self.totals[lane]), int(self.seeds[lane])
        return Episode(states, actions, total, seed, terminated, truncated)

    def _put_aside(self, lane: int, every: int) -> None:
        mine = slice(self._since[lane], self.time)
        actions = None if self._actions is None else self._actions[mine, lane]
        self.aside[lane].add(self._states[mine, lane], actions, every)
