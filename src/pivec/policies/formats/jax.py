"""Policies of JAX libraries, read without JAX: Flax, CleanRL's JAX scripts, Brax and Orbax.

Flax saves named numbers only, and scripts pickle them, so a description next to the file states
activation and head (see `pivec.policies.formats.described`); for CleanRL and Brax they are known.
Brax saves a tuple of observation statistics, policy parameters and maybe critic parameters, as a
pickle or with Orbax. An Orbax checkpoint is a folder whose arrays TensorStore reads as data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, UsageError
from pivec.files import Budget, regular_files
from pivec.parallel import confined
from pivec.policies.callables import user_code
from pivec.policies.formats import CheckpointFiles, Read, about, read_json, reader
from pivec.policies.formats.described import (
    check_keys,
    described_network,
    make_network,
    read_info,
    spelt,
)
from pivec.policies.forward import Normaliser, Tensors
from pivec.policies.policy import natural_key
from pivec.policies.tensors import (
    MAX_NAME,
    NeedsCode,
    Object,
    as_array,
    numbers,
    read_objects,
)

MAX_AXES = 8
MAX_LIST = 4096  # entries of a list; Flax writes lists as mappings
VALUE = 64  # bytes of a small value and its place in a list or dictionary
NDARRAY, SCALAR = 1, 3  # extension types of Flax, besides complex numbers
ACTOR = re.compile(r"actor|policy|(^|[._])pi([._]|$)", re.IGNORECASE)
BRAX_MODULES = ("brax", "jax", "jaxlib", "flax", "numpy", "ml_dtypes")
PART = 256  # bytes of a part of what a pickle holds
OBSERVATION_KEYS = ("state", "observation")  # of Brax, if there are several observations
ORBAX_TYPES = ("jax.Array", "np.ndarray", "scalar")
BRAX_SETTINGS = r"[a-z]+_network_config\.json"


def read_msgpack(data: bytes, budget: Budget | None = None, *, in_array: bool = False) -> Any:
    """Read what ``flax.serialization.to_bytes`` wrote: plain values and arrays.

    Keys are text, and no extension types other than Flax's arrays and scalars are allowed. These
    contain no others (``in_array``): each level takes 50 kB of the stack of C.

    Examples
    --------
    >>> read_msgpack(bytes([0x82, 0xA1, 97, 0x01, 0xA1, 98, 0x92, 0xC0, 0xFF]))
    {'a': 1, 'b': [None, -1]}
    """
    budget = budget or Budget(len(data), "it")

    def checked(values: list[Any]) -> list[Any]:
        budget.spend(VALUE * (1 + len(values)))
        if any(isinstance(value, msgpack.Timestamp) for value in values):
            raise BadPolicyFile("it holds a value of extension type -1, which Flax does not have")
        return values

    def mapping(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
        checked([value for _, value in pairs])
        if not all(isinstance(key, str) for key, _ in pairs):
            raise BadPolicyFile("a mapping in it has keys that are not text")
        return dict(pairs)

    def extension(code: int, content: bytes) -> NDArray[Any]:
        if code not in (NDARRAY, SCALAR) or in_array:
            raise BadPolicyFile(f"it holds a value of extension type {code}, unknown to Flax")
        budget.spend(len(content))
        match read_msgpack(content, budget, in_array=True):
            case [list(shape), str(name), bytes(raw)]:
                return numbers(shape, name, raw)
        raise BadPolicyFile("an array in it is damaged")

    size = len(data)
    with user_code("it is not valid MessagePack, or is truncated", BadPolicyFile):
        value = msgpack.unpackb(
            data,
            unicode_errors="replace",
            list_hook=checked,
            object_pairs_hook=mapping,
            ext_hook=extension,
            max_str_len=size,
            max_bin_len=size,
            max_ext_len=size,
            max_map_len=size,
            max_array_len=min(size, MAX_LIST),
        )
    return checked([value])[0]


@reader
def read_flax(data: bytes, files: CheckpointFiles) -> Read:
    """Read what ``flax.serialization.to_bytes`` wrote of parameters or of a TrainState.

    The description next to it has ``activation`` and ``head``, and ``layers`` if names and shapes
    do not tell which of them belong to the policy.
    """
    described = files.description() or {}
    return _tree_policy(read_msgpack(data), described, files, f"{files.stem or 'it'}.json")


@reader
def read_pickled_arrays(data: bytes, files: CheckpointFiles) -> Read:
    """Read a pickle of nested dictionaries of arrays of JAX or NumPy, described as in `read_flax`.

    Unless they are named as in Flax, the description must have ``weights``.
    """
    try:
        tree = _plain(read_objects(data, BRAX_MODULES), Budget(len(data), "it"))
    except NeedsCode as error:
        raise BadPolicyFile(
            f"{error}: expected a pickle of nothing but nested dictionaries of arrays, as "
            "pickle.dump(jax.device_get(params), file) writes of the parameters of Flax"
        ) from error
    described = files.description() or {}
    if described and "weights" not in described and b"kernel" not in data:
        raise UsageError(
            'weights is missing in its description: expected "in-out" (rows of matrices belong to '
            'inputs, as in JAX) or "out-in" (as in torch)'
        )
    return _tree_policy(tree, described, files, f"{files.stem or 'it'}.json")


def _tree_policy(
    tree: Any, description: Mapping[str, Any], files: CheckpointFiles, where: str
) -> Read:
    """Make the policy of nested parameters; ``where`` is the expected description."""
    tensors = _flat_tensors(tree)
    names = ", ".join(f"{name} {tensors[name].shape}" for name in list(tensors)[:12])
    if not {"activation", "head"} <= set(description):
        raise BadPolicyFile(
            "it holds named arrays, but neither their activation nor what the outputs mean: "
            f'put {where} next to it, as {{"activation": "tanh", "head": "categorical"}} (it has '
            f"{names[:400]})"
        )
    if description["activation"] == "gelu":
        files.assume("gelu is the exact one, from which Flax's nn.gelu differs by up to 0.0005")
    if "layers" not in description:
        chain = _find_chain(tensors)
        # In nested calls Flax numbers the outer one first.
        files.assume(f"layers assumed to be {', '.join(chain)} in this order", "layers")
        description = {**description, "layers": chain}
    if description["head"] == "gaussian" and "log_std" not in description:
        spreads = [name for name in tensors if name.rpartition(".")[2] in ("log_std", "logstd")]
        description = {**description, **({"log_std": spreads[0]} if len(spreads) == 1 else {})}
    policy, info = described_network({"weights": "in-out", **description}, tensors, files)
    step = tree.get("step") if isinstance(tree, dict) else None
    if isinstance(step, np.ndarray) and step.shape == () and step.dtype.kind in "iu":
        step = int(step)
    return policy, ({"step": step} if type(step) is int else {}) | info


def _flat_tensors(tree: Any) -> Tensors:
    """Name the arrays of nested dictionaries as torch does: Dense_0.weight, Dense_0.bias.

    Collections ("params") are not part of a name; states of optimisers are left out.
    """
    tensors: Tensors = {}

    def walk(branch: Any, path: tuple[str, ...]) -> None:
        if isinstance(branch, np.ndarray) and path:
            name = ".".join((*path[:-1], "weight" if path[-1] == "kernel" else path[-1]))
            if len(name) > MAX_NAME:  # which many arrays may share
                raise BadPolicyFile(f"the name of an array has more than {MAX_NAME} characters")
            tensors[name] = branch
        elif isinstance(branch, dict):
            for key in sorted(branch, key=natural_key):
                if key != "opt_state":
                    walk(branch[key], path if key == "params" else (*path, key))

    walk(tree, ())
    if not tensors:
        raise BadPolicyFile("it holds no parameters: expected nested dictionaries of arrays")
    return tensors


def _find_chain(tensors: Tensors) -> list[str]:
    """Find the policy's layers, each with as many inputs as the one before has outputs."""
    chains: list[list[str]] = []
    width, parent = -1, ""
    for name, array in tensors.items():
        layer, _, what = name.rpartition(".")
        if what != "weight" or array.ndim != 2:
            continue
        if array.shape[0] != width or layer.rpartition(".")[0] != parent:
            chains.append([])
        chains[-1].append(layer)
        width, parent = array.shape[1], layer.rpartition(".")[0]
    chosen = [chain for chain in chains if ACTOR.search(chain[0])]
    if not chosen:  # a critic has one output
        chosen = [chain for chain in chains if tensors[f"{chain[-1]}.weight"].shape[1] > 1]
    chosen = chains if len(chains) == 1 else chosen
    if len(chosen) != 1:
        layers = "; ".join(", ".join(chain) for chain in chains)
        raise UsageError(
            'layers is missing: name those of the policy in order, as ["Dense_0", "Dense_1"] '
            f"(it has {layers[:400] or 'no layers'})"
        )
    return chosen[0]


