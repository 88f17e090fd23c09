"""The run of a Stable-Baselines3 checkpoint: RL Zoo's files and VecNormalize, read as data.

RL Baselines3 Zoo describes the checkpoints of ``logs/ppo/CartPole-v1_1`` in the folder
``CartPole-v1`` in it, with config.yml (hyperparameters), args.yml (the command) and
vecnormalize.pkl. Python objects in YAML become plain values, and pickles are interpreted.
"""

from __future__ import annotations

import ast
import functools
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import yaml

from pivec.errors import BadPolicyFile, UsageError
from pivec.files import Budget
from pivec.policies.formats import CheckpointFiles, about
from pivec.policies.forward import Normaliser
from pivec.policies.tensors import Object, as_array, check_values, read_objects

CONFIG, COMMAND = "config.yml", "args.yml"
MAX_YAML = 1 << 18
MAX_VALUES = 1000
MAX_STACK = 1000
MAX_WIDTH = 1 << 22  # values of an observation
MAX_AXES = 8
STACK = "gymnasium.wrappers:FrameStackObservation"
RESHAPE = "gymnasium.wrappers:ReshapeObservation"
PICKLE_MODULES = (
    *("gymnasium", "gym", "numpy", "collections", "copyreg", "stable_baselines3", "sb3_contrib"),
)
RENAME = "name it after the checkpoint, as in best_vecnormalize.pkl"
NORMALISER_NAMES = ("vecnormalize", "vec_normalize", "vecnorm", "vec_norm")


@dataclass(frozen=True)
class ZooRun:
    """What RL Zoo's files tell about the run of a checkpoint."""

    folder: str  # relative to the checkpoint, with a slash at its end
    environment: str  # a Gymnasium id
    arguments: Mapping[str, Any]
    wrappers: tuple[str, ...]  # as ``module:Class{"argument": 1}``, the innermost first
    frame_stack: int  # observations that are stacked, after normalisation
    imports: tuple[str, ...]  # modules that register the environment
    normalised: bool | None  # None if unknown

    def metadata(self, shape: tuple[int, ...] | None) -> dict[str, Any]:
        """The environment of the training, whose observations have this ``shape``, as JSON."""
        wrappers = list(self.wrappers)
        if self.frame_stack > 1:
            # Stable-Baselines3 pads with zeros before the first observation, and stacks the last
            # axis.
            wrappers.append(f'{STACK}{{"stack_size": {self.frame_stack}, "padding_type": "zero"}}')
            if shape is not None and len(shape) == 3 and shape[0] == self.frame_stack:
                wrappers.append(f'{RESHAPE}{{"shape": {list(shape)}}}')
            elif shape is None or len(shape) != 1:
                raise BadPolicyFile(
                    f"it takes {self.frame_stack} stacked observations of shape {shape}, which is "
                    "supported for vectors and grey images only: pass it as module:object"
                )
        lists = {"wrappers": wrappers, "imports": list(self.imports)}
        known = {"arguments": dict(self.arguments), **lists}
        return {"environment": self.environment, **{k: v for k, v in known.items() if v}}


def find_zoo_run(files: CheckpointFiles) -> ZooRun | None:
    """Read the folder of a run of RL Zoo; None if the checkpoint is in no such folder."""
    if files.path is None:
        return None
    # The folder is named after the environment, as the run, or if that was renamed the last model.
    run = re.fullmatch(r"(.+?)_\d+(?:_[0-9a-f-]{36})?", files.path.resolve().parent.name)
    models = {files.path.name, *files.names(r".*\.zip")}
    folders = files.names(r"[^/]+/")
    found = [folder for folder in folders if run is not None and folder == f"{run[1]}/"]
    found += [folder for folder in folders if f"{folder[:-1]}.zip" in models]
    if {CONFIG, COMMAND} <= set(files.names(r".*\.yml")):  # as it publishes models on the Hub
        found = [""]
    parts = [files.read(found[0] + file) for file in (CONFIG, COMMAND)] if found else []
    if parts in ([], [None, None]):
        return None
    with about(f"{found[0]}{CONFIG} or {COMMAND} next to it"):
        return _read_run(found[0], *parts)


