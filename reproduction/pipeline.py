"""Stages that recipes share, each kept under the hash of all that decides it.

policies/   runs of training, one folder for each `Training`
states/     a store for each `Collection`
results/    what was computed, one file for each set of inputs
finished/   an empty file for each stage of many such results that is whole, for the plan

A stage that is there already is not repeated, so a recipe that was stopped goes on, and recipes
that need the same policies or states share them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.files import atomic_write, make_folder
from pivec.parallel import Work, current
from pivec.policies import NamedPolicy, fingerprint_of, load_policies
from pivec.rollouts import Environment, choose_backend
from pivec.run_log import RUN
from pivec.states import Store, VisitedStates
from pivec.terminal import Progress
from pivec.workflows import collect
from reproduction.published import toml
from reproduction.training.runs import POPULATIONS, read_arrays, settings_for, write_arrays
from reproduction.training.train import finish_runs, plan_runs


@dataclass(frozen=True)
class Training:
    """Runs of one algorithm in one environment with the same settings."""

    name: str  # the recipe's, as `clip 0.1`; the policies' groups begin with it
    environment: str
    algorithm: str
    runs: int  # run i has the seed `seed` + i, so that more runs add to fewer
    checkpoints: int | None  # kept of a run; None for populations, which keep generations
    seed: int
    settings: Mapping[str, Any] = field(hash=False)  # all of them

    @cached_property
    def key(self) -> str:
        """A name that says what it is, with a digest of all that decides the policies."""
        decides = [self.environment, self.algorithm, self.kept, self.seed]
        digest = digest_of([*decides, dict(self.settings)])
        return f"{self.environment}-{self.algorithm}-{digest}"

    @property
    def steps(self) -> int:
        """Environment steps of all runs; 0 for populations, whose episodes decide it."""
        return int(self.settings["steps"]) * self.runs

    @property
    def kept(self) -> list[int] | None:
        """Steps after whose updates a policy is kept; None for populations."""
        return None if self.checkpoints is None else self.updates()

    def saves(self, count: int | None = None) -> list[int]:
        """Steps at which the paper's scripts save policies, evenly, updated in between or not."""
        most = self.checkpoints or 0
        count = most if count is None else min(count, most)
        return [(i + 1) * int(self.settings["steps"]) // count for i in range(count)]

    def updates(self, count: int | None = None) -> list[int]:
        """Steps after which the different networks among those that are saved came about."""
        batch = int(self.settings["n_envs"]) * int(self.settings["n_steps"])
        return sorted({step // batch * batch for step in self.saves(count)})


@dataclass(frozen=True)
class Collection:
    """States that policies of some trainings visit."""

    trainings: tuple[Training, ...]  # all in one environment
    episodes: int  # of each policy
    policies: int | None = None  # of each run, spread evenly; None takes all
    seed: int = 0
    kept: bool = True  # on disk; if not, `described` plays a few policies at a time
    runs: tuple[int, ...] | None = None  # only these of each training; None takes all

    @property
    def environment(self) -> str:
        """Where they act."""
        return self.trainings[0].environment

    @cached_property
    def key(self) -> str:
        """A name that says what it is, with a digest of all that decides the states."""
        who = [[training.name, training.key, training.runs] for training in self.trainings]
        decides = [who, self.episodes, self.policies, self.seed]
        digest = digest_of(decides if self.runs is None else [*decides, self.runs])
        return f"{self.environment}-{digest}"


def saved(training: Training, kept: Sequence[NamedPolicy], count: int | None) -> list[NamedPolicy]:
    """Take ``count`` policies out of those that a run keeps, in the order of training.

    Of PPO and A2C each is the network as it was when it would have been saved.
    """
    if training.checkpoints is None:
        return spread_evenly(kept, count)
    steps = [policy.info.step or 0 for policy in kept]
    saves = training.saves(count)
    places = np.maximum(np.searchsorted(steps, saves, side="right") - 1, 0)
    return [
        replace(kept[place], info=replace(kept[place].info, label=f"step_{step}", step=step))
        for place, step in zip(places.tolist(), saves, strict=True)
    ]


def spread_evenly(items: Sequence[Any], count: int | None) -> list[Any]:
    """Take ``count`` of the items, spread evenly from the first to the last."""
    if count is None or count >= len(items):
        return list(items)
    if count == 1:
        return [items[-1]]
    places = np.linspace(0, len(items) - 1, count).round().astype(int)
    return [items[place] for place in places.tolist()]


def digest_of(content: Any) -> str:
    """Return twelve hexadecimal digits that follow from the content, as JSON holds it."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


Arrays = dict[str, NDArray[Any]]

SCALES = ("smoke", "small", "paper")  # how much of everything; scales.toml has what trains less


@dataclass(frozen=True)
class Pipeline:
    """Trains, collects and computes, and keeps what it made in a folder."""

    cache: Path
    scale: str
    _: KW_ONLY
    seed: int = 0  # everything random follows from it
    backend: str = "auto"  # what steps the environments, as `pivec.collect` takes it
    progress: bool = False  # draw progress bars

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise UsageError(f"the scale must be one of {', '.join(SCALES)}, but is {self.scale!r}")

    def training(
        self,
        environment: str,
        algorithm: str,
        runs: int,
        *,
        name: str = "",
        checkpoints: int | None = None,
        first: int = 0,
        **settings: Any,
    ) -> Training:
        """Describe runs with the paper's settings at this scale, changed by ``settings``.

        If these change nothing, as many checkpoints are kept as any recipe asks for, and recipes
        share the runs (`Collection`). ``first`` is the number of the first run.
        """
        changes = self._changes(algorithm, environment)
        usual = settings_for(algorithm, environment, changes)
        chosen = settings_for(algorithm, environment, {**changes, **settings})
        kept = None
        if algorithm not in POPULATIONS:
            kept = int(toml("scales")[self.scale]["checkpoints"])
            if checkpoints is not None and chosen != usual:
                kept = checkpoints
        if "backend" in chosen:
            chosen["backend"] = choose_backend(self.backend, Environment(environment))
        # PPO and A2C begin with the same networks if they begin with the same seed.
        offset = {"ppo": 0, "a2c": 1_000}.get(algorithm, 0)
        seed = self.seed * 10_000 + offset + first
        return Training(name or algorithm, environment, algorithm, runs, kept, seed, chosen)

    def _changes(self, algorithm: str, environment: str) -> dict[str, Any]:
        table = toml("scales")[self.scale].get(algorithm, {})
        return {**table.get("general", {}), **table.get(environment, {})}

    def changed(self, algorithm: str, environment: str) -> dict[str, list[Any]]:
        """Settings of training that differ from the paper's at this scale: ours and the paper's."""
        published = settings_for(algorithm, environment)
        changes = self._changes(algorithm, environment).items()
        return {key: [ours, published[key]] for key, ours in changes if ours != published[key]}

    def train(self, trainings: Sequence[Training]) -> None:
        """Train what is not trained yet, on the engine that was chosen."""
        todo = {}
        for training in trainings:
            if self.is_trained(training):
                continue
            folders = [self.run_folder(training, n).absolute() for n in range(training.runs)]
            what = (training.environment, training.algorithm, folders)
            how: Any = {"seed": training.seed, "settings": training.settings}
            for run in plan_runs(*what, checkpoints=training.kept, **how):
                if run.finished() is None:
                    todo[run.path] = run, f"{training.environment} {training.name}"
        runs = [run for run, _ in todo.values()]
        with Progress("train", len(runs), unit="runs", show=self.progress) as bar:
            for run, _ in finish_runs(runs):
                bar.advance(1, todo[run.path][1])

    def is_trained(self, training: Training) -> bool:
        """Tell whether all runs are finished."""
        folders = [self.run_folder(training, number) for number in range(training.runs)]
        return all(_read_run(folder).get("result") is not None for folder in folders)

    def run_folder(self, training: Training, number: int) -> Path:
        """Name the folder in which a run keeps its policies."""
        folder = self.cache / "policies" / training.key / f"run-{number}"
        return folder / f"{training.algorithm}-0"

    def policies(
        self,
        training: Training,
        count: int | None = None,
        runs: Sequence[int] | None = None,
    ) -> list[NamedPolicy]:
        """Load the policies of all runs or some, in order, ``count`` of each spread evenly."""
        self.train([training])
        policies = []
        for number in range(training.runs) if runs is None else runs:
            group = f"{training.name}-{number}"
            all_of_run = load_policies(self.run_folder(training, number).parent)
            for policy in saved(training, all_of_run, count):
                own = policy.info.label.rpartition(f"{training.algorithm}-0/")[2]
                label = f"{group}/{own}"
                # A sample of its own, also where runs begin with equal networks.
                sample = fingerprint_of(f"{label} {policy.info.fingerprint}")
                info = replace(policy.info, label=label, group=group, fingerprint=sample)
                policies.append(replace(policy, info=info))
        return policies

    def provenance(self, needs: Sequence[Any]) -> list[dict[str, Any]]:
        """Tell how and where the trainings among the needs of a recipe were trained."""
        entries = []
        for training in {need.key: need for need in needs if isinstance(need, Training)}.values():
            runs = [_read_run(self.run_folder(training, number)) for number in range(training.runs)]
            names = "name", "environment", "algorithm", "runs"
            entry: dict[str, Any] = {name: getattr(training, name) for name in names}
            entry |= {"settings": dict(training.settings)}
            entry["seconds"] = [run.get("seconds") for run in runs]
            for name, key in (("processors", "processor"), ("versions", "versions")):
                found = [run.get(key) for run in runs]
                entry[name] = [item for i, item in enumerate(found) if item not in found[:i]]
            entries.append(entry)
        return entries

    def collect(self, collection: Collection) -> VisitedStates:
        """Let the policies act, or open the store in which their states are."""
        self.train(collection.trainings)
        folder = self.store_folder(collection)
        if not self.is_collected(collection):
            policies = [
                policy
                for training in collection.trainings
                for policy in self.policies(training, collection.policies, collection.runs)
            ]
            amounts = collection.episodes, collection.seed
            kept: Any = {"store": folder, "progress": self.progress}
            self.play(collection.environment, policies, *amounts, **kept)
            with atomic_write(folder / "complete", "w") as file:
                file.write(f"{len(policies)} policies\n")
        return Store(folder).load(verify=False)

    def play(self, *arguments: Any, **options: Any) -> VisitedStates:
        """Let policies act, with the arguments of `pivec.collect`."""
        return collect(*arguments, backend=self.backend, **options)

    def store_folder(self, collection: Collection) -> Path:
        """Name the folder of the states."""
        return self.cache / "states" / collection.key

    def is_collected(self, collection: Collection) -> bool:
        """Tell whether the states are all there, without loading policies."""
        return (self.store_folder(collection) / "complete").exists()

    def computed(
        self, name: str, inputs: Mapping[str, Any], make: Callable[[], Mapping[str, Any]]
    ) -> Arrays:
        """Return what ``make`` gives, arrays by name, or what it gave for the same inputs before.

        ``inputs`` must name everything that decides the result, as JSON holds it: keys of
        collections, counts, parameters, seeds.
        """
        file = self._result_file(name, inputs)
        if not file.exists():
            write_arrays(file, {key: np.asarray(value) for key, value in make().items()})
        return read_arrays(file)

    def is_computed(self, name: str, inputs: Mapping[str, Any]) -> bool:
        """Tell whether `computed` would give what it gave before."""
        return self._result_file(name, inputs).exists()

    def computed_all(
        self, name: str, inputs: Sequence[Mapping[str, Any]], work: Work, title: str
    ) -> list[Arrays]:
        """Return what ``work`` gives for each of the inputs; what is missing side by side."""
        files = [self._result_file(name, given) for given in inputs]
        by_file = dict(zip(files, inputs, strict=True))
        todo = [given for file, given in by_file.items() if not file.exists()]
        with Progress(title, len(todo), unit="runs", show=self.progress) as bar:
            for reply in current().map(work, todo, name=lambda _: title):
                if reply.failure is not None:
                    raise reply.failure
                made = {key: np.asarray(value) for key, value in reply.content.items()}
                write_arrays(self._result_file(name, reply.item), made)
                bar.advance(1)
        return [read_arrays(file) for file in files]

    def finish(self, stage: str) -> None:
        """Note that all results of a stage, named by a digest of what decides it, are there."""
        make_folder(self.cache / "finished")
        with atomic_write(self.cache / "finished" / stage, "w"):
            pass

    def is_finished(self, stage: str) -> bool:
        """Tell whether a stage was noted to be whole."""
        return (self.cache / "finished" / stage).exists()

    def _result_file(self, name: str, inputs: Mapping[str, Any]) -> Path:
        return self.cache / "results" / f"{name}-{digest_of(dict(inputs))}.npz"


def _read_run(run: Path) -> dict[str, Any]:
    """Read run.json of a run; empty if there is none."""
    try:
        content = json.loads((run / RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
