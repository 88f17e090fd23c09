"""A run of training: what it is, its folder with what it has reached, and when a policy is kept."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import Characterization, characterization
from pivec.errors import PivecError, UsageError
from pivec.files import atomic_write, locked, make_folder
from pivec.rollouts import Environment, split_arguments
from pivec.run_log import RUN, processor, versions

Report = Callable[[int, int, float | None], None]
"""Is called as a run goes on: what is done of its total, environment steps, mean return."""

_LINGERING = 5.0  # seconds for the workers of a command that was killed to be gone


@dataclass(frozen=True)
class TrainedRun:
    """A finished run.

    Its ``mean_return`` is that of the latest episodes of training; of populations, the best fitness
    of the last generation; of ES and NSR-ES, the best mean return of any generation's updated
    policy.
    """

    folder: Path  # its checkpoints, and run.json
    seed: int
    steps: int  # of the environment
    mean_return: float | None
    reason: str  # why it ended
    reused: bool = False  # it was finished before


@dataclass(frozen=True)
class Run:
    """All that decides what a run does, and the folder that belongs to it alone.

    The folder holds its checkpoints, ``run.json``, and in ``state`` what it needs to go on.
    ``training`` is what checkpoints tell of how they came about.
    """

    path: Path
    algorithm: str
    environment: Environment
    seed: int
    settings: Mapping[str, Any]
    checkpoints: int | list[int] | None = None
    training: str = ""
    began: float | None = None  # when the process that trains took it up, by `time.monotonic`

    @property
    def state(self) -> Path:
        """The folder of what is needed to go on."""
        return self.path / "state"

    @property
    def identity(self) -> dict[str, Any]:
        """What a run must have in common with one that is to go on in its folder."""
        identity = {
            "algorithm": self.algorithm,
            **self.environment.to_json(),
            "seed": self.seed,
            "checkpoints": self.checkpoints,
            "settings": dict(self.settings),
        }
        held: dict[str, Any] = json.loads(json.dumps(identity))
        return held

    def finished(self) -> TrainedRun | None:
        """Give the result if the run is finished; UsageError if the folder is another run's."""
        file = self.path / RUN
        if not file.exists():
            if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
                raise UsageError(f"{self.path} is no folder of a run: choose another --out")
            return None
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            there, result = content["run"], content["result"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PivecError(
                f"{file} cannot be read ({error}): remove the folder to train anew"
            ) from error
        if there != self.identity:
            raise UsageError(
                f"{self.path} belongs to a run with other settings "
                f"({_difference(there, self.identity)}): choose another --out, or remove it"
            )
        return None if result is None else TrainedRun(self.path, self.seed, **result, reused=True)

    def begin(self) -> None:
        """Make the folder, in which no other process may be at work."""
        make_folder(self.state)
        with self.claimed(_LINGERING):
            if not (self.path / RUN).exists():
                self._write(None)

    def claimed(self, wait: float = 0.0) -> AbstractContextManager[None]:
        """Keep other processes out, as long as this one lives; wait so long for another."""
        busy = f"{self.path} is being trained in by another process"
        return locked(self.state / "lock", busy, wait)

    def finish(self, steps: int, mean_return: float | None, reason: str) -> TrainedRun:
        """Mark the run as finished."""
        result = {"steps": steps, "mean_return": mean_return, "reason": reason}
        self._write(result)
        return TrainedRun(self.path, self.seed, steps, mean_return, reason)

    def about(self, step: int, mean_return: float | None, **more: Any) -> dict[str, Any]:
        """Describe a checkpoint, as JSON holds it."""
        arguments = dict(self.environment.arguments)
        return {
            "algorithm": self.algorithm,
            "environment": self.environment.name,
            **({"arguments": arguments} if arguments else {}),
            "seed": self.seed,
            "step": step,
            "return": mean_return,
            **more,
            "training": self.training,
            "versions": versions(),
        }

    def _write(self, result: Mapping[str, Any] | None) -> None:
        content = {
            "run": self.identity,
            "versions": versions(),
            "processor": processor(),
            # Of the process that finished it: what was done before a stop is not counted.
            "seconds": None if self.began is None else round(time.monotonic() - self.began, 1),
            "result": result,
        }
        with atomic_write(self.path / RUN, "w") as file:
            json.dump(content, file, indent=1)


def _difference(there: Any, here: Any, name: str = "its description") -> str:
    """Name the first thing in which two identities differ."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in {**here, **there}:
            if there.get(key) != here.get(key):
                return _difference(there.get(key), here.get(key), key)
    return f"{name} is {there!r} there and {here!r} here"


def read_arrays(file: Path) -> dict[str, NDArray[Any]]:
    """Read what `write_arrays` wrote."""
    try:
        with np.load(file, allow_pickle=False) as stored:
            return dict(stored)
    except (OSError, ValueError, KeyError) as error:
        raise PivecError(f"{file} cannot be read ({error}): remove it to begin anew") from error


def write_arrays(file: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays by name, all or nothing."""
    make_folder(file.parent)
    with atomic_write(file) as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]


