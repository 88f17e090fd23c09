"""train: several runs of one algorithm, each in a process of its own; finished ones are kept."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pivec.arguments import Count, Seed, checked
from pivec.errors import MissingExtra, PivecError, UsageError
from pivec.files import make_folder
from pivec.parallel import Engine, Mirror, Tell, WorkFailed, current, on_engine
from pivec.rollouts import Environment, choose_backend
from pivec.terminal import Progress
from reproduction.training.evolution import Architecture, spaces_of
from reproduction.training.runs import (
    POPULATIONS,
    Report,
    Run,
    TrainedRun,
    behaviour_defaults,
    is_published,
    settings_for,
)

CHECKPOINTS = 100  # of a run of PPO or A2C, as in the paper's evaluation
_PACKAGES = {"ppo": "stable_baselines3", "a2c": "stable_baselines3", "cmaes": "cma", "neat": "neat"}
_SENDING = 5.0  # seconds between sending files, where the folder is another machine's
_PATIENCE = 60.0  # seconds for a worker that was lost to be gone, before its run goes on
LOG = "log.txt"  # what the process of a run prints, in its state

Item = tuple[Run, Mirror]  # a run, and its folder as workers have it


@on_engine
@checked
def train(
    env: str | Environment | Callable[[], Any],
    algo: str,
    out: str | Path,
    *,
    runs: Count = 1,
    engine: str | Engine = "auto",  # noqa: ARG001  (as the next, of `on_engine`)
    jobs: Count | None = None,  # noqa: ARG001
    checkpoints: Count | Sequence[int] | None = None,
    seed: Seed = 0,
    steps: int | None = None,
    settings: Mapping[str, Any] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> list[TrainedRun]:
    """Train policies and keep checkpoints, which `pivec.compare` takes as they are.

    Every run has a process and a core of its own, so nothing random happens in this process. A run
    that was stopped goes on; a finished one is not repeated.

    Parameters
    ----------
    env : str or callable
        A Gymnasium id, or a function that makes an environment, defined in a module.
    algo : {"ppo", "a2c", "cmaes", "neat", "es", "nsr-es"}
    out : path
        Gets a folder for each run: ``ppo-0``, ``ppo-1``, ...
    runs : int
        Runs, of which number i has the seed ``seed`` + i.
    engine, jobs : optional
        Where they run, as `pivec.using` takes it, and how many go side by side.
    checkpoints : int or sequence of int, optional
        Policies kept of a run of PPO or A2C, from the untrained to the last (100); generations of
        CMA-ES or NEAT of which a quarter is kept (every tenth), or of ES and NSR-ES whose updated
        policy is kept (all). Or the steps or generations to keep.
    steps : int, optional
        Environment steps of each run, instead of the settings' own.
    settings : mapping, optional
        Other values for what `settings_for` gives. For NSR-ES ``behaviour`` may be the name of a
        characterization, with arguments as JSON behind it, or a characterization.
    env_kwargs : mapping, optional
        Arguments for `gymnasium.make`.

    Returns
    -------
    list of TrainedRun

    Examples
    --------
    >>> import tempfile
    >>> out = tempfile.mkdtemp()
    >>> [run] = train("CartPole-v1", "ppo", out, steps=512, checkpoints=2)
    >>> sorted(path.name for path in run.folder.iterdir())
    ['run.json', 'state', 'step_0.safetensors', 'step_512.safetensors']
    """
    folders = [Path(out).absolute() / f"{algo}-{number}" for number in range(runs)]
    planned = plan_runs(
        env,
        algo,
        folders,
        checkpoints=checkpoints,
        seed=seed,
        steps=steps,
        settings=settings,
        env_kwargs=env_kwargs,
    )
    return _results(planned, progress)


def _results(runs: Sequence[Run], progress: bool) -> list[TrainedRun]:
    """Train what is not finished, with a line that shows how all of it goes."""
    results = {run.path: run.finished() for run in runs}
    todo = [run for run in runs if results[run.path] is None]
    algo, population = runs[0].algorithm, runs[0].algorithm in POPULATIONS
    total = runs[0].settings["generations" if population else "steps"]
    # Short, since a line of 80 characters must hold it all.
    scale, unit = (1, "gens") if population else (1_000, "k steps")
    with Progress(algo, total * len(todo) // scale, unit=unit, show=progress) as bar:
        watch = _Watch(bar, total, scale, len(todo))
        for run, result in finish_runs(
            todo, lambda run, message: watch.take(run.path.name, message)
        ):
            results[run.path] = result
            watch.take(run.path.name, {"finished": True})
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
    """Describe runs, one a folder; takes the arguments of `train`, and refuses what cannot work."""
    environment = Environment.of(env, env_kwargs)
    values = _settings(algo, environment, settings, steps, seed)
    kept = _kept(algo, checkpoints)
    _check_environment(algo, environment)
    published = is_published(algo, environment.name)
    origin = "settings of the paper" if published else "general settings"
    return [
        Run(folder, algo, environment, seed + number, values, kept, origin)
        for number, folder in enumerate(folders)
    ]


def finish_runs(
    runs: Sequence[Run], on_message: Callable[[Run, Any], None] = lambda _run, _message: None
) -> Iterator[tuple[Run, TrainedRun]]:
    """Train runs to their ends, from where they stand; give those that have ended as they do.

    One that fails does not stop the others; what went wrong is raised in the end.
    """
    for run in runs:
        run.begin()
    failures: list[PivecError] = []

    def take(item: Item, message: Any) -> None:
        if not item[1].receive(message):
            on_message(item[0], message)

    with ExitStack() as folders:
        for reply in current().map(
            carry_out,
            [(run, folders.enter_context(Mirror(run.path))) for run in runs],
            on_message=take,
            name=lambda item: item[0].path.name,
            apart=True,
            parts=lambda item: [
                (f"the environment {item[0].environment.name}", item[0].environment)
            ],
            threads=1,
            log=lambda item: item[0].state / LOG,
        ):
            run = reply.item[0]
            if reply.failure is None:
                yield run, replace(reply.content, folder=run.path)
            else:
                failures.append(_named(run.path.name, reply.failure))
    if failures:
        raise failures[0]


def _kept(algo: str, checkpoints: int | Sequence[int] | None) -> int | list[int] | None:
    if checkpoints is None:
        return None if algo in POPULATIONS else CHECKPOINTS
    kept = checkpoints if isinstance(checkpoints, int) else [*checkpoints]
    if isinstance(kept, int):
        if kept < 1:
            raise UsageError(f"checkpoints must be at least 1, but is {kept}")
    elif not (kept and all(type(step) is int and step >= 0 for step in kept)):
        raise UsageError(f"checkpoints must be whole numbers from 0, but are {kept}")
    return kept


def _settings(
    algo: str,
    environment: Environment,
    settings: Mapping[str, Any] | None,
    steps: int | None,
    seed: int,
) -> dict[str, Any]:
    """Give the settings with the user's changes; what cannot work is refused."""
    changes = dict(settings or {})
    if steps is not None:
        changes["steps"] = steps
    if not isinstance(changes.get("behaviour", ""), str):
        from pivec.integrations import behaviour_text

        changes["behaviour"] = behaviour_text(changes["behaviour"])
    values = settings_for(algo, environment.name, changes)
    if algo in ("cmaes", "neat") and values["population"] < 4:
        raise UsageError(f"population must be at least 4, but is {values['population']}")
    if algo not in POPULATIONS and values["steps"] < 1:
        raise UsageError(f"steps must be at least 1, but is {values['steps']}")
    if "behaviour" in values:  # loads scikit-learn, which no run of the others waits for
        from pivec.integrations import behaviour_named

        behaviour_named(values["behaviour"], behaviour_defaults(), seed)
    if "backend" in values:
        choose_backend(values["backend"], environment)
    return values


