"""Named arrays as policies: what all readers share, and ``.npy``, ``.npz`` and ``.safetensors``.

Every reader turns a file into named arrays and a description of the network among them: which
arrays are layers, the activation, the head (see `pivec.policies.distributions`), its settings and a
normaliser. What a library does not save, users state in a JSON file next to the weights
(``<name>.json`` or ``policies.json``) with the same keys. `make_network` does the rest.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import asdict, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, UsageError
from pivec.files import BoundedZip, Budget, atomic_write
from pivec.policies.callables import user_code
from pivec.policies.distributions import DistributionSpec, Options, frozen
from pivec.policies.formats import CheckpointFiles, Read, about, read_json, reader
from pivec.policies.forward import Layer, Normaliser, Tensors
from pivec.policies.networks import Model, NetworkPolicy, OutputPolicy

ARRAYS = ("log_std", "low", "high")
OPTIONS = tuple(option.name for option in fields(Options))
COMMON = frozenset({"head", *ARRAYS, *OPTIONS, "normaliser", "info"})
VECTOR = frozenset({"sizes", "vector", "weights", "biases", "sequence", "activation"})
MAX_LAYERS, MAX_WIDTH = 1000, 1 << 20
ORDERS, SEQUENCES = ("out-in", "in-out"), ("weights-biases", "biases-weights")
LSTM_PARTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
MAX_HEADER = 1 << 16  # of .npy files: NumPy itself refuses to parse longer ones
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# Other names of activations: of libraries, in lower case.
SPELLINGS = {
    **dict.fromkeys(("leakyrelu", "lrelu"), "leaky_relu"),
    "swish": "silu",
    "none": "identity",
    "linear": "identity",
}
FORMAT, ENCODER, VERSION = "pivec-policy", "pivec-encoder", "1"
SAVED_ARRAYS, SAVED_STATISTICS = (*ARRAYS, "state_std"), ("mean", "scale", "limit")
# Statistics that libraries keep among the tensors: library, names of mean and variance, epsilon,
# whether that is added to the standard deviation instead of the variance, and the clipping limit.
STATISTICS = {
    "running_mean_std": ("rl_games", "running_mean", "running_var", 1e-5, False, 5.0),
    # skrl 2 has observations for the policy and states for its critic.
    "observation_preprocessor": ("skrl", "running_mean", "running_variance", 1e-8, True, 5.0),
    "state_preprocessor": ("skrl", "running_mean", "running_variance", 1e-8, True, 5.0),
    # rsl_rl 5, 3 and 4, and earlier.
    "obs_normalizer": ("rsl_rl", "_mean", "_var", 1e-2, True, math.inf),
    "actor_obs_normalizer": ("rsl_rl", "_mean", "_var", 1e-2, True, math.inf),
    "obs_norm_state_dict": ("rsl_rl", "_mean", "_var", 1e-2, True, math.inf),
}


def described_network(
    description: Mapping[str, Any], tensors: Tensors, files: CheckpointFiles
) -> Read:
    """Make the network that a user's description finds among named tensors, and its ``info``."""
    check_keys(description, COMMON | {"layers", "weights", "activation"})
    policy = make_network(description, tensors, files)
    return policy, read_info(description, policy.normaliser)


