"""What is kept of one policy: its episodes, and their states when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, UsageError
from pivec.files import naming
from pivec.policies import Policy, PolicyInfo
from pivec.rollouts import Episode, PlayedPolicy

# What is known of an episode beside its states; -1 stands for an unknown seed.
EPISODE = np.dtype(
    [("return", "f8"), ("length", "i8"), ("seed", "i8"), ("terminated", "?"), ("truncated", "?")]
)

# The states of one policy, all episodes one after another, and its actions where they are kept:
# one fewer an episode.
Arrays = tuple[NDArray[np.float32], NDArray[Any] | None]


@dataclass(frozen=True)
class PolicyRecord:
    """All that is kept of one policy; ``episodes`` has a row of `EPISODE` for each.

    States and actions are read when they are asked for, and so is the policy itself, which is None
    if it is not kept.
    """

    info: PolicyInfo
    episodes: NDArray[Any]
    has_actions: bool
    read_arrays: Callable[[], Arrays]
    read_policy: Callable[[], Policy | None]

    @classmethod
    def in_memory(
        cls, info: PolicyInfo, episodes: NDArray[Any], arrays: Arrays, policy: Policy | None = None
    ) -> PolicyRecord:
        """Make a record whose arrays are at hand."""
        has_actions = arrays[1] is not None
        return cls(info, episodes, has_actions, partial(_same, arrays), partial(_same, policy))

    def as_episodes(self, rows: Sequence[int] | None = None) -> Iterator[Episode]:
        """Cut the arrays into episodes, or take these of them; they are views."""
        states, actions = self.read_arrays()
        known, starts = self.episodes.tolist(), starts_of(self.episodes["length"]).tolist()
        for row in range(len(known)) if rows is None else rows:
            total, _, *rest = known[row]
            begin, end = starts[row : row + 2]
            moves = None if actions is None else actions[begin - row : end - row - 1]
            yield Episode(states[begin:end], moves, total, *rest)

    @property
    def every(self) -> int:
        """K of the thinning, 1 if all states are kept."""
        return int(self.info.metadata.get("kept_every", 1))

    def first(self, episodes: int) -> PolicyRecord:
        """Keep the first episodes; their states are not copied."""
        if episodes >= len(self.episodes):
            return self
        read = partial(_beginning, self.without_policy(), episodes)
        return replace(self, episodes=self.episodes[:episodes], read_arrays=read)

    def extended(self, more: PolicyRecord) -> PolicyRecord:
        """Put later episodes after these, which are thinned as those are."""
        episodes = list(self.as_episodes())
        for episode in episodes:
            for _ in range((more.every // self.every).bit_length() - 1):
                episode.halve()
        episodes += more.as_episodes()
        return record_of(more.info, episodes, more.every, more.read_policy())

    def only(self, rows: NDArray[Any]) -> PolicyRecord:
        """Keep these of the episodes; their states are copied when they are asked for."""
        read = partial(_excerpt, self.without_policy(), rows.tolist())
        return replace(self, episodes=self.episodes[rows], read_arrays=read)

    def without_policy(self) -> PolicyRecord:
        """Keep all but the policy itself, which may be large, or nothing that can be sent."""
        return replace(self, read_policy=partial(_same, None))


def _same(value: Any) -> Any:
    return value


def _beginning(record: PolicyRecord, episodes: int) -> Arrays:
    states, actions = record.read_arrays()
    end = int(record.episodes["length"][:episodes].sum())
    return states[:end], None if actions is None else actions[: end - episodes]


def _excerpt(record: PolicyRecord, rows: list[int]) -> Arrays:
    return _concatenated(list(record.as_episodes(rows)))


def record_of(
    info: PolicyInfo, episodes: Sequence[Episode], every: int = 1, policy: Policy | None = None
) -> PolicyRecord:
    """Put the episodes of one policy together; thinned ones say so in the metadata."""
    if every > 1:
        info = replace(info, metadata={**info.metadata, "kept_every": every})
    known = [(e.total_reward, len(e.states), e.seed, e.terminated, e.truncated) for e in episodes]
    table = np.array(known, dtype=EPISODE)
    return PolicyRecord.in_memory(info, table, _concatenated(episodes), policy)


def record_of_played(played: PlayedPolicy) -> PolicyRecord:
    """Put together what a policy played, with the policy itself."""
    named = played.named
    return record_of(named.info, played.episodes, played.every, named.policy)


def _concatenated(episodes: Sequence[Episode]) -> Arrays:
    moves = [episode.actions for episode in episodes if episode.actions is not None]
    states = np.concatenate([episode.states for episode in episodes])
    return states, np.concatenate(moves) if moves else None


def starts_of(lengths: Any) -> NDArray[np.int64]:
    """Where pieces of these lengths begin, one after another; the last number is their sum."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def overlapping(starts: NDArray[np.int64], first: int, last: int) -> tuple[int, int]:
    """Numbers (s0, s1) of the pieces that have rows from first to last: s0, ..., s1 − 1."""
    s0 = int(np.searchsorted(starts, first, side="right")) - 1
    return s0, int(np.searchsorted(starts, last, side="left"))


def names_of(given: Sequence[str] | None, width: int, letter: str = "x") -> tuple[str, ...]:
    """Names of so many features: those that are given, or numbers."""
    names = [f"{letter}[{i}]" for i in range(width)] if given is None else given
    if len(names) != width:
        raise UsageError(f"feature_names needs {width} names, but has {len(names)}")
    return tuple(map(str, names))


def check_unique(labels: Sequence[str]) -> None:
    """Refuse two policies of one name."""
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            raise UsageError(
                f"two policies are called {label!r}: give one of them another name (from Python "
                "with a dict), or move its file"
            )
        seen.add(label)


def check_finite(states: NDArray[Any], episode: str, names: Sequence[str] | None = None) -> None:
    """Refuse states that are not finite; ``episode`` says which one they are of."""
    if np.isfinite(states).all():
        return
    step, column = np.argwhere(~np.isfinite(states))[0]
    name = feature_called(column, names)
    raise BadData(
        f"step {step} of {episode} has {states[step, column]} in feature {name}, but states must "
        "be finite (within float32): remove or mend it"
    )


def feature_called(column: int, names: Sequence[str] | None) -> str:
    """Tell which feature is meant, by name where it has one."""
    return str(column) if names is None else repr(names[column])


@dataclass(frozen=True)
class Recorded:
    """Episodes of one policy that somebody recorded, not yet read.

    ``read`` goes through them; their states are observations as they were found: a batch of
    arrays, or dicts and tuples of them. ``is_flat`` tells that they are states already, which
    nothing is to turn into rows.
    """

    info: PolicyInfo
    read: Callable[[], Iterator[Episode]]
    space: Any = None  # of the observations, where it is known
    environment: str = ""
    names: tuple[str, ...] | None = None  # of the values of a state
    is_flat: bool = False
    has_actions: bool | None = None  # None if it takes reading them to know
    collected: Mapping[str, Any] = field(default_factory=dict)  # settings of a store it is in

    def episodes(self) -> Iterator[Episode]:
        """Read one episode after another."""
        with naming(self.info.source, "recorded episodes", BadData):
            try:
                yield from self.read()
            except BadData as error:
                raise BadData(f"{self.info.source}: {error}") from error
