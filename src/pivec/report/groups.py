"""Groups of runs: whether they differ, how far apart they are, how diverse each one is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.arguments import Count, Positive, Seed, checked
from pivec.characterizations import Space, without_noise
from pivec.errors import PivecWarning, UsageError
from pivec.policies import Patterns, group_names, natural_key, rows_of_runs
from pivec.results import plain
from pivec.statistics import (
    LEVEL,
    Estimate,
    Intervals,
    Permanova,
    effective_number,
    mean_between,
    mean_within,
    outcome_intervals,
    permanova,
    run_distances,
    runs_needed,
    shares_of,
)
from pivec.terminal import Column, print_table, say, shortened
from pivec.text import capitalized, n_policies, rounded, thousands

Array = NDArray[np.float64]
MOST_POLICIES = 4000


@dataclass(frozen=True)
class RunGroup:
    """A group of runs."""

    name: str
    runs: tuple[str, ...]
    n_policies: int
    distance: Estimate  # between the mean behaviours of its runs
    policy_distance: Estimate  # between policies of different runs
    behaviours: Estimate  # their effective number
    # Means over runs of the return, and of other outcomes of episodes, as far as they are known.
    outcomes: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class GroupPair:
    """Two groups of runs."""

    groups: tuple[str, str]
    distance: Estimate  # from the runs of one to those of the other, their mean behaviours
    test: Permanova | None  # None if both are a single run


@dataclass(frozen=True)
class GroupComparison:
    """Whether groups of runs differ, how far apart they are, and how diverse each one is.

    All intervals account for the variation between runs (a jackknife over runs); they are NaN if
    a group has too few runs.
    """

    groups: tuple[RunGroup, ...]
    pairs: tuple[GroupPair, ...]
    test: Permanova | None  # of all groups together; None if there are too few
    grouping: str  # how the groups were formed
    left_out: tuple[str, ...]  # runs and policies that are in no group
    last: int | None  # only the last N checkpoints of each run were used; all if None
    margin: float | None  # distance at which behaviours count as different in the diversity
    level: float
    runs: tuple[str, ...]  # all runs in groups
    run_distances: tuple[tuple[float, ...], ...]  # between their mean behaviours

    def headline(self) -> str:
        """Return one sentence on whether the groups differ."""
        names = " and ".join(group.name for group in self.groups)
        if self.test is None:
            return permanova_sentence(self.test)
        sizes = [len(group.runs) for group in self.groups]
        p = rounded(self.test.p_value, 2)
        if self.test.p_value <= 1 - LEVEL + 1e-12:
            return f"{names} differ (p = {p}, {' + '.join(map(str, sizes))} runs)"
        least = ""
        if self.test.least_p > 1 - LEVEL:
            needed = " + ".join([str(runs_needed(sizes))] * len(sizes))
            least = f"; at least {needed} are needed for p ≤ {1 - LEVEL:.2g}"
        runs = " + ".join(map(str, sizes))
        return f"{names} cannot be distinguished with {runs} runs (p = {p}){least}"

    def to_json(self) -> dict[str, Any]:
        """Return all results as JSON-compatible values; what is not known is None."""
        return {key: plain(value) for key, value in asdict(self).items()}


@checked
def compare_groups(
    space: Space,
    groups: Patterns | None = None,
    *,
    last: Count | None = None,
    seed: Seed = 0,
    level: float = 0.95,
    margin: Positive | None = None,
    intervals: Intervals | None = None,
    outcomes: Mapping[str, Array] | None = None,
) -> GroupComparison:
    """Compare groups of runs, for example several PPO runs with several A2C runs.

    Parameters
    ----------
    space : Space
        The space of a comparison: ``comparison.space``, or ``pivec.Space.load(folder)``.
    groups : mapping, optional
        Maps the name of a group to one or more patterns of run names: ``{"ppo": "ppo-*"}``. By
        default, runs whose names differ only in the number at the end form a group, or runs of the
        same algorithm if names do not define groups; a run without a group is left out.
    last : int, optional
        Use only the last N checkpoints of each run.
    seed : int
        Random seed of the test, used if there are too many permutations to try all.
    level : float
        Confidence level of the intervals.
    margin : float, optional
        Scale of the effective number of behaviours: two policies at distance d are exp(−d/margin)
        similar. By default that of the method, see `Traits.margin`; without one, the number is NaN.
    intervals : Intervals, optional
        Intervals of all distances in the space, if they have been computed already.
    outcomes : mapping, optional
        Mean outcomes of the episodes of each policy in the space, by name.

    Returns
    -------
    GroupComparison

    Examples
    --------
    >>> import pivec
    >>> rng = np.random.default_rng(0)
    >>> runs = ["ppo-0", "ppo-1", "ppo-2", "a2c-0", "a2c-1", "a2c-2"]
    >>> walks = [[rng.normal(run[0] == "p", 1, (20, 2)) for _ in range(9)] for run in runs]
    >>> data = pivec.VisitedStates.from_arrays(walks, groups=runs)
    >>> method = pivec.characterization("visitation", n_components=4).fit(data)
    >>> space = pivec.Space(method, method.describe(data, influences=True))
    >>> result = compare_groups(space)
    >>> [(group.name, len(group.runs)) for group in result.groups], result.test.p_value
    ([('a2c', 3), ('ppo', 3)], 0.1)
    """
    policies = space.descriptions.policies
    names, grouping = group_names(policies, groups)
    rows = rows_of_runs(policies, names, last)
    if len(rows) > MOST_POLICIES:
        raise UsageError(
            f"expected at most {MOST_POLICIES} policies in groups, but there are {len(rows)}: use "
            "only the last checkpoints of each run"
        )
    method, described = space.method, space.descriptions.select(rows)
    distances = raw = method.distances(described)
    if intervals is not None:
        distances = np.asarray(intervals.distance[_block(rows, rows)])
    elif "influences" in described.arrays:
        distances = without_noise(method, described, raw)
    elif not method.traits.exact:
        warnings.warn(
            "distances of these groups include sampling noise: the policies were described without "
            "the influence of each episode",
            PivecWarning,
            stacklevel=3,
        )
    runs = tuple(dict.fromkeys(described.groups))
    shares = shares_of([runs.index(run) for run in described.groups])
    # Distances between the mean behaviours of runs, and means between policies of different runs:
    # in squares, with the noise that was subtracted from them.
    power = 1 if method.traits.squared else 2
    squares, noise = distances**power, raw**power - distances**power
    between, between_noise = (run_distances(x, shares) for x in (squares, noise))
    others = 1.0 - np.eye(len(runs))
    means, means_noise = (others * (shares @ x @ shares.T) for x in (squares, noise))
    margin = margin or method.traits.margin
    largest = method.traits.max_distance or math.inf
    members: dict[str, list[int]] = {}
    for number, run in enumerate(runs):
        members.setdefault(names[run], []).append(number)

    def distance(estimate: Estimate) -> Estimate:
        """Turn a mean of squares into a distance, at least 0 and at most the largest there is."""
        ends = vars(estimate).values()
        return Estimate(*(min(max(end, 0.0) ** (1.0 / power), largest) for end in ends))

    means_of = {"return": described.mean_returns}
    means_of |= {name: np.asarray(values)[rows] for name, values in (outcomes or {}).items()}
    by_run = {name: shares @ values for name, values in means_of.items()}

    def group(name: str, own: list[int]) -> RunGroup:
        at = _block(own, own)
        policies = np.flatnonzero(shares[own].any(axis=0))
        apart = np.maximum(distances[_block(policies, policies)], 0.0)
        behaviours = Estimate(math.nan)
        if margin is not None:
            own_shares = shares[_block(own, policies)]
            behaviours = effective_number(np.exp(-apart / margin), own_shares, level)
        return RunGroup(
            name,
            tuple(runs[k] for k in own),
            len(policies),
            distance(mean_within(between[at], between_noise[at], level)),
            distance(mean_within(means[at], means_noise[at], level)),
            behaviours,
            {
                outcome: Estimate(*outcome_intervals(values[own], rate=False, level=level))
                for outcome, values in by_run.items()
                if not np.isnan(values[own]).all()
            },
        )

    def test(*groups: list[int]) -> Permanova | None:
        chosen = [run for own in groups for run in own]
        if not 1 < len(groups) < len(chosen):
            return None
        numbers = [number for number, own in enumerate(groups) for _ in own]
        at = _block(chosen, chosen)
        return permanova(between[at], numbers, seed=seed, noise=between_noise[at])

    def pair(a: str, b: str) -> GroupPair:
        at = _block(members[a], members[b])
        apart = mean_between(between[at], between_noise[at], level)
        return GroupPair((a, b), distance(apart), test(members[a], members[b]))

    left_out = {info.group or info.label for info in policies if info.group not in names}
    return GroupComparison(
        groups=tuple(group(name, own) for name, own in members.items()),
        pairs=tuple(pair(a, b) for a, b in combinations(members, 2)),
        test=test(*members.values()),
        grouping=grouping,
        left_out=tuple(sorted(left_out, key=natural_key)),
        last=last,
        margin=margin,
        level=level,
        runs=runs,
        run_distances=tuple(
            tuple(distance(Estimate(square)).value for square in row) for row in between.tolist()
        ),
    )


def _block(rows: ArrayLike, columns: ArrayLike) -> Any:
    return np.ix_(np.asarray(rows), np.asarray(columns))


def groups_in(
    space: Space,
    intervals: Intervals | None,
    margin: float | None = None,
    outcomes: Mapping[str, Array] | None = None,
) -> GroupComparison | None:
    """Compare groups of runs found by name or algorithm; None if there are fewer than two."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PivecWarning)  # measuring has warned
        try:
            result = compare_groups(space, intervals=intervals, margin=margin, outcomes=outcomes)
        except UsageError:  # no runs, or none that belong together
            return None
    return result if len(result.groups) > 1 else None


