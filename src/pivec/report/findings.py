"""Everything that is shown of a comparison, computed once and only read by what shows it."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import (
    STRATA,
    BackgroundModel,
    Decomposition,
    Measured,
    Space,
    background_words,
    measure,
)
from pivec.errors import PivecError, PivecWarning, UsageError
from pivec.explanations import (
    TOP,
    ClusteredEpisodes,
    ComparisonFolder,
    Datasets,
    EpisodeKinds,
    Feature,
    FeatureHistograms,
    Rules,
    RunExplanation,
    cluster_comparison,
    columns_of,
    episode_tests,
    explain_run,
    explore_datasets,
    feature_histograms,
    region_names,
    separating_rules,
    stored_states,
    with_names,
)
from pivec.figures import LONE_COLOUR, group_colours
from pivec.policies import also_called, environment_names
from pivec.report.episode_map import EpisodeMap, map_episodes
from pivec.report.groups import GroupComparison, groups_in
from pivec.report.layout import group_order, heatmap_order
from pivec.run_log import RunLog
from pivec.states import Store, VisitedStates
from pivec.statistics import (
    LEVEL,
    RATE,
    BehaviourClasses,
    Pairs,
    adjusted_intervals,
    behaviour_classes,
    difference_intervals,
    is_rate,
    outcome_intervals,
)
from pivec.text import interval, n_policies, percent, rounded, thousands

Array = NDArray[np.float64]
STATES, SPACE = "states", "space"  # folders of a comparison
MAX_CLASS_COLOURS = 10  # behaviour classes with a colour of their own
# Text of more distances is large and slow to read: of 3 000 policies it was 181 MB.
MAX_CSV = 1000
DISTANCES_CSV, DISTANCES_NPZ = "distances.csv", "distances.npz"
UNSURE = "cannot be distinguished"
MAX_TESTS = 50  # pairs whose episodes are compared
MAX_LINKS = 400  # more lines between policies would hide the map
MAX_ENDS = 500  # runs whose last checkpoints are compared
MAX_SHARES = 1_000_000  # of time, in all bins of histograms
LISTED, _NEAREST = 5, 10  # nearest pairs in a table (and farthest), and that are kept
_DETAILED = 40  # pairs that are decomposed at most
_CONTRASTS = 3  # pairs of each kind that are listed
# Largest difference of rates that counts as none; for other numbers, of the range of means.
_SAME = 0.1
_ENDS = 10  # of these, pairs of last checkpoints
# Numbers that are read to explain pairs and runs: 10 million take about half a second. Where many
# states are read anyway, these are shares of all of their values.
_PAIRS_WORK, _PAIRS_SHARE = 6_500_000, 0.02
_RUNS_WORK, _RUNS_SHARE = 12_000_000, 0.1
_PAIR, _RUN = 200_000, 400_000  # what any pair and any run takes
_BY_REGION = 3  # phases of a run


@dataclass(frozen=True)
class PolicyRow:
    """A policy on the map; the fields are the columns of map.csv unless they say otherwise."""

    label: str
    group: str  # empty if it belongs to no run
    step: int | None  # of training
    x: float
    y: float
    mean_return: float  # NaN where returns are not known, as return_std
    episodes: int
    states: int
    source: str
    reference: bool = False  # a policy of an earlier space, shown as context
    placed: bool = False  # the space was fitted without it
    return_std: float = field(default=math.nan, metadata={"csv": False})
    behaviour: int | None = None  # its behaviour class, 1 the largest


@dataclass(frozen=True)
class PairRow:
    """The distance of two policies and its uncertainty; the fields are columns of pairs.csv."""

    policy: str
    other: str
    distance: float  # at least 0; without the noise of sampling where there is an interval
    low: float  # 0 exactly if q > 0.05; NaN where it is not known, as the rest
    high: float
    overlap: float  # share of their time that the two spend in the same places
    p: float  # of "the same behaviour"
    q: float  # the same among all pairs: of pairs with q <= 0.05 at most 5 % are wrong

    @property
    def alike(self) -> bool:
        """Whether the two cannot be distinguished: chance explains their distance."""
        return self.low <= 0.0


@dataclass(frozen=True, eq=False)
class Outcome:
    """A number per episode, such as success: means over the episodes of n policies."""

    name: str
    rate: bool  # whether all numbers are 0 or 1
    values: list[Array]  # of the episodes of each policy, as far as they are known
    intervals: Array  # (3, n): means and the ends of their intervals; NaN where not known

    @classmethod
    def of(cls, name: str, values: Sequence[Array]) -> Outcome:
        """Compute means and intervals, Wilson's for rates."""
        rate = is_rate(np.concatenate(values))
        ends = np.array([outcome_intervals(own, rate, LEVEL) for own in values]).T
        return cls(name, rate, list(values), ends)

    def words(self, row: int) -> str:
        """Format the mean of a policy with its interval; empty if it is not known."""
        mean, low, high = self.intervals[:, row].tolist()
        if math.isnan(mean):
            return ""
        mean, low, high = (percent(x) if self.rate else rounded(x, 3) for x in (mean, low, high))
        return mean if low == "–" else f"{mean} ({low} to {high})"


