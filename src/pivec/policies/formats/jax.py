"""Reads parameters of Flax's modules, without Flax: MLPs, by what a description says of them.

Flax saves numbers and their names, and neither activations nor what outputs mean: a .json beside
the file says that. Of CleanRL's scripts for JAX both are known.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, UsageError
from pivec.files import Budget
from pivec.policies.distributions import Options
from pivec.policies.formats import Beside, about, read_json, reader
from pivec.policies.formats.safetensors import (
    described_network,
    read_info,
    read_statistics,
    refuse_unknown,
)
from pivec.policies.forward import Layer, Normaliser
from pivec.policies.naming import natural_key
from pivec.policies.networks import NetworkPolicy
from pivec.policies.safe_pickle import Object, as_array, read_objects
from pivec.policies.tensors import Tensors

# -----------------------------------------------------------------------------
# Reads MessagePack, in which Flax writes parameters, into plain values and arrays.


MAX_DEPTH = 64
MAX_AXES = 8
VALUE = 64  # bytes of a small value and its place in a list or dictionary
# First byte -> how the number behind it is packed.
NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
           0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}  # fmt: skip
CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
# First byte -> what it begins, and how its size is packed; of the last ones the size is known.
SIZED = {0xC4: ("bytes", ">B"), 0xC5: ("bytes", ">H"), 0xC6: ("bytes", ">I"),
         0xC7: ("extension", ">B"), 0xC8: ("extension", ">H"), 0xC9: ("extension", ">I"),
         0xD9: ("text", ">B"), 0xDA: ("text", ">H"), 0xDB: ("text", ">I"),
         0xDC: ("list", ">H"), 0xDD: ("list", ">I"),
         0xDE: ("mapping", ">H"), 0xDF: ("mapping", ">I")}  # fmt: skip
FIXED = {0xD4 + i: 1 << i for i in range(5)}  # of extensions
NDARRAY, SCALAR = 1, 3  # the extensions that Flax has, beside complex numbers


def read_msgpack(data: bytes, budget: Budget | None = None) -> Any:
    """Read what ``flax.serialization.to_bytes`` or any other packer wrote.

    Keys of mappings are text; arrays of Flax are understood, other extensions refused.

    Examples
    --------
    >>> read_msgpack(bytes([0x82, 0xA1, 97, 0x01, 0xA1, 98, 0x92, 0xC0, 0xFF]))
    {'a': 1, 'b': [None, -1]}
    """
    reader = _Reader(data, budget or Budget(len(data), "it"))
    value = reader.value(0)
    if reader.place != len(data):
        raise BadPolicyFile("it is no MessagePack: something is left over behind its end")
    return value


class _Reader:
    def __init__(self, data: bytes, budget: Budget) -> None:
        self.data, self.budget, self.place = data, budget, 0

    def take(self, n: int) -> bytes:
        end = self.place + n
        if end > len(self.data):
            raise BadPolicyFile("it is no MessagePack, or was cut short: copy or save it again")
        piece, self.place = self.data[self.place : end], end
        return piece

    def number(self, form: str) -> Any:
        (number,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return number

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise BadPolicyFile(f"it is nested more than {MAX_DEPTH} deep")
        self.budget.spend(VALUE)
        (first,) = self.take(1)
        if first < 0x80 or first >= 0xE0:
            return first if first < 0x80 else first - 0x100
        if first < 0xC0:
            kind, size = ("mapping", first & 0xF) if first < 0x90 else ("list", first & 0xF)
            if first >= 0xA0:
                kind, size = "text", first & 0x1F
        elif first in CONSTANTS:
            return CONSTANTS[first]
        elif first in NUMBERS:
            return self.number(NUMBERS[first])
        elif first in FIXED:
            kind, size = "extension", FIXED[first]
        elif first in SIZED:
            kind, form = SIZED[first]
            size = self.number(form)
        else:
            raise BadPolicyFile("it is no MessagePack: a byte stands for nothing")
        return self.sized(kind, size, depth)

    def sized(self, kind: str, size: int, depth: int) -> Any:
        if kind == "list":
            return [self.value(depth + 1) for _ in range(size)]
        if kind == "mapping":
            pairs = {}
            for _ in range(size):
                key = self.value(depth + 1)
                if not isinstance(key, str):
                    raise BadPolicyFile("a mapping in it has keys that are no text")
                pairs[key] = self.value(depth + 1)
            return pairs
        code = self.number(">b") if kind == "extension" else 0
        self.budget.spend(size)
        content = self.take(size)
        if kind == "bytes":
            return content
        if kind == "text":
            return content.decode("utf-8", "replace")
        if code not in (NDARRAY, SCALAR):
            raise BadPolicyFile(f"it holds a value of the kind {code}, which Flax does not have")
        return _array(read_msgpack(content, self.budget))


def _array(packed: Any) -> NDArray[Any]:
    """Make an array of its shape, the name of its type, and its bytes."""
    match packed:
        case [list(shape), str(name), bytes(raw)]:
            pass
        case _:
            raise BadPolicyFile("an array in it is damaged")
    return array_of(shape, name, raw)


def array_of(shape: Any, name: str, raw: bytes) -> NDArray[Any]:
    """Make an array of numbers as NumPy or JAX names their type; a BadPolicyFile if it is none."""
    sound = isinstance(shape, list) and len(shape) <= MAX_AXES
    if not sound or not all(type(n) is int and 0 <= n <= len(raw) for n in shape):
        raise BadPolicyFile("the shape of an array in it makes no sense")
    convert: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    if name == "bfloat16":  # the upper half of a float32
        name, convert = "<u2", lambda half: (half.astype(np.uint32) << 16).view(np.float32)
    try:
        dtype = np.dtype(name)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biuf" or math.prod(shape) * dtype.itemsize != len(raw):
        raise BadPolicyFile(
            f"an array in it of shape {shape} and type {name[:20]!r} has {len(raw)} bytes"
        )
    array = np.frombuffer(raw, dtype)
    return (array if convert is None else convert(array)).reshape(shape)


ACTOR = re.compile(r"actor|policy|(^|[._])pi([._]|$)", re.IGNORECASE)
Chain = list[str]  # names of layers of which each gives what the next one takes


@reader
def read_flax(data: bytes, beside: Beside) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Read what ``flax.serialization.to_bytes`` wrote of parameters or of a TrainState.

    The description beside it has ``activation`` and ``head``, and ``layers`` where the names and
    shapes of the layers do not tell which of them are the policy's.
    """
    described = beside.description() or {}
    return tree_policy(read_msgpack(data), described, beside, f"{beside.stem or 'it'}.json")


