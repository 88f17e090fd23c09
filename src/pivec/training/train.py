"""train: several runs of one algorithm, each in a process of its own; finished ones are kept."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pivec.engines.processes import ProcessFailed, map_processes
from pivec.errors import MissingExtra, PivecError, UsageError
from pivec.progress import Progress
from pivec.rollouts.backends import choose_backend
from pivec.rollouts.environment import Environment
from pivec.training.checkpoints import Maker
from pivec.training.child import RunRequest, carry_out
from pivec.training.runs import RunFolder, TrainedRun
from pivec.training.settings import POPULATIONS, Settings, behaviour_defaults, settings_for

CHECKPOINTS = 100  # of a run of PPO or A2C, as in the paper's evaluation
_PACKAGES = {"ppo": "stable_baselines3", "a2c": "stable_baselines3", "cmaes": "cma", "neat": "neat"}
_WITHIN = ("cmaes", "neat")  # whose populations must be large enough to select from


def train(
    env: str | Environment | Callable[[], Any],
    algo: str,
    out: str | Path,
    *,
    runs: int = 1,
    jobs: int = 1,
    checkpoints: int | Sequence[int] | None = None,
    seed: int = 0,
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
        Run number i has the seed ``seed`` + i.
    jobs : int
        Runs side by side.
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
    progress : bool
        Draw a progress bar.

    Returns
    -------
    list of TrainedRun
        In the order of their numbers.

    Examples
    --------
    >>> import tempfile
    >>> out = tempfile.mkdtemp()
    >>> [run] = train("CartPole-v1", "ppo", out, steps=512, checkpoints=2)
    >>> sorted(path.name for path in run.folder.iterdir())
    ['run.json', 'state', 'step_0.safetensors', 'step_512.safetensors']
    """
    changes = dict(settings or {})
    if steps is not None:
        changes["steps"] = steps
    if not isinstance(changes.get("behaviour", ""), str):
        from pivec.training.novelty_archive import behaviour_text

        changes["behaviour"] = behaviour_text(changes["behaviour"])
    environment = Environment.of(env, env_kwargs)
    chosen = settings_for(algo, environment.name, changes)
    if "backend" in chosen.values:  # checked before any process is started
        choose_backend(chosen["backend"], environment)
    kept = checkpoints if checkpoints is None or isinstance(checkpoints, int) else [*checkpoints]
    _check(algo, chosen, environment, runs, jobs, kept, seed)
    if kept is None and algo not in POPULATIONS:
        kept = CHECKPOINTS
    plans = [
        _plan(environment, chosen, Path(out), number, seed + number, kept) for number in range(runs)
    ]
    done = {plan.number: result for plan in plans if (result := plan.folder.finished())}
    todo = [plan for plan in plans if plan.number not in done]
    for plan in todo:
        plan.folder.begin()
    population = algo in POPULATIONS
    total = chosen["generations" if population else "steps"]
    # Short, since a line of 80 characters must hold it all.
    scale, unit = (1, "gens") if population else (1_000, "k steps")
    with Progress(algo, total * len(todo) // scale, unit=unit, show=progress) as bar:
        _run_all([plan.request for plan in todo], jobs, _Watch(bar, total, scale, len(todo)))
    for plan in todo:
        result = plan.folder.finished()
        if result is None:
            raise PivecError(f"{plan.folder.path} is not finished: run the same command again")
        done[plan.number] = TrainedRun(**{**vars(result), "reused": False})
    return [done[number] for number in range(runs)]


@dataclass(frozen=True)
class _Plan:
    """A run: its number, its folder, and what its process is told."""

    number: int
    folder: RunFolder
    request: RunRequest


def _plan(
    environment: Environment,
    settings: Settings,
    out: Path,
    number: int,
    seed: int,
    checkpoints: int | list[int] | None,
) -> _Plan:
    algorithm, values = settings.algorithm, dict(settings.values)
    identity = {
        "algorithm": algorithm,
        "environment": environment.name,
        "arguments": dict(environment.arguments),
        "wrappers": environment.wrapper_names,
        "seed": seed,
        "checkpoints": checkpoints,
        "settings": values,
    }
    path = (out / f"{algorithm}-{number}").absolute()
    origin = "settings of the paper" if settings.published else "general settings"
    maker = Maker(algorithm, environment.name, seed, origin, dict(environment.arguments))
    try:
        folder = RunFolder(path, identity)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"arguments of the environment must be what JSON can hold, but {error}"
        ) from error
    return _Plan(
        number, folder, RunRequest(environment, values, checkpoints, path, folder.identity, maker)
    )


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

    def hear(self, name: str, message: Mapping[str, Any]) -> None:
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
        told = "no return yet" if value is None else f"return {value:.4g}"
        who = f"{name} " if self.runs > 1 else ""
        self.bar.advance(self._more(), f"{who}{told}, {rate:,.0f}/s")

    def _more(self) -> int:
        """How far the bar has to move."""
        return sum(self.done.values()) // self.scale - self.bar.done


def _run_all(requests: Sequence[RunRequest], jobs: int, watch: _Watch) -> None:
    """Carry out the runs, at most ``jobs`` at a time; one that fails does not stop the others."""
    failures: list[PivecError] = []
    replies = map_processes(
        carry_out, requests, jobs=jobs, parts=RunRequest.parts, threads=1, log=lambda run: run.log
    )
    for reply in replies:
        name, failure = requests[reply.number].folder.name, reply.failure
        if failure is None:
            watch.hear(name, {"finished": True} if reply.finished else reply.content)
            continue
        kind = PivecError if isinstance(failure, ProcessFailed) else type(failure)
        failures.append(kind.__new__(kind, f"{name}: {failure}"))
        failures[-1].__cause__ = failure
    if failures:
        raise failures[0]


def _check(
    algo: str,
    settings: Settings,
    environment: Environment,
    runs: int,
    jobs: int,
    checkpoints: int | list[int] | None,
    seed: int,
) -> None:
    """Refuse what cannot work before any process is started."""
    for name, value, least in (
        ("runs", runs, 1),
        ("jobs", jobs, 1),
        ("checkpoints", checkpoints if isinstance(checkpoints, int) else 1, 1),
        ("seed", seed, 0),
        ("steps", settings["steps"], 0 if algo in POPULATIONS else 1),
    ):
        if type(value) is not int or value < least:
            raise UsageError(f"{name} must be a whole number from {least}, but is {value!r}")
    if isinstance(checkpoints, list) and not (
        checkpoints and all(type(each) is int and each >= 0 for each in checkpoints)
    ):
        raise UsageError(f"checkpoints must be whole numbers from 0, but are {checkpoints}")
    if algo in _WITHIN and settings["population"] < 4:
        raise UsageError(f"a population has at least 4, but {settings['population']} are asked for")
    if "behaviour" in settings.values:
        from pivec.training.novelty_archive import behaviour_named

        behaviour_named(settings["behaviour"], behaviour_defaults(), seed)
    if algo in _PACKAGES and importlib.util.find_spec(_PACKAGES[algo]) is None:
        raise MissingExtra(f"training by {algo}", "train")
    probe = environment.make()
    try:
        if algo in POPULATIONS:
            from pivec.training.evolution import check_spaces

            check_spaces(probe.observation_space, probe.action_space)
    finally:
        probe.close()
