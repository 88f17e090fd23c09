"""The store: a folder with an index, `store.json`, and Arrow files of policies.

Up to `MAX_SINGLE_FILES` policies have one file each; larger stores put about 16 MB of policies into
a file. The name of a file ends with the beginning of its checksum, so that a complete file which a
killed run could not enter into the index is told from a damaged one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pivec.errors import BadStore, PivecError, PivecWarning, UsageError
from pivec.files import broken_link, digest_of, file_name
from pivec.policies import PolicyInfo, first_names
from pivec.states.arrow import PolicyFile, encode, join, open_file, stamp_of, unmap_files
from pivec.states.folders import Folder, open_folder
from pivec.states.visited import OF_STATES, Arrays, PolicyRecord, VisitedStates

FORMAT = 5
INDEX = "store.json"
MAX_SINGLE_FILES = 1000  # policies up to which each has its own file
_MEAN_BYTES, _MAX_BYTES = 1 << 24, 1 << 26  # of a file with several policies
_OVERHEAD = 1 << 10  # bytes of a policy besides its states
# While policies come in, the index is rewritten at most this often, and in at most one part in so
# many of the time. Policies of a large store that come in meanwhile are written together.
_SECONDS, _TIME_SHARE = 2.0, 20
_PENDING_BYTES = 1 << 25
_REMEDY = "run the same `pivec collect` again"

Row = dict[str, Any]  # of the index: a `PolicyInfo` and where its policy is


class Store:
    """States on disk: ``store[label]``, ``len(store)``, ``store.load()``.

    Parameters
    ----------
    path : path or URI
        The folder, local or on object storage (``s3://bucket/runs``).
    settings : mapping, optional
        How the states are collected. If given, the store is created if it does not exist, and one
        that was collected with other settings is rejected unless it is empty.
    feature_names : sequence of str, optional
        Names of the values of a state, needed to create a store.

    Attributes
    ----------
    rows : dict
        The rows of the index, by label.
    settings : dict
    feature_names : tuple of str
    """

    def __init__(
        self,
        path: str | Path | Folder,
        settings: Mapping[str, Any] | None = None,
        feature_names: Sequence[str] = (),
    ) -> None:
        self.folder = open_folder(path)
        self.path = self.folder.path
        self.rows: dict[str, Row] = {}
        self._n_expected = 0  # policies
        self._pending: dict[str, tuple[Row, Any]] = {}  # rows and files that are not written yet
        self._pending_bytes, self._last_write = 0, 0.0
        self._index_written = self._index_seconds = 0.0
        self._verified: dict[str, tuple[int, ...]] = {}  # files that were written or checked here
        self._replaced: set[str] = set()  # files to remove once the index is written
        self._requested: tuple[dict[str, Any], tuple[str, ...]] | None = None
        if settings is not None:
            try:
                plain = json.loads(json.dumps(dict(settings)))  # as it is read from a file
            except (TypeError, ValueError) as error:
                raise UsageError(
                    f"arguments of the environment must be JSON values, but {error}"
                ) from error
            self._requested = plain, tuple(feature_names)
        if self.folder.has(INDEX):
            self._read_index()
        elif self._requested is None:
            raise UsageError(
                broken_link(self.path)
                or f"{self.path} is not a store: expected a folder with {INDEX}, as written by "
                "`pivec collect`"
            )
        else:
            self.settings, self.feature_names = self._requested
            self.folder.make()
            self._write_index()

    @classmethod
    def find(cls, path: str | Path) -> Store:
        """Open a store, or the ``states`` in a folder written by `pivec compare`."""
        folder = open_folder(path)
        if not folder.has(INDEX) and (states := folder.subfolder("states")).has(INDEX):
            folder = states
        return cls(folder)

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Return whether there is a store at ``path``."""
        return open_folder(path).has(INDEX)

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, label: object) -> bool:
        return label in self.rows or label in self._pending

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __getitem__(self, label: str) -> VisitedStates:
        return self.load([label])

    @property
    def policies(self) -> list[PolicyInfo]:
        """What is known about each policy."""
        return [_info(row) for row in self.rows.values()]

    @property
    def n_files(self) -> int:
        """Number of files the policies are in."""
        return len({row["file"] for row in self.rows.values()})

    def n_episodes(self, info: PolicyInfo) -> int:
        """Return how many episodes of this very policy, by label and fingerprint, are stored."""
        row = self.rows.get(info.label)
        return 0 if row is None or row["fingerprint"] != info.fingerprint else int(row["episodes"])

    # ---- reading ----

    def load(self, labels: Sequence[str] | None = None, *, verify: bool = True) -> VisitedStates:
        """Map the states of all or some policies into memory.

        Checksums are verified, which reads every file once unless it was just written;
        ``verify=False`` trusts the disk.
        """
        self._write_pending()
        wanted = list(self.rows) if labels is None else list(labels)
        if not wanted:
            raise BadStore(f"{self.path} holds no policies yet: collect some first")
        for label in wanted:
            if label not in self.rows:
                raise UsageError(f"{self.path} has no policy {label!r}: see `pivec store ls`")
        rows = [self.rows[label] for label in wanted]
        files: dict[str, PolicyFile] = {}
        self.folder.fetch(dict.fromkeys(row["file"] for row in rows))
        for row in rows:
            if row["file"] not in files:
                if verify and (problem := self._problem(row)):
                    raise BadStore(problem)
                files[row["file"]] = self._open(row)
        records = [files[row["file"]].record(row["batch"], _info(row)) for row in rows]
        if self.folder.is_remote:  # other machines download their own copies
            records = [
                replace(
                    record, read_arrays=partial(_read_fetched, self.folder, row["file"], record)
                )
                for record, row in zip(records, rows, strict=True)
            ]
        environment = str(self.settings.get("environment", ""))
        return VisitedStates(records, self.feature_names, environment)

    def verify(self) -> list[str]:
        """Check every file against its checksum; return one sentence per problem."""
        files = {row["file"]: row for row in self.rows.values()}
        self.folder.fetch(files, again=True)
        self._verified.clear()
        return [problem for row in files.values() if (problem := self._problem(row))]

    def _problem(self, row: Row) -> str:
        """Return what is wrong with a policy's file, unless it was written or checked before."""
        file = row["file"]
        problem = "is missing"
        if self.folder.has(file):
            problem = "cannot be read or does not match its checksum, so it should be removed"
            if self._verified.get(file) == stamp_of(self.folder.local(file)):
                return ""
            for again in (False, True):  # a cached copy may be damaged
                self.folder.fetch([file], again=again)
                with contextlib.suppress(OSError):  # of a pipe, or without permission
                    if digest_of(self.folder.local(file)) == row["sha256"]:
                        self._verified[file] = stamp_of(self.folder.local(file))
                        return ""
        labels = first_names([label for label, r in self.rows.items() if r["file"] == file])
        return f"{self.folder}/{file} {problem} (states of {labels}): {_REMEDY}"

    # ---- writing ----

    @contextlib.contextmanager
    def writing(self, wait: float = 0.0) -> Iterator[None]:
        """Lock the store for writing, and adopt the files that a killed run left.

        A store that another process holds is an error after ``wait`` seconds. At the end, the
        policies of a large store are packed into common files.
        """
        with self.folder.lock(wait):
            self._read_index()  # others may have written since this was opened
            self._adopt()
            self._last_write = time.monotonic()
            if self.folder.is_remote:
                self.flush()  # a failure to write shows up before hours of work
            try:
                yield
                with self._explaining("policies"):
                    self._write_pending()
                    self._pack()
            finally:
                with self._explaining("policies"):
                    self.flush()

    def add(self, record: PolicyRecord) -> None:
        """Add a policy, or replace the one with its label; its file appears when it is complete.

        The file of a replaced policy is removed after the index names the new one, so a crash
        leaves one of them.
        """
        with self._explaining(record.info.label):
            content = encode(record, self.identity, bool(self.settings.get("policies")))
            self._pending[record.info.label] = _row(record), content
            self._pending_bytes += len(content)
            is_late = time.monotonic() - self._last_write > _SECONDS
            is_large = max(self._n_expected, len(self.rows)) > MAX_SINGLE_FILES
            if is_late or not is_large or self._pending_bytes > _PENDING_BYTES:
                self._write_pending()

    def flush(self) -> None:
        """Write the policies that wait, and the index; remove files that it no longer names."""
        self._write_pending()
        self._write_index()

    def relabel(self, policies: Sequence[PolicyInfo]) -> None:
        """Give stored policies the labels they have now, and move others out of the way.

        A policy is known by its fingerprint. Another one with a label that is now needed gets a
        number, unless it has the same source: then it was trained further and is replaced.
        """
        stored = {row["fingerprint"]: row for row in self.rows.values() if row["fingerprint"]}
        rows: dict[str, Row] = {}
        taken: dict[str, str | None] = {}
        for info in policies:
            taken[info.label] = info.source
            if (row := stored.get(info.fingerprint)) is not None:
                fresh = asdict(info)
                known = row["metadata"]
                fresh["metadata"] |= {key: known[key] for key in OF_STATES if key in known}
                rows[info.label] = row | fresh
                taken[info.label] = None
        found = {row["fingerprint"] for row in rows.values()}
        for label, row in self.rows.items():
            if row["fingerprint"] not in found:
                free = _numbered(label, taken, row["source"])
                rows[free] = row | {"label": free}
                taken[free] = None
        self.rows = rows
        self._n_expected = len(self.rows.keys() | {info.label for info in policies})

    def reorder(self, labels: Sequence[str]) -> None:
        """Put these policies first, in this order."""
        self._write_pending()
        self.rows = {label: self.rows[label] for label in labels if label in self.rows} | self.rows

    @property
    def identity(self) -> str:
        """Distinguishes files of this store from those collected with other settings."""
        return json_digest([self.settings, self.feature_names])

    def _write_pending(self) -> None:
        groups: dict[bytes, list[tuple[Row, PolicyFile]]] = {}
        for row, content in self._pending.values():
            file = PolicyFile(Path(row["label"]), content)
            groups.setdefault(file.kind, []).append((row, file))
        self._pending, self._pending_bytes, self._last_write = {}, 0, time.monotonic()
        for group in groups.values():
            place = self._write_file([(file, 0) for _, file in group])
            pause = _SECONDS
            for number, (row, _) in enumerate(group):
                old = self.rows.get(row["label"])
                self.rows[row["label"]] = row | place | {"batch": number}
                if old is not None and old["file"] != place["file"]:
                    self._replaced.add(old["file"])
                    # A file with more episodes of the same policy is recognized by that.
                    if (
                        old["fingerprint"] != row["fingerprint"]
                        or old["episodes"] >= row["episodes"]
                    ):
                        pause = 0.0
            since = time.monotonic() - self._index_written
            if since > max(pause, _TIME_SHARE * self._index_seconds):
                self._write_index()

    def _write_file(self, parts: Sequence[tuple[PolicyFile, int]]) -> Row:
        """Write these policies, given by file and number; return what their rows say about it."""
        content = join(parts)
        digest = hashlib.sha256(content).hexdigest()
        file, number = parts[0]
        stem = file_name(file.info(number).label, 60) if len(parts) == 1 else "shard"
        name = f"{stem}-{digest[:16]}.arrow"
        self.folder.write(name, content)
        self._verified[name] = stamp_of(self.folder.local(name))
        return {"file": name, "sha256": digest, "batches": len(parts)}

    def _pack(self) -> None:
        """Put the policies of a large store together, and separate those of a small one.

        The files and their bytes depend on the policies alone.
        """
        for group in self._groups():
            files = {row["file"]: row for row in group}
            is_packed = len(files) == 1 and all(
                (row["batch"], row["batches"]) == (number, len(group))
                for number, row in enumerate(group)
            )
            # Nothing is built on damaged files; whoever loads them is told.
            if is_packed or any(map(self._problem, files.values())):
                continue
            place = self._write_file([(self._open(row), row["batch"]) for row in group])
            for number, row in enumerate(group):
                row.update(place, batch=number)
            self._replaced |= files.keys()

    def _groups(self) -> Iterator[list[Row]]:
        """Divide the policies, in their order, into those of one file each.

        A file ends where the hash of a policy says so, on average after 16 MB: policies that come
        or grow change the file they are in, and rarely another. Policies in one file are alike.
        """
        group: list[Row] = []
        size = 0
        for row in list(self.rows.values()):
            more = _OVERHEAD + 4 * len(self.feature_names) * int(row["states"])
            is_like = not group or self._open(row).kind == self._open(group[0]).kind
            if group and (size + more > _MAX_BYTES or not is_like):
                yield group
                group, size = [], 0
            group.append(row)
            size += more
            identity = str(row["fingerprint"] or row["label"])
            chance = int(hashlib.sha256(identity.encode()).hexdigest()[:12], 16) / 16.0**12
            if chance < more / _MEAN_BYTES or len(self.rows) <= MAX_SINGLE_FILES:
                yield group
                group, size = [], 0
        if group:
            yield group

    def _open(self, row: Row) -> PolicyFile:
        return open_file(self.folder.local(row["file"]))

    @contextlib.contextmanager
    def _explaining(self, owner: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = "the disk is full" if error.errno == errno.ENOSPC else str(error)
            raise PivecError(
                f"cannot write the states of {owner} to {self.path} ({reason}): make room there, "
                "or choose another folder"
            ) from error

    # ---- after a killed run ----

    def _adopt(self) -> None:
        """Bring the index up to date: drop policies without file, enter those of unknown files."""
        names = self.folder.names()
        for name in [name for name in names if name.startswith(".") and name.endswith(".tmp")]:
            self.folder.remove(name)  # which was being written
        for label, row in list(self.rows.items()):
            if row["file"] not in names:
                warnings.warn(f"the states of {label} no longer exist", PivecWarning, stacklevel=4)
                del self.rows[label]
        known = {row["file"] for row in self.rows.values()}
        labels = {row["fingerprint"]: label for label, row in self.rows.items()}
        for name in sorted(names - known):
            if not name.endswith(".arrow"):
                continue
            try:
                digest = digest_of(self.folder.local(name))
                if not Path(name).stem.endswith(f"-{digest[:16]}"):
                    raise BadStore(f"{self.folder}/{name} does not match the checksum in its name")
                file = PolicyFile(self.folder.local(name))
                if file.header.get("store") != self.identity:
                    raise BadStore(f"{self.folder}/{name} was collected with other settings")
                records = [file.record(number) for number in range(file.n_policies)]
            except BadStore as error:
                warnings.warn(
                    f"a file that is not in the index is ignored; remove it: {error}",
                    PivecWarning,
                    stacklevel=4,
                )
                continue
            self._replaced.add(name)  # unless one of its policies is entered
            place = {"file": name, "sha256": digest, "batches": len(records)}
            for number, record in enumerate(records):
                self._adopt_policy(record, place | {"batch": number}, labels)

    def _adopt_policy(self, record: PolicyRecord, place: Row, labels: dict[str, str]) -> None:
        """Enter a policy, unless it is what a later `add` replaced.

        Of two files of one policy, the one with more episodes stays: it includes the others.
        ``labels`` has the present labels by fingerprint.
        """
        info, label = record.info, record.info.label
        if info.fingerprint and info.fingerprint in labels:
            label = labels[info.fingerprint]
        elif self.rows.get(label, {}).get("source") != info.source:
            label = _numbered(label, self.rows, info.source)
        if label in self.rows:
            row = self.rows[label]
            is_same = row["fingerprint"] == info.fingerprint
            if not is_same or row["episodes"] >= len(record.episodes):
                return
            self._replaced.add(row["file"])
        labels[info.identity] = label
        self.rows[label] = _row(replace(record, info=replace(info, label=label))) | place

    # ---- the index ----

    def _write_index(self) -> None:
        begun = time.monotonic()
        index = {
            "format": FORMAT,
            "environment": self.settings.get("environment", ""),
            "feature_names": self.feature_names,
            "settings": self.settings,
            "policies": list(self.rows.values()),
        }
        index["sha256"] = json_digest(index)
        parts = {key: json.dumps(value) for key, value in index.items()}
        parts["policies"] = "[\n" + ",\n".join(map(json.dumps, self.rows.values())) + "\n]"
        text = ",\n".join(f'"{key}": {part}' for key, part in parts.items())
        self.folder.write(INDEX, f"{{\n{text}\n}}\n".encode())
        self._index_written = time.monotonic()
        self._index_seconds = self._index_written - begun
        self._replaced -= {row["file"] for row in self.rows.values()}
        if self._replaced:
            unmap_files()
        while self._replaced:
            self.folder.remove(self._replaced.pop())

    def _read_index(self) -> None:
        path = f"{self.folder}/{INDEX}"
        try:
            index = json.loads(self.folder.read(INDEX))
            version = int(index["format"])
            if version != FORMAT:
                advice = "upgrade pivec" if version > FORMAT else "collect into another folder"
                raise BadStore(
                    f"{self.path} is a store of format {version}, but this version of pivec reads "
                    f"format {FORMAT}: {advice}"
                )
            if index.pop("sha256") != json_digest(index):
                raise BadStore(
                    f"{path} does not match its checksum, so it is damaged or was edited: remove "
                    f"it and {_REMEDY}, which adopts all complete files"
                )
            self.settings = dict(index["settings"])
            self.feature_names = tuple(str(name) for name in index["feature_names"])
            self.rows = {}
            for row in index["policies"]:
                file = row["file"]
                if Path(file).name != file:
                    raise BadStore(f"{path} names a file outside its folder: {file!r}")
                label = _info(row).label  # raises if a field is missing
                if not 0 <= row["batch"] < row["batches"]:
                    raise BadStore(f"{path} names a policy outside its file: {label!r}")
                self.rows[label] = row | {"label": label}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise BadStore(f"{path} is not the index of a store ({error!r})") from error
        if self._requested is None:
            return
        if not self.rows:  # nothing was collected with the settings of an empty store
            self.settings, self.feature_names = self._requested
        settings, feature_names = self._requested
        for key in sorted(settings.keys() | self.settings.keys()):
            if settings.get(key) != self.settings.get(key):
                raise UsageError(
                    f"{self.path} was collected with {key} = {self.settings.get(key)!r}, but now "
                    f"{settings.get(key)!r} is requested: use the same, or another folder"
                )
        if feature_names != self.feature_names:
            raise UsageError(
                f"{self.path} holds states of {len(self.feature_names)} features, but the states "
                f"now have {len(feature_names)} or other names: use another folder"
            )


def _read_fetched(folder: Folder, file: str, record: PolicyRecord) -> Arrays:
    folder.local(file)
    return record.read_arrays()


def load(path: str | Path, *, verify: bool = True) -> VisitedStates:
    """Load a store; its states are memory-mapped, not read.

    Parameters
    ----------
    path : path or URI
        A folder written by `pivec collect` or `pivec.collect(..., store=path)`, or by
        `pivec compare` (its ``states`` are loaded). The files of a remote store (``s3://...``) are
        first copied into the user's cache.
    verify : bool
        Check the files against their checksums.
    """
    return Store.find(path).load(verify=verify)


def check_store_path(place: str | Path) -> None:
    """Check that a store can be written to a path or URI; nothing is created."""
    open_folder(place).check()


def json_digest(content: Any) -> str:
    """Return the SHA-256 of a JSON value."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _row(record: PolicyRecord) -> Row:
    return {
        **vars(record.info),
        "metadata": dict(record.info.metadata),
        "episodes": len(record.episodes),
        "states": int(record.episodes["length"].sum()),
        "mean_return": float(np.mean(record.episodes["return"])),
    }


def _info(row: Row) -> PolicyInfo:
    return PolicyInfo(**{field.name: row[field.name] for field in fields(PolicyInfo)})


def _numbered(label: str, taken: Mapping[str, Any], source: str) -> str:
    """Return the label, with a number if a policy from another source has it."""
    free, count = label, 1
    while taken.get(free, source) != source:
        count += 1
        free = f"{label}-{count}"
    return free
