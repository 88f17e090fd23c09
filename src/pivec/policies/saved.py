"""Policies in one ``.safetensors`` file: tensors for the weights, JSON for everything else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pivec.atomic import atomic_write
from pivec.errors import BadPolicyFile, PivecError, UsageError
from pivec.policies.network import NetworkPolicy

FORMAT = "pivec-policy"
VERSION = 1
MAX_LAYERS = 1000


def save_policy(
    policy: NetworkPolicy, path: str | os.PathLike[str], info: Mapping[str, Any] | None = None
) -> None:
    """Write a network to ``path``, whole or not at all.

    Parameters
    ----------
    policy : NetworkPolicy
    path : path
        Should end in ``.safetensors``.
    info : mapping, optional
        Anything worth keeping that JSON can hold; ``step`` is the training step.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> policy = NetworkPolicy(((np.eye(2), np.zeros(2)),), "tanh", "categorical")
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "step_5.safetensors"
    >>> save_policy(policy, path, {"step": 5})
    >>> again, info = read_policy(path.read_bytes(), str(path))
    >>> info, again.fingerprint == policy.fingerprint
    ({'step': 5}, True)
    """
    import safetensors.numpy

    if not isinstance(policy, NetworkPolicy):
        raise UsageError(f"Only networks can be saved, not {type(policy).__name__}.")
    tensors: dict[str, Any] = {}
    for i, (weight, bias) in enumerate(policy.layers):
        tensors[f"{i}.weight"], tensors[f"{i}.bias"] = weight, bias
    for name in ("log_std", "low", "high"):
        if getattr(policy, name) is not None:
            tensors[name] = getattr(policy, name)
    network = {"layers": len(policy.layers), "activation": policy.activation, "head": policy.head}
    try:
        about = json.dumps(dict(info or {}))
    except (TypeError, ValueError) as error:
        raise UsageError(f"info must be what JSON can hold: {error}.") from error
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "network": json.dumps(network),
        "info": about,
    }
    content = safetensors.numpy.save(tensors, metadata)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(content)


def read_policy(data: bytes, name: str = "the file") -> tuple[NetworkPolicy, dict[str, Any]]:
    """Read the network in the bytes of a file that `save_policy` wrote, and its ``info``."""
    import safetensors.numpy

    try:
        tensors = safetensors.numpy.load(data)
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__", {})
    except Exception as error:  # safetensors has errors of its own beside KeyError and others
        raise BadPolicyFile(f"{name} is no safetensors file, or damaged ({error}).") from error
    if metadata.get("format") != FORMAT:
        raise BadPolicyFile(
            f"{name} is a safetensors file without a description of its network: "
            "expected one that pivec saved."
        )
    if metadata.get("version") != str(VERSION):
        raise BadPolicyFile(
            f"{name} is of version {metadata.get('version')!r} and this pivec reads {VERSION}: "
            "install a newer pivec."
        )
    try:
        network, info = json.loads(metadata["network"]), json.loads(metadata["info"])
        count = network["layers"]
        if type(count) is not int or not 0 < count <= MAX_LAYERS or not isinstance(info, dict):
            raise ValueError("its description makes no sense")
        layers = tuple((tensors.pop(f"{i}.weight"), tensors.pop(f"{i}.bias")) for i in range(count))
        extra = {key: tensors.pop(key) for key in ("log_std", "low", "high") if key in tensors}
        if tensors:
            raise ValueError(f"it has tensors that belong nowhere: {', '.join(sorted(tensors))}")
        for array in (*(part for layer in layers for part in layer), *extra.values()):
            if array.dtype != np.float32:
                raise ValueError(f"its numbers are {array.dtype} instead of float32")
        policy = NetworkPolicy(layers, str(network["activation"]), str(network["head"]), **extra)
    except (KeyError, ValueError, TypeError, RecursionError, PivecError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise BadPolicyFile(f"{name} is damaged: {what}") from error
    return policy, info
