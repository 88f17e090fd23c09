"""What is peculiar about single environments and packages, in one place: a new one comes here."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Set
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import gymnasium

# Gymnasium has no plugins: what it is to know must be imported. By the namespace of the id.
REGISTERED_BY = {"pivec": "pivec.paper.worlds", "ALE": "ale_py"}

# Arguments that change nothing but what lanes on arrays know, by the entry point.
ON_ARRAYS: dict[str, Set[str]] = {
    "gymnasium.envs.classic_control.cartpole:CartPoleEnv": {"sutton_barto_reward"},
    "gymnasium.envs.classic_control.pendulum:PendulumEnv": {"g"},
    "gymnasium.envs.classic_control.acrobot:AcrobotEnv": set(),
}


def keeps_traces(env: gymnasium.Env[Any, Any]) -> bool:
    """Tell whether an episode is felt in the next one whatever its seed.

    What is destroyed in a world of Box2D leaves traces in its trees and lists of contacts, and
    BipedalWalker has one world for all its episodes.
    """
    return type(getattr(env.unwrapped, "world", None)).__name__ == "b2World"


def has_other_equations(entry_point: str) -> bool:
    """Tell whether somebody chose other equations by attributes of the environment's class."""
    if not entry_point.endswith(":AcrobotEnv"):
        return False
    from gymnasium.envs.classic_control.acrobot import AcrobotEnv

    return AcrobotEnv.book_or_nips != "book" or AcrobotEnv.torque_noise_max != 0.0


def import_envpool() -> Any:
    """Import EnvPool, after Box2D: in the other order importing Box2D crashes the process."""
    with contextlib.suppress(ImportError):
        importlib.import_module("Box2D")
    return importlib.import_module("envpool")


def approved() -> Set[str]:
    """Name the environments in which the EnvPool that is installed passed the comparison.

    benchmarks/backends.py writes `backends.json`: whether trained policies visit the same
    distribution of states as in Gymnasium.
    """
    text = (files("pivec.rollouts") / "backends.json").read_text(encoding="utf-8")
    installed = version("envpool")
    return {
        name
        for name, entry in json.loads(text)["environments"].items()
        if entry["same"] and entry["envpool"] == installed
    }
