"""The folder of a store: on this machine, or on object storage or another file system by its URI.

Files of a remote folder appear when they are complete, and are read through copies in a local
cache. Credentials come from the user's environment and are never shown.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from pivec.errors import PivecError, UsageError
from pivec.files import atomic_write, check_folder, is_uri, locked, make_folder, read_regular

_SECONDS = 20.0  # limit of a request
_ATTEMPTS = 3
_DOWNLOADS = 8  # at the same time
_CACHE_DAYS = 14  # after which unused copies are removed
_TAIL = 128  # bytes at the end of an index, which include its checksum
_ATOMIC = {"s3", "gs", "gcs", "abfs", "abfss"}  # where objects appear only when complete
_OPTIONS = {"region", "endpoint_override", "scheme"}  # parameters that may be shown


class LocalFolder:
    """A folder on disk."""

    is_remote = False

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    def subfolder(self, name: str) -> LocalFolder:
        """Return a folder inside this one."""
        return LocalFolder(self.path / name)

    def make(self) -> None:
        """Create the folder if it does not exist."""
        make_folder(self.path)

    def check(self) -> None:
        """Check that the folder can be written to, or created."""
        check_folder(self.path)

    def has(self, name: str) -> bool:
        """Return whether there is a file with this name."""
        return (self.path / name).exists()

    def names(self) -> set[str]:
        """List all files."""
        return set(os.listdir(self.path))

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return read_regular(self.path / name)

    def write(self, name: str, content: Any) -> None:
        """Write a file; it is on disk when this returns."""
        with atomic_write(self.path / name) as file:
            file.write(content)

    def local(self, name: str) -> Path:
        """Return where a file can be opened."""
        return self.path / name

    def fetch(self, names: Iterable[str], *, again: bool = False) -> None:
        """Download files; nothing to do here."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.path / name).unlink(missing_ok=True)

    def lock(self, wait: float) -> contextlib.AbstractContextManager[None]:
        """Lock out other writers; wait for them for so many seconds."""
        busy = f"another process is writing to {self.path}: wait for it, or choose another folder"
        return locked(self.path / ".lock", busy, wait)


class RemoteFolder:
    """A folder on another file system, with the methods of `LocalFolder`.

    It cannot be locked. Another writer is noticed because the index is no longer the one that was
    read or written here. ``path`` is the URI without credentials.
    """

    is_remote = True

    def __init__(self, uri: str) -> None:
        self._uri, self.path = uri, without_credentials(uri)
        self._scheme = urlsplit(uri).scheme
        self._copies = _cache() / hashlib.sha256(self.path.encode()).hexdigest()[:20]
        self._listed: set[str] | None = None
        self._tails: dict[str, bytes | None] = {}  # of files that were read or written

    def __str__(self) -> str:
        return self.path

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteFolder, (self._uri,)

    @cached_property
    def _connection(self) -> tuple[Any, str]:
        with self._explaining("open"):
            return _file_system(self._uri)

    @property
    def _files(self) -> Any:
        return self._connection[0]

    def _at(self, name: str) -> str:
        return f"{self._connection[1]}/{name}"

    def subfolder(self, name: str) -> RemoteFolder:
        parts = urlsplit(self._uri)
        return RemoteFolder(urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}")))

    def make(self) -> None:
        """Create the folder where folders are more than parts of names."""
        if self._scheme not in _ATOMIC:
            with self._explaining("write to"):
                self._files.create_dir(self._connection[1], recursive=True)

    def check(self) -> None:
        """Check that the folder can be reached."""
        self.names()

    def has(self, name: str) -> bool:
        return name in (self.names() if self._listed is None else self._listed)

    def names(self) -> set[str]:
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._connection[1], allow_not_found=True)
        with self._explaining("list"):
            entries = self._files.get_file_info(selector)
        self._listed = {entry.base_name for entry in entries if entry.type == FileType.File}
        return set(self._listed)

    def read(self, name: str) -> bytes:
        with self._explaining(f"read {name} of"), self._open(name) as source:
            content = bytes(source.read())
        self._tails[name] = content[-_TAIL:]
        return content

    def write(self, name: str, content: Any) -> None:
        """Write a file; an index must be as it was when it was read or written here."""
        is_index = not name.endswith(".arrow")
        if is_index and self._tail(name) != self._tails.get(name):
            raise PivecError(
                f"another process has written to {self.path} in the meantime: nothing is lost; "
                "wait for it to finish, then run the same command again"
            )
        with self._explaining("write to"):
            # In one go: a stream that is closed early would look complete.
            target = self._at(name)
            draft = target if self._scheme in _ATOMIC else self._at(f".{name}.tmp")
            with self._files.open_output_stream(draft) as sink:
                sink.write(content)
            if draft != target:
                self._files.move(draft, target)
        if self._listed is not None:
            self._listed.add(name)
        if is_index:
            self._tails[name] = bytes(memoryview(content)[-_TAIL:])
            return
        with atomic_write(make_folder(self._copies) / name) as file:
            file.write(content)

    def local(self, name: str) -> Path:
        """Return where a file can be opened: a copy, downloaded if necessary."""
        path = self._copies / name
        if path.exists():
            with contextlib.suppress(OSError):
                os.utime(path, (time.time(), path.stat().st_mtime))  # it is in use
        elif self.has(name):
            with (
                self._explaining(f"read {name} of"),
                self._open(name) as source,
                atomic_write(make_folder(self._copies) / name) as file,
            ):
                shutil.copyfileobj(source, file, 1 << 22)
        return path

    def fetch(self, names: Iterable[str], *, again: bool = False) -> None:
        """Download files, several at once; with ``again`` also those that have copies."""
        wanted = [name for name in names if self.has(name)]
        for name in wanted if again else ():
            (self._copies / name).unlink(missing_ok=True)
        with ThreadPoolExecutor(_DOWNLOADS) as pool:
            list(pool.map(self.local, wanted))

    def remove(self, name: str) -> None:
        (self._copies / name).unlink(missing_ok=True)
        if self.has(name):
            with self._explaining("write to"), contextlib.suppress(FileNotFoundError):
                self._files.delete_file(self._at(name))
            (self._listed or set()).discard(name)

    def lock(self, wait: float) -> contextlib.AbstractContextManager[None]:  # noqa: ARG002
        """Nothing is locked; see `write`."""
        return contextlib.nullcontext()

    def _open(self, name: str) -> Any:
        return self._files.open_input_file(self._at(name))

    def _tail(self, name: str) -> bytes | None:
        """Read the last bytes of a file as it is now; None if it does not exist."""
        with self._explaining(f"read {name} of"):
            try:
                with self._open(name) as source:
                    source.seek(max(source.size() - _TAIL, 0))
                    return bytes(source.read())
            except FileNotFoundError:
                return None

    @contextlib.contextmanager
    def _explaining(self, action: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            reason = " ".join(str(error).split())
            reason = re.sub(r"\s*\(Request ID:[^)]*\)", "", reason)
            reason = (reason.partition("AWS Error ")[2] or reason).partition("; Details:")[0]
            raise PivecError(
                f"cannot {action} {self.path} ({reason[:200]}): check its name, your credentials "
                "and the network"
            ) from error


Folder = LocalFolder | RemoteFolder


def open_folder(place: str | Path | Folder) -> Folder:
    """Return the folder at a path or URI; ``file://`` is local."""
    if not isinstance(place, str | Path):
        return place
    if not is_uri(place):
        return LocalFolder(place)
    scheme, _, rest = str(place).partition(":")
    rest = rest.lstrip("/")  # a Path has lost one of the slashes
    return (
        LocalFolder(f"/{unquote(rest)}") if scheme == "file" else RemoteFolder(f"{scheme}://{rest}")
    )


def without_credentials(place: object) -> str:
    """Return a path, or a URI without user, password and parameters that may be secret.

    Examples
    --------
    >>> without_credentials("s3://key:secret@bucket/runs?region=eu-west-1&token=abc")
    's3://bucket/runs?region=eu-west-1'
    """
    if not isinstance(place, str | Path) or not is_uri(place):
        return str(place)
    parts = urlsplit(re.sub("^([^:]+):/+", r"\1://", str(place)))
    options = [f"{key}={value}" for key, value in parse_qsl(parts.query) if key in _OPTIONS]
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "&".join(options), ""))


