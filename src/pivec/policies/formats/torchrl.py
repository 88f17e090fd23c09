"""Checkpoints of TorchRL (``torchrl.checkpoint``), folders or archives, read without torch.

``manifest.json`` lists the components of a training run; those with the weights of the policy and
of the loss have a folder each, with the names of their tensors in ``state.json`` and their numbers
in ``state/``. The names of the loss tell the algorithm, see `pivec.policies.formats.torch`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pivec.errors import BadPolicyFile
from pivec.files import FREE, BoundedZip, Budget
from pivec.policies.formats import CheckpointFiles, Read, about, read_json, reader
from pivec.policies.formats.torch import WRAPPERS, read_saved
from pivec.policies.forward import Tensors
from pivec.policies.tensors import numbers, read_torch

FORMAT, VERSION = "torchrl.checkpoint", 1
COMPONENTS = {"loss_module", "trainer_state", *WRAPPERS}
Files = Callable[[str], bytes | bytearray | None]


@reader
def read_folder(data: bytes, files: CheckpointFiles) -> Read:
    """Read a checkpoint by its ``manifest.json``; ``policies.json`` in the folder describes it."""
    return _read(data, files.read, files)


@reader
def read_archive(data: bytes, files: CheckpointFiles) -> Read:
    """Read a checkpoint that is one file (``format="archive"``)."""
    archive = BoundedZip(data, Budget(len(data), files.name))

    def read(name: str) -> bytearray | None:
        return archive.read(name) if name in archive.members else None

    return _read(read("manifest.json") or b"", read, files)


def _read(data: bytes | bytearray, read: Files, files: CheckpointFiles) -> Read:
    manifest = read_json(data)
    match manifest:
        case {"format": str(name), "components": dict(components)} if name == FORMAT:
            pass
        case _:
            raise BadPolicyFile(f"it is not a checkpoint of TorchRL: expected the format {FORMAT}")
    if manifest.get("format_version") != VERSION:
        raise BadPolicyFile(f"it has another version of {FORMAT} than {VERSION}: update pivec")
    budget = Budget(FREE, files.name)
    saved = {}
    for name in sorted(COMPONENTS & set(components)):
        with about(f"{name} in it"):
            saved[name] = _component(components[name], read, budget)
    progress = saved.pop("trainer_state", None) or {}
    if not set(saved) & set(WRAPPERS):
        names = ", ".join(components)[:200]
        raise BadPolicyFile(f"none of its components ({names}) is called policy, actor or model")
    policy, info = read_saved(saved, files)
    step = progress.get("collected_frames", progress.get("frames"))  # of a Trainer, of rlrender
    return policy, ({"step": step} if type(step) is int else {}) | info


def _component(record: Any, read: Files, budget: Budget) -> Any:
    """The state of a component: nested dictionaries of arrays and plain values."""
    place = record.get("path") if isinstance(record, dict) else None
    if not isinstance(place, str) or not re.fullmatch(r"components/\d{4}-[\w.%-]+", place):
        raise BadPolicyFile("its manifest names a folder outside of the checkpoint")
    if (whole := read(f"{place}/state.pt")) is not None:
        return read_torch(whole, budget)
    if (plain := read(f"{place}/value.json")) is not None:
        return read_json(plain, budget)
    schema, listed = (read(f"{place}/{name}") for name in ("state.json", "state/meta.json"))
    if schema is None or listed is None:
        raise BadPolicyFile(
            "its tensors are missing or in a format that is not supported: save it with "
            'StateDictCheckpointAdapter(payload_format="directory"), the default'
        )
    arrays: Tensors = {}
    for key, about_it in read_json(listed, budget).items():
        match about_it:
            case {"shape": list(shape), "dtype": str(kind)} if re.fullmatch(r"tensor_\d+", key):
                content = read(f"{place}/state/{key}.memmap") or b""
                budget.spend(len(content))
                arrays[key] = numbers(shape, kind.removeprefix("torch."), content)
    return _decoded(read_json(schema, budget), arrays)


def _decoded(value: Any, arrays: Mapping[str, Any]) -> Any:
    """Values of a schema, None for those that no policy needs."""
    match value:
        case {"kind": "dict" | "ordered_dict", "items": list(items)}:
            pairs = [(_decoded(key, arrays), _decoded(part, arrays)) for key, part in items]
            return {key: part for key, part in pairs if isinstance(key, str)}
        case {"kind": "tensor" | "numpy", "key": str(key)} if key in arrays:
            return arrays[key]
        case {"kind": "value", "value": plain}:
            return plain
    return None