def spread(last: int, count: int) -> list[int]:
    """Spread ``count`` numbers evenly from 0 to ``last``; fewer where they would coincide."""
    if count == 1:
        return [last]
    return sorted({int(step) for step in np.linspace(0, last, count).round()})


def wanted(checkpoints: int | Sequence[int] | None, last: int, every: int = 1) -> list[int]:
    """Say where checkpoints lie: so many up to ``last``, at given places, or ``every`` few."""
    if checkpoints is None:
        return list(range(0, last + 1, every))
    return spread(last, checkpoints) if isinstance(checkpoints, int) else sorted(checkpoints)


def due_after(updates: Sequence[int], targets: Sequence[int]) -> list[int]:
    """Choose for each target the first update that reaches it."""
    places = np.searchsorted(np.asarray(updates), np.asarray(targets))
    return sorted({int(updates[min(int(place), len(updates) - 1)]) for place in places})


def drawn(n: int, share: float, seed: int, generation: int) -> list[int]:
    """Draw a share of a generation, at least one, without replacement."""
    rng = np.random.default_rng([seed, generation])
    return sorted(rng.choice(n, max(1, round(share * n)), replace=False).tolist())


ALGORITHMS = ("ppo", "a2c", "cmaes", "neat", "es", "nsr-es")
POPULATIONS = ("cmaes", "neat", "es", "nsr-es")  # whose progress is counted in generations
# From settings.toml to the names of neat-python's sections.
NEAT_SECTIONS = ("genome", "species", "stagnation", "reproduction")


@cache
def _tables() -> dict[str, Any]:
    text = (files("reproduction.training") / "settings.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def behaviour_named(text: str, seed: int) -> Characterization:
    """Make a characterization from its name, or as ``supervector{"n_components": 8}``."""
    name, given = split_arguments(text)
    made = characterization(name, **{**_tables()["behaviours"].get(name, {}), **given})
    if "random_state" in made.get_params(deep=False) and "random_state" not in given:
        made.set_params(random_state=seed)
    return made


def neat_sections() -> dict[str, tuple[str, ...]]:
    """Tell which settings of neat-python belong to which of its sections."""
    return {name: tuple(_tables()["neat_python"][name]) for name in NEAT_SECTIONS}


def is_published(algorithm: str, environment: str) -> bool:
    """Tell whether the paper has settings for this environment."""
    name = environment.rpartition(":")[2]
    return name != "general" and name in _tables()[algorithm]


def settings_for(
    algorithm: str, environment: str, changes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the settings of an algorithm in an environment, with some replaced by ``changes``.

    An environment that the paper does not have gets general settings.
    """
    if algorithm not in ALGORITHMS:
        raise UsageError(
            f"expected an algorithm among {', '.join(ALGORITHMS)}, but got {algorithm!r}"
        )
    table = _tables()[algorithm]
    values: dict[str, Any] = {**table["general"], **table.get(environment.rpartition(":")[2], {})}
    if algorithm == "neat":
        for section in NEAT_SECTIONS:
            values |= _tables()["neat_python"][section]
    for key, value in (changes or {}).items():
        if key not in values:
            raise UsageError(
                f"{algorithm} has no setting {key!r}: expected one of {', '.join(sorted(values))}"
            )
        kinds = (int, float) if type(values[key]) is float else type(values[key])
        if not isinstance(value, kinds):
            raise UsageError(
                f"the setting {key} must be of the type of {values[key]!r}, but is {value!r}"
            )
        values[key] = float(value) if isinstance(values[key], float) else value
    return values
