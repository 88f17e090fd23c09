"""Episodes: their seeds, their states while they are played and after, and thinning of long ones.

Thinned by k, an episode with states at the times 0 to T keeps about one state in k, in pairs (t,
t + 1), so that steps stay known: those with t = 0, 2k, 4k, ... and t + 1 < T - 1, and the last pair
(T - 1, T). All episodes of a policy have the same k, the smallest power of two that brings the
policy below its limit, so long and short episodes keep their weights, and k does not depend on the
schedule.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import BadData, UsageError
from pivec.policies import NamedPolicy

_ACTIONS = 0x616374  # separates the stream of actions from the environment's, which has that seed
_STEPS, _BYTES = 128, 64 << 20  # of a buffer, at most
_MOST = 1 << 40  # by which nothing is thinned


def episode_seeds(seed: int, identity: str, episodes: int) -> NDArray[np.int64]:
    """Seeds of a policy's episodes; the first ones do not depend on how many are asked for.

    They follow from what the policy is (`PolicyInfo.identity`; nothing for common random numbers),
    so that neither other policies nor another label change anything. Below 2**31, which every
    environment accepts.
    """
    words = np.frombuffer(hashlib.sha256(identity.encode()).digest()[:16], dtype="<u4")
    sequence = np.random.SeedSequence([seed, *words.tolist()])
    return (sequence.generate_state(episodes) >> 1).astype(np.int64)


def action_stream(episode_seed: int) -> np.random.Generator:
    """Return the random stream from which the actions of one episode are drawn."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([episode_seed, _ACTIONS])))


def kept_rows(n_rows: int, factor: int) -> NDArray[np.intp]:
    """Return which rows of an episode remain when it is thinned by ``factor``, a power of two.

    Thinning what is thinned already multiplies the factors.

    Examples
    --------
    >>> kept_rows(12, 2).tolist(), kept_rows(12, 4).tolist()
    ([0, 1, 4, 5, 8, 9, 10, 11], [0, 1, 8, 9, 10, 11])
    """
    if factor == 1 or n_rows < 2:
        return np.arange(n_rows)
    pairs = np.append(np.arange(0, n_rows - 3, 2 * factor), n_rows - 2)
    return np.asarray((pairs[:, None] + np.arange(2)).ravel())