def read_cleanrl_jax(data: bytes, files: CheckpointFiles) -> Read:
    """Read what CleanRL's scripts for JAX save: DQN, DDPG and TD3."""
    tree = read_msgpack(data)
    description: Mapping[str, Any] = files.description() or {}
    known: dict[str, Any]
    match tree:
        case {"params": dict()} if len(tree) == 1:
            algorithm, known = "DQN", {"head": "epsilon_greedy"}
        case {"0": {"params": dict()} as actor, "1": {"params": dict()}}:
            algorithm, known = "DDPG or TD3", {"head": "deterministic", "squash": True}
            tree = actor
        case _:
            raise BadPolicyFile("of CleanRL's JAX scripts, only DQN, DDPG and TD3 are supported")
    tensors = _flat_tensors(tree)
    if "activation" not in description:
        files.assume(f"activation assumed to be relu, as in CleanRL's {algorithm}", "activation")
    full = {"weights": "in-out", "activation": "relu", **known, **description}
    if "layers" not in full:
        full["layers"] = _find_chain(tensors)
    policy, info = described_network(full, tensors, files)
    return policy, {"algorithm": algorithm, **info}


@reader
def read_brax(data: bytes, files: CheckpointFiles) -> Read:
    """Read a pickle that ``brax.io.model.save_params`` wrote.

    A description next to it may set the ``activation`` or a ``normaliser`` (null for none).
    """
    parameters = _plain(read_objects(data, BRAX_MODULES), Budget(len(data), "it"))
    return _brax_policy(parameters, {}, files)


