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

from pivec.atomic import atomic_write, make_folder
from pivec.errors import BadStore, UsageError
from pivec.policies.policy import PolicyInfo
from pivec.reading import read_regular
from pivec.states.record import PolicyRecord

FORMAT = 2
INDEX = "store.json"


class Index:
    """What is in a store, by label; see `Store`."""

    def __init__(
        self,
        path: str | Path,
        settings: Mapping[str, Any] | None = None,
        feature_names: Sequence[str] = (),
    ) -> None:
        self.path = Path(path)
        self._written = 0.0
        self._own: set[str] = set()  # files that were just written, which need no check
        self._replaced: list[str] = []  # files that go when the index is written
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
        if (self.path / INDEX).exists():
            self._read()
        elif self._asked is None:
            raise UsageError(
                f"{self.path} is not a store: expected a folder with {INDEX}, as `pivec collect` "
                "writes it"
            )
        else:
            self.settings, self.feature_names = self._asked
            make_folder(self.path)
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
        index = {
            "format": FORMAT,
            "environment": self.settings.get("environment", ""),
            "feature_names": self.feature_names,
            "settings": self.settings,
            "policies": list(self.rows.values()),
        }
        index["sha256"] = sum_of(index)
        with atomic_write(self.path / INDEX, "w") as file:
            json.dump(index, file, indent=1)
        self._written = time.monotonic()

    def enter(self, file: str, record: PolicyRecord, sums: Mapping[str, str]) -> None:
        """Put in a row for a policy whose file is there."""
        self.rows[record.info.label] = {
            **asdict(record.info),
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

    def reorder(self, labels: Sequence[str]) -> None:
        """Put these policies first, in this order."""
        first = {label: self.rows[label] for label in labels if label in self.rows}
        self.rows = first | self.rows

    def _read(self) -> None:
        path = self.path / INDEX
        try:
            index = json.loads(read_regular(path))
            version = int(index["format"])
            if version != FORMAT:
                advice = "upgrade pivec" if version > FORMAT else "collect into another folder"
                raise BadStore(
                    f"{self.path} is a store of format {version}, but this version of pivec reads "
                    f"format {FORMAT}: {advice}"
                )
            if index.pop("sha256") != sum_of(index):
                raise BadStore(
                    f"{path} does not match its checksum, so it is damaged or was edited: remove "
                    "it and run the same `pivec collect` again, which takes in all whole files"
                )
            self.settings = dict(index["settings"])
            self.settings.pop("episodes", None)  # of stores that could not grow
            self.feature_names = tuple(str(name) for name in index["feature_names"])
            self.rows = {}
            for row in index["policies"]:
                if Path(row["file"]).name != row["file"]:
                    raise BadStore(f"{path} names a file outside its folder: {row['file']!r}")
                info_of(row)  # raises if a field is missing
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


def numbered(label: str, taken: Mapping[str, str | None], source: str) -> str:
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
