"""From a Stable-Baselines3 checkpoint's settings and tensors to a network, for each algorithm.

The settings are its JSON part, where that is there as text; pickled fields (``:serialized:``) are
never decoded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile
from pivec.policies.formats import read_json
from pivec.policies.forward import ACTIVATIONS, Float, Layer
from pivec.policies.head import Options, frozen
from pivec.policies.network import NetworkPolicy
from pivec.policies.tensors import Tensors, linear, sequence, side_by_side
from pivec.reading import Budget

DISAGREE = "it is damaged: its action space and its weights disagree"


class SB3Settings:
    """The JSON part of a checkpoint: its archive's member ``data``."""

    def __init__(self, data: bytes | bytearray, budget: Budget | None = None) -> None:
        self.values = read_json(data, budget)

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Give the object under a key, empty if there is none."""
        value = self.values.get(key)
        return value if isinstance(value, dict) else {}

    def argument(self, key: str, default: Any = None) -> Any:
        """Give a keyword argument of the policy's class."""
        return self.mapping("policy_kwargs").get(key, default)

    @property
    def policy_module(self) -> str:
        """The module that the policy's class was defined in; empty if it is not told."""
        return str(self.mapping("policy_class").get("__module__", ""))

    def kind(self, key: str) -> str:
        """Take the last name in text such as ``<class 'gymnasium.spaces.box.Box'>``."""
        return class_name(self.mapping(key).get(":type:"))

    def shape(self, key: str) -> tuple[int, ...] | None:
        """Give the shape of a space; None if it is not told."""
        shape = self.mapping(key).get("_shape")
        if isinstance(shape, list) and all(type(n) is int and 0 < n < 1 << 20 for n in shape):
            return tuple(shape)
        return None

    def activation(self, default: str) -> str:
        """Give the activation between the layers."""
        if "activation_fn" not in self.mapping("policy_kwargs"):
            return default
        text = self.argument("activation_fn")
        name = class_name(text).lower() if str(text).startswith("<class 'torch.nn.") else ""
        for activation in ACTIVATIONS:  # which are torch's modules
            if activation.replace("_", "") == name:
                return activation
        raise BadPolicyFile(
            f"it has the activation {str(text)[:80]}, which is not supported: expected one of "
            f"{', '.join(ACTIVATIONS)}"
        )

    def _words(self, field: str) -> list[str]:
        """Words of an array of the action space as printed in the JSON."""
        text = self.mapping("action_space").get(field)
        text = str(text) if type(text) is int else text
        return re.sub(r"[\[\],]", " ", text).split() if isinstance(text, str) else []

    def counts(self, field: str) -> tuple[int, ...]:
        """Give the numbers of actions as printed: ``n`` of Discrete, ``nvec`` of MultiDiscrete."""
        words = self._words(field)
        if not words or not all(re.fullmatch(r"[1-9]\d{0,8}", word) for word in words):
            raise BadPolicyFile("it does not tell how many actions there are")
        return tuple(map(int, words))

    def box(self, n_values: int) -> tuple[Float | None, Float | None]:
        """Bounds of the action space as printed in the JSON; None where that was abridged."""
        try:
            box = np.array([[float(word) for word in self._words(key)] for key in ("low", "high")])
        except ValueError:
            return None, None
        if box.shape != (2, n_values) or np.isnan(box).any() or (box[0] > box[1]).any():
            return None, None
        with np.errstate(over="ignore"):
            low, high = box.astype(np.float32)
        return low, high

    @property
    def trained_normalised(self) -> bool | None:
        """Whether the model was trained in a VecNormalize; None if that is not told.

        PPO, A2C and TRPO keep the last observation before normalisation if there was one; the
        others always keep it.
        """
        if "gae_lambda" not in self.values:
            return None
        if self.values.get("_last_original_obs") is not None:
            return True
        steps = self.values.get("num_timesteps")
        if type(steps) is int and steps > 0 and "_last_original_obs" in self.values:
            return False
        return None


def class_name(text: Any) -> str:
    """Take the last name in text such as ``<class 'torch.nn.modules.activation.Tanh'>``."""
    match = re.fullmatch(r"<class '([\w.]+)'>", text) if isinstance(text, str) else None
    return match.group(1).rpartition(".")[2] if match else ""