def _brax_policy(params: Any, settings: Mapping[str, Any], files: CheckpointFiles) -> Read:
    """Make the policy of parameters; ``settings`` is the network configuration, if there is one."""
    parts = [params[key] for key in sorted(params)] if isinstance(params, dict) else params
    if not isinstance(parts, list | tuple) or not 2 <= len(parts) <= 3:
        raise BadPolicyFile("it does not hold statistics and parameters of a Brax policy")
    statistics, parameters = parts[:2]
    description = files.description() or {}
    check_keys(description, {"activation", "normaliser", "info"}, "a Brax policy's description")
    arguments = settings.get("network_factory_kwargs")
    arguments = arguments if isinstance(arguments, dict) else {}
    if arguments.get("mean_clip_scale") is not None:
        raise BadPolicyFile("its means are clipped softly (mean_clip_scale): not supported")
    activation = description.get("activation", arguments.get("activation"))
    if not isinstance(activation, str):
        activation = "silu"
        what = "activation assumed to be swish (silu), as in Brax's PPO (its SAC has relu)"
        files.assume(what, "activation")
    if activation == "gelu":
        raise UsageError("it uses JAX's gelu, which is not supported")
    tensors = _flat_tensors(parameters)
    known = {
        "weights": "in-out",
        **_brax_layers(tensors),
        **description,
        "activation": spelt(activation),
    }
    if "normaliser" not in description:
        known["normaliser"] = _brax_normaliser(statistics, settings, files)
    policy = make_network(known, tensors, files)
    if policy.options.squash:
        files.assume("actions from -1 to 1, as in Brax, are rescaled to the environment's bounds")
    info = {"algorithm": "PPO" if len(parts) == 3 or settings else "PPO or SAC", "library": "Brax"}
    return policy, {**info, **read_info(description, policy.normaliser)}


