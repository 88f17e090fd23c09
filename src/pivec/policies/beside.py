"""What lies beside a policy file: descriptions, normalisers, configurations. Read once, bounded."""

from __future__ import annotations

import functools
import json
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pivec.errors import BadPolicyFile, UsageError
from pivec.reading import Budget, read_regular

MAX_BYTES = 1 << 26
JSON_ITEM = 72  # bytes of an empty list and its place in another one
SETTLED_NS = 2_000_000_000
FOLDER_DESCRIPTION = "policies.json"


@dataclass(frozen=True)
class Beside:
    """The neighbours of a policy file, and whether the user trusts it.

    Parameters
    ----------
    path : Path, optional
        The policy file; None if it is in memory and nothing lies beside it.
    trust : bool
        Whether code in the file may run.
    without_normaliser : bool
        Whether a policy may act without statistics that it is known to need.

    Attributes
    ----------
    assumed : list of str
        What the reader had to assume; see `assume`.

    Examples
    --------
    >>> Beside().names(), Beside().description("a file in memory")
    ([], None)
    """

    path: Path | None = None
    trust: bool = False
    without_normaliser: bool = False
    assumed: list[str] = field(default_factory=list, repr=False, compare=False)

    @property
    def stem(self) -> str:
        """Name of the policy file without its extension."""
        return "" if self.path is None else self.path.stem

    def names(self, pattern: str = ".*") -> list[str]:
        """Names in its folder that match a regular expression, sorted; folders end in a slash."""
        if self.path is None:
            return []
        folder = str(self.path.parent)
        try:
            changed = os.stat(folder).st_mtime_ns
            # A folder of thousands of checkpoints is not listed for each of them again. One that
            # changed just now may change once more without another time.
            settled = time.time_ns() - changed > SETTLED_NS
            found = (_kept_listing if settled else _listing)(folder, changed, pattern)
            return [each for each in found if each != self.path.name]
        except OSError as error:
            raise UsageError(
                f"{self.path.parent} cannot be read: {error.strerror or error}."
            ) from error

    def read(self, name: str) -> bytes | None:
        """Read a file in the same folder; None if there is none of that name."""
        if self.path is None:
            return None
        path = self.path.parent / name
        try:
            return read_regular(path, MAX_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error

    def description(self, name: str) -> dict[str, Any] | None:
        """Give what JSON files beside it say of the policy; None without any.

        ``policies.json`` describes all policies of its folder; the file of the same name that ends
        in .json has the last word, key by key. ``name`` is what error messages call the policy.
        """
        description: dict[str, Any] | None = None
        for file in dict.fromkeys((FOLDER_DESCRIPTION, f"{self.stem}.json")):
            data = self.read(file)
            if data is not None:
                description = (description or {}) | read_json(data, f"{file} beside {name}")
        return description

    def assume(self, what: str) -> None:
        """Note what had to be assumed: a clause without the name of the file.

        Files of which the same is assumed are named together, once.
        """
        if what not in self.assumed:
            self.assumed.append(what)

    def demand_trust(self, name: str, what: str) -> None:
        """Refuse a file that can run code unless the user trusts it."""
        if not self.trust:
            raise BadPolicyFile(
                f"{name} {what}, and loading it can run any code that is in it: if you trust where "
                "it comes from, allow that with --trust (in Python: trust=True)."
            )


def _listing(folder: str, changed: int, pattern: str) -> tuple[str, ...]:  # noqa: ARG001
    with os.scandir(folder) as entries:
        names = sorted(entry.name + "/" * entry.is_dir() for entry in entries)
    return tuple(name for name in names if re.fullmatch(pattern, name))


_kept_listing = functools.lru_cache(maxsize=16)(_listing)


def read_json(data: bytes | bytearray, name: str, budget: Budget | None = None) -> dict[str, Any]:
    """Read a JSON object; ``name`` is what error messages call it."""
    items = data.count(b",") + data.count(b"[") + data.count(b"{")
    (budget or Budget(len(data), name)).spend(JSON_ITEM * items)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadPolicyFile(f"{name} is no valid JSON ({str(error)[:200]}).") from error
    if not isinstance(value, dict):
        raise BadPolicyFile(f"{name} must hold a JSON object, not {type(value).__name__}.")
    return value