def kept_lengths(lengths: ArrayLike, factor: int) -> NDArray[np.int64]:
    """Return how many rows of episodes `kept_rows` keeps."""
    n = np.asarray(lengths, dtype=np.int64)
    if factor == 1:
        return n
    return np.where(n < 2, n, 2 + 2 * np.maximum(-((3 - n) // (2 * factor)), 0))


def row_times(rows: Any, lengths: Any, steps: Any, every: int) -> NDArray[np.int64]:
    """Return the times of rows of episodes with so many rows, thinned by ``every``, and steps.

    Examples
    --------
    >>> row_times(np.arange(6), 6, 11, 4).tolist()
    [0, 1, 8, 9, 10, 11]
    """
    row: NDArray[np.int64] = np.asarray(rows)
    left: NDArray[np.int64] = np.subtract(lengths, 1) - row
    return row if every == 1 else np.where(left < 2, steps - left, 2 * every * (row // 2) + row % 2)


@dataclass
class Episode:
    """One played episode: its first observation, every later one and the terminal one.

    ``actions`` holds the action taken in each kept state except the terminal one.
    """

    states: NDArray[np.float32]
    actions: NDArray[Any] | None
    total_reward: float
    seed: int
    terminated: bool
    truncated: bool
    steps: int = -1  # that were taken, kept or not; by default one fewer than states
    apart: float = np.nan  # time between successive states, if times are recorded
    outcomes: Mapping[str, float | str] = field(default_factory=dict)  # such as success or a task

    @property
    def n_steps(self) -> int:
        """Steps that were taken."""
        return len(self.states) - 1 if self.steps < 0 else self.steps

    def thin(self, factor: int) -> None:
        """Keep one state in ``factor``, in pairs; see `kept_rows`."""
        if factor > 1:
            rows, self.steps = kept_rows(len(self.states), factor), self.n_steps
            self.states = self.states[rows]
            if self.actions is not None:
                self.actions = self.actions[rows[:-1]]


class _Earlier:
    """Rows of the running episode of one lane that were moved out of the buffer.

    Of a thinned one these are the pairs that begin at 0, 2k, 4k, ..., and the newest row, which may
    belong to the last pair.
    """

    def __init__(self) -> None:
        self.states: list[NDArray[np.float32]] = []
        self.actions: list[NDArray[Any]] = []
        self.newest: list[NDArray[Any]] = []  # state and action
        self.steps = 0  # rows that came in, kept or not

    def add(self, states: NDArray[np.float32], actions: NDArray[Any] | None, every: int) -> None:
        times = np.arange(self.steps, self.steps + len(states))
        rows = times % (2 * every) < 2
        self.states.append(states[rows])
        self.newest = [states[-1:].copy()]
        if actions is not None:
            self.actions.append(actions[rows])
            self.newest.append(actions[-1:].copy())
        self.steps += len(states)

    def halve(self) -> None:
        for parts in (self.states, self.actions):
            if parts:
                rows = np.concatenate(parts)
                parts[:] = [rows[np.arange(len(rows)) % 4 < 2]]

    def pairs(self, every: int) -> tuple[list[NDArray[np.float32]], list[NDArray[Any]]]:
        """All rows of the episode but the terminal one, if no other follows."""
        most = int(kept_lengths(self.steps + 1, every)) - 2
        actions = [np.concatenate(self.actions)[:most]] if self.actions else []
        return [np.concatenate(self.states)[:most], *self.newest[:1]], [*actions, *self.newest[1:]]


class StepBuffer:
    """States and actions of all lanes, step by step; gives the rows of an episode when it ends.

    When the buffer is full, rows of running episodes are moved to `earlier`. ``rows`` (n_lanes,
    n_features) are an example of what will be written.
    """

    def __init__(self, rows: NDArray[np.float32]) -> None:
        self.steps = int(np.clip(_BYTES // max(1, rows.nbytes), 1, _STEPS))
        self.time = 0  # steps in the buffer
        self.earlier = [_Earlier() for _ in rows]
        self.lengths = np.zeros(len(rows), dtype=np.int64)  # steps of the running episodes
        self.totals = np.zeros(len(rows))  # and their rewards
        self.seeds = np.full(len(rows), -1, dtype=np.int64)
        self._since = np.zeros(len(rows), dtype=np.intp)
        self._states = np.zeros((self.steps, *rows.shape), dtype=np.float32)
        self._actions: NDArray[Any] | None = None

    def begin(self, lane: int, seed: int) -> None:
        """Begin an episode in a lane with the next step."""
        self._since[lane], self.seeds[lane] = self.time, seed
        self.lengths[lane], self.totals[lane] = 0, 0.0
        if self.earlier[lane].steps:
            self.earlier[lane] = _Earlier()

    def write(self, rows: NDArray[Any]) -> None:
        """Write the states of all lanes in the next steps, (n_steps, n_lanes, ...)."""
        self._states[self.time : self.time + len(rows)] = rows
        self.time += len(rows)

    def write_actions(self, actions: NDArray[Any]) -> None:
        """Write the actions of the last steps, (n_steps, n_lanes, ...)."""
        if self._actions is None:
            self._actions = np.zeros((self.steps, *actions.shape[1:]), dtype=actions.dtype)
        self._actions[self.time - len(actions) : self.time] = actions

    def amend(self, lanes: NDArray[np.intp], columns: list[int], rows: NDArray[Any]) -> None:
        """Overwrite some columns of the last step in these lanes."""
        where = np.ix_(lanes, np.array(columns))
        self._states[self.time - 1][where] = rows[where]

    def clear(
        self, lanes: NDArray[np.intp], every: Callable[[int], int] = lambda _: 1
    ) -> NDArray[np.intp]:
        """Empty the buffer; return those of the active ``lanes`` whose rows were moved."""
        running = lanes[self._since[lanes] < self.time]
        for lane in running.tolist():
            self.earlier[lane].add(*self._rows(lane), every(lane))
        self._since[:] = 0
        self.time = 0
        return running

    def finish(
        self,
        lane: int,
        terminal: NDArray[np.float32],
        terminated: bool,
        truncated: bool,
        every: int = 1,
    ) -> Episode:
        """Assemble the episode of a lane, the terminal state last."""
        before, (states, actions) = self.earlier[lane], self._rows(lane)
        if before.steps or every > 1:
            self.earlier[lane] = _Earlier()
        steps = before.steps + len(states)
        rows, moves = [*before.states, states], [*before.actions]
        if actions is not None:
            moves.append(actions)
        if every > 1:
            if len(states):
                before.add(states, actions, every)
            rows, moves = before.pairs(every)
        return Episode(
            np.concatenate([*rows, terminal[None]]),
            np.concatenate(moves) if moves else None,
            float(self.totals[lane]),
            int(self.seeds[lane]),
            terminated,
            truncated,
            steps,
        )

    def _rows(self, lane: int) -> tuple[NDArray[np.float32], NDArray[Any] | None]:
        """Rows of the lane's episode in the buffer."""
        mine = slice(self._since[lane], self.time)
        actions = None if self._actions is None else self._actions[mine, lane]
        return self._states[mine, lane], actions


@dataclass(frozen=True)
class Quota:
    """Episodes that a policy is to play: all before ``end`` that it has not played already.

    ``lengths`` are the numbers of states kept of those it has, thinned by ``every``: they count
    towards its limit. ``seeds`` are those of all its episodes, if they do not follow from what the
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
    """The episodes of one policy, thinned as they arrive to at most ``limit`` states.

    Those that ``quota`` lists as kept already count towards the limit.
    """

    def __init__(self, limit: int | None = None, quota: Quota | None = None) -> None:
        quota = Quota(0) if quota is None else quota
        self.every, self._kept, self._limit = quota.every, quota.lengths, limit
        self._episodes: dict[int, Episode] = {}

    def __len__(self) -> int:
        return len(self._episodes)

    def put(self, number: int, episode: Episode) -> None:
        """Add an episode that is thinned by ``every`` already."""
        self._episodes[number] = episode

    def append(self, episode: Episode, every: int = 1) -> None:
        """Add one more episode, which is thinned by ``every``."""
        episode.thin(self.every // every)
        self.put(len(self), episode)
        self.thin()

    def thin(self, running: Sequence[_Earlier] = ()) -> None:
        """Thin everything, rows of running episodes included, until it is within the limit."""
        if self._limit is None:
            return
        begun = kept_lengths([rows.steps + 1 for rows in running if rows.steps], self.every)
        own = [len(episode.states) for episode in self._episodes.values()]
        lengths = np.concatenate([begun, np.array(own, dtype=np.int64), self._kept])
        if kept_lengths(lengths, _MOST).sum() > self._limit:
            raise UsageError(
                f"{self._limit} states per policy are too few for its episodes: each keeps at "
                "least its first two and its last two states, so raise max_states_per_policy"
            )
        while lengths.sum() > self._limit:
            self.every *= 2
            for episode in self._episodes.values():
                episode.thin(2)
            for rows in running:
                rows.halve()
            self._kept, lengths = kept_lengths(self._kept, 2), kept_lengths(lengths, 2)

    def all(self) -> list[Episode]:
        """Return the episodes in the order of their numbers."""
        return [self._episodes[number] for number in sorted(self._episodes)]


class EpisodeRecorder:
    """Records the episodes of another loop in some lanes, and returns each when it ends.

    ``cut_after`` cuts them into pieces of that many steps, for tasks that never end.
    """

    def __init__(
        self, n_lanes: int, *, actions: bool = False, cut_after: int | None = None
    ) -> None:
        self.n_lanes, self.cut_after, self._keeps_actions = n_lanes, cut_after, actions
        self.active = np.zeros(n_lanes, dtype=bool)
        self._rows = np.zeros((n_lanes, 0), np.float32)  # the current states
        self._buffer = StepBuffer(self._rows)

    def start(self, rows: ArrayLike, lanes: ArrayLike | None = None, seeds: ArrayLike = -1) -> None:
        """Begin an episode in all lanes, or in these (a mask), with the observations of ``rows``.

        Episodes running there are discarded. ``seeds`` are -1 where they are not known.
        """
        first = np.asarray(rows, dtype=np.float32)
        if self._rows.shape != first.shape and not self.active.any():  # the very first
            self._buffer, self._rows = StepBuffer(first), first.copy()
        mask = self._mask(lanes)
        self._rows[mask] = first[mask]
        numbers = np.broadcast_to(seeds, self.n_lanes)
        for lane in np.flatnonzero(mask).tolist():
            self._buffer.begin(lane, int(numbers[lane]))
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
        """Record one step of all lanes; return the episodes that ended, with their lanes.

        ``rows`` are the states after the step, ``actions`` those taken before. ``terminated`` and
        ``truncated`` are None if no episode ended, which is quicker. ``terminal`` has the last
        observations of lanes for which ``rows`` has the first of the next episode.
        """
        if not self.active.any():
            return []
        shown = np.asarray(rows)
        if shown.shape != self._rows.shape:
            raise BadData(f"states have shape {shown.shape}, but before {self._rows.shape}")
        moves = None if actions is None else np.asarray(actions)[None]
        self._write(shown[None], np.asarray(rewards)[None], moves)
        ended = []
        if terminated is not None and truncated is not None:
            over, cut = np.asarray(terminated, dtype=bool), np.asarray(truncated, dtype=bool)
            for lane in np.flatnonzero(self.active & (over | cut)).tolist():
                last = (terminal or {}).get(lane)
                ended.append(self._ended(lane, bool(over[lane]), bool(cut[lane]), last))
                self.active[lane] = False
        if self.cut_after is not None:
            long = self.active & (self._buffer.lengths >= self.cut_after)
            for lane in np.flatnonzero(long).tolist():
                ended.append(self._ended(lane, False, True))
                self._buffer.begin(lane, ended[-1][1].seed)
        return ended

    def extend(
        self, rows: NDArray[Any], rewards: NDArray[Any], actions: NDArray[Any] | None = None
    ) -> list[tuple[int, Episode]]:
        """Record (n_steps, n_lanes, ...) in which no episode ended; return what is cut."""
        if self.cut_after is not None:
            moves = [None] * len(rows) if actions is None else actions
            steps = zip(rows, rewards, moves, strict=True)
            return [ended for r, w, a in steps for ended in self.step(r, w, None, None, a)]
        if self.active.any():
            self._write(rows, rewards, actions)
        return []

    def cut(self, lanes: ArrayLike | None = None) -> list[tuple[int, Episode]]:
        """End the running episodes of all lanes, or of these (a mask); return those with a step."""
        mask = self._mask(lanes)
        begun = np.flatnonzero(self.active & mask & (self._buffer.lengths > 0))
        self.active &= ~mask
        return [self._ended(lane, False, True) for lane in begun.tolist()]

    def _mask(self, lanes: ArrayLike | None) -> NDArray[np.bool_]:
        return np.ones(self.n_lanes, bool) if lanes is None else np.asarray(lanes, dtype=bool)

    def _write(
        self, rows: NDArray[Any], rewards: NDArray[Any], actions: NDArray[Any] | None
    ) -> None:
        """Record steps; ``rows`` are the states after each of them."""
        buffer = self._buffer
        before = np.concatenate([self._rows[None], rows[:-1]])
        done = 0
        while done < len(rows):
            if buffer.time == buffer.steps:
                buffer.clear(np.flatnonzero(self.active))
            block = slice(done, done + buffer.steps - buffer.time)
            buffer.write(before[block])
            if actions is not None and self._keeps_actions:
                buffer.write_actions(actions[block])
            done = block.stop
        self._rows[:] = rows[-1]
        buffer.lengths += len(rows)
        buffer.totals += rewards.sum(axis=0, dtype=np.float64)

    def _ended(
        self, lane: int, terminated: bool, truncated: bool, last: Any = None
    ) -> tuple[int, Episode]:
        terminal = self._rows[lane] if last is None else np.asarray(last, dtype=np.float32)
        return lane, self._buffer.finish(lane, terminal, terminated, truncated)