def make_network(
    description: Mapping[str, Any], tensors: Tensors, files: CheckpointFiles
) -> NetworkPolicy:
    """Make the network that a description finds among named tensors.

    Its ``layers`` are a list of prefixes ("actor.0", for actor.0.weight and actor.0.bias, or
    "actor" for a Sequential of torch) or of pairs of names (weight, bias or null); ``weights`` is
    "out-in" as in torch (the default) or "in-out". Readers may also list arrays, and add
    ``parallel``, the prefix of a layer of deviations next to the last one, ``std`` instead of
    ``log_std``, and ``state_std``. For all other keys see `read_head` and `read_statistics`.
    """
    order, listed = choice(description, "weights", ORDERS, "out-in"), description.get("layers")
    if not isinstance(listed, list) or not 0 < len(listed) <= MAX_LAYERS:
        raise UsageError("layers must be a list of the names of the layers' tensors")
    firsts = [entry[0] if isinstance(entry, list) and entry else entry for entry in listed]
    names = [name.removesuffix(".weight") for name in firsts if isinstance(name, str)]
    if len(set(names)) < len(names):  # a small file would be a network of any size
        raise UsageError("layers lists a layer twice")
    parts = [_layers(entry, tensors, order) for entry in listed]
    if name := description.get("parallel"):
        parts[-1] = [_side_by_side(parts[-1], _layers(name, tensors, order))]
    layers = tuple(layer for part in parts for layer in part)
    head = read_head(description, tensors)
    if not head.name:
        raise UsageError("head is missing: expected what the outputs mean, as 'categorical'")
    activation = description.get("activation", "identity" if len(layers) == 1 else None)
    if not isinstance(activation, str):
        raise UsageError("activation is missing: expected its name, as 'tanh'")
    return NetworkPolicy(
        layers,
        activation,
        head.name,
        options=head.options,
        state_std=description.get("state_std"),
        normaliser=read_statistics(description, tensors, files),
        **head.arrays,
    )


def described_outputs(
    model: Model,
    description: Mapping[str, Any],
    files: CheckpointFiles,
    *,
    known: frozenset[str] = frozenset({"output"}),
    obvious: bool = False,
    discrete: str = "categorical",
) -> Read:
    """Make a policy of a model and a description of its outputs.

    Without a description of the outputs, their meaning is assumed, unless it is ``obvious``.
    """
    check_keys(description, COMMON | known)
    if not obvious and "head" not in description:
        files.assume("outputs taken as logits of discrete actions, or as real actions", "head")
    head = read_head(description, {}, discrete)
    normaliser = read_statistics(description, {}, files)
    return OutputPolicy(model, head, normaliser), read_info(description)


def read_head(
    description: Mapping[str, Any], tensors: Tensors, discrete: str = "categorical"
) -> DistributionSpec:
    """Read the action distribution.

    ``head`` is its name; ``log_std``, ``low`` and ``high`` are lists of numbers or names of
    tensors; other settings are those of `Options`.
    """
    head = description.get("head", "")
    if not isinstance(head, str):
        raise UsageError(f"head must be a name, but is {str(head)[:60]}")
    given = {key: description[key] for key in ARRAYS if description.get(key) is not None}
    arrays = {key: _named_or_numbers(value, key, tensors) for key, value in given.items()}
    if head == "gaussian" and "log_std" not in arrays and (name := description.get("std")):
        std = _named_or_numbers(name, "std", tensors)
        if not (std > 0).all():
            raise BadPolicyFile(f"its {name} holds deviations that are not above 0")
        arrays["log_std"] = np.log(std)
    options = read_options({key: description[key] for key in OPTIONS if key in description})
    return DistributionSpec(head, options, arrays, discrete)


def read_options(values: Any) -> Options:
    """Make `Options` of JSON values."""
    if not isinstance(values, dict):
        raise UsageError("the options of a head must be a JSON object")
    check_keys(values, set(OPTIONS), "a head")
    result: dict[str, Any] = {}
    for key, value in values.items():
        match key, value:
            case ("choices" | "shape", list() | tuple()) if all(
                type(n) is int and 0 < n < 1 << 20 for n in value
            ):
                result[key] = tuple(value)
            case ("shape", None) | ("squash", bool() | "clip") | ("deviations", str()):
                result[key] = value
            case ("epsilon" | "mean_limit", int() | float()) if not math.isnan(value):
                result[key] = float(value)
            case ("log_std_range", [int() | float() as least, int() | float() as most]):
                result[key] = (float(least), float(most))
            case _:
                raise UsageError(f"the option {key!r} cannot be {str(value)[:60]!r}")
    return Options(**result)


