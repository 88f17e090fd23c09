"""The store: a folder with an index and Arrow files, one a policy or, in a large one, a shard."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Union
from urllib.parse import unquote

import numpy as np

from pivec.errors import BadStore, PivecError, PivecWarning, UsageError
from pivec.files import (
    atomic_write,
    check_folder,
    digest_of,
    file_name,
    is_uri,
    locked,
    make_folder,
    read_regular,
)
from pivec.policies import NetworkPolicy, PolicyInfo, first_names
from pivec.policies import policy_bytes as network_bytes
from pivec.rollouts import PlayedPolicy
from pivec.states.arrow import (
    Piece,
    PolicyFile,
    forget_shards,
    open_shard,
    piece_bytes,
    piece_digest,
    policy_bytes,
    write_shard,
)
from pivec.states.record import Arrays, PolicyRecord, record_of_played
from pivec.states.visited import VisitedStates

if TYPE_CHECKING:
    from pivec.states.remote import RemoteFolder

# -----------------------------------------------------------------------------
# Shards: which policies of a large store lie in one file, and how the files come about.
#
# Where one shard ends follows from the policies around, so a policy that comes or grows changes the
# shard it is in, and seldom another.


Row = dict[str, Any]  # of the index

ALONE = 1000  # policies up to which every one has a file of its own
_MEAN, _MOST = 1 << 24, 1 << 26  # bytes of a shard
_LEAST = 1 << 10  # bytes that a policy counts beside its states


def is_large(policies: int) -> bool:
    """Tell whether a store of so many policies has shards."""
    return policies > ALONE


def groups_of(
    rows: Sequence[Row], width: int, kind: Callable[[Row], object]
) -> Iterator[list[Row]]:
    """Cut policies, in their order, into those of a file each.

    ``width`` is the number of features; only policies of one ``kind`` may lie in one file. A file
    ends where the hash of a policy says so, by chance after 16 MB.
    """
    if not is_large(len(rows)):
        yield from ([row] for row in rows)
        return
    group: list[Row] = []
    size = 0
    for row in rows:
        more = _LEAST + 4 * width * int(row["states"])
        if group and (size + more > _MOST or kind(row) != kind(group[0])):
            yield group
            group, size = [], 0
        group.append(row)
        size += more
        if _chance(row) < more / _MEAN:
            yield group
            group, size = [], 0
    if group:
        yield group


def _chance(row: Row) -> float:
    """A number in [0, 1) that follows from who the policy is."""
    identity = str(row["fingerprint"] or row["label"])
    return int(hashlib.sha256(identity.encode()).hexdigest()[:12], 16) / 16.0**12


def is_shard(group: Sequence[Row], shards: Mapping[str, Mapping[str, Any]]) -> bool:
    """Tell whether these policies, and no others, lie in one shard in this order."""
    file = group[0]["file"]
    return (
        shards.get(file, {}).get("policies") == len(group)
        and all(row["file"] == file for row in group)
        and all(row["batch"] == number for number, row in enumerate(group))
    )


def damaged_in(path: Path, rows: Sequence[Row]) -> list[str]:
    """Labels of those policies of a damaged shard that do not match their own checksums."""
    labels = []
    for row in rows:
        try:
            piece = PolicyFile(path).piece(row["batch"], sums_of(row))
            network = None if piece.network is None else hashlib.sha256(piece.network).hexdigest()
            is_whole = piece_digest(piece) == row["sha256"] and network == row.get("policy_sha256")
        except BadStore:
            is_whole = False
        if not is_whole:
            labels.append(str(row["label"]))
    return labels


def sums_of(row: Mapping[str, Any]) -> dict[str, str]:
    """The checksums of a policy's own files."""
    return {name: row[name] for name in ("sha256", "policy_sha256") if name in row}


# -----------------------------------------------------------------------------
# The folder of a store: files are put there whole, listed, looked at and removed.


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


# -----------------------------------------------------------------------------
# The index of a store, `store.json`: how its states came about, and a row for each policy.
#
# It has a checksum of every file and of itself.


FORMATS = 2, 3  # without and with shards
INDEX = "store.json"


