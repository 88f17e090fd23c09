"""Reads the state dictionaries that CleanRL saves, and any other that a description explains.

CleanRL's scripts save the weights alone; which script it was, and so what the outputs mean, is
told by the names of the tensors. Nothing of the file is run, see `pivec.policies.tensors`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies.beside import Beside
from pivec.policies.described import (
    COMMON,
    checked,
    described_network,
    read_head,
    read_info,
    read_statistics,
    refuse_unknown,
)
from pivec.policies.forward import Layer
from pivec.policies.head import Options
from pivec.policies.network import NetworkPolicy
from pivec.policies.sb3_networks import linear, numbered, to_float
from pivec.policies.tensors import read_torch

Tensors = dict[str, NDArray[Any]]

# Where training scripts put the weights among other things.
WRAPPERS = ("state_dict", "model_state_dict", "model", "agent", "actor", "policy")
NOT_SAVED = "none (CleanRL normalises observations here, but does not save the statistics)"


def read_cleanrl(
    data: bytes, name: str = "the file", beside: Beside | None = None
) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Read a ``.cleanrl_model`` or ``.pth`` file.

    A description beside it (a .json of the same name, or policies.json) may set activation, head,
    epsilon or a normaliser where they differ from CleanRL's, or state the ``layers`` of any other
    network.

    Parameters
    ----------
    data : bytes
        The whole file.
    name : str
        What error messages call it.
    beside : Beside, optional

    Returns
    -------
    policy : NetworkPolicy
    info : dict
        ``algorithm`` where the names of the tensors tell, and what the description holds.
    """
    tensors, others = _weights(read_torch(data, name), name)
    everything = {**others, **tensors}
    beside = beside or Beside()
    description = beside.description(name) or {}
    if "layers" in description:
        return described_network(description, everything, name, beside)
    algorithm, build = _script(tensors, name)
    policy: NetworkPolicy = checked(
        lambda: _changed(build(), description, everything, beside), name
    )
    if "activation" not in description and len(policy.layers) > 1:
        beside.assume(
            f"activation assumed {policy.activation}, as CleanRL's {algorithm} has it; a .json "
            "beside can say otherwise"
        )
    info: dict[str, Any] = {"algorithm": algorithm}
    if algorithm == "PPO" and policy.head == "gaussian" and policy.normaliser is None:
        info["normaliser"] = NOT_SAVED
        if "normaliser" not in description:
            beside.assume(
                "observations are not normalised, though CleanRL's PPO with real actions does so "
                "(it does not save the statistics); normaliser in a .json beside can give them"
            )
    return policy, {**info, **read_info(description, name, policy)}


def _weights(value: Any, name: str) -> tuple[Tensors, Tensors]:
    """Find the named tensors of the actor in what was saved, and those that lie beside them.

    The latter are named by where they are, as ``state_preprocessor.running_mean``.
    """
    others: Tensors = {}
    if isinstance(value, tuple | list) and value:  # DDPG and TD3 save the actor and its critics
        value = value[0]
    if isinstance(value, dict) and "model_weights" in value:
        raise BadPolicyFile(
            f"{name}: this looks like CleanRL's C51, whose outputs are distributions of returns: "
            "expected PPO, DQN, DDPG, TD3 or SAC; pass it as module:object."
        )
    for wrapper in WRAPPERS:
        if isinstance(value, dict) and isinstance(value.get(wrapper), dict):
            others = {
                f"{part}.{key}": array
                for part, content in value.items()
                if part != wrapper and isinstance(part, str) and isinstance(content, dict)
                for key, array in content.items()
                if isinstance(key, str) and isinstance(array, np.ndarray)
            }
            value = value[wrapper]
            break
    if not isinstance(value, dict) or not value:
        raise BadPolicyFile(f"{name} holds no dictionary of tensors.")
    for key, each in value.items():
        if not isinstance(key, str) or not isinstance(each, np.ndarray):
            raise BadPolicyFile(f"{name} holds something else than named tensors.")
    return dict(value), others


