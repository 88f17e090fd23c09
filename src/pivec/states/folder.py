"""The folder of a store: files are put there whole, listed, looked at and removed."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union
from urllib.parse import unquote

from pivec.atomic import atomic_write, check_folder, is_uri, locked, make_folder
from pivec.reading import read_regular

if TYPE_CHECKING:
    from pivec.states.remote import RemoteFolder

Place = Union[str, Path, "Folder", "RemoteFolder"]


def folder_of(place: Place) -> Folder | RemoteFolder:
    """Give the folder at a path or a URI, or one that is open.

    Examples
    --------
    >>> str(folder_of("file:///data/states"))
    '/data/states'
    """
    if not isinstance(place, str | Path):
        return place
    if not is_uri(place):
        return Folder(place)
    scheme, _, rest = str(place).partition(":")
    rest = rest.lstrip("/")  # a path has lost one of the slashes
    if scheme == "file":
        return Folder("/" + unquote(rest))
    from pivec.states.remote import RemoteFolder

    return RemoteFolder(f"{scheme}://{rest}")


def check_place(place: str | Path) -> None:
    """See that a store can be written to a path or URI, or could be made; nothing is made."""
    folder = folder_of(place)
    if isinstance(folder, Folder):
        check_folder(folder.path)
    else:
        folder.names()


def shown_place(place: object) -> str:
    """Give a path, or a URI without anything secret."""
    if not isinstance(place, str | Path) or not is_uri(place):
        return str(place)
    from pivec.states.remote import shown

    return shown(re.sub("^([^:]+):/+", r"\1://", str(place)))


def is_left(name: str) -> bool:
    """Tell whether a file is of no use but to the process that put it there."""
    return name.startswith(".pivec-") or (name.startswith(".") and name.endswith(".tmp"))


class Folder:
    """A folder on disk; ``home`` is where its files can be opened."""

    def __init__(self, path: str | Path) -> None:
        self.path = self.home = Path(path)

    def within(self, name: str) -> Folder:
        """Give a folder in this one."""
        return Folder(self.path / name)

    def __str__(self) -> str:
        return str(self.path)

    def make(self) -> None:
        """Make it, if it is not there."""
        make_folder(self.path)

    def has(self, name: str) -> bool:
        """Tell whether there is a file of this name."""
        return (self.path / name).exists()

    def names(self) -> set[str]:
        """List all files."""
        return set(os.listdir(self.path))

    def look(self, *names: str) -> None:
        """See whether files have come; here all are seen at any time."""

    def read(self, name: str) -> bytes:
        """Give the content of a file."""
        return read_regular(self.path / name)

    def write(self, name: str, content: Any) -> None:
        """Put a file there; it lasts when this returns."""
        with atomic_write(self.path / name) as file:
            file.write(content)

    @contextlib.contextmanager
    def staging(self, name: str) -> Iterator[Path]:
        """Where a file is written before `place` gives it its place; gone if it got none."""
        path = self.path / f".{name}.tmp"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def place(self, staged: Path, name: str) -> None:
        """Give a file that was written its place."""
        with open(staged, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(staged, self.path / name)

    def local(self, name: str) -> Path:
        """Where a file can be opened."""
        return self.path / name

    def fetch(self, names: Iterable[str], *, anew: bool = False) -> None:
        """Bring files here, which these are."""

    def renew(self, name: str) -> bool:  # noqa: ARG002
        """Forget a copy of a file, and tell whether there was one: these are the files."""
        return False

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.path / name).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what was being written when a process was killed."""
        for name in filter(is_left, self.names()):
            self.remove(name)

    def lock(self, wait: float) -> contextlib.AbstractContextManager[None]:
        """Keep other processes from writing; one that does is waited for so many seconds."""
        busy = f"another process is writing to {self.path}: wait for it, or choose another folder"
        return locked(self.path / ".lock", busy, wait)
