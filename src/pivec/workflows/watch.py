"""watch: new checkpoints are collected and placed while training runs; the results grow.

In each round the states of new policies go into ``states/`` and their descriptions into ``space/``,
each file atomically, so an interrupted command resumes: policies in the store that are not in the
space are described. The space stays as it was fitted, so no number depends on when, or in which
order, checkpoints appeared. All distances, figures and the page take time that grows with the
square of the number of policies: they are written at most a fifth of the time, and at the end.
"""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from pivec.characterizations import Characterization, Space, grown_space
from pivec.errors import (
    BadData,
    BadPolicyFile,
    EnvironmentFailure,
    PivecError,
    PivecWarning,
    UsageError,
)
from pivec.explanations import policy_coverage
from pivec.files import check_folder, locked, make_folder
from pivec.options import (
    CollectOptions,
    DescribeOptions,
    WatchKeywords,
    WatchOptions,
    split_options,
    takes_options,
)
from pivec.parallel import on_engine
from pivec.policies import CheckpointWatcher, NamedPolicy, PolicyInfo, named_together, natural_key
from pivec.report import SPACE, STATES, positions_of
from pivec.rollouts import close, environment_of
from pivec.run_log import RunLog
from pivec.states import Store, VisitedStates, is_recorded
from pivec.terminal import say
from pivec.text import n_policies, percent
from pivec.workflows import compare as comparison
from pivec.workflows.collect import Collector

_OF_POLICIES = UsageError, BadPolicyFile, BadData, EnvironmentFailure
_OF_SPEED = {"progress", "n_jobs", "device"}  # parameters that numbers do not depend on
_PAUSE = 4.0  # times as long as writing all files took, before they are written again
_LOCK = ".watch"


@dataclass(frozen=True)
class Round:
    """What `watch` did when there were new checkpoints."""

    new: tuple[str, ...]  # labels of the new policies
    space: Space  # with all policies and their positions on the map, as on disk
    fitted: bool  # whether the space was fitted in this round, and not only extended
    outside: tuple[str, ...]  # new policies that visit states outside the space
    seconds: float


@on_engine
@takes_options(CollectOptions, DescribeOptions, WatchOptions)
def watch(
    env: str | Callable[[], Any] | None,
    policies: Any,
    out: str | Path = "pivec-out",
    *,
    episodes: int = 100,
    seed: int = 0,
    progress: bool = False,
    command: str = "",
    **options: Unpack[WatchKeywords],
) -> Iterator[Round]:
    """Compare checkpoints while training writes them: a generator of rounds.

    The first round is `pivec.compare` of the checkpoints that exist. Later rounds describe new
    checkpoints in the same space and place them on the same map. Called again, it resumes from
    ``out``, also from a comparison that is there.

    Parameters
    ----------
    env, episodes, seed
        As for `pivec.collect`.
    policies : str, path or sequence of these
        Files, folders and globs, which need not exist yet; ``random`` and others that
        `pivec.load_policies` takes.
    out : path
        The folder for all results.
    progress : bool
        Report what is waited for, and show progress bars.
    command : str
        Stored in run.json.

    Yields
    ------
    Round
        Whenever there are new checkpoints. All files are up to date when the generator has ended
        or is closed; until then the slow ones may be some rounds behind ``out/space``.

    Examples
    --------
    >>> import pivec, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> rounds = pivec.watch("CartPole-v1", "random:4", folder, episodes=2, components=2,
    ...                      at_least=3, until_idle=0)
    >>> for round in rounds:
    ...     print(len(round.new), round.fitted)
    4 True
    """
    collecting, describing, watching = split_options(
        {"episodes": episodes, "seed": seed} | options,
        CollectOptions,
        DescribeOptions,
        WatchOptions,
    )
    if watching.refit and describing.space is not None:
        raise UsageError("refit cannot be combined with space, which is not fitted here")
    log = RunLog(check_folder(out), command)
    watcher = _Watcher(env, policies, log, collecting, describing, watching, progress)
    if env is not None:  # before anything is waited for
        environment = environment_of(env, [], collecting)
        watcher.check_environment(environment.name)
        close(environment.make(), environment.name)
    return watcher.rounds()


