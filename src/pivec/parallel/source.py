"""The driver's files as a worker finds them: on this machine, or by asking."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from pivec.errors import PivecError
from pivec.parallel.offered import Answer, Stamp
from pivec.parallel.shelf import shelf

_FRESH = 1.0  # seconds in which a folder of the driver's is not listed again
_CLOCK = 2_000_000_000  # ns in which times of one file may differ between file systems

Ask = Callable[[str, int | None, Stamp | None], Answer]


class Source:
    """The driver's files, as a worker finds them: here, or by asking.

    ``folder`` is the driver's working folder, ``token`` names the run.
    """

    def __init__(self, ask: Ask, folder: str, token: str) -> None:
        self._ask, self._folder, self._token = ask, folder, token
        self._copies: dict[str, tuple[Stamp, Path]] = {}
        self._listings: dict[str, tuple[Stamp, tuple[str, ...]]] = {}
        self._listed: dict[str, float] = {}  # when
        self._shared: set[str] = set()  # folders that are the driver's own
        self._own = "\0"  # with what names of this machine's copies begin

    @cached_property
    def shelf(self) -> Path:
        """The folder of this machine's copies."""
        folder = shelf(self._token)
        self._own = os.path.join(folder, "")
        return folder

    def find(self, path: str | os.PathLike[str]) -> Path:
        """Give where the driver's file is here, which is brought if it is not."""
        whole = os.path.join(self._folder, path)
        if whole.startswith(self._own):
            return Path(whole)
        real = os.path.realpath(whole)
        place, here = os.path.dirname(real), stamp_of(real)
        if place in self._shared and here is not None:
            return Path(whole)
        known, copy = self._copies.get(whole, (None, Path()))
        said = self._ask(whole, None, known)
        if said.kind == "refused" and here is None:
            raise OSError(errno.EACCES, f"{said.content} (on the machine of the driver)", whole)
        if said.kind != "file":
            return Path(path if here is None else whole)
        if here is not None and said.folder == _identity(place):
            self._shared.add(place)
            return Path(whole)
        if here is not None and here[0] == said.stamp[0] and _close(here, said.stamp):
            return Path(whole)
        if known != said.stamp:
            copy = self._bring(whole, said)
            self._copies[whole] = said.stamp, copy
        return copy

    def entries(self, folder: str, anew: bool = False) -> tuple[int, tuple[str, ...]] | None:
        """Give time and names of a folder of the driver's; None if it is this machine's.

        What was listed a moment ago is not asked for again, unless it is wanted ``anew``.
        """
        whole = os.path.join(self._folder, folder)
        if (real := os.path.realpath(whole)) in self._shared:
            return None
        known, names = self._listings.get(whole, (None, ()))
        # A reader of one file looks several times; that it saw all is told by the fingerprint.
        if known and not anew and time.monotonic() - self._listed[whole] < _FRESH:
            return known[1], names
        said = self._ask(whole, None, known)
        if said.kind == "refused":
            raise OSError(errno.EACCES, f"{said.content} (on the machine of the driver)", whole)
        if said.kind != "folder" or said.folder == _identity(real):
            return None
        if said.content is not None:
            self._listings[whole] = said.stamp, (names := said.content)
        self._listed[whole] = time.monotonic()
        return said.stamp[1], names

    def _bring(self, path: str, said: Answer) -> Path:
        """Copy a file, unless a process of this machine has it already."""
        name = hashlib.sha256(repr((path, said.stamp)).encode("utf-8", "surrogateescape"))
        copy = self.shelf / f"{name.hexdigest()[:32]}{os.path.splitext(path)[1]}"
        if copy.exists():
            return copy
        part = copy.with_name(f"{copy.name}.{secrets.token_hex(8)}")
        with part.open("wb") as file:
            piece = said if said.content is not None else self._ask(path, 0, None)
            while piece.stamp == said.stamp and piece.content:
                file.write(piece.content)
                if file.tell() == said.stamp[0]:
                    break
                piece = self._ask(path, file.tell(), None)
            size = file.tell()
        if piece.stamp != said.stamp or size != said.stamp[0]:
            part.unlink()
            raise PivecError(f"{path} changed while it was brought from the machine of the driver")
        part.replace(copy)
        return copy


def stamp_of(path: str | os.PathLike[str]) -> Stamp | None:
    """Give size and time of a file of this machine; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _identity(folder: str) -> Stamp | None:
    with contextlib.suppress(OSError):
        status = os.stat(folder)
        return status.st_ino, status.st_mtime_ns
    return None


def _close(here: Stamp, there: Stamp) -> bool:
    return abs(here[1] - there[1]) < _CLOCK
