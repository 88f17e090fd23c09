"""Reads policies that Brax trained, without Brax and JAX: pickles of ``brax.io.model.save_params``.

They are a tuple of the statistics of observations, the parameters of the policy and maybe those of
its critic. Checkpoints in folders have the same content, see `pivec.policies.orbax`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies.described import read_info, read_statistics, refuse_unknown
from pivec.policies.flax import find_chain, flat_tensors
from pivec.policies.formats import Beside, reader
from pivec.policies.forward import Layer
from pivec.policies.head import Options
from pivec.policies.network import NetworkPolicy
from pivec.policies.normaliser import Normaliser
from pivec.policies.pickles import Object, as_array, read_objects
from pivec.policies.tensors import Tensors
from pivec.reading import Budget

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
