"""EnvPool in lanes: an environment for each lane of a policy, those of many policies in a pool.

EnvPool sets the seed of an environment when it is made, and draws all its episodes from that one
stream. So a policy gets environments of its own, with seeds that follow from what it is; episode
number e of the policy is the (e // width)-th of environment e % width. That does not depend on how
many policies play side by side, nor on which pool they share. Observations are EnvPool's own.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.parallel import usable_cores
from pivec.rollouts import observations as spaces
from pivec.rollouts.backends import Layout
from pivec.rollouts.environment import Environment, close, failure
from pivec.rollouts.lanes import Lanes, Outcome, first_seen
from pivec.rollouts.quirks import import_envpool


@dataclass
class _Pool:
    """A pool, the lanes of its environments, and the policies that still play in it."""

    number: int
    pool: Any
    lanes: NDArray[np.intp]
    slots: set[int]


class EnvPoolLanes(Lanes):
    """Environments for each policy of the layout, stepped in EnvPool's threads.

    Spaces are Gymnasium's: EnvPool's bounds differ for some environments.
    """

    def __init__(self, environment: Environment, shape: Layout, threads: int | None = None) -> None:
        self.n, self._width = shape.slots * shape.width, shape.width
        self._task = environment.name
        self._threads = threads or usable_cores()
        env = environment.make()
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.observations = first_seen(env, self.n, environment.name)[0]
        close(env, environment.name)
        self._pools: dict[int, _Pool] = {}
        self._made = 0
        self._owner = np.full(self.n, -1)  # the number of the pool of each lane
        self._number = np.zeros(self.n, dtype=np.int32)  # of the environment in its pool
        self._begun = np.zeros(self.n, dtype=bool)

    def take(self, slots: list[int], seeds: NDArray[np.int64]) -> None:
        """Make environments for policies that begin together, in one pool."""
        lanes = (np.array(slots)[:, None] * self._width + np.arange(self._width)).ravel()
        pool, observations = self._make(seeds.ravel())
        self._pools[self._made] = _Pool(self._made, pool, lanes, set(slots))
        self._owner[lanes] = self._made
        self._number[lanes] = np.arange(len(lanes))
        self._begun[lanes] = False
        self._made += 1
        self._show(lanes, observations)

    def vacate(self, slot: int) -> None:
        """Drop a pool when the last of its policies is done."""
        number = int(self._owner[slot * self._width])
        if number in self._pools:
            self._pools[number].slots.discard(slot)
            if not self._pools[number].slots:
                self._pools.pop(number).pool.close()
        self._owner[slot * self._width : (slot + 1) * self._width] = -1

    def reset(self, lane: int, seed: int) -> None:  # noqa: ARG002  (set when it was made)
        """Start the next episode of ``lane``; the first one has begun with the pool."""
        if self._begun[lane]:
            pool = self._pools[int(self._owner[lane])].pool
            observations, _ = pool.reset(self._number[lane : lane + 1])
            self._show(np.array([lane]), observations)
        self._begun[lane] = True

    def step(self, lanes: NDArray[np.intp], actions: NDArray[Any]) -> Outcome:
        """Step the given lanes (in ascending order)."""
        owners = self._owner[lanes]
        rewards, (terminated, truncated) = np.zeros(len(lanes)), np.zeros((2, len(lanes)), bool)
        busy = [self._pools[number] for number in np.unique(owners).tolist()]
        try:
            for pool in busy:
                mine = lanes if len(busy) == 1 else lanes[owners == pool.number]
                pool.pool.send(actions[mine], self._number[mine])
            for pool in busy:
                observations, reward, over, cut, info = pool.pool.recv()
                back = pool.lanes[info["env_id"]]
                rows = np.searchsorted(lanes, back)
                self._show(back, observations)
                rewards[rows], terminated[rows], truncated[rows] = reward, over, cut
        except RuntimeError as error:
            raise failure(f"EnvPool's {self._task}", "step", error) from error
        return rewards, terminated, truncated

    def close(self) -> None:
        """Close all pools."""
        for pool in self._pools.values():
            pool.pool.close()
        self._pools.clear()

    def _make(self, seeds: NDArray[np.int64]) -> tuple[Any, Any]:
        """Make a pool, and start an episode in all its environments."""
        envpool = import_envpool()
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
