"""Files of torch: state dictionaries, modules, TorchScript (``.pt``), exported programs (``.pt2``).

Training scripts usually save the weights alone, which are read as data. The names of the tensors
tell which library it was (`LAYOUTS`), and so what the outputs mean; a description or configuration
next to the file may correct what the library does by default. Programs and pickled modules contain
code, so they need the user's trust.
"""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, MissingExtra, UsageError
from pivec.files import BoundedZip, Budget
from pivec.policies.callables import import_here, user_code
from pivec.policies.distributions import frozen
from pivec.policies.extractors import (
    MAX_VALUES,
    DenseFeatures,
    FeatureNetwork,
    ReturnProbabilities,
    assemble,
    find_features,
    square_images,
)
from pivec.policies.formats import CheckpointFiles, Read, about, reader
from pivec.policies.formats.described import (
    COMMON,
    check_keys,
    described_network,
    described_outputs,
    make_network,
    read_info,
    read_statistics,
    recurrent,
    sequence,
    spelt,
)
from pivec.policies.forward import Float, Tensors
from pivec.policies.networks import Features, Model, NetworkPolicy, row_by_row
from pivec.policies.tensors import NeedsCode, named_tensors, read_torch

SCRIPT, PROGRAM, MODULE = "TorchScript", "torch.export", "pickled"
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
NOT_READ = re.compile(r"(^|\.)(rnn|[ac]_rnn|memory_a|lstm|gru|cnns?|actor_cnn)\.")
CRITICS = ("memory_c.", "memory_s.")  # memories of rsl_rl that the actor does not have


@dataclass(frozen=True)
class Layout:
    """A library's network, recognised by the names of its tensors.

    ``settings`` complete its description (see `make_network`).
    """

    library: str
    algorithm: str
    layers: tuple[str, ...]  # in order: each a layer, or a Sequential of layers and activations
    head: str
    activation: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    also: tuple[str, ...] = ()  # prefixes of further names that distinguish it from others
    never: tuple[str, ...] = ()
    memory: str = ""  # an LSTM or GRU before the layers,
    before: str = ""  # and a Sequential before that, if it is there
    assumed: str = ""  # what else the file does not tell

    def fits(self, tensors: Tensors, names: set[str]) -> bool:
        """Whether tensors have these names; ``names`` are all in the file."""
        parts = [
            *self.layers,
            *([self.settings["parallel"]] if "parallel" in self.settings else []),
        ]
        arrays = [f"{self.memory}.weight_ih_l0"] if self.memory else []
        arrays += [self.settings[key] for key in ("log_std", "std") if key in self.settings]
        return (
            all(f"{p}.weight" in tensors or f"{p}.0.weight" in tensors for p in parts)
            and all(name in tensors for name in arrays)
            and all(any(name.startswith(part) for name in names) for part in self.also)
            and not any(name.startswith(self.never) for name in names if self.never)
        )

    @property
    def description(self) -> dict[str, Any]:
        """Description of the network."""
        own = {"layers": list(self.layers), "head": self.head, "activation": self.activation}
        return {**own, **self.settings}


