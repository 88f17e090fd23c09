"""Reads checkpoints of Stable-Baselines3 (PPO and A2C with MLP policies) without torch or SB3.

The JSON in the archive says what the policy is. Its pickled fields are never decoded; what is
needed of them is there as text as well. The weights come from `pivec.policies.tensors`.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, PivecError
from pivec.policies.archive import Archive
from pivec.policies.forward import Float, Layer
from pivec.policies.network import NetworkPolicy
from pivec.policies.tensors import read_tensors

Tensors = dict[str, NDArray[Any]]

ACTIVATION_MODULES = {
    "Tanh": "tanh",
    "ReLU": "relu",
    "ELU": "elu",
    "LeakyReLU": "leaky_relu",
    "Sigmoid": "sigmoid",
    "SiLU": "silu",
    "GELU": "gelu",
    "Identity": "identity",
}
PLAIN_EXTRACTORS = ("FlattenExtractor", "CombinedExtractor")


def read_sb3(data: bytes, name: str = "the file") -> tuple[NetworkPolicy, dict[str, Any]]:
    """Read the policy network of a Stable-Baselines3 ``.zip``, and what it tells of its training.

    Parameters
    ----------
    data : bytes
        The whole file.
    name : str
        What error messages call it.

    Returns
    -------
    policy : NetworkPolicy
    info : dict
        ``algorithm``, ``step`` (environment steps trained for) and ``sb3_version`` where known.
    """
    archive = Archive(data, name)
    if "data" not in archive or "policy.pth" not in archive:
        raise BadPolicyFile(
            f"{name} is a zip archive, but not of Stable-Baselines3: "
            "expected 'data' and 'policy.pth' in it."
        )
    try:
        settings = json.loads(archive.read("data"))
    except (ValueError, RecursionError) as error:
        raise BadPolicyFile(f"{name}: its JSON part is damaged ({error}).") from error
    if not isinstance(settings, dict):
        raise BadPolicyFile(f"{name}: its JSON part is no description of a model.")
    tensors = read_tensors(archive.read("policy.pth"), f"{name} (policy.pth)")
    algorithm = _algorithm(settings, tensors, name)
    _refuse_what_is_no_mlp(settings, tensors, name)
    layers = _layers(tensors, name)
    try:
        if _kind(settings, "action_space") == "Box":
            low, high = _box(_mapping(settings, "action_space"), layers[-1][1].shape)
            policy = NetworkPolicy(
                layers, _activation(settings, name), "gaussian", tensors["log_std"], low, high
            )
        else:
            policy = NetworkPolicy(layers, _activation(settings, name), "categorical")
    except BadPolicyFile:
        raise
    except PivecError as error:
        raise BadPolicyFile(f"{name} holds no usable network: {error}") from error
    info: dict[str, Any] = {"algorithm": algorithm}
    steps = settings.get("num_timesteps")
    if type(steps) is int and steps >= 0:
        info["step"] = steps
    if "_stable_baselines3_version" in archive:
        text = archive.read("_stable_baselines3_version")[:40].decode("utf-8", "replace")
        info["sb3_version"] = text.strip()
    return policy, info


def convert_sb3(model: Any) -> NetworkPolicy:
    """Take the policy network out of a PPO or A2C model that is in memory.

    Its actions then follow the generator they are given, where ``model.predict`` follows torch's
    global one, and it can be stacked with others.

    Raises
    ------
    BadPolicyFile
        If the model's policy is no plain MLP.
    """
    buffer = io.BytesIO()
    model.save(buffer)
    return read_sb3(buffer.getvalue(), f"the {type(model).__name__} model")[0]


def _mapping(settings: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = settings.get(key)
    return value if isinstance(value, dict) else {}


def _kind(settings: Mapping[str, Any], key: str) -> str:
    """Take the last name in text such as ``<class 'gymnasium.spaces.box.Box'>``."""
    return _class_name(_mapping(settings, key).get(":type:"))


def _class_name(text: Any) -> str:
    match = re.fullmatch(r"<class '([\w.]+)'>", text) if isinstance(text, str) else None
    return match.group(1).rpartition(".")[2] if match else ""


def _algorithm(settings: Mapping[str, Any], tensors: Tensors, name: str) -> str:
    """Which algorithm wrote this, or a refusal that names the one it probably was."""
    prefixes = {key.partition(".")[0] for key in tensors}
    other = None
    if "actor" in prefixes or "critic" in prefixes:
        if "policy_delay" in settings:
            other = "TD3 or DDPG"
        elif "top_quantiles_to_drop_per_net" in settings:
            other = "TQC"
        else:
            other = "SAC"
    elif "q_net" in prefixes:
        other = "DQN"
    elif "quantile_net" in prefixes:
        other = "QR-DQN"
    elif any(prefix.startswith("lstm_") for prefix in prefixes):
        other = "RecurrentPPO, whose policy has a memory"
    elif "maskable" in str(_mapping(settings, "policy_class").get("__module__", "")):
        other = "MaskablePPO, whose actions depend on masks"
    elif "action_net" not in prefixes:
        other = "something else than PPO or A2C"
    if other is not None:
        raise BadPolicyFile(
            f"{name}: this looks like {other}, which is not supported yet: "
            "expected PPO or A2C; pass others as module:object."
        )
    if "clip_range" in settings:
        return "PPO"
    if "cg_max_steps" in settings:
        return "TRPO"
    if "gae_lambda" in settings:
        return "A2C"
    raise BadPolicyFile(
        f"{name}: expected a PPO or A2C checkpoint, but its settings belong to neither."
    )


def _refuse_what_is_no_mlp(settings: Mapping[str, Any], tensors: Tensors, name: str) -> None:
    arguments = _mapping(settings, "policy_kwargs")
    spoken = None
    if any("features_extractor.cnn." in key or ".extractors." in key for key in tensors):
        spoken = "a CNN policy"
    elif any("features_extractor." in key for key in tensors) or (
        "features_extractor_class" in arguments
        and _class_name(arguments["features_extractor_class"]) not in PLAIN_EXTRACTORS
    ):
        spoken = "a policy with a features extractor of its own"
    elif _mapping(settings, "policy_class").get(
        "__module__", "stable_baselines3.common.policies"
    ) not in ("stable_baselines3.common.policies", "abc"):
        spoken = f"a policy class of {_mapping(settings, 'policy_class')['__module__']}"
    elif settings.get("use_sde") or arguments.get("use_sde"):
        spoken = "state-dependent exploration (use_sde)"
    elif arguments.get("squash_output"):
        spoken = "squashed actions (squash_output)"
    elif _is_image(_mapping(settings, "observation_space")) and arguments.get(
        "normalize_images", True
    ):
        spoken = "image observations"
    if spoken is not None:
        raise BadPolicyFile(
            f"{name} has {spoken}, which is not supported: expected a plain MLP policy; "
            "pass it as module:object instead."
        )
    kind = _kind(settings, "action_space")
    if kind not in ("Box", "Discrete"):
        raise BadPolicyFile(
            f"{name} has the action space {kind or 'unknown'}, which is not supported: "
            "expected Discrete or Box."
        )
    if (kind == "Box") != ("log_std" in tensors):
        raise BadPolicyFile(f"{name} is damaged: its action space and its weights disagree.")


def _is_image(space: Mapping[str, Any]) -> bool:
    shape = space.get("_shape")
    return space.get("dtype") == "uint8" and isinstance(shape, list) and len(shape) == 3


def _layers(tensors: Tensors, name: str) -> tuple[Layer, ...]:
    """Find the linear layers from observation to action, weights turned to (in, out)."""
    prefixes = [
        *_numbered(tensors, "mlp_extractor.shared_net", name),
        *_numbered(tensors, "mlp_extractor.policy_net", name),
        "action_net",
    ]
    layers: list[Layer] = []
    for prefix in prefixes:
        weight, bias = tensors.get(f"{prefix}.weight"), tensors.get(f"{prefix}.bias")
        if weight is None or bias is None or weight.ndim != 2 or bias.ndim != 1:
            raise BadPolicyFile(f"{name}: {prefix} is no linear layer with a bias.")
        layers.append((_float(weight.T), _float(bias)))
    return tuple(layers)


def _numbered(tensors: Tensors, prefix: str, name: str) -> list[str]:
    """Prefixes of the layers of a Sequential: linear ones at 0, 2, 4, ..., activations between."""
    numbers = set()
    for key in tensors:
        if key.startswith(prefix + "."):
            number, _, part = key[len(prefix) + 1 :].partition(".")
            if not re.fullmatch(r"\d{1,4}", number) or part not in ("weight", "bias"):
                raise BadPolicyFile(f"{name}: {key} belongs to no plain MLP.")
            numbers.add(int(number))
    if sorted(numbers) != list(range(0, 2 * len(numbers), 2)):
        raise BadPolicyFile(
            f"{name}: the layers of {prefix} are not linear ones with activations between."
        )
    return [f"{prefix}.{number}" for number in sorted(numbers)]


def _float(values: NDArray[Any]) -> Float:
    # A double too large for float32 becomes infinite, which NetworkPolicy then refuses.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(values, dtype=np.float32)


def _activation(settings: Mapping[str, Any], name: str) -> str:
    arguments = _mapping(settings, "policy_kwargs")
    if "activation_fn" not in arguments:
        return "tanh"  # the default of ActorCriticPolicy
    text = arguments["activation_fn"]
    activation = ACTIVATION_MODULES.get(_class_name(text))
    if activation is None or not text.startswith("<class 'torch.nn."):
        known = ", ".join(ACTIVATION_MODULES)
        raise BadPolicyFile(
            f"{name} has the activation {str(text)[:80]}, which is not supported: "
            f"expected one of {known}."
        )
    return activation


def _box(space: Mapping[str, Any], shape: tuple[int, ...]) -> tuple[Float | None, Float | None]:
    """Bounds of the action space as printed in the JSON; None where that was abridged."""
    bounds = []
    for key in ("low", "high"):
        text = space.get(key)
        words = re.sub(r"[\[\],]", " ", text).split() if isinstance(text, str) else []
        try:
            bounds.append(np.array([float(word) for word in words], dtype=np.float64))
        except ValueError:
            return None, None
    low, high = bounds
    if low.shape != shape or high.shape != shape:
        return None, None
    if np.isnan(low).any() or np.isnan(high).any() or (low > high).any():
        return None, None
    return _float(low), _float(high)
