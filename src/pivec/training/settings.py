"""The paper's hyperparameters, read from settings.toml, and what a user changes of them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from pivec.errors import UsageError

ALGORITHMS = ("ppo", "a2c", "cmaes", "neat", "es", "nsr-es")
POPULATIONS = ("cmaes", "neat", "es", "nsr-es")  # whose progress is counted in generations
# From settings.toml to the names of neat-python's sections.
NEAT_SECTIONS = ("genome", "species", "stagnation", "reproduction")


@dataclass(frozen=True)
class Settings:
    """How one algorithm trains in one environment.

    Attributes
    ----------
    algorithm : str
    values : mapping
        What settings.toml calls them, with the user's changes.
    published : bool
        Whether the paper has settings for this environment; otherwise they are general ones.
    """

    algorithm: str
    values: Mapping[str, Any]
    published: bool

    def __getitem__(self, key: str) -> Any:
        return self.values[key]


@cache
def _tables() -> dict[str, Any]:
    text = (files("pivec.training") / "settings.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def published_environments(algorithm: str) -> tuple[str, ...]:
    """Name the environments that the paper's table has a column for.

    Examples
    --------
    >>> published_environments("ppo")[:2]
    ('BipedalWalkerHardcore-v3', 'BipedalWalker-v3')
    """
    return tuple(name for name in _tables()[algorithm] if name != "general")


def behaviour_defaults() -> dict[str, dict[str, Any]]:
    """Give the paper's arguments of characterizations in novelty search, by name."""
    defaults: dict[str, dict[str, Any]] = _tables()["behaviours"]
    return defaults


def neat_sections() -> dict[str, tuple[str, ...]]:
    """Tell which settings of neat-python belong to which of its sections."""
    return {name: tuple(_tables()["neat_python"][name]) for name in NEAT_SECTIONS}


def settings_for(
    algorithm: str, environment: str, changes: Mapping[str, Any] | None = None
) -> Settings:
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
    name = environment.rpartition(":")[2]
    values: dict[str, Any] = {**table["general"], **table.get(name, {})}
    if algorithm == "neat":
        for section in NEAT_SECTIONS:
            values |= _tables()["neat_python"][section]
    for key, value in (changes or {}).items():
        if key not in values:
            raise UsageError(
                f"{algorithm} has no setting {key!r}: expected one of {', '.join(sorted(values))}"
            )
        values[key] = _checked(key, value, values[key], values)
    return Settings(algorithm, values, name != "general" and name in table)


def _checked(key: str, value: Any, default: Any, values: Mapping[str, Any]) -> Any:
    """Check that ``value`` is of the kind of ``default``; whole numbers may stand for real ones."""
    match default:
        case bool():
            fits, kind = isinstance(value, bool), "true or false"
        case int():
            fits, kind = type(value) is int and value >= 0, "a whole number from 0"
        case float():
            fits = type(value) in (int, float) and math.isfinite(value)
            kind = "a number"
            value = float(value) if fits else value
        case list() if key == "decay":
            numbers = [name for name, each in values.items() if isinstance(each, float)]
            fits = isinstance(value, list) and all(name in numbers for name in value)
            kind = f"a list of names among {', '.join(numbers)}"
        case list():
            fits = isinstance(value, list) and all(type(n) is int and n > 0 for n in value)
            kind = "a list of whole numbers above 0"
        case _:
            fits, kind = isinstance(value, str), "text"
    if not fits:
        raise UsageError(f"the setting {key} must be {kind}, but is {value!r}")
    if key in _AT_LEAST_ONE and value < 1:
        raise UsageError(f"the setting {key} must be at least 1, but is {value}")
    if key == "keep_share" and not 0 < value <= 1:
        raise UsageError(f"the setting keep_share must be above 0 and at most 1, but is {value}")
    return value


_AT_LEAST_ONE = frozenset(
    {
        *("n_envs", "n_steps", "n_epochs", "batch_size"),
        *("generations", "episodes", "keep_every", "max_steps"),
        *("population", "batch_episodes", "behaviour_episodes", "neighbours"),
    }
)
