"""The entry point: handles Ctrl-C and closed streams before anything else is imported."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

STOPPED = 130  # the exit code after Ctrl-C


def main() -> None:
    """Run the command line; Ctrl-C ends it without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _at_once)
    _open_closed_streams()
    from pivec.cli import main as run

    if signal.getsignal(signal.SIGINT) is _at_once:
        signal.signal(signal.SIGINT, _first_in_order)
    try:
        run()
    finally:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, _at_once)


def _at_once(*_: Any) -> None:
    """Exit immediately: nothing has started, all is done, or it is the second Ctrl-C."""
    os._exit(STOPPED)


def _first_in_order(*_: Any) -> None:
    """Clean up; a second Ctrl-C exits immediately."""
    signal.signal(signal.SIGINT, _at_once)
    raise KeyboardInterrupt


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
