"""Reads checkpoints of Stable-Baselines3 and SB3-contrib without torch, and without either.

The JSON in the archive says what the policy is, the weights come from `pivec.policies.tensors`, and
`pivec.policies.formats.sb3` makes a network of both.
"""

from __future__ import annotations

import ast
import functools
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, UsageError
from pivec.files import BoundedZip, Budget
from pivec.policies.distributions import Features, Options, OutputPolicy, frozen
from pivec.policies.extractors import CombinedFeatures, ImageNetwork, read_extractor
from pivec.policies.formats import Beside, about, read_json, reader
from pivec.policies.forward import ACTIVATIONS, Float, Layer, Normaliser
from pivec.policies.networks import MaskedPolicy, NetworkPolicy
from pivec.policies.recurrent import RecurrentNetwork, read_cells
from pivec.policies.safe_pickle import Object, as_array, read_objects
from pivec.policies.tensors import Tensors, linear, read_tensors, sequence, side_by_side

# -----------------------------------------------------------------------------
# From a Stable-Baselines3 checkpoint's settings and tensors to a network, for each algorithm.
#
# The settings are its JSON part, where that is there as text; pickled fields (``:serialized:``) are
# never decoded.


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


# -----------------------------------------------------------------------------
# The run that a Stable-Baselines3 checkpoint belongs to: what lies beside it, nothing of it run.
#
# RL Baselines3 Zoo explains checkpoints of ``logs/ppo/CartPole-v1_1`` by the folder ``CartPole-v1``
# in it, which holds config.yml (hyperparameters), args.yml (the command) and vecnormalize.pkl. The
# YAML files ask for Python objects; here they give plain values. A VecNormalize is saved as a pickle:
# objects in it stay names with their state, numbers and arrays of NumPy are understood, and
# everything else is refused by name.


CONFIG, COMMAND = "config.yml", "args.yml"
MAX_YAML = 1 << 18
MAX_VALUES = 1000
MAX_STACK = 1000
STACK = "gymnasium.wrappers:FrameStackObservation"
RESHAPE = "gymnasium.wrappers:ReshapeObservation"
SB3 = ("stable_baselines3", "sb3_contrib")
MODULES = ("gymnasium", "gym", "numpy", *SB3, "collections", "copyreg")
MAX_WIDTH = 1 << 24
_WORDS = ("vecnormalize", "vec_normalize", "vecnorm", "vec_norm")
_NORMALISER = r"(?i).*vec_?norm.*\.pkl"
_STEPS = re.compile(r"(?P<prefix>.+)_(?P<steps>\d+)_steps")


@dataclass(frozen=True)
class ZooRun:
    """What is known of the run that a checkpoint belongs to."""

    folder: str  # seen from the checkpoint, with a slash at its end
    environment: str  # a Gymnasium id
    arguments: Mapping[str, Any]
    wrappers: tuple[str, ...]  # as ``module:Class{"argument": 1}``, the innermost first
    frame_stack: int  # observations that are stacked, after they are normalised
    imports: tuple[str, ...]  # modules that register the environment
    normalised: bool | None  # None if that is not told

    def about(self, shape: tuple[int, ...] | None) -> dict[str, Any]:
        """Tell where a policy that sees observations of ``shape`` was trained, as JSON holds it."""
        wrappers = list(self.wrappers)
        if self.frame_stack > 1:
            # Before the first observation Stable-Baselines3 has zeros, and it stacks the last axis.
            wrappers.append(f'{STACK}{{"stack_size": {self.frame_stack}, "padding_type": "zero"}}')
            if shape is not None and len(shape) == 3 and shape[0] == self.frame_stack:
                wrappers.append(f'{RESHAPE}{{"shape": {list(shape)}}}')
            elif shape is None or len(shape) != 1:
                raise BadPolicyFile(
                    f"it sees {self.frame_stack} stacked observations of shape {shape}, which is "
                    "supported for vectors and grey images only: pass it as module:object"
                )
        lists = {"wrappers": wrappers, "imports": list(self.imports)}
        known = {"arguments": dict(self.arguments), **lists}
        return {"environment": self.environment, **{k: v for k, v in known.items() if v}}


