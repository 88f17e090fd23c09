"""Shards: which policies of a large store lie in one file, and how the files come about.

Where one shard ends follows from the policies around, so a policy that comes or grows changes the
shard it is in, and seldom another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pivec.errors import BadStore
from pivec.states.arrow import PolicyFile, piece_digest

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
