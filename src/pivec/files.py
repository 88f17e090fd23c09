"""Files: written atomically, read with limits, and CSV; checking and locking folders."""

from __future__ import annotations

import contextlib
import csv
import errno
import hashlib
import io
import math
import os
import re
import secrets
import stat
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal

from pivec.errors import BadPolicyFile, PivecError, UsageError
from pivec.terminal import printable

fcntl: Any
try:
    import fcntl
except ImportError:  # not there on Windows
    fcntl = None

_SECOND = 1.0  # the age from which a temporary file that nobody has locked is a leftover


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], mode: Literal["w", "wb"] = "wb"
) -> Iterator[IO[Any]]:
    """Write a file (bytes, or UTF-8 text) so that readers see the old or the complete new one.

    The handle is on a temporary file in the same folder, which must exist. At the end of the block
    it is flushed to disk and replaces ``path``, or what a link there points to; if the block
    raises, it is removed. Those of killed processes are removed when ``path`` is written again.
    """
    target = Path(os.path.realpath(path))
    start = f".{target.name[:100]}."
    name = target.with_name(f"{start}{secrets.token_hex(8)}.tmp")
    # Not mkstemp, whose files only their owner may read: 0o666 obeys the umask as open does.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        _remove_leftovers(target.parent, start)
        handle = os.open(name, flags, 0o666)
        text: dict[str, Any] = {"encoding": "utf-8", "newline": ""} if mode == "w" else {}
        with _in_use(handle):
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
    with contextlib.suppress(OSError):  # flush the rename too, if folders can be opened
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def _in_use(handle: int) -> Iterator[None]:
    """Lock a temporary file until the end of the block, even if ``handle`` is closed."""
    if fcntl is None:
        yield
        return
    lock = os.dup(handle)
    try:
        with contextlib.suppress(OSError):  # some file systems have no locks
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


def _remove_leftovers(folder: Path, start: str) -> None:
    """Remove temporary files of killed processes: no process has locked them."""
    if fcntl is None:
        return
    names = list[str]()
    with contextlib.suppress(OSError):  # whoever writes there finds out
        names = [name for name in os.listdir(folder) if name.startswith(start)]
    for path in (folder / name for name in names if name.endswith(".tmp")):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - _SECOND:
                with open(path, "rb+") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()


