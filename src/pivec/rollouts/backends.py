"""What steps the environments: Gymnasium or EnvPool, and which of them is chosen by itself.

Gymnasium is the reference. CartPole, Pendulum and Acrobot have lanes on arrays that repeat it bit
for bit, and so have those on an `ArrayVectorEnv`. EnvPool is another implementation: ``auto``
takes it only where `backends.json`, written by benchmarks/backends.py, says that trained policies
visit the same distribution of states in both.
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from pivec.errors import MissingExtra, UsageError
from pivec.rollouts.acrobot import AcrobotLanes
from pivec.rollouts.cartpole import CartPoleLanes
from pivec.rollouts.environment import Environment
from pivec.rollouts.lanes import Lanes, SteppedLanes
from pivec.rollouts.pendulum import PendulumLanes
from pivec.rollouts.vector_lanes import VectorLanes

BACKENDS = ("gymnasium", "envpool")
_VECTORISED = (CartPoleLanes, PendulumLanes, AcrobotLanes, VectorLanes)

# Episodes of a policy in EnvPool are cut into this many lanes, each with one environment that
# plays its episodes one after another; never changed by n_envs, since results depend on it.
ENVPOOL_LANES = 32


@dataclass(frozen=True)
class Layout:
    """Policies at a time, and lanes of each."""

    slots: int
    width: int


def approved() -> dict[str, dict[str, Any]]:
    """Return the environments in which the EnvPool that is installed passed the comparison."""
    text = (files("pivec.rollouts") / "backends.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)["environments"]
    installed = version("envpool")
    return {
        name: entry
        for name, entry in found.items()
        if entry["same"] and entry["envpool"] == installed
    }


def choose_backend(asked: str, environment: Environment) -> str:
    """Turn what a user asks for into the backend that is used.

    Examples
    --------
    >>> choose_backend("auto", Environment("CartPole-v1"))
    'gymnasium'
    """
    if asked not in ("auto", *BACKENDS):
        raise UsageError(f"backend must be auto, gymnasium or envpool, but is {asked!r}")
    if asked == "gymnasium":
        return asked
    installed = importlib.util.find_spec("envpool") is not None
    plain = not (environment.factory or environment.wrappers or environment.arguments)
    if asked == "auto":
        fast = plain and installed and not _is_vectorised(environment)
        return "envpool" if fast and environment.name in approved() else "gymnasium"
    if not installed:
        raise MissingExtra("the backend envpool", "fast")
    if not plain:
        raise UsageError(
            "the backend envpool makes environments by name alone, but a factory, wrappers or "
            "arguments are asked for: use --backend gymnasium"
        )
    from pivec.rollouts.envpool_lanes import check_task

    check_task(environment.name)
    return asked


def layout(
    environment: Environment, backend: str, episodes: int, policies: int, n_envs: int | None
) -> Layout:
    """Share the lanes out; with Gymnasium the result does not depend on it."""
    if backend == "envpool":
        width = min(episodes, ENVPOOL_LANES)
        return Layout(max(1, min(policies, (n_envs or 2048) // width)), width)
    vectorised = _is_vectorised(environment)
    lanes = n_envs or (2048 if vectorised else 128)
    # Networks answer in tiles of 16 rows: lanes beside a full tile would cost a whole one.
    width = min(episodes, 128 if vectorised else 16, lanes)
    if width > 16:
        width -= width % 16
    return Layout(max(1, min(policies, lanes // width)), width)


def make_lanes(
    environment: Environment, backend: str, shape: Layout, threads: int | None = None
) -> Lanes:
    """Make lanes of the fastest kind there is for this environment and backend."""
    n = shape.slots * shape.width
    if backend == "envpool":
        from pivec.rollouts.envpool_lanes import EnvPoolLanes

        return EnvPoolLanes(environment, shape.slots, shape.width, threads)
    for kind in _VECTORISED:
        if kind.fits(environment):
            return kind(environment, n)
    return SteppedLanes(environment, n)


def _is_vectorised(environment: Environment) -> bool:
    return any(kind.fits(environment) for kind in _VECTORISED)
