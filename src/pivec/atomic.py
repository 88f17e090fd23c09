"""Files that appear whole or not at all: written beside their place, then renamed into it.

And the folders for them, looked at before hours of work are to go there, and locked meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

from pivec.errors import PivecError, UsageError


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], mode: Literal["w", "wb"] = "wb"
) -> Iterator[IO[Any]]:
    """Write a file (bytes, or UTF-8 text) so that a reader sees the old or the whole new one.

    The handle is on a temporary file in the same folder, which must exist. When the block ends
    well, the data are flushed to disk and the file takes the place of ``path``, or of what a link
    there points to; when it raises, the temporary file is removed and what was there stays.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> with atomic_write(folder / "note.txt", "w") as file:
    ...     _ = file.write("whole")
    >>> (folder / "note.txt").read_text()
    'whole'
    """
    if mode not in ("w", "wb"):
        raise ValueError(f"mode must be 'w' or 'wb', not {mode!r}")
    target = Path(os.path.realpath(path))
    name = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    # Not mkstemp, whose files only their owner may read: 0o666 obeys the umask as open does.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(name, flags, 0o666)
        text: dict[str, Any] = {"encoding": "utf-8", "newline": ""} if mode == "w" else {}
        with open(handle, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            os.chmod(name, target.stat().st_mode & 0o777)
        os.replace(name, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(name)
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(name)):
            error.filename = os.fspath(path)  # a full disk does not say which file it was
            error.filename2 = None
        raise
    _sync_folder(target.parent)


def is_uri(path: str | os.PathLike[str]) -> bool:
    """Tell whether a name is that of a place elsewhere, as ``s3://bucket/runs``.

    Examples
    --------
    >>> is_uri("s3://bucket/runs"), is_uri("runs"), is_uri(Path("s3://bucket"))
    (True, False, True)
    """
    slashes = "//" if isinstance(path, str) else "/"  # a path has lost one
    return bool(re.match(rf"[a-z][a-z0-9+.-]+:{slashes}", os.fspath(path)))


def check_folder(path: str | os.PathLike[str]) -> Path:
    """See that a folder can be written to, or could be made; nothing is made.

    Otherwise a UsageError says what is in the way.
    """
    if is_uri(path):
        raise UsageError(
            f"cannot write to {os.fspath(path).partition(':')[0]}://...: expected a folder of this "
            "machine; only stores of states may be elsewhere (`pivec collect --out`)"
        )
    folder = place = Path(path)
    while place != place.parent:
        try:
            os.lstat(place)
            break
        except (FileNotFoundError, NotADirectoryError):
            place = place.parent
        except OSError as error:
            raise UsageError(f"cannot write to {folder}: {error.strerror}") from error
    if os.path.islink(place) and not os.path.exists(place):
        raise UsageError(f"cannot write to {folder}: {place} is a link to nothing")
    if not os.path.isdir(place):
        raise UsageError(f"cannot write to {folder}: {place} is not a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write to {folder}: {place} is read-only, or belongs to others")
    return folder


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make a folder and those above it, where they are not there yet."""
    folder = check_folder(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {folder}: {error.strerror}") from error
    return folder


def file_name(text: str, most: int | None = None) -> str:
    """Make of any text what every system takes as a name; only the last ``most`` letters.

    Examples
    --------
    >>> file_name("../runs/best of 3")
    'runs_best_of_3'
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", text)
    return plain[-most if most else 0 :].strip("._")


@contextmanager
def locked(path: str | os.PathLike[str], busy: str, wait: float = 0.0) -> Iterator[None]:
    """Keep other processes out by a lock on the file ``path``, where the system has locks.

    Another one that holds it is waited for so many seconds; then ``busy`` is what the error says.
    """
    try:
        import fcntl
    except ImportError:  # not there on Windows
        yield
        return
    with open(path, "w", encoding="utf-8") as file:
        last = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= last:
                    raise PivecError(busy) from error
                time.sleep(0.01)
        yield


def _sync_folder(folder: Path) -> None:
    """Make the rename itself last; systems that cannot open folders do without."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