def _check_environment(algo: str, environment: Environment) -> None:
    """Refuse what cannot be made or trained in, before any process is started."""
    if algo in _PACKAGES and importlib.util.find_spec(_PACKAGES[algo]) is None:
        raise MissingExtra(f"training by {algo}", "train")
    spaces = spaces_of(environment)
    if algo in POPULATIONS:
        Architecture.of(*spaces)


@dataclass
class _Watch:
    """What is known of all runs, drawn as one line: return, steps a second, and the time left."""

    bar: Progress
    total: int  # of each run
    scale: int  # of these, one on the bar
    runs: int
    done: dict[str, int] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    start: float = field(default_factory=time.monotonic)

    def take(self, name: str, message: Mapping[str, Any]) -> None:
        """Take in a message of a run."""
        if "finished" in message:
            self.done[name] = self.total
            self.bar.advance(self._more())
            return
        steps = message["steps"]
        self.first.setdefault(name, steps)
        self.steps[name], self.done[name] = steps, message["done"]
        here = sum(self.steps.values()) - sum(self.first.values())
        rate = here / max(time.monotonic() - self.start, 1e-9)
        value = message["mean_return"]
        shown = "no return yet" if value is None else f"return {value:.4g}"
        which = f"{name} " if self.runs > 1 else ""
        self.bar.advance(self._more(), f"{which}{shown}, {rate:,.0f}/s")

    def _more(self) -> int:
        """How far the bar has to move."""
        return sum(self.done.values()) // self.scale - self.bar.done


def _named(name: str, failure: PivecError) -> PivecError:
    """Name the run that failed in what went wrong."""
    kind, text = type(failure), f"{name}: {failure}"
    if isinstance(failure, WorkFailed):
        kind = PivecError
        if failure.died:  # it is named already
            text = f"{failure}; the same command goes on from its last checkpoint"
    named = kind.__new__(kind, text)
    named.__cause__ = failure
    return named


def carry_out(item: Item, tell: Tell) -> TrainedRun:
    """Train to the end, from where the run stands, in a process of its own.

    Libraries of training seed global generators and start threads. In a process of its own a run
    does neither to its caller, and several go side by side, one core each.
    """
    run, mirror = item
    sent = time.monotonic()

    def report(done: int, steps: int, mean_return: float | None) -> None:
        nonlocal sent
        tell({"done": done, "steps": steps, "mean_return": mean_return}, seldom=True)
        if time.monotonic() - sent > _SENDING:
            mirror.send()
            sent = time.monotonic()

    with mirror.here(tell, bring=True) as folder:
        return _to_the_end(replace(run, path=folder, began=time.monotonic()), report)


def _to_the_end(run: Run, report: Report) -> TrainedRun:
    make_folder(run.state)
    with run.claimed(_PATIENCE):
        if run.algorithm in ("ppo", "a2c"):
            from reproduction.training.reinforcement import learn

            return learn(run, report)
        from threadpoolctl import threadpool_limits

        if run.algorithm in ("es", "nsr-es"):
            from reproduction.training.novelty import search
        else:
            from reproduction.training.evolution import evolve as search
        with threadpool_limits(limits=1):
            return search(run, report)
