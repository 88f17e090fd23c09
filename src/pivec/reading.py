"""Files from strangers: regular ones only, a budget for what comes out, one kind of error."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from pivec.errors import BadPolicyFile, PivecError

# Weights and recorded numbers hardly compress, text does by about 10, zeros by 1000.
FREE, RATIO = 1 << 26, 100
PLAIN = 4  # times its size that a file may always take: packed, unpacked, and as numbers
MOST = 1 << 30


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


def open_regular(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a file for reading; what would wait or never end (pipes, devices) is an OSError.

    Examples
    --------
    >>> open_regular("/dev/zero")
    Traceback (most recent call last):
    OSError: [Errno 22] is no regular file: '/dev/zero'
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
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
