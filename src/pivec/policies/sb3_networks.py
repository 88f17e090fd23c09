"""From the tensors of a Stable-Baselines3 checkpoint to layers and a head, for each algorithm."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile
from pivec.policies.forward import Float, Layer
from pivec.policies.head import Options
from pivec.policies.sb3_settings import Settings

Tensors = dict[str, NDArray[Any]]

# Bounds of the logarithm of a deviation in SAC's and TQC's actors.
LOG_STD_RANGE = (-20.0, 2.0)


@dataclass(frozen=True)
class Network:
    """What makes a policy, without the part that makes features of images.

    Attributes
    ----------
    layers : tuple of (weight, bias)
        Weights turned to (in, out).
    activation, head : str
    log_std, state_std : ndarray, optional
    options : Options
    """

    layers: tuple[Layer, ...]
    activation: str
    head: str
    log_std: Float | None = None
    state_std: Float | None = None
    options: Options = field(default_factory=Options)

    @property
    def n_values(self) -> int:
        """Number of values of a real action."""
        width = int(self.layers[-1][1].shape[0])
        return width // 2 if self.head == "state_gaussian" and self.state_std is None else width


def actor_critic(tensors: Tensors, settings: Settings) -> Network:
    """PPO, A2C, TRPO: an MLP, maybe with layers shared with the value network, and any actions."""
    name, kind = settings.name, settings.kind("action_space")
    prefixes = [
        *numbered(tensors, "mlp_extractor.shared_net", name),
        *numbered(tensors, "mlp_extractor.policy_net", name),
        "action_net",
    ]
    layers = tuple(linear(tensors, prefix, name) for prefix in prefixes)
    if (kind == "Box") != ("log_std" in tensors):
        raise BadPolicyFile(f"{name} is damaged: its action space and its weights disagree.")
    network = Network(layers, settings.activation("tanh"), "categorical")
    match kind:
        case "Discrete":
            return network
        case "MultiDiscrete":
            options = Options(choices=settings.counts("action_space", "nvec"))
            return replace(network, head="multi_categorical", options=options)
        case "MultiBinary":
            return replace(network, head="bernoulli")
    if settings.use_sde:
        options = Options(deviations="plain", squash=bool(settings.argument("squash_output")))
        state_std = _state_std(tensors["log_std"], layers[-1], settings)
        return replace(network, head="state_gaussian", state_std=state_std, options=options)
    log_std = to_float(tensors["log_std"])
    return replace(network, head="gaussian", log_std=log_std)


def squashed_actor(tensors: Tensors, settings: Settings) -> Network:
    """SAC and TQC: means and deviations both depend on the state, and tanh bounds the action."""
    name = settings.name
    hidden = [
        linear(tensors, prefix, name) for prefix in numbered(tensors, "actor.latent_pi", name)
    ]
    activation = settings.activation("relu")
    if "actor.log_std" in tensors:  # gSDE: a matrix of deviations instead of a layer
        limit = settings.argument("clip_mean", 2.0)
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not np.isfinite(limit):
            raise BadPolicyFile(f"{name}: clip_mean must be a number, not {str(limit)[:40]}.")
        mean = linear(tensors, "actor.mu.0" if limit > 0 else "actor.mu", name)
        options = Options(
            squash=True, deviations="plain", mean_limit=float(limit) if limit > 0 else np.inf
        )
        state_std = _state_std(tensors["actor.log_std"], mean, settings)
        return Network((*hidden, mean), activation, "state_gaussian", None, state_std, options)
    means = linear(tensors, "actor.mu", name)
    deviations = linear(tensors, "actor.log_std", name)
    if means[0].shape != deviations[0].shape:
        raise BadPolicyFile(f"{name}: its means and deviations are of different sizes.")
    both = tuple(np.concatenate(parts, axis=-1) for parts in zip(means, deviations, strict=True))
    last = (both[0], both[1])
    options = Options(squash=True, deviations="clip", log_std_range=LOG_STD_RANGE)
    return Network((*hidden, last), activation, "state_gaussian", options=options)


def plain_actor(tensors: Tensors, settings: Settings) -> Network:
    """TD3 and DDPG: one action for each state, bounded by tanh."""
    prefixes = numbered(tensors, "actor.mu", settings.name)
    layers = tuple(linear(tensors, prefix, settings.name) for prefix in prefixes)
    if not layers:
        raise BadPolicyFile(f"{settings.name} lacks the layers of its actor.")
    activation = settings.activation("relu")
    return Network(layers, activation, "deterministic", options=Options(squash=True))


def values(tensors: Tensors, settings: Settings, net: str) -> Network:
    """DQN and QR-DQN: the best action, or a random one with the probability in the checkpoint."""
    name = settings.name
    prefixes = numbered(tensors, f"{net}.{net}", name)
    layers = [linear(tensors, prefix, name) for prefix in prefixes]
    if not layers:
        raise BadPolicyFile(f"{name} lacks the layers of its network.")
    if net == "quantile_net":
        actions = settings.count("action_space", "n")
        weight, bias = layers[-1]
        if bias.shape[0] % actions:
            raise BadPolicyFile(f"{name} is damaged: its action space and its weights disagree.")
        # A value is the mean of its quantiles, which are outputs of a linear layer: that mean is
        # a linear layer itself, with the averages of their weights.
        layers[-1] = (
            weight.reshape(len(weight), -1, actions).mean(axis=1, dtype=np.float64),
            bias.reshape(-1, actions).mean(axis=0, dtype=np.float64),
        )
    epsilon = settings.values.get("exploration_rate", 0.0)
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon <= 1:
        raise BadPolicyFile(
            f"{name}: exploration_rate must be from 0 to 1, not {str(epsilon)[:40]}."
        )
    options = Options(epsilon=float(epsilon))
    activation = settings.activation("relu")
    return Network(tuple(layers), activation, "epsilon_greedy", options=options)


def to_float(array: NDArray[Any]) -> Float:
    """Give float32 numbers; doubles too large become infinite, which networks then refuse."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(array, dtype=np.float32)


def linear(tensors: Tensors, prefix: str, name: str) -> Layer:
    """Give a layer of torch with its weights turned to (in, out)."""
    weight, bias = tensors.get(f"{prefix}.weight"), tensors.get(f"{prefix}.bias")
    if weight is None or bias is None or weight.ndim != 2 or bias.ndim != 1:
        raise BadPolicyFile(f"{name}: {prefix} is no linear layer with a bias.")
    return to_float(weight.T), to_float(bias)


def numbered(tensors: Tensors, prefix: str, name: str) -> list[str]:
    """Give the prefixes of a Sequential's layers: linear at 0, 2, 4, ..., activations between."""
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


def _state_std(log_std: NDArray[Any], last: Layer, settings: Settings) -> Float:
    """Deviations of the exploration matrix, of the shape of the last layer's weights."""
    shape, logarithms = last[0].shape, to_float(log_std)
    if logarithms.ndim != 2 or logarithms.shape not in (shape, (shape[0], 1)):
        raise BadPolicyFile(
            f"{settings.name}: its exploration matrix has shape {logarithms.shape} instead of "
            f"{shape}."
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