def find_zoo_run(beside: Beside) -> ZooRun | None:
    """Read what lies in the folder of a run of RL Zoo; None if the checkpoint is in no such one."""
    folder = _folder(beside)
    parts = [beside.read(folder + file) for file in (CONFIG, COMMAND)] if folder else []
    if parts in ([], [None, None]):
        return None
    with about(f"{folder}{CONFIG} or {COMMAND} beside it"):
        return _read_run(folder, *parts)


def _folder(beside: Beside) -> str:
    """Name of the folder that is named after the environment, with a slash; empty without one."""
    if beside.path is None:
        return ""
    folders = beside.names(r"[^/]+/")
    run = re.fullmatch(r"(.+?)_\d+(?:_[0-9a-f-]{36})?", beside.path.resolve().parent.name)
    if run is not None and f"{run[1]}/" in folders:
        return f"{run[1]}/"
    # A run that was renamed: the last model is called as the folder is.
    models = {beside.path.name, *beside.names(r".*\.zip")}
    return next((folder for folder in folders if f"{folder[:-1]}.zip" in models), "")


@functools.lru_cache(maxsize=16)  # the checkpoints of a run share it, and YAML is slow to read
def _read_run(folder: str, config: bytes | None, command: bytes | None) -> ZooRun:
    settings, given = read_yaml(config), read_yaml(command)
    environment = given.get("env", folder[:-1])
    if not isinstance(environment, str) or not 0 < len(environment) <= 200:
        raise UsageError("env is no name of an environment")
    # As rl_zoo3.enjoy has it: those of the command replace those of the configuration.
    arguments = given.get("env_kwargs")
    arguments = settings.get("env_kwargs") if arguments is None else arguments
    arguments = _literal(arguments) or {}
    if not isinstance(arguments, dict) or not all(isinstance(key, str) for key in arguments):
        raise UsageError("env_kwargs are no arguments by name")
    budget = iter(range(MAX_VALUES))
    plain = {k: _plain(value, budget) for k, value in arguments.items() if k != "render_mode"}
    wrappers: list[str] = []
    for key in ("env_wrapper", "vec_env_wrapper"):
        listed = settings.get(key)
        entries = listed if isinstance(listed, list) else [listed] * (listed is not None)
        wrappers += [_wrapper(entry, budget) for entry in entries]
    stack = settings.get("frame_stack") or 1
    if type(stack) is not int or not 0 < stack <= MAX_STACK:
        raise UsageError("frame_stack is no number of observations")
    imports = given.get("gym_packages") or []
    if not isinstance(imports, list) or not all(isinstance(part, str) for part in imports):
        raise UsageError("gym_packages is no list of modules")
    normalises = _literal(settings.get("normalize", False))
    if isinstance(normalises, dict):
        normalises = normalises.get("norm_obs", True)
    normalised = None if config is None else bool(normalises)
    return ZooRun(folder, environment, plain, tuple(wrappers), stack, tuple(imports), normalised)


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """Gives lists, dictionaries and text where the file asks for objects of Python."""