class Index:
    """What is in a store, by label; see `Store`."""

    def __init__(
        self,
        path: Place,
        settings: Mapping[str, Any] | None = None,
        feature_names: Sequence[str] = (),
    ) -> None:
        self.folder = folder_of(path)
        self.path = self.folder.path
        self._written = self._cost = 0.0  # when the index was written, and what that took
        self._largest = 0  # how many policies are expected
        self._asked: tuple[dict[str, Any], tuple[str, ...]] | None = None
        if settings is not None:
            try:
                plain = json.loads(json.dumps(dict(settings)))  # as it comes back from a file
            except (TypeError, ValueError) as error:
                raise UsageError(
                    f"arguments of the environment must be what JSON can hold, but {error}"
                ) from error
            self._asked = plain, tuple(feature_names)
        self.rows: dict[str, dict[str, Any]] = {}
        self.shards: dict[str, dict[str, Any]] = {}  # files of many policies, and their checksums
        if self.folder.has(INDEX):
            self._read()
        elif self._asked is None:
            raise UsageError(
                f"{self.path} is not a store: expected a folder with {INDEX}, as `pivec collect` "
                "writes it"
            )
        else:
            self.settings, self.feature_names = self._asked
            self.folder.make()
            self.flush()

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, label: object) -> bool:
        return label in self.rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def holds(self, info: PolicyInfo) -> int:
        """How many episodes of this very policy are there: the label, and the same behind it."""
        row = self.rows.get(info.label)
        return 0 if row is None or row["fingerprint"] != info.fingerprint else int(row["episodes"])

    @property
    def identity(self) -> str:
        """Tells files of this store from those that were collected otherwise."""
        return sum_of([self.settings, self.feature_names])

    def flush(self) -> None:
        """Write the index."""
        begun = time.monotonic()
        files = dict.fromkeys(row["file"] for row in self.rows.values())
        self.shards = {file: self.shards[file] for file in files if file in self.shards}
        index = {
            "format": FORMATS[bool(self.shards)],
            "environment": self.settings.get("environment", ""),
            "feature_names": self.feature_names,
            "settings": self.settings,
            "policies": list(self.rows.values()),
        }
        if self.shards:
            index["shards"] = self.shards
        index["sha256"] = sum_of(index)
        self.folder.write(INDEX, _text(index).encode())
        self._written = time.monotonic()
        self._cost = self._written - begun

    def enter(self, file: str, record: PolicyRecord, sums: Mapping[str, str]) -> None:
        """Put in a row for a policy whose file is there."""
        self.rows[record.info.label] = {
            **vars(record.info),
            "metadata": dict(record.info.metadata),
            "file": file,
            **sums,
            "episodes": len(record.episodes),
            "states": int(record.episodes["length"].sum()),
            "mean_return": float(np.mean(record.episodes["return"])),
        }

    def claim(self, policies: Sequence[PolicyInfo]) -> None:
        """Let policies that are kept go by the names they have now; others make room for them.

        A policy is known by its fingerprint. One that has a claimed name gets a number, unless it
        came from the same place as the one that claims it: that was trained on, and replaces it.
        """
        kept = {row["fingerprint"]: row for row in self.rows.values() if row["fingerprint"]}
        rows: dict[str, dict[str, Any]] = {}
        taken: dict[str, str | None] = {}
        for info in policies:
            taken[info.label] = info.source
            if (row := kept.get(info.fingerprint)) is not None:
                fresh = asdict(info)
                if "kept_every" in row["metadata"]:
                    fresh["metadata"]["kept_every"] = row["metadata"]["kept_every"]
                rows[info.label] = row | fresh
                taken[info.label] = None
        claimed = {row["fingerprint"] for row in rows.values()}
        for label, row in self.rows.items():
            if row["fingerprint"] in claimed:
                continue
            free = numbered(label, taken, row["source"])
            rows[free] = row | {"label": free}
            taken[free] = None
        self.rows = rows
        self._largest = len(self.rows.keys() | {info.label for info in policies})

    def reorder(self, labels: Sequence[str]) -> None:
        """Put these policies first, in this order."""
        first = {label: self.rows[label] for label in labels if label in self.rows}
        self.rows = first | self.rows

    def _read(self) -> None:
        path = f"{self.folder}/{INDEX}"
        try:
            index = json.loads(self.folder.read(INDEX))
            version = int(index["format"])
            if version not in FORMATS:
                advice = "upgrade pivec" if version > FORMATS[-1] else "collect into another folder"
                raise BadStore(
                    f"{self.path} is a store of format {version}, but this version of pivec reads "
                    f"format {FORMATS[-1]}: {advice}"
                )
            if index.pop("sha256") != sum_of(index):
                raise BadStore(
                    f"{path} does not match its checksum, so it is damaged or was edited: remove "
                    "it and run the same `pivec collect` again, which takes in all whole files"
                )
            self.settings = dict(index["settings"])
            self.settings.pop("episodes", None)  # of stores that could not grow
            self.feature_names = tuple(str(name) for name in index["feature_names"])
            self.shards = dict(index.get("shards", {}))
            self.rows = {}
            for row in index["policies"]:
                file = row["file"]
                if Path(file).name != file:
                    raise BadStore(f"{path} names a file outside its folder: {file!r}")
                info_of(row)  # raises if a field is missing
                if file in self.shards and not 0 <= row["batch"] < self.shards[file]["policies"]:
                    raise BadStore(f"{path} names a policy outside its shard: {row['label']!r}")
                self.rows[str(row["label"])] = row
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise BadStore(f"{path} is not the index of a store ({error!r})") from error
        if self._asked is not None and self.rows:
            self._check_settings(*self._asked)
        elif self._asked is not None:  # nothing was collected with what stands in an empty store
            self.settings, self.feature_names = self._asked

    def _check_settings(self, asked: Mapping[str, Any], feature_names: Sequence[str]) -> None:
        for key in sorted(asked.keys() | self.settings.keys()):
            if asked.get(key) != self.settings.get(key):
                raise UsageError(
                    f"{self.path} was collected with {key} = {self.settings.get(key)!r}, but now "
                    f"{asked.get(key)!r} is asked for: use the same, or another folder"
                )
        if feature_names != self.feature_names:
            raise UsageError(
                f"{self.path} holds states of {len(self.feature_names)} features, but the states "
                f"now have {len(feature_names)} or other names: use another folder"
            )