class GrowingStates:
    """The store, and the new policies that are collected into it."""

    def __init__(
        self, env: Any, policies: Any, options: CollectOptions, folder: Path, every: float
    ) -> None:
        single = isinstance(policies, str | os.PathLike) or not isinstance(policies, Iterable)
        specs = [policies] if single else list(policies)
        if not all(isinstance(spec, str | os.PathLike) for spec in specs):
            raise UsageError(
                "policies must be paths, folders or globs, which may appear and change: use "
                "`pivec.compare` for objects"
            )
        self._recorded: list[Any] = [spec for spec in specs if is_recorded(spec)]
        acting = [spec for spec in specs if not is_recorded(spec)]
        allowed = options.trust, options.without_normaliser
        self.watcher = CheckpointWatcher(acting, every, *allowed, exclude=folder.parent)
        self._env, self._options, self._folder = env, options, folder
        self._has_played = False
        self.settings: Mapping[str, Any] = {}

    @property
    def exist(self) -> bool:
        """Whether there is a store yet."""
        return Store.exists(self._folder)

    def collect(self, arrived: Sequence[NamedPolicy], progress: bool = False) -> list[PolicyInfo]:
        """Collect the states of new policies; return all that are stored, with unique names."""
        kept = Store(self._folder).policies if self.exist else []
        named = named_together([*kept, *(policy.info for policy in arrived)])
        names = {info.identity: info for info in named}
        if any(names.get(info.identity) != info for info in kept):
            store = Store(self._folder)
            with store.writing():
                store.relabel(named)
        acting = {policy.info.identity: policy for policy in arrived}
        self._play(
            [replace(acting[key], info=names[key]) for key in acting if key in names], progress
        )
        store = Store(self._folder)
        with store.writing():
            store.reorder(sorted(store.rows, key=natural_key))
        self.settings = store.settings
        return store.policies

    def load(self, infos: Sequence[PolicyInfo]) -> VisitedStates:
        """Load the states of policies, the first episodes if more are stored."""
        data = Store(self._folder).load([info.label for info in infos])
        records = [record.first(self._options.episodes) for record in data.records]
        return VisitedStates(records, data.feature_names, data.environment)

    def _play(self, policies: Sequence[NamedPolicy], progress: bool) -> None:
        """Collect states; policies that fail are set aside, unless all do."""
        if not policies and not self._recorded:
            return
        failed: list[tuple[NamedPolicy, PivecError]] = []
        try:
            self._run([*policies, *self._recorded], progress)
            return
        except _OF_POLICIES as error:
            if len(policies) < 2:
                if not self._has_played:
                    raise
                failed = [(policy, error) for policy in policies]
        for policy in policies if len(policies) > 1 else ():
            try:
                self._run([policy], progress=False)
            except _OF_POLICIES as error:
                failed.append((policy, error))
        if not self._has_played:
            raise failed[0][1]
        for policy, reason in failed:
            self.watcher.reject(policy, reason)

    def _run(self, policies: Sequence[Any], progress: bool) -> None:
        Collector(self._env, policies, self._options, self._folder, progress).run()
        self._has_played, self._recorded = True, []


def own_policies(space: Space) -> list[PolicyInfo]:
    """Return the policies of a space without those of an earlier space."""
    return list(space.descriptions.policies[: len(space.descriptions) - space.n_reference])


def known_space(
    log: RunLog, collecting: CollectOptions, method: Characterization, earlier: Space | None
) -> Space | None:
    """Load the space that the folder holds, which must be of the same command.

    Without one it is the ``earlier`` space, all of it for reference, or none.
    """
    folder = log.folder
    if not (folder / SPACE).exists():
        if earlier is None:
            return None
        if earlier.positions is None:
            raise UsageError("the space has no map to place policies on: run `pivec compare` first")
        return replace(earlier, n_reference=len(earlier.descriptions), n_placed=0)
    space = Space.load(folder)
    asked = {"method": method.name, "episodes": collecting.episodes}
    known = {"method": space.method.name, "episodes": log.settings.get("episodes")}
    if space.method.name == method.name:
        asked |= _numbers(method)
        known |= _numbers(space.method)
    for key, value in asked.items():
        if known[key] not in (value, None):
            raise UsageError(
                f"{folder} was made with {key} = {known[key]!r}, but {key} is now {value!r}: use "
                "the same, or another folder"
            )
    kept = Store(folder / STATES).rows if Store.exists(folder / STATES) else {}
    if not {row["fingerprint"] for row in kept.values()} >= {
        i.identity for i in own_policies(space)
    }:
        raise UsageError(
            f"{folder} has a space, but not the states of all its policies: use another folder, "
            "and this one as --space"
        )
    return space


