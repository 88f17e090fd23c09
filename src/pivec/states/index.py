"""The index of a store, `store.json`: how its states came about, and a row for each policy.

It has a checksum of every file and of itself.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from pivec.errors import BadStore, UsageError
from pivec.policies.policy import PolicyInfo
from pivec.states.folder import Place, folder_of
from pivec.states.record import PolicyRecord

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
