"""Reads checkpoints of Orbax, which are folders: what Brax and users of Flax save with it.

Its arrays lie in a database of their own, which TensorStore reads: data, of which nothing runs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile
from pivec.policies.brax import params_policy
from pivec.policies.flax import tree_policy
from pivec.policies.formats import Beside, about, read_json, reader
from pivec.policies.network import NetworkPolicy
from pivec.reading import Budget

NUMBERS = ("jax.Array", "np.ndarray", "scalar")
MAX_AXES = 8
SETTINGS = r"[a-z]+_network_config\.json"  # which Brax writes


@reader
def read_orbax(data: bytes, beside: Beside) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Read a checkpoint by its ``_METADATA``, of Brax or with a description of parameters of Flax.

    ``policies.json`` in the folder, or in the one or two above it, describes such parameters.
    """
    tree = _read_tree(read_json(data), beside)
    names = beside.names(SETTINGS)
    if names:
        with about(f"{names[0]} beside it"):
            settings = read_json(beside.read(names[0]) or b"")
        policy, info = params_policy(tree, settings, beside)
        return policy, {**info, "algorithm": names[0].partition("_")[0].upper()}
    description = beside.description()
    for above in ("../policies.json", "../../policies.json"):
        if description is None and (text := beside.read(above)) is not None:
            with about(f"{above} of it"):
                description = read_json(text)
    return tree_policy(tree, description or {}, beside, "policies.json")


def _read_tree(metadata: dict[str, Any], beside: Beside) -> dict[str, Any]:
    """Give the arrays as nested dictionaries, without the states of optimisers."""
    listed = metadata.get("tree_metadata")
    if beside.path is None or not isinstance(listed, dict):
        raise BadPolicyFile("it is no checkpoint of Orbax: expected tree_metadata")
    folder = beside.path.parent
    beside.outside.append("its arrays")  # other machines get the policy, and do not read it again
    sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    budget = Budget(sum(sizes), "it")
    tree: dict[str, Any] = {}
    for entry in listed.values():
        match entry:
            case {"key_metadata": list(keys), "value_metadata": {"value_type": str(kind)}}:
                way = [str(key.get("key")) for key in keys if isinstance(key, dict)]
            case _:
                raise BadPolicyFile("its metadata are damaged")
        if kind not in NUMBERS or not way or "opt_state" in way:
            continue
        branch = tree
        for key in way[:-1]:
            branch = branch.setdefault(key, {})
            if not isinstance(branch, dict):
                raise BadPolicyFile("its metadata are damaged")
        branch[way[-1]] = _read_array(folder, ".".join(way), metadata, budget)
    return tree


def _read_array(folder: Path, name: str, metadata: dict[str, Any], budget: Budget) -> NDArray[Any]:
    try:
        import tensorstore
    except ImportError as error:
        raise BadPolicyFile(
            "it is a checkpoint of Orbax, whose arrays TensorStore reads: pip install tensorstore"
        ) from error
    if not re.fullmatch(r"[^/\0]+", name) or name in (".", ".."):
        raise BadPolicyFile("its metadata name an array outside of it")
    place: dict[str, Any] = {"driver": "file", "path": f"{folder.resolve()}/"}
    if metadata.get("use_ocdbt") or (folder / "manifest.ocdbt").is_file():
        place = {"driver": "ocdbt", "base": place, "path": f"{name}/"}
    else:
        place["path"] += f"{name}/"
    driver = "zarr3" if metadata.get("use_zarr3") else "zarr"
    store = tensorstore.open({"driver": driver, "kvstore": place}, read=True).result()
    size = store.dtype.numpy_dtype.itemsize
    budget.spend(int(np.prod(store.shape, dtype=float)) * size)
    if len(store.shape) > MAX_AXES:
        raise BadPolicyFile("the shape of an array in it makes no sense")
    array = np.asarray(store.read().result())
    return array.astype(np.float32) if array.dtype.kind == "V" else array  # bfloat16
