"""Networks that a small JSON describes, whatever file their tensors come from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, PivecError, UsageError
from pivec.policies.beside import Beside
from pivec.policies.forward import Layer
from pivec.policies.head import Options
from pivec.policies.inside import statistics_inside
from pivec.policies.network import NetworkPolicy
from pivec.policies.normaliser import Normaliser
from pivec.policies.outputs import HeadDescription
from pivec.policies.saved import policy_of, read_options, read_safetensors

Tensors = dict[str, NDArray[Any]]

ARRAYS = ("log_std", "low", "high")
OPTIONS = tuple(each.name for each in fields(Options))
COMMON = frozenset({"head", *ARRAYS, *OPTIONS, "normaliser", "info"})
MAX_LAYERS = 1000
ORDERS = ("out-in", "in-out")


def read_described_safetensors(
    data: bytes, name: str = "the file", beside: Beside | None = None
) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Read a ``.safetensors`` file: one that pivec saved, or any with a description beside it."""
    tensors, metadata = read_safetensors(data, name)
    beside = beside or Beside()
    description = beside.description(name)
    if description is None or metadata.get("format") == "pivec-policy":
        return policy_of(tensors, metadata, name)
    return described_network(description, tensors, name, beside)


def described_network(
    description: Mapping[str, Any], tensors: Tensors, name: str, beside: Beside | None = None
) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Make the network that a description finds among named tensors, and its ``info``.

    Parameters
    ----------
    description : mapping
        ``layers``, a list of prefixes ("actor.0", of actor.0.weight and actor.0.bias) or of pairs
        of names (weight, bias or null); ``weights``, "out-in" as torch has them (the default) or
        "in-out"; ``activation``; and what `read_head` and `read_info` know.
    tensors : dict
        Statistics among them that a library is known to keep are applied, unless the description
        says something else.
    name : str
        What error messages call the file.
    beside : Beside, optional
        Notes what had to be assumed.
    """

    def build() -> NetworkPolicy:
        refuse_unknown(description, COMMON | {"layers", "weights", "activation"})
        order = choice(description, "weights", ORDERS, "out-in")
        listed = description.get("layers")
        if not isinstance(listed, list) or not 0 < len(listed) <= MAX_LAYERS:
            raise UsageError("layers must be a list of the names of the layers' tensors.")
        layers = tuple(_layer(entry, tensors, order) for entry in listed)
        return make_network(description, layers, tensors, beside)

    policy: NetworkPolicy = checked(build, name)
    return policy, read_info(description, name, policy)


def make_network(
    description: Mapping[str, Any],
    layers: tuple[Layer, ...],
    tensors: Tensors,
    beside: Beside | None = None,
) -> NetworkPolicy:
    """Make a network of layers and of what a description says of everything else."""
    head = read_head(description, tensors)
    if not head.name:
        raise UsageError("head is missing: expected what the outputs mean, as 'categorical'.")
    activation = description.get("activation")
    if not isinstance(activation, str) and len(layers) > 1:
        raise UsageError("activation is missing: expected its name, as 'tanh'.")
    return NetworkPolicy(
        layers,
        activation if isinstance(activation, str) else "identity",
        head.name,
        options=head.options,
        normaliser=read_statistics(description, tensors, beside),
        **{key: value for key, value in head.arrays.items() if value is not None},
    )


def checked(build: Any, name: str) -> Any:
    """Call ``build``; whatever is wrong becomes an error that names the file."""
    try:
        return build()
    except BadPolicyFile:
        raise
    except PivecError as error:
        raise BadPolicyFile(f"{name} and its description do not make a policy: {error}") from error


def read_head(
    description: Mapping[str, Any], tensors: Tensors | None = None, discrete: str = "categorical"
) -> HeadDescription:
    """Read what a description says about the outputs.

    ``head`` is its name; ``log_std``, ``low`` and ``high`` are a list of numbers or the name of a
    tensor; other settings are those of `Options`.
    """
    head = description.get("head", "")
    if not isinstance(head, str):
        raise UsageError(f"head must be a name, not {str(head)[:60]}.")
    arrays: dict[str, Any] = {}
    for key in ARRAYS:
        value = description.get(key)
        if value is not None:
            arrays[key] = _named_or_numbers(value, key, tensors)
    options = read_options({key: description[key] for key in OPTIONS if key in description})
    return HeadDescription(head, options, arrays, discrete)


def read_statistics(
    description: Mapping[str, Any], tensors: Tensors | None = None, beside: Beside | None = None
) -> Normaliser | None:
    """Read ``normaliser``: ``mean``, ``var``, and maybe ``epsilon`` (1e-8) and ``clip``.

    ``mean`` and ``var`` are lists of numbers or names of tensors. Where a description does not
    mention it, statistics that a library is known to keep among ``tensors`` count.
    """
    if "normaliser" not in description:
        return statistics_inside(tensors or {}, beside)
    value = description["normaliser"]
    if value is None:
        return None
    if not isinstance(value, dict):
        raise UsageError("normaliser must be an object with mean and var.")
    refuse_unknown(value, {"mean", "var", "epsilon", "clip"}, "normaliser")
    mean, variance = (_named_or_numbers(value.get(key), key, tensors) for key in ("mean", "var"))
    epsilon, clip = (
        numbers([value.get(key, default)], key)[0]
        for key, default in (("epsilon", 1e-8), ("clip", math.inf))
    )
    with np.errstate(invalid="ignore"):
        scale = np.sqrt(variance + epsilon)
    return Normaliser(mean, scale, np.full(mean.shape, clip))


def read_info(
    description: Mapping[str, Any], name: str, policy: NetworkPolicy | None = None
) -> dict[str, Any]:
    """Read ``info``, free values about the policy; ``normaliser`` tells that there is one."""
    info = description.get("info", {})
    if not isinstance(info, dict):
        raise BadPolicyFile(f"{name}: info in its description must be a JSON object.")
    if description.get("normaliser") is not None:
        return {**info, "normaliser": "its description"}
    if policy is not None and policy.normaliser is not None:
        return {**info, "normaliser": "statistics in the file"}
    return dict(info)


def assume_head(description: Mapping[str, Any], beside: Beside | None) -> None:
    """Note how real numbers are understood of which nobody says what they mean."""
    if beside is not None and "head" not in description:
        beside.assume(
            "outputs taken as logits of discrete actions, or as real actions themselves; head in a "
            ".json beside can say otherwise"
        )


def _named_or_numbers(value: Any, what: str, tensors: Tensors | None) -> NDArray[np.float64]:
    """Make a vector of a list of numbers, or of the tensor that is named."""
    if not isinstance(value, str):
        return numbers(value, what)
    if tensors is None or value not in tensors:
        known = f", but {', '.join(list(tensors)[:8])[:200]}" if tensors else ""
        raise UsageError(
            f"{what} is said to be the tensor {value[:80]!r}, which is missing{known}."
        )
    if tensors[value].dtype.kind not in "biuf":
        raise UsageError(f"{what} is said to be {value[:80]!r}, which holds no numbers.")
    return tensors[value].ravel().astype(np.float64)


def numbers(value: Any, what: str) -> NDArray[np.float64]:
    """Make a vector of a list of numbers."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"{what} must be a list of numbers.") from error
    if array.ndim != 1 or np.isnan(array).any():
        raise UsageError(f"{what} must be a list of numbers.")
    return array


