"""State dictionaries of torch: CleanRL, rl_games, rsl_rl, skrl and Tianshou.

Training scripts usually save the weights alone. The names of the tensors tell which library it was
(`LAYOUTS`), and so what the outputs mean; a description or configuration next to the file may
correct what the library does by default. Nothing in the file is run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies.distributions import Options, frozen
from pivec.policies.extractors import (
    MAX_VALUES,
    DenseFeatures,
    FeatureNetwork,
    ReturnProbabilities,
    find_features,
    square_images,
)
from pivec.policies.formats import CheckpointFiles, about, reader
from pivec.policies.formats import described as json_description
from pivec.policies.formats.jax import read_cleanrl_jax
from pivec.policies.formats.rl_zoo import read_yaml
from pivec.policies.forward import Layer
from pivec.policies.networks import Features, NetworkPolicy, OutputPolicy, RecurrentNetwork
from pivec.policies.tensors import (
    Tensors,
    linear,
    lstm,
    named_tensors,
    read_torch,
    sequence,
    side_by_side,
)

# Keys under which training scripts keep the weights.
WRAPPERS = (
    *("state_dict", "model_state_dict", "actor_state_dict", "model", "agent", "actor", "policy"),
    *("q_network", "model_weights"),
)
STEP_KEYS = ("frame", "iter")  # of rl_games and rsl_rl
NOT_SAVED = "none (CleanRL normalises observations here, but does not save the statistics)"
PREFIXES = ("_orig_mod.", "module.", "policy.")  # of torch.compile, DataParallel and Tianshou 2
# Where Isaac Lab and these libraries keep the settings of a run, relative to its checkpoints.
CONFIGURATIONS = ("params/agent.yaml", "../params/agent.yaml", "config.yaml", "../config.yaml")
KeyPath = tuple[str | int, ...]
RL_GAMES: KeyPath = ("params", "network")
# Where they state the activation, a function of the outputs, and whether actions are rescaled.
CONFIGURED: dict[str, dict[str, tuple[KeyPath, ...]]] = {
    "rl_games": {
        "activation": ((*RL_GAMES, "mlp", "activation"), ("train", *RL_GAMES, "mlp", "activation")),
        "output": ((*RL_GAMES, "space", "continuous", "mu_activation"),),
        "rescaled": (("params", "config", "clip_actions"),),
    },
    "rsl_rl": {"activation": (("policy", "activation"), ("actor", "activation"))},
    "skrl": {
        "activation": (("models", "policy", "network", 0, "activations"),),
        "output": (("models", "policy", "output"),),
    },
}
NO_FUNCTION = ("None", "none", "ACTIONS")  # of the outputs
SPELLINGS = {"leakyrelu": "leaky_relu", "lrelu": "leaky_relu", "swish": "silu", "none": "identity"}
NOT_READ = re.compile(r"(^|\.)(rnn|[ac]_rnn|memory_a|lstm|gru|cnns?|actor_cnn)\.")


@dataclass(frozen=True)
class Layout:
    """The names of an actor's tensors, and what its outputs mean."""

    library: str
    algorithm: str
    layers: tuple[str, ...]  # in order: each a layer, or a Sequential of layers and activations
    head: str
    activation: str
    log_std: str = ""  # a tensor of logarithms of standard deviations,
    std: str = ""  # of the standard deviations themselves,
    spread: str = ""  # or a layer parallel to the last one, of state_gaussian
    options: Options = field(default_factory=Options)
    also: tuple[str, ...] = ()  # prefixes of further names that distinguish it from others
    never: tuple[str, ...] = ()
    assumed: str = ""  # what else the file does not tell

    def fits(self, tensors: Tensors, names: set[str]) -> bool:
        """Whether tensors have these names; ``names`` are all in the file."""
        parts = [*self.layers, self.spread] if self.spread else self.layers
        arrays = [name for name in (self.log_std, self.std) if name]
        return (
            all(_is_layer(tensors, part) or f"{part}.0.weight" in tensors for part in parts)
            and all(name in tensors for name in arrays)
            and all(any(name.startswith(part) for name in names) for part in self.also)
            and not any(name.startswith(part) for name in names for part in self.never)
        )

    def network(self, tensors: Tensors) -> NetworkPolicy:
        """Make the actor's network."""
        layers = [layer for part in self.layers for layer in _layers(tensors, part)]
        arrays: dict[str, Any] = {}
        if "action_scale" in tensors and "action_bias" in tensors:  # CleanRL's scale after tanh
            scale, bias = (frozen(tensors[key]).ravel() for key in ("action_scale", "action_bias"))
            if scale.shape != bias.shape:
                raise BadPolicyFile("its action_scale and action_bias have different sizes")
            arrays = {"low": bias - scale, "high": bias + scale}
        if self.spread:
            ends = [_last(tensors, part) for part in (self.layers[-1], self.spread)]
            layers[-1] = side_by_side(tensors, *ends)
        if self.log_std:
            arrays["log_std"] = frozen(tensors[self.log_std]).ravel()
        elif self.std:
            std = np.ravel(tensors[self.std]).astype(np.float64)
            if not (std > 0).all():
                raise BadPolicyFile(f"its {self.std} holds deviations that are not above 0")
            arrays["log_std"] = np.log(std)
        return NetworkPolicy(
            tuple(layers), self.activation, self.head, options=self.options, **arrays
        )