def _file_system(uri: str) -> tuple[Any, str]:
    """Return the file system of a URI, from pyarrow or fsspec, and the path in it."""
    from pyarrow import fs

    parts = urlsplit(uri)
    path = f"{parts.netloc.rpartition('@')[2]}{parts.path}".strip("/")
    if not path:
        raise UsageError(f"{parts.scheme}:// names no place: expected a bucket or folder")
    if parts.scheme == "s3":
        return _s3(uri), path
    if parts.scheme in ("gs", "gcs"):
        anonymous = parts.netloc.startswith("anonymous@")
        limit = timedelta(seconds=_ATTEMPTS * _SECONDS)
        return fs.GcsFileSystem(anonymous=anonymous, retry_time_limit=limit), path
    if parts.scheme in ("hdfs", "viewfs"):
        files, where = fs.FileSystem.from_uri(uri)
        return files, where.rstrip("/")
    try:
        import fsspec

        files, where = fsspec.core.url_to_fs(uri, use_listings_cache=False)
    except ImportError as error:
        needed = re.findall(r"[Ii]nstall (\w+)", str(error)) or ["fsspec"]
        raise PivecError(
            f"stores at {parts.scheme}:// need an optional package: pip install {needed[0]}"
        ) from error
    except ValueError as error:
        raise UsageError(
            f"stores cannot be at {parts.scheme}://: expected a folder, s3://, gs://, hdfs://, or "
            "another protocol of fsspec"
        ) from error
    return fs.PyFileSystem(fs.FSSpecHandler(files)), str(where).rstrip("/")


def _s3(uri: str) -> Any:
    from pyarrow import fs

    parts = urlsplit(uri)
    given = dict(parse_qsl(parts.query))
    user, _, bucket = parts.netloc.rpartition("@")
    options: dict[str, Any] = {key: given[key] for key in _OPTIONS & given.keys()}
    if user:
        options["access_key"], _, options["secret_key"] = user.partition(":")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        options.setdefault("endpoint_override", endpoint)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if "region" not in options and (region or "endpoint_override" not in options):
        options["region"] = region or fs.resolve_s3_region(bucket)
    options |= {"connect_timeout": _SECONDS / 4, "request_timeout": _SECONDS}
    options["retry_strategy"] = fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS)
    with contextlib.suppress(TypeError):  # one request per small file; older pyarrow takes three
        return fs.S3FileSystem(allow_delayed_open=True, **options)
    return fs.S3FileSystem(**options)


@cache
def _cache() -> Path:
    """Return the folder for copies, in the user's cache or temporary; remove unused copies."""
    above = os.environ.get("XDG_CACHE_HOME") or Path("~").expanduser() / ".cache"
    folder = Path(above) / "pivec" / "stores"
    try:
        make_folder(folder)
        for path in folder.glob("*/*"):
            if time.time() - path.stat().st_atime > _CACHE_DAYS * 86_400:
                path.unlink(missing_ok=True)
    except (OSError, UsageError):
        return Path(tempfile.mkdtemp(prefix="pivec-stores-"))
    return folder
