"""A run of ES or NSR-ES in its folder: checkpoints, going on after a stop, generations.csv."""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pivec.atomic import atomic_write
from pivec.engines.workers import threads
from pivec.errors import PivecError
from pivec.policies.saved import save_policy
from pivec.training.novelty import Generation, NoveltySearch
from pivec.training.novelty_archive import behaviour_named
from pivec.training.runs import Report, Run, TrainedRun, wanted
from pivec.training.settings import behaviour_defaults

GENERATIONS = "generations.csv"
_STATE = "search.npz"
_SECONDS = 2.0  # between writing what is needed to go on


def search(run: Run, report: Report) -> TrainedRun:
    """Run a search to its end, from where it stands."""
    values, total = run.settings, run.settings["generations"]
    text = values.get("behaviour")
    behaviour = None if text is None else behaviour_named(text, behaviour_defaults(), run.seed)
    kept = wanted(run.checkpoints, total - 1, values["keep_every"])
    # A run has one core: workers that share it only get in each other's way.
    with threads(1):
        running = NoveltySearch(run.environment, behaviour, seed=run.seed, settings=values)
        _go_on(running, run)
        last, reason = time.monotonic(), "all generations are done"
        while len(running.history) < total:
            made = running.advance()
            if made.number in kept:
                about = run.about(made.number, made.mean_return, environment_steps=made.steps)
                path = run.path / f"generation_{made.number}.safetensors"
                save_policy(running.policy, path, about)
            report(made.number + 1, made.steps, made.best_return)
            if time.monotonic() - last > _SECONDS:
                _save(running, run)
                last = time.monotonic()
            if 0 < values["steps"] <= made.steps:
                reason = "all steps are done"
                break
    _save(running, run)
    write_generations(run.path / GENERATIONS, running.history)
    return run.finish(running.history[-1].steps, running.history[-1].best_return, reason)


def write_generations(path: Path, history: Sequence[Generation]) -> None:
    """Write what came of each generation as a table."""
    with atomic_write(path, "w") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerows([Generation._fields, *history])


def read_generations(run: str | Path) -> list[Generation]:
    """Read what came of each generation of a finished run of ES or NSR-ES."""
    path = Path(run) / GENERATIONS
    if not path.exists():
        raise PivecError(f"{path} is not there: expected the folder of a finished es or nsr-es run")
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [Generation(*map(int, row[:3]), *map(float, row[3:])) for row in rows]


def _save(running: NoveltySearch, run: Run) -> None:
    with atomic_write(run.state / _STATE) as file:
        np.savez(file, **running.arrays())  # type: ignore[arg-type]


def _go_on(running: NoveltySearch, run: Run) -> None:
    path = run.state / _STATE
    if not path.exists():
        return
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = dict(stored)
    except (OSError, ValueError) as error:
        raise PivecError(
            f"{path} cannot be read ({error}): remove {run.path} to train anew"
        ) from error
    running.restore(arrays)
