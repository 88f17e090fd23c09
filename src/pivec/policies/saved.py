"""Policies in one ``.safetensors`` file: tensors for the weights, JSON for everything else."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.atomic import atomic_write
from pivec.errors import BadPolicyFile, PivecError, UsageError
from pivec.policies.head import Options
from pivec.policies.network import NetworkPolicy
from pivec.policies.normaliser import Normaliser

FORMAT = "pivec-policy"
VERSION = 2  # 1 knew neither options nor a normaliser, and is still written where these are absent
MAX_LAYERS = 1000
EXTRA = ("log_std", "low", "high", "state_std")
STATISTICS = ("mean", "scale", "limit")

Tensors = dict[str, NDArray[Any]]


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
    tensors: Tensors = {}
    for i, (weight, bias) in enumerate(policy.layers):
        tensors[f"{i}.weight"], tensors[f"{i}.bias"] = weight, bias
    for name in EXTRA:
        if getattr(policy, name) is not None:
            tensors[name] = getattr(policy, name)
    if policy.normaliser is not None:
        for name in STATISTICS:
            tensors[f"normaliser.{name}"] = getattr(policy.normaliser, name)
    network: dict[str, Any] = {
        "layers": len(policy.layers),
        "activation": policy.activation,
        "head": policy.head,
    }
    options = {
        key: value
        for key, value in asdict(policy.options).items()
        if value != getattr(Options(), key)
    }
    if options:
        network["options"] = options
    old = policy.head in ("categorical", "gaussian") and not options and policy.normaliser is None
    try:
        about = json.dumps(dict(info or {}))
    except (TypeError, ValueError) as error:
        raise UsageError(f"info must be what JSON can hold: {error}.") from error
    metadata = {
        "format": FORMAT,
        "version": "1" if old else str(VERSION),
        "network": json.dumps(network),
        "info": about,
    }
    content = safetensors.numpy.save(tensors, metadata)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(content)


def read_safetensors(data: bytes, name: str) -> tuple[Tensors, dict[str, Any]]:
    """Read the tensors and the free metadata of a safetensors file."""
    import safetensors.numpy

    try:
        tensors = safetensors.numpy.load(data)
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__") or {}
    except Exception as error:  # safetensors has errors of its own beside KeyError and others
        raise BadPolicyFile(f"{name} is no safetensors file, or damaged ({error}).") from error
    return tensors, metadata


def read_policy(data: bytes, name: str = "the file") -> tuple[NetworkPolicy, dict[str, Any]]:
    """Read the network in the bytes of a file that `save_policy` wrote, and its ``info``."""
    tensors, metadata = read_safetensors(data, name)
    return policy_of(tensors, metadata, name)


def policy_of(
    tensors: Tensors, metadata: Mapping[str, Any], name: str
) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Make the network that `save_policy` took apart, and its ``info``."""
    if metadata.get("format") != FORMAT:
        raise BadPolicyFile(
            f"{name} is a safetensors file without a description of its network: expected one "
            "that pivec saved, or a .json of the same name beside it that states the layers."
        )
    if metadata.get("version") not in [str(version) for version in range(1, VERSION + 1)]:
        raise BadPolicyFile(
            f"{name} is of version {metadata.get('version')!r} and this pivec reads up to "
            f"{VERSION}: install a newer pivec."
        )
    try:
        network, info = json.loads(metadata["network"]), json.loads(metadata["info"])
        count = network["layers"]
        if type(count) is not int or not 0 < count <= MAX_LAYERS or not isinstance(info, dict):
            raise ValueError("its description makes no sense")
        layers = tuple((tensors.pop(f"{i}.weight"), tensors.pop(f"{i}.bias")) for i in range(count))
        extra: dict[str, Any] = {key: tensors.pop(key) for key in EXTRA if key in tensors}
        for array in (*(part for layer in layers for part in layer), *extra.values()):
            if array.dtype != np.float32:
                raise ValueError(f"its numbers are {array.dtype} instead of float32")
        if "normaliser.mean" in tensors:
            statistics = [tensors.pop(f"normaliser.{key}") for key in STATISTICS]
            extra["normaliser"] = Normaliser(*statistics)
        if tensors:
            raise ValueError(f"it has tensors that belong nowhere: {', '.join(sorted(tensors))}")
        extra["options"] = read_options(network.get("options", {}))
        policy = NetworkPolicy(layers, str(network["activation"]), str(network["head"]), **extra)
    except (KeyError, ValueError, TypeError, ArithmeticError, RecursionError, PivecError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise BadPolicyFile(f"{name} is damaged: {what}") from error
    return policy, info


def read_options(values: Any) -> Options:
    """Make `Options` of what JSON gave; a UsageError tells what is wrong with it."""
    if not isinstance(values, dict):
        raise UsageError("The options of a head must be a JSON object.")
    known = {each.name for each in fields(Options)}
    if odd := sorted(set(values) - known):
        raise UsageError(f"A head has no option {odd[0]!r}: expected {', '.join(sorted(known))}.")
    checked: dict[str, Any] = {}
    for key, value in values.items():
        match key, value:
            case ("choices" | "shape", list()) if all(
                type(n) is int and 0 < n < 1 << 20 for n in value
            ):
                checked[key] = tuple(value)
            case ("shape", None) | ("squash", bool()) | ("deviations", str()):
                checked[key] = value
            case ("epsilon" | "mean_limit", int() | float()) if not math.isnan(value):
                checked[key] = float(value)
            case ("log_std_range", [int() | float() as least, int() | float() as most]):
                checked[key] = (float(least), float(most))
            case _:
                raise UsageError(f"The option {key!r} cannot be {str(value)[:60]!r}.")
    return Options(**checked)