def permanova_sentence(test: Permanova | None) -> str:
    """Return the result of a test of groups as one sentence."""
    if test is None:
        return "Too few runs for a test of the difference"
    least = f"; with this few runs, p cannot fall below {rounded(test.least_p, 2)}"
    return (
        f"Groups explain {100 * test.r2:.0f} % of the variance between runs "
        f"({100 * test.chance_r2:.0f} % by chance), p = {rounded(test.p_value, 2)}"
        f"{least if test.least_p > 0.01 else ''}"
    )


def _p_value(pair: GroupPair) -> str:
    if pair.test is None:
        return "–"
    least = f" (min. {rounded(pair.test.least_p, 2)})" if pair.test.least_p > 0.01 else ""
    return f"{rounded(pair.test.p_value, 2)}{least}"


def with_interval(estimate: Estimate) -> str:
    """Format a number with its interval.

    Examples
    --------
    >>> with_interval(Estimate(0.12345, 0.1, 0.2)), with_interval(Estimate(2.0))
    ('0.12 (0.1 to 0.2)', '2')
    """
    value, low, high = (rounded(x, 2) for x in (estimate.value, estimate.low, estimate.high))
    return value if math.isnan(estimate.low) else f"{value} ({low} to {high})"


def _estimate(title: str, name: str) -> Column:
    number = Column.number(title, f"{name}.value")
    return number._replace(text=lambda row: with_interval(getattr(row, name)))