def numbered(label: str, taken: Mapping[str, Any], source: str) -> str:
    """Give the label, with a number if it is taken for what comes from elsewhere."""
    free, count = label, 1
    while taken.get(free, source) != source:
        count += 1
        free = f"{label}-{count}"
    return free


def info_of(row: Mapping[str, Any]) -> PolicyInfo:
    """What a row of the index says of its policy."""
    return PolicyInfo(**{field.name: row[field.name] for field in fields(PolicyInfo)})


def sum_of(content: Any) -> str:
    """Return the checksum of what JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _text(index: Mapping[str, Any]) -> str:
    """Write JSON with a line a policy."""
    rows = ",\n".join(map(json.dumps, index["policies"]))
    parts = {key: json.dumps(value) for key, value in index.items() if key != "policies"}
    parts["policies"] = f"[\n{rows}\n]"
    return "{\n" + ",\n".join(f'"{key}": {parts[key]}' for key in index) + "\n}\n"


# -----------------------------------------------------------------------------
# The files behind the index of a store: their names and checksums, and what a killed run left.
#
# The name of a file ends with a part of its checksum, so that a file which a killed run had no time
# to enter into the index can be told from a damaged one.


_NETWORK = re.compile(r"-[0-9a-f]{16}\.safetensors$")
_REMEDY = "run the same `pivec collect` again"


class Shelf(Index):
    """An index with its files; see `pivec.Store`."""

    def __init__(
        self,
        path: Place,
        settings: Mapping[str, Any] | None = None,
        feature_names: Sequence[str] = (),
    ) -> None:
        self._sound: dict[str, object] = {}  # files that were written here, or checked
        self._replaced: set[str] = set()  # files that go when the index is written
        self._kinds: dict[str, object] = {}  # of the policies in a file
        super().__init__(path, settings, feature_names)

    def flush(self) -> None:
        """Write the index; files that it names no more go."""
        super().flush()
        self._replaced -= {row["file"] for row in self.rows.values()}
        if self._replaced:
            forget_shards()
        while self._replaced:
            self._remove(self._replaced.pop())

    def verify(self) -> list[str]:
        """Check every file against its checksum; return one sentence for each problem."""
        self._fetch(self.rows, anew=True)
        rows = {row["file"]: row for row in self.rows.values()}
        problems = (self._problem(row) for row in rows.values())
        return [problem for problem in problems if problem]

    @property
    def n_files(self) -> int:
        """How many files the policies are in."""
        return len({row["file"] for row in self.rows.values()})

    @property
    def is_large(self) -> bool:
        """Whether there are, or are expected to be, too many policies for a file each."""
        return is_large(max(self._largest, len(self.rows)))

    def _open(self, file: str) -> PolicyFile:
        path = self.folder.local(file)
        return open_shard(path) if file in self.shards else PolicyFile(path)

    def _kind(self, row: Row) -> object:
        file = row["file"]
        if file not in self._kinds:
            self._kinds[file] = self._open(file).kind
        return self._kinds[file]

    def _remove(self, file: str) -> None:
        for _, name in _both(file):
            self.folder.remove(name)

    def _fetch(self, labels: Iterable[str], *, anew: bool = False) -> None:
        """Bring the files of policies here, where they are elsewhere."""
        files = dict.fromkeys(self.rows[label]["file"] for label in labels if label in self.rows)
        self.folder.fetch((part for file in files for _, part in _both(file)), anew=anew)

    # ---- checksums ----

    def _trust(self, file: str) -> None:
        self._sound[file] = self._stamp(file)

    def _stamp(self, file: str) -> object:
        """What changes when a file is written anew."""
        parts = [self.folder.local(part) for _, part in _both(file) if self.folder.has(part)]
        known = [os.stat(path) for path in parts]
        return [(part.st_ino, part.st_size, part.st_mtime_ns) for part in known]

    def _news(self, row: Row) -> str:
        """Tell the problem of a policy's file, unless that was written here or checked before."""
        file = row["file"]
        if file in self._sound and self._sound[file] == self._stamp(file):
            return ""
        if not (problem := self._problem(row)):
            self._trust(file)
        return problem

    def _problem(self, row: Row) -> str:
        file = row["file"]
        if file in self.shards:
            return self._problem_of_shard(file)
        for name, part in _both(file):
            if name in row and not self.folder.has(part):
                return f"{self.folder}/{part} is missing: {_REMEDY}"
            if self.folder.has(part) and not self._matches(part, row.get(name)):
                return (
                    f"{self.folder}/{part} does not match its checksum, so it is damaged: remove "
                    f"it and {_REMEDY}"
                )
        return ""

    def _matches(self, part: str, digest: str | None) -> bool:
        """Compare a file with its checksum; a copy that does not match is fetched anew."""
        if digest_of(self.folder.local(part)) == digest:
            return True
        return self.folder.renew(part) and digest_of(self.folder.local(part)) == digest

    def _problem_of_shard(self, file: str) -> str:
        if self.folder.has(file) and self._matches(file, self.shards[file]["sha256"]):
            return ""
        rows = [row for row in self.rows.values() if row["file"] == file]
        if not self.folder.has(file):
            names = first_names([row["label"] for row in rows])
            return f"{self.folder}/{file} is missing, with the states of {names}: {_REMEDY}"
        names = (
            first_names(damaged_in(self.folder.local(file), rows))
            or "none, but what stands between them"
        )
        return (
            f"{self.folder}/{file} does not match its checksum, so it is damaged, with the states "
            f"of {names}: remove it and {_REMEDY}"
        )

    # ---- what a killed run left ----

    def _checked(
        self, file: str, content: Mapping[str, Any] | None = None
    ) -> tuple[PolicyFile, dict[str, str]]:
        """Open a file that is not in the index, with its checksums; it must be of this store.

        ``content`` has what is to be written there, by name.
        """
        if content is None:
            there = {key: part for key, part in _both(file) if self.folder.has(part)}
            sums = {key: digest_of(self.folder.local(part)) for key, part in there.items()}
        else:
            sums = checksums(content)
        if not Path(file).stem.endswith(mark_of(sums)):
            raise BadStore(f"{self.folder}/{file} does not match the checksum in its name")
        opened = PolicyFile(self.folder.local(file), content and content[file])
        if opened.header.get("store") != self.identity:
            raise BadStore(f"{self.folder}/{file} was collected with other settings")
        return opened, sums

    def _adopt(self) -> None:
        """Make the index true: files that are gone are left out, whole ones taken in.

        A killed run had no time to enter some; its half ones are swept.
        """
        self.folder.sweep()
        names = self.folder.names()
        for label, row in list(self.rows.items()):
            if not self._is_there(row, names):
                warnings.warn(f"the states of {label} are gone", PivecWarning, stacklevel=4)
                del self.rows[label]
        known = {row["file"] for row in self.rows.values()}
        labels = {row["fingerprint"]: label for label, row in self.rows.items()}  # as they are now
        for name in sorted(names - known):
            if _NETWORK.search(name) and name.replace(".safetensors", ".arrow") not in names:
                self.folder.remove(name)  # of states that were removed, or were to come
            if not name.endswith(".arrow"):
                continue
            try:
                opened, sums = self._checked(name)
                policies = [(opened.record(i), opened.about(i)) for i in range(opened.n_policies)]
            except BadStore as error:
                warnings.warn(
                    f"a file that is not in the index is left out, so remove it: {error}",
                    PivecWarning,
                    stacklevel=4,
                )
                continue
            if opened.is_shard:
                self.shards[name] = {"sha256": sums["sha256"], "policies": len(policies)}
            self._replaced.add(name)  # unless something of it is taken in
            for number, (record, about) in enumerate(policies):
                own = sums_of(about) if opened.is_shard else sums
                if self._enters(name, record, own, labels) and opened.is_shard:
                    self.rows[labels[record.info.identity]]["batch"] = number

    def _is_there(self, row: Row, names: set[str]) -> bool:
        file = row["file"]
        alone = "policy_sha256" in row and file not in self.shards
        return file in names and (not alone or beside(file) in names)

    def _enters(
        self, file: str, record: PolicyRecord, sums: Mapping[str, str], labels: dict[str, str]
    ) -> bool:
        """Enter a policy that is not in the index, unless it is what `add` replaced.

        Of two files of one policy that with more episodes stays: it has those of the other too.
        ``labels`` has what policies are called now, by their fingerprints.
        """
        info, label = record.info, record.info.label
        if info.fingerprint and info.fingerprint in labels:
            label = labels[info.fingerprint]
        elif self.rows.get(label, {}).get("source") != info.source:
            label = numbered(label, self.rows, info.source)
        if label in self.rows:
            row = self.rows[label]
            is_same = row["fingerprint"] == info.fingerprint
            if not is_same or row["episodes"] >= len(record.episodes):
                return False
            self._replaced.add(row["file"])
        labels[info.identity] = label
        self.enter(file, replace(record, info=replace(info, label=label)), sums)
        return True