@functools.lru_cache(maxsize=16)  # the checkpoints of a run share it, and YAML is slow to read
def _read_run(folder: str, config: bytes | None, command: bytes | None) -> ZooRun:
    settings, given = read_yaml(config), read_yaml(command)
    environment = given.get("env", folder[:-1])
    # As in rl_zoo3.enjoy: those of the command replace those of the configuration.
    arguments = given.get("env_kwargs")
    arguments = settings.get("env_kwargs") if arguments is None else arguments
    budget = iter(range(MAX_VALUES))
    arguments = _plain(_literal(arguments) or {}, budget)
    wrappers: list[str] = []
    for key in ("env_wrapper", "vec_env_wrapper"):
        listed = settings.get(key)
        entries = listed if isinstance(listed, list) else [listed] * (listed is not None)
        wrappers += [_wrapper(entry, budget) for entry in entries]
    stack, imports = settings.get("frame_stack") or 1, given.get("gym_packages") or []
    valid = {
        "env": isinstance(environment, str) and 0 < len(environment) <= 200,
        "env_kwargs": isinstance(arguments, dict),
        "frame_stack": type(stack) is int and 0 < stack <= MAX_STACK,
        "gym_packages": isinstance(imports, list) and all(isinstance(x, str) for x in imports),
    }
    if not all(valid.values()):
        raise UsageError(f"{next(key for key in valid if not valid[key])} has an invalid value")
    arguments.pop("render_mode", None)
    normalises = _literal(settings.get("normalize", False))
    if isinstance(normalises, dict):
        normalises = normalises.get("norm_obs", True)
    known = None if config is None else bool(normalises)
    return ZooRun(folder, environment, arguments, tuple(wrappers), stack, tuple(imports), known)


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """Gives lists, dictionaries and text for Python objects."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        # Merged mappings may hold merged ones, and double with each.
        if any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value):
            raise UsageError("it merges mappings (<<), which RL Zoo does not write")


def _construct_plain(loader: yaml.SafeLoader, _: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return node.value


_PlainLoader.add_multi_constructor("tag:yaml.org,2002:python/", _construct_plain)


def read_yaml(data: bytes | None) -> dict[Any, Any]:
    """Read a mapping, which may be an OrderedDict: a list with a list of pairs in it."""
    if data is None:
        return {}
    if len(data) > MAX_YAML:
        raise UsageError(f"it has {len(data)} bytes, more than {MAX_YAML}")
    value = yaml.load(data, _PlainLoader)  # noqa: S506 - a SafeLoader
    check_values(value, Budget(len(data), "it"))  # aliases are shared values
    match value:
        case dict():
            return value
        case [list(pairs)] if all(isinstance(p, list) and len(p) == 2 for p in pairs):
            return {key: content for key, content in pairs if isinstance(key, str)}
    raise UsageError("it does not hold settings by name")


def _literal(text: Any) -> Any:
    """Read text such as ``{'norm_obs': True}`` or ``dict(norm_obs=True)`` without running it."""
    if not isinstance(text, str):
        return text
    try:
        node = ast.parse(text.strip()[:10_000], mode="eval").body
    except SyntaxError as error:
        raise UsageError(f"{text[:60]!r} is not a plain value") from error
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        if node.args or any(word.arg is None for word in node.keywords):
            raise UsageError(f"{text[:60]!r} is not a plain value")
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
            raise UsageError("env_wrapper does not name a class")
    if not isinstance(name, str) or not re.fullmatch(r"\w+(\.\w+)+", name) or len(name) > 200:
        raise UsageError(f"{str(name)[:60]!r} in env_wrapper does not name a class")
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
    files: CheckpointFiles, trained_normalised: bool | None, run: ZooRun | None
) -> tuple[Normaliser | None, str]:
    """Find and read the statistics of a checkpoint, and the name of their file.

    First those named after it (``rl_model_vecnormalize_40000_steps.pkl`` next to
    ``rl_model_40000_steps.zip``, ``best_vecnormalize.pkl`` next to ``best.zip``), then
    ``vecnormalize.pkl`` in its folder, then the one that RL Zoo keeps for the whole ``run``.
    ``trained_normalised`` is what the checkpoint itself tells. Statistics that are unreadable, or
    known to be missing, raise BadPolicyFile: without them the policy would act wrongly.
    """
    names = {name.lower(): name for name in files.names(r"(?i).*vec_?norm.*\.pkl")}
    stem = files.stem.lower()
    expected = [f"{stem}_{word}.pkl" for word in NORMALISER_NAMES]
    if match := re.fullmatch(r"(.+)_(\d+)_steps", stem):
        expected += [f"{match[1]}_{word}_{match[2]}_steps.pkl" for word in NORMALISER_NAMES]
    own = [names[name] for name in expected if name in names]
    shared = [names[f"{word}.pkl"] for word in NORMALISER_NAMES if f"{word}.pkl" in names]
    normalised = trained_normalised
    if run is not None and run.normalised is not None:
        normalised = run.normalised
    if not own and normalised is False:
        if shared:
            what = f"trained without VecNormalize, so {shared[0]} next to it is not applied"
            files.assume(f"{what}; to apply it, {RENAME}")
        return None, ""
    of_run = [f"{run.folder}vecnormalize.pkl"] if run is not None else []
    for file in (*own, *shared, *of_run):
        data = files.read(file)
        if data is None:
            continue
        normaliser = read_normaliser(data, f"{file} next to it")
        if normaliser is None:
            return None, f"none ({file} is for rewards only)"
        if run is not None and file in of_run and f"{files.stem}/" != run.folder:
            files.assume(
                f"normalised by {file}, the statistics at the end of the training, since none were "
                "saved with these checkpoints (RL Zoo does the same)"
            )
        return normaliser, file
    if normalised:
        if not files.without_normaliser:
            wanted = (of_run or [f"{files.stem}_vecnormalize.pkl"])[0]
            raise BadPolicyFile(
                f"it was trained with VecNormalize, but its statistics are missing: save them as "
                f"{wanted} next to it, or run it without them (correct only if nothing but rewards "
                "was normalised) with --without-normaliser (in Python: without_normaliser=True)"
            )
        files.assume("not normalised, as you allowed: its statistics of VecNormalize are missing")
    elif names and normalised is None:
        files.assume(
            "observations are not normalised, since there are no statistics of VecNormalize, "
            f"although other checkpoints of the folder have some; to apply some, {RENAME}"
        )
    return None, ""


def read_normaliser(data: bytes, name: str = "the file") -> Normaliser | None:
    """Read the statistics of a pickled VecNormalize; None if it ignores observations."""
    with about(name):
        saved = read_objects(data, PICKLE_MODULES)
        if not isinstance(saved, Object) or not str(saved.kind).endswith(".VecNormalize"):
            raise BadPolicyFile("it does not hold a VecNormalize")
        state = saved.state
        if not state.get("norm_obs", True):
            return None
        for key in ("obs_rms", "epsilon", "clip_obs"):
            if key not in state:
                raise BadPolicyFile(f"{key!r} of a VecNormalize is missing")
        statistics, space = state["obs_rms"], state.get("observation_space")
        settings = float(state["epsilon"]), float(state["clip_obs"])
        if not isinstance(statistics, dict):
            return _normaliser(statistics, *settings)
        # Dictionaries are flattened in the order of the space; some parts stay unchanged.
        inner = space.state.get("spaces") if isinstance(space, Object) else None
        if not isinstance(inner, dict):
            raise UsageError("it has a dictionary of statistics without the space they belong to")
        parts, width = list[Normaliser | int](), 0
        for key, part in inner.items():
            own = _normaliser(statistics[key], *settings) if key in statistics else _size(part)
            width += own if isinstance(own, int) else own.mean.size
            if width > MAX_WIDTH:  # parts may share statistics
                raise UsageError(f"its observations have more than {MAX_WIDTH} values")
            parts.append(own)
        return Normaliser.joined(parts)


def _normaliser(moments: Any, epsilon: float, limit: float) -> Normaliser:
    if not isinstance(moments, Object):
        raise UsageError("it has no running mean and variance")
    mean, variance = (as_array(moments.state.get(key)) for key in ("mean", "var"))
    if mean is None or variance is None or mean.shape != variance.shape:
        raise UsageError("its mean and variance have different shapes")
    doubles = mean.astype(np.float64), variance.astype(np.float64)
    return Normaliser.of_variance(*doubles, epsilon, limit)


def _size(space: Any) -> int:
    """Number of values of a part of the observations, flattened."""
    if isinstance(space, Object):
        kind, width = str(space.kind).rpartition(".")[2], 0
        if kind == "Discrete":
            width = int(space.state["n"])
        elif kind == "MultiDiscrete" and (nvec := as_array(space.state["nvec"])) is not None:
            width = int(nvec.sum())
        elif kind in ("Box", "MultiBinary") and len(space.state["_shape"]) <= MAX_AXES:
            width = math.prod(int(n) for n in space.state["_shape"])
        if 0 < width <= MAX_WIDTH:
            return width
    raise UsageError("a part of its observations cannot be flattened")
