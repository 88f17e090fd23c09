"""What the engines share: items that wait and those whose worker died, messages, failures."""

from __future__ import annotations

import pickle
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pivec.errors
from pivec.errors import PivecError, UsageError
from pivec.parallel.engine import Reply, Task, WorkFailed

DEATHS = 3  # of workers, before an item is given up
# A node that goes takes all of its items with it, whatever these do.
REMOVALS = 20

_SELDOM = 0.3  # seconds between messages that need not all be sent

Failure = tuple[str, str, str]  # the kind of an error, what it says, and where it happened


@dataclass
class Piece:
    """An item, how often it ended its worker, and how often it was lost with a machine."""

    item: Any
    deaths: int = 0
    removals: int = 0


class Pieces:
    """The items of a task that wait for a worker; they are taken when they are asked for."""

    def __init__(self, task: Task, items: Iterable[Any]) -> None:
        self._task, self._items = task, iter(items)
        self._again: deque[Piece] = deque()

    def take(self) -> Piece | None:
        """Give the next piece; None if none waits (another may come again, if its worker dies)."""
        if self._again:
            return self._again.popleft()
        for item in self._items:
            return Piece(item)
        return None

    def lost(self, piece: Piece, why: WorkFailed, *, removed: bool = False) -> Reply | None:
        """Let a piece whose worker died wait again, or give the reply of one that failed too often.

        ``removed`` tells that its whole machine went, which is not the fault of the piece.
        """
        if removed:
            piece.removals += 1
        else:
            piece.deaths += 1
        if piece.deaths >= DEATHS or piece.removals >= REMOVALS:
            times = f"{piece.deaths} times" if piece.deaths >= DEATHS else "again and again"
            failure = WorkFailed(f"{self._task.name(piece.item)} lost its worker {times}: {why}")
            failure.died, failure.code = True, why.code
            return Reply(piece.item, failure=failure)
        split = self._task.split
        items = [piece.item] if split is None else split(piece.item)
        self._again.extend(Piece(item, piece.deaths, piece.removals) for item in items)
        return None


class Teller:
    """Sends messages of work to its caller, those that need not all be sent only now and then."""

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send, self._last = send, -_SELDOM

    def __call__(self, message: Any, seldom: bool = False) -> bool:
        """Send a message, a ``seldom`` one only if the last is some time ago; say whether."""
        if seldom and time.monotonic() - self._last < _SELDOM:
            return False
        self._last = time.monotonic()
        self._send(message)
        return True


def in_words(error: Exception) -> Failure:
    """Put an error into words that can be sent."""
    return type(error).__name__, str(error), traceback.format_exc()


def failure_of(kind: str, message: str, trace: str) -> PivecError:
    """Make an error that happened elsewhere again, of the same kind if it is one of ours."""
    known = getattr(pivec.errors, kind, None)
    if isinstance(known, type) and issubclass(known, PivecError):
        failure: PivecError = known.__new__(known, message)  # the message is whole already
    else:
        failure = WorkFailed(f"{kind}: {' '.join(message.split())}" if message else kind)
    failure.__cause__ = RuntimeError(f"in another process:\n{trace}")
    return failure


def refuse_parts(task: Task, item: Any) -> None:
    """Raise an error about that part of an item which cannot be sent to another process."""
    for name, part in task.parts(item):
        try:
            pickle.dumps(part)
        except Exception as error:
            raise UsageError(
                f"{name} cannot be sent to another process ({error}): define it at the top "
                f"level of a module{task.remedy}"
            ) from error