def policy_files(record: PolicyRecord, store: str, policies: bool) -> dict[str, Any]:
    """Give the files of a policy by their names: its network, if that is kept, and its states.

    ``store`` is the `identity` of the store, ``policies`` whether it keeps them. They are written
    in this order: a file of states is whole with what is beside it.
    """
    policy = record.read_policy() if policies else None
    parts = {".safetensors": network_bytes(policy)} if isinstance(policy, NetworkPolicy) else {}
    parts[".arrow"] = policy_bytes(record, store)
    name = name_of(record.info.label, checksums(parts))
    return {name.removesuffix(".arrow") + suffix: content for suffix, content in parts.items()}


def checksums(parts: Mapping[str, Any]) -> dict[str, str]:
    """Return the checksums of a policy's files, which are given by their names or suffixes."""
    suffixes = {"sha256": ".arrow", "policy_sha256": ".safetensors"}
    return {
        key: hashlib.sha256(content).hexdigest()
        for key, suffix in suffixes.items()
        for name, content in parts.items()
        if name.endswith(suffix)
    }


def name_of(label: str, sums: Mapping[str, str]) -> str:
    """The name of a policy's file."""
    short = hashlib.sha256(label.encode()).hexdigest()[:10]
    return f"{file_name(label, 60)}-{short}{mark_of(sums)}.arrow"