RESCALED, SQUASHED = Options(squash="clip"), Options(squash=True)
FREE = Options(squash="clip", log_std_range=(-80.0, 80.0))  # rl_games does not clip it
TANH = Options(squash=True, deviations="tanh", log_std_range=(-5.0, 2.0))  # CleanRL's SAC
MEAN = "means are not bounded (unbounded=True, which the file does not tell)"
PLAIN = "no function such as tanh is applied to the outputs"
MAX_ACTION = "max_action is taken as 1, which the file does not tell"
RL_GAMES_ACTOR, TIANSHOU_ACTOR = "a2c_network.actor_mlp", "actor.preprocess.model.model"
MU, SIGMA = "a2c_network.mu", "a2c_network.sigma"
TIANSHOU_MEAN, TIANSHOU_LAST = (
    (TIANSHOU_ACTOR, "actor.mu.model"),
    (TIANSHOU_ACTOR, "actor.last.model"),
)
SPREAD = "actor.sigma.model"

# Library, algorithm, layers, head, activation, and settings; the first one that fits is used.
ROWS: tuple[tuple[str, str, tuple[str, ...], str, str, dict[str, Any]], ...] = (
    ("rl_games", "PPO", (RL_GAMES_ACTOR, "a2c_network.logits"), "categorical", "elu", {}),
    ("rl_games", "PPO", (RL_GAMES_ACTOR, MU), "gaussian", "elu",
     {"log_std": SIGMA, "options": RESCALED, "assumed": PLAIN}),
    ("rl_games", "PPO", (RL_GAMES_ACTOR, MU), "state_gaussian", "elu",
     {"spread": SIGMA, "options": FREE, "assumed": PLAIN}),
    ("Tianshou", "PPO", TIANSHOU_MEAN, "gaussian", "relu",
     {"log_std": "actor.sigma_param", "options": RESCALED, "assumed": MEAN}),
    ("Tianshou", "SAC", TIANSHOU_MEAN, "state_gaussian", "relu",
     {"spread": SPREAD, "options": SQUASHED, "also": ("critic2",), "assumed": MEAN}),
    ("Tianshou", "PPO", TIANSHOU_MEAN, "state_gaussian", "relu",
     {"spread": SPREAD, "options": RESCALED, "assumed": MEAN}),
    ("Tianshou", "DDPG or TD3", TIANSHOU_LAST, "deterministic", "relu",
     {"options": SQUASHED, "also": ("actor_old.",), "assumed": MAX_ACTION}),
    ("Tianshou", "PPO", TIANSHOU_LAST, "categorical", "relu", {}),
    ("Tianshou", "DQN", ("model.model.model", "model.Q.model"), "epsilon_greedy", "relu", {}),
    ("Tianshou", "DQN", ("model.model.model",), "epsilon_greedy", "relu", {}),
    ("rsl_rl", "PPO", ("mlp",), "gaussian", "elu", {"std": "distribution.std_param"}),
    ("rsl_rl", "PPO", ("mlp",), "gaussian", "elu", {"log_std": "distribution.log_std_param"}),
    ("rsl_rl", "PPO", ("actor",), "gaussian", "elu", {"std": "std"}),
    ("rsl_rl", "PPO", ("actor",), "gaussian", "elu", {"log_std": "log_std"}),
    *(
        ("skrl", algorithm, layers, head, "elu", {"assumed": PLAIN, **more})
        for layers in (
            *(("net_container", "policy_layer"), ("net", "mean_layer")),
            *(("net_container",), ("net",)),
        )
        for algorithm, head, more in (
            ("PPO", "gaussian", {"log_std": "log_std_parameter"}),
            ("DDPG or TD3", "deterministic", {"also": ("target_policy.",)}),
            ("DQN", "epsilon_greedy", {"also": ("target_q_network.",)}),
            ("PPO", "categorical", {}),
        )
    ),
    ("CleanRL", "PPO", ("actor_mean",), "gaussian", "tanh", {"log_std": "actor_logstd"}),
    ("CleanRL", "DDPG or TD3", ("fc1", "fc2", "fc_mu"), "deterministic", "relu",
     {"options": SQUASHED}),
    ("CleanRL", "SAC", ("fc1", "fc2", "fc_mean"), "state_gaussian", "relu",
     {"spread": "fc_logstd", "options": TANH}),
    ("CleanRL", "PPO", ("actor",), "categorical", "tanh", {"never": ("actor.weight",)}),
    ("CleanRL", "DQN", ("network",), "epsilon_greedy", "relu", {"never": ("actor",)}),
)  # fmt: skip
LAYOUTS = [Layout(*row[:5], **row[5]) for row in ROWS]

