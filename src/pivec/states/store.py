"""The store: a folder with one Arrow file a policy and an index, `store.json`.

The index has a checksum of every file and of itself. The name of a policy's file ends with a part
of its checksum, so that a file which a killed run had no time to enter can be told from a damaged
one.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from pivec.atomic import atomic_write, locked, make_folder
from pivec.errors import BadStore, PivecError, PivecWarning, UsageError
from pivec.policies.network import NetworkPolicy
from pivec.policies.policy import Policy, PolicyInfo
from pivec.policies.saved import read_policy as read_network
from pivec.policies.saved import save_policy
from pivec.reading import read_regular
from pivec.states.arrow import read_policy, write_policy
from pivec.states.checksums import checksums, mark, plain, stem, sum_of
from pivec.states.chunks import Arrays
from pivec.states.record import PolicyRecord, assemble
from pivec.states.visited import VisitedStates

FORMAT = 2  # 1 had no checksum of the index, and none in the names of files
_INDEX = "store.json"
# The index is rewritten at most this often while policies come in; files not in it are adopted.
_SECONDS = 2.0


class Store:
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

    def __init__(
        self,
        path: str | Path,
        settings: Mapping[str, Any] | None = None,
        feature_names: Sequence[str] = (),
    ) -> None:
        self.path = Path(path)
        self._written = 0.0
        self._asked = None if settings is None else (plain(settings), tuple(feature_names))
        if (self.path / _INDEX).exists():
            self._read()
        elif settings is None:
            raise UsageError(
                f"{self.path} is not a store: expected a folder with {_INDEX}, as `pivec collect` "
                "writes it"
            )
        else:
            self.settings: dict[str, Any] = plain(settings)
            self.feature_names = tuple(feature_names)
            self.rows: dict[str, dict[str, Any]] = {}
            make_folder(self.path)
            self.flush()

    @classmethod
    def find(cls, path: str | Path) -> Store:
        """Open a store, or the ``states`` of a folder that `pivec compare` left."""
        folder = Path(path)
        if not (folder / _INDEX).exists() and (folder / "states" / _INDEX).exists():
            folder = folder / "states"
        return cls(folder)

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Tell whether there is a store at ``path``."""
        return (Path(path) / _INDEX).exists()

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, label: object) -> bool:
        return label in self.rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def fingerprint(self, label: str) -> str:
        """Return the digest of the policy whose states are kept under ``label``."""
        return str(self.rows[label]["fingerprint"])

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
        of them whole.
        """
        label = record.info.label
        old = self.rows.get(label, {}).get("file")
        try:
            # Files get their names when their checksums are known.
            policy, states = (self.path / f".{stem(label)}.{kind}.tmp" for kind in "ps")
            policy.unlink(missing_ok=True)
            if isinstance(record.policy, NetworkPolicy) and self.settings.get("policies"):
                save_policy(record.policy, policy)
            write_policy(states, record, self._identity())
            sums = checksums(states, policy)
            file = self.path / f"{stem(label)}{mark(sums)}.arrow"
            if policy.exists():
                os.replace(policy, file.with_suffix(".safetensors"))
            os.replace(states, file)
            self._enter(file.name, record, sums)
            if old not in (None, file.name) or time.monotonic() - self._written > _SECONDS:
                self.flush()
        except OSError as error:
            reason = "the disk is full" if error.errno == errno.ENOSPC else str(error)
            raise PivecError(
                f"cannot write the states of {label} to {self.path} ({reason}): make room there, "
                "or choose another folder"
            ) from error
        if old not in (None, file.name):
            self._remove(old)

    def _remove(self, file: str) -> None:
        for suffix in (".arrow", ".safetensors"):
            (self.path / file).with_suffix(suffix).unlink(missing_ok=True)

    def flush(self) -> None:
        """Write the index."""
        index = {
            "format": FORMAT,
            "environment": self.settings.get("environment", ""),
            "feature_names": self.feature_names,
            "settings": self.settings,
            "policies": list(self.rows.values()),
        }
        index["sha256"] = sum_of(index)
        with atomic_write(self.path / _INDEX, "w") as file:
            json.dump(index, file, indent=1)
        self._written = time.monotonic()

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
            free = _numbered(label, taken, row["source"])
            rows[free] = row | {"label": free}
            taken[free] = None
        self.rows = rows

    def reorder(self, labels: Sequence[str]) -> None:
        """Put these policies first, in this order."""
        first = {label: self.rows[label] for label in labels if label in self.rows}
        self.rows = first | self.rows

    def _enter(self, file: str, record: PolicyRecord, sums: Mapping[str, str]) -> None:
        row = asdict(record.info)
        row |= {
            "file": file,
            **sums,
            "episodes": len(record.returns),
            "states": len(record.states),
            "mean_return": float(np.mean(record.returns)),
        }
        self.rows[record.info.label] = row

    def _adopt(self) -> None:
        """Take in whole files that a killed run had no time to enter; sweep its half ones."""
        known = {row["file"] for row in self.rows.values()}
        for path in sorted(self.path.glob("*.arrow")):
            if path.name in known:
                continue
            try:
                sums = checksums(path, path.with_suffix(".safetensors"))
                if not path.stem.endswith(mark(sums)):
                    raise BadStore(f"{path} does not match the checksum in its name")
                record = read_policy(path, self._identity())
            except BadStore as error:
                warnings.warn(
                    f"a file that is not in the index is left out, so remove it: {error}",
                    PivecWarning,
                    stacklevel=3,
                )
                continue
            info = record.info
            if self.rows.get(info.label, {}).get("source") == info.source:
                self._remove(path.name)  # what `add` had no time to remove
            else:
                label = _numbered(info.label, dict.fromkeys(self.rows), info.source)
                self._enter(path.name, replace(record, info=replace(info, label=label)), sums)
        for path in self.path.glob(".*.tmp"):
            path.unlink(missing_ok=True)

    def _identity(self) -> str:
        """Tell files of this store from those that were collected otherwise."""
        return sum_of([plain(self.settings), self.feature_names])

    # ---- reading ----

    def __getitem__(self, label: str) -> VisitedStates:
        return self.load([label])

    def load(self, labels: Sequence[str] | None = None, *, verify: bool = True) -> VisitedStates:
        """Map the states of all policies, or of these, into memory.

        Checksums are verified, which reads every file once; ``verify=False`` trusts the disk.
        """
        wanted = list(self.rows) if labels is None else list(labels)
        for label in wanted:
            if label not in self.rows:
                raise UsageError(f"{self.path} has no policy {label!r}: see `pivec store ls`")
        if not wanted:
            raise BadStore(f"{self.path} holds no policies yet: collect some first")
        if verify:
            for label in wanted:
                problem = self._problem(self.rows[label])
                if problem:
                    raise BadStore(problem)
        files = [self.path / self.rows[label]["file"] for label in wanted]
        # The index knows what policies are called now.
        records = [
            replace(_without_states(read_policy(file)), info=_info(self.rows[label]))
            for file, label in zip(files, wanted, strict=True)
        ]
        return assemble(
            records,
            _Mapped(files),
            self.feature_names,
            str(self.settings.get("environment", "")),
            bool(self.settings.get("actions", False)),
            _KeptPolicies(files),
        )

    def verify(self) -> list[str]:
        """Check every file against its checksum; return one sentence for each problem."""
        problems = (self._problem(row) for row in self.rows.values())
        return [problem for problem in problems if problem]

    def _problem(self, row: Mapping[str, Any]) -> str:
        path = self.path / str(row["file"])
        if not path.exists():
            return f"{path} is missing: run the same `pivec collect` again"
        policy = path.with_suffix(".safetensors")
        if row.get("policy_sha256") and not policy.exists():
            return f"{policy} is missing: remove {path.name} and run the same `pivec collect` again"
        for name, found in checksums(path, policy).items():
            # Format 1 kept no checksum of policies.
            if row.get(name, found) != found:
                damaged = path if name == "sha256" else policy
                return (
                    f"{damaged} does not match its checksum, so it is damaged: remove it and run "
                    "the same `pivec collect` again"
                )
        return ""

    def _read(self) -> None:
        path = self.path / _INDEX
        try:
            index = json.loads(read_regular(path))
            version = int(index["format"])
            if not 1 <= version <= FORMAT:
                raise BadStore(
                    f"{self.path} has format {version}, but this version of pivec reads 1 to "
                    f"{FORMAT}: upgrade pivec"
                )
            if version > 1 and index.pop("sha256") != sum_of(index):
                raise BadStore(
                    f"{path} does not match its checksum, so it is damaged or was edited: remove "
                    "it and run the same `pivec collect` again, which takes in all whole files"
                )
            self.settings = dict(index["settings"])
            self.feature_names = tuple(str(name) for name in index["feature_names"])
            self.rows = {}
            for row in index["policies"]:
                if Path(row["file"]).name != row["file"]:
                    raise BadStore(f"{path} names a file outside its folder: {row['file']!r}")
                _info(row)  # raises if a field is missing
                self.rows[str(row["label"])] = dict(row)
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


class _Mapped(Sequence[Arrays]):
    """The policies' arrays, mapped from their files when they are needed."""

    def __init__(self, files: list[Path]) -> None:
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, i: Any) -> Any:
        return read_policy(self._files[i]).arrays


class _KeptPolicies(Sequence[Policy | None]):
    """The policies beside their states, read when they are needed; None where not kept."""

    def __init__(self, files: list[Path]) -> None:
        self._files = [file.with_suffix(".safetensors") for file in files]

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, i: Any) -> Any:
        file = self._files[i]
        return read_network(read_regular(file), file.name)[0] if file.exists() else None


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


def _numbered(label: str, taken: Mapping[str, str | None], source: str) -> str:
    """Give the label, with a number if it is taken for what comes from elsewhere."""
    free, count = label, 1
    while taken.get(free, source) != source:
        count += 1
        free = f"{label}-{count}"
    return free


def _info(row: Mapping[str, Any]) -> PolicyInfo:
    return PolicyInfo(**{field.name: row[field.name] for field in fields(PolicyInfo)})


def _without_states(record: PolicyRecord) -> PolicyRecord:
    """Keep only copies of the small arrays, so that the map can be closed."""
    small = ("episode_starts", "returns", "seeds", "terminated", "truncated")
    copies: dict[str, Any] = {name: np.array(getattr(record, name)) for name in small}
    return PolicyRecord(record.info, states=record.states[:0].copy(), **copies)
