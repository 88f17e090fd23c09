"""Stores elsewhere: a folder on object storage or another file system, by its URI.

Files are put there whole, and read by way of copies in a cache of this machine. Credentials are
those of the user's environment; what is shown of a URI has none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from pivec.errors import PivecError, UsageError
from pivec.files import make_folder
from pivec.states.store import is_left

_SECONDS = 20.0  # that a request may take
_ATTEMPTS = 3
_AT_ONCE = 8  # files that are fetched
_DAYS = 14  # after which copies that nobody used go
_TAIL = 128  # bytes at the end of an index, which hold its checksum
_WHOLE = {"s3", "gs", "gcs", "abfs", "abfss"}  # where an object appears when all of it is there
_OPTIONS = {"region", "endpoint_override", "scheme"}  # that may be shown


class RemoteFolder:
    """A folder on another file system; see `pivec.states.store.Folder`.

    Nobody can lock it: another writer is noticed by the index, which then is not the one that was
    read or written here.

    Attributes
    ----------
    path : str
        The URI without anything secret.
    home : Path
        Where the copies are.
    """

    def __init__(self, uri: str) -> None:
        self._uri, self.path = uri, shown(uri)
        self._scheme = urlsplit(uri).scheme
        self.home = _cache() / hashlib.sha256(self.path.encode()).hexdigest()[:20]
        self._there: set[str] | None = None
        self._known: dict[str, bytes | None] = {}  # ends of files that were read or written
        self._fresh: set[str] = set()  # copies that were made by this process

    def __str__(self) -> str:
        return self.path

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteFolder, (self._uri,)  # what another process sees there, it finds itself

    @cached_property
    def _connection(self) -> tuple[Any, str]:
        with self._telling("open"):
            return _file_system(self._uri)

    @property
    def _files(self) -> Any:
        return self._connection[0]

    @property
    def _root(self) -> str:
        return self._connection[1]

    def within(self, name: str) -> RemoteFolder:
        """Give a folder in this one."""
        parts = urlsplit(self._uri)
        return RemoteFolder(urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}")))

    def make(self) -> None:
        """Make it, where folders are more than parts of names."""
        if self._scheme not in _WHOLE:
            with self._telling("write to"):
                self._files.create_dir(self._root, recursive=True)

    def has(self, name: str) -> bool:
        """Tell whether there is a file of this name."""
        return name in (self.names() if self._there is None else self._there)

    def names(self) -> set[str]:
        """List all files."""
        from pyarrow.fs import FileSelector, FileType

        with self._telling("list"):
            entries = self._files.get_file_info(FileSelector(self._root, allow_not_found=True))
        self._there = {entry.base_name for entry in entries if entry.type == FileType.File}
        return set(self._there)

    def look(self, *names: str) -> None:
        """See whether files have come that another process may have put there."""
        if self._there is not None:
            self._there.update(name for name in names if self._end(name) is not None)

    def read(self, name: str) -> bytes:
        """Give the content of a file."""
        with self._telling(f"read {name} of"), self._open(name) as source:
            content = bytes(source.read())
        self._known[name] = content[-_TAIL:]
        return content

    def write(self, name: str, content: Any) -> None:
        """Put a file there; an index must be as it was when it was read or written here."""
        may_change = not name.endswith((".arrow", ".safetensors"))
        if may_change and self._end(name) != self._known.get(name):
            raise PivecError(
                f"another process has written to {self.path} in the meantime: nothing is lost, so "
                "let one of them end, and run the same command again"
            )
        if not may_change:
            with self.staging(name) as staged:
                staged.write_bytes(content)
                self.place(staged, name)
            return
        with self._telling("write to"):
            self._put(name, content)
        self._known[name] = bytes(memoryview(content)[-_TAIL:])

    @contextlib.contextmanager
    def staging(self, name: str) -> Iterator[Path]:
        """Where a file is written before `place` gives it its place; gone if it got none."""
        path = make_folder(self.home) / f".{name}.{secrets.token_hex(4)}.tmp"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def place(self, staged: Path, name: str) -> None:
        """Give a file that was written its place; it stays here as a copy."""
        import pyarrow as pa

        with self._telling("write to"), pa.memory_map(str(staged)) as source:
            self._put(name, source.read_buffer())
        os.replace(staged, self.home / name)
        self._fresh.add(name)

    def local(self, name: str) -> Path:
        """Where a file can be opened: a copy, which is fetched if it is not there."""
        path = self.home / name
        if path.exists():
            with contextlib.suppress(OSError):
                os.utime(path, (time.time(), path.stat().st_mtime))  # it is in use
            return path
        if not self.has(name):
            return path
        with self.staging(name) as staged:
            with (
                self._telling(f"read {name} of"),
                self._open(name) as source,
                open(staged, "wb") as file,
            ):
                shutil.copyfileobj(source, file, 1 << 22)
            os.replace(staged, path)
        self._fresh.add(name)
        return path

    def fetch(self, names: Iterable[str], *, anew: bool = False) -> None:
        """Bring files here, several at once; with ``anew`` also those of which there are copies."""
        there = [name for name in names if self.has(name)]
        for name in there if anew else ():
            (self.home / name).unlink(missing_ok=True)
        if wanted := [name for name in there if not (self.home / name).exists()]:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                list(pool.map(self.local, wanted))

    def renew(self, name: str) -> bool:
        """Forget a copy that an earlier process made; tell whether there was one."""
        if name in self._fresh or not (self.home / name).exists():
            return False
        (self.home / name).unlink(missing_ok=True)
        return True

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.home / name).unlink(missing_ok=True)
        if self.has(name):
            with self._telling("write to"), contextlib.suppress(FileNotFoundError):
                self._files.delete_file(f"{self._root}/{name}")
            (self._there or set()).discard(name)

    def sweep(self) -> None:
        """Remove what was being written when a process was killed."""
        for name in filter(is_left, self.names()):
            self.remove(name)

    def lock(self, wait: float) -> contextlib.AbstractContextManager[None]:  # noqa: ARG002
        """Nothing is locked; see `write`."""
        return contextlib.nullcontext()

    def _open(self, name: str) -> Any:
        return self._files.open_input_file(f"{self._root}/{name}")

    def _end(self, name: str) -> bytes | None:
        """Read the last bytes of a file as it is there now; None if it is not."""
        with self._telling(f"read {name} of"):
            try:
                with self._open(name) as source:
                    size = source.size()
                    source.seek(max(size - _TAIL, 0))
                    return bytes(source.read())
            except FileNotFoundError:
                return None

    def _put(self, name: str, content: Any) -> None:
        """Write a file in one go: a stream that is closed early would be taken for whole."""
        target = f"{self._root}/{name}"
        draft = target if self._scheme in _WHOLE else f"{self._root}/.{name}.tmp"
        with self._files.open_output_stream(draft) as sink:
            sink.write(content)
        if draft != target:
            self._files.move(draft, target)
        if self._there is not None:
            self._there.add(name)

    @contextlib.contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise PivecError(
                f"cannot {what} {self.path} ({_reason(error)}): check its name, your credentials "
                "and the network"
            ) from error


def shown(uri: str) -> str:
    """Give a URI without user, password, and parameters that may be secret.

    Examples
    --------
    >>> shown("s3://key:secret@bucket/runs?region=eu-west-1&token=abc")
    's3://bucket/runs?region=eu-west-1'
    """
    parts = urlsplit(uri)
    options = [f"{key}={value}" for key, value in parse_qsl(parts.query) if key in _OPTIONS]
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "&".join(options), ""))


def _file_system(uri: str) -> tuple[Any, str]:
    """Give the file system of a URI, by pyarrow or else by fsspec, and the path in it."""
    from pyarrow import fs

    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    path = f"{host}{parts.path}".strip("/")
    if not path:
        raise UsageError(f"{shown(uri)} names no place: expected a bucket or a folder behind it")
    if parts.scheme == "s3":
        return _s3(uri), path
    if parts.scheme in ("gs", "gcs"):
        anonymous = parts.netloc.startswith("anonymous@")
        limit = timedelta(seconds=_ATTEMPTS * _SECONDS)
        return fs.GcsFileSystem(anonymous=anonymous, retry_time_limit=limit), path
    if parts.scheme in ("hdfs", "viewfs"):
        files, where = fs.FileSystem.from_uri(uri)
        return files, where.rstrip("/")
    return _by_fsspec(uri)


def _s3(uri: str) -> Any:
    from pyarrow import fs

    parts = urlsplit(uri)
    given = dict(parse_qsl(parts.query))
    user, _, bucket = parts.netloc.rpartition("@")
    options: dict[str, Any] = {key: given[key] for key in _OPTIONS & given.keys()}
    if user:
        options["access_key"], _, options["secret_key"] = user.partition(":")
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    endpoint = next((os.environ[name] for name in names if os.environ.get(name)), None)
    if endpoint is not None:
        options.setdefault("endpoint_override", endpoint)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if "region" not in options and (region or "endpoint_override" not in options):
        options["region"] = region or fs.resolve_s3_region(bucket)
    options |= {"connect_timeout": _SECONDS / 4, "request_timeout": _SECONDS}
    options["retry_strategy"] = fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS)
    with contextlib.suppress(TypeError):  # a request a small file; older ones of pyarrow take three
        return fs.S3FileSystem(allow_delayed_open=True, **options)
    return fs.S3FileSystem(**options)


def _by_fsspec(uri: str) -> tuple[Any, str]:
    from pyarrow import fs

    scheme = urlsplit(uri).scheme
    try:
        import fsspec

        files, path = fsspec.core.url_to_fs(uri, use_listings_cache=False)
    except ImportError as error:
        needed = re.findall(r"[Ii]nstall (\w+)", str(error)) or ["fsspec"]
        raise PivecError(
            f"stores at {scheme}:// need an optional package: pip install {needed[0]}"
        ) from error
    except ValueError as error:
        raise UsageError(
            f"stores cannot be at {scheme}://: expected a folder, s3://, gs://, hdfs://, or what "
            "fsspec knows"
        ) from error
    return fs.PyFileSystem(fs.FSSpecHandler(files)), str(path).rstrip("/")


@cache
def _cache() -> Path:
    """The folder for copies: the user's cache, or a temporary one; what is old there goes."""
    above = os.environ.get("XDG_CACHE_HOME") or Path("~").expanduser() / ".cache"
    folder = Path(above) / "pivec" / "stores"
    try:
        make_folder(folder)
        for path in folder.glob("*/*"):
            if time.time() - path.stat().st_atime > _DAYS * 86_400:
                path.unlink(missing_ok=True)
    except (OSError, UsageError):
        return Path(tempfile.mkdtemp(prefix="pivec-stores-"))
    return folder


def _reason(error: OSError) -> str:
    """The words of a failure that tell something."""
    text = " ".join(str(error).split())
    text = re.sub(r"\s*\(Request ID:[^)]*\)", "", text).partition("AWS Error ")[2] or text
    return text.partition("; Details:")[0][:200]
