"""Objects named on the command line: ``module:name``, with arguments ``module:name{json}``."""

from __future__ import annotations

import importlib
import json
import os
import sys
from types import ModuleType
from typing import Any

from pivec.errors import UsageError, did_you_mean


def named_object(spec: str, what: str) -> Any:
    """Import ``module:name``; modules in the working folder are found too.

    Examples
    --------
    >>> named_object("math:sqrt", "a function")(4.0)
    2.0
    """
    module_name, colon, name = spec.partition(":")
    if not colon or not module_name or not name:
        raise UsageError(f"{what} must be named as module:name, but is {spec!r}")
    try:
        target: Any = import_here(module_name)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{what} is asked for as {spec!r}, but importing fails: {type(error).__name__}: {error}"
        ) from error
    for part in name.split("."):
        if not hasattr(target, part):
            hint = did_you_mean(part, dir(target))
            raise UsageError(f"{module_name} has no {part!r}{hint}, which {spec!r} names")
        target = getattr(target, part)
    return target


def import_here(module: str) -> ModuleType:
    """Import a module, which may lie in the working folder."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module(module)


def split_arguments(spec: str) -> tuple[str, dict[str, Any]]:
    """Separate ``name{json}`` into the name and the arguments.

    Examples
    --------
    >>> split_arguments('gymnasium.wrappers:ResizeObservation{"shape": [84, 84]}')
    ('gymnasium.wrappers:ResizeObservation', {'shape': [84, 84]})
    """
    name, brace, rest = spec.partition("{")
    if not brace:
        return spec, {}
    try:
        arguments = json.loads(brace + rest)
    except ValueError as error:
        raise UsageError(
            f"what follows the name in {spec!r} must be arguments as a JSON object, but is not: "
            f"{error}"
        ) from error
    return name, arguments