def read_statistics(
    description: Mapping[str, Any], tensors: Tensors, files: CheckpointFiles
) -> Normaliser | None:
    """Read ``normaliser``: ``mean``, ``var``, and optionally ``epsilon`` (1e-8) and ``clip``.

    ``mean`` and ``var`` are lists of numbers or names of tensors. Unless the description has a
    ``normaliser``, statistics that a library keeps among ``tensors`` are used.
    """
    value = description.get("normaliser")
    if isinstance(value, Normaliser) or (value is None and "normaliser" in description):
        return value
    if value is not None:
        if not isinstance(value, dict):
            raise UsageError("normaliser must be an object with mean and var")
        check_keys(value, {"mean", "var", "epsilon", "clip"}, "normaliser")
        mean, var = (_named_or_numbers(value.get(key), key, tensors) for key in ("mean", "var"))
        (epsilon,) = _numbers([value.get("epsilon", 1e-8)], "epsilon")
        (clip,) = _numbers([value.get("clip", math.inf)], "clip")
        return Normaliser.of_variance(mean, var, float(epsilon), float(clip))
    for folder, (library, first, second, epsilon, outside, limit) in STATISTICS.items():
        names = (f"{folder}.{first}", f"{folder}.{second}")
        if not all(name in tensors for name in names):
            continue
        mean, variance = (_named_or_numbers(name, name, tensors) for name in names)
        if mean.shape != variance.shape or (variance < 0).any():
            raise UsageError(f"{' and '.join(names)} are not a mean and a variance")
        clipped = f" and clipped at {limit:g}" if limit < math.inf else ""
        how = f"with epsilon {epsilon:g}{clipped} as {library} does by default"
        files.assume(f"normalised by {folder} in the file, {how}", "normaliser")
        if outside:
            return Normaliser(mean, np.sqrt(variance) + epsilon, np.full(mean.shape, limit))
        return Normaliser.of_variance(mean, variance, epsilon, limit)
    return None


def read_info(
    description: Mapping[str, Any], normaliser: Normaliser | None = None
) -> dict[str, Any]:
    """Read ``info``, free values about the policy; ``normaliser`` in it names the statistics."""
    info = description.get("info", {})
    if not isinstance(info, dict):
        raise UsageError("info in its description must be a JSON object")
    if description.get("normaliser") is not None:
        return {**info, "normaliser": "its description"}
    if normaliser is not None:
        return {**info, "normaliser": "statistics in the file"}
    return dict(info)


def spelt(activation: Any) -> str:
    """An activation that a library names, as pivec names it."""
    name = str(activation)[:40].lower()
    return SPELLINGS.get(name, name)


def choice(description: Mapping[str, Any], key: str, known: tuple[str, ...], default: str) -> str:
    """Read a setting that is one of a few words."""
    value = description.get(key, default)
    if value not in known:
        raise UsageError(f"{key} must be {' or '.join(known)}, but is {str(value)[:60]!r}")
    return str(value)


def check_keys(
    description: Mapping[str, Any], known: frozenset[str] | set[str], what: str = "a description"
) -> None:
    """Reject unknown keys, which are usually misspelt."""
    if odd := sorted(set(description) - known):
        raise UsageError(
            f"{what} has no key {odd[0][:60]!r}: expected one of {', '.join(sorted(known))}"
        )


def _tensor(name: str, what: str, tensors: Tensors) -> NDArray[Any]:
    if name not in tensors:
        known = f", but {', '.join(list(tensors)[:8])[:200]}" if tensors else ""
        raise UsageError(f"{what} should be the tensor {name[:80]!r}, which is missing{known}")
    if tensors[name].dtype.kind not in "biuf":
        raise UsageError(f"{what} should be {name[:80]!r}, which does not hold numbers")
    return tensors[name]


def _named_or_numbers(value: Any, what: str, tensors: Tensors) -> NDArray[np.float64]:
    if not isinstance(value, str):
        return _numbers(value, what)
    return _tensor(value, what, tensors).ravel().astype(np.float64)


def _numbers(value: Any, what: str) -> NDArray[np.float64]:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RecursionError):
        array = np.array(np.nan)
    if array.ndim != 1 or np.isnan(array).any():
        raise UsageError(f"{what} must be a list of numbers")
    return array


