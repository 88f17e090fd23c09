"""Episodes out of somebody else's loop: lanes that step together, handed out when they end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import BadData
from pivec.rollouts.episodes import Episode
from pivec.rollouts.pages import Pages


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
        self.n_lanes, self.cut_after, self._keeps_actions = n_lanes, cut_after, actions
        self.active = np.zeros(n_lanes, dtype=bool)
        self._lengths = np.zeros(n_lanes, dtype=np.int64)
        self._totals = np.zeros(n_lanes)
        self._seeds = np.full(n_lanes, -1, dtype=np.int64)
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
        for lane in np.flatnonzero(mask).tolist():
            self._begin(lane)
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
                episode = self._episode(lane, bool(over[lane]), bool(cut[lane]), last)
                ended.append((lane, episode))
                self.active[lane] = False
        if self.cut_after is not None:
            long = self.active & (self._lengths >= self.cut_after)
            for lane in np.flatnonzero(long).tolist():
                ended.append((lane, self._episode(lane, False, True)))
                self._begin(lane)
        return ended

    def extend(
        self, rows: NDArray[Any], rewards: NDArray[Any], actions: NDArray[Any] | None = None
    ) -> list[tuple[int, Episode]]:
        """Take in several steps in which no episode ended; return what ``cut_after`` cuts.

        Parameters
        ----------
        rows, rewards, actions : (n_steps, n_lanes, ...) arrays
        """
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
        return [
            (lane, self._episode(lane, False, True))
            for lane in np.flatnonzero(running & (self._lengths > 0)).tolist()
        ]

    def _mask(self, lanes: ArrayLike | None) -> NDArray[np.bool_]:
        return np.ones(self.n_lanes, bool) if lanes is None else np.asarray(lanes, dtype=bool)

    def _begin(self, lane: int) -> None:
        self._pages.begin(lane)
        self._lengths[lane], self._totals[lane] = 0, 0.0

    def _write(
        self, rows: NDArray[Any], rewards: NDArray[Any], actions: NDArray[Any] | None
    ) -> None:
        """Take in steps; ``rows`` are seen after each of them."""
        pages = self._pages
        before = np.concatenate([self._rows[None], rows[:-1]])
        moves = actions if self._keeps_actions else None
        done = 0
        while done < len(rows):
            if pages.time == pages.steps:
                pages.turn(np.flatnonzero(self.active))
            block = slice(done, done + pages.steps - pages.time)
            pages.write(before[block], None if moves is None else moves[block])
            done = block.stop
        self._rows[:] = rows[-1]
        self._lengths += len(rows)
        self._totals += rewards.sum(axis=0, dtype=np.float64)

    def _episode(self, lane: int, terminated: bool, truncated: bool, last: Any = None) -> Episode:
        terminal = self._rows[lane] if last is None else np.asarray(last, dtype=np.float32)
        states, moves = self._pages.finish(lane, terminal[None])
        total, seed = float(self._totals[lane]), int(self._seeds[lane])
        return Episode(states, moves, total, seed, terminated, truncated)
