"""The rows of episodes in lanes that step together: a page of steps of all lanes at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_STEPS, _BYTES = 128, 64 << 20  # of a page, at most


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


class Pages:
    """What lanes show and do, step by step; gives the rows of an episode when it ends.

    When a page is full, what belongs to episodes that go on is put aside, and the next page begins.

    Parameters
    ----------
    rows : (n_lanes, n_features) array
        Such as will be written.
    """

    def __init__(self, rows: NDArray[np.float32]) -> None:
        self.steps = int(np.clip(_BYTES // max(1, rows.nbytes), 1, _STEPS))
        self.time = 0  # steps on the page
        self.aside = [LaneRecord() for _ in rows]
        self._since = np.zeros(len(rows), dtype=np.intp)
        self._states = np.zeros((self.steps, *rows.shape), dtype=np.float32)
        self._actions: NDArray[Any] | None = None

    def begin(self, lane: int) -> None:
        """Forget what ran in a lane: an episode begins there with the next step."""
        self._since[lane] = self.time
        if self.aside[lane].steps:
            self.aside[lane] = LaneRecord()

    def write(self, rows: NDArray[Any], actions: NDArray[Any] | None = None) -> None:
        """Write steps (n_steps, n_lanes, ...): what all lanes show, and what is done there."""
        steps = slice(self.time, self.time + len(rows))
        self._states[steps] = rows
        if actions is not None:
            if self._actions is None:
                self._actions = np.zeros((self.steps, *actions.shape[1:]), dtype=actions.dtype)
            self._actions[steps] = actions
        self.time += len(rows)

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
        self, lane: int, terminal: NDArray[np.float32], every: int = 1
    ) -> tuple[NDArray[np.float32], NDArray[Any] | None]:
        """Put the states and actions of an episode together, the terminal state last."""
        self._put_aside(lane, every)
        record, self.aside[lane] = self.aside[lane], LaneRecord()
        states = np.concatenate([*record.states, terminal])
        return states, np.concatenate(record.actions) if record.actions else None

    def _put_aside(self, lane: int, every: int) -> None:
        mine = slice(self._since[lane], self.time)
        actions = None if self._actions is None else self._actions[mine, lane]
        self.aside[lane].add(self._states[mine, lane], actions, every)
