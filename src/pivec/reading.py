"""Files from strangers: regular ones only, a budget for what comes out, one kind of error."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from pivec.errors import BadPolicyFile, PivecError

# Weights and recorded numbers hardly compress, text does by about 10, zeros by 1000.
FREE, RATIO = 1 << 26, 100
PLAIN = 4  # times its size that a file may always take: packed, unpacked, and as numbers
MOST = 1 << 30
MAX_MEMBERS = 20_000  # of an archive
CHUNK = 1 << 20

# Where a file is, in a worker that may not see the driver's: set by `pivec.engines.files`.
finder: Callable[[str | os.PathLike[str]], Path] | None = None


class Budget:
    """How many bytes may be made of one file: counted while it is read, by all of its readers.

    That is 64 MB and 100 times the ``size`` of the file, but not more than ``most``, unless the
    file itself is that large. Error messages call it ``name``.

    Examples
    --------
    >>> budget = Budget(1000, "a.zip")
    >>> budget.spend(1 << 26)
    >>> budget.left
    100000
    """

    def __init__(self, size: int, name: str, most: int = MOST) -> None:
        self.name = name
        self.total = self.left = min(FREE + RATIO * size, max(most, PLAIN * size))

    def spend(self, n: int) -> None:
        """Count ``n`` bytes before they are made; an error if they are too many."""
        self.left -= n
        if self.left < 0:
            raise BadPolicyFile(
                f"{self.name} unpacks to more than {self.total} bytes, which is out of proportion "
                "to its size: if it is sound, save it without compression"
            )


class BoundedZip:
    """A zip file, in memory or open; what is read of its ``members`` counts in the budget.

    Whatever is wrong with it is a `BadPolicyFile`.
    """

    def __init__(self, source: bytes | bytearray | BinaryIO, budget: Budget) -> None:
        self._budget = budget
        stream = io.BytesIO(source) if isinstance(source, bytes | bytearray) else source
        if stream.read(2) != b"PK":
            raise BadPolicyFile("it is not a zip archive")
        try:
            self._zip = zipfile.ZipFile(stream)
            members = self._zip.infolist()
        except Exception as error:  # zipfile lets half a dozen kinds through on damaged input
            raise BadPolicyFile(
                f"it is a damaged or truncated zip archive ({error}): copy or save it again"
            ) from error
        # Archives in archives: of one cut short, zipfile finds the end of one inside.
        if min((member.header_offset for member in members), default=0) != 0:
            raise BadPolicyFile("it is a truncated zip archive: copy or save it again")
        if len(members) > MAX_MEMBERS:
            raise BadPolicyFile(f"it holds {len(members)} members, more than {MAX_MEMBERS}")
        self.members = {member.filename: member for member in members}
        if len(self.members) < len(members):
            raise BadPolicyFile("it holds two members of the same name")

    def read(self, member: str) -> bytearray:
        """Give the content of a member, checked against its length and checksum."""
        if member not in self.members:
            raise BadPolicyFile(f"it lacks its member {member!r}")
        info = self.members[member]
        if info.flag_bits & 0x1:
            raise BadPolicyFile(f"its member {member!r} is encrypted")
        # Of others, zipfile unpacks whole blocks whatever length the archive declares.
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BadPolicyFile(
                f"its member {member!r} is packed by a method that is not supported: save the "
                "file without compression"
            )
        content = bytearray()
        try:
            with self._zip.open(info) as stream:
                while chunk := stream.read(CHUNK):
                    self._budget.spend(len(chunk))
                    content += chunk
        except BadPolicyFile:
            raise
        except Exception as error:  # as above: zlib.error, EOFError, NotImplementedError, ...
            raise BadPolicyFile(
                f"its member {member!r} is damaged ({error}): copy or save the file again"
            ) from error
        if len(content) != info.file_size:
            raise BadPolicyFile(
                f"its member {member!r} has {len(content)} bytes instead of {info.file_size}"
            )
        return content


def open_regular(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a file for reading; what would wait or never end (pipes, devices) is an OSError.

    Examples
    --------
    >>> open_regular("/dev/zero")
    Traceback (most recent call last):
    OSError: [Errno 22] is no regular file: '/dev/zero'
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path if finder is None else finder(path), flags)
    kind = os.fstat(handle).st_mode
    if not stat.S_ISREG(kind):
        os.close(handle)
        number = errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL
        raise OSError(number, "is no regular file", os.fspath(path))
    return open(handle, "rb")


def read_regular(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """Read a whole file, of at most ``most`` bytes; see `open_regular`."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise BadPolicyFile(f"{path} has {size} bytes, more than {most}")
        return file.read()


def digest_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def naming(name: str | Path, what: str, kind: type[PivecError] = BadPolicyFile) -> Iterator[None]:
    """Turn whatever a parser raises inside into an error that names the file.

    Examples
    --------
    >>> with naming("a.json", "a description"):
    ...     int("x")
    Traceback (most recent call last):
    pivec.errors.BadPolicyFile: a.json cannot be read as a description (ValueError: invalid ...
    """
    try:
        yield
    except PivecError:
        raise
    except Exception as error:  # parsers of damaged input raise anything
        detail = " ".join(str(error).split())[:300]
        raise kind(
            f"{name} cannot be read as {what} ({type(error).__name__}: {detail}): it may be "
            "damaged, or of a kind that is not supported"
        ) from error