RESCALED, SQUASHED = {"squash": "clip"}, {"squash": True}
FREE = {"squash": "clip", "log_std_range": [-80.0, 80.0]}  # rl_games does not clip it
TANH = {"squash": True, "deviations": "tanh", "log_std_range": [-5.0, 2.0]}  # CleanRL's SAC
MEAN = "means are not bounded (unbounded=True, which the file does not tell)"
PLAIN = "no function such as tanh is applied to the outputs"
TORCHRL = "the actor is taken to end, with default settings, in"
MAX_ACTION = "max_action is taken as 1, which the file does not tell"
RL_GAMES_ACTOR, TIANSHOU_ACTOR = "a2c_network.actor_mlp", "actor.preprocess.model.model"
MU, SIGMA, SPREAD = "a2c_network.mu", "a2c_network.sigma", "actor.sigma.model"
TIANSHOU_MEAN, TIANSHOU_LAST = (
    (TIANSHOU_ACTOR, "actor.mu.model"),
    (TIANSHOU_ACTOR, "actor.last.model"),
)
LAYOUTS = (  # the first one that fits is used
    Layout("rl_games", "PPO", (RL_GAMES_ACTOR, "a2c_network.logits"), "categorical", "elu"),
    Layout("rl_games", "PPO", (RL_GAMES_ACTOR, MU), "gaussian", "elu",
           {"log_std": SIGMA, **RESCALED}, assumed=PLAIN),
    Layout("rl_games", "PPO", (RL_GAMES_ACTOR, MU), "state_gaussian", "elu",
           {"parallel": SIGMA, **FREE}, assumed=PLAIN),
    Layout("Tianshou", "PPO", TIANSHOU_MEAN, "gaussian", "relu",
           {"log_std": "actor.sigma_param", **RESCALED}, assumed=MEAN),
    Layout("Tianshou", "SAC", TIANSHOU_MEAN, "state_gaussian", "relu",
           {"parallel": SPREAD, **SQUASHED}, also=("critic2",), assumed=MEAN),
    Layout("Tianshou", "PPO", TIANSHOU_MEAN, "state_gaussian", "relu",
           {"parallel": SPREAD, **RESCALED}, assumed=MEAN),
    Layout("Tianshou", "DDPG or TD3", TIANSHOU_LAST, "deterministic", "relu", SQUASHED,
           also=("actor_old.",), assumed=MAX_ACTION),
    Layout("Tianshou", "PPO", TIANSHOU_LAST, "categorical", "relu"),
    Layout("Tianshou", "DQN", ("model.model.model", "model.Q.model"), "epsilon_greedy", "relu"),
    Layout("Tianshou", "DQN", ("model.model.model",), "epsilon_greedy", "relu"),
    *(
        Layout("rsl_rl", "PPO", (layers,), "gaussian", "elu", {key: name.format(key)},
               memory=memory)
        for layers, name, own in (
            ("mlp", "distribution.{}_param", "rnn.rnn"),
            ("actor", "{}", "memory_a.rnn"),
        )
        for memory in (own, "")
        for key in ("std", "log_std")
    ),
    *(
        Layout("skrl", algorithm, layers, head, "elu", more, also=also, assumed=PLAIN)
        for layers in (
            *(("net_container", "policy_layer"), ("net", "mean_layer")),
            *(("net_container",), ("net",)),
        )
        for algorithm, head, more, also in (
            ("PPO", "gaussian", {"log_std": "log_std_parameter"}, ()),
            ("DDPG or TD3", "deterministic", {}, ("target_policy.",)),
            ("DQN", "epsilon_greedy", {}, ("target_q_network.",)),
            ("PPO", "categorical", {}, ()),
        )
    ),
    *(
        Layout("PufferLib", "PPO", (*layers, last), head, "gelu", more, ("encoder.0.", "value."),
               memory=memory, before=before)
        for layers, memory, before in (((), "lstm", "encoder"), (("encoder",), "", ""))
        for last, head, more in (
            ("decoder", "categorical", {}),
            ("decoder_mean", "gaussian", {"log_std": "decoder_logstd"}),
        )
    ),
    # Without "module." at the beginning; losses tell the algorithm.
    *(
        Layout("TorchRL", "PPO or SAC", ("0.module.0",), head, "tanh", {"squash": True, key: value},
               ("0.module.0.0.",), assumed=f"{TORCHRL} NormalParamExtractor and TanhNormal")
        for head, key, value in (
            ("gaussian", "log_std", "0.module.1.state_independent_scale"),
            ("state_gaussian", "deviations", "biased_softplus"),
        )
    ),
    *(
        Layout("TorchRL", algorithm, ("0.module",), head, "tanh", more,
               tuple(f"loss_module.{name}" for name in also),
               assumed=f"{TORCHRL} TanhModule" if more else "")
        for algorithm, head, also, more in (
            ("PPO", "categorical", ("actor_network", "critic_network"), {}),
            ("SAC", "categorical", ("actor_network", "log_alpha"), {}),
            ("TD3", "deterministic", ("actor_network", "qvalue_network"), {"squash": True}),
            ("DDPG", "deterministic", ("actor_network", "value_network"), {"squash": True}),
            ("DQN", "epsilon_greedy", ("value_network",), {}),
        )
    ),
    Layout("CleanRL", "PPO", ("actor_mean",), "gaussian", "relu", {"log_std": "actor_logstd"},
           memory="lstm", before="network"),
    Layout("CleanRL", "PPO", ("actor",), "categorical", "relu", memory="lstm", before="network"),
    Layout("CleanRL", "PPO", ("actor_mean",), "gaussian", "tanh", {"log_std": "actor_logstd"}),
    Layout("CleanRL", "DDPG or TD3", ("fc1", "fc2", "fc_mu"), "deterministic", "relu", SQUASHED),
    Layout("CleanRL", "SAC", ("fc1", "fc2", "fc_mean"), "state_gaussian", "relu",
           {"parallel": "fc_logstd", **TANH}),
    Layout("CleanRL", "PPO", ("actor",), "categorical", "tanh", never=("actor.weight",)),
    Layout("CleanRL", "DQN", ("network",), "epsilon_greedy", "relu", never=("actor",)),
)  # fmt: skip
# CleanRL's scripts for Atari: convolutions, the linear layer after them, the last layer, its head.
ATARI = (
    ("PPO", ("network.0", "network.2", "network.4"), "network.7", "actor", "categorical"),
    ("DQN", ("network.0", "network.2", "network.4"), "network.7", "network.9", "epsilon_greedy"),
    ("SAC", ("conv.0", "conv.2", "conv.4"), "fc1", "fc_logits", "categorical"),
)


