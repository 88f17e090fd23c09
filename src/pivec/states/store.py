"""The store: a folder with one Arrow file a policy and an index.

The name of a policy's file ends with a part of its checksum, so that a file which a killed run had
no time to enter into the index can be told from a damaged one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pivec.atomic import file_name, locked
from pivec.engines.offered import offer
from pivec.errors import BadStore, PivecError, PivecWarning, UsageError
from pivec.policies.network import NetworkPolicy
from pivec.policies.saved import save_policy
from pivec.reading import digest_of
from pivec.states.arrow import read_policy, write_policy
from pivec.states.index import INDEX, Index, info_of, numbered
from pivec.states.record import PolicyRecord
from pivec.states.visited import VisitedStates

# The index is rewritten at most this often while policies come in; files not in it are adopted.
_SECONDS = 2.0


class Store(Index):
    """States on disk: ``store[label]``, ``len(store)``, ``store.load()``.

    Parameters
    ----------
    path : path
        The folder.
    settings : mapping, optional
        How the states are collected. Given, the store is made if it is not there, and one that
        was collected otherwise is refused, unless it is empty.
    feature_names : sequence of str, optional
        Names of the values of a state, needed to make a store.
    """

    @classmethod
    def find(cls, path: str | Path) -> Store:
        """Open a store, or the ``states`` of a folder that `pivec compare` left."""
        folder = Path(path)
        if not cls.exists(folder) and cls.exists(folder / "states"):
            folder = folder / "states"
        return cls(folder)

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Tell whether there is a store at ``path``."""
        return (Path(path) / INDEX).exists()

    # ---- writing ----

    @contextlib.contextmanager
    def writing(self, wait: float = 0.0) -> Iterator[None]:
        """Hold the store for writing: no other process may; what a killed run left is adopted.

        A store that another process holds is an error after ``wait`` seconds.
        """
        busy = f"another process is writing to {self.path}: wait for it, or choose another folder"
        with locked(self.path / ".lock", busy, wait):
            self._read()  # others may have written since this was opened
            self._adopt()
            try:
                yield
            finally:
                self.flush()

    def add(self, record: PolicyRecord) -> None:
        """Keep one policy; its file appears when it is whole.

        A file of the same label goes when the index names the new one, so a crash leaves either
        of them whole. One that has the same episodes and more need not be named at once: it is
        known by that.
        """
        label = record.info.label
        old = self.rows.get(label, {}).get("file")
        has_more = 0 < self.holds(record.info) < len(record.episodes)
        # Files get their names when their checksums are known.
        states, network = (self.path / f".{_stem(label)}.{kind}.tmp" for kind in "sp")
        try:
            write_policy(states, record, self.identity)
            sums = {"sha256": digest_of(states)}
            policy = record.read_policy() if self.settings.get("policies") else None
            if isinstance(policy, NetworkPolicy):
                save_policy(policy, network)
                sums["policy_sha256"] = digest_of(network)
            file = self.path / f"{_stem(label)}{_mark(sums)}.arrow"
            if "policy_sha256" in sums:
                os.replace(network, file.with_suffix(".safetensors"))
            os.replace(states, file)
            self.enter(file.name, record, sums)
            self._own.add(file.name)
            if old not in (None, file.name):
                self._replaced.append(old)
            in_time = time.monotonic() - self._written <= _SECONDS
            if not in_time or (self._replaced and not has_more):
                self.flush()
        except OSError as error:
            reason = "the disk is full" if error.errno == errno.ENOSPC else str(error)
            raise PivecError(
                f"cannot write the states of {label} to {self.path} ({reason}): make room there, "
                "or choose another folder"
            ) from error

    def flush(self) -> None:
        """Write the index; files that it names no more go."""
        super().flush()
        while self._replaced:
            self._remove(self._replaced.pop())

    def _remove(self, file: str) -> None:
        for _, path in self._files(file):
            path.unlink(missing_ok=True)

    def _adopt(self) -> None:
        """Make the index true: files that are gone are left out, whole ones taken in.

        A killed run had no time to enter some; its half ones are swept.
        """
        for label, row in list(self.rows.items()):
            if any(name in row and not path.exists() for name, path in self._files(row["file"])):
                warnings.warn(f"the states of {label} are gone", PivecWarning, stacklevel=4)
                del self.rows[label]
        known = {row["file"] for row in self.rows.values()}
        for path in sorted(self.path.glob("*.arrow")):
            if path.name in known:
                continue
            try:
                files = self._files(path.name)
                sums = {name: digest_of(file) for name, file in files if file.exists()}
                if not path.stem.endswith(_mark(sums)):
                    raise BadStore(f"{path} does not match the checksum in its name")
                record = read_policy(path, self.identity)
            except BadStore as error:
                warnings.warn(
                    f"a file that is not in the index is left out, so remove it: {error}",
                    PivecWarning,
                    stacklevel=3,
                )
                continue
            self._take_in(path.name, record, sums)
        for path in self.path.glob(".*.tmp"):
            path.unlink(missing_ok=True)

    def _take_in(self, file: str, record: PolicyRecord, sums: Mapping[str, str]) -> None:
        """Enter a whole file that is not in the index, unless it has what `add` replaced.

        Of two files of one policy that with more episodes stays: it has those of the other too.
        """
        info, label = record.info, record.info.label
        same = [row for row in self.rows.values() if row["fingerprint"] == info.fingerprint]
        if info.fingerprint and same:  # whatever it is called now
            label = same[0]["label"]
        elif self.rows.get(label, {}).get("source") != info.source:
            label = numbered(label, dict.fromkeys(self.rows), info.source)
        if label in self.rows:
            row = self.rows[label]
            has_more = row["fingerprint"] == info.fingerprint
            has_more &= row["episodes"] < len(record.episodes)
            self._replaced.append(row["file"] if has_more else file)
            if not has_more:
                return
        self.enter(file, replace(record, info=replace(info, label=label)), sums)

    def _files(self, file: str) -> Iterator[tuple[str, Path]]:
        """Both files of a policy, by the names of their checksums; the network may not be kept."""
        yield "sha256", self.path / file
        yield "policy_sha256", (self.path / file).with_suffix(".safetensors")

    # ---- reading ----

    def __getitem__(self, label: str) -> VisitedStates:
        return self.load([label])

    def load(self, labels: Sequence[str] | None = None, *, verify: bool = True) -> VisitedStates:
        """Map the states of all policies, or of these, into memory.

        Checksums are verified, which reads every file once, but for those that were just written;
        ``verify=False`` trusts the disk.
        """
        wanted = list(self.rows) if labels is None else list(labels)
        if not wanted:
            raise BadStore(f"{self.path} holds no policies yet: collect some first")
        records = []
        for label in wanted:
            if label not in self.rows:
                raise UsageError(f"{self.path} has no policy {label!r}: see `pivec store ls`")
            row = self.rows[label]
            if verify and row["file"] not in self._own and (problem := self._problem(row)):
                raise BadStore(problem)
            # The index knows what policies are called now.
            records.append(replace(read_policy(self.path / row["file"]), info=info_of(row)))
        offer(self.path)  # to workers that do not see it
        environment = str(self.settings.get("environment", ""))
        return VisitedStates(records, self.feature_names, environment)

    def verify(self) -> list[str]:
        """Check every file against its checksum; return one sentence for each problem."""
        problems = (self._problem(row) for row in self.rows.values())
        return [problem for problem in problems if problem]

    def _problem(self, row: Mapping[str, Any]) -> str:
        for name, path in self._files(row["file"]):
            if name in row and not path.exists():
                return f"{path} is missing: run the same `pivec collect` again"
            if path.exists() and digest_of(path) != row.get(name):
                return (
                    f"{path} does not match its checksum, so it is damaged: remove it and run the "
                    "same `pivec collect` again"
                )
        return ""


def load(path: str | Path, *, verify: bool = True) -> VisitedStates:
    """Load a store from disk: its states are mapped, not read.

    Parameters
    ----------
    path : path
        A folder that `pivec collect` or `pivec.collect(..., store=path)` wrote, or one that
        `pivec compare` left (its ``states`` are loaded).
    verify : bool
        Check the files against their checksums.
    """
    return Store.find(path).load(verify=verify)


def _stem(label: str) -> str:
    """What the names of a policy's files begin with."""
    return f"{file_name(label, 60)}-{hashlib.sha256(label.encode()).hexdigest()[:10]}"


def _mark(sums: Mapping[str, str]) -> str:
    """What the names of a policy's files end with, after their checksums."""
    return "-" + hashlib.sha256("".join(sums.values()).encode()).hexdigest()[:16]