def _numbers(method: Characterization) -> dict[str, Any]:
    """Return the parameters that numbers depend on, as they are read from a file."""
    parameters = json.loads(method.parameters_json())
    return {key: value for key, value in parameters.items() if key not in _OF_SPEED}


class _Watcher:
    """The state of one `watch`: new checkpoints, the space so far, and which files are due."""

    def __init__(
        self,
        env: Any,
        policies: Any,
        log: RunLog,
        collecting: CollectOptions,
        describing: DescribeOptions,
        watching: WatchOptions,
        progress: bool,
    ) -> None:
        method, earlier = comparison.start(describing, collecting.seed)
        collecting = comparison.with_needs(collecting, method)
        self._log, self._progress, self._watching = log, progress, watching
        self._describing, self._collecting = describing, collecting
        self._states = GrowingStates(env, policies, collecting, log.folder / STATES, watching.every)
        self._watcher = self._states.watcher
        self._space = known_space(log, collecting, method, earlier)
        self._goes_on = self._states.exist  # there may be news though nobody arrives
        self._is_behind = False  # whether files are older than the space
        self._written, self._cost = -math.inf, 0.0
        self._has_warned = False
        self._waiting: list[NamedPolicy] = []  # who came before there is a space
        self._said = ""

    def check_environment(self, name: str) -> None:
        """Refuse another environment than that of the space."""
        if self._space is not None:
            known = dict(self._space.collected)
            comparison.check_same_environment(self._space, known | {"environment": name})

    def rounds(self) -> Iterator[Round]:
        """Look for checkpoints, add the new ones, wait, and repeat."""
        busy = f"another `pivec watch` writes to {self._log.folder}: use another folder"
        idle, last = self._watching.until_idle, time.monotonic()
        if self._space is not None:
            self._say(f"resuming with {n_policies(len(own_policies(self._space)))}")
        with locked(make_folder(self._log.folder) / _LOCK, busy):
            try:
                while True:
                    result = self._round()
                    if result is not None:
                        yield result
                    if result is not None or self._watcher.n_incomplete:
                        last = time.monotonic()
                    elif idle is not None and time.monotonic() - last >= idle:
                        break
                    if result is None or idle != 0:
                        time.sleep(self._watching.every)
            except (GeneratorExit, KeyboardInterrupt):
                if self._is_behind:
                    self._say("writing the files of the last round (Ctrl-C again to skip)")
                self._write(always=True)
                raise
            self._write(always=True)
        if self._space is None:
            raise UsageError(
                f"expected {self._watching.at_least} or more checkpoints to fit a space, but found "
                f"{len(self._waiting) or 'none'}{self._missing()}: check the paths, or lower "
                "at_least"
            )

    def _round(self) -> Round | None:
        """Add new checkpoints, and write the files that are due."""
        start = time.perf_counter()
        arrived = self._waiting + self._watcher.poll()
        n_there = len(named_together([named.info for named in arrived]))
        if self._space is None and n_there < self._watching.at_least:
            self._waiting = arrived
            self._wait(f"{n_there} of {self._watching.at_least} checkpoints")
            return None
        result = None
        if arrived or self._goes_on:
            self._waiting, self._goes_on = [], False
            with self._log.stage("collect", goes_on=True):
                infos = self._states.collect(arrived, self._progress and self._space is None)
                if self._space is not None:
                    comparison.check_same_environment(self._space, self._states.settings)
                self._log.settings |= self._states.settings
                self._log.settings["episodes"] = self._collecting.episodes
            result = self._add(infos)
        elif self._watcher.missing:
            self._wait("no new checkpoints")
        self._write(always=result is not None and result.fitted)
        if result is None or self._space is None or not (result.new or result.fitted):
            return None
        return replace(result, space=self._space, seconds=time.perf_counter() - start)

    def _wait(self, what: str) -> None:
        """Report what is there, when it changes."""
        words = f"waiting: {what}{self._missing()}"
        if words != self._said:
            self._say(words)
        self._said = words

    def _say(self, words: str) -> None:
        if self._progress:
            say(words, error=True)

    def _missing(self) -> str:
        missing = self._watcher.missing
        return f", none in {', '.join(map(repr, missing))}" if missing else ""

    def _add(self, infos: Sequence[PolicyInfo]) -> Round | None:
        """Describe policies of the store that are not in the space, or refit it."""
        space, seed = self._space, self._collecting.seed
        known = set() if space is None else {info.identity for info in own_policies(space)}
        new = [info for info in infos if info.identity not in known]
        labels = tuple(info.label for info in new)
        if space is None or (
            self._watching.refit and len(infos) >= 2 * (len(space.descriptions) - space.n_placed)
        ):
            method, _ = comparison.start(self._describing, seed, self._progress)
            data, settings = self._states.load(infos), self._states.settings
            self._space = comparison.describe(data, self._log, method, None, settings)
            self._space.save(self._log.folder / SPACE)
            self._is_behind, self._has_warned = True, False
            return Round(labels, self._space, True, (), 0.0)
        if space.positions is None:  # the map is that of the policies it was fitted on
            space = comparison.lay_out(space, self._log, seed)
        outside: list[str] = []
        with self._log.stage("describe", goes_on=True):
            described = space.descriptions.select([])
            if new:
                data = self._states.load(new)
                outside = self._outside(space, data)
                influences = "influences" in space.descriptions.arrays
                # One by one: the last digits depend on which states are summed together.
                for row in range(len(new)):
                    described += space.method.describe(data.select([row]), influences=influences)
            grown = grown_space(space, described, infos)
            positions, _ = positions_of(grown, seed, None)
            self._space = replace(grown, positions=positions)
            if new or grown.descriptions.policies != space.descriptions.policies:
                self._space.save(self._log.folder / SPACE)
        self._is_behind = True
        return Round(labels, self._space, False, tuple(outside), 0.0)

    def _outside(self, space: Space, data: VisitedStates) -> list[str]:
        """Find policies that visit states outside the space; warn of the first."""
        rows = policy_coverage(data, space)
        notable = [row for row in rows if row.is_notable]
        if notable and not self._has_warned:
            self._has_warned = True
            first, n = notable[0], n_policies(len(space.descriptions) - space.n_placed)
            remedy = "it is refitted when there are twice as many"
            if not self._watching.refit:
                remedy = "to refit it as policies appear, run the same command with --refit"
            warnings.warn(
                f"{percent(first.share)} of the states of {first.policy!r} are outside the space, "
                f"which was fitted on {n} ({first.words}): {remedy}; "
                f"`pivec unusual {self._log.folder}` lists such policies",
                PivecWarning,
                stacklevel=2,
            )
        return [row.policy for row in notable]

    def _write(self, *, always: bool = False) -> None:
        """Write distances, figures and the page, if they are out of date and due."""
        is_due = always or time.monotonic() - self._written >= _PAUSE * self._cost
        if self._space is None or not self._is_behind or not is_due:
            return
        start, space, log = time.monotonic(), self._space, self._log
        n_fitted = len(space.descriptions) - space.n_placed
        log.settings["space"] = f"fitted on {n_policies(n_fitted)}, {space.n_placed} placed in it"
        method, data = space.method, None
        if not (method.traits.influences or method.traits.exact or method.traits.no_intervals):
            data = self._states.load(own_policies(space))
        measured = comparison.measure(space, log, data)
        self._space = comparison.lay_out(space, log, self._collecting.seed, measured)
        comparison.write_report(self._space, log, measured)
        self._is_behind, self._written = False, time.monotonic()
        self._cost = self._written - start