def read_weights(data: bytes, files: CheckpointFiles) -> Read:
    """Read a ``.cleanrl_model`` or ``.pth`` file.

    A description next to it (a .json of the same name, or policies.json) may set activation, head,
    epsilon or a normaliser where they differ from the library's, or state the ``layers`` of any
    other network.
    """
    if re.match(rb"[\x81-\x8f][\xa0-\xbf]", data):  # MessagePack: a mapping, its first key
        from pivec.policies.formats.jax import read_cleanrl_jax

        return read_cleanrl_jax(data, files)
    try:
        saved = read_torch(data)
    except NeedsCode:
        if not files.trust:
            raise
        saved = _load_trusted(data)
        if callable(saved):
            return _read_program(data, files, MODULE)
    return read_saved(saved, files)


def read_saved(saved: Any, files: CheckpointFiles) -> Read:
    """Make the policy of whatever a training script has saved, with arrays instead of tensors."""
    tensors, others = _weights(saved)
    everything = {**others, **tensors}
    given = files.description() or {}
    if "layers" in given:
        return described_network(given, everything, files)
    check_keys(given, COMMON | {"activation"})
    original = tensors
    for prefix in PREFIXES:
        tensors = {key.removeprefix(prefix): array for key, array in tensors.items()}
    library, memory, before = "CleanRL", "lstm", ""
    features: Features | None = None
    if script := _atari_script(tensors):
        algorithm, known, features = script
        memory = memory * any(key.startswith("lstm.") for key in tensors)
    else:
        layout = _recognise(tensors, others, original)
        library, algorithm, known = layout.library, layout.algorithm, layout.description
        memory, before = layout.memory, layout.before
        given = _with_defaults(layout, given, files)
        if "action_scale" in tensors and "action_bias" in tensors:  # CleanRL's scale after tanh
            scale, bias = (frozen(tensors[key]).ravel() for key in ("action_scale", "action_bias"))
            if scale.shape != bias.shape:
                raise BadPolicyFile("its action_scale and action_bias have different sizes")
            known |= {"low": bias - scale, "high": bias + scale}
    if given.get("head", known["head"]) != "gaussian":
        known.pop("log_std", None)
    named = {**everything, **tensors}
    network = make_network({**known, **given, "normaliser": None}, named, files)
    normaliser = read_statistics(given, everything, files)
    if features is not None and normaliser is not None:
        raise BadPolicyFile("it takes images, which are divided by 255 and cannot be normalised")
    cells, gru = recurrent(tensors, memory) if memory else ((), False)
    if cells:
        algorithm += f" with {'a GRU' if gru else 'an LSTM'}"
    if f"{before}.0.weight" in tensors:
        features = DenseFeatures(tuple(sequence(tensors, before)), network.activation)
    if (library, algorithm) == ("CleanRL", "DQN") and "atoms" in tensors:
        algorithm = "C51"
    if "activation" not in given and (
        len(network.layers) > 1 or isinstance(features, DenseFeatures)
    ):
        what = f"activation assumed to be {network.activation}, as in {library}'s {algorithm}"
        files.assume(what, "activation")
    info: dict[str, Any] = {"library": library, "algorithm": algorithm}
    step = next((saved[key] for key in STEP_KEYS if isinstance(saved, dict) and key in saved), None)
    if type(step) is int:
        info["step"] = step
    real_ppo = algorithm.startswith("PPO") and network.head == "gaussian"
    if library == "CleanRL" and real_ppo and normaliser is None:
        info["normaliser"] = NOT_SAVED
        if "normaliser" not in given:
            files.assume(
                "observations are not normalised, although CleanRL's PPO for real actions does so "
                "(it does not save the statistics)",
                "normaliser",
            )
    if algorithm == "C51":
        features, network = _mean_returns(tensors["atoms"].ravel(), features, network)
    policy = assemble(network, normaliser, features, cells, gru)
    return policy, info | read_info(given, normaliser)


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


