"""The entry point: handles signals and closed streams before anything else is imported."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

STOPPED = 130  # the exit code after Ctrl-C: 128 plus the number of the signal
_USUAL = signal.default_int_handler, signal.SIG_DFL


def main() -> None:
    """Run the command line; Ctrl-C and SIGTERM end it without a traceback.

    The first signal cleans up. A second one exits immediately, as does any signal before the
    command starts or after it has finished.
    """
    ours = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) in _USUAL]
    received: list[int] = []

    def handle(handler: Callable[[int, Any], None]) -> None:
        for number in ours:
            signal.signal(number, handler)

    def clean_up(number: int, _: Any) -> None:
        received.append(number)
        handle(_exit)
        raise KeyboardInterrupt

    def unraisable(problem: Any) -> None:
        # Python would ignore a KeyboardInterrupt raised while an object is being deleted.
        if received and issubclass(problem.exc_type, KeyboardInterrupt):
            _exit(received[0])
        sys.__unraisablehook__(problem)

    handle(_exit)
    sys.unraisablehook = unraisable
    _open_closed_streams()
    faulthandler.enable(2)  # prints the line in which a library crashes the process
    from pivec.cli import main as run

    handle(clean_up)
    try:
        try:
            run()
        finally:
            handle(_exit)
    except (KeyboardInterrupt, SystemExit) as end:
        if received and getattr(end, "code", STOPPED) == STOPPED:
            sys.exit(128 + received[0])
        raise


def _exit(number: int, _: Any = None) -> None:
    os._exit(128 + number)


def _open_closed_streams() -> None:
    """Open closed standard streams (``2>&-``), so that no file takes their place."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


if __name__ == "__main__":
    main()
