"""Networks that a small JSON describes, whatever file their tensors come from."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Mapping
from dataclasses import fields
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, UsageError
from pivec.files import BoundedZip, Budget
from pivec.policies.distributions import HeadDescription, Model, Options, OutputPolicy
from pivec.policies.formats import Beside, about, reader
from pivec.policies.forward import Layer, Normaliser
from pivec.policies.networks import NetworkPolicy
from pivec.policies.saving import FORMAT, policy_of, read_options, read_safetensors
from pivec.policies.tensors import Tensors

ARRAYS = ("log_std", "low", "high")
OPTIONS = tuple(option.name for option in fields(Options))
COMMON = frozenset({"head", *ARRAYS, *OPTIONS, "normaliser", "info"})
MAX_LAYERS = 1000
ORDERS = ("out-in", "in-out")


@reader
def read_policy(data: bytes, beside: Beside) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Read a ``.safetensors`` file and its ``info``: of `save_policy`, or with a description."""
    tensors, metadata = read_safetensors(data)
    description = beside.description()
    if description is None or metadata.get("format") == FORMAT:
        return policy_of(tensors, metadata)
    return described_network(description, tensors, beside)


def described_network(
    description: Mapping[str, Any], tensors: Tensors, beside: Beside
) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Make the network that a description finds among named tensors, and its ``info``.

    The description has ``layers``, a list of prefixes ("actor.0", of actor.0.weight and
    actor.0.bias) or of pairs of names (weight, bias or null); ``weights``, "out-in" as torch has
    them (the default) or "in-out"; ``activation``; and what `read_head` and `read_info` know.
    """
    refuse_unknown(description, COMMON | {"layers", "weights", "activation"})
    order = choice(description, "weights", ORDERS, "out-in")
    listed = description.get("layers")
    if not isinstance(listed, list) or not 0 < len(listed) <= MAX_LAYERS:
        raise UsageError("layers must be a list of the names of the layers' tensors")
    layers = tuple(_layer(entry, tensors, order) for entry in listed)
    return make_network(description, layers, tensors, beside)


def make_network(
    description: Mapping[str, Any], layers: tuple[Layer, ...], tensors: Tensors, beside: Beside
) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Make a network of layers and of what a description says of everything else."""
    head = read_head(description, tensors)
    if not head.name:
        raise UsageError("head is missing: expected what the outputs mean, as 'categorical'")
    activation = description.get("activation", "identity" if len(layers) == 1 else None)
    if not isinstance(activation, str):
        raise UsageError("activation is missing: expected its name, as 'tanh'")
    normaliser = read_statistics(description, tensors, beside)
    policy = NetworkPolicy(
        layers, activation, head.name, options=head.options, normaliser=normaliser, **head.arrays
    )
    return policy, read_info(description, policy)


def described_outputs(
    model: Model,
    description: Mapping[str, Any],
    beside: Beside,
    *,
    known: frozenset[str] = frozenset({"output"}),
    obvious: bool = False,
    discrete: str = "categorical",
) -> tuple[OutputPolicy, dict[str, Any]]:
    """Make a policy of a model and of what a description says of its outputs.

    How real numbers are understood of which nobody says what they mean is assumed, unless that is
    ``obvious``.
    """
    refuse_unknown(description, COMMON | known)
    if not obvious and "head" not in description:
        beside.assume(
            "outputs taken as logits of discrete actions, or as real actions themselves; head in a "
            ".json beside can say otherwise"
        )
    head = read_head(description, {}, discrete)
    normaliser = read_statistics(description, {}, beside)
    return OutputPolicy(model, head, normaliser), read_info(description)


def read_head(
    description: Mapping[str, Any], tensors: Tensors, discrete: str = "categorical"
) -> HeadDescription:
    """Read what a description says about the outputs.

    ``head`` is its name; ``log_std``, ``low`` and ``high`` are a list of numbers or the name of a
    tensor; other settings are those of `Options`.
    """
    head = description.get("head", "")
    if not isinstance(head, str):
        raise UsageError(f"head must be a name, but is {str(head)[:60]}")
    given = {key: description[key] for key in ARRAYS if description.get(key) is not None}
    arrays = {key: _named_or_numbers(value, key, tensors) for key, value in given.items()}
    options = read_options({key: description[key] for key in OPTIONS if key in description})
    return HeadDescription(head, options, arrays, discrete)