def _atari_script(tensors: Tensors) -> tuple[str, dict[str, Any], Features] | None:
    """Algorithm, last layer and convolutions, if one of CleanRL's Atari scripts saved this."""
    for algorithm, convolutions, hidden, last, head in ATARI:
        first = tensors.get(f"{convolutions[0]}.weight", np.zeros(()))
        if first.ndim == 4 and f"{last}.weight" in tensors:
            shape = square_images(tensors, convolutions[0], convolutions[-1], hidden)
            features = find_features(tensors, convolutions, hidden, shape)
            return algorithm, {"layers": [last], "activation": "relu", "head": head}, features
    return None


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


def _recognise(tensors: Tensors, others: Tensors, original: Tensors) -> Layout:
    """Find the library; ``original`` are the tensors as the file names them."""
    names = {*tensors, *others}
    layout = next((layout for layout in LAYOUTS if layout.fits(tensors, names)), None)
    memories = (f"{layout.memory}.", *CRITICS) if layout is not None and layout.memory else ()
    odd = (name for name in tensors if NOT_READ.search(name) and not name.startswith(memories))
    if name := next(odd, ""):
        raise BadPolicyFile(
            f"it has a memory or convolutions ({name[:60]}) where they are not supported: pass it "
            "as module:object"
        )
    if layout is not None:
        return layout
    shown = ", ".join(list(original)[:6])[:200]  # names that `layers` may list
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
        files.assume(layout.assumed, "head or squash")
    if known.get("rescaled") is False:
        description = {"squash": False, **description}
    if layout.settings.get("squash") == "clip" and "squash" not in description:
        how = f"as {layout.library} does by default"
        files.assume(f"real actions are clipped to [-1, 1] and rescaled to bounds, {how}", "squash")
    activation = known.get("activation")
    if not isinstance(activation, str):
        return description
    return {"activation": spelt(activation), **description}


def _configured(library: str, files: CheckpointFiles) -> dict[str, Any]:
    """Settings in the configuration of a run, as far as they are there."""
    known: dict[str, Any] = {}
    for file in CONFIGURATIONS if library in CONFIGURED else ():
        data = files.read(file)
        if data is None:
            continue
        from pivec.policies.formats.rl_zoo import read_yaml

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


@reader
def read_pt(data: bytes, files: CheckpointFiles) -> Read:
    """Read a ``.pt`` file: TorchScript with the user's trust, or a state dictionary."""
    if data.startswith(b"PK"):
        names = BoundedZip(data, Budget(len(data), "it")).members
        if any(re.fullmatch(r"[^/]+/(code/.*|constants\.pkl)", name) for name in names):
            return _read_program(data, files, SCRIPT)
    return read_weights(data, files)


