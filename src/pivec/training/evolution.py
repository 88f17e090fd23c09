"""Generations of a population: proposed, played, told; replayed from a ledger after a stop.

Everything random follows from the seed, so the fitness of every generation is all that a stopped
run needs: it proposes the same generations again, takes their fitness from the ledger instead of
playing, and goes on bit for bit. A checksum of each generation tells if that ever fails.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.errors import PivecError
from pivec.rollouts.environment import Environment
from pivec.training.architecture import Architecture, spaces_of
from pivec.training.arena import Arena
from pivec.training.checkpoints import drawn, wanted
from pivec.training.runs import Report, Run, TrainedRun

if TYPE_CHECKING:
    from pivec.training.cmaes import CmaEs
    from pivec.training.neat_search import NeatSearch

LEDGER = "generations.jsonl"


class Played(NamedTuple):
    """A generation that was played."""

    checksum: str
    fitness: NDArray[np.float64]
    steps: int


class Ledger:
    """The fitness of all generations so far, a line of JSON each, appended as they are played."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.generations: list[Played] = []
        if not path.exists():
            return
        whole = 0
        for line in path.read_bytes().splitlines(keepends=True):
            try:
                row = json.loads(line)
                fitness = np.array(row["fitness"], dtype=np.float64)
                played = Played(str(row["checksum"]), fitness, int(row["steps"]))
            except (ValueError, KeyError, TypeError):
                break  # cut off in the middle when the run was killed
            self.generations.append(played)
            whole += len(line)
        os.truncate(path, whole)

    def append(self, played: Played) -> None:
        """Take in the next generation."""
        row = played._asdict() | {"fitness": played.fitness.tolist()}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.generations.append(played)


def evolve(run: Run, report: Report) -> TrainedRun:
    """Run a search to its end, from where it stands."""
    values, total = run.settings, run.settings["generations"]
    kept = wanted(run.checkpoints, total - 1, values["keep_every"])
    ledger = Ledger(run.state / LEDGER)
    steps, best, reason = 0, -np.inf, "all generations are done"
    search = make_search(run.environment, run.algorithm, values, run.seed)
    places = (run.environment, values["population"], values["episodes"])
    with closing(Arena(*places, run.seed, values["max_steps"])) as arena:
        for generation in range(total):
            population = search.ask()
            played = _played(run, search, arena, population, generation, ledger)
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
    ledger: Ledger,
) -> Played:
    """Play a generation, in parts if it is larger than the arena, or look up what came of it."""
    checksum = search.checksum(population)
    if generation < len(ledger.generations):
        before = ledger.generations[generation]
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
    ledger.append(played)
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


def make_search(
    environment: Environment, algorithm: str, values: Mapping[str, Any], seed: int
) -> CmaEs | NeatSearch:
    """Make what proposes the generations of a run."""
    if algorithm == "cmaes":
        from pivec.training.cmaes import CmaEs

        shape = Architecture.of(*spaces_of(environment), values["hidden"], "sigmoid")
        return CmaEs(shape, values, seed)
    from pivec.training.neat_search import NeatSearch

    return NeatSearch(Architecture.of(*spaces_of(environment)), values, seed)
