"""The store: a folder with an index and Arrow files, one a policy or, in a large one, a shard."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pivec.engines.offered import offer
from pivec.errors import BadStore, PivecError, UsageError
from pivec.reading import digest_of
from pivec.states.arrow import Piece, PolicyFile, piece_bytes, write_shard
from pivec.states.folder import Folder, Place, folder_of
from pivec.states.index import INDEX, info_of
from pivec.states.record import PolicyRecord
from pivec.states.shards import groups_of, is_shard, sums_of
from pivec.states.shelf import Shelf, beside, checksums, mark_of, name_of, policy_files
from pivec.states.visited import VisitedStates

# While policies come in, the index is rewritten at most this often, and in at most one part in so
# many of the time; files not in it are adopted.
_SECONDS, _SHARE = 2.0, 20
_MOST = 1 << 25  # bytes of policies that wait to be written together


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
        if is_late or self._waiting_bytes > _MOST or not self.is_large:
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
            records.append(file.record(row.get("batch", 0), info_of(row)))
        offer(self.folder.home)  # to workers that do not see it
        environment = str(self.settings.get("environment", ""))
        return VisitedStates(records, self.feature_names, environment)


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
