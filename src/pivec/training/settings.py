"""The paper's hyperparameters, read from settings.toml, and what a user changes of them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from pivec.errors import UsageError

ALGORITHMS = ("ppo", "a2c", "cmaes", "neat", "es", "nsr-es")
POPULATIONS = ("cmaes", "neat", "es", "nsr-es")  # whose progress is counted in generations
OPTIMIZERS = ("rmsprop-tf", "rmsprop", "adam")  # of A2C
# From settings.toml to the names of neat-python's sections.
NEAT_SECTIONS = ("genome", "species", "stagnation", "reproduction")


@cache
def _tables() -> dict[str, Any]:
    text = (files("pivec.training") / "settings.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def behaviour_defaults() -> dict[str, dict[str, Any]]:
    """Give the arguments of characterizations in novelty search, by name."""
    defaults: dict[str, dict[str, Any]] = _tables()["behaviours"]
    return defaults


def neat_sections() -> dict[str, tuple[str, ...]]:
    """Tell which settings of neat-python belong to which of its sections."""
    return {name: tuple(_tables()["neat_python"][name]) for name in NEAT_SECTIONS}


def is_published(algorithm: str, environment: str) -> bool:
    """Tell whether the paper has settings for this environment."""
    name = environment.rpartition(":")[2]
    return name != "general" and name in _tables()[algorithm]


def settings_for(
    algorithm: str, environment: str, changes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the settings of an algorithm in an environment.

    Parameters
    ----------
    algorithm : {"ppo", "a2c", "cmaes", "neat", "es", "nsr-es"}
    environment : str
        A Gymnasium id; one that the paper does not have gets general settings.
    changes : mapping, optional
        Values to use instead; each must be of the kind that it replaces.

    Examples
    --------
    >>> settings = settings_for("ppo", "CartPole-v1", {"n_envs": 4})
    >>> settings["n_steps"], settings["n_envs"], settings["decay"]
    (32, 4, ['clip_range', 'clip_range_vf', 'learning_rate'])
    """
    if algorithm not in ALGORITHMS:
        raise UsageError(
            f"expected an algorithm among {', '.join(ALGORITHMS)}, but got {algorithm!r}"
        )
    table = _tables()[algorithm]
    values: dict[str, Any] = {**table["general"], **table.get(environment.rpartition(":")[2], {})}
    if algorithm == "neat":
        for section in NEAT_SECTIONS:
            values |= _tables()["neat_python"][section]
    for key, value in (changes or {}).items():
        if key not in values:
            raise UsageError(
                f"{algorithm} has no setting {key!r}: expected one of {', '.join(sorted(values))}"
            )
        fits, kind = _judged(key, value, values)
        if not fits:
            raise UsageError(f"the setting {key} must be {kind}, but is {value!r}")
        values[key] = float(value) if isinstance(values[key], float) else value
    return values


def _judged(key: str, value: Any, values: Mapping[str, Any]) -> tuple[bool, str]:
    """Judge whether a value is of the kind of the one that stands there, and name the kind."""
    match values[key]:
        case bool():
            return isinstance(value, bool), "true or false"
        case int():
            least = int(key in _AT_LEAST_ONE)
            whole = type(value) is int and value >= least
            return whole, f"a whole number of at least {least}"
        case float() if key == "keep_share":
            return type(value) in (int, float) and 0 < value <= 1, "above 0 and at most 1"
        case float():
            return type(value) in (int, float) and math.isfinite(value), "a number"
        case list() if key == "decay":
            numbers = [name for name, number in values.items() if isinstance(number, float)]
            known = isinstance(value, list) and all(name in numbers for name in value)
            return known, f"a list of names among {', '.join(numbers)}"
        case list():
            widths = isinstance(value, list) and all(type(n) is int and n > 0 for n in value)
            return widths, "a list of whole numbers above 0"
        case _ if key == "optimizer":
            return value in OPTIMIZERS, f"one of {', '.join(OPTIMIZERS)}"
        case _:
            return isinstance(value, str), "text"


_AT_LEAST_ONE = frozenset(
    {
        *("n_envs", "n_steps", "n_epochs", "batch_size"),
        *("generations", "episodes", "keep_every", "max_steps"),
        *("population", "batch_episodes", "behaviour_episodes", "neighbours"),
    }
)
