"""What steps the environments: Gymnasium, lanes on arrays, or EnvPool (an optional dependency).

Gymnasium is the reference, which lanes on arrays repeat bit for bit. EnvPool is a different
implementation: ``auto`` uses it only where trained policies visit the same distribution of states
in both, see ``backends.json``.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import warnings
from collections.abc import Set
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import MissingExtra, UsageError, did_you_mean
from pivec.options import CollectOptions
from pivec.parallel import usable_cores
from pivec.rollouts import observations as spaces
from pivec.rollouts.array_lanes import choose_array_lanes
from pivec.rollouts.environment import Environment, close, failure
from pivec.rollouts.lanes import GymnasiumLanes, Lanes, Layout, Outcome, first_inputs

BACKENDS = ("gymnasium", "envpool")

# A policy's episodes in EnvPool are divided among this many lanes, each with one environment that
# plays its episodes one after another; independent of n_envs, since results depend on it.
ENVPOOL_LANES = 32


def choose_backend(asked: str, environment: Environment) -> str:
    """Choose the backend for what the user asks for: ``auto`` or one of `BACKENDS`."""
    if asked not in ("auto", *BACKENDS):
        raise UsageError(f"backend must be auto, gymnasium or envpool, but is {asked!r}")
    if asked == "gymnasium":
        return asked
    installed = importlib.util.find_spec("envpool") is not None
    changed = environment.factory or environment.wrappers or environment.arguments
    plain = not (changed or environment.one_by_one)
    if asked == "auto":
        fast = plain and installed and choose_array_lanes(environment) is None
        return "envpool" if fast and environment.name in approved() else "gymnasium"
    if not installed:
        raise MissingExtra("the backend envpool", "fast")
    if not plain:
        raise UsageError(
            "the backend envpool supports neither factories, wrappers and arguments nor features "
            "of info: use --backend gymnasium"
        )
    known = _import_envpool().list_all_envs()
    if environment.name not in known:
        hint = did_you_mean(environment.name, known)
        raise UsageError(f"EnvPool has no {environment.name!r}{hint}: use --backend gymnasium")
    return asked


def approved() -> Set[str]:
    """Environments in which the installed version of EnvPool passed benchmarks/backends.py."""
    text = (files("pivec.rollouts") / "backends.json").read_text(encoding="utf-8")
    installed = version("envpool")
    return {
        name
        for name, entry in json.loads(text)["environments"].items()
        if entry["same"] and entry["envpool"] == installed
    }


def layout(
    environment: Environment, options: CollectOptions, policies: int, episodes: int
) -> Layout:
    """Assign lanes to policies that play at most ``episodes`` each; only EnvPool depends on it."""
    if options.backend == "envpool":
        width = min(episodes, ENVPOOL_LANES)
        return Layout(max(1, min(policies, (options.n_envs or 2048) // width)), width)
    on_arrays = choose_array_lanes(environment) is not None
    lanes = options.n_envs or (2048 if on_arrays else 128)
    # Networks compute in tiles of 16 rows: a partly filled tile costs as much as a full one.
    width = min(episodes, 128 if on_arrays else 16, lanes)
    if width > 16:
        width -= width % 16
    return Layout(max(1, min(policies, lanes // width)), width)


def make_lanes(
    environment: Environment, backend: str, shape: Layout, threads: int | None = None
) -> Lanes:
    """Make lanes of the fastest kind for this environment and backend."""
    if backend == "envpool":
        return EnvPoolLanes(environment, shape, threads)
    kind = choose_array_lanes(environment) or GymnasiumLanes
    return kind(environment, shape.slots * shape.width)


def _import_envpool() -> Any:
    """Import EnvPool, after Box2D: in the other order importing Box2D crashes the process."""
    with contextlib.suppress(ImportError):
        importlib.import_module("Box2D")
    return importlib.import_module("envpool")


class EnvPoolLanes(Lanes):
    """Environments of EnvPool, stepped in its threads.

    EnvPool sets the seed of an environment when it is made, and draws all its episodes from that
    one stream. So a policy gets environments of its own, with seeds that follow from what it is;
    episode number e of the policy is the (e // width)-th of environment e % width. That does not
    depend on how many policies play side by side, nor on which pool they share. Spaces are
    Gymnasium's, since EnvPool's bounds differ for some environments.
    """

    def __init__(self, environment: Environment, shape: Layout, threads: int | None = None) -> None:
        self.n, self._width = shape.slots * shape.width, shape.width
        self._task = environment.name
        self._threads = threads or usable_cores()
        env = environment.make()
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.observations = first_inputs(env, self.n, environment.name)[0]
        close(env, environment.name)
        self._pools: dict[int, tuple[Any, NDArray[np.intp]]] = {}  # by number, with their lanes
        self._made = 0
        self._owner = np.full(self.n, -1)  # the number of the pool of each lane
        self._number = np.zeros(self.n, dtype=np.int32)  # of the environment in its pool
        self._begun = np.zeros(self.n, dtype=bool)

    def begin(self, slots: list[int], seeds: NDArray[np.int64]) -> None:
        """Make one pool of environments for policies that begin together."""
        lanes = (np.array(slots)[:, None] * self._width + np.arange(self._width)).ravel()
        pool, observations = self._make(seeds.ravel())
        self._pools[self._made] = pool, lanes
        self._owner[lanes] = self._made
        self._number[lanes] = np.arange(len(lanes))
        self._begun[lanes] = False
        self._made += 1
        self._show(lanes, observations)

    def release(self, slot: int) -> None:
        """Close a pool when the last of its policies is done."""
        number = int(self._owner[slot * self._width])
        self._owner[slot * self._width : (slot + 1) * self._width] = -1
        if number in self._pools and number not in self._owner:
            self._pools.pop(number)[0].close()

    def reset(self, lane: int, seed: int) -> None:  # noqa: ARG002  (set when it was made)
        """Start the next episode of ``lane``; the first one began with the pool."""
        if self._begun[lane]:
            pool, _ = self._pools[int(self._owner[lane])]
            observations, _ = pool.reset(self._number[lane : lane + 1])
            self._show(np.array([lane]), observations)
        self._begun[lane] = True

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        """Step the given lanes (in ascending order)."""
        owners = self._owner[lanes]
        rewards, (terminated, truncated) = np.zeros(len(lanes)), np.zeros((2, len(lanes)), bool)
        busy = np.unique(owners).tolist()
        try:
            for number in busy:
                mine = lanes if len(busy) == 1 else lanes[owners == number]
                self._pools[number][0].send(actions[mine], self._number[mine])
            for number in busy:
                pool, theirs = self._pools[number]
                observations, reward, over, cut, info = pool.recv()
                back = theirs[info["env_id"]]
                rows = np.searchsorted(lanes, back)
                self._show(back, observations)
                rewards[rows], terminated[rows], truncated[rows] = reward, over, cut
        except RuntimeError as error:
            raise failure(f"EnvPool's {self._task}", "step", error) from error
        return rewards, terminated, truncated

    def close(self) -> None:
        for pool, _ in self._pools.values():
            pool.close()
        self._pools.clear()

    def _make(self, seeds: NDArray[np.int64]) -> tuple[Any, Any]:
        """Make a pool, and start an episode in all its environments."""
        envpool = _import_envpool()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about its own spaces, which are not used
            pool = envpool.make_gymnasium(
                self._task,
                num_envs=len(seeds),
                env_seed=seeds.tolist(),
                num_threads=min(self._threads, max(1, len(seeds) // 64)),
            )
            observations, _ = pool.reset()
        return pool, observations

    def _show(self, lanes: NDArray[Any], observations: Any) -> None:
        if isinstance(self.observations, np.ndarray):
            self.observations[lanes] = observations
        else:
            for row, lane in enumerate(lanes.tolist()):
                spaces.assign(self.observations, lane, spaces.pick(observations, row))
