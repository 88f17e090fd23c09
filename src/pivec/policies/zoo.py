"""What RL Baselines3 Zoo keeps of a run: the environment, its wrappers, the normalisation.

Checkpoints of ``logs/ppo/CartPole-v1_1`` are explained by the folder ``CartPole-v1`` in it, which
holds config.yml (hyperparameters), args.yml (the command) and vecnormalize.pkl. The YAML files ask
for Python objects; here they give plain values, and nothing runs.
"""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies.formats import Beside, about

CONFIG, COMMAND = "config.yml", "args.yml"
MAX_BYTES = 1 << 18
MAX_VALUES = 1000
MAX_STACK = 1000
STACK = "gymnasium.wrappers:FrameStackObservation"
RESHAPE = "gymnasium.wrappers:ReshapeObservation"


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
    settings, given = _read_yaml(config), _read_yaml(command)
    environment = given.get("env", folder[:-1])
    if not isinstance(environment, str) or not 0 < len(environment) <= 200:
        raise UsageError("env is no name of an environment")
    # As rl_zoo3.enjoy has it: those of the command replace those of the configuration.
    arguments = given.get("env_kwargs")
    arguments = settings.get("env_kwargs") if arguments is None else arguments
    if isinstance(arguments, str):
        arguments = _literal(arguments)
    if not isinstance(arguments or {}, dict):
        raise UsageError("env_kwargs are no arguments by name")
    budget = iter(range(MAX_VALUES))
    plain = {
        key: _plain(value, budget)
        for key, value in (arguments or {}).items()
        if key != "render_mode"
    }
    if not all(isinstance(key, str) for key in plain):
        raise UsageError("env_kwargs are no arguments by name")
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
    normalised = None if config is None else _normalises(settings.get("normalize", False))
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


def _read_yaml(data: bytes | None) -> dict[Any, Any]:
    """Read a mapping, which may be written as an OrderedDict: a list with a list of pairs in it."""
    if data is None:
        return {}
    if len(data) > MAX_BYTES:
        raise UsageError(f"it has {len(data)} bytes, more than {MAX_BYTES}")
    value = yaml.load(data, _PlainLoader)  # noqa: S506 - a SafeLoader
    match value:
        case dict():
            return value
        case [list(pairs)] if all(isinstance(p, list) and len(p) == 2 for p in pairs):
            return {key: content for key, content in pairs if isinstance(key, str)}
    raise UsageError("it holds no settings by name")


def _literal(text: str) -> Any:
    """Read text such as ``{'norm_obs': True}`` or ``dict(norm_obs=True)`` without running it."""
    try:
        node = ast.parse(text.strip()[:10_000], mode="eval").body
    except SyntaxError as error:
        raise UsageError(f"{text[:60]!r} is no plain value") from error
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        if node.args or any(word.arg is None for word in node.keywords):
            raise UsageError(f"{text[:60]!r} is no plain value")
        return {word.arg: ast.literal_eval(word.value) for word in node.keywords}
    return ast.literal_eval(node)


def _normalises(value: Any) -> bool:
    if isinstance(value, str):
        value = _literal(value)
    return bool(value.get("norm_obs", True)) if isinstance(value, dict) else bool(value)


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
