"""Generations of a population: proposed, played in lock-step; replayed from a ledger after a stop.

Everything random follows from the seed, so the fitness of every generation is all that a stopped
run needs: it proposes the same generations again, takes their fitness from the ledger instead of
playing, and goes on bit for bit. A checksum of each generation tells if that ever fails.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, PivecError
from pivec.rollouts import spaces
from pivec.rollouts.backends import Layout, make_lanes
from pivec.rollouts.environment import Environment
from pivec.rollouts.seeds import action_stream, episode_seeds
from pivec.training.architecture import Answer, Architecture, spaces_of
from pivec.training.cmaes import CmaEs
from pivec.training.neat_search import NeatSearch
from pivec.training.runs import Report, Run, TrainedRun, drawn, wanted

LEDGER = "generations.jsonl"

Fitness = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], NDArray[np.float32]]


def no_noise(_rng: np.random.Generator, n: int) -> NDArray[np.float32]:
    """Give the random numbers of ``n`` actions that take none."""
    return np.zeros((n, 0), np.float32)


class Arena:
    """Environments for ``individuals`` times ``episodes``, kept from generation to generation.

    The fitness is the mean return of an individual's episodes, cut after ``max_steps``. Their seeds
    follow from ``seed`` and the number of the generation, and so do the random numbers that
    discrete actions are drawn by: an episode has the same ones for all individuals. ``noise`` gives
    those of some steps from a generator.
    """

    def __init__(
        self,
        environment: Environment,
        individuals: int,
        episodes: int,
        seed: int = 0,
        max_steps: int = 10_000,
        noise: Noise = no_noise,
    ) -> None:
        self.individuals, self.episodes = individuals, episodes
        self._name, self._seed, self._max_steps = environment.name, seed, max_steps
        self._noise = noise
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
        streams = [action_stream(int(seed)) for seed in seeds]
        steps = 0
        for _ in range(self._max_steps):
            flat = spaces.flatten(lanes.observation_space, lanes.observations)
            seen = flat.reshape(self.individuals, self.episodes, -1)
            noise = np.stack([self._noise(stream, 1)[0] for stream in streams])
            noise = np.broadcast_to(noise, (self.individuals, *noise.shape))
            actions = answer(seen, noise).reshape(lanes.n, *self._action_shape)
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


class Played(NamedTuple):
    """A generation that was played."""

    checksum: str
    fitness: NDArray[np.float64]
    steps: int


def read_ledger(path: Path) -> list[Played]:
    """Read the generations so far, a line of JSON each; one that was cut off is taken out."""
    generations: list[Played] = []
    if not path.exists():
        return generations
    whole = 0
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            row = json.loads(line)
            fitness = np.array(row["fitness"], dtype=np.float64)
            generations.append(Played(str(row["checksum"]), fitness, int(row["steps"])))
        except (ValueError, KeyError, TypeError):
            break  # cut off in the middle when the run was killed
        whole += len(line)
    os.truncate(path, whole)
    return generations


def append_to_ledger(path: Path, played: Played) -> None:
    """Add a generation that was played."""
    row = played._asdict() | {"fitness": played.fitness.tolist()}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
        file.flush()
        os.fsync(file.fileno())


def evolve(run: Run, report: Report) -> TrainedRun:
    """Run a search to its end, from where it stands."""
    values, total = run.settings, run.settings["generations"]
    kept = wanted(run.checkpoints, total - 1, values["keep_every"])
    before = read_ledger(run.state / LEDGER)
    steps, best, reason = 0, -np.inf, "all generations are done"
    shape = Architecture.of(
        *spaces_of(run.environment),
        values.get("hidden", ()),
        "sigmoid",
        discrete=values["discrete"],
        first_biases=True,
    )
    kind = CmaEs if run.algorithm == "cmaes" else NeatSearch
    search = kind(shape, values, run.seed)
    places = (run.environment, values["population"], values["episodes"])
    with closing(Arena(*places, run.seed, values["max_steps"], shape.rule.noise)) as arena:
        for generation in range(total):
            population = search.ask()
            played = _played(run, search, arena, population, generation, before)
            steps += played.steps
            best = float(played.fitness.max())
            if generation in kept:
                _keep(run, search, population, generation, played.fitness, steps)
            search.tell(population, played.fitness)
            report(generation + 1, steps, best)
            stopped = search.stopped()
            if stopped is None and 0 < values["steps"] <= steps:
                stopped = "all steps are done"
            if stopped is not None:
                reason = stopped
                break
    return run.finish(steps, best, reason)


def _played(
    run: Run,
    search: CmaEs | NeatSearch,
    arena: Arena,
    population: Sequence[Any],
    generation: int,
    ledger: Sequence[Played],
) -> Played:
    """Play a generation, in parts if it is larger than the arena, or look up what came of it."""
    checksum = search.checksum(population)
    if generation < len(ledger):
        before = ledger[generation]
        if before.checksum != checksum or len(before.fitness) != len(population):
            raise PivecError(
                f"{run.path} cannot go on: generation {generation} comes out differently than "
                "before, most likely since other versions of packages are installed; remove the "
                "folder to train anew"
            )
        return before
    fitness, steps = [], 0
    for first in range(0, len(population), arena.individuals):
        part = population[first : first + arena.individuals]
        answer = search.answer(part, arena.individuals, arena.episodes)
        part_fitness, part_steps = arena.play(answer, generation, len(part))
        fitness.append(part_fitness)
        steps += part_steps
    played = Played(checksum, np.concatenate(fitness), steps)
    append_to_ledger(run.state / LEDGER, played)
    return played


def _keep(
    run: Run,
    search: CmaEs | NeatSearch,
    population: Sequence[Any],
    generation: int,
    fitness: NDArray[np.float64],
    steps: int,
) -> None:
    """Write a share of a generation."""
    folder = run.path / f"generation_{generation}"
    folder.mkdir(exist_ok=True)
    for number in drawn(len(population), run.settings["keep_share"], run.seed, generation):
        path = folder / f"individual_{number}{search.suffix}"
        if not path.exists():
            about = run.about(generation, float(fitness[number]), environment_steps=steps)
            search.save(population[number], path, about)