GROUP_COLUMNS = (
    Column("Group", lambda group: group.name, right=False),
    Column("Runs", lambda group: shortened(", ".join(group.runs), 200), right=False),
    Column.number("Policies", "n_policies", thousands),
    _estimate("Run distance", "distance"),
    _estimate("Policy distance", "policy_distance"),
    _estimate("Diversity", "behaviours"),
)


def group_columns(result: GroupComparison) -> list[Column]:
    """Columns of the table of groups, with those of the outcomes that are known."""

    def column(name: str) -> Column:
        unknown = Estimate(math.nan)
        return Column(
            capitalized(name), lambda group: with_interval(group.outcomes.get(name, unknown))
        )

    names = dict.fromkeys(name for group in result.groups for name in group.outcomes)
    return [*GROUP_COLUMNS, *map(column, names)]


PAIR_COLUMNS = (
    Column("Groups", lambda pair: " and ".join(pair.groups), right=False),
    _estimate("Run distance", "distance"),
    Column("Explained", lambda pair: f"{100 * pair.test.r2:.0f} %" if pair.test else "–"),
    Column("By chance", lambda pair: f"{100 * pair.test.chance_r2:.0f} %" if pair.test else "–"),
    Column("p", _p_value),
)


def print_groups(result: GroupComparison) -> None:
    """Print which runs are in which group, how diverse each is, and whether groups differ."""
    last = f"; last {n_policies(result.last)} of each run" if result.last else ""
    say(f"Groups of runs, {result.grouping}{last}:")
    for group in result.groups:
        say(f"  {group.name}: {shortened(', '.join(group.runs), 200)}")
    if result.left_out:
        say(f"  in no group: {shortened(', '.join(result.left_out), 200)}")
    columns = [column for column in group_columns(result) if column.title != "Runs"]
    print_table(columns, result.groups)
    if result.pairs:
        print_table(PAIR_COLUMNS, result.pairs)
    if result.test is not None:
        say(result.headline())
        say(permanova_sentence(result.test))
    else:
        say("No test: it needs two groups, at least one of them with several runs")
    if any(math.isnan(group.distance.low) for group in result.groups):
        say("Intervals are over runs and need three runs per group (two between groups)")
