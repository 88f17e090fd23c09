"""Episodes out of somebody else's loop: lanes that step together, handed out when they end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import BadData
from pivec.rollouts.episodes import Episode, Pages


class Gatherer:
    """Keeps the states of the episodes that run in some lanes, and gives each back when it ends.

    ``cut_after`` cuts them into pieces of that many steps, for tasks that never end.

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
        self.n_lanes, self.cut_after, self._keeps_actions = n_lanes, cut_after, actions
        self.active = np.zeros(n_lanes, dtype=bool)
        self._rows = np.zeros((n_lanes, 0), np.float32)  # what the lanes show now
        self._pages = Pages(self._rows)

    def start(self, rows: ArrayLike, lanes: ArrayLike | None = None, seeds: ArrayLike = -1) -> None:
        """Begin an episode in all lanes, or in these (a mask), with the observations of ``rows``.

        What was running there is forgotten. ``seeds`` are -1 where they are not known.
        """
        first = np.asarray(rows, dtype=np.float32)
        if self._rows.shape != first.shape and not self.active.any():  # the first that come in
            self._pages, self._rows = Pages(first), first.copy()
        mask = self._mask(lanes)
        self._rows[mask] = first[mask]
        numbers = np.broadcast_to(seeds, self.n_lanes)
        for lane in np.flatnonzero(mask).tolist():
            self._pages.begin(lane, int(numbers[lane]))
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

        ``rows`` are seen after the step, ``actions`` taken in those before. ``terminated`` and
        ``truncated`` are None where no episode ended, which is quicker. ``terminal`` has the last
        observations of lanes for which ``rows`` has the first of the next episode.
        """
        if not self.active.any():
            return []
        shown = np.asarray(rows)
        if shown.shape != self._rows.shape:
            raise BadData(
                f"states of shape {shown.shape} came after states of shape {self._rows.shape}"
            )
        moves = None if actions is None else np.asarray(actions)[None]
        self._write(shown[None], np.asarray(rewards)[None], moves)
        ended = []
        if terminated is not None and truncated is not None:
            over, cut = np.asarray(terminated, dtype=bool), np.asarray(truncated, dtype=bool)
            for lane in np.flatnonzero(self.active & (over | cut)).tolist():
                last = None if terminal is None else terminal.get(lane)
                ended.append(self._ended(lane, bool(over[lane]), bool(cut[lane]), last))
                self.active[lane] = False
        if self.cut_after is not None:
            long = self.active & (self._pages.lengths >= self.cut_after)
            for lane in np.flatnonzero(long).tolist():
                ended.append(self._ended(lane, False, True))
                self._pages.begin(lane, ended[-1][1].seed)
        return ended

    def extend(
        self, rows: NDArray[Any], rewards: NDArray[Any], actions: NDArray[Any] | None = None
    ) -> list[tuple[int, Episode]]:
        """Take in (n_steps, n_lanes, ...) in which no episode ended; return what is cut."""
        if self.cut_after is not None:
            moves = [None] * len(rows) if actions is None else actions
            steps = zip(rows, rewards, moves, strict=True)
            return [ended for r, w, a in steps for ended in self.step(r, w, None, None, a)]
        if self.active.any():
            self._write(rows, rewards, actions)
        return []

    def cut(self, lanes: ArrayLike | None = None) -> list[tuple[int, Episode]]:
        """End what is running in all lanes, or in these (a mask); return what has a step."""
        mask = self._mask(lanes)
        running = self.active & mask
        self.active &= ~mask
        begun = np.flatnonzero(running & (self._pages.lengths > 0))
        return [self._ended(lane, False, True) for lane in begun.tolist()]

    def _mask(self, lanes: ArrayLike | None) -> NDArray[np.bool_]:
        return np.ones(self.n_lanes, bool) if lanes is None else np.asarray(lanes, dtype=bool)

    def _write(
        self, rows: NDArray[Any], rewards: NDArray[Any], actions: NDArray[Any] | None
    ) -> None:
        """Take in steps; ``rows`` are seen after each of them."""
        pages = self._pages
        before = np.concatenate([self._rows[None], rows[:-1]])
        done = 0
        while done < len(rows):
            if pages.time == pages.steps:
                pages.turn(np.flatnonzero(self.active))
            block = slice(done, done + pages.steps - pages.time)
            pages.write(before[block])
            if actions is not None and self._keeps_actions:
                pages.write_actions(actions[block])
            done = block.stop
        self._rows[:] = rows[-1]
        pages.lengths += len(rows)
        pages.totals += rewards.sum(axis=0, dtype=np.float64)

    def _ended(
        self, lane: int, terminated: bool, truncated: bool, last: Any = None
    ) -> tuple[int, Episode]:
        terminal = self._rows[lane] if last is None else np.asarray(last, dtype=np.float32)
        return lane, self._pages.finish(lane, terminal, terminated, truncated)
