"""The workshop: stages that recipes share, each kept under the hash of all that decides it.

policies/   runs of training, one folder for each `Training`
states/     a store for each `Collection`
results/    what was computed, one file for each set of inputs

A stage that is there already is not repeated, so a recipe that was stopped goes on, and recipes
that need the same policies or states share them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.atomic import atomic_write
from pivec.collection import collect
from pivec.errors import PivecError
from pivec.paper.scales import check_scale, kept_checkpoints, scaled_settings
from pivec.policies import load_policies
from pivec.policies.policy import NamedPolicy, fingerprint_of
from pivec.progress import Progress
from pivec.rollouts.backends import choose_backend
from pivec.rollouts.environment import Environment
from pivec.states import Store, VisitedStates
from pivec.training import TrainedRun, settings_for, train
from pivec.training.settings import POPULATIONS

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Training:
    """Runs of one algorithm in one environment with the same settings.

    Attributes
    ----------
    name : str
        What the recipe calls it: ``ppo``, ``clip 0.1``; the first part of the policies' groups.
    environment, algorithm : str
    runs : int
        Run i has the seed ``seed`` + i, so that more runs add to fewer.
    checkpoints : int or None
        Policies kept of a run; None for populations, which keep every tenth generation.
    seed : int
    settings : mapping
        All settings, the scale's included.
    """

    name: str
    environment: str
    algorithm: str
    runs: int
    checkpoints: int | None
    seed: int
    settings: Mapping[str, Any] = field(hash=False)

    @cached_property
    def key(self) -> str:
        """A name that says what it is, with a digest of all that decides the policies."""
        decides = [self.environment, self.algorithm, self.checkpoints, self.seed]
        digest = digest_of([*decides, dict(self.settings)])
        return f"{self.environment}-{self.algorithm}-{digest}"

    @property
    def steps(self) -> int:
        """Environment steps of all runs; 0 for populations, whose episodes decide it."""
        return int(self.settings["steps"]) * self.runs


@dataclass(frozen=True)
class Collection:
    """States that policies of some trainings visit.

    Attributes
    ----------
    trainings : tuple of Training
        All in one environment.
    episodes : int
        Of each policy.
    policies : int or None
        So many of each run, spread evenly from the first to the last; None takes all.
    seed : int
    kept : bool
        Whether the states stay on disk; if not, `described` plays them a few policies at a time.
    runs : tuple of int or None
        Only these runs of each training; None takes all.
    """

    trainings: tuple[Training, ...]
    episodes: int
    policies: int | None = None
    seed: int = 0
    kept: bool = True
    runs: tuple[int, ...] | None = None

    @property
    def environment(self) -> str:
        """Where they act."""
        return self.trainings[0].environment

    @cached_property
    def key(self) -> str:
        """A name that says what it is, with a digest of all that decides the states."""
        who = [[each.name, each.key, each.runs] for each in self.trainings]
        decides = [who, self.episodes, self.policies, self.seed]
        digest = digest_of(decides if self.runs is None else [*decides, self.runs])
        return f"{self.environment}-{digest}"


class Workshop:
    """Trains, collects and computes, and keeps what it made in a folder.

    Parameters
    ----------
    cache : path
    scale : {"smoke", "small", "paper"}
    jobs : int
        Processes side by side; a matter of speed only.
    seed : int
        Everything random follows from it.
    backend : str
        What steps the environments, as `pivec.collect` takes it.
    progress : bool
        Draw progress bars.
    """

    def __init__(
        self,
        cache: str | Path,
        scale: str,
        *,
        jobs: int = 1,
        seed: int = 0,
        backend: str = "auto",
        progress: bool = False,
    ) -> None:
        self.cache, self.scale = Path(cache), check_scale(scale)
        self.jobs, self.seed, self.backend, self.progress = jobs, seed, backend, progress

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

        Without changes, as many checkpoints are kept as any recipe asks for: recipes then share
        the runs, and take evenly spread ones of them (`Collection`). ``first`` is the number of
        the first run.
        """
        changes = {**scaled_settings(self.scale, algorithm, environment), **settings}
        chosen = settings_for(algorithm, environment, changes)
        if "backend" in chosen:
            chosen["backend"] = choose_backend(self.backend, Environment(environment))
        if algorithm in POPULATIONS:
            kept = None
        else:
            kept = checkpoints if settings and checkpoints else kept_checkpoints(self.scale)
        # PPO and A2C begin with the same networks if they begin with the same seed.
        offset = {"ppo": 0, "a2c": 1_000}.get(algorithm, 0)
        seed = self.seed * 10_000 + offset + first
        return Training(name or algorithm, environment, algorithm, runs, kept, seed, chosen)

    def train(self, trainings: Sequence[Training]) -> None:
        """Train what is not trained yet, several runs side by side."""
        todo = [one for one in trainings if not self.is_trained(one)]
        if not todo:
            return
        total = sum(one.runs for one in todo)
        runs = [(one, number) for one in todo for number in range(one.runs)]
        with (
            ThreadPoolExecutor(self.jobs) as pool,
            Progress("train", total, unit="runs", show=self.progress) as bar,
        ):
            futures = {pool.submit(self._train_one, *each): each[0] for each in runs}
            try:
                for future in as_completed(futures):
                    future.result()
                    bar.advance(1, f"{futures[future].environment} {futures[future].name}")
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _train_one(self, training: Training, number: int) -> TrainedRun:
        return train(
            training.environment,
            training.algorithm,
            self.run_folder(training, number),
            checkpoints=training.checkpoints,
            seed=training.seed + number,
            settings=dict(training.settings),
        )[0]

    def is_trained(self, training: Training) -> bool:
        """Tell whether all runs are finished."""
        return all(self._finished(training, number) for number in range(training.runs))

    def _finished(self, training: Training, number: int) -> bool:
        file = self.run_folder(training, number) / f"{training.algorithm}-0" / "run.json"
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return isinstance(content, dict) and content.get("result") is not None

    def run_folder(self, training: Training, number: int) -> Path:
        """Name the folder of a run."""
        return self.cache / "policies" / training.key / f"run-{number}"

    def policies(
        self,
        training: Training,
        count: int | None = None,
        runs: Sequence[int] | None = None,
    ) -> list[NamedPolicy]:
        """Load the policies of all runs or some, in order, ``count`` of each spread evenly.

        Their groups are ``name-0``, ``name-1``, ... and their labels begin with these.
        """
        self.train([training])
        found = []
        for number in range(training.runs) if runs is None else runs:
            group = f"{training.name}-{number}"
            all_of_run = load_policies(self.run_folder(training, number))
            for one in spread_evenly(all_of_run, count):
                own = one.info.label.rpartition(f"{training.algorithm}-0/")[2]
                label = f"{group}/{own}"
                # A sample of its own, also where runs begin with equal networks.
                sample = fingerprint_of(f"{label} {one.info.fingerprint}")
                info = replace(one.info, label=label, group=group, fingerprint=sample)
                found.append(replace(one, info=info))
        return found

    def collect(self, collection: Collection) -> VisitedStates:
        """Let the policies act, or open the store in which their states are."""
        self.train(collection.trainings)
        folder = self.store_folder(collection)
        done = folder / "complete"  # so that opening it again need not load policies
        if not done.exists():
            policies = [
                policy
                for training in collection.trainings
                for policy in self.policies(training, collection.policies, collection.runs)
            ]
            collect(
                collection.environment,
                policies,
                collection.episodes,
                collection.seed,
                store=folder,
                backend=self.backend,
                jobs=self.jobs,
                progress=self.progress,
            )
            with atomic_write(done, "w") as file:
                file.write(f"{len(policies)} policies\n")
        return Store(folder).load(verify=False)

    def store_folder(self, collection: Collection) -> Path:
        """Name the folder of the states."""
        return self.cache / "states" / collection.key

    def is_collected(self, collection: Collection) -> bool:
        """Tell whether the states are all there."""
        return (self.store_folder(collection) / "complete").exists()

    def computed(
        self, name: str, inputs: Mapping[str, Any], make: Callable[[], Mapping[str, Any]]
    ) -> Arrays:
        """Return what ``make`` gives, arrays by name, or what it gave for the same inputs before.

        ``inputs`` must name everything that decides the result, as JSON holds it: keys of
        collections, counts, parameters, seeds.
        """
        file = self.cache / "results" / f"{name}-{digest_of(dict(inputs))}.npz"
        if file.exists():
            try:
                with np.load(file, allow_pickle=False) as stored:
                    return dict(stored)
            except (OSError, ValueError, KeyError) as error:
                raise PivecError(
                    f"{file} cannot be read ({error}): remove it to compute it anew"
                ) from error
        result = {key: np.asarray(value) for key, value in make().items()}
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as stream:
            np.savez_compressed(stream, **result)  # type: ignore[arg-type]
        return result


def spread_evenly(items: Sequence[Any], count: int | None) -> list[Any]:
    """Take ``count`` of the items, spread evenly from the first to the last.

    Examples
    --------
    >>> spread_evenly("abcdefghi", 3)
    ['a', 'e', 'i']
    >>> spread_evenly("abc", 5)
    ['a', 'b', 'c']
    """
    if count is None or count >= len(items):
        return list(items)
    if count == 1:
        return [items[-1]]
    places = np.linspace(0, len(items) - 1, count).round().astype(int)
    return [items[place] for place in places.tolist()]


def digest_of(content: Any) -> str:
    """Return twelve hexadecimal digits that follow from the content, as JSON holds it.

    Examples
    --------
    >>> digest_of({"b": 1, "a": 2}) == digest_of({"a": 2, "b": 1})
    True
    """
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
