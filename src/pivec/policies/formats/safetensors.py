"""Policies in ``.safetensors`` files: tensors for the weights, JSON for everything else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pivec.errors import BadPolicyFile, UsageError
from pivec.files import atomic_write
from pivec.policies.distributions import Options
from pivec.policies.formats import CheckpointFiles, reader
from pivec.policies.formats.described import described_network, read_options
from pivec.policies.forward import Normaliser
from pivec.policies.networks import NetworkPolicy
from pivec.policies.tensors import Tensors

FORMAT, ENCODER = "pivec-policy", "pivec-encoder"
VERSION = "1"
EXTRA = ("log_std", "low", "high", "state_std")
STATISTICS = ("mean", "scale", "limit")


def save_policy(
    policy: NetworkPolicy, path: str | os.PathLike[str], info: Mapping[str, Any] | None = None
) -> None:
    """Write a network to ``path``, which should end in ``.safetensors``, atomically.

    ``info`` is free metadata that JSON can hold; its ``step`` is the training step.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> from pivec.policies import read_policy
    >>> policy = NetworkPolicy(((np.eye(2), np.zeros(2)),), "tanh", "categorical")
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "step_5.safetensors"
    >>> save_policy(policy, path, {"step": 5})
    >>> again, info = read_policy(path.read_bytes(), str(path))
    >>> info, again.fingerprint == policy.fingerprint
    ({'step': 5}, True)
    """
    content = policy_bytes(policy, info)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(content)


def policy_bytes(policy: NetworkPolicy, info: Mapping[str, Any] | None = None) -> bytes:
    """Content of the file that `save_policy` writes."""
    if not isinstance(policy, NetworkPolicy):
        raise UsageError(f"only networks can be saved, not {type(policy).__name__}")
    tensors: Tensors = {}
    for i, (weight, bias) in enumerate(policy.layers):
        tensors[f"{i}.weight"], tensors[f"{i}.bias"] = weight, bias
    tensors |= {name: getattr(policy, name) for name in EXTRA if getattr(policy, name) is not None}
    if policy.normaliser is not None:
        for name in STATISTICS:
            tensors[f"normaliser.{name}"] = getattr(policy.normaliser, name)
    defaults = asdict(Options())
    network = {
        "layers": len(policy.layers),
        "activation": policy.activation,
        "head": policy.head,
        "options": {k: v for k, v in asdict(policy.options).items() if v != defaults[k]},
    }
    try:
        text = json.dumps(dict(info or {}))
    except (TypeError, ValueError) as error:
        raise UsageError(f"info must be serializable as JSON: {error}") from error
    metadata = {"format": FORMAT, "version": VERSION, "network": json.dumps(network), "info": text}
    return tensor_bytes(tensors, metadata)


def tensor_bytes(tensors: Tensors, metadata: dict[str, str]) -> bytes:
    """Content of a safetensors file; equal tensors and metadata give equal files."""
    import safetensors.numpy

    content = safetensors.numpy.save(tensors, metadata)
    # The library writes the metadata in any order.
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    ordered = json.dumps(header, separators=(",", ":")).encode()
    ordered += b" " * (-len(ordered) % 8)
    return len(ordered).to_bytes(8, "little") + ordered + bytes(content[end:])


def read_safetensors(data: bytes) -> tuple[Tensors, dict[str, Any]]:
    """Read the tensors and the free metadata of a safetensors file."""
    import safetensors.numpy

    try:
        tensors = safetensors.numpy.load(data)
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__") or {}
    except Exception as error:  # safetensors has its own errors besides KeyError and others
        raise BadPolicyFile(f"it is not a safetensors file, or damaged ({error})") from error
    return tensors, metadata


@reader
def read_policy(data: bytes, files: CheckpointFiles) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Read a ``.safetensors`` file and its ``info``: of `save_policy`, or with a description."""
    tensors, metadata = read_safetensors(data)
    description = files.description()
    if description is None or metadata.get("format") == FORMAT:
        return _saved_policy(tensors, metadata)
    return described_network(description, tensors, files)


def _saved_policy(
    tensors: Tensors, metadata: Mapping[str, Any]
) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Restore the network that `save_policy` wrote, and its ``info``."""
    if metadata.get("format") == ENCODER:
        raise BadPolicyFile("it is an image encoder, not a policy: use it with --features")
    if metadata.get("format") != FORMAT:
        raise BadPolicyFile(
            "it is a safetensors file without a description of its network: expected one saved by "
            "pivec, or a .json file of the same name next to it that states the layers"
        )
    if metadata.get("version") != VERSION:
        raise BadPolicyFile(
            f"it has version {metadata.get('version')!r} and this pivec reads {VERSION}: install "
            "a newer pivec"
        )
    network, info = json.loads(metadata["network"]), json.loads(metadata["info"])
    if not isinstance(info, dict):
        raise BadPolicyFile("it is damaged: its info is not a JSON object")
    normalised = [f"normaliser.{key}" for key in STATISTICS if "normaliser.mean" in tensors]
    policy = NetworkPolicy(
        tuple((tensors[f"{i}.weight"], tensors[f"{i}.bias"]) for i in range(network["layers"])),
        str(network["activation"]),
        str(network["head"]),
        options=read_options(network.get("options", {})),
        normaliser=Normaliser(*(tensors[key] for key in normalised)) if normalised else None,
        **{key: tensors[key] for key in EXTRA if key in tensors},
    )
    return policy, info
