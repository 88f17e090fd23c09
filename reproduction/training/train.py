"""Train several runs of one algorithm, each in its own process; finished runs are kept."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from pivec.errors import MissingExtra, PivecError
from pivec.files import make_folder
from pivec.parallel import Engine, Tell, WorkFailed, current, on_engine
from pivec.rollouts import Environment
from pivec.terminal import Progress
from reproduction.training.evolution import Architecture, spaces_of
from reproduction.training.runs import (
    POPULATIONS,
    Report,
    Run,
    TrainedRun,
    behaviour_named,
    is_published,
    settings_for,
)

CHECKPOINTS = 100  # per run of PPO or A2C, as in the paper's evaluation
_PACKAGES = {"ppo": "stable_baselines3", "a2c": "stable_baselines3", "cmaes": "cma", "neat": "neat"}
_PATIENCE = 60.0  # seconds to wait for the lock of a lost worker
LOG = "log.txt"  # output of a run's process, in its state folder


@on_engine
def train(
    env: str | Environment | Callable[[], Any],
    algo: str,
    out: str | Path,
    *,
    runs: int = 1,
    engine: str | Engine = "auto",  # noqa: ARG001  (used by `on_engine`, as is the next)
    jobs: int | None = None,  # noqa: ARG001
    progress: bool = False,
    **options: Any,
) -> list[TrainedRun]:
    """Train runs ``algo-0``, ``algo-1``, ... below ``out``; options are those of `plan_runs`."""
    folders = [Path(out).absolute() / f"{algo}-{number}" for number in range(runs)]
    planned = plan_runs(env, algo, folders, **options)
    results = {run.path: run.finished() for run in planned}
    todo = [run for run in planned if results[run.path] is None]
    with Progress(f"train {algo}", len(todo), unit="runs", show=progress) as bar:
        for run, result in finish_runs(todo):
            results[run.path] = result
            bar.advance(1, run.path.name)
    return [result for result in results.values() if result is not None]


def plan_runs(
    env: str | Environment | Callable[[], Any],
    algo: str,
    folders: Sequence[Path],
    *,
    checkpoints: int | Sequence[int] | None = None,
    seed: int = 0,
    steps: int | None = None,
    settings: Mapping[str, Any] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
) -> list[Run]:
    """Describe runs, one per folder; run number i has the seed ``seed`` + i."""
    environment = Environment.of(env, env_kwargs)
    changes = dict(settings or {}) | ({} if steps is None else {"steps": steps})
    values = settings_for(algo, environment.name, changes)
    if algo in _PACKAGES and importlib.util.find_spec(_PACKAGES[algo]) is None:
        raise MissingExtra(f"training by {algo}", "train")
    # Mistakes are found before any process is started.
    if "behaviour" in values:
        behaviour_named(values["behaviour"], seed)
    if algo in POPULATIONS:
        Architecture.of(*spaces_of(environment))
    kept = CHECKPOINTS if checkpoints is None and algo not in POPULATIONS else checkpoints
    origin = "settings of the paper" if is_published(algo, environment.name) else "general settings"
    if kept is not None and not isinstance(kept, int):
        kept = list(kept)
    return [
        Run(folder, algo, environment, seed + number, values, kept, origin)
        for number, folder in enumerate(folders)
    ]


def finish_runs(runs: Sequence[Run]) -> Iterator[tuple[Run, TrainedRun]]:
    """Train runs to their ends, each from where it stands, and yield them as they finish."""
    for run in runs:
        run.begin()
    failures: list[PivecError] = []
    for reply in current().map(
        carry_out,
        runs,
        name=lambda run: run.path.name,
        apart=True,
        threads=1,
        log=lambda run: run.state / LOG,
    ):
        if reply.failure is None:
            yield reply.item, reply.content
        else:
            failures.append(_named(reply.item.path.name, reply.failure))
    if failures:
        raise failures[0]


def _named(name: str, failure: PivecError) -> PivecError:
    """Name the run in its error."""
    kind, text = type(failure), f"{name}: {failure}"
    if isinstance(failure, WorkFailed):
        kind = PivecError
        if failure.died:  # the error names it already
            text = f"{failure}; run the same command to resume from its last checkpoint"
    named = kind.__new__(kind, text)
    named.__cause__ = failure
    return named


def carry_out(run: Run, tell: Tell) -> TrainedRun:
    """Train to the end, in its own process: libraries seed global generators and start threads."""

    def report(done: int, steps: int, mean_return: float | None) -> None:
        tell({"done": done, "steps": steps, "mean_return": mean_return}, seldom=True)

    run = replace(run, began=time.monotonic())
    make_folder(run.state)
    with run.claimed(_PATIENCE):
        return _algorithm(run.algorithm)(run, report)


def _algorithm(name: str) -> Callable[[Run, Report], TrainedRun]:
    if name in ("ppo", "a2c"):
        from reproduction.training.reinforcement import learn

        return learn
    if name in ("es", "nsr-es"):
        from reproduction.training.novelty import search
    else:
        from reproduction.training.evolution import evolve as search

    def single_threaded(run: Run, report: Report) -> TrainedRun:
        with threadpool_limits(limits=1):
            return search(run, report)

    return single_threaded