# CleanRL's scripts for Atari: convolutions, the linear layer after them, the last layer, its head.
ATARI = (
    ("PPO", ("network.0", "network.2", "network.4"), "network.7", "actor", "categorical"),
    ("DQN", ("network.0", "network.2", "network.4"), "network.7", "network.9", "epsilon_greedy"),
    ("SAC", ("conv.0", "conv.2", "conv.4"), "fc1", "fc_logits", "categorical"),
)


def read_weights(
    data: bytes, files: CheckpointFiles
) -> tuple[NetworkPolicy | OutputPolicy | RecurrentNetwork, dict[str, Any]]:
    """Read a ``.cleanrl_model`` or ``.pth`` file.

    A description next to it (a .json of the same name, or policies.json) may set activation, head,
    epsilon or a normaliser where they differ from the library's, or state the ``layers`` of any
    other network.
    """
    if re.match(rb"[\x81-\x8f][\xa0-\xbf]", data):  # MessagePack: a mapping, its first key
        return read_cleanrl_jax(data, files)
    saved = read_torch(data)
    tensors, others = _weights(saved)
    everything = {**others, **tensors}
    description = files.description() or {}
    if "layers" in description:
        return json_description.described_network(description, everything, files)
    features: Features | None = None
    library = "CleanRL"
    has_lstm = any(key.startswith("lstm.") for key in tensors)
    if script := _atari_script(tensors):
        algorithm, network, features = script
    elif has_lstm:
        algorithm, network = "PPO with an LSTM", _after_lstm(tensors)
    else:
        for prefix in PREFIXES:
            tensors = {key.removeprefix(prefix): array for key, array in tensors.items()}
        layout = _recognise(tensors, others)
        library, algorithm, network = layout.library, layout.algorithm, layout.network(tensors)
        description = _with_defaults(layout, description, files)
    atoms = tensors.get("atoms") if (library, algorithm) == ("CleanRL", "DQN") else None
    algorithm = algorithm if atoms is None else "C51"
    network = _changed(network, description, everything)
    normaliser = json_description.read_statistics(description, everything, files)
    if features is not None and normaliser is not None:
        raise BadPolicyFile("it takes images, which are divided by 255 and cannot be normalised")
    cells = lstm(tensors, "lstm") if has_lstm else ()
    if cells and features is None and "network.0.weight" in tensors:
        features = DenseFeatures(tuple(sequence(tensors, "network")), network.activation)
    if "activation" not in description and (
        len(network.layers) > 1 or isinstance(features, DenseFeatures)
    ):
        files.assume(
            f"activation assumed to be {network.activation}, as in {library}'s {algorithm}; set "
            "activation in a .json next to it to change this"
        )
    info: dict[str, Any] = {"library": library, "algorithm": algorithm}
    step = next((saved[key] for key in STEP_KEYS if isinstance(saved, dict) and key in saved), None)
    if type(step) is int:
        info["step"] = step
    real_ppo = algorithm.startswith("PPO") and network.head == "gaussian"
    if library == "CleanRL" and real_ppo and normaliser is None:
        info["normaliser"] = NOT_SAVED
        if "normaliser" not in description:
            files.assume(
                "observations are not normalised, although CleanRL's PPO for real actions does so "
                "(it does not save the statistics); set normaliser in a .json next to it to supply "
                "them"
            )
    info |= json_description.read_info(description, replace(network, normaliser=normaliser))
    if cells:
        return RecurrentNetwork(cells, network, normaliser, features), info
    if atoms is not None:
        features, network = _mean_returns(atoms.ravel(), features, network)
    if features is not None:
        return replace(FeatureNetwork(features, network).policy(), normaliser=normaliser), info
    return replace(network, normaliser=normaliser), info