def is_uri(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a URI, such as ``s3://bucket/runs``.

    Examples
    --------
    >>> is_uri("s3://bucket/runs"), is_uri("runs"), is_uri(Path("s3://bucket"))
    (True, False, True)
    """
    slashes = "//" if isinstance(path, str) else "/"  # a Path has lost one
    return bool(re.match(rf"[a-z][a-z0-9+.-]+:{slashes}", os.fspath(path)))


def broken_link(path: str | os.PathLike[str]) -> str:
    """Return what is wrong with a link that leads nowhere; empty if it is none."""
    try:
        if not os.path.islink(path):
            return ""
        os.stat(path)
    except OSError as error:
        end = "itself" if error.errno == errno.ELOOP else "nothing"
        return f"{os.fspath(path)} is a link to {end}"
    return ""


def check_folder(path: str | os.PathLike[str]) -> Path:
    """Check that a folder can be written to or created; nothing is created."""
    if is_uri(path):
        raise UsageError(
            f"cannot write to {os.fspath(path).partition(':')[0]}://...: expected a local folder; "
            "only stores of states may be remote (`pivec collect --out`)"
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
    link = broken_link(place)
    problems = {
        link: bool(link),
        f"{place} is not a folder": not os.path.isdir(place),
        f"no write permission for {place}": not os.access(place, os.W_OK | os.X_OK),
    }
    for problem, there in problems.items():
        if there:
            raise UsageError(f"cannot write to {folder}: {problem}")
    return folder


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Create a folder and its parents if they do not exist."""
    folder = check_folder(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot create the folder {folder}: {error.strerror}") from error
    return folder


def file_name(text: str, most: int | None = None) -> str:
    """Convert text to a name that is valid on every system; at most its last ``most`` letters.

    Examples
    --------
    >>> file_name("../runs/best of 3")
    'runs_best_of_3'
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", text)
    return plain[-most if most else 0 :].strip("._")


@contextmanager
def locked(path: str | os.PathLike[str], busy: str, wait: float = 0.0) -> Iterator[None]:
    """Lock the file ``path``, where the system has locks.

    If another process holds it for ``wait`` seconds, an error with the text ``busy`` is raised.
    """
    if fcntl is None:
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


# Weights and recorded numbers hardly compress, text does by about 10, zeros by 1000.
FREE, RATIO = 1 << 26, 100
PLAIN = 4  # times its size that a file may always take: packed, unpacked, and as numbers
MOST = 1 << 30
MAX_MEMBERS = 20_000  # of an archive
CHUNK = 1 << 20
FACTOR = "PIVEC_FILE_LIMITS"  # environment variable: multiplies the limits on memory and time


class Budget:
    """The number of bytes that one file may unpack to, counted while it is read.

    That is 64 MB and 100 times the ``size`` of the file, but at most ``most``, unless the file
    itself is that large; the environment variable PIVEC_FILE_LIMITS multiplies it by ``factor``.
    ``name`` is for error messages.
    """

    def __init__(self, size: int, name: str, most: int = MOST) -> None:
        self.name = name
        given = os.environ.get(FACTOR, "1")
        if not re.fullmatch(r"[1-9]\d{0,5}", given):
            raise UsageError(
                f"{FACTOR} must be a whole number from 1 to 999999, but is {given[:20]!r}"
            )
        self.factor = int(given)
        self.total = self.left = self.factor * min(FREE + RATIO * size, max(most, PLAIN * size))

    def spend(self, n: int) -> None:
        """Count ``n`` bytes before they are allocated; raise an error if they are too many."""
        self.left -= n
        if self.left < 0:
            raise BadPolicyFile(
                f"{self.name} unpacks to more than {self.total} bytes, out of proportion to its "
                f"size: if you trust it, save it without compression, or set {FACTOR}=10"
            )


class BoundedZip:
    """A zip file whose ``members`` are read within a budget; all its errors are `BadPolicyFile`."""

    def __init__(self, source: bytes | bytearray | BinaryIO, budget: Budget) -> None:
        self._budget = budget
        stream = io.BytesIO(source) if isinstance(source, bytes | bytearray) else source
        if stream.read(2) != b"PK":
            raise BadPolicyFile("it is not a zip archive")
        try:
            self._zip = zipfile.ZipFile(stream)
            members = self._zip.infolist()
        except Exception as error:  # zipfile raises many kinds on damaged input
            raise BadPolicyFile(
                f"it is a damaged or truncated zip archive ({error}): copy or save it again"
            ) from error
        # Of a truncated archive of archives, zipfile finds the end of an inner one.
        if min((member.header_offset for member in members), default=0) != 0:
            raise BadPolicyFile("it is a truncated zip archive: copy or save it again")
        if len(members) > MAX_MEMBERS:
            raise BadPolicyFile(f"it holds {len(members)} members, more than {MAX_MEMBERS}")
        self.members = {member.filename: member for member in members}
        if len(self.members) < len(members):
            raise BadPolicyFile("it holds two members of the same name")

    def read(self, member: str) -> bytearray:
        """Return the content of a member, checked against its length and checksum."""
        if member not in self.members:
            raise BadPolicyFile(f"it lacks its member {member!r}")
        info = self.members[member]
        if info.flag_bits & 0x1:
            raise BadPolicyFile(f"its member {member!r} is encrypted")
        # With other methods, zipfile unpacks whole blocks whatever the declared length.
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BadPolicyFile(
                f"its member {member!r} has an unsupported compression: save the file without"
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
    """Open a file for reading; pipes and devices, which may never end, raise an OSError."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    kind = os.fstat(handle).st_mode
    if not stat.S_ISREG(kind):
        os.close(handle)
        number = errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL
        raise OSError(number, "Not a regular file", os.fspath(path))
    return open(handle, "rb")


def read_regular(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """Read a whole file, of at most ``most`` bytes; see `open_regular`."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise BadPolicyFile(f"{path} has {size} bytes, more than {most}")
        return file.read()


def regular_files(folder: Path, home: Path | None = None) -> list[Path]:
    """Return the files below a folder; links out of it, pipes and devices raise BadPolicyFile.

    Links may lead to files below ``home``, by default the folder itself.
    """
    home = (home or folder).resolve()
    files = []
    for path in sorted(folder.rglob("*")):
        if not path.resolve().is_relative_to(home):
            raise BadPolicyFile(
                f"{path} is a link out of the folder, which is not followed: copy the folder with "
                "the files that it links to (cp -rL)"
            )
        if not (path.is_file() or path.is_dir()):
            raise BadPolicyFile(f"{path} is not a regular file: remove it")
        files += [path] * path.is_file()
    return files


def digest_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def naming(name: str | Path, what: str, kind: type[PivecError] = BadPolicyFile) -> Iterator[None]:
    """Convert whatever a parser raises inside to an error that names the file."""
    try:
        yield
    except PivecError:
        raise
    except MemoryError as error:
        raise kind(
            f"{name} needs more memory than there is, or than its size justifies: if you trust it, "
            f"set {FACTOR}=10"
        ) from error
    except Exception as error:  # parsers of damaged input raise anything
        if isinstance(error, OSError) and str(error.filename) == str(name):
            raise kind(f"{name} cannot be read: {error.strerror}") from error
        detail = " ".join(str(error).split())[:300]
        raise kind(
            f"{name} cannot be read as {what} ({type(error).__name__}: {detail}): it may be "
            "damaged or not supported"
        ) from error


def write_csv(
    path: str | os.PathLike[str], columns: Iterable[str], rows: Iterable[Iterable[Any]]
) -> None:
    """Write a CSV file atomically; numbers are exact.

    Printable text is written literally, even if a spreadsheet would read it as a formula
    (``=cmd()``), so that files can be read back without loss.
    """
    with atomic_write(path, "w") as file:
        writer = csv.writer(file)  # which writes the shortest text that reads back as the same
        writer.writerow(columns)
        writer.writerows(rows)


def cell(value: Any) -> Any:
    r"""Convert a value to that of a cell: unknown ones are empty, control characters are escaped.

    Examples
    --------
    >>> [cell(value) for value in (None, float("nan"), True, 0.1, "a\udcff\x1b")]
    ['', '', 'true', 0.1, 'a\\udcff\\x1b']
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return printable(value) if isinstance(value, str) else value
