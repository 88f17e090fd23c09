"""Networks and outputs described by a small JSON object, wherever their tensors come from.

Many files hold weights only. A description next to them (``<name>.json`` or ``policies.json``)
states the activation, the head (see `pivec.policies.distributions`) and its settings, a
normaliser, and the layers where their names do not tell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.distributions import DistributionSpec, Options
from pivec.policies.formats import CheckpointFiles
from pivec.policies.forward import Layer, Normaliser
from pivec.policies.networks import Model, NetworkPolicy, OutputPolicy
from pivec.policies.tensors import Tensors

ARRAYS = ("log_std", "low", "high")
OPTIONS = tuple(option.name for option in fields(Options))
COMMON = frozenset({"head", *ARRAYS, *OPTIONS, "normaliser", "info"})
MAX_LAYERS = 1000
ORDERS = ("out-in", "in-out")
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
) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Make the network that a description finds among named tensors, and its ``info``.

    The description has ``layers``, a list of prefixes ("actor.0", for actor.0.weight and
    actor.0.bias) or of pairs of names (weight, bias or null); ``weights``, "out-in" as in torch
    (the default) or "in-out"; ``activation``; and the keys of `read_head` and `read_info`.
    """
    check_keys(description, COMMON | {"layers", "weights", "activation"})
    order = choice(description, "weights", ORDERS, "out-in")
    listed = description.get("layers")
    if not isinstance(listed, list) or not 0 < len(listed) <= MAX_LAYERS:
        raise UsageError("layers must be a list of the names of the layers' tensors")
    layers = tuple(_layer(entry, tensors, order) for entry in listed)
    return make_network(description, layers, tensors, files)


def make_network(
    description: Mapping[str, Any],
    layers: tuple[Layer, ...],
    tensors: Tensors,
    files: CheckpointFiles,
) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Make a network of layers and a description of everything else."""
    head = read_head(description, tensors)
    if not head.name:
        raise UsageError("head is missing: expected what the outputs mean, as 'categorical'")
    activation = description.get("activation", "identity" if len(layers) == 1 else None)
    if not isinstance(activation, str):
        raise UsageError("activation is missing: expected its name, as 'tanh'")
    normaliser = read_statistics(description, tensors, files)
    policy = NetworkPolicy(
        layers, activation, head.name, options=head.options, normaliser=normaliser, **head.arrays
    )
    return policy, read_info(description, policy)


def described_outputs(
    model: Model,
    description: Mapping[str, Any],
    files: CheckpointFiles,
    *,
    known: frozenset[str] = frozenset({"output"}),
    obvious: bool = False,
    discrete: str = "categorical",
) -> tuple[OutputPolicy, dict[str, Any]]:
    """Make a policy of a model and a description of its outputs.

    Without a description of the outputs, their meaning is assumed, unless it is ``obvious``.
    """
    check_keys(description, COMMON | known)
    if not obvious and "head" not in description:
        files.assume(
            "outputs taken as logits of discrete actions, or as real actions; set head in a .json "
            "next to it to change this"
        )
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
            case ("choices" | "shape", list()) if all(
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
    if "normaliser" not in description:
        return _library_statistics(tensors, files)
    value = description["normaliser"]
    if value is None:
        return None
    if not isinstance(value, dict):
        raise UsageError("normaliser must be an object with mean and var")
    check_keys(value, {"mean", "var", "epsilon", "clip"}, "normaliser")
    mean, variance = (_named_or_numbers(value.get(key), key, tensors) for key in ("mean", "var"))
    (epsilon,) = _numbers([value.get("epsilon", 1e-8)], "epsilon")
    (clip,) = _numbers([value.get("clip", math.inf)], "clip")
    return Normaliser.of_variance(mean, variance, epsilon, clip)


def _library_statistics(tensors: Tensors, files: CheckpointFiles) -> Normaliser | None:
    """Statistics under the names that libraries use, with the library's epsilon and limit."""
    for folder, (library, first, second, epsilon, outside, limit) in STATISTICS.items():
        names = (f"{folder}.{first}", f"{folder}.{second}")
        if not all(name in tensors for name in names):
            continue
        mean, variance = (_named_or_numbers(name, name, tensors) for name in names)
        if mean.shape != variance.shape or (variance < 0).any():
            raise UsageError(f"{' and '.join(names)} are not a mean and a variance")
        clipped = f" and clipped at {limit:g}" if limit < math.inf else ""
        files.assume(
            f"normalised by {folder} in the file, with epsilon {epsilon:g}{clipped} as {library} "
            "does by default; set normaliser in a .json next to it to change this"
        )
        if outside:
            return Normaliser(mean, np.sqrt(variance) + epsilon, np.full(mean.shape, limit))
        return Normaliser.of_variance(mean, variance, epsilon, limit)
    return None


def read_info(
    description: Mapping[str, Any], policy: NetworkPolicy | None = None
) -> dict[str, Any]:
    """Read ``info``, free values about the policy; ``normaliser`` in it names the statistics."""
    info = description.get("info", {})
    if not isinstance(info, dict):
        raise UsageError("info in its description must be a JSON object")
    if description.get("normaliser") is not None:
        return {**info, "normaliser": "its description"}
    if policy is not None and policy.normaliser is not None:
        return {**info, "normaliser": "statistics in the file"}
    return dict(info)


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
        raise UsageError(f"{weight_name[:80]!r} is not a matrix: its shape is {weight.shape}")
    weight = weight.T if order == "out-in" else weight
    if bias_name is None:
        return weight, np.zeros(weight.shape[1], np.float32)
    return weight, _tensor(bias_name, "a bias", tensors)