def mark_of(sums: Mapping[str, str]) -> str:
    """What the names of files end with, after their checksums."""
    return "-" + hashlib.sha256("".join(sums.values()).encode()).hexdigest()[:16]


def beside(file: str) -> str:
    """The name of the file with the network of a policy."""
    return file.removesuffix(".arrow") + ".safetensors"


def _both(file: str) -> Iterator[tuple[str, str]]:
    """Both files of a policy, by the names of their checksums; the network may not be kept."""
    yield "sha256", file
    yield "policy_sha256", beside(file)


# While policies come in, the index is rewritten at most this often, and in at most one part in so
# many of the time; files not in it are adopted.
_SECONDS, _SHARE = 2.0, 20
_MOST_STORE = 1 << 25  # bytes of policies that wait to be written together


class Store(Shelf):
    """States on disk: ``store[label]``, ``len(store)``, ``store.load()``.

    Parameters
    ----------
    path : path or URI
        The folder, here or on object storage (``s3://bucket/runs``).
    settings : mapping, optional
        How the states are collected. Given, the store is made if it is not there, and one that
        was collected otherwise is refused, unless it is empty.
    feature_names : sequence of str, optional
        Names of the values of a state, needed to make a store.
    """

    def __init__(
        self,
        path: Place,
        settings: Mapping[str, Any] | None = None,
        feature_names: Sequence[str] = (),
    ) -> None:
        self._waiting: dict[str, tuple[PolicyRecord, Piece]] = {}  # to be written together
        self._waiting_bytes, self._gathered = 0, 0.0  # and when the last were
        super().__init__(path, settings, feature_names)

    def __contains__(self, label: object) -> bool:
        return label in self.rows or label in self._waiting

    @classmethod
    def find(cls, path: str | Path) -> Store:
        """Open a store, or the ``states`` of a folder that `pivec compare` left."""
        folder = folder_of(path)
        if not folder.has(INDEX) and (states := folder.within("states")).has(INDEX):
            folder = states
        return cls(folder)

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Tell whether there is a store at ``path``."""
        return folder_of(path).has(INDEX)

    # ---- writing ----

    @contextlib.contextmanager
    def writing(self, wait: float = 0.0) -> Iterator[None]:
        """Hold the store for writing: no other process may; what a killed run left is adopted.

        A store that another process holds is an error after ``wait`` seconds. When all went well,
        the policies of a large store are put together in shards.
        """
        with self.folder.lock(wait):
            self._read()  # others may have written since this was opened
            self._adopt()
            self._gathered = time.monotonic()
            if not isinstance(self.folder, Folder):
                self.flush()  # what cannot be written is known before hours of work
            try:
                yield
                with self._telling("policies"):
                    self._settle()
                    self._pack()
            finally:
                with self._telling("policies"):
                    self.flush()

    def add(self, record: PolicyRecord) -> None:
        """Keep one policy; its file appears when it is whole.

        A file of the same label goes when the index names the new one, so a crash leaves either
        of them whole. One that has the same episodes and more need not be named at once: it is
        known by that. In a large store policies that come within two seconds get a file together.
        """
        with self._telling(record.info.label):
            files = self.bytes_of(record)
            *_, name = files
            self._gather(record, PolicyFile(Path(name), files[name]), files)

    def bytes_of(self, record: PolicyRecord) -> dict[str, Any]:
        """Give the files of a policy, by their names, as `add` would write them; see `take_in`."""
        return policy_files(record, self.identity, bool(self.settings.get("policies")))

    def take_in(self, name: str, files: Mapping[str, Any] | None = None) -> None:
        """Keep a policy whose file ``name`` (.arrow) another process has put into the folder.

        Or write its ``files``, which `bytes_of` or `policy_files` gave in another process.
        """
        with self._telling(name):
            if files is None:
                self.folder.look(name, beside(name))
            opened, sums = self._checked(name, files)
            if files is None:
                self._enter_all(name, [(opened.record(), sums)])
            else:
                self._gather(opened.record(), opened, files)

    def _gather(self, record: PolicyRecord, file: PolicyFile, files: Mapping[str, Any]) -> None:
        """Let a policy wait for others of a large store; what waits took two seconds at most."""
        piece = file.piece(0, checksums(files), files.get(beside(file.path.name)))
        self._waiting[record.info.label] = record, piece
        self._waiting_bytes += sum(map(len, files.values()))
        is_late = time.monotonic() - self._gathered > _SECONDS
        if is_late or self._waiting_bytes > _MOST_STORE or not self.is_large:
            self._settle()

    def _settle(self) -> None:
        """Write the policies that wait."""
        groups: dict[object, list[tuple[PolicyRecord, Piece]]] = {}
        for record, piece in self._waiting.values():
            groups.setdefault(piece.kind, []).append((record, piece))
        self._waiting, self._waiting_bytes, self._gathered = {}, 0, time.monotonic()
        for group in groups.values():
            name = self._write([piece for _, piece in group], len(group))
            self._enter_all(name, [(record, piece.sums) for record, piece in group])

    def reorder(self, labels: Sequence[str]) -> None:
        """Put these policies first, in this order."""
        self._settle()
        super().reorder(labels)

    def flush(self) -> None:
        """Write what waits, and the index; files that it names no more go."""
        self._settle()
        super().flush()

    def _enter_all(
        self, name: str, policies: Sequence[tuple[PolicyRecord, Mapping[str, str]]]
    ) -> None:
        """Enter policies whose file is there."""
        pause = _SECONDS
        for number, (record, sums) in enumerate(policies):
            old = self.rows.get(record.info.label, {}).get("file")
            has_more = 0 < self.holds(record.info) < len(record.episodes)
            self.enter(name, record, sums)
            if name in self.shards:
                self.rows[record.info.label]["batch"] = number
            if old not in (None, name):
                self._replaced.add(old)
                pause = pause if has_more else 0.0
        self._trust(name)
        if time.monotonic() - self._written > max(pause, _SHARE * self._cost):
            super().flush()

    @contextlib.contextmanager
    def _telling(self, whose: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = "the disk is full" if error.errno == errno.ENOSPC else str(error)
            raise PivecError(
                f"cannot write the states of {whose} to {self.path} ({reason}): make room there, "
                "or choose another folder"
            ) from error

    def _pack(self) -> None:
        """Put the policies of a large store together, and take those of a small one apart.

        Which lie in one file, and its bytes, follow from the policies alone.
        """
        for group in groups_of(list(self.rows.values()), len(self.feature_names), self._kind):
            files = {row["file"]: row for row in group}
            is_alone = len(group) == 1 and not self.shards.keys() & files.keys()
            # Nothing is built on damaged files, which whoever loads them gets to know.
            if is_alone or is_shard(group, self.shards) or any(map(self._news, files.values())):
                continue
            pieces = (
                self._open(row["file"]).piece(row.get("batch", 0), sums_of(row)) for row in group
            )
            name = self._write(pieces, len(group))
            for number, row in enumerate(group):
                row["file"] = name
                row.pop("batch", None)
                if name in self.shards:
                    row["batch"] = number
            self._trust(name)
            self._replaced |= files.keys()

    def _write(self, pieces: Iterable[Piece], count: int) -> str:
        """Write a shard of so many policies, or of one its own file; give the name."""
        if count == 1:
            [piece] = pieces
            name = name_of(piece.info["label"], piece.sums)
            if piece.network is not None:
                self.folder.write(beside(name), piece.network)
            self.folder.write(name, piece_bytes(piece))
            return name
        with self.folder.staging("shard") as staged:
            write_shard(staged, pieces, bool(self.settings.get("policies")))
            sums = {"sha256": digest_of(staged)}
            name = f"shard{mark_of(sums)}.arrow"
            self.folder.place(staged, name)
        self.shards[name] = sums | {"policies": count}
        return name

    # ---- reading ----

    def __getitem__(self, label: str) -> VisitedStates:
        return self.load([label])

    def load(self, labels: Sequence[str] | None = None, *, verify: bool = True) -> VisitedStates:
        """Map the states of all policies, or of these, into memory.

        Checksums are verified, which reads every file once, but for those that were just written;
        ``verify=False`` trusts the disk.
        """
        self._settle()
        wanted = list(self.rows) if labels is None else list(labels)
        if not wanted:
            raise BadStore(f"{self.path} holds no policies yet: collect some first")
        self._fetch(wanted)
        records: list[PolicyRecord] = []
        shards: dict[str, PolicyFile] = {}
        for label in wanted:
            if label not in self.rows:
                raise UsageError(f"{self.path} has no policy {label!r}: see `pivec store ls`")
            row = self.rows[label]
            file = shards.get(row["file"])
            if file is None:
                if verify and (problem := self._news(row)):
                    raise BadStore(problem)
                file = self._open(row["file"])
                if file.is_shard:
                    shards[row["file"]] = file
            # The index knows what policies are called now.
            record = file.record(row.get("batch", 0), info_of(row))
            if not isinstance(self.folder, Folder):  # other machines fetch their own copies
                read = partial(_read_fetched, self.folder, row["file"], record.read_arrays)
                record = replace(record, read_arrays=read)
            records.append(record)
        environment = str(self.settings.get("environment", ""))
        return VisitedStates(records, self.feature_names, environment)


def _read_fetched(folder: RemoteFolder, name: str, read: Callable[[], Arrays]) -> Arrays:
    folder.local(name)
    return read()


def load(path: str | Path, *, verify: bool = True) -> VisitedStates:
    """Load a store from disk: its states are mapped, not read.

    Parameters
    ----------
    path : path or URI
        A folder that `pivec collect` or `pivec.collect(..., store=path)` wrote, or one that
        `pivec compare` left (its ``states`` are loaded). Of a store elsewhere (``s3://...``) the
        files are copied into the user's cache first.
    verify : bool
        Check the files against their checksums.
    """
    return Store.find(path).load(verify=verify)


# -----------------------------------------------------------------------------
# How policies that workers played come into a store: written there by them, or sent to it.


class Keeper:
    """Packs a policy where it was played; the store takes in what came of that.

    It travels to workers. One that sees the folder of the store writes the policy's file there; any
    other sends it. To a large store all are sent, where small files are gathered. Policies that
    played on have earlier episodes in ``kept``, by label.
    """

    def __init__(self, store: Store, kept: Mapping[str, PolicyRecord]) -> None:
        self._store: Store | None = store
        self._kept = kept
        self._folder, self._identity = store.folder, store.identity
        self._policies = bool(store.settings.get("policies"))
        self._token = ""  # a file that shows that a folder is the store's own

    def __enter__(self) -> Self:
        if self._store is not None and not self._store.is_large:
            self._token = f".pivec-{secrets.token_hex(8)}"
            self._folder.write(self._token, b"")
        return self

    def __exit__(self, *_: object) -> None:
        if self._token:
            self._folder.remove(self._token)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_store": None}

    def __call__(self, played: PlayedPolicy) -> Any:
        """Give the record; in a worker its files, or the name of what was written."""
        record = record_of_played(played)
        if record.info.label in self._kept:
            record = self._kept[record.info.label].extended(record)
        if self._store is not None:
            return record
        files = policy_files(record, self._identity, self._policies)
        if not self._sees_store():
            return files
        for name, content in files.items():
            self._folder.write(name, content)
        return list(files)[-1]  # that of the states, which is the last to be there

    def _sees_store(self) -> bool:
        with contextlib.suppress(OSError, PivecError):
            return bool(self._token) and self._folder.has(self._token)
        return False


def take(store: Store, packing: Any) -> None:
    """Put into a store what a call of its `Keeper` gave."""
    if isinstance(packing, PolicyRecord):
        store.add(packing)
    elif isinstance(packing, str):
        store.take_in(packing)
    else:
        store.take_in(list(packing)[-1], packing)
