"""From the tensors of a Stable-Baselines3 checkpoint to a network, for each algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile
from pivec.policies.forward import Float, Layer
from pivec.policies.head import Options
from pivec.policies.network import NetworkPolicy
from pivec.policies.sb3_settings import SB3Settings
from pivec.policies.tensors import Tensors, linear, sequence, side_by_side, to_float

# Bounds of the logarithm of a deviation in SAC's and TQC's actors.
LOG_STD_RANGE = (-20.0, 2.0)
DISAGREE = "it is damaged: its action space and its weights disagree"


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
    if not settings.use_sde:
        return NetworkPolicy(layers, activation, "gaussian", to_float(tensors["log_std"]))
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
        options = Options(squash=True, deviations="clip", log_std_range=LOG_STD_RANGE)
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
    shape, logarithms = last[0].shape, to_float(log_std)
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