def _layers(entry: Any, tensors: Tensors, order: str) -> list[Layer]:
    """The layer of an entry of ``layers``, or those of a Sequential of this name."""
    bias_name: str | None
    # Errors list tensors, and users copy their names.
    entry = entry.removesuffix(".weight") if isinstance(entry, str) else entry
    match entry:
        case str() if f"{entry}.weight" not in tensors and f"{entry}.0.weight" in tensors:
            return sequence(tensors, entry)
        case (np.ndarray(), np.ndarray()):  # a reader made it
            return [entry]
        case str():
            weight_name, bias_name = f"{entry}.weight", f"{entry}.bias"
        case [str(weight_name), (str() | None) as bias_name]:
            pass
        case _:
            raise UsageError(f"a layer must be a name or a pair of names, not {str(entry)[:60]}")
    weight = _tensor(weight_name, "a weight", tensors)
    if weight.ndim != 2:
        raise UsageError(f"{weight_name[:80]!r} is not a matrix: its shape is {weight.shape}")
    weight = weight.T if order == "out-in" else weight
    if bias_name is None:
        return [(weight, np.zeros(weight.shape[1], np.float32))]
    return [(weight, _tensor(bias_name, "a bias", tensors))]


def _side_by_side(means: list[Layer], deviations: list[Layer]) -> Layer:
    """Two layers of equal size as one with concatenated outputs."""
    if len(means) > 1 or len(deviations) > 1:
        raise BadPolicyFile("its deviations have separate hidden layers, which is not supported")
    pairs = [(frozen(weight), frozen(bias)) for weight, bias in (*means, *deviations)]
    weights, biases = zip(*pairs, strict=True)
    if weights[0].shape != weights[1].shape:
        raise BadPolicyFile("its means and deviations have different sizes")
    return np.concatenate(weights, axis=1), np.concatenate(biases)


def linear(tensors: Tensors, prefix: str) -> Layer:
    """A linear layer of torch, its weights transposed to (in, out)."""
    weight, bias = tensors.get(f"{prefix}.weight"), tensors.get(f"{prefix}.bias")
    if weight is None or bias is None or weight.ndim != 2 or bias.ndim != 1:
        raise BadPolicyFile(f"its {prefix} is not a linear layer with a bias")
    return frozen(weight.T), frozen(bias)


def averaged(layer: Layer, n: Any, axis: int) -> Layer:
    """A linear layer that gives ``n`` means of the outputs of ``layer``, which are quantiles.

    The quantiles of a mean are neighbours (``axis`` 1) or ``n`` outputs apart (0). The average of
    their weights gives the mean.
    """
    weight, bias = layer
    if type(n) is not int or n < 1 or len(bias) % n:
        raise BadPolicyFile("it is damaged: its action space does not fit its weights")
    shape = (n, -1) if axis else (-1, n)
    return (
        weight.reshape(len(weight), *shape).mean(axis=1 + axis, dtype=np.float64),
        bias.reshape(shape).mean(axis=axis, dtype=np.float64),
    )


def sequence(tensors: Tensors, prefix: str) -> list[Layer]:
    """Layers of a Sequential: linear at 0, 2, 4, ..., activations between; maybe none."""
    numbers = set()
    for key, tensor in tensors.items():
        if key.startswith(prefix + "."):
            number, _, part = key[len(prefix) + 1 :].partition(".")
            if tensor.ndim > 2:
                raise BadPolicyFile(
                    "it has convolutions, which are not supported here: export it to ONNX"
                )
            if not re.fullmatch(r"\d{1,4}", number) or part not in ("weight", "bias"):
                raise BadPolicyFile(f"its {key} does not belong to a plain MLP")
            numbers.add(int(number))
    if sorted(numbers) != list(range(0, 2 * len(numbers), 2)):
        raise BadPolicyFile(
            f"its {prefix} does not consist of linear layers with activations between them"
        )
    return [linear(tensors, f"{prefix}.{number}") for number in sorted(numbers)]


