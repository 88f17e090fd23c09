"""The entry point: Ctrl-C and standard streams are provided for before anything is imported."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

STOPPED = 130  # the exit code after Ctrl-C


def main() -> None:
    """Run the command line; Ctrl-C at any moment ends it without a traceback."""
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
    """End now: nothing has begun yet, or all is done, or it is the second Ctrl-C."""
    os._exit(STOPPED)


def _first_in_order(*_: Any) -> None:
    """Let what is going on clean up; whoever cannot wait may press Ctrl-C again."""
    signal.signal(signal.SIGINT, _at_once)
    raise KeyboardInterrupt


def _open_closed_streams() -> None:
    """Let nothing that is opened later become a standard stream, as a shell's ``2>&-`` would."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


if __name__ == "__main__":
    main()