def _brax_layers(tensors: Tensors) -> dict[str, Any]:
    """Description of the layers and the action distribution."""
    odd = [name for name in tensors if not name.endswith((".weight", ".bias", "value"))]
    if odd:
        raise BadPolicyFile(f"its network has unknown parameters ({odd[0][:60]})")
    spread = {name.partition(".")[0]: array for name, array in tensors.items() if "std_" in name}
    names = _find_chain({k: v for k, v in tensors.items() if "MLP" in k} or tensors)
    if spread:  # a normal distribution that is not squashed, after an MLP
        names = [*names, "Dense_0"]
        if set(spread) & {"Dense_1"} or len(spread) != 1 or "Dense_1.weight" in tensors:
            raise BadPolicyFile("its standard deviations depend on the state in an unknown way")
    biases = [f"{name}.bias" if f"{name}.bias" in tensors else None for name in names]
    layers = [[f"{name}.weight", bias] for name, bias in zip(names, biases, strict=True)]
    if not spread:
        return {
            "layers": layers, "head": "state_gaussian", "squash": True, "deviations": "softplus"
        }  # fmt: skip
    ((name, value),) = spread.items()
    with np.errstate(divide="ignore", invalid="ignore"):
        log_std = value if name == "std_logparam" else np.log(value)
    return {"layers": layers, "head": "gaussian", "log_std": log_std}


def _brax_normaliser(
    statistics: Any, settings: Mapping[str, Any], files: CheckpointFiles
) -> Normaliser | None:
    """Normalisation by mean and standard deviation, without a limit."""
    if settings.get("normalize_observations") is False:
        return None
    if "normalize_observations" not in settings and isinstance(statistics, dict):
        files.assume(
            "observations normalised by the statistics in the file, as Brax does with "
            "normalize_observations=True",
            "normaliser (to null)",
        )
    if not isinstance(statistics, dict) or "mean" not in statistics:
        return None
    mean, std = statistics["mean"], statistics.get("std")
    arguments = settings.get("network_factory_kwargs", {})
    if isinstance(mean, dict) and isinstance(std, dict):  # of several observations
        keys = (arguments.get("policy_obs_key"), *OBSERVATION_KEYS)
        key = next((key for key in keys if isinstance(key, str) and key in mean), "")
        mean, std = mean.get(key), std.get(key)
    if not isinstance(mean, np.ndarray) or not isinstance(std, np.ndarray):
        raise BadPolicyFile("its observation statistics have no mean and standard deviation")
    return Normaliser(mean.ravel(), std.ravel(), np.full(mean.size, np.inf))


def _plain(value: Any, budget: Budget) -> Any:
    """Turn objects of a pickle into dictionaries, lists and arrays.

    Lists that are shared become many, which the budget bounds.
    """
    budget.spend(PART)
    if (array := as_array(value)) is not None:
        return array
    if isinstance(value, Object):  # Flax's FrozenDict keeps its content in an attribute
        return _plain(value.state.get("_dict", value.state), budget)
    if isinstance(value, dict):
        return {str(key): _plain(part, budget) for key, part in value.items()}
    return [_plain(part, budget) for part in value] if isinstance(value, list | tuple) else value


