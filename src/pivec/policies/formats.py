"""Which reader reads which kind of policy file: a lazy registry by the file's extension."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies.policy import Policy

Reader = Callable[[bytes, str], tuple[Policy, dict[str, Any]]]

READERS: dict[str, str] = {
    ".zip": "pivec.policies.sb3:read_sb3",
    ".safetensors": "pivec.policies.saved:read_policy",
}
"""Extension -> "module:function" of a `Reader`, which is imported when a file asks for it."""

MAX_BYTES = 1 << 30


@dataclass(frozen=True)
class PolicyFile:
    """A policy read from a file, with what the file tells about it."""

    policy: Policy
    metadata: dict[str, Any]
    fingerprint: str


def register_format(suffix: str, reader: str) -> None:
    """Let files that end in ``suffix`` be read by ``reader``.

    Parameters
    ----------
    suffix : str
        With its dot, as ".onnx".
    reader : str
        "module:function"; the function takes a file's bytes and its name for error messages, and
        gives a policy and a dictionary about it, whose ``step`` is the training step.

    Examples
    --------
    >>> register_format(".zip", "pivec.policies.sb3:read_sb3")
    """
    if not suffix.startswith(".") or suffix != suffix.lower() or reader.count(":") != 1:
        raise UsageError(
            "A format needs an extension such as '.onnx' and a reader such as 'module:function', "
            f"not {suffix!r} and {reader!r}."
        )
    READERS[suffix] = reader


def is_policy_file(path: Path) -> bool:
    """Whether the extension is one that can be read."""
    return path.suffix.lower() in READERS


def read_file(path: Path) -> PolicyFile:
    """Read a policy file of any registered format.

    Raises
    ------
    UsageError
        If the extension is unknown or the file cannot be opened.
    BadPolicyFile
        If its content cannot be used; the message names the path.
    """
    if not is_policy_file(path):
        known = ", ".join(sorted(READERS))
        raise UsageError(
            f"{path} has the extension {path.suffix or '(none)'}, which no reader knows: "
            f"expected one of {known}."
        )
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise BadPolicyFile(f"{path} has {size} bytes, more than {MAX_BYTES}.")
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
    if not data:
        raise BadPolicyFile(f"{path} is empty.")
    module, _, function = READERS[path.suffix.lower()].partition(":")
    reader: Reader = getattr(importlib.import_module(module), function)
    policy, metadata = reader(data, str(path))
    return PolicyFile(policy, metadata, hashlib.sha256(data).hexdigest())
