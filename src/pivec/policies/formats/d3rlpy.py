"""Files of d3rlpy (``algo.save("model.d3")``), read without torch and without d3rlpy.

A pickle holds a torch file with the weights and the configuration as JSON, which has all settings
but the ranges of some deviations: these are the same for all policies of an algorithm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from pivec.errors import BadPolicyFile
from pivec.files import Budget
from pivec.policies.extractors import DenseFeatures, assemble, find_features
from pivec.policies.formats import CheckpointFiles, Read, read_json, reader
from pivec.policies.formats.described import averaged, linear, make_network, spelt
from pivec.policies.forward import Normaliser, Tensors
from pivec.policies.networks import Features
from pivec.policies.tensors import read_objects, read_torch

# Type of the algorithm -> the module that acts, and its action distribution.
ALGORITHMS = {
    **dict.fromkeys(("dqn", "double_dqn", "nfq", "discrete_cql"), ("q_funcs", "epsilon_greedy")),
    "discrete_bc": ("imitator", "epsilon_greedy"),  # it always takes the best action
    "discrete_sac": ("policy", "categorical"),
    "bc": ("imitator", "deterministic"),
    **dict.fromkeys(("ddpg", "td3", "td3_plus_bc", "rebrac", "prdc"), ("policy", "deterministic")),
    **dict.fromkeys(("sac", "cql", "cal_ql"), ("policy", "state_gaussian")),
    **dict.fromkeys(("awac", "iql"), ("policy", "gaussian")),
}
LOG_STD = {"awac": (-6.0, 0.0), "iql": (-5.0, 2.0)}  # least and most
INSTEAD = "which is not supported: load it with d3rlpy and pass it as module:object"


@reader
def read_d3rlpy(data: bytes, files: CheckpointFiles) -> Read:
    """Read a ``.d3`` file; its configuration and weights are never run."""
    budget = Budget(len(data), files.name)
    match read_objects(data, ()):
        case {"torch": bytes(weights), "config": str(text)}:
            settings, modules = read_json(text.encode(), budget), read_torch(weights, budget)
        case _:
            raise BadPolicyFile("it does not hold weights and a configuration, as d3rlpy writes")
    kind, params = _typed(settings, "config")
    if kind not in ALGORITHMS:
        raise BadPolicyFile(f"it was written by the algorithm {kind[:40]!r}, {INSTEAD}")
    module, head = ALGORITHMS[kind]
    saved = modules.get(module) if isinstance(modules, dict) else None
    tensors = {k: v for k, v in (saved or {}).items() if isinstance(v, np.ndarray)}
    if module == "q_funcs":
        if "1._fc.weight" in tensors:
            raise BadPolicyFile(f"it has several critics, {INSTEAD}")
        tensors = {key.removeprefix("0."): array for key, array in tensors.items()}
    encoder = _typed(params, "encoder_factory" if module != "policy" else "actor_encoder_factory")
    scaler, statistics = _typed(params, "observation_scaler")
    shape = settings.get("observation_shape")
    hidden, activation, images = _encoder(tensors, shape, scaler, *encoder)
    last = linear(tensors, "_mu" if "_mu.weight" in tensors else "_fc")
    known: dict[str, Any] = {"layers": [*hidden, last], "activation": activation, "head": head}
    known |= {"normaliser": None, "parallel": "_logstd" if head == "state_gaussian" else None}
    if module == "q_funcs":
        function, _ = _typed(params, "q_func_factory")
        if function not in ("mean", "qr"):
            raise BadPolicyFile(f"it has a Q function of type {function[:40]!r}, {INSTEAD}")
        if function == "qr":
            known["layers"][-1] = averaged(last, settings.get("action_size"), 1)
    elif not kind.startswith("discrete"):
        known |= _bounds(params, len(last[1]))
    features = images
    if head == "gaussian":  # tanh is applied to means only
        if images is not None:
            raise BadPolicyFile(f"it takes images to actions with tanh, {INSTEAD}")
        least, most = LOG_STD[kind]
        share = 1 / (1 + np.exp(-np.float64(tensors.get("_logstd", np.zeros(0))).ravel()))
        known |= {"log_std": least + share * (most - least), "squash": "clip"}
        known["layers"] = [(np.eye(len(last[1])), np.zeros(len(last[1])))]
        features = DenseFeatures((*hidden, last), activation, "tanh")
    normaliser = _normaliser(scaler, statistics)
    info = {"library": "d3rlpy", "algorithm": kind}
    info |= {"normaliser": f"its {scaler} scaler"} if normaliser is not None else {}
    return assemble(make_network(known, tensors, files), normaliser, features), info


def _typed(settings: Mapping[str, Any], key: str) -> tuple[str, dict[str, Any]]:
    """Type and parameters of a part of the configuration."""
    match settings.get(key):
        case {"type": str(kind), "params": dict(params)}:
            return kind, params
        case None:
            return "none", {}
    raise BadPolicyFile(f"its configuration has no type of its {key}")


def _encoder(
    tensors: Tensors, shape: Any, scaler: str, kind: str, params: Mapping[str, Any]
) -> tuple[list[Any], str, Features | None]:
    """Hidden layers, their activation, and the convolutions before them."""
    activation = spelt(params.get("activation", "relu"))
    other = ("use_batch_norm", "use_layer_norm", "exclude_last_activation", "last_activation")
    if odd := [key for key in other if params.get(key)]:
        raise BadPolicyFile(f"its encoder has {odd[0]}, {INSTEAD}")
    if kind not in ("default", "vector", "pixel"):
        raise BadPolicyFile(f"it has an encoder of type {kind[:40]!r}, {INSTEAD}")
    places = [re.fullmatch(r"(_encoder\._(cnn_)?layers\.)(\d{1,4})\.weight", k) for k in tensors]
    found = sorted((int(place[3]), place[1]) for place in places if place)
    names = [f"{prefix}{number}" for number, prefix in found]
    if not any("cnn" in name for name in names):
        return [linear(tensors, name) for name in names], activation, None
    filters = params.get("filters", [[32, 8, 4], [64, 4, 2], [64, 3, 1]])
    match shape:
        case [int(), int(), int()] if activation == "relu" and scaler in ("none", "pixel"):
            kernels = tuple((size, stride) for _, size, stride in filters)
            scale = 255.0 if scaler == "pixel" else 1.0
            last = "_encoder._last_layers.0"
            return [], "relu", find_features(tensors, names, last, shape, kernels, scale)
    raise BadPolicyFile(f"it takes images in an unusual way, {INSTEAD}")


def _bounds(params: Mapping[str, Any], n: int) -> dict[str, Any]:
    """Bounds of actions, which d3rlpy has in [-1, 1] unless a scaler states others."""
    match _typed(params, "action_scaler"):
        case "none", _:
            low, high = [-1.0] * n, [1.0] * n
        case "min_max", {"minimum": list(low), "maximum": list(high)}:
            pass
        case kind, _:
            raise BadPolicyFile(f"it has an action scaler of type {kind[:40]!r}, {INSTEAD}")
    return {"squash": True, "low": low, "high": high}


def _normaliser(kind: str, values: Mapping[str, Any]) -> Normaliser | None:
    """The observation scaler."""
    match kind, values:
        case (("none" | "pixel"), _):
            return None
        case "standard", {"mean": list(mean), "std": list(std), "eps": int() | float() as epsilon}:
            middle, scale = np.array(mean, np.float64), np.array(std, np.float64) + epsilon
        case "min_max", {"minimum": list(least), "maximum": list(most)}:
            low, high = np.array(least, np.float64), np.array(most, np.float64)
            middle, scale = (low + high) / 2, (high - low) / 2
        case _:
            raise BadPolicyFile(f"it has an observation scaler of type {kind[:40]!r}, {INSTEAD}")
    return Normaliser(middle, scale, np.full(middle.shape, np.inf))