@dataclass(frozen=True, eq=False)
class RunEnds:
    """Distances between the last checkpoints of m runs, (m, m) arrays; NaN is not known."""

    groups: list[str]
    rows: list[int]  # of the last checkpoints
    distance: Array  # at least 0; without the noise of sampling where there is an interval
    low: Array  # 0 exactly for those that cannot be distinguished
    high: Array
    words: str  # what was left out

    @property
    def alike(self) -> NDArray[np.uint8]:
        """1 for those that cannot be distinguished, 0 for those that can, 2 if not known."""
        alike = np.where(np.isnan(self.low), 2, self.low <= 0.0).astype(np.uint8)
        np.fill_diagonal(alike, 1)
        return alike


class PolicyTable(tuple[PolicyRow, ...]):
    """The policies of a comparison, one row each, and what follows from the rows alone."""

    def __init__(self, _: Iterable[PolicyRow]) -> None:
        if not self:
            raise UsageError("expected at least one policy, but there is none")

    @cached_property
    def labels(self) -> list[str]:
        """Names of all policies."""
        return [row.label for row in self]

    @cached_property
    def compared(self) -> list[PolicyRow]:
        """All but the policies that are there for context."""
        return [row for row in self if not row.reference]

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Numbers of the rows by group and training step."""
        return group_order([row.group for row in self], [row.step for row in self])

    @cached_property
    def group_colours(self) -> dict[str, str]:
        """A colour for each group of the policies compared, in the order of their names."""
        ordered = (self[i] for i in self.order)
        names = dict.fromkeys(row.group for row in ordered if row.group and not row.reference)
        return dict(zip(names, group_colours(len(names)), strict=True))

    @cached_property
    def runs(self) -> dict[str, list[int]]:
        """Rows of each run in order of training: groups of two or more with a training step."""
        runs: dict[str, list[int]] = {}
        for i in self.order.tolist():
            row = self[i]
            if row.group and row.step is not None and not row.reference:
                runs.setdefault(row.group, []).append(i)
        return {name: numbers for name, numbers in runs.items() if len(numbers) > 1}

    @cached_property
    def class_sizes(self) -> dict[int, int]:
        """Number of policies in each behaviour class, the largest first."""
        sizes = Counter(row.behaviour for row in self if row.behaviour is not None)
        return dict(sorted(sizes.items(), key=lambda item: (-item[1], item[0])))

    @cached_property
    def class_colours(self) -> dict[int, str]:
        """Colours of the classes of two or more policies: the largest differ, the rest is grey."""
        shared = [number for number, size in self.class_sizes.items() if size > 1]
        own = group_colours(min(len(shared), MAX_CLASS_COLOURS))
        return dict(zip(shared, own + [LONE_COLOUR] * (len(shared) - len(own)), strict=True))

    @property
    def classes_differ(self) -> bool:
        """Whether some policies share a behaviour class, and not all the same."""
        return len(self.class_sizes) > 1 and max(self.class_sizes.values()) > 1


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Everything that is shown of a comparison; made by `Findings.of`."""

    environment: str
    policies: PolicyTable
    measured: Measured  # in the order of the policies
    log: RunLog
    method: str = ""  # how policies are described and compared; blank lines part paragraphs
    formula: str = ""  # of the distance, in one line
    behaviours: BehaviourClasses | None = None  # classes of policies that behave alike
    space: Space | None = None  # with positions; None in a report without a characterization

    def __post_init__(self) -> None:
        n = len(self.policies)
        if len(self.measured.neighbours) != n:
            raise UsageError(
                f"distances must be those of the {n} policies of the report, but are of "
                f"{len(self.measured.neighbours)}"
            )
        if self.space is not None and list(self.space.descriptions.labels) != self.policies.labels:
            raise UsageError(f"the space must describe the {n} policies of the report, in order")

    @classmethod
    def of(cls, space: Space, measured: Measured, log: RunLog) -> Findings:
        """Compute everything that is shown of a space whose distances were measured."""
        classes = None
        margin = log.settings.get("margin") or space.method.traits.margin
        if (sure := measured.intervals) is not None and margin:
            # The distance of a policy with a single episode includes an unknown noise.
            known = np.where(np.isnan(sure.p_value), np.nan, sure.distance)
            classes = behaviour_classes(known, space.descriptions.labels, margin)
        words = [space.method.traits.explanation, background_words(log.settings)]
        return cls(
            environment=environment_names(
                space.collected.get("environment"), space.descriptions.policies
            ),
            policies=PolicyTable(policy_rows(space, classes)),
            measured=measured,
            log=log,
            method="\n\n".join(filter(None, words)),
            formula=space.method.traits.formula,
            behaviours=classes or None,
            space=space,
        )

    @cached_property
    def groups(self) -> GroupComparison | None:
        """Groups of runs; None if there are none."""
        if self.space is None:
            return None
        means = {outcome.name: outcome.intervals[0] for outcome in self.outcomes}
        margin = self.log.settings.get("margin")
        return groups_in(self.space, self.measured.intervals, margin, means)

    @property
    def subtitle(self) -> str:
        """Say how many policies were compared, and in which environment."""
        policies = n_policies(len(self.policies.compared))
        return f"{policies} in {self.environment}" if self.environment else policies

    @property
    def map_method(self) -> str:
        """How the map was made: the method of a `PolicyMap`, or other words."""
        return str(self.log.settings.get("map", ""))

    @cached_property
    def pair_rows(self) -> list[PairRow]:
        """The listed pairs with the labels of their policies, nearest first."""
        return self.rows_of(self.measured.pairs)

    def rows_of(self, pairs: Pairs) -> list[PairRow]:
        """Give pairs with the labels of their policies."""
        columns = (pairs.distance, pairs.low, pairs.high, pairs.overlap, pairs.p, pairs.q)
        lines = zip(pairs.i.tolist(), pairs.j.tolist(), *(c.tolist() for c in columns), strict=True)
        labels = self.policies.labels
        return [PairRow(labels[i], labels[j], *values) for i, j, *values in lines]

    @cached_property
    def nearest_different(self) -> Pairs:
        """The nearest pairs that differ significantly; just the nearest if no interval is known."""
        measured = self.measured
        if not measured.n_known:
            return measured.nearest
        return measured.pairs.take(np.flatnonzero(measured.pairs.low > 0.0)[:_NEAREST])

    def listed_pairs(self, most: int) -> tuple[Pairs, Pairs]:
        """The nearest pairs that differ and the farthest; of few pairs, none is listed twice."""
        near = self.nearest_different if len(self.nearest_different) else self.measured.nearest
        far, n = self.measured.farthest, len(self.policies)
        half = -(-n * (n - 1) // 4)  # of all pairs, rounded up
        near = near.take(range(min(most, len(near), half)))
        known = set(zip(near.i.tolist(), near.j.tolist(), strict=True))
        others = enumerate(zip(far.i.tolist(), far.j.tolist(), strict=True))
        return near, far.take([k for k, pair in others if pair not in known][:most])

    @cached_property
    def notable_pairs(self) -> dict[str, tuple[int, int]]:
        """The nearest pair that differs, the farthest, and one that cannot be distinguished."""
        pairs, alike, measured = self.measured.pairs, self.measured.pairs.alike, self.measured
        groups = np.array([row.group for row in self.policies])
        # Two runs that ended alike are more interesting than two checkpoints of one.
        other = alike & (groups[pairs.i] != groups[pairs.j])
        sure = " that can be distinguished" if measured.n_known else ""
        chosen = {
            f"The nearest pair{sure}": self.nearest_different,
            "The farthest pair": self.listed_pairs(1)[1],
            f"A pair that {UNSURE}": pairs.take(
                np.flatnonzero(other if other.any() else alike)[:1]
            ),
        }
        return {words: (int(p.i[0]), int(p.j[0])) for words, p in chosen.items() if len(p)}

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """Names and units of the features of a state."""
        if self.space is None:
            return ()
        return self.columns[: len(self.space.method.described_features)]

    @cached_property
    def columns(self) -> tuple[Feature, ...]:
        """Names and units of what regions consist of: features of a state, maybe their steps."""
        return () if self.space is None else columns_of(self.space.method, self.space.collected)

    @cached_property
    def region_names(self) -> tuple[str, ...]:
        """Names of the regions of the background model, if there is one."""
        if self.space is None or not isinstance(self.space.method, BackgroundModel):
            return ()
        return region_names(self.space.method.background_, self.features)

    def distance(self, i: int, j: int) -> float:
        """Return the distance of two policies as measured; NaN if it is not known."""
        if self.measured.matrix is not None:
            return float(self.measured.matrix[i, j])
        if self.space is None:
            return math.nan
        described = self.space.descriptions
        a, b = described.select([i]), described.select([j])
        return float(self.space.method.distances(a, b)[0, 0])

    @cached_property
    def _stored(self) -> ComparisonFolder | None:
        """The space with the states beside it, if they are there."""
        folder = self.log.folder
        if self.space is None or (data := stored_states(folder, self.space)) is None:
            return None
        return ComparisonFolder(folder, self.space, data)

    def seed(self, label: str, episode: int) -> int | None:
        """Return the seed of a stored episode; None if it is not known."""
        stored = self._stored
        if stored is None or not stored.has_states([label]):
            return None
        seeds = stored.states[label].seeds
        return int(seeds[episode]) if 0 <= episode < len(seeds) else None

    @cached_property
    def _clustered(self) -> ClusteredEpisodes | None:
        """Episodes with their kinds; None if there are no states, or no regions."""
        return None if self._stored is None else cluster_comparison(self._stored)

    @property
    def kinds(self) -> EpisodeKinds | None:
        """Kinds of episodes; None if there are no states, or no regions."""
        return None if self._clustered is None else self._clustered.kinds

    @cached_property
    def episodes(self) -> EpisodeMap | None:
        """The map of episodes; None if there are no states, or no regions."""
        if self._stored is None or self._clustered is None:
            return None
        return map_episodes(self._stored, self._clustered)

    @cached_property
    def datasets(self) -> Datasets | None:
        """Near-duplicates, coverage and drift; None if no states were recorded."""
        return None if self._stored is None else explore_datasets(self._stored)

    @cached_property
    def unlike_episodes(self) -> list[tuple[str, str, float, float]]:
        """Pairs that cannot be distinguished on average, but by their episodes: labels, p, q.

        Of these pairs the nearest are tested.
        """
        stored = self._stored
        if stored is None or not stored.has_regions:
            return []
        usable = {row.label for row in self.policies if row.episodes > 1} & set(
            stored.states.labels
        )
        rows = sorted(
            self.rows_of(self.measured.alike), key=lambda row: (row.distance, row.policy, row.other)
        )
        pairs = [(row.policy, row.other) for row in rows if {row.policy, row.other} <= usable]
        tests = episode_tests(stored, pairs[:MAX_TESTS])
        return [test for test in tests if test[3] <= RATE]

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """Numbers per episode other than the return, where the states are stored."""
        if self._stored is None:
            return []
        known = self._stored.states.outcomes.items()
        return [
            self._outcome(name, values)
            for name, values in known
            if values.dtype != object and not np.isnan(values).all()
        ]

    def _outcome(self, name: str, values: Array) -> Outcome:
        """Divide the numbers of all stored episodes by policy."""
        own = [np.full(0, np.nan)] * len(self.policies)
        if self._stored is not None and self.stored_rows is not None:
            starts = self._stored.states.policy_starts[1:-1]
            for row, part in zip(self.stored_rows, np.split(values, starts), strict=True):
                own[row] = part
        return Outcome.of(name, own)

    @cached_property
    def contrasts(self) -> dict[str, list[str]]:
        """Pairs with the same outcome but different behaviour, and the reverse, by heading.

        The outcome is the return if no other is known.
        """
        pairs, stored, result = self.measured.pairs, self._stored, dict[str, list[str]]()
        if stored is None or self.space is None or not self.measured.n_known:
            return result
        paired = STRATA in self.space.descriptions.arrays
        for outcome in self.outcomes or [self._outcome("return", stored.states.returns)]:
            difference, low, high, p = difference_intervals(
                outcome.values, outcome.intervals, pairs.i, pairs.j, LEVEL, paired=paired
            )
            q, low, high = adjusted_intervals(p, low, high)
            means = outcome.intervals[0][np.isfinite(outcome.intervals[0])]
            margin = _SAME * (1.0 if outcome.rate else float(np.ptp(means)) if len(means) else 0.0)
            most = np.maximum(-low, high)  # the largest difference that is likely
            within = f"±{100 * margin:.0f} points" if outcome.rate else f"±{rounded(margin, 2)}"
            same = f"Same {outcome.name} (within {within}), different behaviour"
            rows = np.flatnonzero((most <= margin) & (pairs.low > 0.0))
            if not len(rows):
                same = f"{outcome.name} that {UNSURE}, different behaviour"
                rows = np.flatnonzero((q > RATE) & (pairs.low > 0.0))
                rows = rows[np.argsort(-most[rows], kind="stable")]
            other = np.flatnonzero((q <= RATE) & pairs.alike)
            other = other[np.argsort(abs(difference[other]), kind="stable")]
            different = f"Different {outcome.name}, behaviour that {UNSURE}"
            for heading, listed in ((same, rows), (different, other)):
                chosen = pairs.take(listed[::-1][:_CONTRASTS])
                ends = zip(chosen.i.tolist(), chosen.j.tolist(), self.rows_of(chosen), strict=True)
                if len(chosen):
                    result[heading] = [
                        f"{row.policy} and {row.other}: {outcome.words(i)} and {outcome.words(j)}, "
                        f"distance {rounded(row.distance, 3)} ({interval(row.low, row.high)})"
                        for i, j, row in ends
                    ]
        return result

    @cached_property
    def likely_pairs(self) -> list[tuple[int, int]]:
        """Pairs that users are likely to look at, the likeliest first; each once."""

        def rows(pairs: Pairs) -> list[tuple[int, int]]:
            return list(zip(pairs.i.tolist(), pairs.j.tolist(), strict=True))

        near, far = rows(self.nearest_different)[:LISTED], rows(self.measured.farthest)[:LISTED]
        ends: list[tuple[int, int]] = []
        if self.run_ends is not None and len(self.run_ends.rows):
            distance, own = self.run_ends.distance, self.run_ends.rows
            i, j = np.triu_indices(len(own), 1)
            order = np.argsort(-distance[i, j], kind="stable")[:_ENDS]
            ends = [(own[i[k]], own[j[k]]) for k in order]
        number = {label: row for row, label in enumerate(self.policies.labels)}
        steps = [
            (number[phase.labels[0]], number[phase.labels[1]])
            for story in self.run_stories.values()
            if (phase := story.largest_phase) is not None
        ]
        mixed = [pair for pair in chain(*zip_longest(near, far)) if pair]
        known: dict[frozenset[int], tuple[int, int]] = {}
        for pair in (*self.notable_pairs.values(), *ends[:1], *mixed, *steps, *ends[1:]):
            known.setdefault(frozenset(pair), pair)
        return list(known.values())[:_DETAILED]

    @cached_property
    def decompositions(self) -> dict[tuple[int, int], Decomposition]:
        """The distances of likely pairs in parts, if the characterization has these.

        These are the notable pairs, and others as far as that takes no more than a part of the
        time of a comparison.
        """
        result: dict[tuple[int, int], Decomposition] = {}
        if self.space is None:
            return result
        method, described = self.space.method, self.space.descriptions
        with _quietly():
            for i, j in dict.fromkeys([*self.notable_pairs.values(), *self._affordable_pairs]):
                try:
                    rows = described.select([i]), described.select([j])
                    found = method.decompose(*rows, n_groups=TOP)
                except PivecError:
                    break
                if isinstance(method, BackgroundModel):
                    background = method.background_
                    found = with_names(found, background, self.columns, self.region_names)
                result[i, j] = found
        return result

    @cached_property
    def rules(self) -> dict[tuple[int, int], Rules]:
        """Rules that separate pairs that are decomposed, where their states are stored."""
        result: dict[tuple[int, int], Rules] = {}
        if self.space is None or self._stored is None:
            return result
        states, labels = self._stored.states, self.policies.labels
        for i, j in self._affordable_pairs:
            both = [labels[i], labels[j]]
            if (i, j) in self.decompositions and self._stored.has_states(both):
                data = [states[label] for label in both]
                rules = separating_rules(self.space.method, data[0], data[1], self.columns, LEVEL)
                if rules is not None:
                    result[i, j] = rules
        return result

    @cached_property
    def _affordable_pairs(self) -> list[tuple[int, int]]:
        costs = [
            _PAIR + 4 * self._influences(*rows) + self._values(*rows) for rows in self.likely_pairs
        ]
        room = max(_PAIRS_WORK, _PAIRS_SHARE * self._values(*range(len(self.policies))))
        n = int(np.searchsorted(np.cumsum(costs), room, side="right"))
        return self.likely_pairs[:n]

    def _values(self, *rows: int) -> int:
        """Count the values of the states of some policies."""
        return sum(self.policies[i].states for i in rows) * len(self.columns)

    def _influences(self, *rows: int) -> int:
        """Count the values of the influences of their episodes."""
        if self.space is None or self.space.descriptions.points is None:
            return 0
        width = int(self.space.descriptions.points.shape[1])
        return sum(self.policies[i].episodes for i in rows) * width

    # ---- runs ----

    @cached_property
    def run_ends(self) -> RunEnds | None:
        """Distances between the last checkpoints of all runs; None if there are no two runs."""
        runs, measured, space = self.policies.runs, self.measured, self.space
        if len(runs) < 2 or (measured.matrix is None and space is None):
            return None
        if len(runs) > MAX_ENDS:
            nothing = np.empty((0, 0))
            words = (
                f"Distances between the last checkpoints of up to {MAX_ENDS} runs are shown, but "
                f"there are {thousands(len(runs))}."
            )
            return RunEnds([], [], nothing, nothing, nothing, words)
        rows = [own[-1] for own in runs.values()]
        at, low, high = np.ix_(rows, rows), *(np.full((len(rows),) * 2, np.nan) for _ in "lh")
        if measured.estimates is not None:
            distance = measured.estimates[at].copy()
        elif space is not None:
            distance = space.method.distances(space.descriptions.without_influences().select(rows))
        if measured.intervals is not None:
            low, high = measured.intervals.low[at].copy(), measured.intervals.high[at].copy()
        elif space is not None:
            own = space.descriptions.select(rows)
            if "influences" in own.arrays or space.method.traits.exact:
                with _quietly():
                    sure = space.method.intervals(own, level=LEVEL)
                above = np.triu_indices(len(rows), 1)
                distance, high = np.maximum(sure.distance, 0.0), sure.high
                ends = sure.low[above], high[above]
                low[above] = adjusted_intervals(sure.p_value[above], *ends)[1]
                low.T[above] = low[above]
            # What pairs.csv lists is shown as it is there.
            place = np.full(len(self.policies), -1)
            place[rows] = np.arange(len(rows))
            i, j = place[measured.pairs.i], place[measured.pairs.j]
            listed = np.flatnonzero((i >= 0) & (j >= 0))
            for a, b in ((i[listed], j[listed]), (j[listed], i[listed])):
                for matrix, name in ((distance, "distance"), (low, "low"), (high, "high")):
                    matrix[a, b] = getattr(measured.pairs, name)[listed]
        words = "" if np.isfinite(low).any() else "These distances include the noise of sampling."
        return RunEnds(list(runs), rows, distance, low, high, words)

    @property
    def run_stories(self) -> dict[str, RunExplanation]:
        """What changed along runs, those that travelled farthest first.

        As many as take no more than a part of the time of a comparison.
        """
        return self._run_stories[0]

    @property
    def run_note(self) -> str:
        """Why `run_stories` has not all runs; empty if it has."""
        return self._run_stories[1]

    @cached_property
    def _run_stories(self) -> tuple[dict[str, RunExplanation], str]:
        result: dict[str, RunExplanation] = {}
        room = max(_RUNS_WORK, _RUNS_SHARE * self._values(*range(len(self.policies))))
        totals = {run.group: run.total for run in self.measured.travels}
        runs = self.policies.runs
        for group in sorted(runs, key=lambda group: (-totals.get(group, 0.0), group)):
            rows = runs[group]
            influences = self._influences(*rows)
            n_phases = min(len(rows) - 1, _BY_REGION)
            room -= _RUN + influences * (1 + 2 * n_phases / len(rows)) + self._values(*rows)
            if room < 0:
                note = (
                    f"What changed along {len(result)} of {thousands(len(runs))} runs is part of "
                    "this file, those that travelled farthest; pivec explain --run and pivec serve "
                    "show the others"
                )
                return result, note
            try:
                result[group] = self.explain_run(group, by_region=_BY_REGION)
            except PivecError as error:
                return result, str(error)
        return result, ""

    def explain_run(self, group: str, by_region: int | None = None) -> RunExplanation:
        """Explain what changed along a run, with its states if these are stored."""
        if self.space is None:
            raise UsageError("what changed along a run is known only of a fitted space")
        there = self._stored or ComparisonFolder(self.log.folder, self.space, None)
        with _quietly():
            return explain_run(there, group, level=LEVEL, by_region=by_region)

    # ---- histograms ----

    @cached_property
    def histograms(self) -> FeatureHistograms | None:
        """Histograms of the features of all policies whose states are stored, unless too many."""
        if self.space is None or self._stored is None:
            return None
        return self._histograms(self._stored.states, MAX_SHARES)

    @property
    def stored_rows(self) -> list[int] | None:
        """Row numbers of the policies whose states are stored, in the order of these."""
        if self._stored is None:
            return None
        number = {label: row for row, label in enumerate(self.policies.labels)}
        return [number[label] for label in self._stored.states.labels]

    def pair_histograms(self, i: int, j: int) -> FeatureHistograms | None:
        """Histograms of the features of two policies; None if their states are not stored."""
        labels = [self.policies.labels[row] for row in (i, j)]
        if self._stored is None or not self._stored.has_states(labels):
            return None
        if self.histograms is None:
            return self._histograms(self._stored.states.select(labels))
        rows = [self._stored.states.labels.index(label) for label in labels]
        return self.histograms.select(rows)

    def _histograms(self, data: VisitedStates, most: int | None = None) -> FeatureHistograms | None:
        if self.space is None:
            return None
        method = self.space.method
        by_state = method.traits.by_state
        return feature_histograms(data, self.features, method.described_features, by_state, most)

    @cached_property
    def links(self) -> list[list[int]]:
        """Pairs to join on the map because they cannot be distinguished.

        These are the edges of a minimum spanning forest; there are none if lines would hide the
        map.
        """
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import minimum_spanning_tree

        pairs, n = self.measured.alike, len(self.policies)
        # A length of 0 would mean that there is no line.
        lengths = csr_array(
            (pairs.distance + np.finfo(float).eps, (pairs.i, pairs.j)), shape=(n, n)
        )
        links = np.argwhere(minimum_spanning_tree(lengths))
        return links.tolist() if len(links) <= MAX_LINKS else []

    @cached_property
    def heatmap_order(self) -> NDArray[np.intp]:
        """Row numbers with similar policies adjacent and runs together; else by run and step."""
        if self.measured.estimates is None:
            return self.policies.order
        groups = [row.group for row in self.policies]
        return heatmap_order(self.measured.estimates, groups, self.policies.order)

    @property
    def behaviours_words(self) -> str:
        """The number of behaviour classes in words; empty if it is not known."""
        if self.behaviours is None:
            return ""
        n, known = len(self.behaviours), self.behaviours.n_policies
        untested = len(self.policies) - known
        rest = f"; {thousands(untested)} more {'has' if untested == 1 else 'have'} too few episodes"
        return (
            f"{n_policies(known)} in {thousands(n)} behaviour class{'es' * (n != 1)}"
            f"{rest if untested else ''}"
        )

    @property
    def distances_note(self) -> str:
        """What distances.npz contains; empty if there is a distances.csv."""
        n = len(self.policies)
        if distances_file(n) == DISTANCES_CSV:
            return ""
        near = f"the {self.measured.neighbours.shape[1]} nearest neighbours of each policy"
        held = near if self.measured.matrix is None else "all distances"
        return f"{DISTANCES_NPZ} contains {held}"

    @property
    def alike_count(self) -> str:
        """How many pairs cannot be distinguished; empty if that is not known."""
        known = self.measured.n_known
        return f"{thousands(len(self.measured.alike))} of {thousands(known)}" if known else ""


@contextmanager
def _quietly() -> Iterator[None]:
    """Ignore warnings of computations that repeat what measuring has warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PivecWarning)
        yield


def policy_rows(space: Space, classes: BehaviourClasses | None = None) -> list[PolicyRow]:
    """Give the rows of all policies of a space; at the origin if they have no positions yet."""
    described = space.descriptions
    positions = np.zeros((len(described), 2)) if space.positions is None else space.positions
    reference, placed = space.is_reference, space.is_placed
    rows = []
    for i, info in enumerate(described.policies):
        also = also_called(info)
        rows.append(
            PolicyRow(
                label=info.label,
                group=info.group,
                step=info.step,
                x=float(positions[i, 0]),
                y=float(positions[i, 1]),
                mean_return=float(described.mean_returns[i]),
                episodes=int(described.n_episodes[i]),
                states=int(described.n_states[i]),
                source=f"{info.source} ({also})" if also else info.source,
                reference=reference[i],
                placed=placed[i],
                return_std=float(described.return_stds[i]),
                behaviour=classes.numbers[i] if classes else None,
            )
        )
    return rows


def distances_file(n: int) -> str:
    """Return the name of the file with the distances of ``n`` policies."""
    return DISTANCES_CSV if n <= MAX_CSV else DISTANCES_NPZ


def measure_space(space: Space, folder: Path, data: VisitedStates | None = None) -> Measured:
    """Measure all distances, with the states of the folder if intervals need them."""
    method = space.method
    needed = not (method.traits.influences or method.traits.exact or method.traits.no_intervals)
    if data is None and needed and Store.exists(folder / STATES):
        data = Store(folder / STATES).load()
    labels = space.descriptions.labels
    if data is not None and data.labels != labels:
        number = {label: i for i, label in enumerate(data.labels)}
        # Policies of an earlier space have their states elsewhere.
        data = data.select([number[x] for x in labels]) if number.keys() >= set(labels) else None
    return measure(space.method, space.descriptions, data)
