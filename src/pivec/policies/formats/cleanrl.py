"""Reads the state dictionaries that CleanRL saves, and those of other libraries.

Most training scripts save the weights alone; which library it was, and so what the outputs mean, is
told by the names of the tensors, see `pivec.policies.formats.torch_layouts`, or by a description beside the file.
Nothing of the file is run, see `pivec.policies.tensors`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies import tensors as torch_files
from pivec.policies.distributions import Features, OutputPolicy, frozen
from pivec.policies.extractors import (
    MOST_EXTRACTORS,
    DenseFeatures,
    ImageNetwork,
    ReturnChances,
    find_features,
    square_images,
)
from pivec.policies.formats import Beside, reader
from pivec.policies.formats import safetensors as described
from pivec.policies.formats.jax import read_cleanrl_jax
from pivec.policies.formats.torch_layouts import plain_names, recognise, with_defaults
from pivec.policies.networks import NetworkPolicy
from pivec.policies.recurrent import RecurrentNetwork, read_cells
from pivec.policies.tensors import Tensors, linear, sequence

# Where training scripts put the weights among other things.
WRAPPERS = (
    *("state_dict", "model_state_dict", "actor_state_dict", "model", "agent", "actor", "policy"),
    *("q_network", "model_weights"),
)
STEPS = ("frame", "iter")  # where rl_games and rsl_rl count
NOT_SAVED = "none (CleanRL normalises observations here, but does not save the statistics)"


def read_weights(
    data: bytes, beside: Beside
) -> tuple[NetworkPolicy | OutputPolicy | RecurrentNetwork, dict[str, Any]]:
    """Read a ``.cleanrl_model`` or ``.pth`` file.

    A description beside it (a .json of the same name, or policies.json) may set activation, head,
    epsilon or a normaliser where they differ from the library's, or state the ``layers`` of any
    other network.
    """
    if re.match(rb"[\x81-\x8f][\xa0-\xbf]", data):  # MessagePack: a mapping, its first key
        return read_cleanrl_jax(data, beside)
    saved = torch_files.read_torch(data)
    tensors, others = _weights(saved)
    everything = {**others, **tensors}
    description = beside.description() or {}
    if "layers" in description:
        return described.described_network(description, everything, beside)
    features: Features | None = None
    library = "CleanRL"
    if script := _atari_script(tensors) or _recurrent_script(tensors):
        algorithm, network, features = script
    else:
        tensors = plain_names(tensors)
        layout = recognise(tensors, others)
        library, algorithm, network = layout.library, layout.algorithm, layout.network(tensors)
        description = with_defaults(layout, description, beside)
    atoms = tensors.get("atoms") if (library, algorithm) == ("CleanRL", "DQN") else None
    algorithm = algorithm if atoms is None else "C51"
    network = _changed(network, description, everything)
    normaliser = described.read_statistics(description, everything, beside)
    if features is not None and normaliser is not None:
        raise BadPolicyFile("it sees images, which are divided by 255 and not normalised otherwise")
    cells = read_cells(tensors, "lstm") if _is_recurrent(tensors) else ()
    if cells and features is None and "network.0.weight" in tensors:
        features = DenseFeatures(tuple(sequence(tensors, "network")), network.activation)
    if "activation" not in description and (
        len(network.layers) > 1 or isinstance(features, DenseFeatures)
    ):
        beside.assume(
            f"activation assumed {network.activation}, as {library}'s {algorithm} has it; a .json "
            "beside can say otherwise"
        )
    info: dict[str, Any] = {"library": library, "algorithm": algorithm}
    step = next((saved[key] for key in STEPS if isinstance(saved, dict) and key in saved), None)
    if type(step) is int:
        info["step"] = step
    if (
        library == "CleanRL"
        and algorithm.startswith("PPO")
        and network.head == "gaussian"
        and normaliser is None
    ):
        info["normaliser"] = NOT_SAVED
        if "normaliser" not in description:
            beside.assume(
                "observations are not normalised, though CleanRL's PPO with real actions does so "
                "(it does not save the statistics); normaliser in a .json beside can give them"
            )
    info |= described.read_info(description, replace(network, normaliser=normaliser))
    if cells:
        return RecurrentNetwork(cells, network, normaliser, features), info
    if atoms is not None:
        features, network = _mean_returns(atoms.ravel(), features, network)
    if features is not None:
        return replace(ImageNetwork(features, network).policy(), normaliser=normaliser), info
    return replace(network, normaliser=normaliser), info


read_cleanrl = reader(read_weights)


def _weights(value: Any) -> tuple[Tensors, Tensors]:
    """Find the named tensors of the actor in what was saved, and those that lie beside them.

    The latter are named by where they are, as ``state_preprocessor.running_mean``.
    """
    others: Tensors = {}
    if isinstance(value, tuple | list) and value:  # DDPG and TD3 save the actor and its critics
        value = value[0]
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
    return torch_files.named_tensors(value or None), others


# Of the scripts for Atari: convolutions, the linear layer behind them, the last layer, its meaning.
ATARI = (
    ("PPO", ("network.0", "network.2", "network.4"), "network.7", "actor", "categorical"),
    ("DQN", ("network.0", "network.2", "network.4"), "network.7", "network.9", "epsilon_greedy"),
    ("SAC", ("conv.0", "conv.2", "conv.4"), "fc1", "fc_logits", "categorical"),
)


def _is_recurrent(tensors: Tensors) -> bool:
    return any(key.startswith("lstm.") for key in tensors)


def _atari_script(tensors: Tensors) -> tuple[str, NetworkPolicy, Features] | None:
    """Which of CleanRL's scripts for Atari saved this, the last layer, and what is before it."""
    for algorithm, convolutions, hidden, last, head in ATARI:
        first = tensors.get(f"{convolutions[0]}.weight", np.zeros(()))
        if first.ndim == 4 and f"{last}.weight" in tensors:
            shape = square_images(tensors, convolutions[0], convolutions[-1], hidden)
            features = find_features(tensors, convolutions, hidden, shape)
            return algorithm, NetworkPolicy((linear(tensors, last),), "relu", head), features
    return None


