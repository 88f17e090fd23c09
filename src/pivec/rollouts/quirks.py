"""What is peculiar about single environments and packages, in one place: a new one comes here."""

from __future__ import annotations

import contextlib
import importlib
import json
import re
from collections.abc import Set
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import gymnasium

from pivec.errors import UsageError

# Gymnasium has no plugins: what it is to know must be imported. By the beginnings of ids: the
# modules that register them when they are imported, and what to install for the first.
REGISTERED_BY = {
    r"ALE/|\w+(-ram)?(NoFrameskip|Deterministic)-v[04]": ("ale_py", "pivec[atari]"),
    "MiniGrid-|BabyAI-": ("minigrid", "minigrid"),
    "MiniWorld-": ("miniworld", "miniworld"),
    "MiniHack-": ("minihack", "minihack"),
    "NetHack": ("nle", "nle"),
    "Fetch(Reach|Push|Slide|PickAndPlace)|Hand(Reach|Manipulate)|AdroitHand|FrankaKitchen"
    "|(Ant|Point)Maze_": ("gymnasium_robotics", "gymnasium-robotics"),
    "(highway|merge|roundabout|parking|intersection|racetrack|exit|two-way|u-turn|lane-keeping)-": (
        "highway_env",
        "highway-env",
    ),
    "Panda(Flip|PickAndPlace|Push|Reach|Slide|Stack)": ("panda_gym", "panda-gym"),
    r"\w+BulletEnv-": ("pybullet_envs_gymnasium", "pybullet-envs-gymnasium"),
    "mo-|deep-sea-treasure|minecart-|fruit-tree|resource-gathering|breakable-bottles|fishwood-"
    "|four-room-|water-reservoir-": ("mo_gymnasium", "mo-gymnasium"),
    "Meta-World/": ("metaworld", "metaworld"),
    "FlappyBird-": ("flappy_bird_gymnasium", "flappy-bird-gymnasium"),
    "dm_control/": ("shimmy", "shimmy[dm-control]"),
    "bsuite/": ("shimmy", "shimmy[bsuite]"),
    # That called procgen has no builds for the Python that is needed here.
    "(procgen:)?procgen-": ("procgen pivec.rollouts.atari", "procgen-mirror"),
    "Vizdoom": ("vizdoom.gymnasium_wrapper", "vizdoom"),
    "PyFlyt/": ("PyFlyt.gym_envs", "pyflyt"),
    "sumo-rl-": ("sumo_rl", "sumo-rl"),
    "gym_aloha/": ("gym_aloha", "gym-aloha"),
    "gym_pusht/": ("gym_pusht", "gym-pusht"),
    "gym_xarm/": ("gym_xarm", "gym-xarm"),
    "popgym-": ("popgym", "popgym"),
    "tetris_gymnasium/": ("tetris_gymnasium.envs", "tetris-gymnasium"),
}

# Arguments that change nothing but what lanes on arrays know, by the entry point.
ON_ARRAYS: dict[str, Set[str]] = {
    "gymnasium.envs.classic_control.cartpole:CartPoleEnv": {"sutton_barto_reward"},
    "gymnasium.envs.classic_control.pendulum:PendulumEnv": {"g"},
    "gymnasium.envs.classic_control.acrobot:AcrobotEnv": set(),
}


def registrars(name: str) -> list[str]:
    """Name the modules to import before an environment can be made, where it is known by its id.

    Examples
    --------
    >>> registrars("CartPole-v1")
    []
    """
    for ids, (modules, package) in REGISTERED_BY.items():
        if name not in gymnasium.registry and re.match(ids, name):
            if find_spec(re.split(r"\W", modules)[0]) is None:
                raise UsageError(
                    f'{name} comes with a package that is not installed: pip install "{package}"'
                )
            return modules.split()
    return []


def keeps_traces(env: gymnasium.Env[Any, Any]) -> bool:
    """Tell whether an episode is felt in the next one whatever its seed.

    What is destroyed in a world of Box2D leaves traces in its trees and lists of contacts, and
    BipedalWalker has one world for all its episodes. Knights archers zombies of PettingZoo keeps
    some of its own too.
    """
    game = getattr(getattr(env.unwrapped, "game", None), "unwrapped", None)  # of several agents
    places = env.unwrapped, game, getattr(game, "env", None)
    return str((env.metadata or {}).get("name")).startswith("knights_archers_zombies") or any(
        type(getattr(place, "world", None)).__name__ == "b2World" for place in places
    )


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
