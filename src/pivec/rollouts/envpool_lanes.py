"""EnvPool in lanes: a pool for each policy, an environment for each lane.

EnvPool sets seeds when environments are made: environment i of a pool with seed s has seed s + i,
and draws all its episodes from that one stream. So a policy gets a pool of its own, with a seed
that follows from its label; episode number e of the policy is the (e // width)-th of environment
e % width. That does not depend on how many policies play side by side.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.rollouts import spaces
from pivec.rollouts.environment import Environment
from pivec.rollouts.envpool_corrections import CORRECTIONS
from pivec.rollouts.lanes import Outcome, failure

Correction = Callable[[NDArray[np.float32]], NDArray[np.float32]]


def import_envpool() -> Any:
    """Import EnvPool, after Box2D: in the other order importing Box2D crashes the process."""
    with contextlib.suppress(ImportError):
        importlib.import_module("Box2D")
    return importlib.import_module("envpool")


def check_task(name: str) -> None:
    """Refuse an environment that EnvPool does not have."""
    known = import_envpool().list_all_envs()
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise UsageError(f"EnvPool has no {name!r}{hint}: use --backend gymnasium")


class EnvPoolLanes:
    """``slots`` pools of ``width`` environments, stepped side by side in EnvPool's threads.

    Spaces are Gymnasium's: EnvPool's bounds differ for some environments.
    """

    def __init__(self, environment: Environment, slots: int, width: int) -> None:
        self.n, self._width, self._task = slots * width, width, environment.name
        env = environment.make()
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.observations = spaces.first_batch(env, self.n)
        env.close()
        self._correct: Correction | None = CORRECTIONS.get(environment.name)
        self._pools: list[Any] = [None] * slots
        self._begun = np.zeros(self.n, dtype=bool)

    def vacate(self, slot: int) -> None:
        """Drop the pool of a policy that is done."""
        pool, self._pools[slot] = self._pools[slot], None
        if pool is not None:
            pool.close()

    def reset(self, lane: int, seed: int) -> None:
        """Start the next episode of ``lane``; ``seed`` counts when its pool is made."""
        slot, number = divmod(lane, self._width)
        pool = self._pools[slot]
        if pool is None:
            pool, observations = self._make(seed - number)
            self._pools[slot] = pool
            first = slot * self._width
            self._show(np.arange(first, first + self._width), observations)
            self._begun[first : first + self._width] = False
        if self._begun[lane]:
            observations, _ = pool.reset(np.array([number], dtype=np.int32))
            self._show(np.array([lane]), observations)
        self._begun[lane] = True

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        """Step the given lanes (in ascending order)."""
        cuts = np.searchsorted(lanes, np.arange(len(self._pools) + 1) * self._width)
        busy = np.flatnonzero(np.diff(cuts)).tolist()
        rewards = np.zeros(len(lanes))
        terminated = np.zeros(len(lanes), dtype=bool)
        truncated = np.zeros(len(lanes), dtype=bool)
        try:
            for slot in busy:
                mine = lanes[cuts[slot] : cuts[slot + 1]]
                self._pools[slot].send(actions[mine], (mine - slot * self._width).astype(np.int32))
            for slot in busy:
                observations, reward, over, cut, info = self._pools[slot].recv()
                back = info["env_id"] + slot * self._width
                rows = np.searchsorted(lanes, back)
                self._show(back, observations)
                rewards[rows], terminated[rows], truncated[rows] = reward, over, cut
        except RuntimeError as error:
            raise failure(f"EnvPool's {self._task}", "step", error) from error
        return rewards, terminated, truncated

    def close(self) -> None:
        """Close all pools."""
        for slot in range(len(self._pools)):
            self.vacate(slot)

    def _make(self, seed: int) -> tuple[Any, Any]:
        """Make a pool, and start an episode in all its environments."""
        envpool = import_envpool()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about its own spaces, which are not used
            # One thread each: the pools of all policies work side by side.
            pool = envpool.make_gymnasium(
                self._task, num_envs=self._width, seed=seed, num_threads=1
            )
            observations, _ = pool.reset()
        return pool, observations

    def _show(self, lanes: NDArray[Any], observations: Any) -> None:
        if self._correct is not None:
            observations = self._correct(observations)
        if isinstance(self.observations, np.ndarray):
            self.observations[lanes] = observations
        else:
            for row, lane in enumerate(lanes.tolist()):
                spaces.assign(self.observations, lane, spaces.pick(observations, row))
