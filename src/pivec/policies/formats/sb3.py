"""Checkpoints of Stable-Baselines3 and SB3-contrib, read without torch and without either.

The JSON in the archive says what the policy is, and the weights come from `pivec.policies.tensors`;
pickled fields (``:serialized:``) are never decoded. With the user's trust, the library itself loads
what is not known here; it gives the action distribution and pivec samples, so that actions follow
from the seed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import random
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, MissingExtra, PivecError, UsageError
from pivec.files import BoundedZip, Budget
from pivec.policies.callables import import_here, user_code
from pivec.policies.distributions import DistributionSpec, Options, counts, frozen
from pivec.policies.extractors import (
    MAX_AXES,
    MAX_VALUES,
    NATURE,
    CombinedFeatures,
    ImageFeatures,
    Part,
    assemble,
    find_features,
)
from pivec.policies.formats import CheckpointFiles, about, read_json, reader
from pivec.policies.formats.described import averaged, linear, make_network, recurrent, sequence
from pivec.policies.formats.rl_zoo import find_normaliser, find_zoo_run
from pivec.policies.forward import ACTIVATIONS, Float, Normaliser, Tensors
from pivec.policies.networks import (
    Features,
    MaskedPolicy,
    Model,
    NetworkPolicy,
    OutputPolicy,
    RecurrentNetwork,
    row_by_row,
)
from pivec.policies.policy import check_width
from pivec.policies.tensors import read_tensors

if TYPE_CHECKING:
    from pivec.policies.policy import Space

SB3Policy = NetworkPolicy | OutputPolicy | RecurrentNetwork | MaskedPolicy
SB3Read = tuple[SB3Policy, dict[str, Any]]

INSTEAD = "which is not supported: pass it as module:object"
NO_DISTRIBUTION = ("TD3", "DDPG", "ARS")  # whose policies only give actions
DISAGREE = "it is damaged: its action space does not fit its weights"
KNOWN_EXTRACTORS = tuple(
    f"<class 'stable_baselines3.common.torch_layers.{kind}'>"
    for kind in ("FlattenExtractor", "CombinedExtractor", "NatureCNN")
)
POLICY_MODULES = frozenset(
    {
        *("", "abc"),
        *(f"stable_baselines3.{part}.policies" for part in ("common", "sac", "td3", "dqn")),
        *(f"sb3_contrib.{part}.policies" for part in ("tqc", "qrdqn", "common.recurrent")),
        "sb3_contrib.common.maskable.policies",
    }
)
# Names of the actor's feature extractor.
EXTRACTORS = [f"{of}features_extractor" for of in ("pi_", "", "actor.", "q_net.", "quantile_net.")]
# A part of a Dict space as Gymnasium prints it: a shape, or numbers of choices.
_PART = re.compile(
    r"'(?P<key>[^'\\]*)': (?:"
    r"Box\([^()]*\((?P<box>[\d, ]*)\), \w+\)"
    r"|MultiBinary\(\(?(?P<switches>[\d, ]+)\)?\)"
    r"|Discrete\((?P<choices>\d+)(?:, start=-?\d+)?\)"
    r"|MultiDiscrete\((?P<several>[\d\s\[\]]+)(?:, start=[^()]*)?\)"
    r")(?:, |$)"
)


@reader
def read_sb3(data: bytes, files: CheckpointFiles) -> SB3Read:
    """Read the policy network of a Stable-Baselines3 ``.zip``, and facts about its training.

    These are ``algorithm``, ``step`` (environment steps trained for), ``sb3_version``, ``epsilon``
    (of DQN) where known; ``normaliser``, the file applied to observations, if there is one; and
    where RL Zoo tells, ``environment`` with its ``arguments``, ``wrappers`` and ``imports``.
    """
    budget = Budget(len(data), "it")
    archive = BoundedZip(data, budget)
    if not {"data", "policy.pth"} <= set(archive.members):
        what = "expected 'data' and 'policy.pth' in it"
        raise BadPolicyFile(f"it is a zip archive, but not of Stable-Baselines3: {what}")
    with about("'data' in it"):
        settings = SB3Settings(archive.read("data"), budget)
    with about("policy.pth in it"):
        tensors = read_tensors(archive.read("policy.pth"), budget)
    run = find_zoo_run(files)
    normaliser, normaliser_file = find_normaliser(files, settings.trained_normalised, run)
    if normaliser is not None and run is not None and run.frame_stack > 1:
        raise BadPolicyFile(f"it takes what is normalised and then stacked, {INSTEAD}")
    algorithm = _find_algorithm(settings, tensors)
    policy: SB3Policy
    try:
        policy, info = _read_policy(algorithm, settings, tensors, files)
    except (BadPolicyFile, UsageError) as error:
        policy, info = _read_with_library(data, algorithm, settings, tensors, files, error)
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
        info |= run.metadata(settings.shape("observation_space"))
    return policy, info


def convert_sb3(model: Any) -> SB3Policy:
    """Take the policy network out of a model in memory.

    Its actions then follow from the generator they are given, whereas ``model.predict`` uses the
    global ones of torch and NumPy, and it can be stacked. Observations are normalised if the
    model's environment is a VecNormalize. Networks of unknown kinds are evaluated by the library;
    if that is not possible either, a BadPolicyFile is raised.
    """
    from gymnasium.spaces import flatdim

    buffer = io.BytesIO()
    model.save(buffer)
    name = f"the {type(model).__name__} model"
    # Statistics are in the model's environment and not in files; its code is the user's own.
    own = CheckpointFiles(trust=True, without_normaliser=True)
    policy: SB3Policy = read_sb3(buffer.getvalue(), name, own)[0]
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


class SB3Settings:
    """The JSON part of a checkpoint: its archive's member ``data``."""

    def __init__(self, data: bytes | bytearray, budget: Budget | None = None) -> None:
        self.values = read_json(data, budget)

    def mapping(self, key: str) -> Mapping[str, Any]:
        value = self.values.get(key)
        return value if isinstance(value, dict) else {}

    def argument(self, key: str, default: Any = None) -> Any:  # of the policy's class
        return self.mapping("policy_kwargs").get(key, default)

    @property
    def policy_module(self) -> str:
        return str(self.mapping("policy_class").get("__module__", ""))

    def kind(self, key: str) -> str:  # class of a space
        return _class_name(self.mapping(key).get(":type:"))

    def shape(self, key: str) -> tuple[int, ...] | None:
        """Shape of a space; None if unknown."""
        shape = self.mapping(key).get("_shape")
        if isinstance(shape, list) and all(type(n) is int and 0 < n < 1 << 20 for n in shape):
            return tuple(shape)
        return None

    def activation(self, default: str) -> str:
        """Activation between the layers."""
        if "activation_fn" not in self.mapping("policy_kwargs"):
            return default
        text = self.argument("activation_fn")
        name = _class_name(text).lower() if str(text).startswith("<class 'torch.nn.") else ""
        for activation in ACTIVATIONS:  # which are torch's modules
            if activation.replace("_", "") == name:
                return activation
        known = ", ".join(ACTIVATIONS)
        raise BadPolicyFile(f"its activation {str(text)[:80]} is not supported: expected {known}")

    def _words(self, field: str) -> list[str]:
        """Words of an array of the action space as printed in the JSON."""
        text = self.mapping("action_space").get(field)
        text = str(text) if type(text) is int else text
        return re.sub(r"[\[\],]", " ", text).split() if isinstance(text, str) else []

    def counts(self, field: str) -> tuple[int, ...]:
        """Numbers of actions as printed: ``n`` of Discrete, ``nvec`` of MultiDiscrete."""
        words = self._words(field)
        if not words or not all(re.fullmatch(r"[1-9]\d{0,8}", word) for word in words):
            raise BadPolicyFile("it does not contain the number of actions")
        return tuple(map(int, words))

    def bounds(self, n_values: int) -> tuple[Float | None, Float | None]:
        """Bounds of the action space as printed in the JSON; None if that was abridged."""
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
        """Whether the model was trained in a VecNormalize; None if unknown.

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


def _class_name(text: Any) -> str:
    """Last name in text such as ``<class 'torch.nn.modules.activation.Tanh'>``."""
    match = re.fullmatch(r"<class '([\w.]+)'>", text) if isinstance(text, str) else None
    return match.group(1).rpartition(".")[2] if match else ""


def _read_policy(
    algorithm: Algorithm, settings: SB3Settings, tensors: Tensors, files: CheckpointFiles
) -> SB3Read:
    """Make the policy if its networks are known, and name its algorithm."""
    kind, shape = settings.kind("action_space"), settings.shape("action_space")
    if algorithm.describe is None:
        raise BadPolicyFile(f"it was written by {algorithm.name}, which is not supported")
    features = _features(settings, tensors)
    if kind not in algorithm.spaces:
        raise BadPolicyFile(
            f"it has the action space {kind or 'unknown'}, which is not supported: "
            f"expected {' or '.join(algorithm.spaces)}"
        )
    description = algorithm.describe(tensors, settings)
    if shape is not None and len(shape) > 1:
        description["shape"] = shape
    network = make_network({**description, "normaliser": None}, tensors, files)
    if kind == "Box":
        low, high = settings.bounds(network.action_distribution.n_values)
        network = replace(network, low=low, high=high)
    name = algorithm.name
    if settings.argument("n_critics") == 1 and settings.values.get("policy_delay") == 1:
        name = "DDPG"
    info: dict[str, Any] = {"algorithm": name}
    if network.head == "epsilon_greedy":
        info["epsilon"] = network.options.epsilon
    if name == "MaskablePPO":
        if features:
            raise BadPolicyFile("it is MaskablePPO with a features extractor: not supported")
        return MaskedPolicy(network), info
    memory = recurrent(tensors, "lstm_actor") if name == "RecurrentPPO" else ()
    return assemble(network, None, features, *memory), info


def _normalised(
    policy: SB3Policy, normaliser: Normaliser | None, shape: tuple[int, ...] | None
) -> SB3Policy:
    """Add the normaliser of observations, which have this shape."""
    if isinstance(policy, MaskedPolicy):
        return MaskedPolicy(replace(policy.network, normaliser=normaliser))
    if normaliser is not None and not isinstance(policy, NetworkPolicy):
        model = policy if isinstance(policy, RecurrentNetwork) else policy.model
        features = getattr(model, "features", None)
        if len(shape or ()) == 3 or (
            isinstance(features, CombinedFeatures) and features.changes_images(normaliser)
        ):
            raise BadPolicyFile(f"it takes images that are normalised, {INSTEAD}")
    return replace(policy, normaliser=normaliser)


def _features(settings: SB3Settings, tensors: Tensors) -> Features | None:
    """The feature extractor before the network: NatureCNN, CombinedExtractor, or none."""
    space, shape = settings.mapping("observation_space"), settings.shape("observation_space")
    scaled = bool(settings.argument("normalize_images", True))  # images are divided by 255
    supported = "which is not supported: expected MLPs, NatureCNN or CombinedExtractor"
    if settings.argument("features_extractor_class") not in (None, *KNOWN_EXTRACTORS):
        raise BadPolicyFile(f"it has a features extractor of its own, {supported}")
    if settings.policy_module not in POLICY_MODULES:
        raise BadPolicyFile(f"it has a policy class of {settings.policy_module[:80]}, {supported}")

    def nature(prefix: str, shape: tuple[int, ...] | None, scaled: bool) -> ImageFeatures:
        if shape is None or len(shape) != 3:
            raise BadPolicyFile(f"a CNN needs images with three axes, not of shape {shape}")
        names = [f"{prefix}.cnn.{2 * i}" for i in range(len(NATURE))]
        scale = 255.0 if scaled else 1.0
        return find_features(tensors, names, f"{prefix}.linear.0", shape, NATURE, scale)

    for prefix in EXTRACTORS:
        if f"{prefix}.cnn.0.weight" in tensors:
            return nature(prefix, shape, scaled and space.get("dtype") == "uint8")
        inside = f"{prefix}.extractors."
        names = [key.removeprefix(inside) for key in tensors if key.startswith(inside)]
        if keys := {name.partition(".")[0] for name in names}:
            parts = [
                replace(part, image=nature(inside + part.key, part.shape, scaled))
                if part.key in keys
                else part
                for part in read_spaces(space.get("spaces"))
            ]
            if odd := sorted(keys - {part.key for part in parts}):
                raise BadPolicyFile(f"it has features of {odd[0][:80]!r}, which it never observes")
            return CombinedFeatures(tuple(parts))
    if any("features_extractor." in key for key in tensors):
        raise BadPolicyFile(f"it has a features extractor of its own, {supported}")
    if space.get("dtype") == "uint8" and scaled and len(shape or ()) == 3:
        raise BadPolicyFile(f"it has image observations without a CNN, {supported}")
    return None


def read_spaces(text: Any) -> list[Part]:
    """Parse a printed Dict space into its parts, in order.

    Examples
    --------
    >>> [(part.key, part.size) for part in read_spaces("{'a': Discrete(3), 'b': MultiBinary(2)}")]
    [('a', 3), ('b', 2)]
    """
    parts: list[Part] = []
    inside = text[1:-1] if isinstance(text, str) and text[:1] + text[-1:] == "{}" else ""
    end = 0
    while match := _PART.match(inside, end):
        shape, counted = match["box"] or match["switches"], match["choices"] or match["several"]
        numbers = tuple(map(int, re.findall(r"\d+", shape or counted or "")))
        size = sum(numbers) if counted else prod(numbers[:MAX_AXES])
        if not 0 < size <= MAX_VALUES or (len(numbers) > MAX_AXES and not counted):
            break
        parts.append(Part(match["key"], numbers, size))
        end = match.end()
    if end < len(inside) or not parts:
        raise BadPolicyFile(f"its observation space cannot be parsed: {str(text)[:200]!r}")
    return parts


def _actor_critic(tensors: Tensors, settings: SB3Settings) -> dict[str, Any]:
    """PPO, A2C, TRPO: an MLP, maybe with layers shared with the critic, and any actions."""
    kind = settings.kind("action_space")
    if (kind == "Box") != ("log_std" in tensors):
        raise BadPolicyFile(DISAGREE)
    layers = _present(tensors, "mlp_extractor.shared_net", "mlp_extractor.policy_net")
    known = {"layers": [*layers, "action_net"], "activation": settings.activation("tanh")}
    match kind:
        case "Discrete":
            return {**known, "head": "categorical"}
        case "MultiDiscrete":
            return {**known, "head": "multi_categorical", "choices": settings.counts("nvec")}
        case "MultiBinary":
            return {**known, "head": "bernoulli"}
    # gSDE: noise is a random matrix times the last hidden layer.
    if not (settings.values.get("use_sde") or settings.argument("use_sde")):
        return {**known, "head": "gaussian", "log_std": "log_std"}
    return {
        **known,
        "head": "state_gaussian",
        "deviations": "plain",
        "squash": bool(settings.argument("squash_output")),
        "state_std": _state_std(tensors, "log_std", "action_net", settings),
    }


def _squashed_actor(tensors: Tensors, settings: SB3Settings) -> dict[str, Any]:
    """SAC and TQC: means and standard deviations depend on the state; actions are squashed."""
    known = {"head": "state_gaussian", "activation": settings.activation("relu"), "squash": True}
    layers = _present(tensors, "actor.latent_pi")
    if "actor.log_std" not in tensors:  # the default range of log_std is that of SAC and TQC
        return {**known, "layers": [*layers, "actor.mu"], "parallel": "actor.log_std"}
    # gSDE: a matrix of standard deviations instead of a layer
    limit = float(settings.argument("clip_mean", 2.0))
    last = "actor.mu.0" if limit > 0 else "actor.mu"
    return {
        **known,
        "layers": [*layers, last],
        "deviations": "plain",
        "mean_limit": limit if limit > 0 else np.inf,
        "state_std": _state_std(tensors, "actor.log_std", last, settings),
    }


def _deterministic_actor(_: Tensors, settings: SB3Settings) -> dict[str, Any]:
    """TD3 and DDPG: one squashed action per state."""
    known = {"layers": ["actor.mu"], "head": "deterministic", "squash": True}
    return {**known, "activation": settings.activation("relu")}


def _action_values(tensors: Tensors, settings: SB3Settings) -> dict[str, Any]:
    """DQN and QR-DQN, with the exploration rate of the checkpoint."""
    layers = sequence(tensors, "q_net.q_net")
    if not layers and (layers := sequence(tensors, "quantile_net.quantile_net")):
        layers[-1] = averaged(layers[-1], settings.counts("n")[0], 0)
    epsilon = float(settings.values.get("exploration_rate", 0.0))
    activation = settings.activation("relu")
    return {
        "layers": layers, "activation": activation, "head": "epsilon_greedy", "epsilon": epsilon
    }  # fmt: skip


def _present(tensors: Tensors, *names: str) -> list[str]:
    """Those of the networks that have layers."""
    return [name for name in names if any(key.startswith(f"{name}.") for key in tensors)]


def _state_std(tensors: Tensors, log_std: str, last: str, settings: SB3Settings) -> Float:
    """Standard deviations of gSDE's matrix, with the shape of the last layer's weights."""
    shape, logarithms = linear(tensors, last)[0].shape, frozen(tensors[log_std])
    if logarithms.ndim != 2 or logarithms.shape not in (shape, (shape[0], 1)):
        raise BadPolicyFile(
            f"its exploration matrix has shape {logarithms.shape} instead of {shape}"
        )
    # In float64: the last bits of NumPy's functions differ between processors, and are lost by
    # rounding.
    doubles = logarithms.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        std = np.exp(doubles)
        if settings.argument("use_expln"):
            # Raffin et al. 2022: exp below 0, log(1 + x) + 1 above.
            std = np.where(doubles > 0, np.log1p(np.maximum(doubles, 0) + 1e-6) + 1, std)
        return np.broadcast_to(std, shape).astype(np.float32)


class Algorithm(NamedTuple):
    """An algorithm, recognised by the first of its marks.

    Marks are settings, "tensor:" and a prefix of names, or "module:" and a part of the name of the
    policy's module.
    """

    name: str
    library: str  # module:class that loads it
    spaces: tuple[str, ...]  # supported action spaces
    describe: Callable[[Tensors, SB3Settings], dict[str, Any]] | None  # its network
    marks: tuple[str, ...]


ANY = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
ALGORITHMS = (  # the first one that has a mark
    Algorithm("RecurrentPPO", "", ANY, _actor_critic, ("tensor:lstm_actor",)),
    Algorithm("CrossQ", "sb3_contrib:CrossQ", (), None, ("module:crossq",)),
    Algorithm("MaskablePPO", "sb3_contrib:MaskablePPO", ("Discrete", "MultiDiscrete"),
              _actor_critic, ("module:maskable",)),
    Algorithm("QR-DQN", "sb3_contrib:QRDQN", ("Discrete",), _action_values,
              ("tensor:quantile_net",)),
    Algorithm("TQC", "sb3_contrib:TQC", ("Box",), _squashed_actor,
              ("top_quantiles_to_drop_per_net", "module:tqc")),
    Algorithm("TD3", "stable_baselines3:TD3", ("Box",), _deterministic_actor, ("policy_delay",)),
    Algorithm("SAC", "stable_baselines3:SAC", ("Box",), _squashed_actor,
              ("target_entropy", "tensor:actor")),
    Algorithm("DQN", "stable_baselines3:DQN", ("Discrete",), _action_values,
              ("exploration_fraction", "tensor:q_net")),
    Algorithm("PPO", "stable_baselines3:PPO", ANY, _actor_critic, ("clip_range",)),
    Algorithm("TRPO", "sb3_contrib:TRPO", ANY, _actor_critic, ("cg_max_steps",)),
    Algorithm("ARS", "sb3_contrib:ARS", (), None, ("n_delta",)),
    Algorithm("A2C", "stable_baselines3:A2C", ANY, _actor_critic, ("gae_lambda",)),
)  # fmt: skip


def _find_algorithm(settings: SB3Settings, tensors: Tensors) -> Algorithm:
    facts = {*settings.values, *(f"tensor:{key.partition('.')[0]}" for key in tensors)}
    for algorithm in ALGORITHMS:
        for mark in algorithm.marks:
            kind, _, part = mark.partition(":")
            if mark in facts or (kind == "module" and part in settings.policy_module):
                return algorithm
    supported = ", ".join(algorithm.name for algorithm in ALGORITHMS if algorithm.describe)
    raise BadPolicyFile(
        f"it was written by another algorithm, which is not supported: expected {supported}"
    )


def _read_with_library(
    data: bytes,
    algorithm: Algorithm,
    settings: SB3Settings,
    tensors: Tensors,
    files: CheckpointFiles,
    reason: PivecError,
) -> SB3Read:
    """Let the library read a checkpoint that was rejected for ``reason``, with trust."""
    if algorithm.name == "RecurrentPPO":
        raise BadPolicyFile(
            f"{reason}; since it has a memory, load it in your own module and pass the model "
            "as module:object"
        ) from reason
    if not files.trust:
        raise BadPolicyFile(
            f"{reason}; if you trust its source, --trust (in Python: trust=True) lets "
            "Stable-Baselines3 itself read it, which can run any code in it"
        ) from reason
    package, _, name = algorithm.library.partition(":")
    digest = hashlib.sha256(name.encode())
    for key in ("policy_class", "policy_kwargs"):
        digest.update(repr(sorted(settings.mapping(key).items())).encode())
    for key, tensor in sorted(tensors.items()):
        digest.update(f"{key} {tensor.dtype} {tensor.shape}".encode() + tensor.tobytes())
    model = LibraryModel(data, package, name, digest.hexdigest())
    spec = model.distribution_spec()
    info: dict[str, Any] = {"algorithm": name}
    if spec.name == "epsilon_greedy":
        info["epsilon"] = spec.options.epsilon
    return OutputPolicy(model, spec), info


@dataclass(frozen=True, eq=False)
class LibraryModel(Model):
    """A policy evaluated by the library; pickling stores the file, which is loaded again."""

    data: bytes = field(repr=False)  # the whole file
    package: str
    algorithm: str
    fingerprint: str = ""
    space: Any = field(default=None, repr=False)  # of the observations
    policy: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        from gymnasium import spaces

        self.set(policy=_load(self.data, self.package, self.algorithm))
        space = self.policy.observation_space
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
            self.set(n_inputs=prod(space.shape or ()))  # the library one-hot encodes them itself

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self.data, self.package, self.algorithm, self.fingerprint, self.space)
        return LibraryModel, given

    def bind(self, observation_space: Space) -> Self:
        from gymnasium import spaces

        check_width(spaces.flatdim(self.policy.observation_space), observation_space)
        bound = object.__new__(type(self))
        bound.__dict__.update(self.__dict__, space=observation_space)
        return bound

    def distribution_spec(self) -> DistributionSpec:
        """What the outputs mean."""
        from stable_baselines3.common import distributions

        policy, space = self.policy, self.policy.action_space
        options = Options(shape=space.shape if space.shape and len(space.shape) > 1 else None)
        if hasattr(policy, "q_net") or hasattr(policy, "quantile_net"):
            epsilon = float(getattr(policy, "exploration_rate", 0.0))
            return DistributionSpec("epsilon_greedy", replace(options, epsilon=epsilon))
        actor = getattr(policy, "actor", None)
        match getattr(policy, "action_dist", None) or getattr(actor, "action_dist", None):
            case distributions.CategoricalDistribution():
                return DistributionSpec("categorical")
            case distributions.MultiCategoricalDistribution():
                options = replace(options, choices=tuple(space.nvec.ravel().tolist()))
                return DistributionSpec("multi_categorical", options)
            case distributions.BernoulliDistribution():
                return DistributionSpec("bernoulli", options)
            case (
                distributions.DiagGaussianDistribution()
                | distributions.StateDependentNoiseDistribution()
            ):
                squash = bool(policy.squash_output)
                options = replace(options, squash=squash, deviations="plain")
                return DistributionSpec("state_gaussian", options)
            case None if self.algorithm in NO_DISTRIBUTION:
                return DistributionSpec(
                    "actions" if space.shape == () else "deterministic", options
                )
        raise BadPolicyFile(
            f"its policy is a {type(policy).__name__}, whose action distribution is not known (for "
            "MaskablePPO only MLPs are supported): pass it as module:object"
        )

    def outputs(self, observations: Float) -> NDArray[Any]:
        return row_by_row(self._answer, np.asarray(observations))

    def _answer(self, rows: NDArray[Any]) -> NDArray[Any]:
        import torch

        failed = f"{self.algorithm} failed on observations of shape {rows.shape[1:]}"
        with user_code(failed), torch.inference_mode(), _generators_kept():
            return self._numbers(self._observation(rows)).reshape(len(rows), -1)

    def _observation(self, rows: NDArray[Any]) -> Any:
        """Undo Gymnasium's flattening of dictionaries; all zeros stand for the discrete value 0."""
        from gymnasium import spaces

        space = self.space or self.policy.observation_space
        if not isinstance(space, spaces.Dict):
            return _typed(rows, space)
        ends = np.cumsum([spaces.flatdim(part) for part in space.spaces.values()])
        result = {}
        for key, own in zip(space, np.split(rows, ends[:-1], axis=1), strict=True):
            part, values = space[key], own
            if isinstance(part, spaces.Discrete | spaces.MultiDiscrete):
                columns = np.split(own, np.cumsum(counts(part))[:-1], axis=1)
                chosen = np.stack([column.argmax(axis=1) for column in columns], axis=1)
                values = chosen + np.ravel(part.start)
            result[key] = _typed(values.reshape(len(values), *(part.shape or ())), part)
        return result

    def _numbers(self, observation: Any) -> NDArray[Any]:
        policy = self.policy
        if self.algorithm in NO_DISTRIBUTION:
            return np.asarray(policy.predict(observation, deterministic=True)[0])
        tensor, _ = policy.obs_to_tensor(observation)
        if hasattr(policy, "q_net"):
            return np.asarray(policy.q_net(tensor))
        if hasattr(policy, "quantile_net"):
            return np.asarray(policy.quantile_net(tensor).mean(dim=1))
        if hasattr(policy, "actor"):
            mean, log_std, more = policy.actor.get_action_dist_params(tensor)
            given = policy.actor.action_dist.proba_distribution(mean, log_std, **more).distribution
        else:
            given = policy.get_distribution(tensor).distribution
        if isinstance(given, list | tuple):  # of several choices
            return np.concatenate([np.asarray(part.logits) for part in given], axis=1)
        if hasattr(given, "logits"):
            return np.asarray(given.logits)
        return np.concatenate([np.asarray(given.mean), np.asarray(given.stddev)], axis=1)


