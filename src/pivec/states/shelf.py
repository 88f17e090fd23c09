"""The files behind the index of a store: their names and checksums, and what a killed run left.

The name of a file ends with a part of its checksum, so that a file which a killed run had no time
to enter into the index can be told from a damaged one.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pivec.atomic import file_name
from pivec.errors import BadStore, PivecWarning
from pivec.policies.network import NetworkPolicy
from pivec.policies.policy import first_names
from pivec.policies.saved import policy_bytes as network_bytes
from pivec.reading import digest_of
from pivec.states.arrow import PolicyFile, forget_shards, open_shard, policy_bytes
from pivec.states.folder import Place
from pivec.states.index import Index, numbered
from pivec.states.record import PolicyRecord
from pivec.states.shards import Row, damaged_in, is_large, sums_of

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
