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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
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
from pivec.files import atomic_write, check_folder, locked, make_folder, read_regular
from pivec.options import (
    CollectOptions,
    DescribeOptions,
    FigureOptions,
    WatchKeywords,
    WatchOptions,
    split_options,
    takes_options,
)
from pivec.parallel import on_engine
from pivec.policies import (
    CheckpointWatcher,
    NamedPolicy,
    PolicyInfo,
    named_together,
    natural_key,
    other_names,
    split_environment,
    warn_of_copies,
)
from pivec.report import SPACE, STATES, positions_of
from pivec.rollouts import close, environment_of
from pivec.run_log import RunLog
from pivec.states import Store, VisitedStates, is_recorded
from pivec.terminal import Progress, say
from pivec.text import n_policies, percent
from pivec.workflows.collector import Collector
from pivec.workflows.comparison import check_same_environment, describe, lay_out, prepare, write

_OF_POLICIES = UsageError, BadPolicyFile, BadData, EnvironmentFailure
_OF_SPEED = {"progress", "n_jobs", "device"}  # parameters that numbers do not depend on
_PAUSE = 4.0  # times as long as writing all files took, before they are written again
_LOCK, _WAITING = ".watch", "watch.json"
_FEWEST = 2  # checkpoints that are compared if no more arrive
_MOST = 10_000  # bytes of watch.json


@dataclass(frozen=True)
class Round:
    """What `watch` did when there were new checkpoints."""

    new: tuple[str, ...]  # labels of the new policies
    space: Space  # with all policies and their positions on the map, as on disk
    fitted: bool  # whether the space was fitted in this round, and not only extended
    outside: tuple[str, ...]  # new policies that visit states outside the space
    seconds: float


@dataclass(frozen=True)
class FirstCheckpoints:
    """What `watch` has found before there are results to show; `pivec serve` shows it meanwhile.

    It is stored in watch.json, which is rewritten with each look for checkpoints, and removed when
    there are results, or when watching ends.
    """

    found: int
    needed: int  # to fit the space

    @property
    def words(self) -> str:
        """Say how many there are, and what is done about it."""
        if self.found < self.needed:
            return f"{self.found} of {self.needed} checkpoints"
        return f"{self.found} checkpoints: running their episodes and comparing them"

    def save(self, folder: Path) -> None:
        """Write watch.json."""
        with atomic_write(make_folder(folder) / _WAITING, "w") as file:
            json.dump(asdict(self), file)

    @classmethod
    def load(cls, folder: Path) -> FirstCheckpoints | None:
        """Read watch.json; None if there is none, or it is damaged."""
        with suppress(OSError, ValueError, TypeError, KeyError, PivecError):
            content = json.loads(read_regular(folder / _WAITING, _MOST))
            return cls(*(min(int(content[name]), 10**9) for name in ("found", "needed")))
        return None

    @staticmethod
    def checked(folder: Path) -> float | None:
        """Return when `watch` last looked for checkpoints, in seconds since the epoch."""
        with suppress(OSError):
            return (folder / _WAITING).stat().st_mtime
        return None


@on_engine
@takes_options(CollectOptions, DescribeOptions, WatchOptions, FigureOptions)
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

    The first round runs `pivec.compare` as soon as there are ``at_least`` checkpoints, or on fewer,
    but at least two, if watching ends before (``until_idle``). Later rounds describe new
    checkpoints in the same space and place them on the same map. If called again, it resumes from
    ``out``, which may also contain an existing comparison.

    Parameters
    ----------
    env, episodes, seed
        As for `pivec.collect`.
    policies : str, path or sequence of these
        Files, folders and globs, which need not exist yet; also ``random`` and other
        specifications that `pivec.load_policies` accepts.
    out : path
        The folder for all results.
    progress : bool
        Print status messages and show progress bars.
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
    given = {"episodes": episodes, "seed": seed} | options
    *bundles, figures = split_options(
        given, CollectOptions, DescribeOptions, WatchOptions, FigureOptions
    )
    log = RunLog(check_folder(out), command)
    log.settings["figures"] = figures.format
    return _Watch(env, policies, log, progress, *bundles).rounds()


