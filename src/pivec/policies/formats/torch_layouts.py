"""Which library saved a dictionary of tensors, and where its actor is: told by the tensors' names.

A file of weights does not tell its activation, nor what becomes of real actions: each layout has
what its library does by default, which a configuration beside the file may correct.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pivec.errors import BadPolicyFile
from pivec.policies.distributions import Options, frozen
from pivec.policies.formats import Beside, about
from pivec.policies.formats.sb3 import read_yaml
from pivec.policies.forward import Layer
from pivec.policies.networks import NetworkPolicy
from pivec.policies.tensors import Tensors, linear, sequence, side_by_side

PREFIXES = ("_orig_mod.", "module.", "policy.")  # of torch.compile, DataParallel and Tianshou 2
# Where Isaac Lab and these libraries keep the settings of a run, seen from its checkpoints.
CONFIGURATIONS = ("params/agent.yaml", "../params/agent.yaml", "config.yaml", "../config.yaml")
Path = tuple[str | int, ...]
RL_GAMES: Path = ("params", "network")
# Where they tell the activation, what is put on the outputs, and whether actions are rescaled.
CONFIGURED: dict[str, dict[str, tuple[Path, ...]]] = {
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
NOTHING = ("None", "none", "ACTIONS")  # on the outputs
SPELLINGS = {"leakyrelu": "leaky_relu", "lrelu": "leaky_relu", "swish": "silu", "none": "identity"}
NOT_READ = re.compile(r"(^|\.)(rnn|[ac]_rnn|memory_a|lstm|gru|cnns?|actor_cnn)\.")
FREE = (-80.0, 80.0)  # of the logarithms of deviations that a library does not clip


@dataclass(frozen=True)
class Layout:
    """The names of an actor's tensors, and what its outputs mean."""

    library: str
    algorithm: str
    layers: tuple[str, ...]  # in order: a layer each, or a Sequential of layers and activations
    head: str
    activation: str
    log_std: str = ""  # a tensor of the logarithms of deviations,
    std: str = ""  # of the deviations themselves,
    spread: str = ""  # or a layer beside the last one, of state_gaussian
    options: Options = field(default_factory=Options)
    also: tuple[str, ...] = ()  # beginnings of further names that tell it from others
    never: tuple[str, ...] = ()
    assumed: str = ""  # what else the file does not tell

    def fits(self, tensors: Tensors, names: set[str]) -> bool:
        """Whether tensors are named in this way; ``names`` are all in the file."""
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
        arrays: dict[str, Any] = _box(tensors)
        if self.spread:
            ends = [_last(tensors, part) for part in (self.layers[-1], self.spread)]
            layers[-1] = side_by_side(tensors, *ends)
        if self.log_std:
            arrays["log_std"] = frozen(tensors[self.log_std]).ravel()
        elif self.std:
            arrays["log_std"] = _logarithms(tensors[self.std], self.std)
        return NetworkPolicy(
            tuple(layers), self.activation, self.head, options=self.options, **arrays
        )


RESCALED = Options(squash="clip")
SQUASHED = Options(squash=True)
ACTOR, TRUNK = "a2c_network", ("actor.preprocess.model.model",)
MEAN = "means are taken as they are (unbounded=True, which the file does not tell)"
PLAIN = "outputs are taken as they are, without a function such as tanh on them"

# In order: of several that fit the first counts.
LAYOUTS = (
    Layout("rl_games", "PPO", (f"{ACTOR}.actor_mlp", f"{ACTOR}.logits"), "categorical", "elu"),
    Layout(
        *("rl_games", "PPO", (f"{ACTOR}.actor_mlp", f"{ACTOR}.mu"), "gaussian", "elu"),
        log_std=f"{ACTOR}.sigma",
        options=RESCALED,
        assumed=PLAIN,
    ),
    Layout(
        *("rl_games", "PPO", (f"{ACTOR}.actor_mlp", f"{ACTOR}.mu"), "state_gaussian", "elu"),
        spread=f"{ACTOR}.sigma",
        options=Options(squash="clip", log_std_range=FREE),
        assumed=PLAIN,
    ),
    Layout(
        *("Tianshou", "PPO", (*TRUNK, "actor.mu.model"), "gaussian", "relu"),
        log_std="actor.sigma_param",
        options=RESCALED,
        assumed=MEAN,
    ),
    Layout(
        *("Tianshou", "SAC", (*TRUNK, "actor.mu.model"), "state_gaussian", "relu"),
        spread="actor.sigma.model",
        options=SQUASHED,
        also=("critic2",),
        assumed=MEAN,
    ),
    Layout(
        *("Tianshou", "PPO", (*TRUNK, "actor.mu.model"), "state_gaussian", "relu"),
        spread="actor.sigma.model",
        options=RESCALED,
        assumed=MEAN,
    ),
    Layout(
        *("Tianshou", "DDPG or TD3", (*TRUNK, "actor.last.model"), "deterministic", "relu"),
        options=SQUASHED,
        also=("actor_old.",),
        assumed="max_action is taken as 1, which the file does not tell",
    ),
    Layout("Tianshou", "PPO", (*TRUNK, "actor.last.model"), "categorical", "relu"),
    Layout("Tianshou", "DQN", ("model.model.model", "model.Q.model"), "epsilon_greedy", "relu"),
    Layout("Tianshou", "DQN", ("model.model.model",), "epsilon_greedy", "relu"),
    Layout("rsl_rl", "PPO", ("mlp",), "gaussian", "elu", std="distribution.std_param"),
    Layout("rsl_rl", "PPO", ("mlp",), "gaussian", "elu", log_std="distribution.log_std_param"),
    Layout("rsl_rl", "PPO", ("actor",), "gaussian", "elu", std="std"),
    Layout("rsl_rl", "PPO", ("actor",), "gaussian", "elu", log_std="log_std"),
    *(
        Layout("skrl", *rest, assumed=PLAIN, **more)
        for layers in (
            ("net_container", "policy_layer"),
            ("net", "mean_layer"),
            ("net_container",),
            ("net",),
        )
        for rest, more in (
            (("PPO", layers, "gaussian", "elu"), {"log_std": "log_std_parameter"}),
            (("DDPG or TD3", layers, "deterministic", "elu"), {"also": ("target_policy.",)}),
            (("DQN", layers, "epsilon_greedy", "elu"), {"also": ("target_q_network.",)}),
            (("PPO", layers, "categorical", "elu"), {}),
        )
    ),
    Layout("CleanRL", "PPO", ("actor_mean",), "gaussian", "tanh", log_std="actor_logstd"),
    Layout(
        *("CleanRL", "DDPG or TD3", ("fc1", "fc2", "fc_mu"), "deterministic", "relu"),
        options=SQUASHED,
    ),
    Layout(
        *("CleanRL", "SAC", ("fc1", "fc2", "fc_mean"), "state_gaussian", "relu"),
        spread="fc_logstd",
        # log_std = tanh(x) brought from [-1, 1] to [-5, 2].
        options=Options(squash=True, deviations="tanh", log_std_range=(-5.0, 2.0)),
    ),
    Layout("CleanRL", "PPO", ("actor",), "categorical", "tanh", never=("actor.weight",)),
    Layout("CleanRL", "DQN", ("network",), "epsilon_greedy", "relu", never=("actor",)),
)