def _construct_plain(loader: yaml.SafeLoader, _: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return node.value


_PlainLoader.add_multi_constructor("tag:yaml.org,2002:python/", _construct_plain)


def read_yaml(data: bytes | None) -> dict[Any, Any]:
    """Read a mapping, which may be written as an OrderedDict: a list with a list of pairs in it."""
    if data is None:
        return {}
    if len(data) > MAX_YAML:
        raise UsageError(f"it has {len(data)} bytes, more than {MAX_YAML}")
    value = yaml.load(data, _PlainLoader)  # noqa: S506 - a SafeLoader
    match value:
        case dict():
            return value
        case [list(pairs)] if all(isinstance(p, list) and len(p) == 2 for p in pairs):
            return {key: content for key, content in pairs if isinstance(key, str)}
    raise UsageError("it holds no settings by name")


def _literal(text: Any) -> Any:
    """Read text such as ``{'norm_obs': True}`` or ``dict(norm_obs=True)`` without running it."""
    if not isinstance(text, str):
        return text
    try:
        node = ast.parse(text.strip()[:10_000], mode="eval").body
    except SyntaxError as error:
        raise UsageError(f"{text[:60]!r} is no plain value") from error
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        if node.args or any(word.arg is None for word in node.keywords):
            raise UsageError(f"{text[:60]!r} is no plain value")
        return {word.arg: ast.literal_eval(word.value) for word in node.keywords}
    return ast.literal_eval(node)


def _wrapper(entry: Any, budget: Iterator[int]) -> str:
    """``module.Class``, or that with its arguments, as ``module:Class{"argument": 1}``."""
    match entry:
        case str():
            name, arguments = entry, None
        case dict() if len(entry) == 1:
            ((name, arguments),) = entry.items()
        case _:
            raise UsageError("env_wrapper names no class")
    if not isinstance(name, str) or not re.fullmatch(r"\w+(\.\w+)+", name) or len(name) > 200:
        raise UsageError(f"{str(name)[:60]!r} in env_wrapper names no class")
    if not isinstance(arguments or {}, dict):
        raise UsageError(f"the arguments of {name} are not given by name")
    module, _, kind = name.rpartition(".")
    text = json.dumps(_plain(arguments, budget)) if arguments else ""
    return f"{module}:{kind}{text}"


def _plain(value: Any, budget: Iterator[int]) -> Any:
    """Copy what JSON can hold; ``budget`` bounds what references in the file may multiply."""
    if next(budget, None) is None:
        raise UsageError("arguments hold too many values")
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list():
            return [_plain(part, budget) for part in value]
        case dict() if all(isinstance(key, str) for key in value):
            return {key: _plain(part, budget) for key, part in value.items()}
    raise UsageError(f"an argument is a {type(value).__name__}")


def find_normaliser(
    beside: Beside, trained_normalised: bool | None, run: ZooRun | None
) -> tuple[Normaliser | None, str]:
    """Find and read the statistics that belong to a checkpoint, and the name of their file.

    First those named after it (``rl_model_vecnormalize_40000_steps.pkl`` beside
    ``rl_model_40000_steps.zip``, ``best_vecnormalize.pkl`` beside ``best.zip``), then
    ``vecnormalize.pkl`` in its folder, then the one that RL Zoo keeps of the whole ``run``.
    ``trained_normalised`` is what the checkpoint itself tells.

    What had to be assumed is noted: statistics that lie beside a checkpoint that was trained
    without, or none where others have some. Statistics that belong to it and cannot be read, or are
    known to be missing, are a BadPolicyFile: without them the policy would act wrongly.
    """
    names = {name.lower(): name for name in beside.names(_NORMALISER)}
    own = [names[name] for name in _own_names(beside.stem) if name in names]
    shared = [names[f"{word}.pkl"] for word in _WORDS if f"{word}.pkl" in names]
    normalised = trained_normalised
    if run is not None and run.normalised is not None:
        normalised = run.normalised
    if not own and normalised is False:
        if shared:
            beside.assume(
                f"trained without VecNormalize, so that {shared[0]} beside is not applied; name it "
                "after the checkpoint, as in best_vecnormalize.pkl, to have it applied nevertheless"
            )
        return None, ""
    of_run = [f"{run.folder}vecnormalize.pkl"] if run is not None else []
    for file in (*own, *shared, *of_run):
        data = beside.read(file)
        if data is None:
            continue
        normaliser = read_normaliser(data, f"{file} beside it")
        if normaliser is None:
            return None, f"none ({file} is for rewards only)"
        if run is not None and file in of_run and f"{beside.stem}/" != run.folder:
            beside.assume(
                f"normalised by {file}, the statistics of the end of the training, since none were "
                "saved with these checkpoints (RL Zoo does the same)"
            )
        return normaliser, file
    if normalised:
        _allow_without(beside, (of_run or [f"{beside.stem}_vecnormalize.pkl"])[0])
    elif names and normalised is None:
        beside.assume(
            "without statistics of VecNormalize, though other checkpoints of the folder have some: "
            "observations are not normalised; name statistics after their checkpoint, as in "
            "best_vecnormalize.pkl, to have them applied"
        )
    return None, ""


def _allow_without(beside: Beside, expected: str) -> None:
    """Refuse a policy whose statistics are missing, unless the user allows that."""
    if not beside.without_normaliser:
        raise BadPolicyFile(
            "it was trained with VecNormalize, but there are no statistics of it: put them beside "
            f"as {expected}, or let it act without (right only if nothing but rewards was "
            "normalised) with --without-normaliser (in Python: without_normaliser=True)"
        )
    beside.assume(
        "trained with VecNormalize, whose statistics are missing: observations are not "
        "normalised, as you allowed"
    )


def _own_names(stem: str) -> list[str]:
    stem = stem.lower()
    names = [f"{stem}_{word}.pkl" for word in _WORDS]
    if match := _STEPS.fullmatch(stem):
        prefix, steps = match["prefix"], match["steps"]
        names += [f"{prefix}_{word}_{steps}_steps.pkl" for word in _WORDS]
    return names


def read_normaliser(data: bytes, name: str = "the file") -> Normaliser | None:
    """Read the statistics of a pickled VecNormalize; None if it does not touch observations."""
    with about(name):
        saved = read_objects(data, MODULES)
        if not isinstance(saved, Object) or not str(saved.kind).endswith(".VecNormalize"):
            raise BadPolicyFile("it holds no VecNormalize")
        state = saved.state
        if not state.get("norm_obs", True):
            return None
        for key in ("obs_rms", "epsilon", "clip_obs"):
            if key not in state:
                raise BadPolicyFile(f"it lacks {key!r} of a VecNormalize")
        statistics, space = state["obs_rms"], state.get("observation_space")
        settings = float(state["epsilon"]), float(state["clip_obs"])
        if not isinstance(statistics, dict):
            return _normaliser(statistics, *settings)
        # Dictionaries are flattened in the order of the space; some parts stay as they are.
        inner = space.state.get("spaces") if isinstance(space, Object) else None
        if not isinstance(inner, dict):
            raise UsageError("it has a dictionary of statistics without the space they belong to")
        parts = [
            _normaliser(statistics[key], *settings) if key in statistics else _size(part)
            for key, part in inner.items()
        ]
        return Normaliser.joined(parts)


def _normaliser(moments: Any, epsilon: float, limit: float) -> Normaliser:
    """Make the normaliser of a running mean and variance."""
    if not isinstance(moments, Object):
        raise UsageError("it has no running mean and variance")
    mean, variance = (as_array(moments.state.get(key)) for key in ("mean", "var"))
    if mean is None or variance is None or mean.shape != variance.shape:
        raise UsageError("it has a mean and a variance of different shapes")
    doubles = mean.astype(np.float64), variance.astype(np.float64)
    return Normaliser.of_variance(*doubles, epsilon, limit)


def _size(space: Any) -> int:
    """Say how many values a part of the observations has that stays as it is."""
    if isinstance(space, Object):
        kind, width = str(space.kind).rpartition(".")[2], 0
        if kind == "Discrete":
            width = int(space.state["n"])
        elif kind == "MultiDiscrete" and (counts := as_array(space.state["nvec"])) is not None:
            width = int(counts.sum())
        elif kind in ("Box", "MultiBinary"):
            width = math.prod(int(n) for n in space.state["_shape"])
        if 0 < width <= MAX_WIDTH:
            return width
    raise UsageError("a part of its observations cannot be flattened")


KNOWN_EXTRACTORS = tuple(
    f"<class 'stable_baselines3.common.torch_layers.{kind}'>"
    for kind in ("FlattenExtractor", "CombinedExtractor", "NatureCNN")
)
NOT_NORMALISED = "it sees {}, which is not supported: pass it as module:object"
POLICY_MODULES = frozenset(
    {
        *("", "abc"),
        *(f"stable_baselines3.{part}.policies" for part in ("common", "sac", "td3", "dqn")),
        *(f"sb3_contrib.{part}.policies" for part in ("tqc", "qrdqn", "common.recurrent")),
        "sb3_contrib.common.maskable.policies",
    }
)
SPACES = {
    **dict.fromkeys(("SAC", "TQC", "TD3", "DDPG"), ("Box",)),
    **dict.fromkeys(("DQN", "QR-DQN"), ("Discrete",)),
    "MaskablePPO": ("Discrete", "MultiDiscrete"),
    **dict.fromkeys(
        ("PPO", "A2C", "TRPO", "RecurrentPPO"), ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
    ),
}
"""Algorithm -> the kinds of actions it may have."""


SB3Policy = NetworkPolicy | OutputPolicy | RecurrentNetwork | MaskedPolicy


@reader
def read_sb3(data: bytes, beside: Beside) -> tuple[SB3Policy, dict[str, Any]]:
    """Read the policy network of a Stable-Baselines3 ``.zip``, and what it tells of its training.

    That is ``algorithm``, ``step`` (environment steps trained for), ``sb3_version``, ``epsilon``
    (of DQN) where known; ``normaliser``, the file applied to observations, if there is one; and
    where RL Zoo tells, ``environment`` with its ``arguments``, ``wrappers`` and ``imports``.
    """
    budget = Budget(len(data), "it")
    archive = BoundedZip(data, budget)
    if not {"data", "policy.pth"} <= set(archive.members):
        raise BadPolicyFile(
            "it is a zip archive, but not of Stable-Baselines3: expected 'data' and 'policy.pth' "
            "in it"
        )
    with about("'data' in it"):
        settings = SB3Settings(archive.read("data"), budget)
    with about("policy.pth in it"):
        tensors = read_tensors(archive.read("policy.pth"), budget)
    run = find_zoo_run(beside)
    normaliser, normaliser_file = find_normaliser(beside, settings.trained_normalised, run)
    if normaliser is not None and run is not None and run.frame_stack > 1:
        raise BadPolicyFile(NOT_NORMALISED.format("what is normalised and then stacked"))
    policy: SB3Policy
    try:
        policy, info = _policy(settings, tensors)
    except (BadPolicyFile, UsageError) as error:
        from pivec.policies.formats.trusted import read_by_library

        policy, info = read_by_library(data, settings, tensors, beside, error)
    policy = _normalised(policy, normaliser, settings.shape("observation_space"))
    steps = settings.values.get("num_timesteps")
    if type(steps) is int and steps >= 0:
        info["step"] = steps
    if "_stable_baselines3_version" in archive.members:
        text = archive.read("_stable_baselines3_version")[:40].decode("utf-8", "replace")
        info["sb3_version"] = text.strip()
    if normaliser_file:
        info["normaliser"] = normaliser_file
    if run is not None:
        info |= run.about(settings.shape("observation_space"))
    return policy, info


def _policy(settings: SB3Settings, tensors: Tensors) -> tuple[SB3Policy, dict[str, Any]]:
    """Make the policy of networks that are known, and tell its algorithm."""
    algorithm, read = _algorithm(settings, tensors)
    features = _features(settings, tensors)
    kind = settings.kind("action_space")
    if kind not in SPACES[algorithm]:
        raise BadPolicyFile(
            f"it has the action space {kind or 'unknown'}, which is not supported: "
            f"expected {' or '.join(SPACES[algorithm])}"
        )
    network = _in_space(read(tensors, settings), settings)
    info: dict[str, Any] = {"algorithm": algorithm}
    if network.head == "epsilon_greedy":
        info["epsilon"] = network.options.epsilon
    if algorithm == "RecurrentPPO":
        cells = read_cells(tensors, "lstm_actor")
        return RecurrentNetwork(cells, network, features=features), info
    if algorithm == "MaskablePPO":
        if features:
            raise BadPolicyFile("it is MaskablePPO behind a features extractor: not supported")
        return MaskedPolicy(network), info
    return (ImageNetwork(features, network).policy() if features else network), info


def _normalised(
    policy: SB3Policy, normaliser: Normaliser | None, shape: tuple[int, ...] | None
) -> SB3Policy:
    """Give a policy the statistics of its observations, which have this shape."""
    if isinstance(policy, MaskedPolicy):
        return MaskedPolicy(replace(policy.network, normaliser=normaliser))
    if normaliser is not None and not isinstance(policy, NetworkPolicy):
        model = policy if isinstance(policy, RecurrentNetwork) else policy.model
        features = getattr(model, "features", None)
        if len(shape or ()) == 3 or (
            isinstance(features, CombinedFeatures) and features.changes_images(normaliser)
        ):
            raise BadPolicyFile(NOT_NORMALISED.format("images that are normalised"))
    return replace(policy, normaliser=normaliser)


def convert_sb3(model: Any) -> SB3Policy:
    """Take the policy network out of a model that is in memory.

    Its actions then follow the generator they are given, where ``model.predict`` follows torch's
    and NumPy's global ones, and it can be stacked with others. Observations are normalised if the
    model's environment is a VecNormalize. Networks of kinds that are not known are asked by the
    library, see `pivec.policies.formats.trusted`; what that cannot do either is a BadPolicyFile.
    """
    from gymnasium.spaces import flatdim

    buffer = io.BytesIO()
    model.save(buffer)
    name = f"the {type(model).__name__} model"
    # That no statistics lie beside it is as it should be: they are in the model's environment. Its
    # code is the user's own.
    policy, _ = read_sb3(buffer.getvalue(), name, Beside(trust=True, without_normaliser=True))
    wrapper = model.get_vec_normalize_env()
    if wrapper is None or not wrapper.norm_obs:
        return policy
    space, statistics = model.observation_space, wrapper.obs_rms
    parts = [(space, statistics)]
    if isinstance(statistics, dict):
        parts = [(part, statistics.get(key)) for key, part in space.spaces.items()]
    normaliser = Normaliser.joined(
        [
            Normaliser.of_variance(moments.mean, moments.var, wrapper.epsilon, wrapper.clip_obs)
            if moments is not None
            else flatdim(part)
            for part, moments in parts
        ]
    )
    return _normalised(policy, normaliser, space.shape)


def _in_space(network: NetworkPolicy, settings: SB3Settings) -> NetworkPolicy:
    """The network with the shape and the box of its actions."""
    options, shape = network.options, settings.shape("action_space")
    if shape is not None and len(shape) > 1:
        options = replace(options, shape=shape)
    low, high = None, None
    if settings.kind("action_space") == "Box":
        low, high = settings.box(network.rule.n_values)
    return replace(network, options=options, low=low, high=high)


def _algorithm(
    settings: SB3Settings, tensors: Tensors
) -> tuple[str, Callable[[Tensors, SB3Settings], NetworkPolicy]]:
    """Which algorithm wrote this and how its network is read, or a refusal that names it."""
    prefixes = {key.partition(".")[0] for key in tensors}
    other = "an algorithm of another family"
    if "lstm_actor" in prefixes:
        return "RecurrentPPO", actor_critic
    if "maskable" in settings.policy_module:
        return "MaskablePPO", actor_critic
    if "actor" in prefixes and "crossq" in settings.policy_module:
        other = "CrossQ, whose networks normalise batches"
    elif "actor" in prefixes and "policy_delay" in settings.values:
        single = settings.argument("n_critics") == 1 and settings.values["policy_delay"] == 1
        return "DDPG" if single else "TD3", plain_actor
    elif "actor" in prefixes:
        drops = "top_quantiles_to_drop_per_net" in settings.values
        contrib = drops or "tqc" in settings.policy_module
        return "TQC" if contrib else "SAC", squashed_actor
    elif "q_net" in prefixes or "quantile_net" in prefixes:
        return "DQN" if "q_net" in prefixes else "QR-DQN", values
    elif "action_net" in prefixes:
        marks = {"clip_range": "PPO", "cg_max_steps": "TRPO", "gae_lambda": "A2C"}
        for key, algorithm in marks.items():
            if key in settings.values:
                return algorithm, actor_critic
        other = "PPO, A2C or TRPO with settings that belong to none of these"
    raise BadPolicyFile(
        f"this looks like {other}, which is not supported: expected PPO, A2C, DQN, SAC, TD3, DDPG, "
        "TRPO, QR-DQN, TQC or RecurrentPPO"
    )


def _features(settings: SB3Settings, tensors: Tensors) -> Features | None:
    """Find what is before the network; refuse what is not known."""
    space, shape = settings.mapping("observation_space"), settings.shape("observation_space")
    extractor = settings.argument("features_extractor_class")
    scaled = bool(settings.argument("normalize_images", True))
    features, spoken = None, None
    if extractor is not None and extractor not in KNOWN_EXTRACTORS:
        spoken = "a policy with a features extractor of its own"
    elif settings.policy_module not in POLICY_MODULES:
        spoken = f"a policy class of {settings.policy_module[:80]}"
    else:
        features = read_extractor(tensors, space, shape, scaled)
        if features is None and any("features_extractor." in key for key in tensors):
            spoken = "a policy with a features extractor of its own"
        elif (
            features is None and space.get("dtype") == "uint8" and scaled and len(shape or ()) == 3
        ):
            spoken = "image observations without a CNN"
    if spoken is not None:
        raise BadPolicyFile(
            f"it has {spoken}, which is not supported: expected MLPs, NatureCNN or "
            "CombinedExtractor"
        )
    return features
