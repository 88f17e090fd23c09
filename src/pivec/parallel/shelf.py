"""A temporary folder that the processes of a machine share, and that goes with the last of them."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

_PREFIX = "pivec-files-"


def shelf(token: str) -> Path:
    """Make the folder that all processes of this machine have for ``token``, which nobody guesses.

    It is removed when the last of them ends. What processes left that were killed is removed by
    those that come later.
    """
    root = Path(tempfile.gettempdir())
    try:
        import fcntl
    except ImportError:  # not there on Windows: each process has its own
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def leave(folder: Path, file: IO[str]) -> None:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if others are here
            shutil.rmtree(folder, ignore_errors=True)

    _sweep(root, leave)
    folder = root / f"{_PREFIX}{token}"
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # another process may be removing it
            file = (folder / ".lock").open("a", encoding="utf-8")
            fcntl.flock(file, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(file.fileno()), os.stat(folder / ".lock")):
                atexit.register(leave, folder, file)
                return folder
            file.close()


def _sweep(root: Path, leave: Callable[[Path, IO[str]], None]) -> None:
    for folder in root.glob(f"{_PREFIX}*"):
        with (
            contextlib.suppress(OSError),  # another user's, or gone meanwhile
            (folder / ".lock").open("r+", encoding="utf-8") as file,
        ):
            leave(folder, file)