read_state_dict = reader(read_weights)


def _weights(value: Any) -> tuple[Tensors, Tensors]:
    """Named tensors of the actor, and those saved with them (state_preprocessor.running_mean)."""
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
    return named_tensors(value or None), others


def _atari_script(tensors: Tensors) -> tuple[str, NetworkPolicy, Features] | None:
    """Algorithm, last layer and convolutions, if one of CleanRL's Atari scripts saved this."""
    for algorithm, convolutions, hidden, last, head in ATARI:
        first = tensors.get(f"{convolutions[0]}.weight", np.zeros(()))
        if first.ndim == 4 and f"{last}.weight" in tensors:
            shape = square_images(tensors, convolutions[0], convolutions[-1], hidden)
            features = find_features(tensors, convolutions, hidden, shape)
            return algorithm, NetworkPolicy((linear(tensors, last),), "relu", head), features
    return None


def _after_lstm(tensors: Tensors) -> NetworkPolicy:
    """Layers after the LSTM of ppo_atari_lstm.py, or of a script derived from it."""
    last = "actor_mean" if "actor_logstd" in tensors else "actor"
    layers = tuple(_layers(tensors, last))
    if last == "actor":
        return NetworkPolicy(layers, "relu", "categorical")
    return NetworkPolicy(layers, "relu", "gaussian", frozen(tensors["actor_logstd"]).ravel())


def _mean_returns(
    atoms: Any, features: Features | None, network: NetworkPolicy
) -> tuple[ReturnProbabilities, NetworkPolicy]:
    """Action values of C51: mean returns, by a linear layer after the probabilities."""
    n_outputs, hidden = network.n_outputs, network.layers[:-1]
    n_actions, more = divmod(n_outputs, max(1, len(atoms)))
    if len(atoms) < 2 or more or n_actions * n_outputs > MAX_VALUES or not (features or hidden):
        raise BadPolicyFile(
            f"its {n_outputs} outputs after hidden layers are not {len(atoms)} atoms per action"
        )
    before = features or DenseFeatures(hidden, network.activation)
    logits = FeatureNetwork(before, replace(network, layers=network.layers[-1:]))
    means = frozen(np.kron(np.eye(n_actions), atoms[:, None])), frozen(np.zeros(n_actions))
    return ReturnProbabilities(logits, len(atoms)), replace(network, layers=(means,))


