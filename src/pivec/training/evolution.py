"""Generations of a population: proposed, played, told; replayed from a ledger after a stop.

Everything random follows from the seed, so the fitness of every generation is all that a stopped
run needs: it proposes the same generations again, takes their fitness from the ledger instead of
playing, and goes on bit for bit. A checksum of each generation tells if that ever fails.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pivec.errors import PivecError, UsageError
from pivec.policies.head import Options
from pivec.rollouts import spaces
from pivec.rollouts.environment import Environment
from pivec.training.arena import Answer, Arena
from pivec.training.checkpoints import Maker, drawn, generations_kept
from pivec.training.runs import Report, RunFolder

LEDGER = "generations.jsonl"


class Search(Protocol):
    """What proposes generations; individuals are whatever it makes of them."""

    suffix: str

    def ask(self) -> Sequence[Any]:
        """Propose the next generation."""
        ...

    def checksum(self, population: Sequence[Any]) -> str:
        """Give a digest of a generation."""
        ...

    def tell(self, population: Sequence[Any], fitness: NDArray[np.float64]) -> None:
        """Take in the fitness of a generation, of which more is better."""
        ...

    def stopped(self) -> str | None:
        """Tell why the search ends by itself, if it does."""
        ...

    def answer(self, population: Sequence[Any], individuals: int, episodes: int) -> Answer:
        """Answer for all individuals at once."""
        ...

    def save(self, individual: Any, path: Path, about: Mapping[str, Any]) -> None:
        """Write the policy of one individual."""
        ...


@dataclass(frozen=True)
class Played:
    """A generation that was played."""

    checksum: str
    fitness: NDArray[np.float64]
    steps: int


class Ledger:
    """The fitness of all generations so far, a line of JSON each, appended as they are played."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.generations: list[Played] = []
        whole = 0
        if path.exists():
            for line in path.read_bytes().splitlines(keepends=True):
                row = _row(line)
                if row is None:  # cut off in the middle when the run was killed
                    break
                self.generations.append(row)
                whole += len(line)
            os.truncate(path, whole)

    def append(self, played: Played) -> None:
        """Take in the next generation."""
        row = {
            "checksum": played.checksum,
            "steps": played.steps,
            "fitness": played.fitness.tolist(),
        }
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.generations.append(played)


def _row(line: bytes) -> Played | None:
    try:
        row = json.loads(line)
        fitness = np.array(row["fitness"], dtype=np.float64)
        return Played(str(row["checksum"]), fitness, int(row["steps"]))
    except (ValueError, KeyError, TypeError):
        return None


def evolve(
    environment: Environment,
    values: Mapping[str, Any],
    checkpoints: int | Sequence[int] | None,
    folder: RunFolder,
    maker: Maker,
    report: Report,
) -> None:
    """Run a search to its end, from where it stands."""
    arena = Arena(
        environment,
        values["population"],
        values["episodes"],
        maker.seed,
        values["max_steps"],
    )
    try:
        search = make_search(environment, maker.algorithm, values, maker.seed)
        _generations(search, arena, values, checkpoints, folder, maker, report)
    finally:
        arena.close()


def _generations(
    search: Search,
    arena: Arena,
    values: Mapping[str, Any],
    checkpoints: int | Sequence[int] | None,
    folder: RunFolder,
    maker: Maker,
    report: Report,
) -> None:
    total = values["generations"]
    kept = generations_kept(checkpoints, total, values["keep_every"])
    ledger = Ledger(folder.state / LEDGER)
    steps, best, reason = 0, -np.inf, "all generations are done"
    for generation in range(total):
        population = search.ask()
        checksum = search.checksum(population)
        if generation < len(ledger.generations):
            played = ledger.generations[generation]
            if played.checksum != checksum or len(played.fitness) != len(population):
                raise PivecError(
                    f"{folder.path} cannot go on: generation {generation} comes out differently "
                    "than before, most likely since other versions of packages are installed; "
                    "remove the folder to train anew"
                )
        else:
            fitness, taken = _play(search, arena, population, generation)
            played = Played(checksum, fitness, taken)
            ledger.append(played)
        steps += played.steps
        best = float(played.fitness.max())
        if generation in kept:
            for number in drawn(len(population), values["keep_share"], maker.seed, generation):
                path = folder.path / f"generation_{generation}"
                path.mkdir(exist_ok=True)
                path /= f"individual_{number}{search.suffix}"
                if not path.exists():
                    value = float(played.fitness[number])
                    about = maker.about(generation, value, environment_steps=steps)
                    search.save(population[number], path, about)
        search.tell(population, played.fitness)
        report(generation + 1, steps, best)
        stopped = search.stopped()
        if stopped is None and 0 < values["steps"] <= steps:
            stopped = "all steps are done"
        if stopped is not None:
            reason = stopped
            break
    folder.finish(steps, best, reason)


def _play(
    search: Search, arena: Arena, population: Sequence[Any], generation: int
) -> tuple[NDArray[np.float64], int]:
    """Play a generation, in parts if it is larger than the arena."""
    fitness, steps = [], 0
    for first in range(0, len(population), arena.individuals):
        part = population[first : first + arena.individuals]
        answer = search.answer(part, arena.individuals, arena.episodes)
        some, taken = arena.play(answer, generation, len(part))
        fitness.append(some)
        steps += taken
    return np.concatenate(fitness), steps


def check_spaces(observation_space: Any, action_space: Any) -> None:
    """Refuse environments that the networks of populations cannot act in."""
    from gymnasium import spaces as gym_spaces

    if isinstance(action_space, gym_spaces.Discrete):
        fits = action_space.start == 0
    else:
        fits = isinstance(action_space, gym_spaces.Box) and action_space.dtype.kind == "f"
    if not fits:
        raise UsageError(
            "populations need discrete actions from 0 or a box of real ones, but the environment "
            f"expects {action_space}"
        )
    spaces.flat_size(observation_space)


def outputs_for(action_space: Any) -> tuple[int, str, Options, tuple[Any, Any] | None]:
    """Say how a network acts: number of outputs, head, its options, and the box of real actions."""
    from gymnasium import spaces as gym_spaces

    # Individuals take their best action: the search is over behaviours, not over distributions.
    if isinstance(action_space, gym_spaces.Discrete):
        return int(action_space.n), "epsilon_greedy", Options(), None
    shape = action_space.shape or ()
    options = Options(shape=shape if len(shape) > 1 else None)
    box = (getattr(action_space, "low", None), getattr(action_space, "high", None))
    return int(np.prod(shape)), "deterministic", options, box


def make_search(
    environment: Environment, algorithm: str, values: Mapping[str, Any], seed: int
) -> Search:
    """Make what proposes the generations of a run."""
    probe = environment.make()
    observation_space, action_space = probe.observation_space, probe.action_space
    probe.close()
    check_spaces(observation_space, action_space)
    n_inputs = spaces.flat_size(observation_space)
    n_outputs, head, options, box = outputs_for(action_space)
    if algorithm == "cmaes":
        from pivec.training.cmaes import CmaEs

        sizes = (n_inputs, *values["hidden"], n_outputs)
        return CmaEs(sizes, head, options, box, values, seed)
    from pivec.training.neat_search import NeatSearch

    return NeatSearch(n_inputs, n_outputs, box, values, seed)
