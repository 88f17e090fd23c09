"""What the driver, the process that gives out the work, lets workers on other machines read."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

PIECE = 1 << 26  # bytes of a file that travel at once
SMALL = 1 << 20  # bytes of a file that come with the first answer
_SETTLED = 2_000_000_000  # ns

Stamp = tuple[int, int]  # size and time of a file; of a folder whether it is settled, and time


def is_settled(changed: int) -> bool:
    """Whether what changed then (in ns) cannot change once more without another time."""
    return time.time_ns() - changed > _SETTLED


class Answer(NamedTuple):
    """What the driver says of a path."""

    kind: str = ""  # "file", "folder", "refused"; empty if it is not there, or was not offered
    stamp: Stamp = (0, 0)
    folder: Stamp = (0, 0)  # number and time of the folder, by which another machine knows it again
    content: Any = None  # bytes of a file, names in a folder, the reason of a refusal


_offered: set[str] = set()
_modules: set[str] = set()  # folders of which only Python files are offered
followers: list[Callable[[Sequence[str]], None]] = []  # are called with paths that are offered


def offer(*paths: str | os.PathLike[str]) -> None:
    """Let workers ask for these files, and for what lies below these folders.

    Hidden files are left out, and links that lead out of a folder.
    """
    new = [path for path in map(os.path.realpath, paths) if not _is_offered(path)]
    _offered.update(new)
    for follow in followers if new else ():
        follow(new)


def offer_modules(*folders: str) -> None:
    """Let workers ask for the Python files below these folders."""
    _modules.update(map(os.path.realpath, folders))


def offered() -> list[str]:
    """Return all that was offered."""
    return sorted(_offered)


def _is_offered(path: str) -> bool:
    """Whether a path without links may be asked for."""
    return _is_below(path, _offered) or (path.endswith(".py") and _is_below(path, _modules))


def _is_below(path: str, places: set[str]) -> bool:
    while path not in places:
        folder, name = os.path.split(path)
        if name.startswith(".") or folder == path:
            return False
        path = folder
    return True


def answer(path: str, start: int | None = None, known: Stamp | None = None) -> Answer:
    """Say what is at ``path``, with the bytes of a file from ``start`` on, at most `PIECE` of them.

    Without ``start`` only a small file comes with its bytes. What has the stamp ``known`` comes
    without content.
    """
    real = os.path.realpath(path)
    whole = _is_offered(real)
    if not whole and not (_is_below(real, _modules) and os.path.isdir(real)):
        link = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        reason = "is a link out of the folder that may be read"
        return Answer("refused", content=reason) if _is_offered(link) else Answer()
    try:
        status = os.stat(real)
        is_folder = stat.S_ISDIR(status.st_mode)
        above = status if is_folder else os.stat(os.path.dirname(real))
        place = above.st_ino, above.st_mtime_ns
        if is_folder:
            stamp = int(is_settled(status.st_mtime_ns)), status.st_mtime_ns
            names = None if stamp == known and known[0] else list_folder(real)
            if names is not None and not whole:
                names = tuple(name for name in names if name.endswith((".py", "/")))
            return Answer("folder", stamp, place, names)
        if not stat.S_ISREG(status.st_mode):
            return Answer("refused", content="is no regular file")
        with open(real, "rb") as file:
            status = os.fstat(file.fileno())
            stamp = status.st_size, status.st_mtime_ns
            if stamp == known or (start is None and status.st_size > SMALL):
                return Answer("file", stamp, place)
            file.seek(start or 0)
            return Answer("file", stamp, place, file.read(PIECE))
    except (FileNotFoundError, NotADirectoryError):
        return Answer()
    except OSError as error:
        return Answer("refused", content=error.strerror or str(error))


def list_folder(folder: str) -> tuple[str, ...]:
    """List a folder, sorted; names of folders end in a slash."""
    with os.scandir(folder) as entries:
        return tuple(sorted(entry.name + "/" * entry.is_dir() for entry in entries))