def _typed(rows: NDArray[Any], space: Space) -> NDArray[Any]:
    """Convert to the space's type, unless normalisation made other numbers of them."""
    with np.errstate(invalid="ignore"):
        typed = rows.astype(space.dtype)
    return typed if np.array_equal(typed, rows) else rows


def _load(data: bytes, package: str, algorithm: str) -> Any:
    """Load the library's policy."""
    try:
        library = import_here(package)  # where classes of the user are importable
    except ImportError as error:
        what = f"reading what only {algorithm} of {package} can read"
        if package == "stable_baselines3":
            raise MissingExtra(what, "sb3") from error
        raise BadPolicyFile(f"{what} needs that package: pip install sb3-contrib") from error
    failure = ""
    try:
        with warnings.catch_warnings(record=True) as said, _generators_kept():
            warnings.simplefilter("always")
            model = getattr(library, algorithm).load(io.BytesIO(data), device="cpu")
    except Exception as error:  # whatever the code in the file raises
        failure = f"{type(error).__name__}: {error}"
    # The library ignores what it cannot unpickle, and continues with another network.
    texts = [str(warning.message) for warning in said]
    failure = next((text for text in texts if "deserialize object policy" in text), failure)
    if failure:
        raise BadPolicyFile(f"{algorithm}.load failed: {' '.join(failure.split())[:400]}")
    policy = model.policy
    policy.set_training_mode(False)
    policy.exploration_rate = getattr(model, "exploration_rate", 0.0)
    return policy


@contextlib.contextmanager
def _generators_kept() -> Iterator[None]:
    """Restore the global random generators, which the library seeds and draws from."""
    import torch

    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])
