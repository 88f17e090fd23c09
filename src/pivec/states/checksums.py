"""Checksums of a store's files and index, and the names that files have after them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pivec.reading import open_regular


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they come back from JSON."""
    back: dict[str, Any] = json.loads(json.dumps(dict(settings)))
    return back


def stem(label: str) -> str:
    """What the names of a policy's files begin with."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "_", label)[-60:].strip("._")
    return f"{slug}-{hashlib.sha256(label.encode()).hexdigest()[:10]}"


def mark(sums: Mapping[str, str]) -> str:
    """What the names of a policy's files end with, after `checksums`."""
    return "-" + hashlib.sha256("".join(sums.values()).encode()).hexdigest()[:16]


def checksums(states: Path, policy: Path) -> dict[str, str]:
    """Checksums of a policy's file and, where the policy is kept, of the one beside it."""
    files = {"sha256": states, "policy_sha256": policy}
    return {name: _digest(path) for name, path in files.items() if path.exists()}


def sum_of(content: Any) -> str:
    """Return the checksum of what JSON can hold."""
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
