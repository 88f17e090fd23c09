"""The arrays of many policies as sequences that open or cut them when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

# The states of one policy, and its actions where they are kept.
Arrays = tuple[NDArray[np.float32], NDArray[Any] | None]


T = TypeVar("T")


class Picked(Sequence[T]):
    """Some entries of a sequence, each fetched when it is needed."""

    def __init__(self, base: Sequence[T], numbers: list[int]) -> None:
        self._base, self._numbers = base, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, i: Any) -> Any:
        return self._base[self._numbers[i]]


class SomeEpisodes(Sequence[Arrays]):
    """Some episodes of each policy.

    Parameters
    ----------
    base : sequence of (states, actions)
    starts : callable
        Where the episodes of a policy begin within its own states.
    episodes : list of int arrays
        For each policy the numbers of its episodes to keep.
    """

    def __init__(
        self,
        base: Sequence[Arrays],
        starts: Callable[[int], NDArray[np.int64]],
        episodes: list[NDArray[Any]],
    ) -> None:
        self._base, self._starts, self._episodes = base, starts, episodes

    def __len__(self) -> int:
        return len(self._episodes)

    def __getitem__(self, i: Any) -> Any:
        states, actions = self._base[i]
        starts, mine = self._starts(i), self._episodes[i]
        some = np.concatenate([states[starts[e] : starts[e + 1]] for e in mine])
        if actions is None:
            return some, None
        moves = starts - np.arange(len(starts))  # one action fewer in each episode
        return some, np.concatenate([actions[moves[e] : moves[e + 1]] for e in mine])


def joined_blocks(
    pieces: Iterable[NDArray[np.float32]], rows: int
) -> Iterator[NDArray[np.float32]]:
    """Cut pieces of any length into blocks of ``rows`` rows, the last one maybe shorter.

    Small pieces are put together; a block inside one piece is a view of it.
    """
    waiting: list[NDArray[np.float32]] = []
    count = 0
    for piece in pieces:
        at = 0
        while len(piece) - at >= rows - count:
            part = piece[at : at + rows - count]
            yield np.concatenate([*waiting, part]) if waiting else part
            at += len(part)
            waiting, count = [], 0
        if at < len(piece):
            waiting.append(piece[at:])
            count += len(piece) - at
    if waiting:
        yield np.concatenate(waiting)
