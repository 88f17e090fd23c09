"""The folder of a store: files are put there whole, listed, looked at and removed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pivec.atomic import atomic_write, locked, make_folder
from pivec.reading import read_regular


class Folder:
    """A folder on disk."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

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

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.path / name).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what was being written when a process was killed."""
        for path in self.path.glob(".*.tmp"):
            path.unlink(missing_ok=True)

    def lock(self, wait: float) -> contextlib.AbstractContextManager[None]:
        """Keep other processes from writing; one that does is waited for so many seconds."""
        busy = f"another process is writing to {self.path}: wait for it, or choose another folder"
        return locked(self.path / ".lock", busy, wait)
