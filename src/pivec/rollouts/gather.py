"""Episodes out of somebody else's loop: lanes that step together, handed out when they end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import BadData
from pivec.rollouts.episodes import Episode

_FIRST_ROWS = 256


class Gatherer:
    """Keeps the states of the episodes that run in some lanes, and gives each back when it ends.

    Parameters
    ----------
    n_lanes : int
        Environments side by side.
    actions : bool
        Keep the actions too.
    cut_after : int, optional
        Cut episodes into pieces of that many steps, for tasks that never end.

    Examples
    --------
    >>> gatherer = Gatherer(1)
    >>> gatherer.start([[0.0]])
    >>> gatherer.step([[1.0]], [1.0], [False], [False])
    []
    >>> [(lane, episode)] = gatherer.step([[2.0]], [1.0], [True], [False])
    >>> episode.states.ravel(), episode.total_reward
    (array([0., 1., 2.], dtype=float32), 2.0)
    """

    def __init__(
        self, n_lanes: int, *, actions: bool = False, cut_after: int | None = None
    ) -> None:
        self.n_lanes = n_lanes
        self.cut_after = cut_after
        self.active = np.zeros(n_lanes, dtype=bool)
        self._begins = np.zeros(n_lanes, dtype=np.int64)
        self._totals = np.zeros(n_lanes)
        self._seeds = np.full(n_lanes, -1, dtype=np.int64)
        self._now = 0  # the row of the newest observations
        # Made when the first come in: (rows, lanes, ...), row t of all lanes at the same time.
        self._rows: NDArray[np.float32] | None = None
        self._keeps_actions = actions
        self._moves: NDArray[Any] | None = None

    def start(self, rows: ArrayLike, lanes: ArrayLike | None = None, seeds: ArrayLike = -1) -> None:
        """Begin an episode in all lanes, or in these (a mask), with the observations of ``rows``.

        What was running there is forgotten. ``seeds`` are -1 where they are not known.
        """
        first = np.asarray(rows, dtype=np.float32)
        if self._rows is None:
            self._rows = np.empty((_FIRST_ROWS, *first.shape), dtype=np.float32)
        mask = np.ones(self.n_lanes, bool) if lanes is None else np.asarray(lanes, dtype=bool)
        self._rows[self._now, mask] = first[mask]
        self._begins[mask] = self._now
        self._totals[mask] = 0.0
        self._seeds[mask] = np.broadcast_to(seeds, self.n_lanes)[mask]
        self.active |= mask

    def step(
        self,
        rows: ArrayLike,
        rewards: ArrayLike,
        terminated: ArrayLike | None,
        truncated: ArrayLike | None,
        actions: ArrayLike | None = None,
        terminal: Mapping[int, ArrayLike] | None = None,
    ) -> list[tuple[int, Episode]]:
        """Take in one step of all lanes; return the episodes that ended, with their lanes.

        Parameters
        ----------
        rows : (n_lanes, n_features) array
            Observations after the step; copied.
        rewards : (n_lanes,) array
        terminated, truncated : (n_lanes,) arrays or None
            Both None where no episode ended, which is quicker.
        actions : (n_lanes, ...) array, optional
            Taken in the observations before.
        terminal : mapping of lane to (n_features,) array, optional
            The last observations of episodes, where ``rows`` has the first of the next one.
        """
        if self._rows is None:
            return []
        if self._now + 1 == len(self._rows):
            self._make_room()
        if self._keeps_actions and actions is not None:
            moves = np.asarray(actions)
            if self._moves is None:
                self._moves = np.empty((len(self._rows), *moves.shape), dtype=moves.dtype)
            self._moves[self._now] = moves
        seen = np.asarray(rows)
        if seen.shape != self._rows.shape[1:]:
            raise BadData(
                f"states of shape {seen.shape} came after states of shape {self._rows.shape[1:]}"
            )
        self._now += 1
        self._rows[self._now] = seen
        np.add(self._totals, rewards, out=self._totals)
        ended = []
        if terminated is not None and truncated is not None:
            over, cut = np.asarray(terminated, dtype=bool), np.asarray(truncated, dtype=bool)
            for lane in np.flatnonzero(self.active & (over | cut)).tolist():
                last = None if terminal is None else terminal.get(lane)
                ended.append((lane, self._episode(lane, bool(over[lane]), bool(cut[lane]), last)))
                self.active[lane] = False
        if self.cut_after is not None:
            for lane in np.flatnonzero(
                self.active & (self._now - self._begins >= self.cut_after)
            ).tolist():
                ended.append((lane, self._episode(lane, False, True)))
                self._begins[lane], self._totals[lane] = self._now, 0.0
        return ended

    def extend(
        self,
        rows: NDArray[Any],
        rewards: NDArray[Any],
        actions: NDArray[Any] | None = None,
    ) -> list[tuple[int, Episode]]:
        """Take in several steps in which no episode ended; return what ``cut_after`` cuts.

        Parameters
        ----------
        rows, rewards, actions : (n_steps, n_lanes, ...) arrays
        """
        moves = actions if self._keeps_actions else None
        if self._rows is None:
            return []
        if self.cut_after is not None:
            each = [None] * len(rows) if moves is None else moves
            steps = zip(rows, rewards, each, strict=True)
            return [one for r, w, a in steps for one in self.step(r, w, None, None, a)]
        half = _FIRST_ROWS // 2  # what there is always room for after making some
        for begin in range(0, len(rows), half):
            block = rows[begin : begin + half]
            if self._now + len(block) >= len(self._rows):
                self._make_room()
            if moves is not None:
                if self._moves is None:
                    self._moves = np.empty((len(self._rows), *moves.shape[1:]), moves.dtype)
                self._moves[self._now : self._now + len(block)] = moves[begin : begin + half]
            self._rows[self._now + 1 : self._now + 1 + len(block)] = block
            self._now += len(block)
        self._totals += rewards.sum(axis=0, dtype=np.float64)
        return []

    def cut(self, lanes: ArrayLike | None = None) -> list[tuple[int, Episode]]:
        """End what is running in all lanes, or in these (a mask); return what has a step."""
        mask = np.ones(self.n_lanes, bool) if lanes is None else np.asarray(lanes, dtype=bool)
        running = self.active & mask
        self.active &= ~mask
        return [
            (lane, self._episode(lane, False, True))
            for lane in np.flatnonzero(running & (self._begins < self._now)).tolist()
        ]

    def _episode(
        self, lane: int, terminated: bool, truncated: bool, last: ArrayLike | None = None
    ) -> Episode:
        if self._rows is None:
            raise RuntimeError("no lane has started")
        begin, end = int(self._begins[lane]), self._now
        states = self._rows[begin : end + 1, lane].copy()
        if last is not None:
            states[-1] = last
        moves = None if self._moves is None else self._moves[begin:end, lane].copy()
        seed = int(self._seeds[lane])
        return Episode(states, moves, float(self._totals[lane]), seed, terminated, truncated)

    def _make_room(self) -> None:
        """Forget rows that no running episode needs; more room if that is not enough."""
        first = int(self._begins[self.active].min()) if self.active.any() else self._now
        kept = self._now + 1 - first
        self._rows = _shifted(self._rows, first, kept)
        self._moves = _shifted(self._moves, first, kept)
        self._begins -= first
        self._now -= first


def _shifted(rows: NDArray[Any] | None, first: int, kept: int) -> Any:
    """Rows from ``first`` on at the beginning, in an array at least half of which is free."""
    if rows is None:
        return None
    size = len(rows) if 2 * kept <= len(rows) else 2 * len(rows)
    room = np.empty((size, *rows.shape[1:]), dtype=rows.dtype)
    room[:kept] = rows[first : first + kept]
    return room