# Where libraries keep statistics among the tensors: library, names of mean and variance, epsilon,
# whether that is added to the deviation instead of the variance, and where it clips by default.
KEPT = {
    "running_mean_std": ("rl_games", "running_mean", "running_var", 1e-5, False, 5.0),
    # skrl 2 tells observations, which the policy sees, from states, which its critic may see.
    "observation_preprocessor": ("skrl", "running_mean", "running_variance", 1e-8, True, 5.0),
    "state_preprocessor": ("skrl", "running_mean", "running_variance", 1e-8, True, 5.0),
    # Of rsl_rl 5, of 3 and 4, and of those before.
    "obs_normalizer": ("rsl_rl", "_mean", "_var", 1e-2, True, math.inf),
    "actor_obs_normalizer": ("rsl_rl", "_mean", "_var", 1e-2, True, math.inf),
    "obs_norm_state_dict": ("rsl_rl", "_mean", "_var", 1e-2, True, math.inf),
}


def read_statistics(
    description: Mapping[str, Any], tensors: Tensors, beside: Beside
) -> Normaliser | None:
    """Read ``normaliser``: ``mean``, ``var``, and maybe ``epsilon`` (1e-8) and ``clip``.

    ``mean`` and ``var`` are lists of numbers or names of tensors. Where a description does not
    mention it, statistics that a library is known to keep among ``tensors`` count.
    """
    if "normaliser" not in description:
        return _statistics_inside(tensors, beside)
    value = description["normaliser"]
    if value is None:
        return None
    if not isinstance(value, dict):
        raise UsageError("normaliser must be an object with mean and var")
    refuse_unknown(value, {"mean", "var", "epsilon", "clip"}, "normaliser")
    mean, variance = (_named_or_numbers(value.get(key), key, tensors) for key in ("mean", "var"))
    (epsilon,) = numbers([value.get("epsilon", 1e-8)], "epsilon")
    (clip,) = numbers([value.get("clip", math.inf)], "clip")
    return Normaliser.of_variance(mean, variance, epsilon, clip)


def _statistics_inside(tensors: Tensors, beside: Beside) -> Normaliser | None:
    """Find statistics by the names that libraries give them; None if there are none.

    Their epsilon and limit are not in the file: that the library's own are taken is assumed.
    """
    for folder, (library, first, second, epsilon, outside, limit) in KEPT.items():
        names = (f"{folder}.{first}", f"{folder}.{second}")
        if not all(name in tensors for name in names):
            continue
        mean, variance = (_named_or_numbers(name, name, tensors) for name in names)
        if mean.shape != variance.shape or (variance < 0).any():
            raise UsageError(f"{' and '.join(names)} are no mean and variance")
        clipped = f" and clipped at {limit:g}" if limit < math.inf else ""
        beside.assume(
            f"normalised by {folder} in the file, with epsilon {epsilon:g}{clipped} as {library} "
            "does by default; a .json beside can say otherwise"
        )
        if outside:
            return Normaliser(mean, np.sqrt(variance) + epsilon, np.full(mean.shape, limit))
        return Normaliser.of_variance(mean, variance, epsilon, limit)
    return None


def read_info(
    description: Mapping[str, Any], policy: NetworkPolicy | None = None
) -> dict[str, Any]:
    """Read ``info``, free values about the policy; ``normaliser`` tells that there is one."""
    info = description.get("info", {})
    if not isinstance(info, dict):
        raise UsageError("info in its description must be a JSON object")
    if description.get("normaliser") is not None:
        return {**info, "normaliser": "its description"}
    if policy is not None and policy.normaliser is not None:
        return {**info, "normaliser": "statistics in the file"}
    return dict(info)


def _tensor(name: str, what: str, tensors: Tensors) -> NDArray[Any]:
    """Give the tensor of numbers that a description names."""
    if name not in tensors:
        known = f", but {', '.join(list(tensors)[:8])[:200]}" if tensors else ""
        raise UsageError(f"{what} is said to be the tensor {name[:80]!r}, which is missing{known}")
    if tensors[name].dtype.kind not in "biuf":
        raise UsageError(f"{what} is said to be {name[:80]!r}, which holds no numbers")
    return tensors[name]


