"""A thread for heavy work, a call at a time; Ctrl-C does not wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Desk:
    """Takes calls, and makes them one after another in a thread of its own.

    Python waits at its end for the threads of an executor, but not for this one.

    Examples
    --------
    >>> Desk().submit(sum, [1, 2]).result()
    3
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]]
        self._calls = SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Make a call when those before it are done."""
        future: Future[T] = Future()
        self._calls.put((future, function, arguments))
        return future

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Make a call, and wait for what it returns."""
        return await asyncio.wrap_future(self.submit(function, *arguments))

    def _work(self) -> None:
        while True:
            future, function, arguments = self._calls.get()
            if not future.set_running_or_notify_cancel():
                continue  # nobody waits for it any more
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)
