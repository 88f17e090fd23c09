"""Wrappers by name: how they are put around environments, and which a file may ask for."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from typing import Any

import gymnasium

from pivec.errors import UsageError
from pivec.options import Wrapper
from pivec.policies.policy import PolicyInfo
from pivec.rollouts.named_objects import named_object, split_arguments

# A file may ask for these: they change what is seen and done, and touch nothing else.
KNOWN_WRAPPERS = re.compile(
    r"(gymnasium\.wrappers(\.\w+)?|stable_baselines3\.common\.atari_wrappers"
    r"|pivec\.rollouts\.atari|sb3_contrib\.common\.wrappers(\.\w+)?|rl_zoo3\.wrappers"
    r"|minigrid\.wrappers)"
    r":(?!RecordVideo|HumanRendering|RenderCollection)\w+"
)


def wrapped(env: gymnasium.Env[Any, Any], wrapper: Wrapper) -> gymnasium.Env[Any, Any]:
    """Put a wrapper around an environment."""
    arguments: dict[str, Any] = {}
    around = wrapper
    if isinstance(around, str):
        name, given = split_arguments(around)
        # JSON has no tuples, and Gymnasium takes nothing else for a shape.
        arguments = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        around = named_object(name, "a wrapper")
    try:
        result: gymnasium.Env[Any, Any] = around(env, **arguments)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"the wrapper {wrapper} cannot be put around {env}: {type(error).__name__}: {error}"
        ) from error
    return result


def check_wrappers(wrappers: Sequence[Any], infos: Sequence[PolicyInfo], trust: bool) -> None:
    """Refuse wrappers that files may not ask for, or that are not installed."""
    for wrapper in wrappers:
        name = split_arguments(str(wrapper))[0]
        if not trust and not KNOWN_WRAPPERS.fullmatch(name):
            raise UsageError(
                f"{infos[0].source} was trained with the wrapper {name}, which a file may not ask "
                "for: give all wrappers with --wrapper (in Python: wrappers=), or allow it with "
                "--trust"
            )
        package = name.partition(".")[0]
        if importlib.util.find_spec(package) is None:
            raise UsageError(
                f"{infos[0].source} was trained with the wrapper {name}, but {package} is not "
                f"installed: pip install {package.replace('_', '-')}, or give all wrappers with "
                "--wrapper (in Python: wrappers=)"
            )