def tree_policy(
    tree: Any, description: Mapping[str, Any], beside: Beside, where: str
) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Make the policy of nested dictionaries of parameters; ``where`` they are to be described."""
    tensors = flat_tensors(tree)
    names = ", ".join(f"{name} {tensors[name].shape}" for name in list(tensors)[:12])
    if not {"activation", "head"} <= set(description):
        raise BadPolicyFile(
            "it holds parameters of Flax, and neither their activation nor what the outputs mean: "
            f'put {where} beside it, as {{"activation": "tanh", "head": "categorical"}} (it has '
            f"{names[:400]})"
        )
    if description["activation"] == "gelu":
        beside.assume("gelu is the exact one, of which Flax's nn.gelu differs by up to 0.0005")
    if "layers" not in description:
        chain = find_chain(tensors)
        # In calls within calls Flax numbers the outer one first.
        beside.assume(
            f"layers of the policy assumed {', '.join(chain)}, one after another; layers in a "
            ".json beside can say otherwise"
        )
        description = {**description, "layers": chain}
    if description["head"] == "gaussian" and "log_std" not in description:
        spreads = [name for name in tensors if name.rpartition(".")[2] in ("log_std", "logstd")]
        description = {**description, **({"log_std": spreads[0]} if len(spreads) == 1 else {})}
    policy, info = described_network({"weights": "in-out", **description}, tensors, beside)
    step = tree.get("step") if isinstance(tree, dict) else None
    if isinstance(step, np.ndarray) and step.shape == () and step.dtype.kind in "iu":
        step = int(step)
    return policy, ({"step": step} if type(step) is int else {}) | info


def flat_tensors(tree: Any) -> Tensors:
    """Name the arrays of nested dictionaries by their ways, as torch does: Dense_0.weight, .bias.

    Collections of parameters ("params") are no part of a name, states of optimisers left out.

    Examples
    --------
    >>> tree = {"params": {"Dense_0": {"kernel": np.zeros((2, 3))}}, "opt_state": {}}
    >>> {name: array.shape for name, array in flat_tensors(tree).items()}
    {'Dense_0.weight': (2, 3)}
    """
    tensors: Tensors = {}

    def walk(branch: Any, way: tuple[str, ...]) -> None:
        if isinstance(branch, np.ndarray) and way:
            name = "weight" if way[-1] == "kernel" else way[-1]
            tensors[".".join((*way[:-1], name))] = branch
        elif isinstance(branch, dict):
            for key in sorted(branch, key=natural_key):
                if key != "opt_state":
                    walk(branch[key], way if key == "params" else (*way, key))

    walk(tree, ())
    if not tensors:
        raise BadPolicyFile("it holds no parameters of Flax: expected nested names of arrays")
    return tensors


def find_chain(tensors: Tensors) -> Chain:
    """Find the layers of the policy by their names and shapes, or say that they must be named."""
    chains = _chains(tensors)
    chosen = [chain for chain in chains if ACTOR.search(chain[0])]
    if not chosen:  # a critic gives one number
        chosen = [chain for chain in chains if tensors[f"{chain[-1]}.weight"].shape[1] > 1]
    chosen = chains if len(chains) == 1 else chosen
    if len(chosen) != 1:
        layers = "; ".join(", ".join(chain) for chain in chains)
        raise UsageError(
            'layers is missing: name those of the policy in order, as ["Dense_0", "Dense_1"] '
            f"(it has {layers[:400] or 'no layers'})"
        )
    return chosen[0]


def _chains(tensors: Tensors) -> list[Chain]:
    chains: list[Chain] = []
    width, parent = -1, ""
    for name, array in tensors.items():
        layer, _, what = name.rpartition(".")
        if what != "weight" or array.ndim != 2:
            continue
        if array.shape[0] != width or layer.rpartition(".")[0] != parent:
            chains.append([])
        chains[-1].append(layer)
        width, parent = array.shape[1], layer.rpartition(".")[0]
    return chains


def read_cleanrl_jax(data: bytes, beside: Beside) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Read what CleanRL's scripts for JAX save: DQN, DDPG and TD3."""
    tree = read_msgpack(data)
    description: Mapping[str, Any] = beside.description() or {}
    known: dict[str, Any]
    match tree:
        case {"params": dict()} if len(tree) == 1:
            algorithm, known = "DQN", {"head": "epsilon_greedy"}
        case {"0": {"params": dict()} as actor, "1": {"params": dict()}}:
            algorithm, known = "DDPG or TD3", {"head": "deterministic", "squash": True}
            tree = actor
        case _:
            raise BadPolicyFile(
                "this looks like one of CleanRL's scripts for JAX that is not supported: expected "
                "DQN, DDPG or TD3"
            )
    tensors = flat_tensors(tree)
    if "activation" not in description:
        beside.assume(
            f"activation assumed relu, as CleanRL's {algorithm} has it; a .json beside can say "
            "otherwise"
        )
    full = {"weights": "in-out", "activation": "relu", **known, **description}
    if "layers" not in full:
        full["layers"] = find_chain(tensors)
    policy, _ = described_network(full, tensors, beside)
    return policy, {"algorithm": algorithm, **read_info(description, policy)}