def _changed(
    policy: NetworkPolicy, description: Mapping[str, Any], tensors: Tensors
) -> NetworkPolicy:
    """The policy with what a description states instead of the library's defaults."""
    json_description.check_keys(description, json_description.COMMON | {"activation"})
    given = json_description.read_head(description, tensors)
    changes: dict[str, Any] = dict(given.arrays)
    named = {
        key: getattr(given.options, key) for key in json_description.OPTIONS if key in description
    }
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


def _recognise(tensors: Tensors, others: Mapping[str, Any]) -> Layout:
    if odd := next((name for name in tensors if NOT_READ.search(name)), ""):
        raise BadPolicyFile(
            f"it has a memory or convolutions ({odd[:60]}), which are supported for "
            "Stable-Baselines3, CleanRL and RLlib only: pass it as module:object"
        )
    names = {*tensors, *others}
    for layout in LAYOUTS:
        if layout.fits(tensors, names):
            return layout
    shown = ", ".join(list(tensors)[:6])[:200]
    libraries = ", ".join(sorted({layout.library for layout in LAYOUTS}))
    raise BadPolicyFile(
        f"its tensors are not named as in {libraries} ({shown}): put a .json file of the same name "
        "next to it that states the layers"
    )


def _with_defaults(
    layout: Layout, description: dict[str, Any], files: CheckpointFiles
) -> dict[str, Any]:
    """Add the configuration of the run to a description, and note what is assumed."""
    known = _configured(layout.library, files)
    output = known.get("output")
    if output is not None and output not in NO_FUNCTION and "head" not in description:
        raise BadPolicyFile(
            f"its configuration applies {str(output)[:60]!r} to the outputs, which is not "
            "supported: export it to ONNX, or pass it as module:object"
        )
    if layout.assumed and output is None and not {"head", "squash"} & set(description):
        files.assume(f"{layout.assumed}; set head or squash in a .json next to it to change this")
    if known.get("rescaled") is False:
        description = {"squash": False, **description}
    if layout.options.squash == "clip" and "squash" not in description:
        files.assume(
            f"real actions are clipped to [-1, 1] and rescaled to the bounds, as {layout.library} "
            "does by default; set squash in a .json next to it to change this"
        )
    activation = known.get("activation")
    if not isinstance(activation, str):
        return description
    spelt = SPELLINGS.get(activation.lower(), activation.lower())
    return {"activation": spelt, **description}


def _configured(library: str, files: CheckpointFiles) -> dict[str, Any]:
    """Settings in the configuration of a run, as far as they are there."""
    known: dict[str, Any] = {}
    for file in CONFIGURATIONS if library in CONFIGURED else ():
        data = files.read(file)
        if data is None:
            continue
        with about(f"{file} next to it"):
            settings = read_yaml(data)
        for name, paths in CONFIGURED[library].items():
            values = (_inside(settings, path) for path in paths)
            value = next((value for value in values if value is not None), None)
            if value is not None:
                known.setdefault(name, value)
    return known


def _inside(value: Any, path: KeyPath) -> Any:
    """Value at a path of keys, or None; a list of equal entries counts as one of them."""
    for key in path:
        inside = isinstance(value, dict if isinstance(key, str) else list)
        value = value[key] if inside and value and (key == 0 or key in value) else None
    if isinstance(value, list) and len({str(entry) for entry in value}) == 1:
        return value[0]
    return value


def _is_layer(tensors: Tensors, name: str) -> bool:
    return f"{name}.weight" in tensors


def _layers(tensors: Tensors, name: str) -> list[Layer]:
    return [linear(tensors, name)] if _is_layer(tensors, name) else sequence(tensors, name)


def _last(tensors: Tensors, name: str) -> str:
    """Name of a layer, or of the only one in a Sequential."""
    if _is_layer(tensors, name):
        return name
    if len(sequence(tensors, name)) > 1:
        raise BadPolicyFile(f"its {name} has hidden layers of its own, which is not supported")
    return f"{name}.0"