def plain_names(tensors: Tensors) -> Tensors:
    """Give tensors without what wrappers put before their names."""
    for prefix in PREFIXES:
        tensors = {key.removeprefix(prefix): array for key, array in tensors.items()}
    return tensors


def recognise(tensors: Tensors, others: Mapping[str, Any]) -> Layout:
    """Tell the layout of tensors; ``others`` are in the same file."""
    names = {*tensors, *others}
    if odd := next((name for name in tensors if NOT_READ.search(name)), ""):
        raise BadPolicyFile(
            f"it has a memory or convolutions ({odd[:60]}), which are read of Stable-Baselines3, "
            "CleanRL and RLlib only: pass it as module:object"
        )
    for layout in LAYOUTS:
        if layout.fits(tensors, names):
            return layout
    shown = ", ".join(list(tensors)[:6])[:200]
    libraries = ", ".join(sorted({layout.library for layout in LAYOUTS}))
    raise BadPolicyFile(
        f"it is not named as any network of {libraries} ({shown}): put a .json of the same name "
        "beside it that states the layers"
    )


def with_defaults(layout: Layout, description: dict[str, Any], beside: Beside) -> dict[str, Any]:
    """Add what the configuration of a run says to a description, and say what else is assumed."""
    known = _configured(layout.library, beside)
    output = known.get("output")
    if output is not None and output not in NOTHING and "head" not in description:
        raise BadPolicyFile(
            f"its configuration puts {str(output)[:60]!r} on the outputs, which is not supported: "
            "export it to ONNX, or pass it as module:object"
        )
    settled = output is not None or bool({"head", "squash"} & set(description))
    if layout.assumed and not settled:
        beside.assume(f"{layout.assumed}; a .json beside can say otherwise")
    if known.get("rescaled") is False:
        description = {"squash": False, **description}
    if layout.options.squash == "clip" and "squash" not in description:
        beside.assume(
            f"real actions are clipped to [-1, 1] and rescaled to the box, as {layout.library} "
            "does by default; squash in a .json beside can say otherwise"
        )
    activation = known.get("activation")
    if not isinstance(activation, str):
        return description
    spelt = SPELLINGS.get(activation.lower(), activation.lower())
    return {"activation": spelt, **description}


def _configured(library: str, beside: Beside) -> dict[str, Any]:
    """Read the settings that count off the configuration of a run, those that are there."""
    known: dict[str, Any] = {}
    for file in CONFIGURATIONS if library in CONFIGURED else ():
        data = beside.read(file)
        if data is None:
            continue
        with about(f"{file} beside it"):
            settings = read_yaml(data)
        for name, paths in CONFIGURED[library].items():
            values = (_inside(settings, path) for path in paths)
            value = next((value for value in values if value is not None), None)
            if value is not None:
                known.setdefault(name, value)
    return known


def _inside(value: Any, path: Path) -> Any:
    """Give what lies at a path of keys; None if nothing does. Equal entries of a list are one."""
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
    """Give the name of a layer, or of the only one in a Sequential."""
    if _is_layer(tensors, name):
        return name
    if len(sequence(tensors, name)) > 1:
        raise BadPolicyFile(f"its {name} has hidden layers of its own, which is not supported")
    return f"{name}.0"


def _logarithms(std: Any, name: str) -> Any:
    values = np.ravel(std).astype(np.float64)
    if not (values > 0).all():
        raise BadPolicyFile(f"its {name} holds deviations that are not above 0")
    return np.log(values)


def _box(tensors: Tensors) -> dict[str, Any]:
    """Bounds of the actions, which CleanRL keeps as scale and bias of tanh."""
    if "action_scale" not in tensors or "action_bias" not in tensors:
        return {}
    scale, bias = (frozen(tensors[key]).ravel() for key in ("action_scale", "action_bias"))
    if scale.shape != bias.shape:
        raise BadPolicyFile("its action_scale and action_bias are of different sizes")
    return {"low": bias - scale, "high": bias + scale}
