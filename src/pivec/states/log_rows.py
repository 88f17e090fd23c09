"""Rows of a log, one a state, in whatever order somebody wrote them: cut into episodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData
from pivec.rollouts.episodes import Episode

Array = NDArray[Any]


@dataclass(frozen=True)
class LogRows:
    """The rows of one policy; each array has a value a row, and what is not known is None.

    Attributes
    ----------
    states : (n, ...) array
    actions : (n, ...) array
        Those of the last row of an episode are not read, unless ``after`` is known.
    acted : (n,) bool array
        Where an action is known; everywhere if not given.
    episode, step : (n,) arrays
        Whose a row is, and when. Without ``episode`` one begins where ``step`` falls.
    reward, total, seed : (n,) arrays
        ``total`` is the return of the whole episode, as ``seed`` the same in all its rows.
    terminated, truncated : (n,) bool arrays
        An episode that has neither number nor step ends with a row where either is true.
    after : (n, ...) array
        The state that follows each row, where that is kept too.
    length : int
        Rows after which an episode ends at the latest, where nothing else tells.
    starts : array
        The rows where episodes begin.
    """

    states: Array
    actions: Array | None = None
    acted: NDArray[np.bool_] | None = None
    episode: Array | None = None
    step: Array | None = None
    reward: Array | None = None
    total: Array | None = None
    seed: Array | None = None
    terminated: NDArray[np.bool_] | None = None
    truncated: NDArray[np.bool_] | None = None
    after: Array | None = None
    length: int | None = None
    starts: Array | None = None

    def episodes(self) -> Iterator[Episode]:
        """Go through the episodes, in the order of their first rows.

        Examples
        --------
        >>> rows = LogRows(np.arange(5.0)[:, None], step=np.array([0, 1, 2, 0, 1]))
        >>> [episode.states.ravel().tolist() for episode in rows.episodes()]
        [[0.0, 1.0, 2.0], [3.0, 4.0]]
        """
        for number, rows in enumerate(self._cut()):
            states, moves = self.states[rows], rows[:-1]
            if self.after is not None:
                states, moves = np.concatenate([states, self.after[rows[-1:]]]), rows
            yield Episode(
                states,
                self._moves(moves, number),
                self._total(rows, number),
                int(self._same(self.seed, "seed", rows, number, -1)),
                self.terminated is not None and bool(self.terminated[rows].any()),
                self.truncated is not None and bool(self.truncated[rows].any()),
            )

    def _cut(self) -> list[NDArray[np.intp]]:
        """Give the rows of each episode, in order of time."""
        n = len(self.states)
        if not n:
            raise BadData("it holds no rows: leave it out")
        if self.episode is None:
            return np.split(np.arange(n), self._starts()[1:])
        _, first, code = np.unique(self.episode, return_index=True, return_inverse=True)
        order = np.lexsort((np.arange(n) if self.step is None else self.step, first[code]))
        pieces = np.split(order, np.flatnonzero(np.diff(code[order])) + 1)
        for rows in pieces if self.step is not None else ():
            times = self.step[rows]  # type: ignore[index]
            if twice := np.flatnonzero(~(np.diff(times) > 0)).tolist():
                raise BadData(
                    f"episode {self.episode[rows[0]]} has the time {times[twice[0]]} twice: name "
                    "the columns that tell policies, episodes and the time (--policy-column, "
                    "--episode-column, --step-column of `pivec import`)"
                )
        return pieces

    def _starts(self) -> NDArray[np.intp]:
        """Find the rows where episodes begin, where no column numbers them."""
        n = len(self.states)
        begins = np.zeros(n, dtype=bool)
        begins[0] = True
        if self.starts is not None:
            whole = self.starts.ndim == 1 and self.starts.dtype.kind in "iu"
            if not whole or not ((self.starts >= 0) & (self.starts < n)).all():
                raise BadData(f"starts of episodes must be numbers of its rows, from 0 to {n - 1}")
            begins[self.starts] = True
        elif self.step is not None:
            begins[1:] |= ~(np.diff(self.step) > 0)
            firsts = self.step[begins]
            if (firsts != firsts[0]).any():
                raise BadData(
                    f"an episode begins wherever the time falls, but they begin at {firsts[0]} and "
                    f"at {firsts[firsts != firsts[0]][0]}: sort the rows by time, or name the "
                    "column of episodes"
                )
        else:
            ends = [flag for flag in (self.terminated, self.truncated) if flag is not None]
            for flag in ends:
                begins[1:] |= flag[:-1]
            if self.after is not None:
                moved = self.after[:-1] != self.states[1:]
                begins[1:] |= moved.reshape(n - 1, -1).any(axis=1)
            if self.length is not None:
                before = np.maximum.accumulate(np.where(begins, np.arange(n), 0))
                begins |= (np.arange(n) - before) % self.length == 0
            elif not ends and self.after is None:
                raise BadData(
                    "nothing tells where its episodes begin: a column or array is missing that "
                    "numbers them (episode), tells the time (step) or their ends (terminated), or "
                    "a fixed length (--episode-length of `pivec import`)"
                )
        return np.flatnonzero(begins)

    def _moves(self, rows: NDArray[np.intp], number: int) -> Array | None:
        if self.actions is None:
            return None
        if self.acted is not None and not self.acted[rows].all():
            step = int(np.argmin(self.acted[rows]))
            raise BadData(f"step {step} of episode {number} has no action: fill it, or leave "
                          "all actions out")  # fmt: skip
        if len(self.actions) <= rows.max(initial=0):
            raise BadData(f"it has {len(self.actions)} actions for {len(self.states)} states")
        return np.asarray(self.actions[rows])

    def _total(self, rows: NDArray[np.intp], number: int) -> float:
        if self.total is None and self.reward is not None:
            values = np.asarray(self.reward[rows], dtype=np.float64)
            # A terminal state is followed by no reward, which some logs leave open.
            last = -1 if self.after is None and np.isnan(values[-1]) else len(values)
            return float(values[:last].sum())
        return float(self._same(self.total, "return", rows, number, np.nan))

    def _same(
        self, values: Array | None, name: str, rows: NDArray[np.intp], number: int, unknown: Any
    ) -> Any:
        """Give the value that all rows of an episode share."""
        if values is None:
            return unknown
        mine = values[rows]
        if not np.array_equal(mine, np.full_like(mine, mine[0]), equal_nan=mine.dtype.kind == "f"):
            raise BadData(
                f"the {name} of episode {number} is not the same in all its rows, "
                f"{mine[0]} and {mine[mine != mine[0]][0]}: rewards of steps are called reward"
            )
        return mine[0]
