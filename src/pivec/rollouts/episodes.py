"""Episodes: their seeds, their states while they are played and after, and thinning of long ones.

Thinned to every k-th state, an episode keeps its states 0, k, 2k, ... and the terminal one. All
episodes of a policy have the same k, the smallest power of two that brings the policy below its
limit, so long and short episodes keep their weights, and k does not depend on the schedule.
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


def episode_seeds(seed: int, identity: str, episodes: int) -> NDArray[np.int64]:
    """Seeds of a policy's episodes; the first ones do not depend on how many are asked for.

    They follow from what the policy is (`PolicyInfo.identity`), so that neither other policies
    nor another label change anything. Below 2**31, which every environment accepts.
    """
    words = np.frombuffer(hashlib.sha256(identity.encode()).digest()[:16], dtype="<u4")
    sequence = np.random.SeedSequence([seed, *words.tolist()])
    return (sequence.generate_state(episodes) >> 1).astype(np.int64)


def action_stream(episode_seed: int) -> np.random.Generator:
    """Return the random stream from which the actions of one episode are drawn."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([episode_seed, _ACTIONS])))


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

    def halve(self) -> None:
        """Keep every second state, and the terminal one."""
        self.states = np.concatenate([self.states[:-1:2], self.states[-1:]])
        if self.actions is not None:
            self.actions = self.actions[::2].copy()


class _Earlier:
    """Rows of the running episode of one lane that were moved out of the buffer."""

    def __init__(self) -> None:
        self.states: list[NDArray[np.float32]] = []
        self.actions: list[NDArray[Any]] = []
        self.steps = 0  # rows that came in, kept or not

    @property
    def kept(self) -> int:
        return sum(map(len, self.states))

    def add(self, states: NDArray[np.float32], actions: NDArray[Any] | None, steps: int) -> None:
        self.states.append(states.copy())
        if actions is not None:
            self.actions.append(actions.copy())
        self.steps += int(steps)

    def halve(self) -> None:
        self.states = [np.concatenate(self.states)[::2].copy()] if self.states else []
        self.actions = [np.concatenate(self.actions)[::2].copy()] if self.actions else []


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
            self.earlier[lane].add(*self._rows(lane, every(lane)), self.time - self._since[lane])
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
        before, (states, actions) = self.earlier[lane], self._rows(lane, every)
        if before.steps:
            self.earlier[lane] = _Earlier()
        return Episode(
            np.concatenate([*before.states, states, terminal[None]]),
            None if actions is None else np.concatenate([*before.actions, actions]),
            float(self.totals[lane]),
            int(self.seeds[lane]),
            terminated,
            truncated,
        )

    def _rows(self, lane: int, every: int) -> tuple[NDArray[np.float32], NDArray[Any] | None]:
        """Every k-th row of the lane's episode in the buffer."""
        mine = slice(self._since[lane] + -self.earlier[lane].steps % every, self.time, every)
        actions = None if self._actions is None else self._actions[mine, lane]
        return self._states[mine, lane], actions


@dataclass(frozen=True)
class Quota:
    """Episodes that a policy is to play: all before ``end`` that it has not played already.

    ``lengths`` are the numbers of states kept of those it has, thinned to every k-th: they count
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
        """Add an episode that is thinned to every k-th state already."""
        self._episodes[number] = episode

    def append(self, episode: Episode) -> None:
        """Add one more episode, with all its states."""
        for _ in range(self.every.bit_length() - 1):
            episode.halve()
        self.put(len(self), episode)
        self.thin()

    def thin(self, running: Sequence[_Earlier] = ()) -> None:
        """Thin everything, rows of running episodes included, until it is within the limit."""
        if self._limit is None:
            return
        episodes = self._episodes.values()
        if 2 * (len(self) + len(self._kept)) + sum(r.steps > 0 for r in running) > self._limit:
            raise UsageError(
                f"{self._limit} states per policy are too few for its episodes: each keeps at "
                "least its first and its terminal state, so raise max_states_per_policy"
            )
        n_states = sum(len(e.states) for e in episodes) + int(self._kept.sum())
        while n_states + sum(rows.kept for rows in running) > self._limit:
            self.every *= 2
            for episode in episodes:
                episode.halve()
            for rows in running:
                rows.halve()
            self._kept = self._kept // 2 + 1  # as `Episode.halve` leaves them
            n_states = sum(len(e.states) for e in episodes) + int(self._kept.sum())

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
