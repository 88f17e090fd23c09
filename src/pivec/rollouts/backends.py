"""What steps the environments: Gymnasium or EnvPool, and which of them is chosen by itself.

Gymnasium is the reference, which lanes on arrays repeat bit for bit. EnvPool is another
implementation: ``auto`` takes it only where trained policies were seen to visit the same
distribution of states in both.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from pivec.errors import MissingExtra, UsageError, did_you_mean
from pivec.options import CollectOptions
from pivec.rollouts.array_lanes import array_lanes
from pivec.rollouts.environment import Environment
from pivec.rollouts.lanes import Lanes, SteppedLanes
from pivec.rollouts.quirks import approved, import_envpool

BACKENDS = ("gymnasium", "envpool")

# Episodes of a policy in EnvPool are cut into this many lanes, each with one environment that
# plays its episodes one after another; never changed by n_envs, since results depend on it.
ENVPOOL_LANES = 32


@dataclass(frozen=True)
class Layout:
    """Policies at a time, and lanes of each."""

    slots: int
    width: int


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
    plain = not (
        environment.factory or environment.wrappers or environment.arguments or environment.watched
    )
    if asked == "auto":
        fast = plain and installed and array_lanes(environment) is None
        return "envpool" if fast and environment.name in approved() else "gymnasium"
    if not installed:
        raise MissingExtra("the backend envpool", "fast")
    if not plain:
        raise UsageError(
            "the backend envpool makes environments by name alone, but a factory, wrappers, "
            "arguments or features of info are asked for: use --backend gymnasium"
        )
    known = import_envpool().list_all_envs()
    if environment.name not in known:
        hint = did_you_mean(environment.name, known)
        raise UsageError(f"EnvPool has no {environment.name!r}{hint}: use --backend gymnasium")
    return asked


def layout(
    environment: Environment, options: CollectOptions, policies: int, episodes: int
) -> Layout:
    """Share the lanes out; with Gymnasium the result does not depend on it.

    ``episodes`` is the most that one of the policies plays.
    """
    if options.backend == "envpool":
        width = min(episodes, ENVPOOL_LANES)
        return Layout(max(1, min(policies, (options.n_envs or 2048) // width)), width)
    on_arrays = array_lanes(environment) is not None
    lanes = options.n_envs or (2048 if on_arrays else 128)
    # Networks answer in tiles of 16 rows: lanes beside a full tile would cost a whole one.
    width = min(episodes, 128 if on_arrays else 16, lanes)
    if width > 16:
        width -= width % 16
    return Layout(max(1, min(policies, lanes // width)), width)


def make_lanes(
    environment: Environment, backend: str, shape: Layout, threads: int | None = None
) -> Lanes:
    """Make lanes of the fastest kind there is for this environment and backend."""
    if backend == "envpool":
        from pivec.rollouts.envpool import EnvPoolLanes

        return EnvPoolLanes(environment, shape, threads)
    kind = array_lanes(environment) or SteppedLanes
    return kind(environment, shape.slots * shape.width)
