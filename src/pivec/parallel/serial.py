"""The serial engine: one item after another in this process, or beside it where it must be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pivec.errors import PivecError
from pivec.parallel.engine import Engine, Reply, Task
from pivec.parallel.pieces import Teller, failure_of, in_words


class Serial(Engine):
    """Works on one item after another in this process."""

    def _map(self, task: Task, items: Iterable[Any]) -> Iterator[Reply]:
        if task.apart:
            from pivec.parallel.processes import Processes

            yield from Processes(1)._map(task, items)
            return
        for item in items:
            caller = _Caller(task, item)
            try:
                reply = Reply(item, task.work(item, Teller(caller)))
            except Exception as error:
                if caller.failure is not None:
                    raise caller.failure from None
                if not isinstance(error, PivecError):
                    error = failure_of(*in_words(error))
                reply = Reply(item, failure=error)
            yield reply


class _Caller:
    """Takes messages; what goes wrong with them is no failure of the work."""

    def __init__(self, task: Task, item: Any) -> None:
        self._task, self._item = task, item
        self.failure: BaseException | None = None

    def __call__(self, message: Any) -> None:
        try:
            self._task.on_message(self._item, message)
        except BaseException as error:
            self.failure = error
            raise