def _named_or_numbers(value: Any, what: str, tensors: Tensors) -> NDArray[np.float64]:
    """Make a vector of a list of numbers, or of the tensor that is named."""
    if not isinstance(value, str):
        return numbers(value, what)
    return _tensor(value, what, tensors).ravel().astype(np.float64)


def numbers(value: Any, what: str) -> NDArray[np.float64]:
    """Make a vector of a list of numbers."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RecursionError):
        array = np.array(np.nan)
    if array.ndim != 1 or np.isnan(array).any():
        raise UsageError(f"{what} must be a list of numbers")
    return array


def choice(description: Mapping[str, Any], key: str, known: tuple[str, ...], default: str) -> str:
    """Read a setting that is one of a few words."""
    value = description.get(key, default)
    if value not in known:
        raise UsageError(f"{key} must be {' or '.join(known)}, but is {str(value)[:60]!r}")
    return str(value)


def refuse_unknown(
    description: Mapping[str, Any], known: frozenset[str] | set[str], what: str = "a description"
) -> None:
    """Refuse keys that nobody reads: they are misspelt more often than not."""
    if odd := sorted(set(description) - known):
        raise UsageError(
            f"{odd[0][:60]!r} is nothing that {what} has: expected {', '.join(sorted(known))}"
        )


def _layer(entry: Any, tensors: Tensors, order: str) -> Layer:
    bias_name: str | None
    match entry:
        case str():
            weight_name, bias_name = f"{entry}.weight", f"{entry}.bias"
        case [str(weight_name), (str() | None) as bias_name]:
            pass
        case _:
            raise UsageError(f"a layer must be a name or a pair of names, not {str(entry)[:60]}")
    weight = _tensor(weight_name, "a weight", tensors)
    if weight.ndim != 2:
        raise UsageError(f"{weight_name[:80]!r} is no matrix: its shape is {weight.shape}")
    weight = weight.T if order == "out-in" else weight
    if bias_name is None:
        return weight, np.zeros(weight.shape[1], np.float32)
    return weight, _tensor(bias_name, "a bias", tensors)


# -----------------------------------------------------------------------------
# Parameter vectors, as CMA-ES gives them, and arrays by name; a JSON beside states the layout.


MAX_SIZE = 1 << 20
MAX_HEADER = 1 << 16  # NumPy itself refuses to parse longer ones
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
SEQUENCES = ("weights-biases", "biases-weights")


@reader
def read_npy(data: bytes, beside: Beside) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Read a parameter vector in a ``.npy`` file with a description beside it."""
    return _read({"vector": parse_npy(data)}, beside)


