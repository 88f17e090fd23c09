"""Reads checkpoints of RLlib's new API stack, which are folders, without Ray and without torch.

The weights of a module are in ``learner_group/learner/rl_module/default_policy/module_state.pkl``;
a pickle next to them has its spaces and settings, and those in ``env_runner`` the connectors that
transform observations and actions. All are interpreted by `pivec.policies.tensors`, never run.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from pivec.errors import BadPolicyFile
from pivec.policies.extractors import (
    MAX_PIXELS,
    DenseFeatures,
    ImageFeatures,
    assemble,
    convolved_size,
    find_features,
)
from pivec.policies.formats import CheckpointFiles, Read, about, reader
from pivec.policies.formats.described import make_network, parse_npy, recurrent, sequence, spelt
from pivec.policies.forward import Normaliser, Tensors
from pivec.policies.networks import Features
from pivec.policies.tensors import Name, Object, as_array, read_objects

MODULES = ("ray", "gymnasium", "numpy", "torch")
SETTINGS = "class_and_ctor_args.pkl"
RUNNER = "../../../../env_runner"
# Algorithm, and RLlib's names of its encoder and head.
PARTS = (
    ("SAC", "pi_encoder", "pi"),
    ("DQN", "encoder", "af"),
    ("PPO", "encoder.actor_encoder", "pi"),
    ("PPO", "encoder.encoder", "pi"),
    ("PPO", "encoder", "pi"),
)
# Connectors that change neither observations nor actions, or as pivec does anyway.
HARMLESS = frozenset(
    {
        *("AddObservationsFromEpisodesToBatch", "AddTimeDimToBatchAndZeroPad"),
        *("AddStatesFromEpisodesToBatch", "AgentToModuleMapping", "BatchIndividualItems"),
        *("NumpyToTensor", "FlattenObservations", "GetActions", "TensorToNumpy"),
        *("UnBatchToIndividualItems", "RemoveSingleTsTimeRankFromBatch"),
        *("ModuleToAgentUnmapping", "ListifyDataForVectorEnv"),
    }
)
INSTEAD = "restore it with RLlib and pass it as module:object"
MAX_STATISTICS = 1 << 24  # bytes
CNN = "net.0.cnn"
TOKENS = ".tokenizer"  # the layers before the LSTM of an encoder
# Filters, sizes and strides of convolutions by height of images, unless configured.
DEFAULT_FILTERS = {
    96: ((16, 8, 4), (32, 4, 2), (256, 11, 2)),
    84: ((16, 8, 4), (32, 4, 2), (256, 11, 1)),
    64: ((16, 4, 2), (32, 4, 2), (64, 4, 2), (128, 4, 2)),
    42: ((16, 4, 2), (32, 4, 2), (256, 11, 1)),
    10: ((16, 5, 2), (32, 5, 2)),
}


@reader
def read_rllib(data: bytes, files: CheckpointFiles) -> Read:
    """Read the weights of a module, and its settings elsewhere in the checkpoint."""
    tensors = _weights(data)
    kind, settings = _constructed(files, SETTINGS)
    if kind is None:
        raise BadPolicyFile(
            f"{SETTINGS}, which RLlib keeps next to it, is missing: give the whole checkpoint"
        )
    for name in (kind, settings.get("catalog_class")):
        if name is not None and not _is_own(name):
            raise BadPolicyFile(f"{str(name)[:80]} in it is not RLlib's own class: {INSTEAD}")
    config = settings.get("model_config")
    config = config.state if isinstance(config, Object) else config
    config = config if isinstance(config, dict) else {}
    algorithm, encoder, head = _parts(tensors)
    normaliser, normalised_actions = _connectors(files)
    memory = recurrent(tensors, f"{encoder[: -len(TOKENS)]}.lstm") if TOKENS in encoder else ()
    images = _image_features(tensors, encoder, settings.get("observation_space"), config)
    if images is not None and (memory or normaliser is not None):
        what = "and has a memory" if memory else "that are normalised"
        raise BadPolicyFile(f"it takes images {what}, which is not supported: {INSTEAD}")
    features: Features | None = images
    layers = sequence(tensors, f"{head}.net.mlp")
    hidden = [] if images else sequence(tensors, f"{encoder}.net.mlp")
    names = {config.get("head_fcnet_activation", "relu")} if len(layers) > 1 else set()
    activation = config.get("fcnet_activation", "tanh")
    if images is not None:  # which RLlib flattens with channels last
        (weight, bias), channels = layers[0], len(images.convolutions[-1][1])
        if len(weight) != images.n_outputs:
            raise BadPolicyFile("its convolutions do not fit the layers after them")
        turned = weight.reshape(-1, channels, weight.shape[1]).transpose(1, 0, 2)
        layers[0] = turned.reshape(weight.shape), bias
    elif memory:
        features = DenseFeatures(tuple(hidden), _activation({activation}))
    else:
        layers, names = [*hidden, *layers], names | {activation}
    description = {
        "layers": layers,
        "activation": _activation(names or {"relu"}),
        "normaliser": None,
        **_head(algorithm, settings.get("action_space"), tensors, normalised_actions),
    }
    network = make_network(description, tensors, files)
    policy = assemble(network, normaliser, features, *memory)
    match = re.fullmatch(r"Default(\w+)TorchRLModule", kind.name)
    info = {"library": "RLlib", "algorithm": match[1] if match else algorithm}
    if algorithm == "DQN":
        files.assume("the best action is taken, as in RLlib's DQN without exploration")
    return policy, info | ({"normaliser": "its MeanStdFilter"} if normaliser is not None else {})


@reader
def reject_old_stack(data: bytes, files: CheckpointFiles) -> Read:  # noqa: ARG001
    """Reject a checkpoint of the old API stack."""
    raise BadPolicyFile(
        "this is an RLlib checkpoint of the old API stack, whose networks are pickled with the "
        "code that makes them: train on the new stack, or restore it with "
        "Policy.from_checkpoint and pass it as module:object"
    )


def _weights(data: bytes) -> Tensors:
    value = read_objects(data, MODULES)
    if not isinstance(value, dict) or not value:
        raise BadPolicyFile("it does not hold weights: give the folder of the checkpoint")
    arrays = {key: as_array(array) for key, array in value.items()}
    return {str(key): array for key, array in arrays.items() if array is not None}


def _constructed(files: CheckpointFiles, file: str) -> tuple[Name | None, dict[str, Any]]:
    """The class and arguments that RLlib constructs; None if the file is missing."""
    data = files.read(file)
    if data is None:
        return None, {}
    with about(f"{file} near it"):
        match read_objects(data, MODULES):
            case {"class": Name() as kind, "ctor_args_and_kwargs": (tuple(), dict() as arguments)}:
                return kind, arguments
    raise BadPolicyFile(f"{file} near it does not hold a class and its arguments")


def _is_own(name: Any) -> bool:
    return isinstance(name, Name) and name.module.startswith("ray.rllib")


def _parts(tensors: Tensors) -> tuple[str, str, str]:
    """Algorithm, and names of its encoder and head."""
    if odd := next((key for key in tensors if "gru" in key), ""):
        raise BadPolicyFile(f"it has a GRU ({odd[:60]}), which is not supported: {INSTEAD}")
    for algorithm, outer, head in PARTS:
        for encoder in (outer, outer + TOKENS):
            first = (
                f"{encoder}.net.mlp.0.weight",
                f"{encoder}.{CNN}.0.weight",
                f"{encoder}.{CNN}.1.weight",
            )
            if f"{head}.net.mlp.0.weight" in tensors and any(name in tensors for name in first):
                return algorithm, encoder, head
    names = ", ".join(list(tensors)[:4])
    raise BadPolicyFile(
        f"its tensors are not named as in RLlib's default modules ({names[:200]}): {INSTEAD}"
    )


def _image_features(
    tensors: Tensors, encoder: str, space: Any, config: Mapping[str, Any]
) -> ImageFeatures | None:
    """Convolutions of RLlib's image encoder; None if there are none."""
    if f"{encoder}.net.mlp.0.weight" in tensors:
        return None
    shape = space.state.get("_shape") if isinstance(space, Object) else None
    if not isinstance(shape, tuple) or len(shape) != 3:
        raise BadPolicyFile(f"a CNN needs images with three axes, not of shape {shape}")
    if _activation({config.get("conv_activation", "relu")}) != "relu":
        raise BadPolicyFile(f"its convolutions have another activation than relu: {INSTEAD}")
    height, width, channels = shape
    names, kernels, margins, place = [], [], [], 0
    for size, stride, same in _filters(config, shape):
        # As TensorFlow pads: zeros above, below, left and right.
        totals = [max(0, (-(-n // stride) - 1) * stride + size - n) for n in (height, width)]
        (top, side) = totals if same else (0, 0)
        around = (top // 2, top - top // 2, side // 2, side - side // 2)
        place += same
        names.append(f"{encoder}.{CNN}.{place}")
        place += 2
        kernels.append((size, stride))
        margins.append(around)
        height, width = convolved_size(height, width, size, stride, around)
    images = (channels, *shape[:2])
    return find_features(tensors, names, "", images, tuple(kernels), 1.0, "relu", tuple(margins))


def _filters(config: Mapping[str, Any], shape: tuple[int, ...]) -> list[tuple[int, int, bool]]:
    """Size, stride and whether padding is "same", of each convolution."""
    given = config.get("conv_filters") or DEFAULT_FILTERS.get(shape[0], ())
    filters = []
    for entry in given if isinstance(given, list | tuple) else ():
        match entry:
            case [_, size, stride, *rest] if rest in ([], ["same"], ["valid"]):
                pairs = [
                    side if isinstance(side, list | tuple) else (side,) for side in (size, stride)
                ]
                numbers = [set(pair) for pair in pairs]
                if all(len(sides) == 1 and 0 < min(sides) < MAX_PIXELS for sides in numbers):
                    filters.append((*(sides.pop() for sides in numbers), rest != ["valid"]))
    if not filters or len(filters) < len(given):
        raise BadPolicyFile(f"its conv_filters are not squares, or missing: {INSTEAD}")
    return filters


def _activation(names: set[Any]) -> str:
    """The activation that layers share."""
    known = {spelt(name) for name in names}
    if len(known) > 1:
        raise BadPolicyFile(
            f"its layers have different activations ({', '.join(sorted(known))[:80]}), which is "
            f"not supported: {INSTEAD}"
        )
    return known.pop()


def _head(algorithm: str, space: Any, tensors: Tensors, normalised: bool) -> dict[str, Any]:
    """The action distribution, by action space."""
    state = space.state if isinstance(space, Object) else {}
    match space.kind.name if isinstance(space, Object) else "":
        case "Discrete":
            return {"head": "epsilon_greedy" if algorithm == "DQN" else "categorical"}
        case "MultiDiscrete" if (choices := as_array(state.get("nvec"))) is not None:
            return {"head": "multi_categorical", "choices": choices.ravel().tolist()}
        case "Box":
            low, high = (as_array(state.get(edge)) for edge in ("low", "high"))
            if low is None or high is None:
                raise BadPolicyFile("the bounds of its actions are missing")
            bounded = bool(np.isfinite(low).all() and np.isfinite(high).all())
            limit = float(np.ravel(tensors.get("pi.log_std_clip_param_const", 20.0))[0])
            sac = algorithm == "SAC"
            known = {
                "low": low.ravel(),
                "high": high.ravel(),
                "squash": True if sac else "clip" if normalised and bounded else False,
                "log_std_range": (-5.0, 2.0) if sac else (-limit, limit),
                "shape": low.shape if low.ndim != 1 else None,
            }
            if "pi.log_std" not in tensors:
                return {"head": "state_gaussian", **known}
            log_std = np.clip(tensors["pi.log_std"].ravel(), -limit, limit)
            return {"head": "gaussian", "log_std": log_std, **known}
    raise BadPolicyFile(f"its actions are not Discrete, MultiDiscrete or Box: {INSTEAD}")


def _connectors(files: CheckpointFiles) -> tuple[Normaliser | None, bool]:
    """Observation statistics, and whether actions are rescaled from [-1, 1]."""
    normaliser, normalised = None, None
    for pipeline in ("env_to_module_connector", "module_to_env_connector"):
        _, arguments = _constructed(files, f"{RUNNER}/{pipeline}/{SETTINGS}")
        for connector in arguments.get("connectors", ()):
            match connector:
                case (name, _, _) if not _is_own(name):
                    raise BadPolicyFile(
                        f"{str(name)[:80]} in its connectors is not RLlib's own class: {INSTEAD}"
                    )
                case (Name(name="MeanStdFilter"), _, dict()) if normaliser is None:
                    normaliser = _statistics(files, f"{RUNNER}/{pipeline}/MeanStdFilter/state.pkl")
                case (Name(name="NormalizeAndClipActions"), _, {"normalize_actions": bool(value)}):
                    normalised = value
                    if not (value or connector[2].get("clip_actions")):
                        files.assume(
                            "real actions are clipped to their bounds, although not by RLlib"
                        )
                case (Name(name=str(name)), _, _) if name in HARMLESS:
                    pass
                case _:
                    name = str(connector[0]) if isinstance(connector, tuple) else "no class"
                    raise BadPolicyFile(f"its connector {name[:80]} is not supported: {INSTEAD}")
    if normalised is None:
        files.assume(
            "observations are not normalised and real actions rescaled from [-1, 1], as RLlib does "
            "by default; its connectors are not in the checkpoint"
        )
    return normaliser, normalised is not False


def _statistics(files: CheckpointFiles, file: str) -> Normaliser:
    """Read the statistics of RLlib's MeanStdFilter for one agent."""
    data = files.read(file)
    with about(f"{file} near it"):
        filters = read_objects(data, MODULES) if data is not None else None
        match list(filters.values()) if isinstance(filters, dict) else None:
            case [{"running_stats": [dict() as moments], "clip_by_value": clip, **switches}]:
                count, mean = moments.get("num_pushes"), _packed(moments.get("mean_array"))
                # Sums of squares, which Ray 2.47 calls std_array.
                squares = _packed(moments.get("sum_sq_diff_array", moments.get("std_array")))
                whole = switches.get("de_mean_to_zero") and switches.get("de_std_to_one")
                if isinstance(count, int | float) and count > 1 and whole:
                    scale = np.sqrt(squares / (count - 1)) + 1e-6
                    limit = float(clip) if isinstance(clip, int | float) else np.inf
                    return Normaliser(mean, scale, np.full(mean.shape, limit))
        raise BadPolicyFile("it does not hold statistics of one agent's observations")


def _packed(text: Any) -> Any:
    """Unpack an array in RLlib's text form: base64 of a zlib-compressed .npy file."""
    if not isinstance(text, str):
        raise BadPolicyFile("it does not hold a packed array")
    inner = zlib.decompressobj().decompress(base64.b64decode(text), MAX_STATISTICS)
    return parse_npy(inner).astype(np.float64).ravel()