def choice(description: Mapping[str, Any], key: str, known: tuple[str, ...], default: str) -> str:
    """Read a setting that is one of a few words."""
    value = description.get(key, default)
    if value not in known:
        raise UsageError(f"{key} must be {' or '.join(known)}, not {str(value)[:60]!r}.")
    return str(value)


def refuse_unknown(
    description: Mapping[str, Any], known: frozenset[str] | set[str], what: str = "a description"
) -> None:
    """Refuse keys that nobody reads: they are misspelt more often than not."""
    if odd := sorted(set(description) - known):
        raise UsageError(
            f"{odd[0][:60]!r} is nothing that {what} has: expected {', '.join(sorted(known))}."
        )


def _layer(entry: Any, tensors: Tensors, order: str) -> Layer:
    bias_name: str | None
    match entry:
        case str():
            weight_name, bias_name = f"{entry}.weight", f"{entry}.bias"
        case [str(weight_name), (str() | None) as bias_name]:
            pass
        case _:
            raise UsageError(f"A layer must be a name or a pair of names, not {str(entry)[:60]}.")
    for each in (weight_name, bias_name):
        if each is not None and each not in tensors:
            known = ", ".join(list(tensors)[:8])
            raise UsageError(f"There is no tensor {each[:80]!r}, but {known[:200]}.")
    weight: NDArray[Any] = tensors[weight_name]
    if weight.ndim != 2 or weight.dtype.kind not in "biuf":
        raise UsageError(
            f"{weight_name[:80]!r} is no matrix of numbers: its shape is {weight.shape}."
        )
    weight = weight.T if order == "out-in" else weight
    bias: NDArray[Any] = np.zeros(weight.shape[1]) if bias_name is None else tensors[bias_name]
    if bias.dtype.kind not in "biuf":
        raise UsageError(f"{str(bias_name)[:80]!r} holds no numbers.")
    return weight, bias