def _recurrent_script(tensors: Tensors) -> tuple[str, NetworkPolicy, None] | None:
    """Tell what is behind the LSTM of ppo_atari_lstm.py, or of one made after it."""
    if not _is_recurrent(tensors):
        return None
    last = "actor_mean" if "actor_logstd" in tensors else "actor"
    single = f"{last}.weight" in tensors
    layers = tuple([linear(tensors, last)] if single else sequence(tensors, last))
    if last == "actor":
        return "PPO with an LSTM", NetworkPolicy(layers, "relu", "categorical"), None
    log_std = frozen(tensors["actor_logstd"]).ravel()
    return "PPO with an LSTM", NetworkPolicy(layers, "relu", "gaussian", log_std), None


def _mean_returns(
    atoms: Any, features: Features | None, network: NetworkPolicy
) -> tuple[ReturnChances, NetworkPolicy]:
    """Values of actions as C51 has them: means of returns, by a linear layer behind chances."""
    n_outputs, hidden = network.n_outputs, network.layers[:-1]
    n_actions, more = divmod(n_outputs, max(1, len(atoms)))
    if (
        len(atoms) < 2
        or more
        or n_actions * n_outputs > MOST_EXTRACTORS
        or not (features or hidden)
    ):
        raise BadPolicyFile(
            f"its {n_outputs} outputs behind hidden layers are not {len(atoms)} atoms an action"
        )
    before = features or DenseFeatures(hidden, network.activation)
    logits = ImageNetwork(before, replace(network, layers=network.layers[-1:]))
    means = frozen(np.kron(np.eye(n_actions), atoms[:, None])), frozen(np.zeros(n_actions))
    return ReturnChances(logits, len(atoms)), replace(network, layers=(means,))


def _changed(
    policy: NetworkPolicy, description: Mapping[str, Any], tensors: Tensors
) -> NetworkPolicy:
    """The policy with what a description says instead of the library's defaults."""
    described.refuse_unknown(description, described.COMMON | {"activation"})
    given = described.read_head(description, tensors)
    changes: dict[str, Any] = dict(given.arrays)
    named = {key: getattr(given.options, key) for key in described.OPTIONS if key in description}
    changes["options"] = replace(policy.options, **named)
    if given.name:
        changes["head"] = given.name
        if given.name != "gaussian":
            changes.setdefault("log_std", None)
    if "activation" in description:
        changes["activation"] = description["activation"]
        if not isinstance(changes["activation"], str):
            raise UsageError("activation must be a name, as 'tanh'")
    return replace(policy, **changes)
