# mypy: ignore-errors
"""What happens in a process that `pivec.engines.processes` started for an item."""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
import time
import traceback
from collections.abc import Callable
from typing import IO, Any

from pivec.engines.child import _log, _read_script
from pivec.errors import PivecError
from pivec.notices import Notices

Tell = Callable[..., bool]
Work = Callable[[Any, Tell], Any]

_SELDOM = 0.3  # seconds between messages that need not all be sent


def work(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Call the function that the parent sends with its item, and reply what comes of it."""
    with contextlib.suppress(BrokenPipeError):
        script, logged = pickle.load(requests)  # noqa: S301  (our parent's)
        with Notices(_log if logged else lambda _: None) as notices:
            parent = _Parent(replies, notices, logged)
            try:
                if script is not None:
                    _read_script(*script)
                function, item = pickle.load(requests)  # noqa: S301  (our parent's)
                threading.Thread(target=_end_with_parent, daemon=True).start()
                parent.send(function(item, parent.tell), finished=True)
            except BrokenPipeError:
                return  # it is gone
            except Exception as error:
                if logged and not isinstance(error, PivecError):
                    traceback.print_exc()
                failure = type(error).__name__, str(error), traceback.format_exc()
                parent.send(None, finished=True, failure=failure)


class _Parent:
    """Takes replies: content, whether it is the last, a failure, and what was warned of."""

    def __init__(self, replies: IO[bytes], notices: Notices, logged: bool) -> None:
        self._replies, self._notices, self._logged = replies, notices, logged
        self._last = -_SELDOM

    def tell(self, message: Any, seldom: bool = False) -> bool:
        """Send a message, a ``seldom`` one only if the last is some time ago; say whether."""
        if seldom and time.monotonic() - self._last < _SELDOM:
            return False
        self._last = time.monotonic()
        self.send(message)
        return True

    def send(
        self, content: Any, finished: bool = False, failure: tuple[str, ...] | None = None
    ) -> None:
        notices = [row for row in self._notices.take() if row.own or not self._logged]
        pickle.dump((content, finished, failure, notices), self._replies)
        self._replies.flush()


def _end_with_parent() -> None:
    """Wait for the end of standard input, which the parent holds open, and end as well."""
    while os.read(0, 1):
        pass
    os._exit(1)