class _Watch:
    """The state of one `watch`: new checkpoints, the space so far, and which files are due."""

    def __init__(
        self,
        env: Any,
        policies: Any,
        log: RunLog,
        progress: bool,
        collecting: CollectOptions,
        describing: DescribeOptions,
        watching: WatchOptions,
    ) -> None:
        if watching.refit and describing.space is not None:
            raise UsageError("refit cannot be combined with space, which is not fitted here")
        single = isinstance(policies, str | os.PathLike) or not isinstance(policies, Iterable)
        specs = [policies] if single else list(policies)
        if not all(isinstance(spec, str | os.PathLike) for spec in specs):
            raise UsageError(
                "policies must be paths, folders or globs, which may appear and change: use "
                "`pivec.compare` for objects"
            )
        for spec in specs:
            if split_environment(spec)[1] is not None:
                raise UsageError(f"all policies run in one environment, but {spec} names its own")
        method, earlier, collecting = prepare(describing, collecting)
        self._env, self._log, self._progress = env, log, progress
        self._collecting, self._describing, self._watching = collecting, describing, watching
        self._store = log.folder / STATES
        self._recorded: list[Any] = [spec for spec in specs if is_recorded(spec, folders=False)]
        acting = [spec for spec in specs if not is_recorded(spec, folders=False)]
        allowed = collecting.trust, collecting.without_normaliser
        self._watcher = CheckpointWatcher(acting, watching.every, *allowed, exclude=log.folder)
        self._space = _known_space(log, collecting, method, earlier)
        self._resumes = Store.exists(self._store)  # there may be news though none arrives
        self._has_played = self._is_behind = self._has_warned = False
        self._written, self._cost = -math.inf, 0.0
        self._waiting: list[NamedPolicy] = []  # that arrived before there is a space
        self._said = ""
        self._bar = Progress("checkpoints", watching.at_least, show=progress)
        if env is not None:  # before anything is waited for
            environment = environment_of(env, [], collecting)
            if self._space is not None:
                known = dict(self._space.collected) | {"environment": environment.name}
                check_same_environment(self._space, known)
            close(environment.make(), environment.name)

    def rounds(self) -> Iterator[Round]:
        """Look for checkpoints, add the new ones, wait, and repeat."""
        busy = f"another `pivec watch` is writing to {self._log.folder}: use another folder"
        idle, last = self._watching.until_idle, time.monotonic()
        if self._space is not None:
            self._say(f"resuming with {n_policies(len(_own_policies(self._space)))}")
        with locked(make_folder(self._log.folder) / _LOCK, busy), ExitStack() as self._waiting_for:
            self._waiting_for.callback(self._remove_status)
            try:
                while True:
                    self._check_folder()
                    result = self._round(self._watching.at_least)
                    if result is not None:
                        yield result
                    if result is not None or self._watcher.n_incomplete:
                        last = time.monotonic()
                    elif idle is not None and time.monotonic() - last >= idle:
                        break
                    if result is None or idle != 0:
                        time.sleep(self._watching.every)
                # Results of fewer checkpoints than asked for are better than none.
                fewest = min(_FEWEST, self._watching.at_least)
                if self._space is None and (result := self._round(fewest)):
                    yield result
            except (GeneratorExit, KeyboardInterrupt) as stop:
                if self._is_behind:
                    self._say("writing the files of the last round (Ctrl-C again to skip)")
                try:
                    self._write(always=True)
                except Exception as error:
                    # Modules fail in any way after their import was interrupted.
                    if isinstance(stop, GeneratorExit) or isinstance(error, PivecError | OSError):
                        raise
                    raise stop from error
                raise
            self._write(always=True)
        if self._space is None:
            raise PivecError(
                f"expected {self._watching.at_least} checkpoints, or at least {fewest}, but found "
                f"{len(self._waiting)}{self._missing}: check the paths, or wait longer "
                "(--until-idle)"
            )

    def _check_folder(self) -> None:
        """Check that the output folder still exists; what was in it cannot be written again."""
        if not (self._log.folder / _LOCK).exists():
            raise PivecError(
                f"{self._log.folder} was removed while `pivec watch` was writing to it: run the "
                "same command to start again"
            )

    def _round(self, at_least: int) -> Round | None:
        """Add new checkpoints, of which the first round needs some, and write due files."""
        start = time.perf_counter()
        arrived = self._waiting + self._watcher.poll()
        if self._space is None and not self._are_enough(arrived, at_least):
            self._waiting = arrived
            return None
        new: tuple[str, ...] = ()
        outside: tuple[str, ...] = ()
        fitted = False
        if arrived or self._resumes:
            self._waiting, self._resumes = [], False
            infos = self._collect(arrived)
            known = {info.identity for info in _own_policies(self._space)}
            added = [info for info in infos if info.identity not in known]
            new = tuple(info.label for info in added)
            space = self._space
            fitted = space is None or (
                self._watching.refit
                and len(infos) >= 2 * (len(space.descriptions) - space.n_placed)
            )
            if space is None or fitted:
                self._fit(infos)
            else:
                outside = self._extend(space, infos, added)
            self._is_behind = True
        elif self._missing:
            self._say(f"waiting: no new checkpoints{self._missing}")
        self._write(always=fitted)
        if self._space is None or not (new or fitted):
            return None
        return Round(new, self._space, fitted, outside, time.perf_counter() - start)

    def _are_enough(self, arrived: Sequence[NamedPolicy], at_least: int) -> bool:
        """Report how many checkpoints the first round would have, and whether they suffice."""
        n, wanted = len(named_together([named.info for named in arrived])), self._watching.at_least
        first = FirstCheckpoints(n, n if n >= at_least else wanted)
        first.save(self._log.folder)
        if n >= at_least:
            self._bar.__exit__()
            self._say(first.words)
            return True
        n_copies = len({(named.info.source, named.info.label) for named in arrived}) - n
        more = (f" ({n_copies} more identical to these)" if n_copies else "") + self._missing
        if not self._said:
            self._say(f"comparing begins at {wanted} checkpoints; for fewer, use --at-least")
            self._waiting_for.enter_context(self._bar)
        self._bar.advance(n - self._bar.done, more.strip(" ,"))
        if not self._bar.is_drawn:
            self._say(first.words + more)
        return False

    def _remove_status(self) -> None:
        (self._log.folder / _WAITING).unlink(missing_ok=True)

    @property
    def _missing(self) -> str:
        missing = self._watcher.missing
        return f", none in {', '.join(map(repr, missing))}" if missing else ""

    def _say(self, words: str) -> None:
        """Report what happens, when it changes."""
        if self._progress and words != self._said:
            say(words, error=True)
        self._said = words

    def _collect(self, arrived: Sequence[NamedPolicy]) -> list[PolicyInfo]:
        """Collect the states of new policies; return all that are stored, with unique names."""
        with self._log.stage("collect", goes_on=True):
            kept = Store(self._store).policies if Store.exists(self._store) else []
            named = named_together([*kept, *(policy.info for policy in arrived)])
            names = {info.identity: info for info in named}
            if any(names.get(info.identity) != info for info in kept):
                store = Store(self._store)
                with store.writing():
                    store.relabel(named)
            _warn_of_new_copies(kept, [policy.info for policy in arrived], named)
            acting = {policy.info.identity: policy for policy in arrived}
            self._play([replace(acting[key], info=names[key]) for key in acting if key in names])
            store = Store(self._store)
            with store.writing():
                store.reorder(sorted(store.rows, key=natural_key))
            if self._space is not None:
                check_same_environment(self._space, store.settings)
            self._log.settings |= {**store.settings, "episodes": self._collecting.episodes}
        return store.policies

    def _play(self, policies: Sequence[NamedPolicy]) -> None:
        """Collect states; policies that fail are set aside, unless all do."""
        if not policies and not self._recorded:
            return
        try:
            self._run([*policies, *self._recorded], self._progress and self._space is None)
        except _OF_POLICIES as error:
            failed: list[tuple[NamedPolicy, PivecError]] = [(policy, error) for policy in policies]
            if len(policies) > 1:
                failed = []
                for policy in policies:
                    try:
                        self._run([policy])
                    except _OF_POLICIES as reason:
                        failed.append((policy, reason))
            if not self._has_played:
                raise
            for policy, cause in failed:
                self._watcher.reject(policy, cause)

    def _run(self, policies: Sequence[Any], progress: bool = False) -> None:
        Collector(self._env, policies, self._collecting, self._store, progress).run()
        self._has_played, self._recorded = True, []

    def _load(self, infos: Sequence[PolicyInfo]) -> VisitedStates:
        """Load the states of policies, the first episodes if more are stored."""
        data = Store(self._store).load([info.label for info in infos])
        records = [record.first(self._collecting.episodes) for record in data.records]
        return VisitedStates(records, data.feature_names, data.environment)

    def _fit(self, infos: Sequence[PolicyInfo]) -> None:
        """Fit a space on all policies of the store."""
        method, _, _ = prepare(self._describing, self._collecting, self._progress)
        settings = Store(self._store).settings
        self._space = describe(self._load(infos), self._log, method, None, settings)
        if len(infos) < self._watching.at_least:
            with self._log.stage("describe", goes_on=True):
                warnings.warn(
                    f"the space was fitted on {n_policies(len(infos))}, although --at-least asks "
                    f"for {self._watching.at_least}: {self._refitting}",
                    PivecWarning,
                    stacklevel=2,
                )
        self._space.save(self._log.folder / SPACE)
        self._has_warned = False

    def _extend(
        self, space: Space, infos: Sequence[PolicyInfo], new: Sequence[PolicyInfo]
    ) -> tuple[str, ...]:
        """Describe and place new policies of the store; return those outside the space."""
        if space.positions is None:  # the map is that of the policies it was fitted on
            space = lay_out(space, self._log, self._collecting.seed)
        outside: tuple[str, ...] = ()
        with self._log.stage("describe", goes_on=True):
            described = space.descriptions.select([])
            if new:
                data = self._load(new)
                outside = self._outside(space, data)
                influences = "influences" in space.descriptions.arrays
                # One by one: the last digits depend on which states are summed together.
                for row in range(len(new)):
                    described += space.method.describe(data.select([row]), influences=influences)
            grown = grown_space(space, described, infos)
            positions, _ = positions_of(grown, self._collecting.seed, None)
            self._space = replace(grown, positions=positions)
            if new or grown.descriptions.policies != space.descriptions.policies:
                self._space.save(self._log.folder / SPACE)
        return outside

    def _outside(self, space: Space, data: VisitedStates) -> tuple[str, ...]:
        """Find policies that visit states outside the space; warn of the first."""
        notable = [row for row in policy_coverage(data, space) if row.is_notable]
        if notable and not self._has_warned:
            self._has_warned = True
            first, n = notable[0], n_policies(len(space.descriptions) - space.n_placed)
            warnings.warn(
                f"{percent(first.share)} of the states of {first.policy!r} are outside the space, "
                f"which was fitted on {n} ({first.words}): {self._refitting}; "
                f"`pivec unusual {self._log.folder}` lists such policies",
                PivecWarning,
                stacklevel=2,
            )
        return tuple(row.policy for row in notable)

    @property
    def _refitting(self) -> str:
        """Say when the space will be fitted on more policies."""
        if self._watching.refit:
            return "it is refitted when there are twice as many"
        return "to refit it as policies appear, run the same command with --refit"

    def _write(self, *, always: bool = False) -> None:
        """Write distances, figures and the page, if they are out of date and due."""
        is_due = always or time.monotonic() - self._written >= _PAUSE * self._cost
        if self._space is None or not self._is_behind or not is_due:
            return
        self._check_folder()
        start, space = time.monotonic(), self._space
        n_fitted = n_policies(len(space.descriptions) - space.n_placed)
        self._log.settings["space"] = f"fitted on {n_fitted}, {space.n_placed} placed in it"
        traits, data = space.method.traits, None
        if not (traits.influences or traits.exact or traits.no_intervals):
            data = self._load(_own_policies(space))
        self._space = write(space, self._log, self._collecting.seed, data).space
        self._remove_status()
        self._is_behind, self._written = False, time.monotonic()
        self._cost = self._written - start