@reader
def read_npz(data: bytes, beside: Beside) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Read a parameter vector, or weights by name, in a ``.npz`` with a description beside it."""
    return _read(unpack_npz(data, Budget(len(data), "it")), beside)


def _read(arrays: Tensors, beside: Beside) -> tuple[NetworkPolicy, dict[str, Any]]:
    description = beside.description()
    if description is None:
        raise BadPolicyFile(
            "it holds arrays and is no policy without a .json of the same name (or policies.json) "
            "beside it that states the layers; recorded states are read by `pivec import`, or in "
            "Python by VisitedStates.from_arrays"
        )
    if "sizes" not in description:
        return described_network(description, arrays, beside)
    known = {"sizes", "vector", "weights", "biases", "sequence", "activation"}
    refuse_unknown(description, COMMON | known)
    sizes, biases = description["sizes"], description.get("biases", True)
    if (
        not isinstance(sizes, list)
        or len(sizes) < 2
        or not all(type(n) is int and 0 < n < MAX_SIZE for n in sizes)
    ):
        raise UsageError("sizes must be the widths of the layers, the input's first, as [4, 16, 2]")
    if not isinstance(biases, bool):
        raise UsageError("biases must be true or false")
    layers = split_vector(
        _vector(arrays, description.get("vector")),
        sizes,
        biases=biases,
        order=choice(description, "weights", ORDERS, "in-out"),
        sequence=choice(description, "sequence", SEQUENCES, "weights-biases"),
    )
    return make_network(description, layers, arrays, beside)


def _vector(arrays: Tensors, key: Any) -> NDArray[Any]:
    if key is None and len(arrays) == 1:
        key = next(iter(arrays))
    if not isinstance(key, str) or key not in arrays:
        known = ", ".join(list(arrays)[:8])
        raise UsageError(f"vector must be the name of an array: one of {known[:200]}")
    vector = arrays[key]
    if vector.ndim != 1:
        raise UsageError(
            f"expected one parameter vector, but {key[:60]!r} has shape {vector.shape}: save one "
            "member of a population to a file"
        )
    return vector


def split_vector(
    vector: NDArray[Any],
    sizes: list[int],
    *,
    biases: bool = True,
    order: str = "in-out",
    sequence: str = "weights-biases",
) -> tuple[Layer, ...]:
    """Cut a parameter vector into layers, one after another.

    ``sizes`` are the widths of the layers, the input's first; without ``biases`` they are 0.
    ``order`` is "in-out" for weights in rows of one input each, "out-in" for rows of one output
    each; ``sequence`` says what comes first in each layer.
    """
    pairs = list(pairwise(sizes))
    expected = sum(n_in * n_out + biases * n_out for n_in, n_out in pairs)
    if vector.shape != (expected,):
        raise UsageError(
            f"a network of sizes {sizes[:20]} has {expected} parameters, but the vector holds "
            f"{vector.size}"
        )
    layers: list[Layer] = []
    at = 0
    for n_in, n_out in pairs:
        parts: dict[str, NDArray[Any]] = {"biases": np.zeros(n_out)}
        for part in sequence.split("-"):
            if part == "biases" and not biases:
                continue
            size = n_out if part == "biases" else n_in * n_out
            parts[part] = vector[at : at + size]
            at += size
        shape = (n_out, n_in) if order == "out-in" else (n_in, n_out)
        weights = parts["weights"].reshape(shape)
        layers.append((weights.T if order == "out-in" else weights, parts["biases"]))
    return tuple(layers)


def unpack_npz(
    source: bytes | BinaryIO, budget: Budget, kinds: str = "biuf", only: str = ""
) -> Tensors:
    """Read the arrays of a ``.npz`` file by their names, or ``only`` one if it is there."""
    archive, arrays = BoundedZip(source, budget), {}
    for member in archive.members:
        if member == f"{only}.npy" if only else member.endswith(".npy"):
            with about(f"{member} in it"):
                arrays[member.removesuffix(".npy")] = parse_npy(archive.read(member), kinds)
    return arrays


def parse_npy(data: bytes | bytearray, kinds: str = "biuf") -> NDArray[Any]:
    """Read the numbers of a ``.npy`` file; its header cannot claim more than there is.

    ``kinds`` are the kinds of dtypes that are taken, as NumPy abbreviates them.
    """
    stream = io.BytesIO(data[:MAX_HEADER])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers of Python 2 are read as well
            shape, fortran, dtype = HEADERS[np.lib.format.read_magic(stream)](stream)
    except Exception as error:  # the header is parsed as Python, with errors of many kinds
        raise BadPolicyFile(f"it is no array of NumPy, or damaged ({error})") from error
    if dtype.kind not in kinds or not dtype.itemsize:
        raise BadPolicyFile(f"it holds values of the kind {str(dtype)[:60]}, not numbers")
    if not all(type(n) is int and n >= 0 for n in shape):
        raise BadPolicyFile("it is damaged: its shape makes no sense")
    count, start = math.prod(shape), stream.tell()
    if count * dtype.itemsize != len(data) - start:
        raise BadPolicyFile(f"it is truncated: an array of shape {str(shape)[:80]}")
    flat = np.frombuffer(data, dtype, count, start) if count else np.zeros(0, dtype)
    flat = flat.astype(dtype.newbyteorder("="), copy=False)
    try:
        return flat.reshape(shape, order="F" if fortran else "C")
    except ValueError as error:  # nothing in it, but huge along the other axes
        raise BadPolicyFile("it has a shape that makes no sense") from error
