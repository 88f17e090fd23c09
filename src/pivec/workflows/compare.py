"""compare: collect states, describe policies, measure distances, draw the map, write the report.

All results of a comparison are in one folder:

states/        the store
space/         the fitted characterization and the descriptions
distances.csv  distances.png  pairs.csv  map.csv  map.png  report.html  run.json

For more than 1000 policies distances.npz replaces distances.csv.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import (
    Characterization,
    Measured,
    Space,
    background_share,
    characterization,
    space_beside,
)
from pivec.errors import PivecWarning, UsageError
from pivec.explanations import coverage_radius, warn_uncovered
from pivec.files import check_folder, make_folder
from pivec.options import (
    CollectOptions,
    CompareKeywords,
    DescribeOptions,
    PrecisionOptions,
    split_options,
    takes_options,
)
from pivec.parallel import on_engine
from pivec.report import (
    SPACE,
    STATES,
    Findings,
    measure_space,
    positions_of,
    write_results,
)
from pivec.run_log import RunLog
from pivec.states import (
    PolicyRecord,
    RecordedStates,
    Store,
    VisitedStates,
    content_digest,
    is_recorded,
    split_recorded,
    warn_of_constants,
)
from pivec.statistics import Intervals, noise_left
from pivec.terminal import say
from pivec.workflows.collect import Collector
from pivec.workflows.comparison import Comparison
from pivec.workflows.inputs import find_store

Array = NDArray[np.float64]
_MAX_INFLUENCES = 1 << 30  # bytes of influences that a space may hold
_GROWTH = 1.1, 2.0  # by what factor a policy's episodes may grow in a round


@on_engine
@takes_options(CollectOptions, DescribeOptions, PrecisionOptions)
def compare(
    env: Any,
    policies: Any = None,
    out: str | Path = "pivec-out",
    *,
    episodes: int = 100,
    seed: int = 0,
    progress: bool = False,
    command: str = "",
    **options: Unpack[CompareKeywords],
) -> Comparison:
    """Collect states, describe the policies, measure distances, draw the map, write the report.

    Called again with the same arguments it resumes: episodes that are stored in ``out/states`` are
    not played again.

    Parameters
    ----------
    env, policies, episodes, seed
        As for `pivec.collect`. Data are given alone, without an environment: ``compare(data)`` of
        `VisitedStates`, a pandas or polars frame with one row per state, a dict from labels to
        lists of episodes (arrays of states), or the path of a store, a table or ``minari:NAME``.
    out : path
        The folder for all results.
    progress : bool
        Show progress bars.
    command : str
        Stored in run.json.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> walks = {who: [rng.normal(p, 1, (20, 2)) for _ in range(9)] for p, who in enumerate("abc")}
    >>> result = compare(walks, out=tempfile.mkdtemp(), components=4)
    >>> bool(result.distances[0, 1] < result.distances[0, 2])
    True
    """
    if policies is None:
        env, policies = None, env
    collecting, describing, precision = split_options(
        {"episodes": episodes, "seed": seed} | options,
        CollectOptions,
        DescribeOptions,
        PrecisionOptions,
    )
    log = RunLog(check_folder(out), command)
    check_precision(precision, collecting)
    method, earlier = start(describing, seed, progress)
    collecting = with_needs(collecting, method)
    with log.stage("collect"):
        collector = _collector(env, policies, collecting, log.folder / STATES, progress)
        log.settings |= collector.settings
        if collector.acting:
            log.settings["episodes"] = episodes
        data, stopped = collect_until(collector, method, precision, earlier is not None, progress)
    space = describe(data, log, method, earlier, collector.settings, stopped)
    measured = measure(space, log, data)
    space = lay_out(space, log, seed, measured)
    findings = write_report(space, log, measured)
    return Comparison(log.folder, space, findings)


def _collector(
    env: Any, policies: Any, options: CollectOptions, folder: Path, progress: bool
) -> Collector | RecordedStates | StoredStates:
    """Choose where states come from: a store, other recorded states, or running policies."""
    if env is None:
        source = policies[0] if isinstance(policies, list) and len(policies) == 1 else policies
        most = options.max_states_per_policy
        if most is None and is_recorded(source) and (store := find_store(source)) is not None:
            return StoredStates(store, folder)
        acting, recorded = split_recorded(policies)
        if recorded and isinstance(acting, list | dict) and not acting:
            return RecordedStates(recorded, folder, max_states_per_policy=most)
    return Collector(env, policies, options, folder, progress)


class StoredStates:
    """The states of a store, copied to another unless it is the same; has what a Collector has."""

    acting: tuple[str, ...] = ()

    def __init__(self, source: Store, folder: Path) -> None:
        self._source, self._folder, self.settings = source, folder, source.settings

    def run(self) -> VisitedStates:
        """Copy what is missing and return the states."""
        data = self._source.load()
        if Path(self._source.path).resolve() == self._folder.resolve():
            return data
        kept = Store(self._folder, self.settings, data.feature_names)
        with kept.writing():
            for record in data.records:
                label = record.info.label
                if label not in kept or _digest(kept[label].records[0]) != _digest(record):
                    kept.add(record)
            kept.reorder(data.labels)
        return kept.load(data.labels)


def _digest(record: PolicyRecord) -> str:
    return content_digest(record.episodes, *record.read_arrays())


def start(
    options: DescribeOptions, seed: int, progress: bool = False
) -> tuple[Characterization, Space | None]:
    """Make the characterization, or take that of an earlier space, which is returned too."""
    if options.space is not None:
        earlier = Space.load(options.space)
        return earlier.method, earlier
    given = dict(options.parameters or {})
    if options.components is not None:
        given["n_components"] = options.components
    if options.backgrounds is not None:
        given["backgrounds"] = options.backgrounds
    method = characterization(options.method, **given)
    known = method.get_params()
    defaults = {"random_state": seed, "progress": progress}
    method.set_params(**{k: v for k, v in defaults.items() if k in known and k not in given})
    return method, None


def with_needs(options: CollectOptions, method: Characterization) -> CollectOptions:
    """Keep what the characterization needs beside states."""
    return replace(
        options,
        actions=options.actions or "actions" in method.traits.needs,
        keep_policies=options.keep_policies or "policies" in method.traits.needs,
    )


def describe(
    data: VisitedStates,
    log: RunLog,
    method: Characterization,
    earlier: Space | None,
    collected: Mapping[str, Any],
    stopped: str | None = None,
) -> Space:
    """Fit the characterization unless ``earlier`` has it fitted, and describe the policies.

    ``stopped`` tells how `collect_until` ended, which has fitted it too.
    """
    with log.stage("describe"):
        warn_of_constants(data)
        if earlier is not None:
            check_same_environment(earlier, collected)
        elif stopped is None:
            method.fit(data)
        share = background_share(method, data) if earlier is None else None
        influences = _keeps_influences(method, data)
        if earlier is not None and "influences" not in earlier.descriptions.arrays:
            influences = False  # of some policies alone they could not be kept
        described = method.describe(data, influences=influences)
        if earlier is None:
            result = Space(
                method, described, collected=collected, reach=coverage_radius(method, data)
            )
        else:
            warn_uncovered(earlier, data)
            result = space_beside(earlier, described)
        log.settings |= {"method": method.name, "parameters": method.get_params()}
        log.settings["precision"] = stopped
        log.settings["background"] = share
    return result


def _keeps_influences(method: Characterization, data: VisitedStates) -> bool:
    """Tell whether to keep how each episode moves its policy: intervals then need no states."""
    if not method.traits.influences:
        return False
    width = len(method.describe(data.select([0]), influences=True).arrays["influences"][0])
    return data.n_episodes * width * 4 <= _MAX_INFLUENCES


def measure(space: Space, log: RunLog, data: VisitedStates | None = None) -> Measured:
    """Measure all distances, with the states ``data`` or those in the folder where needed."""
    with log.stage("distances"):
        return measure_space(space, log.folder, data)


def lay_out(space: Space, log: RunLog, seed: int = 0, measured: Measured | None = None) -> Space:
    """Compute the positions of the policies on the map, and write ``space/``."""
    with log.stage("map"):
        if measured is None and space.descriptions.points is None:
            measured = measure_space(space, log.folder)
        positions, log.settings["map"] = positions_of(space, seed, measured)
        result = replace(space, positions=positions)
        result.save(make_folder(log.folder) / SPACE)
    return result


def write_report(space: Space, log: RunLog, measured: Measured) -> Findings:
    """Compute what is shown, and write all files of a comparison."""
    with log.stage("report"):
        findings = Findings.of(space, measured, log)
        write_results(log.folder, findings)
    return findings


def check_same_environment(earlier: Space, collected: Mapping[str, Any]) -> None:
    """Refuse to place policies in a space of another environment."""
    for key in ("environment", "arguments", "features"):
        if key in earlier.collected and earlier.collected[key] != collected.get(key):
            raise UsageError(
                f"the space was made with {key} = {earlier.collected[key]!r}, but these states "
                f"have {collected.get(key)!r}: policies can only be placed in a space of the same "
                "environment"
            )


# Sampling until distances are precise: compare(..., until=).
#
# The first episodes of every policy, the same number for each, fit the space, which then stays
# fixed. Each round plays as many episodes as the variances of the intervals that are still too wide
# suggest, at most twice as many as there are. All of it follows from the first episodes of each
# policy, so an interrupted command resumes to the same numbers. The rule stops on precision, as a
# fixed-width interval does (Chow and Robbins 1965), and never on whether a distance differs from 0.


class Precision(NamedTuple):
    """The half widths of the intervals, (n, n), and which pairs have to become narrow."""

    reach: Array  # the larger of both sides, before 0 cuts the lower one; NaN for single episodes
    counts: NDArray[np.bool_]
    until: float

    @property
    def is_wide(self) -> NDArray[np.bool_]:
        """Pairs that count and are not known to be narrow."""
        return self.counts & ~(self.reach <= self.until)


def check_precision(options: PrecisionOptions, collecting: CollectOptions) -> None:
    """Refuse options that cannot be combined with ``until``."""
    if options.until is None:
        return
    if collecting.episodes < 2:
        raise UsageError(
            "until needs at least 2 episodes per policy to start with, but episodes is 1"
        )
    if options.at_most < collecting.episodes:
        raise UsageError(
            f"at_most is {options.at_most}, but every policy starts with {collecting.episodes} "
            "episodes: lower episodes, or raise at_most"
        )
    if collecting.max_states_per_policy is not None:
        raise UsageError(
            "until cannot be combined with max_states_per_policy: more episodes would change how "
            "states are thinned, and so the distances"
        )


def collect_until(
    collector: Collector | RecordedStates | StoredStates,
    method: Characterization,
    options: PrecisionOptions,
    fitted: bool = False,
    progress: bool = False,
) -> tuple[VisitedStates, str | None]:
    """Collect until the intervals are narrow; return all states, and a sentence about it.

    The characterization is fitted on the first episodes, unless it is already. Without
    ``options.until`` states are collected once.
    """
    if options.until is None:
        return collector.run(), None
    if not collector.acting:
        raise UsageError(
            "until needs policies that can be run, but these states were recorded: omit --until; "
            "pairs.csv has the intervals"
        )
    collector = cast(Collector, collector)
    acting = set(collector.acting)
    episodes = dict.fromkeys(collector.acting, collector.options.episodes)
    data = collector.run(episodes)
    if not fitted:
        method.fit(data)
    can_act = np.array([label in acting for label in data.labels])
    rounds = 0
    while True:
        sure = method.intervals(data)
        precision = precision_of(sure, options)
        played = np.diff(data.policy_starts)
        most = np.where(can_act, options.at_most, played)
        wanted = next_episodes(sure, precision, played, most, squared=method.traits.squared)
        more = wanted - played
        if not more.any():
            break
        rounds += 1
        if progress:
            growing = more[more > 0]
            say(
                f"round {rounds}: {len(growing)} of {can_act.sum()} policies "
                f"need{'s' * (len(growing) == 1)} {_span(growing)} more episodes",
                error=True,
            )
        episodes |= {data.labels[i]: int(wanted[i]) for i in np.flatnonzero(more)}
        data = collector.run(episodes)
    _warn_of_wide(sure, precision, data, options.at_most)
    pairs = int(precision.counts.sum()) // 2
    narrow = pairs - int(precision.is_wide.sum()) // 2
    result = (
        f"{narrow} of {pairs} pairs are known to within ±{precision.until:g}, after {rounds} "
        f"round{'s' * (rounds != 1)} and {_span(played[can_act])} episodes per policy"
    )
    if progress:
        say(result, error=True)
    return data, (
        f"{result}; sampling stopped on precision, not on significance: intervals and p-values are "
        "nearly as good as those of a fixed number of episodes"
    )


def precision_of(sure: Intervals, options: PrecisionOptions) -> Precision:
    """Find how wide intervals are, of all pairs, or of each policy and its nearest other."""
    reach = np.maximum(sure.high - sure.distance, sure.distance - sure.low)
    counts = ~np.eye(len(reach), dtype=bool)
    if options.until_pairs == "nearest" and len(reach) > 1:
        nearest = np.where(counts, sure.distance, np.inf).argmin(axis=1)
        counts[:] = False
        counts[np.arange(len(reach)), nearest] = True
        counts |= counts.T
    return Precision(reach, counts, float(options.until or 0.0))


def next_episodes(
    sure: Intervals,
    precision: Precision,
    played: NDArray[np.int64],
    most: NDArray[np.int64],
    *,
    squared: bool = True,
) -> NDArray[np.int64]:
    """How many episodes each policy is to have next, (n,), of those it has ``played``.

    With a share x of the noise left, the variance of a pair is first·x + second·x² (see
    `pivec.statistics.equivalence`). Of a pair that is too wide the one who adds most of the noise
    plays, and both where neither adds twice of what the other does; the other one alone where one
    has played its ``most``, as far as that can suffice.
    """
    noise = noise_of_policies(sure.noise if squared else sure.noise**2)
    left = _noise_left(sure, precision)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = noise[:, None] / (noise[:, None] + noise)  # of the noise of a pair, of its row
        can_play = played < most
        suffices = share.T + share * (played / most)[:, None] <= left
        plays = precision.is_wide & can_play[:, None]
        plays &= np.where(can_play, 2.0 * noise[:, None] >= noise, suffices)
        alone = np.where(left > share.T, (left - share.T) / share, 0.0)
        growth = np.clip(1.0 / np.where(plays.T, left, alone), *_GROWTH)
    wanted = np.where(plays, growth, 0.0).max(axis=1, initial=0.0) * played
    return np.minimum(np.maximum(_rounded_up(wanted), played), most)


def _noise_left(sure: Intervals, precision: Precision) -> Array:
    """The share of its noise with which a pair is as narrow as asked."""
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = np.sqrt(sure.first + sure.second) * precision.until / precision.reach
    return noise_left(sure.first, sure.second, deviation)


def noise_of_policies(noise: Array) -> Array:
    """What each policy adds to the squared distances; pairs have the sums of two, off the diagonal.

    With n policies the sum of a row is (n − 2) times its own and that of all once. Two policies
    alone are given half each, and where nothing is known there is NaN.
    """
    own = np.full(len(noise), np.nan)
    known = np.flatnonzero(~np.isnan(noise).all(axis=1, where=~np.eye(len(noise), dtype=bool)))
    n = len(known)
    if n < 2:
        return own
    sums = noise[np.ix_(known, known)].sum(axis=1)
    total = sums.sum() / (2 * (n - 1))
    own[known] = sums / 2 if n == 2 else np.maximum((sums - total) / (n - 2), 0.0)
    return own


def _rounded_up(numbers: Array) -> NDArray[np.int64]:
    """Round up to two digits: 137 to 140, so that plans do not hang on the last bits of sums."""
    digits = np.floor(np.log10(np.maximum(numbers, 1.0))) - 1
    unit = 10.0 ** np.maximum(digits, 0.0)
    return np.asarray(np.ceil(numbers / unit - 1e-9) * unit, dtype=np.int64)


def _span(numbers: NDArray[np.int64]) -> str:
    least, most = int(numbers.min(initial=10**9)), int(numbers.max(initial=0))
    return f"{most}" if least >= most else f"{least} to {most}"


def _warn_of_wide(sure: Intervals, precision: Precision, data: VisitedStates, at_most: int) -> None:
    wide = np.triu(precision.is_wide)
    if not wide.any():
        return
    worst = np.where(wide, np.nan_to_num(precision.reach, nan=np.inf), -np.inf)
    i, j = np.unravel_index(int(worst.argmax()), worst.shape)
    played = int(np.diff(data.policy_starts)[[i, j]].max())
    known = "without an interval"
    if np.isfinite(worst[i, j]):
        needed = _rounded_up(np.atleast_1d(played / _noise_left(sure, precision)[i, j]))[0]
        known = f"to within ±{worst[i, j]:.2g} and need about {needed:,} episodes each"
    warnings.warn(
        f"{int(wide.sum())} of {int(precision.counts.sum()) // 2} intervals are still wider than "
        f"±{precision.until:g} after {at_most} episodes per policy: {data.labels[i]!r} and "
        f"{data.labels[j]!r} are known {known}; raise --at-most or --until",
        PivecWarning,
        stacklevel=3,
    )