def _warn_of_new_copies(
    kept: Sequence[PolicyInfo], arrived: Sequence[PolicyInfo], named: Sequence[PolicyInfo]
) -> None:
    """Report the policies that were merged when the ``arrived`` ones were ``named`` with others."""
    before = {info.identity: info for info in kept}
    sources: dict[str, set[str]] = {}
    for info in arrived:
        sources.setdefault(info.identity, set()).add(info.source)
    merged, n_copies = [], 0
    for info in named:
        known = before.get(info.identity, replace(info, metadata={}))
        names = {info.label, *other_names(info)} - {known.label, *other_names(known)}
        copies = sources.get(info.identity, set()) - {known.source}
        # Copies arrive again when work resumes, and names change when runs of the same name appear.
        if names and copies:
            n_copies += min(len(names), len(copies))
            merged.append(info)
    if merged:
        are = "is" if n_copies == 1 else "are"
        warn_of_copies(
            f"{n_copies} checkpoint{'s' * (n_copies != 1)} {are} identical to others", merged
        )


def _own_policies(space: Space | None) -> list[PolicyInfo]:
    """Return the policies of a space without those of an earlier space."""
    if space is None:
        return []
    return list(space.descriptions.policies[: len(space.descriptions) - space.n_reference])


def _known_space(
    log: RunLog, collecting: CollectOptions, method: Characterization, earlier: Space | None
) -> Space | None:
    """Load the space that the folder holds, which must be of the same command.

    Without one it is the ``earlier`` space, all of it for reference, or none.
    """
    folder = log.folder
    if not Space.exists(folder / SPACE):
        if earlier is None:
            return None
        if earlier.positions is None:
            raise UsageError("the space has no map to place policies on: run `pivec compare` first")
        return replace(earlier, n_reference=len(earlier.descriptions), n_placed=0)
    space = Space.load(folder)
    asked = {"method": method.name, "episodes": collecting.episodes}
    known = {"method": space.method.name, "episodes": log.settings.get("episodes")}
    if space.method.name == method.name:
        asked |= json.loads(method.parameters_json())
        known |= json.loads(space.method.parameters_json())
    for key, value in asked.items():
        if key not in _OF_SPEED and known[key] not in (value, None):
            raise UsageError(
                f"{folder} was made with {key} = {known[key]!r}, but {key} is now {value!r}: use "
                "the same, or another folder"
            )
    kept = Store(folder / STATES).rows if Store.exists(folder / STATES) else {}
    fingerprints = {row["fingerprint"] for row in kept.values()}
    if not fingerprints >= {info.identity for info in _own_policies(space)}:
        raise UsageError(
            f"{folder} has a space, but not the states of all its policies: use another folder, "
            "and this one as --space"
        )
    return space
