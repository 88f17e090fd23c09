"""Which reader reads which kind of policy file: a lazy registry by the file's extension."""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies.beside import FOLDER_DESCRIPTION, Beside
from pivec.policies.policy import Policy
from pivec.reading import naming, read_regular

MAX_BYTES = 1 << 30
ASSUMED = "assumed"  # what had to be assumed of a policy, in its metadata


@dataclass(frozen=True)
class Format:
    """How files of an extension are read.

    Attributes
    ----------
    reader : str
        "module:function", imported when a file asks for it. The function takes the file's bytes
        and its name for error messages, and gives a policy and a dictionary about it.
    beside : bool
        Whether the function takes a `Beside` as well: descriptions, normalisers, trust.
    ambiguous : bool
        Whether such files are often something else. In a folder, only those with a description
        (a .json of the same name, or policies.json) then count.
    """

    reader: str
    beside: bool = False
    ambiguous: bool = False


FORMATS: dict[str, Format] = {
    ".zip": Format("pivec.policies.sb3:read_sb3", beside=True),
    ".safetensors": Format("pivec.policies.described:read_described_safetensors", beside=True),
    ".npy": Format("pivec.policies.vectors:read_npy", beside=True, ambiguous=True),
    ".npz": Format("pivec.policies.vectors:read_npz", beside=True, ambiguous=True),
    ".cleanrl_model": Format("pivec.policies.cleanrl:read_cleanrl", beside=True),
    ".pth": Format("pivec.policies.cleanrl:read_cleanrl", beside=True),
    ".pt": Format("pivec.policies.torch_models:read_pt", beside=True),
    ".pt2": Format("pivec.policies.torch_models:read_pt2", beside=True),
    ".onnx": Format("pivec.policies.onnx_models:read_onnx", beside=True),
    ".neat": Format("pivec.policies.neat:read_genome"),
    ".pkl": Format("pivec.policies.neat_pickles:read_pickled_genome", beside=True, ambiguous=True),
}
"""Extension -> how it is read."""


@dataclass(frozen=True)
class PolicyFile:
    """A policy read from a file, with what the file tells about it.

    The fingerprint is the policy's own; that of the file's bytes if the policy has none.
    """

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
    FORMATS[suffix] = Format(reader)


def is_policy_file(path: Path, *, named: bool = True) -> bool:
    """Whether the file can be read as a policy, judged by its extension.

    ``named`` tells whether the user asks for this file (or for all of its extension) by name, and
    does not just mean what policies there may be in a folder.
    """
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        return False
    if named or not kind.ambiguous or path.with_suffix(".json").is_file():
        return True
    # What describes a folder is meant for its arrays, and not for pickles of all kinds.
    return path.suffix.lower() != ".pkl" and (path.parent / FOLDER_DESCRIPTION).is_file()


def read_file(path: Path, trust: bool = False, without_normaliser: bool = False) -> PolicyFile:
    """Read a policy file of any registered format.

    Parameters
    ----------
    path : Path
    trust : bool
        Whether code in the file may run, which some formats need.
    without_normaliser : bool
        Whether a policy may act without statistics that it is known to need.

    Raises
    ------
    UsageError
        If the extension is unknown or the file cannot be opened.
    BadPolicyFile
        If its content cannot be used; the message names the path.
    """
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        known = ", ".join(sorted(FORMATS))
        raise UsageError(
            f"{path} has the extension {path.suffix or '(none)'}, which no reader knows: "
            f"expected one of {known}."
        )
    try:
        data = read_regular(path, MAX_BYTES)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
    if not data:
        raise BadPolicyFile(f"{path} is empty.")
    module, _, function = kind.reader.partition(":")
    reader = getattr(importlib.import_module(module), function)
    beside = Beside(path, trust, without_normaliser)
    more = (beside,) if kind.beside else ()
    with naming(path, f"a policy in {path.suffix} format"):
        policy, metadata = reader(data, str(path), *more)
        fingerprint = getattr(policy, "fingerprint", "") or hashlib.sha256(data).hexdigest()
    if beside.assumed:
        metadata = {**metadata, ASSUMED: list(beside.assumed)}
    return PolicyFile(policy, metadata, str(fingerprint))
