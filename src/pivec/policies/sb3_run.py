"""The run that a Stable-Baselines3 checkpoint belongs to: what lies beside it, nothing of it run.

RL Baselines3 Zoo explains checkpoints of ``logs/ppo/CartPole-v1_1`` by the folder ``CartPole-v1``
in it, which holds config.yml (hyperparameters), args.yml (the command) and vecnormalize.pkl. The
YAML files ask for Python objects; here they give plain values. A VecNormalize is saved as a pickle:
objects in it stay names with their state, numbers and arrays of NumPy are understood, and
everything else is refused by name.
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
from pivec.policies.formats import Beside, about
from pivec.policies.normaliser import Normaliser
from pivec.policies.pickles import Object, as_array, read_objects

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