def actor_critic(tensors: Tensors, settings: SB3Settings) -> NetworkPolicy:
    """PPO, A2C, TRPO: an MLP, maybe with layers shared with the value network, and any actions."""
    kind, activation = settings.kind("action_space"), settings.activation("tanh")
    shared, own = (sequence(tensors, f"mlp_extractor.{part}_net") for part in ("shared", "policy"))
    layers = (*shared, *own, linear(tensors, "action_net"))
    if (kind == "Box") != ("log_std" in tensors):
        raise BadPolicyFile(DISAGREE)
    match kind:
        case "Discrete":
            return NetworkPolicy(layers, activation, "categorical")
        case "MultiDiscrete":
            options = Options(choices=settings.counts("nvec"))
            return NetworkPolicy(layers, activation, "multi_categorical", options=options)
        case "MultiBinary":
            return NetworkPolicy(layers, activation, "bernoulli")
    # gSDE: noise comes from a random matrix times the last hidden layer.
    if not (settings.values.get("use_sde") or settings.argument("use_sde")):
        return NetworkPolicy(layers, activation, "gaussian", frozen(tensors["log_std"]))
    options = Options(deviations="plain", squash=bool(settings.argument("squash_output")))
    state_std = _state_std(tensors["log_std"], layers[-1], settings)
    return NetworkPolicy(layers, activation, "state_gaussian", options=options, state_std=state_std)


def squashed_actor(tensors: Tensors, settings: SB3Settings) -> NetworkPolicy:
    """SAC and TQC: means and deviations both depend on the state, and tanh bounds the action."""
    last, state_std = None, None
    if "actor.log_std" in tensors:  # gSDE: a matrix of deviations instead of a layer
        limit = settings.argument("clip_mean", 2.0)
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not np.isfinite(limit):
            raise BadPolicyFile(f"clip_mean must be a number, but is {str(limit)[:40]}")
        last = linear(tensors, "actor.mu.0" if limit > 0 else "actor.mu")
        state_std = _state_std(tensors["actor.log_std"], last, settings)
        mean_limit = float(limit) if limit > 0 else np.inf
        options = Options(squash=True, deviations="plain", mean_limit=mean_limit)
    else:
        last = side_by_side(tensors, "actor.mu", "actor.log_std")
        options = Options(squash=True)  # and deviations as SAC's and TQC's are clipped
    layers = (*sequence(tensors, "actor.latent_pi"), last)
    activation = settings.activation("relu")
    return NetworkPolicy(layers, activation, "state_gaussian", options=options, state_std=state_std)


def plain_actor(tensors: Tensors, settings: SB3Settings) -> NetworkPolicy:
    """TD3 and DDPG: one action for each state, bounded by tanh."""
    layers, options = tuple(sequence(tensors, "actor.mu")), Options(squash=True)
    return NetworkPolicy(layers, settings.activation("relu"), "deterministic", options=options)


def values(tensors: Tensors, settings: SB3Settings) -> NetworkPolicy:
    """DQN and QR-DQN: the best action, or a random one with the probability in the checkpoint."""
    net = "q_net" if any(key.startswith("q_net.") for key in tensors) else "quantile_net"
    layers = sequence(tensors, f"{net}.{net}")
    if net == "quantile_net" and layers:
        (actions,), (weight, bias) = settings.counts("n"), layers[-1]
        if bias.shape[0] % actions:
            raise BadPolicyFile(DISAGREE)
        # A value is the mean of its quantiles, which are outputs of a linear layer: that mean is
        # a linear layer itself, with the averages of their weights.
        layers[-1] = (
            weight.reshape(len(weight), -1, actions).mean(axis=1, dtype=np.float64),
            bias.reshape(-1, actions).mean(axis=0, dtype=np.float64),
        )
    epsilon = settings.values.get("exploration_rate", 0.0)
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon <= 1:
        raise BadPolicyFile(f"exploration_rate must be from 0 to 1, but is {str(epsilon)[:40]}")
    activation, options = settings.activation("relu"), Options(epsilon=float(epsilon))
    return NetworkPolicy(tuple(layers), activation, "epsilon_greedy", options=options)


def _state_std(log_std: NDArray[Any], last: Layer, settings: SB3Settings) -> Float:
    """Deviations of the exploration matrix, of the shape of the last layer's weights."""
    shape, logarithms = last[0].shape, frozen(log_std)
    if logarithms.ndim != 2 or logarithms.shape not in (shape, (shape[0], 1)):
        raise BadPolicyFile(
            f"its exploration matrix has shape {logarithms.shape} instead of {shape}"
        )
    # In float64: the last bits of NumPy's functions differ from processor to processor, and go when
    # they are rounded.
    doubles = logarithms.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        std = np.exp(doubles)
        if settings.argument("use_expln"):
            # Raffin et al. 2022: exp below 0, log(1 + x) + 1 above.
            std = np.where(doubles > 0, np.log1p(np.maximum(doubles, 0) + 1e-6) + 1, std)
        return np.broadcast_to(std, shape).astype(np.float32)
