"""Files of the driver, the process that gives out the work, in workers that may not see them.

A worker on another machine asks for what it does not have; see `pivec.parallel.offered`.
"""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from pivec import files as reading
from pivec.errors import PivecError
from pivec.files import atomic_write, file_name, make_folder
from pivec.parallel.offered import PIECE, list_folder, offer
from pivec.parallel.source import Source

_source: Source | None = None


def use(source: Source | None) -> None:
    """Find files by this source from now on; None finds those of this machine alone."""
    global _source  # noqa: PLW0603  (a process has one driver)
    _source = source
    reading.finder = None if source is None else source.find


def present(path: str | os.PathLike[str]) -> Path:
    """Give the path if this machine sees it, or a copy of the driver's file.

    What neither has is given back as it is. Without a driver elsewhere nothing is looked at.

    Examples
    --------
    >>> present("runs/best.zip").as_posix()
    'runs/best.zip'
    """
    return Path(path) if _source is None else _source.find(path)


def time_of(folder: str) -> int:
    """Give the time in ns at which a folder changed, this machine's or the driver's."""
    there = None if _source is None else _source.entries(folder)
    return os.stat(folder).st_mtime_ns if there is None else there[0]


def names_in(folder: str) -> tuple[str, ...]:
    """List a folder of this machine or of the driver, sorted; names of folders end in a slash."""
    there = None if _source is None else _source.entries(folder)
    return list_folder(folder) if there is None else there[1]


class SentBytes(NamedTuple):
    """A message of a `Mirror`: bytes of a file; None says that the file is gone."""

    sender: str
    name: str  # below the folder, with slashes
    start: int
    content: bytes | None
    last: bool


class Mirror:
    """A folder of the driver's as a worker has it: itself, or another whose files are sent.

    Made by the driver in a ``with`` block, it travels with an item of work::

        with Mirror(folder) as mirror:
            for reply in engine.map(work, [(mirror, ...)], on_message=receive): ...

    where ``receive`` calls `receive`, and the work is done in ``with mirror.here(tell) as path:``.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(os.path.abspath(folder))
        # A file that shows which folder it is.
        self.token = f"{_token_of(os.getpid())}{secrets.token_hex(8)}"
        self._writing: dict[tuple[str, str], tuple[Any, IO[bytes]]] = {}
        self._sent: tuple[Path, Callable[[SentBytes], Any], dict[str, tuple[int, ...]]] | None = (
            None
        )

    def __enter__(self) -> Self:
        make_folder(self.folder)
        _sweep(self.folder)
        (self.folder / self.token).touch()
        offer(self.folder)
        return self

    def __exit__(self, *_: object) -> None:
        for sender, name in list(self._writing):
            self._abandon(sender, name)
        (self.folder / self.token).unlink(missing_ok=True)

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "token": self.token, "_writing": {}, "_sent": None}

    @contextlib.contextmanager
    def here(self, tell: Callable[[Any], Any], bring: bool = False) -> Iterator[Path]:
        """Give the folder for work on this machine; what is new in it at the end is sent.

        A folder that this machine does not see is empty at first; with ``bring`` it has all that
        the driver's has.
        """
        if (self.folder / self.token).exists():
            yield self.folder
            return
        near = None if _source is None else _source.shelf
        with tempfile.TemporaryDirectory(prefix="pivec-", dir=near) as name:
            place = Path(name)
            if bring:
                self._bring(place, "")
            self._sent = place, tell, _stamps(place)
            try:
                yield place
            finally:
                self.send()
                self._sent = None

    def send(self) -> None:
        """Send what is new in the folder, or was changed or removed, if the driver needs that.

        What was written first comes first, and what was removed last: wherever this is cut off,
        the driver has what its files tell of.
        """
        if self._sent is None:
            return
        place, tell, before = self._sent
        sender, now = secrets.token_hex(8), _stamps(place)
        for name in sorted(now, key=lambda name: now[name][::-1]):
            if before.get(name) == now[name]:
                continue
            with open(place / name, "rb") as file:
                start, content = 0, file.read(PIECE)
                while True:
                    more = file.read(PIECE)
                    tell(SentBytes(sender, name, start, content, last=not more))
                    if not more:
                        break
                    start, content = start + len(content), more
        for name in sorted(before.keys() - now.keys()):
            tell(SentBytes(sender, name, 0, None, last=True))
        self._sent = place, tell, now

    def receive(self, message: Any) -> bool:
        """Write what a worker sent, if the message is of that kind, and say whether it is."""
        if not isinstance(message, SentBytes):
            return False
        sender, name, start, content, last = message
        path, root = self.folder / name, os.path.realpath(self.folder)
        inside = os.path.commonpath([root, os.path.realpath(path)]) == root
        if not inside or not name or ".." in Path(name).parts or os.path.isabs(name):
            raise PivecError(f"a worker sent the file {name!r}, which is not below {self.folder}")
        if content is None:
            path.unlink(missing_ok=True)
            return True
        if start == 0:
            self._abandon(sender, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            writer = atomic_write(path)
            self._writing[sender, name] = writer, writer.__enter__()
        writer, file = self._writing[sender, name]
        file.write(content)
        if last:
            del self._writing[sender, name]
            writer.__exit__(None, None, None)
        return True

    def _abandon(self, sender: str, name: str) -> None:
        """Forget a file of which not all pieces came."""
        if (sender, name) in self._writing:
            writer, _ = self._writing.pop((sender, name))
            with contextlib.suppress(EOFError):
                writer.__exit__(EOFError, EOFError(), None)

    def _bring(self, place: Path, below: str) -> None:
        """Copy the driver's folder, but what is hidden."""
        if _source is None:
            raise PivecError(f"{self.folder} cannot be seen from this machine")
        listing = _source.entries(os.path.join(self.folder, below), anew=True)
        for name in listing[1] if listing else ():
            if name.startswith("."):
                continue
            if name.endswith("/"):
                (place / below / name).mkdir()
                self._bring(place, below + name)
            else:
                shutil.copyfile(_source.find(self.folder / below / name), place / below / name)


def _token_of(process: int | str) -> str:
    """Begin the names of a process's tokens."""
    return f".pivec-{file_name(platform.node())}-{process}-"


def _sweep(folder: Path) -> None:
    """Remove tokens of processes of this machine that were killed."""
    for path in folder.glob(f"{_token_of('*')}*") if os.name == "posix" else ():
        try:
            os.kill(int(path.name.split("-")[-2]), 0)
        except ProcessLookupError:
            path.unlink(missing_ok=True)
        except (OSError, ValueError):  # another user's, or none of ours
            continue


def _stamps(folder: Path) -> dict[str, tuple[int, ...]]:
    """Number, size and time of the files below a folder that are not hidden, by their names."""
    stamps: dict[str, tuple[int, ...]] = {}
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(where, name) for name in names if not name.startswith(".")):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                stamp = status.st_ino, status.st_size, status.st_mtime_ns
                stamps[path.relative_to(folder).as_posix()] = stamp
    return stamps