# -----------------------------------------------------------------------------
# Reads policies that Brax trained, without Brax and JAX: pickles of ``brax.io.model.save_params``.
#
# They are a tuple of the statistics of observations, the parameters of the policy and maybe those of
# its critic. Checkpoints in folders have the same content, see `pivec.policies.formats.jax`.


MODULES = ("brax", "jax", "jaxlib", "flax", "numpy", "ml_dtypes")
ACTIVATIONS = {"swish": "silu", "linear": "identity"}  # as JAX names them
PART = 256  # bytes of a part of what a pickle holds
STATES = ("state", "observation")  # which of several observations the policy sees by default


def read_params(data: bytes, beside: Beside) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Read a pickle that ``brax.io.model.save_params`` wrote.

    A description beside it may set the ``activation`` or a ``normaliser`` (null for none).
    """
    return params_policy(_plain(read_objects(data, MODULES), Budget(len(data), "it")), {}, beside)


read_brax = reader(read_params)


def params_policy(
    params: Any, settings: Mapping[str, Any], beside: Beside
) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Make the policy of parameters, with what Brax wrote beside them of the network, if it did."""
    parts = [params[key] for key in sorted(params)] if isinstance(params, dict) else params
    if not isinstance(parts, list | tuple) or not 2 <= len(parts) <= 3:
        raise BadPolicyFile(
            "it holds no policy of Brax: expected statistics of observations, parameters of the "
            "policy, and maybe those of its critic"
        )
    statistics, parameters = parts[:2]
    description = beside.description() or {}
    refuse_unknown(
        description, {"activation", "normaliser", "info"}, "the description of a Brax policy"
    )
    arguments = settings.get("network_factory_kwargs")
    arguments = arguments if isinstance(arguments, dict) else {}
    if arguments.get("mean_clip_scale") is not None:
        raise BadPolicyFile("its means are clipped softly (mean_clip_scale): not supported")
    tensors = flat_tensors(parameters)
    layers, changes = _layers(tensors)
    activation = description.get("activation", arguments.get("activation"))
    if not isinstance(activation, str):
        activation = "silu"
        beside.assume(
            "activation assumed swish (silu), as PPO of Brax has it (its SAC has relu); activation "
            "in a .json beside can say otherwise"
        )
    if activation == "gelu":
        raise UsageError("it has JAX's gelu, which is not supported")
    policy = NetworkPolicy(
        layers,
        ACTIVATIONS.get(activation, activation),
        normaliser=_normaliser(statistics, settings, description, beside, layers[0][0].shape[0]),
        **changes,
    )
    if policy.options.squash:
        beside.assume("actions from -1 to 1, as Brax has them, are rescaled to the environment's")
    info = {"algorithm": "PPO" if len(parts) == 3 or settings else "PPO or SAC", "library": "Brax"}
    return policy, {**info, **read_info(description, policy)}


