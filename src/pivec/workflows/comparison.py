"""compare: collect states, describe policies, measure distances, draw the map, write the report.

All results of a comparison are in one folder:

states/        the store
space/         the fitted characterization and the descriptions
distances.csv  distances.png  pairs.csv  map.csv  map.png  report.html  run.json
kinds.csv      episodes.csv   of episodes
duplicates.csv coverage.csv   drift.csv   of recorded episodes

For more than 1000 policies distances.npz replaces distances.csv. `Comparison` is the same result
for code and notebooks.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from pivec import explanations
from pivec.characterizations import (
    MAX_LEFT_OUT,
    Characterization,
    Measured,
    Space,
    background_share,
    characterization,
    space_beside,
)
from pivec.errors import MissingExtra, PivecWarning, UsageError, did_you_mean
from pivec.files import check_folder, make_folder
from pivec.options import (
    CollectOptions,
    CompareKeywords,
    DescribeOptions,
    FigureOptions,
    PrecisionOptions,
    ReplayKeywords,
    ReplayOptions,
    split_options,
    takes_options,
)
from pivec.parallel import on_engine
from pivec.policies import Patterns, environment_names
from pivec.report import (
    SPACE,
    STATES,
    Findings,
    GroupComparison,
    compare_groups,
    heatmap_figure,
    map_figure,
    measure_space,
    positions_of,
    travel_figure,
    write_results,
)
from pivec.results import Result, Row
from pivec.run_log import RunLog
from pivec.states import (
    RecordedStates,
    Store,
    VisitedStates,
    is_recorded,
    paired,
    print_readings,
    split_recorded,
    warn_of_constants,
)
from pivec.statistics import Intervals, noise_left
from pivec.terminal import say
from pivec.text import rounded
from pivec.workflows.collector import Collector, find_store, write_store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pivec.explanations import (
        ComparisonFolder,
        Datasets,
        EpisodeKinds,
        GroupExplanation,
        PairExplanation,
        Regions,
        Replayer,
        RunExplanation,
        Unusual,
    )
    from pivec.report import EpisodeMap

Array = NDArray[np.float64]
_MAX_INFLUENCES = 5 << 28  # bytes of influences that a space may hold
_GROWTH = 1.1, 2.0  # by what factor a policy's episodes may grow in a round


@on_engine
@takes_options(CollectOptions, DescribeOptions, PrecisionOptions, FigureOptions)
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
    """Compare policies: collect states, measure distances, draw a map and write a report.

    If called again with the same arguments, it resumes: episodes that are stored in ``out/states``
    are not played again.

    Parameters
    ----------
    env, policies, episodes, seed
        As for `pivec.collect`. To compare recorded data, pass it without an environment,
        ``compare(data)``: `VisitedStates`, a pandas or polars DataFrame with one row per state, a
        dict from labels to lists of episodes (arrays of states), or the path of a store, a table
        or ``minari:NAME``.
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
    >>> rng = np.random.default_rng(0)
    >>> walks = {who: [rng.normal(p, 1, (20, 2)) for _ in range(9)] for p, who in enumerate("abc")}
    >>> result = compare(walks, out=tempfile.mkdtemp(), components=4)
    >>> bool(result.distances[0, 1] < result.distances[0, 2])
    True
    """
    if policies is None:
        env, policies = None, env
    given = {"episodes": episodes, "seed": seed} | options
    collecting, describing, precision, figures = split_options(
        given, CollectOptions, DescribeOptions, PrecisionOptions, FigureOptions
    )
    log = RunLog(check_folder(out), command)
    if precision.pair == "seed":
        collecting = replace(collecting, same_seeds=True)
    method, earlier, collecting = prepare(describing, collecting, progress)
    if precision.pair:
        check_pairing(method)
        if earlier is not None:
            raise UsageError("pair needs episodes of all policies: it cannot be used with space")
    with log.stage("collect"):
        collector = _collector(env, policies, collecting, log.folder / STATES, progress)
        log.settings |= collector.settings
        if collector.acting:
            log.settings["episodes"] = episodes
        log.settings |= {"margin": precision.margin, "figures": figures.format}
        data, stopped = collect_until(collector, method, precision, earlier is not None, progress)
        collected, strata = dict(collector.settings), None
        if precision.pair:
            data, strata = paired(data, precision.pair)
            collected["pair"] = precision.pair
            if len(data) > MAX_LEFT_OUT:
                raise UsageError(f"pair compares up to {MAX_LEFT_OUT} policies, not {len(data)}")
        named = environment_names(collector.settings.get("environment"), data.policies)
        log.settings["environment"] = named
    space = describe(data, log, method, earlier, collected, stopped, strata)
    return write(space, log, seed, data)


def load_comparison(folder: str | Path) -> Comparison:
    """Load a comparison from a folder written by `compare`; distances are computed again.

    Examples
    --------
    >>> import tempfile, pivec
    >>> rng = np.random.default_rng(0)
    >>> walks = {who: [rng.normal(p, 1, (20, 2)) for _ in range(9)] for p, who in enumerate("abc")}
    >>> result = pivec.compare(walks, out=tempfile.mkdtemp(), components=4)
    >>> again = pivec.load_comparison(result.folder)
    >>> bool((again.distances == result.distances).all()), again.labels
    (True, ('a', 'b', 'c'))
    """
    space = Space.load(folder)
    return Comparison(explanations.comparison_folder(Path(folder)), space)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """The results of `compare`, which are also saved on disk.

    In a notebook, it is displayed as a map with one row per policy; ``table()`` returns all rows.

    Attributes
    ----------
    folder : Path
        The folder with all results.
    space : Space
        The characterization, the descriptions of all policies, and their positions on the map.

    Examples
    --------
    >>> import tempfile, pivec
    >>> still = lambda observations: 0 * observations[:, 0].astype(int)
    >>> policies = {"still": still, "random": "random"}
    >>> result = pivec.compare("CartPole-v1", policies, tempfile.mkdtemp(), episodes=5,
    ...                        components=4)
    >>> result.distances.shape, result.explain("still", "random").different
    ((2, 2), True)
    >>> len(result.regions()), len(result.unusual(top=3).episodes)
    (4, 3)
    """

    folder: Path
    space: Space
    known: Findings | None = None

    @cached_property
    def findings(self) -> Findings:
        """All results that are shown, computed once."""
        if self.known is not None:
            return self.known
        measured = measure_space(self.space, self.folder)
        return Findings.of(self.space, measured, RunLog(self.folder))

    @property
    def measured(self) -> Measured:
        """Distances, nearest neighbours, pairs, and the distance along each run."""
        return self.findings.measured

    @property
    def distances(self) -> Array | None:
        """All distances, (n_policies, n_policies); None for more than 4000 policies."""
        return self.measured.matrix

    @property
    def intervals(self) -> Intervals | None:
        """Debiased distances with confidence intervals; None if the method has none."""
        return self.measured.intervals

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the policies, in the order of the rows of ``distances``."""
        return self.space.descriptions.labels

    @property
    def kinds(self) -> EpisodeKinds | None:
        """Kinds of episodes and each policy's shares of them; None without regions or states."""
        return self.findings.kinds

    @property
    def episode_map(self) -> EpisodeMap | None:
        """The map of episodes with their kinds and unusual ones, as in episodes.csv; None as above.

        Like other results, it has `table()` and `figure()`.
        """
        return self.findings.episodes

    @property
    def datasets(self) -> Datasets | None:
        """Near-duplicates, coverage and drift of recorded episodes; None if all were simulated."""
        return self.findings.datasets

    @property
    def report(self) -> Path:
        """The HTML page."""
        return self.folder / "report.html"

    @cached_property
    def stored(self) -> ComparisonFolder:
        """The space and the states of its policies, as explanations take them."""
        return explanations.ComparisonFolder.open(self.folder)

    @on_engine
    @takes_options(ReplayOptions)
    def explain(
        self,
        a: str,
        b: str,
        *,
        frames: bool = False,
        clips: int = 0,
        top: int = 6,
        level: float = 0.95,
        out: str | Path | None = None,
        progress: bool = False,
        **options: Unpack[ReplayKeywords],
    ) -> PairExplanation:
        """Decompose the distance between two policies into regions of states and features.

        Parameters
        ----------
        a, b : str
            Labels of the policies, or the ends of labels.
        frames : bool
            Draw states of both policies in the regions that differ most, by replaying episodes.
        clips : int
            Number of clips: the first where the difference is largest, the others of both policies
            from the same seeds.
        top : int
            Maximum number of regions; similar ones are merged.
        level : float
            Confidence level of the intervals.
        out : path, optional
            The folder for pictures; by default one in ``explain/``.
        progress : bool
            Show progress bars.

        Returns
        -------
        PairExplanation
        """
        difference = explanations.explain_pair(self.stored, a, b, top=top, level=level)
        if not frames and not clips:
            return difference
        folder = explanations.pair_folder(self.stored, difference) if out is None else Path(out)
        replayer = self.replayer(ReplayOptions(**options))
        return explanations.with_media(
            difference, self.stored, replayer, folder, frames, clips, progress
        )

    def explain_run(self, run: str, *, level: float = 0.95, top: int = 3) -> RunExplanation:
        """Explain what changed along a training run, from checkpoint to checkpoint."""
        return explanations.explain_run(self.stored, run, level=level, top=top)

    def explain_groups(
        self,
        groups: Patterns | Sequence[str] | None = None,
        *,
        last: int | None = None,
        level: float = 0.95,
    ) -> GroupExplanation:
        """Explain what the runs of one group have in common and those of another do not."""
        return explanations.explain_groups(self.stored, groups, last=last, level=level)

    def groups(
        self,
        groups: Patterns | None = None,
        *,
        last: int | None = None,
        seed: int = 0,
        level: float = 0.95,
        margin: float | None = None,
    ) -> GroupComparison:
        """Test whether groups of runs differ, such as ``{"ppo": "ppo-*", "a2c": "a2c-*"}``.

        By default, runs whose names differ only in the number at the end form a group.
        ``last`` uses only the last checkpoints of each run. ``margin`` is the distance at which
        behaviour counts as different in the diversity, by default that of the comparison.
        """
        margin = margin or RunLog(self.folder).settings.get("margin")
        known = None if "influences" in self.space.descriptions.arrays else self.intervals
        return compare_groups(
            self.space,
            groups,
            outcomes={outcome.name: outcome.intervals[0] for outcome in self.findings.outcomes},
            last=last,
            seed=seed,
            level=level,
            margin=margin,
            intervals=known,
        )

    @takes_options(ReplayOptions)
    def regions(
        self,
        *,
        visits: int = 3,
        frames: str | Path | None = None,
        progress: bool = False,
        **options: Unpack[ReplayKeywords],
    ) -> Regions:
        """Describe the regions of the space: in words, by shares of time, and by visited states.

        ``visits`` is the number of states per region, and ``frames`` a folder for a picture of
        each region.
        """
        return explanations.summarize_regions(
            self.stored,
            visits=visits,
            frames=frames,
            replay=ReplayOptions(**options),
            progress=progress,
        )

    @on_engine
    @takes_options(ReplayOptions)
    def unusual(
        self,
        labels: Sequence[str] | None = None,
        *,
        top: int = 10,
        clips: str | Path | None = None,
        progress: bool = False,
        **options: Unpack[ReplayKeywords],
    ) -> Unusual:
        """Rank episodes by their distance from the other episodes of their policy.

        ``labels`` are those of the policies, by default all; ``clips`` is a folder for clips of
        typical and unusual episodes.
        """
        replay = ReplayOptions(**options)
        return explanations.find_unusual(
            self.stored, labels, top=top, clips=clips, replay=replay, progress=progress
        )

    def replayer(self, options: ReplayOptions) -> Replayer:
        """Return an object that replays episodes of the comparison."""
        return explanations.Replayer(self.stored, options)

    def write_report(self) -> Path:
        """Rewrite the HTML page and the tables, including pictures made in the meantime."""
        write_results(self.folder, self.findings)
        return self.report

    def to_pandas(self) -> Any:
        """Return all distances as a pandas DataFrame, with labels for rows and columns."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtra("a DataFrame", "tables") from error
        if self.distances is None:
            raise UsageError(
                f"not all distances of {len(self.labels)} policies are kept: see measured.pairs"
            )
        return pandas.DataFrame(self.distances, index=self.labels, columns=self.labels)

    def plot_map(self, colour: str | None = None) -> Figure:
        """Draw the map of policies; `colour` is "return", "group", "step" or "behaviour"."""
        if self.space.positions is None:
            raise UsageError("the policies have no positions on a map: run `pivec compare` again")
        findings = self.findings
        return map_figure(findings.policies, findings.subtitle, colour, findings.links)

    def plot_distances(self) -> Figure:
        """Draw the matrix of distances, similar policies next to each other."""
        return heatmap_figure(self.findings)

    def plot_run(self, group: str | None = None) -> Figure:
        """Draw the distance that runs, or one of them, have covered by training step."""
        runs = [run for run in self.measured.travels if group in (None, run.group)]
        if not runs:
            known = [run.group for run in self.measured.travels]
            raise UsageError(
                f"no run is called {group!r}{did_you_mean(group, known)}: there are "
                f"{', '.join(known[:8])}"
                if group is not None and known
                else "there are no runs: no group has two policies with a training step"
            )
        colours = self.findings.policies.group_colours
        return travel_figure(runs, colours, self.findings.subtitle)

    def headline(self) -> str:
        """Return one sentence: how many policies were compared, the nearest and farthest pair."""
        parts = [f"{self.findings.subtitle}, by {self.space.method.name}"]
        for words, pairs in (
            ("nearest", self.measured.nearest),
            ("farthest", self.measured.farthest),
        ):
            if len(pairs.i):
                a, b = self.labels[pairs.i[0]], self.labels[pairs.j[0]]
                parts.append(f"{words} {a} and {b} ({rounded(float(pairs.distance[0]), 3)})")
        return "; ".join(parts)

    def rows(self) -> list[Row]:
        """Return one row per policy: its mean return, its nearest neighbour and their distance."""
        near, apart = self.measured.neighbours, self.measured.neighbour_distances
        return [
            {
                "policy": row.label,
                "group": row.group,
                "step": row.step,
                "episodes": row.episodes,
                "mean return": row.mean_return,
                **{x.name: float(x.intervals[0, i]) for x in self.findings.outcomes},
                "nearest": self.labels[near[i, 0]] if near.shape[1] else None,
                "distance": float(apart[i, 0]) if near.shape[1] else None,
            }
            for i, row in enumerate(self.findings.policies)
        ]

    def figure(self) -> Figure:
        """Draw the map, or the matrix of distances if there is none."""
        return self.plot_distances() if self.space.positions is None else self.plot_map()


def prepare(
    options: DescribeOptions, collecting: CollectOptions, progress: bool = False
) -> tuple[Characterization, Space | None, CollectOptions]:
    """Make the characterization, or load that of an earlier space, which is returned too.

    Collecting then stores what the characterization needs beside states.
    """
    earlier = None if options.space is None else Space.load(options.space)
    if earlier is not None:
        method = earlier.method
    else:
        sizes = {"n_components": options.components, "backgrounds": options.backgrounds}
        given = dict(options.parameters or {})
        given |= {name: size for name, size in sizes.items() if size is not None}
        method = characterization(options.method, **given)
        defaults = {"random_state": collecting.seed, "progress": progress}.items()
        known = method.get_params().keys() - given
        method.set_params(**{name: value for name, value in defaults if name in known})
    needs = method.traits.needs
    return (
        method,
        earlier,
        replace(
            collecting,
            actions=collecting.actions or "actions" in needs,
            keep_policies=collecting.keep_policies or "policies" in needs,
        ),
    )


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
        return write_store(data, self._folder, self.settings)


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
            if progress:
                print_readings(recorded)
            return RecordedStates(recorded, folder, max_states_per_policy=most)
    return Collector(env, policies, options, folder, progress)


def describe(
    data: VisitedStates,
    log: RunLog,
    method: Characterization,
    earlier: Space | None,
    collected: Mapping[str, Any],
    stopped: str | None = None,
    strata: NDArray[np.int64] | None = None,
) -> Space:
    """Fit the characterization unless ``earlier`` has it fitted, and describe the policies.

    ``stopped`` says how `collect_until` ended, which has fitted it too, and ``strata`` are those of
    episodes that are paired.
    """
    with log.stage("describe"):
        warn_of_constants(data)
        if strata is None:
            warn_of_same_seeds([collected])
        share, influences = None, method.traits.influences
        if earlier is not None:
            check_same_environment(earlier, collected)
            # Those of some policies alone could not be kept.
            influences = influences and "influences" in earlier.descriptions.arrays
        else:
            if stopped is None:
                method.fit(data)
            share = background_share(method, data)
        if influences:  # with which intervals need no states
            [row, *_] = method.describe(data.select([0]), influences=True).arrays["influences"]
            influences = data.n_episodes * row.nbytes <= _MAX_INFLUENCES
        described = method.describe(data, influences=influences)
        if strata is not None and influences:
            described = described.stratified(strata)
        if earlier is None:
            reach = explanations.coverage_radius(method, data)
            result = Space(method, described, collected=collected, reach=reach)
        else:
            explanations.warn_uncovered(earlier, data)
            result = space_beside(earlier, described)
        log.settings |= {
            "method": method.name,
            "parameters": method.get_params(),
            "precision": stopped,
            "background": share,
        }
    return result


def lay_out(space: Space, log: RunLog, seed: int, measured: Any = None) -> Space:
    """Compute the positions of the policies on the map, and write ``space/``."""
    with log.stage("map"):
        if measured is None and space.descriptions.points is None:
            measured = measure_space(space, log.folder)
        positions, log.settings["map"] = positions_of(space, seed, measured)
        result = replace(space, positions=positions)
        result.save(make_folder(log.folder) / SPACE)
    return result


def write(space: Space, log: RunLog, seed: int, data: VisitedStates | None = None) -> Comparison:
    """Measure all distances, lay out the map, and write all files of a comparison.

    Methods that need states take ``data`` or those in the folder.
    """
    with log.stage("distances"):
        measured = measure_space(space, log.folder, data)
    space = lay_out(space, log, seed, measured)
    with log.stage("report"):
        findings = Findings.of(space, measured, log)
        write_results(log.folder, findings)
    return Comparison(log.folder, space, findings)


def check_pairing(method: Characterization) -> None:
    """Refuse to pair episodes if the noise of distances does not follow from their influences."""
    if not method.traits.influences or method.traits.halved:
        raise UsageError(
            f"episodes cannot be paired with {method.name}, whose intervals do not follow from "
            "differences of single episodes: use visitation"
        )


def warn_of_same_seeds(settings: Sequence[Mapping[str, Any]]) -> None:
    """Warn of common random numbers that intervals ignore."""
    if all(known.get("same_seeds") for known in settings):
        warnings.warn(
            "all policies have episodes of the same seeds, which are not independent: distances "
            "are too small on average and intervals are not valid without --pair seed",
            PivecWarning,
            stacklevel=3,
        )


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
    first = collector.options.episodes
    if first < 2:
        raise UsageError(
            "until needs at least 2 episodes per policy to start with, but episodes is 1"
        )
    if options.at_most < first:
        raise UsageError(
            f"at_most is {options.at_most}, but every policy starts with {first} episodes: lower "
            "episodes, or raise at_most"
        )
    if collector.options.max_states_per_policy is not None:
        raise UsageError(
            "until cannot be combined with max_states_per_policy: more episodes would change how "
            "states are thinned, and so the distances"
        )
    episodes = dict.fromkeys(collector.acting, first)
    data = collector.run(episodes)
    if not fitted:
        method.fit(data)
    can_act = np.array([label in episodes for label in data.labels])
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
    pairs, wide = (int(np.triu(mask).sum()) for mask in (precision.counts, precision.is_wide))
    if wide:
        warnings.warn(
            f"{wide} of {pairs} intervals are still wider than ±{precision.until:g} after "
            f"{options.at_most} episodes per policy: {_widest(sure, precision, data)}; raise "
            "--at-most or --until",
            PivecWarning,
            stacklevel=2,
        )
    result = (
        f"{pairs - wide} of {pairs} pairs are known to within ±{precision.until:g}, after {rounds} "
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


def _widest(sure: Intervals, precision: Precision, data: VisitedStates) -> str:
    """Name the pair with the widest interval, and how many episodes it needs."""
    wide = np.where(np.triu(precision.is_wide), np.nan_to_num(precision.reach, nan=np.inf), -np.inf)
    i, j = np.unravel_index(int(wide.argmax()), wide.shape)
    known = "without an interval"
    if np.isfinite(wide[i, j]):
        played = int(np.diff(data.policy_starts)[[i, j]].max())
        needed = _rounded_up(np.atleast_1d(played / _noise_left(sure, precision)[i, j]))[0]
        known = f"to within ±{wide[i, j]:.2g} and need about {needed:,} episodes each"
    return f"{data.labels[i]!r} and {data.labels[j]!r} are known {known}"
