"""Policies from the user's own code, named ``module:object``."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from typing import Any

from pivec.errors import PivecError, UsageError
from pivec.policies.callables import as_policy
from pivec.policies.policy import Policy

_SPEC = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def is_import_spec(text: str) -> bool:
    """Whether ``text`` has the form ``module:object``.

    Examples
    --------
    >>> is_import_spec("agents.heuristic:Greedy"), is_import_spec("runs/a.zip")
    (True, False)
    """
    return _SPEC.fullmatch(text) is not None


def import_policy(spec: str) -> Policy:
    """Import ``module:object`` and make a policy of it.

    The object is a policy, a callable that answers observations, or a class or factory without
    required arguments that gives one of these. The working directory is importable meanwhile.
    This runs the code of that module, as the user asked for.
    """
    module_name, _, path = spec.partition(":")
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        thing: Any = importlib.import_module(module_name)
        for attribute in path.split("."):
            thing = getattr(thing, attribute)
        if _is_factory(thing):
            thing = thing()
    except PivecError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's module raises
        raise UsageError(
            f"{spec} cannot be imported ({type(error).__name__}: {error}): expected an importable "
            "module, in the working directory or installed, and the name of an object in it."
        ) from error
    finally:
        if here in sys.path:
            sys.path.remove(here)
    return as_policy(thing, spec)


def _is_factory(thing: Any) -> bool:
    """Whether ``thing`` is a class, or a function that needs no argument and so cannot act."""
    if isinstance(thing, type):
        return True
    if not inspect.isroutine(thing):
        return False
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (ValueError, TypeError):
        return False
    return not any(
        parameter.kind is not inspect.Parameter.VAR_KEYWORD
        and (
            parameter.default is parameter.empty
            or parameter.name in ("observation", "observations", "obs")
        )
        for parameter in parameters
    )
