"""Which reader reads which kind of policy file: a lazy registry by the file's extension."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from pathlib import Path
from typing import Any

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies.beside import FOLDER_DESCRIPTION, Beside, about, readable
from pivec.policies.policy import Policy
from pivec.reading import read_regular

MAX_BYTES = 1 << 30
ASSUMED = "assumed"  # what had to be assumed of a policy, in its metadata
AMBIGUOUS = frozenset({".npy", ".npz", ".pkl"})
"""Files that are often something else: in a folder, only those with a description count."""

FORMATS: dict[str, str] = {
    ".zip": "pivec.policies.sb3:read_sb3",
    ".safetensors": "pivec.policies.described:read_described_safetensors",
    ".npy": "pivec.policies.vectors:read_npy",
    ".npz": "pivec.policies.vectors:read_npz",
    ".cleanrl_model": "pivec.policies.cleanrl:read_cleanrl",
    ".pth": "pivec.policies.cleanrl:read_cleanrl",
    ".pt": "pivec.policies.torch_models:read_pt",
    ".pt2": "pivec.policies.torch_models:read_pt2",
    ".onnx": "pivec.policies.onnx_models:read_onnx",
    ".neat": "pivec.policies.neat_files:read_genome",
    ".pkl": "pivec.policies.neat_files:read_pickled_genome",
}
"""Extension -> "module:function" that reads it, imported when a file asks for it."""


def register_format(suffix: str, reader: str) -> None:
    """Let files that end in ``suffix`` be read by ``reader``.

    Parameters
    ----------
    suffix : str
        With its dot, as ".onnx".
    reader : str
        "module:function"; the function takes a file's bytes and a `Beside` (what lies beside the
        file, and whether the user trusts it), and gives a policy and a dictionary about it, whose
        ``step`` is the training step. What it raises is told with the name of the file.

    Examples
    --------
    >>> register_format(".zip", "pivec.policies.sb3:read_sb3")
    """
    if not suffix.startswith(".") or suffix != suffix.lower() or reader.count(":") != 1:
        raise UsageError(
            "a format needs an extension such as '.onnx' and a reader such as 'module:function', "
            f"not {suffix!r} and {reader!r}"
        )
    FORMATS[suffix] = reader


def is_policy_file(path: Path, *, named: bool = True) -> bool:
    """Whether the file can be read as a policy, judged by its extension.

    ``named`` tells whether the user asks for this file (or for all of its extension) by name, and
    does not just mean what policies there may be in a folder.
    """
    suffix = path.suffix.lower()
    if named or suffix not in AMBIGUOUS or path.with_suffix(".json").is_file():
        return suffix in FORMATS
    # What describes a folder is meant for its arrays, and not for pickles of all kinds.
    return suffix != ".pkl" and (path.parent / FOLDER_DESCRIPTION).is_file()


def read_file(
    path: Path, trust: bool = False, without_normaliser: bool = False
) -> tuple[Policy, dict[str, Any], str]:
    """Read a policy file of any registered format; see `Beside` for what may be allowed.

    Gives the policy, what the file tells about it, and the policy's fingerprint: that of the
    file's bytes if it has none of its own.
    """
    reader = FORMATS.get(path.suffix.lower())
    if reader is None:
        raise UsageError(
            f"{path} has the extension {path.suffix or '(none)'}, which no reader knows: "
            f"expected one of {', '.join(sorted(FORMATS))}"
        )
    with readable(path):
        data = read_regular(path, MAX_BYTES)
    if not data:
        raise BadPolicyFile(f"{path} is empty")
    module, _, function = reader.partition(":")
    # The function itself, not the one that `reader` decorated: the file is named here.
    read = inspect.unwrap(getattr(importlib.import_module(module), function))
    beside = Beside(path, trust, without_normaliser, str(path))
    with about(str(path)):
        policy, metadata = read(data, beside)
        fingerprint = getattr(policy, "fingerprint", "") or hashlib.sha256(data).hexdigest()
    if beside.assumed:
        metadata = {**metadata, ASSUMED: list(beside.assumed)}
    return policy, metadata, str(fingerprint)