def _layers(tensors: Tensors) -> tuple[tuple[Layer, ...], dict[str, Any]]:
    """Give the layers in order, and what is done with what the last one gives."""
    odd = [name for name in tensors if not name.endswith((".weight", ".bias", "value"))]
    if odd:
        raise BadPolicyFile(f"its network has parameters that are not known ({odd[0][:60]})")
    spread = {name.partition(".")[0]: array for name, array in tensors.items() if "std_" in name}
    names = find_chain({k: v for k, v in tensors.items() if "MLP" in k} or tensors)
    if spread:  # a normal distribution that is not squashed, behind an MLP
        names = [*names, "Dense_0"]
        if set(spread) & {"Dense_1"} or len(spread) != 1 or "Dense_1.weight" in tensors:
            raise BadPolicyFile("its deviations depend on the state in a way that is not known")
    layers = tuple((tensors[f"{name}.weight"], _bias(tensors, name)) for name in names)
    if not spread:
        options = Options(squash=True, deviations="softplus")
        return layers, {"head": "state_gaussian", "options": options}
    ((name, value),) = spread.items()
    with np.errstate(divide="ignore", invalid="ignore"):
        log_std = value if name == "std_logparam" else np.log(value)
    return layers, {"head": "gaussian", "log_std": log_std}


def _bias(tensors: Tensors, name: str) -> Any:
    weight = tensors[f"{name}.weight"]
    return tensors.get(f"{name}.bias", np.zeros(weight.shape[-1], np.float32))


def _normaliser(
    statistics: Any,
    settings: Mapping[str, Any],
    description: Mapping[str, Any],
    beside: Beside,
    width: int,
) -> Normaliser | None:
    """Find how observations are normalised: by mean and deviation, without a limit."""
    if "normaliser" in description:
        return read_statistics(description, {}, beside)
    if settings.get("normalize_observations") is False:
        return None
    if "normalize_observations" not in settings and isinstance(statistics, dict):
        beside.assume(
            "observations normalised by the statistics in the file, as Brax does with "
            "normalize_observations=True; normaliser null in a .json beside can say otherwise"
        )
    if not isinstance(statistics, dict) or "mean" not in statistics:
        return None
    mean, std = statistics["mean"], statistics.get("std")
    arguments = settings.get("network_factory_kwargs", {})
    if isinstance(mean, dict) and isinstance(std, dict):  # of several observations
        keys = (arguments.get("policy_obs_key"), *STATES)
        key = next((key for key in keys if isinstance(key, str) and key in mean), "")
        mean, std = mean.get(key), std.get(key)
    if not isinstance(mean, np.ndarray) or not isinstance(std, np.ndarray):
        raise BadPolicyFile("its statistics of observations have no mean and deviation")
    return Normaliser(mean.ravel(), std.ravel(), np.full(width, np.inf))


def _plain(value: Any, budget: Budget) -> Any:
    """Turn what a pickle holds into dictionaries, lists and arrays.

    Lists that are in many others are many lists then, which the budget bounds.
    """
    budget.spend(PART)
    if (array := as_array(value)) is not None:
        return array
    if isinstance(value, Object):  # Flax's FrozenDict keeps its content in an attribute
        return _plain(value.state.get("_dict", value.state), budget)
    if isinstance(value, dict):
        return {str(key): _plain(part, budget) for key, part in value.items()}
    return [_plain(part, budget) for part in value] if isinstance(value, list | tuple) else value


# -----------------------------------------------------------------------------
# Reads checkpoints of Orbax, which are folders: what Brax and users of Flax save with it.
#
# Its arrays lie in a database of their own, which TensorStore reads: data, of which nothing runs.


NUMBERS_ORBAX = ("jax.Array", "np.ndarray", "scalar")
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
    sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    budget = Budget(sum(sizes), "it")
    tree: dict[str, Any] = {}
    for entry in listed.values():
        match entry:
            case {"key_metadata": list(keys), "value_metadata": {"value_type": str(kind)}}:
                way = [str(key.get("key")) for key in keys if isinstance(key, dict)]
            case _:
                raise BadPolicyFile("its metadata are damaged")
        if kind not in NUMBERS_ORBAX or not way or "opt_state" in way:
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
