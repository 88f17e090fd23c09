"""What the runs of one group have in common and those of another do not; runs are the samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, compress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.characterizations import Descriptions
from pivec.errors import UsageError, did_you_mean
from pivec.explanations.differences import (
    MIN_DIFFERENCE,
    Difference,
    FeatureTimes,
    Level,
    welch,
    worth_listing,
)
from pivec.explanations.folder import ComparisonFolder
from pivec.policies import Patterns, PolicyInfo, group_names, natural_key, rows_of_runs
from pivec.results import Explanation, Row
from pivec.statistics import adjusted_intervals, permuted_divisions, share_as_large, shares_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
_MAX_DIVISIONS = 20_000  # that are all tried; of more, some are drawn
_DRAWN = 999


@dataclass(frozen=True, repr=False, eq=False)
class GroupExplanation(Explanation):
    """Where the runs of two groups spend their time; made by `explain_groups`.

    A run is the mean of its checkpoints. Intervals and q-values are about other runs of the same
    kind; they are NaN if a group has a single run.
    """

    groups: tuple[str, str]
    runs: tuple[tuple[str, ...], tuple[str, ...]]
    grouping: str  # how the groups were formed
    left_out: tuple[str, ...]  # runs and policies in neither group
    last: int | None  # number of last checkpoints per run that were used; None for all
    level: float
    method: str
    environment: str
    features: tuple[Difference, ...]  # the best span of each feature, largest difference first
    regions: tuple[Difference, ...]  # all of them, largest part of the distance first
    notes: tuple[str, ...]  # assumptions

    @property
    def least_p(self) -> float:
        """The smallest p-value that permutations of so few runs can give."""
        n, m = map(len, self.runs)
        return (2.0 if n == m else 1.0) / math.comb(n + m, n)

    @property
    def leading(self) -> list[Difference]:
        """Significant or complete separations of the groups: features first, then regions."""
        large = [d for d in self.features + self.regions if abs(d.size) >= MIN_DIFFERENCE]
        return [d for d in large if d.significant or d.separation]

    def shown(self, features: int, regions: int) -> list[Difference]:
        """Choose what is shown: what distinguishes the groups, or else what differs most."""
        leading = self.leading or [*self.features, *self.regions]
        own = [d for d in leading if d.region is None][:features]
        return own + [d for d in leading if d.region is not None][: features + regions - len(own)]

    def headline(self) -> str:
        """Say what distinguishes the two groups most."""
        if not self.leading:
            return "nothing distinguishes the runs of {} from those of {}".format(*self.groups)
        sentence = self.leading[0].sentence(self.groups)
        if any(d.significant for d in self.leading):
            return sentence
        return f"{sentence}; with {len(self.runs[0])} and {len(self.runs[1])} runs it may be chance"

    def caveats(self) -> list[str]:
        """Say what these numbers do not show."""
        sizes = [len(runs) for runs in self.runs]
        if min(sizes) < 2:
            alone = " and of ".join(g for g, n in zip(self.groups, sizes, strict=True) if n < 2)
            return [f"no test and no intervals: there is a single run of {alone}"]
        result = []
        large = [d for d in self.regions if abs(d.size) >= MIN_DIFFERENCE]
        if separate := sum(d.separation != 0 for d in large):
            chance = 2.0 * len(large) / math.comb(sum(sizes), sizes[0])
            regions = "1 region" if separate == 1 else f"{separate} regions"
            result.append(
                f"in {regions} all runs of one group spend more time than those of the other; "
                f"chance alone gives about {chance:.2g} such regions"
            )
        if not any(d.significant for d in self.leading):
            result.append(
                f"no difference is significant with {sizes[0]} and {sizes[1]} runs"
                + (f" (p cannot fall below {self.least_p:.2g})" if self.least_p > 0.01 else "")
            )
        return result

    def rows(self) -> list[Row]:
        """Return one row per feature, then one per region, most important first."""
        a, b = self.groups
        return [
            {
                "region": d.region,
                "where": d.where,
                "part": d.part,
                f"time {a}": d.values[0],
                f"time {b}": d.values[1],
                "difference": d.size,
                "low": d.low,
                "high": d.high,
                "q": d.q_value,
                "always more": ("", b, a)[d.separation],
            }
            for d in self.features + self.regions
        ]

    def figure(self) -> Figure:
        from pivec.explanations.plots import groups_figure

        return groups_figure(self)

    def to_json(self) -> dict[str, Any]:
        sentences = [d.sentence(self.groups) for d in self.leading]
        return super().to_json() | {"caveats": self.caveats(), "sentences": sentences}


@checked
def explain_groups(
    comparison: Any,
    groups: Patterns | Sequence[str] | None = None,
    *,
    last: Count | None = None,
    level: Level = 0.95,
) -> GroupExplanation:
    """Explain what all runs of one group do and those of another do not.

    Parameters
    ----------
    comparison : path, Comparison or ComparisonFolder
    groups : mapping or two names, optional
        Maps the name of a group to one or more patterns of run names: ``{"ppo": "ppo-*"}``; or the
        names of two of the groups defined by the names of the runs, which is the default.
    last : int, optional
        Use only the last checkpoints of each run; all by default.
    level : float
        Confidence level of the intervals over runs (Welch's).

    Examples
    --------
    >>> from pathlib import Path
    >>> import pivec
    >>> rng = np.random.default_rng(0)
    >>> runs = ["ppo-0", "ppo-1", "ppo-2", "a2c-0", "a2c-1", "a2c-2"]
    >>> walks = [[rng.normal(3 * (run[0] == "p"), 1, (20, 1)) for _ in range(9)] for run in runs]
    >>> data = pivec.VisitedStates.from_arrays(walks, groups=runs)
    >>> method = pivec.characterization("visitation", n_components=2).fit(data)
    >>> space = pivec.Space(method, method.describe(data))
    >>> result = explain_groups(ComparisonFolder(Path(), space, data))
    >>> result.groups, len(result.leading) > 0
    (('a2c', 'ppo'), True)
    """
    opened = ComparisonFolder.open(comparison)
    policies, method = opened.policies, opened.background
    names, grouping = _two_groups(policies, groups)
    first, second = dict.fromkeys(names.values())
    rows = rows_of_runs(policies, names, last)
    rows.sort(key=lambda i: names[policies[i].group] != first)
    described = opened.space.descriptions.select(rows)
    runs = list(dict.fromkeys(described.groups))
    n = sum(names[run] == first for run in runs)
    weights = shares_of([runs.index(run) for run in described.groups])
    features: tuple[Difference, ...] = ()
    notes = []
    if opened.has_states(described.labels):
        states = opened.states.select(described.labels)
        times = FeatureTimes(method.view(states), opened.columns, method.traits.by_state)
        features = _by_feature(times, weights, n, level)
    else:
        notes.append(
            "the states are not stored here: differences are given by region, not by feature"
        )
    left_out = {info.group or info.label for info in policies if info.group not in names}
    return GroupExplanation(
        (first, second),
        (tuple(runs[:n]), tuple(runs[n:])),
        grouping,
        tuple(sorted(left_out, key=natural_key)),
        last,
        level,
        method.name,
        opened.environment,
        features,
        _by_region(opened, described, weights, n, level),
        (*notes, *opened.fit_notes()),
    )


def _two_groups(
    policies: Sequence[PolicyInfo], groups: Patterns | Sequence[str] | None
) -> tuple[dict[str, str], str]:
    """Return the group of each run, of two groups, the first one first; and how they are formed."""
    names, grouping = group_names(policies, groups if isinstance(groups, Mapping) else None)
    known = sorted(set(names.values()), key=natural_key)
    wanted = list(groups) if groups else known
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"there is no group {name!r}{did_you_mean(name, known)}: the names of the runs "
                f"define {', '.join(known)}; specify its runs, as in {name}='{name}-*'"
            )
    if len(wanted) != 2:
        raise UsageError(
            f"expected two groups of runs, but there {'are' if len(wanted) > 1 else 'is'} "
            f"{len(wanted)} ({', '.join(wanted)}): choose two, as in --group ppo='ppo-*' --group "
            "a2c='a2c-*'"
        )
    return {run: names[run] for name in wanted for run in names if names[run] == name}, grouping


def _difference(
    where: str, region: int | None, times: Array, n: int, *numbers: Array, part: float = math.nan
) -> Difference:
    """Make a difference of shares of time: of runs, of which the first n are the first group.

    The numbers are the ends of its interval and its q-value.
    """
    low, high, q_value = map(float, numbers)
    means = float(times[:n].mean()), float(times[n:].mean())
    runs = tuple(times[:n].tolist()), tuple(times[n:].tolist())
    return Difference(where, region, means, low, high, part, runs=runs, q_value=q_value)


def _by_region(
    comparison: ComparisonFolder, described: Descriptions, weights: Array, n: int, level: float
) -> tuple[Difference, ...]:
    """Compare all regions, largest part first; of several fits, those of the first.

    ``weights``, (runs, policies), average policies to runs; the first n are the first group.
    """
    counts, points = described.values("counts", "points")
    n_fits, own = comparison.n_fits, slice(0, counts.shape[1] // comparison.n_fits)
    # The shares of each fit sum to 1, and each has its share of the distance.
    shares = (weights @ (n_fits * counts / counts.sum(axis=1, keepdims=True)))[:, own]
    runs = (weights @ points).reshape(len(weights), counts.shape[1], -1)
    squares = (runs[:n].mean(axis=0) - runs[n:].mean(axis=0)) ** 2
    for group in (runs[:n], runs[n:]):
        if len(group) > 1:  # without what the variance of runs adds
            squares = squares - group.var(axis=0, ddof=1) / len(group)
    whole = float(squares.sum())
    parts = n_fits * (squares.sum(axis=1) / (whole if whole > 0 else 1.0))[own]
    low, high, p_values = welch(shares[:n], shares[n:], level)
    q_values, low, high = adjusted_intervals(p_values, low, high)
    numbers = np.stack([low, high, q_values], axis=1)
    return tuple(
        _difference(
            comparison.region_names[r], r, shares[:, r], n, *numbers[r], part=float(parts[r])
        )
        for r in np.argsort(-parts, kind="stable").tolist()
    )


def _by_feature(
    times: FeatureTimes, weights: Array, n: int, level: float
) -> tuple[Difference, ...]:
    """Compare the spans of features in which two groups differ most, largest difference first.

    A span is the best of many: its p-value is how often it is as good when runs are exchanged
    between the groups.
    """
    m = len(weights) - n
    scales = np.where(_divisions(n, n + m), 1.0 / n, -1.0 / m)
    found, p_values = [], []
    for span, policies in times.best_spans(weights[:n].mean(axis=0), weights[n:].mean(axis=0)):
        exchanged = np.pad(scales @ (weights @ times.below[span.feature]), ((0, 0), (1, 0)))
        sizes = exchanged.max(axis=1) - exchanged.min(axis=1)
        p_values.append(math.nan if min(n, m) < 2 else share_as_large(sizes))
        found.append((span, weights @ policies))
    result = []
    ends = [welch(runs[:n], runs[n:], level)[:2] for _, runs in found]
    numbers = adjusted_intervals(p_values, *np.reshape(ends, (-1, 2)).T)
    for (span, runs), q_value, low, high in zip(found, *numbers, strict=True):
        where = span.describe(times.features)
        result.append(_difference(where, None, runs, n, low, high, q_value))
    features = [times.features[span.feature] for span, _ in found]
    kept = worth_listing([difference.size for difference in result], features)
    return tuple(sorted(compress(result, kept), key=lambda difference: -abs(difference.size)))


def _divisions(n: int, total: int) -> NDArray[np.bool_]:
    """Return the ways to divide runs into two groups of these sizes, the true one first."""
    if math.comb(total, n) > _MAX_DIVISIONS:
        return permuted_divisions(n, total - n, _DRAWN, np.random.default_rng(0))
    chosen = np.array(list(combinations(range(total), n)))
    result = np.zeros((len(chosen), total), dtype=bool)
    np.put_along_axis(result, chosen, True, axis=1)
    return result