@reader
def read_pt2(data: bytes, files: CheckpointFiles) -> Read:
    """Read a program that ``torch.export.save`` wrote, with the user's trust."""
    return _read_program(data, files, PROGRAM)


def _read_program(data: bytes, files: CheckpointFiles, kind: str) -> Read:
    BoundedZip(data, Budget(len(data), "it"))  # raises if it is damaged
    files.demand_trust(f"is a {kind} program")
    description = files.description() or {}
    output = description.get("output", 0)
    if type(output) is not int or output < 0:
        raise UsageError("output must be the number of the output to use, from 0")
    return described_outputs(_make_model(data, kind, output), description, files)


def _load_trusted(data: bytes) -> Any:
    """Let torch load a file: a module, or values with arrays instead of tensors."""
    try:
        torch = import_here("torch")  # where classes of the user are importable
    except ImportError as error:
        raise MissingExtra("reading a pickled module", "torch") from error

    def plain(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            value = value.float() if value.dtype == torch.bfloat16 else value  # unknown to NumPy
            return value.detach().cpu().numpy()
        if isinstance(value, tuple | list):
            return [plain(part) for part in value]
        return {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else value

    instead = "run pivec where its classes can be imported, or save model.state_dict()"
    with user_code(f"torch {torch.__version__} cannot load it ({instead})", BadPolicyFile):
        value = torch.load(io.BytesIO(data), map_location="cpu", weights_only=False)
        return value.eval() if isinstance(value, torch.nn.Module) else plain(value)


def _make_model(data: bytes, kind: str, output: int) -> TorchModel:
    if kind == MODULE:
        return TorchModel(data, kind, output, _load_trusted(data))
    try:
        import torch
    except ImportError as error:
        raise MissingExtra(f"reading a {kind} program", "torch") from error
    failed = f"it is damaged, or torch {torch.__version__} cannot load it"
    with user_code(failed, BadPolicyFile), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        if kind == SCRIPT:
            module = torch.jit.load(io.BytesIO(data), map_location="cpu").eval()
            return TorchModel(data, kind, output, module)
        program = torch.export.load(io.BytesIO(data))
        return TorchModel(data, kind, output, program.module(), _batch(program))


def _batch(program: Any) -> int:
    """Batch size that an exported program requires; 1 if it takes any."""
    inputs = set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in inputs:
            shape = list(getattr(node.meta.get("val"), "shape", []))
            return shape[0] if shape and type(shape[0]) is int else 1
    return 1


@dataclass(frozen=True, eq=False)
class TorchModel(Model):
    """A module of torch as a `Model`; pickling stores the file, which is loaded again."""

    data: bytes = field(repr=False)  # the whole file
    kind: str  # SCRIPT, PROGRAM or MODULE
    output: int  # which of several outputs is used
    call: Any = field(repr=False)
    batch: int = 1  # rows per call

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_model, (self.data, self.kind, self.output)

    def __post_init__(self) -> None:
        archive = BoundedZip(self.data, Budget(len(self.data), f"a {self.kind} program"))
        digest = hashlib.sha256(repr(self.output).encode())
        for member in sorted(archive.members):
            # The top folder is named after the file, and so is a digest of all names.
            inner = member.partition("/")[2]
            if inner != ".data/serialization_id":
                content = archive.read(member)
                digest.update(f"{inner} {len(content)} ".encode() + content)
        self.set(fingerprint=digest.hexdigest())

    def outputs(self, observations: Float) -> NDArray[Any]:
        return row_by_row(self._answer, np.asarray(observations), self.batch)

    def _answer(self, rows: NDArray[Any]) -> NDArray[Any]:
        import torch

        failed = f"a {self.kind} program failed on observations of shape {rows.shape[1:]}"
        with user_code(failed), torch.inference_mode():
            result = self.call(torch.from_numpy(np.array(rows, np.float32)))
            if isinstance(result, tuple | list):
                result = result[self.output]
            array = np.asarray(result.detach().cpu().numpy())
        if array.ndim == 0 or len(array) != len(rows):
            expected = f"one row of outputs for each of {len(rows)} observations"
            raise UsageError(f"expected {expected}, but the program gave shape {array.shape}")
        return array.reshape(len(rows), -1)