def recurrent(tensors: Tensors, prefix: str) -> tuple[tuple[Layer, ...], bool]:
    """Layers of torch's LSTM or GRU of this name, for `RecurrentNetwork`, and whether it is a GRU.

    Inputs and hidden state are multiplied together. The sums of a GRU's candidate stay apart.
    """
    names = {key.removeprefix(f"{prefix}.") for key in tensors if key.startswith(f"{prefix}.")}
    n_layers = len(names) // len(LSTM_PARTS)
    plain = names == {f"{part}_l{i}" for part in LSTM_PARTS for i in range(n_layers)}
    cells, n_gates = [], set()
    for i in range(n_layers if plain else 0):
        parts = [np.asarray(tensors[f"{prefix}.{p}_l{i}"], np.float32) for p in LSTM_PARTS]
        axes, lengths = [part.ndim for part in parts], {len(np.atleast_1d(part)) for part in parts}
        size = parts[1].shape[-1] if axes == [2, 2, 1, 1] and len(lengths) == 1 else 0
        if not size or len(parts[0]) not in (3 * size, 4 * size):
            continue
        n_gates.add(len(parts[0]) // size)
        if len(parts[0]) == 3 * size:  # zeros where inputs or hidden state have no part in a sum
            for part, at in enumerate((3 * size, 2 * size, 3 * size, 2 * size)):
                own, none = parts[part], np.zeros_like(parts[part][:size])
                parts[part] = np.concatenate([own[:at], none, own[at:]])
        weight = np.concatenate(parts[:2], axis=1).T
        cells.append((weight, parts[2] + parts[3]))
    if not cells or len(cells) < n_layers or len(n_gates) > 1:
        raise BadPolicyFile(
            f"its {prefix} is not a plain LSTM or GRU with biases "
            f"({', '.join(sorted(names))[:200]})"
        )
    return tuple(cells), n_gates == {3}


@reader
def read_npy(data: bytes, files: CheckpointFiles) -> Read:
    """Read a parameter vector in a ``.npy`` file with a description next to it."""
    return _read_arrays({"vector": parse_npy(data)}, files)


@reader
def read_npz(data: bytes, files: CheckpointFiles) -> Read:
    """Read a parameter vector, or named weights, in a ``.npz`` with a description next to it."""
    return _read_arrays(unpack_npz(data, Budget(len(data), "it")), files)


def _read_arrays(arrays: Tensors, files: CheckpointFiles) -> Read:
    description = files.description()
    if description is None:
        raise BadPolicyFile(
            "it holds arrays, which are not a policy without a .json of the same name (or "
            "policies.json) next to it that states the layers; to read recorded states, use `pivec "
            "import`, or VisitedStates.from_arrays in Python"
        )
    if "sizes" not in description:
        return described_network(description, arrays, files)
    check_keys(description, COMMON | VECTOR)
    sizes, biases = description["sizes"], description.get("biases", True)
    if (
        not isinstance(sizes, list)
        or len(sizes) < 2
        or not all(type(n) is int and 0 < n < MAX_WIDTH for n in sizes)
    ):
        raise UsageError(
            "sizes must be the widths of the layers including the input, as [4, 16, 2]"
        )
    if not isinstance(biases, bool):
        raise UsageError("biases must be true or false")
    key = description.get("vector")
    if key is None and len(arrays) == 1:
        key = next(iter(arrays))
    if not isinstance(key, str) or key not in arrays:
        names = ", ".join(list(arrays)[:8])
        raise UsageError(f"vector must be the name of an array: one of {names[:200]}")
    if arrays[key].ndim != 1:
        raise UsageError(
            f"expected one parameter vector, but {key[:60]!r} has shape {arrays[key].shape}: save "
            "one member of a population per file"
        )
    layers = split_vector(
        arrays[key],
        sizes,
        biases=biases,
        order=choice(description, "weights", ORDERS, "in-out"),
        sequence=choice(description, "sequence", SEQUENCES, "weights-biases"),
    )
    policy = make_network({**description, "layers": list(layers)}, arrays, files)
    return policy, read_info(description, policy.normaliser)


def split_vector(
    vector: NDArray[Any],
    sizes: list[int],
    *,
    biases: bool = True,
    order: str = "in-out",
    sequence: str = "weights-biases",
) -> tuple[Layer, ...]:
    """Split a parameter vector into layers, one after another.

    ``sizes`` are the widths of the layers including the input; without ``biases`` these are 0.
    ``order`` is "in-out" if a row of weights belongs to one input, "out-in" if to one output;
    ``sequence`` says what comes first in each layer.
    """
    pairs = list(pairwise(sizes))
    parts = [part for part in sequence.split("-") if biases or part == "weights"]
    lengths = [
        n_out if part == "biases" else n_in * n_out for n_in, n_out in pairs for part in parts
    ]
    if vector.shape != (sum(lengths),):
        raise UsageError(
            f"a network of sizes {sizes[:20]} has {sum(lengths)} parameters, but the vector holds "
            f"{vector.size}"
        )
    pieces = iter(np.split(vector, np.cumsum(lengths)[:-1]))
    layers: list[Layer] = []
    for n_in, n_out in pairs:
        own = {"biases": np.zeros(n_out), **{part: next(pieces) for part in parts}}
        if order == "out-in":
            layers.append((own["weights"].reshape(n_out, n_in).T, own["biases"]))
        else:
            layers.append((own["weights"].reshape(n_in, n_out), own["biases"]))
    return tuple(layers)


def unpack_npz(source: bytes | BinaryIO, budget: Budget, kinds: str = "biuf") -> Tensors:
    """Read the arrays of a ``.npz`` file by name."""
    archive, arrays = BoundedZip(source, budget), {}
    for member in archive.members:
        if member.endswith(".npy"):
            with about(f"{member} in it"):
                arrays[member.removesuffix(".npy")] = parse_npy(archive.read(member), kinds)
    return arrays


def parse_npy(data: bytes | bytearray, kinds: str = "biuf") -> NDArray[Any]:
    """Read the numbers of a ``.npy`` file; its header cannot claim more than there is.

    ``kinds`` are the accepted kinds of dtypes, as NumPy abbreviates them.
    """
    stream = io.BytesIO(data[:MAX_HEADER])
    # The header is parsed as Python, which raises anything.
    with user_code("it is not a NumPy array, or damaged", BadPolicyFile), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # headers of Python 2 are read as well
        shape, fortran, dtype = HEADERS[np.lib.format.read_magic(stream)](stream)
    if dtype.kind not in kinds or not dtype.itemsize:
        raise BadPolicyFile(f"it holds values of type {str(dtype)[:60]}, not numbers")
    count, start = math.prod(shape), stream.tell()
    if count * dtype.itemsize != len(data) - start:
        raise BadPolicyFile(f"it is truncated: an array of shape {str(shape)[:80]}")
    flat = np.frombuffer(data, dtype, count, start) if count else np.zeros(0, dtype)
    flat = flat.astype(dtype.newbyteorder("="), copy=False)
    try:
        return flat.reshape(shape, order="F" if fortran else "C")
    except (TypeError, ValueError) as error:  # negative, or empty and huge along the other axes
        raise BadPolicyFile("its shape is invalid") from error


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
    arrays = {name: getattr(policy, name) for name in SAVED_ARRAYS}
    arrays |= {f"normaliser.{k}": getattr(policy.normaliser, k, None) for k in SAVED_STATISTICS}
    tensors |= {name: array for name, array in arrays.items() if array is not None}
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

    with user_code("it is not a safetensors file, or damaged", BadPolicyFile):
        tensors = safetensors.numpy.load(data)
        length = int.from_bytes(data[:8], "little")
        return tensors, json.loads(data[8 : 8 + length]).get("__metadata__") or {}


@reader
def read_policy(data: bytes, files: CheckpointFiles) -> Read:
    """Read a ``.safetensors`` file and its ``info``: of `save_policy`, or with a description."""
    tensors, metadata = read_safetensors(data)
    description = files.description()
    if description is not None and metadata.get("format") != FORMAT:
        return described_network(description, tensors, files)
    if metadata.get("format") != FORMAT and (settings := files.read("config.json")):
        with about("config.json next to it"):
            config = read_json(settings)
        if {"type", "input_features", "output_features"} <= set(config):
            from pivec.policies.formats.lerobot import read_lerobot

            return read_lerobot(data, str(config["type"]), files)
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
    normalised = [f"normaliser.{key}" for key in SAVED_STATISTICS if "normaliser.mean" in tensors]
    policy = NetworkPolicy(
        tuple((tensors[f"{i}.weight"], tensors[f"{i}.bias"]) for i in range(network["layers"])),
        str(network["activation"]),
        str(network["head"]),
        options=read_options(network.get("options", {})),
        normaliser=Normaliser(*(tensors[key] for key in normalised)) if normalised else None,
        **{key: tensors[key] for key in SAVED_ARRAYS if key in tensors},
    )
    return policy, info