@reader
def read_orbax(data: bytes, files: CheckpointFiles) -> Read:
    """Read a checkpoint folder by its ``_METADATA``: of Brax, or of described Flax parameters.

    ``policies.json`` in the folder, or in the one or two above it, describes Flax parameters.
    """
    tree = _read_tree(read_json(data), files)
    names = files.names(BRAX_SETTINGS)
    if names:
        with about(f"{names[0]} next to it"):
            settings = read_json(files.read(names[0]) or b"")
        policy, info = _brax_policy(tree, settings, files)
        return policy, {**info, "algorithm": names[0].partition("_")[0].upper()}
    description = files.description()
    for above in ("../policies.json", "../../policies.json"):
        if description is None and (text := files.read(above)) is not None:
            with about(f"its {above}"):
                description = read_json(text)
    return _tree_policy(tree, description or {}, files, "policies.json")


def _read_tree(metadata: dict[str, Any], files: CheckpointFiles) -> dict[str, Any]:
    """Arrays as nested dictionaries, without the states of optimisers."""
    listed = metadata.get("tree_metadata")
    if files.path is None or not isinstance(listed, dict):
        raise BadPolicyFile("it is not an Orbax checkpoint: expected tree_metadata")
    folder, places = files.path.parent, {}
    for entry in listed.values():
        match entry:
            case {"key_metadata": list(keys), "value_metadata": {"value_type": str(kind)}}:
                path = tuple(str(key.get("key")) for key in keys if isinstance(key, dict))
            case _:
                raise BadPolicyFile("its metadata are damaged")
        if kind in ORBAX_TYPES and path and "opt_state" not in path:
            places[".".join(path)] = path
    for name in places:
        if not re.fullmatch(r"[^/\0]+", name) or name in (".", ".."):
            raise BadPolicyFile("its metadata name an array outside of it")
    size = sum(file.stat().st_size for file in regular_files(folder))
    request = folder.resolve(), list(places), size, bool(metadata.get("use_zarr3"))
    arrays = confined.call(_read_zarr, request, size)
    tree: dict[str, Any] = {}
    for path, array in zip(places.values(), arrays, strict=True):
        branch = tree
        for key in path[:-1]:
            branch = branch.setdefault(key, {})
            if not isinstance(branch, dict):
                raise BadPolicyFile("its metadata are damaged")
        branch[path[-1]] = array
    return tree


def _read_zarr(request: tuple[Path, list[str], int, bool]) -> list[NDArray[Any]]:
    """Read arrays of a folder by name; called in the child process."""
    folder, names, n_bytes, is_zarr3 = request
    try:
        import tensorstore
    except ImportError as error:
        what = "it is an Orbax checkpoint, whose arrays TensorStore reads"
        raise BadPolicyFile(f"{what}: pip install tensorstore") from error
    one_thread = {"file_io_concurrency": {"limit": 1}, "data_copy_concurrency": {"limit": 1}}
    base: dict[str, Any] = {"driver": "file", "path": f"{folder}/"}
    is_ocdbt = (folder / "manifest.ocdbt").is_file()
    budget, arrays = Budget(n_bytes, "it"), []
    for name in names:
        place = {"driver": "ocdbt", "base": base, "path": f"{name}/"}
        if not is_ocdbt:
            place = {**base, "path": f"{folder}/{name}/"}
        spec = {"driver": "zarr3" if is_zarr3 else "zarr", "kvstore": place, "context": one_thread}
        store = tensorstore.open(spec, read=True).result()
        if len(store.shape) > MAX_AXES:
            raise BadPolicyFile("an array in it has an invalid shape")
        budget.spend(math.prod(store.shape) * store.dtype.numpy_dtype.itemsize)
        array = np.asarray(store.read().result())
        is_half = array.dtype.kind == "V"  # bfloat16
        arrays.append(array.astype(np.float32) if is_half else array)
    return arrays