def _script(tensors: Tensors, name: str) -> tuple[str, Callable[[], NetworkPolicy]]:
    """Which of CleanRL's scripts saved this, and how its policy is made."""
    parts = {key.partition(".")[0] for key in tensors}
    if "actor_mean" in parts and "actor_logstd" in parts:
        log_std = to_float(tensors["actor_logstd"]).ravel()
        return "PPO", lambda: NetworkPolicy(
            _sequence(tensors, "actor_mean", name), "tanh", "gaussian", log_std
        )
    if {"fc1", "fc2", "fc_mu"} <= parts:
        low, high = _box(tensors, name)
        layers = [linear(tensors, prefix, name) for prefix in ("fc1", "fc2", "fc_mu")]
        return "DDPG or TD3", lambda: NetworkPolicy(
            tuple(layers), "relu", "deterministic", None, low, high, Options(squash=True)
        )
    if {"fc1", "fc2", "fc_mean", "fc_logstd"} <= parts:
        low, high = _box(tensors, name)
        mean, spread = (linear(tensors, prefix, name) for prefix in ("fc_mean", "fc_logstd"))
        if mean[0].shape != spread[0].shape:
            raise BadPolicyFile(f"{name}: its means and deviations are of different sizes.")
        last = (np.concatenate([mean[0], spread[0]], 1), np.concatenate([mean[1], spread[1]]))
        layers = [*(linear(tensors, prefix, name) for prefix in ("fc1", "fc2")), last]
        # CleanRL's SAC: log_std = tanh(x) brought from [-1, 1] to [-5, 2].
        options = Options(squash=True, deviations="tanh", log_std_range=(-5.0, 2.0))
        return "SAC", lambda: NetworkPolicy(
            tuple(layers), "relu", "state_gaussian", None, low, high, options
        )
    if "actor" in parts and "actor.weight" not in tensors:
        return "PPO", lambda: NetworkPolicy(
            _sequence(tensors, "actor", name), "tanh", "categorical"
        )
    if "network" in parts and "actor" not in parts and "atoms" not in parts:
        return "DQN", lambda: NetworkPolicy(
            _sequence(tensors, "network", name), "relu", "epsilon_greedy"
        )
    found = ", ".join(list(tensors)[:6])
    raise BadPolicyFile(
        f"{name} is not named as any of CleanRL's networks ({found[:200]}): put a .json of the "
        "same name beside it that states the layers."
    )


def _sequence(tensors: Tensors, prefix: str, name: str) -> tuple[Layer, ...]:
    if any(each.ndim > 2 for key, each in tensors.items() if key.startswith(prefix + ".")):
        raise BadPolicyFile(
            f"{name} has convolutions, which are not supported here: export it to ONNX."
        )
    return tuple(linear(tensors, each, name) for each in numbered(tensors, prefix, name))


def _box(tensors: Tensors, name: str) -> tuple[Any, Any]:
    """Bounds of the actions, which CleanRL keeps as scale and bias of tanh."""
    if "action_scale" not in tensors or "action_bias" not in tensors:
        return None, None
    scale, bias = (to_float(tensors[key]).ravel() for key in ("action_scale", "action_bias"))
    if scale.shape != bias.shape:
        raise BadPolicyFile(f"{name}: its action_scale and action_bias are of different sizes.")
    return bias - scale, bias + scale


def _changed(
    policy: NetworkPolicy, description: Mapping[str, Any], tensors: Tensors, beside: Beside
) -> NetworkPolicy:
    """The policy with what a description says instead of CleanRL's defaults."""
    refuse_unknown(description, COMMON | {"activation"})
    given = read_head(description, tensors)
    changes: dict[str, Any] = dict(given.arrays)
    if given.options != Options():
        changes["options"] = given.options
    if given.name:
        changes["head"] = given.name
        if given.name != "gaussian":
            changes.setdefault("log_std", None)
    if "activation" in description:
        if not isinstance(description["activation"], str):
            raise UsageError("activation must be a name, as 'tanh'.")
        changes["activation"] = description["activation"]
    if (statistics := read_statistics(description, tensors, beside)) is not None:
        changes["normaliser"] = statistics
    return replace(policy, **changes) if changes else policy
