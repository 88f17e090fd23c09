"""The fitness of a population: all its individuals play in lock-step, from the same seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData
from pivec.rollouts import spaces
from pivec.rollouts.backends import Layout, make_lanes
from pivec.rollouts.environment import Environment
from pivec.rollouts.seeds import episode_seeds

Fitness = NDArray[np.float64]
Answer = Callable[[NDArray[np.float32]], NDArray[Any]]
"""From observations (individuals, episodes, in) to actions (individuals, episodes, ...)."""


class Arena:
    """Environments for ``individuals`` times ``episodes``, kept from generation to generation.

    The fitness is the mean return of an individual's episodes, cut after ``max_steps``. Their seeds
    follow from ``seed`` and the number of the generation.

    Examples
    --------
    >>> import numpy as np
    >>> arena = Arena(Environment("CartPole-v1"), individuals=2, episodes=3)
    >>> def lean(observations):  # the second one does nothing sensible
    ...     actions = (observations[..., 2] > 0).astype(int)
    ...     actions[1] = 0
    ...     return actions
    >>> fitness, steps = arena.play(lean, generation=0)
    >>> bool(fitness[0] > 2 * fitness[1]), bool(steps == 3 * fitness.sum())
    (True, True)
    """

    def __init__(
        self,
        environment: Environment,
        individuals: int,
        episodes: int,
        seed: int = 0,
        max_steps: int = 10_000,
    ) -> None:
        self.individuals, self.episodes = individuals, episodes
        self._name, self._seed, self._max_steps = environment.name, seed, max_steps
        self._lanes = make_lanes(environment, "gymnasium", Layout(individuals, episodes))
        self._action_shape = self._lanes.action_space.shape or ()

    def play(self, answer: Answer, generation: int, n: int | None = None) -> tuple[Fitness, int]:
        """Play one generation; all individuals play the same episodes.

        ``answer`` answers for the whole arena, whose first ``n`` individuals are there. Gives their
        fitness, (n,), and the number of environment steps taken.
        """
        n = self.individuals if n is None else n
        lanes = self._lanes
        seeds = episode_seeds(self._seed, f"generation {generation}", self.episodes)
        for individual in range(n):
            for episode in range(self.episodes):
                lanes.reset(individual * self.episodes + episode, int(seeds[episode]))
        returns = np.zeros(n * self.episodes)
        active = np.arange(n * self.episodes)
        steps = 0
        for _ in range(self._max_steps):
            flat = spaces.flatten(lanes.observation_space, lanes.observations)
            seen = flat.reshape(self.individuals, self.episodes, -1)
            actions = answer(seen).reshape(lanes.n, *self._action_shape)
            rewards, terminated, truncated = lanes.step(active, actions)
            returns[active] += rewards
            steps += len(active)
            active = active[~(terminated | truncated)]
            if not len(active):
                break
        if not np.isfinite(returns).all():
            seed = seeds[int(np.flatnonzero(~np.isfinite(returns))[0]) % self.episodes]
            raise BadData(
                f"an episode of {self._name} (seed {seed}) has a return that is not finite: check "
                "the environment's rewards"
            )
        return returns.reshape(n, self.episodes).mean(axis=1), steps

    def close(self) -> None:
        """Close the environments."""
        self._lanes.close()
