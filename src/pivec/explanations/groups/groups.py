"""What all runs of a group share that those of another do not; runs are the samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Range, checked
from pivec.characterizations.descriptions import Descriptions
from pivec.distances.groups import shares_of
from pivec.errors import UsageError, did_you_mean
from pivec.explanations.folder import Findings
from pivec.explanations.groups.contrasts import LEAST, Contrast, feature_contrasts, region_contrasts
from pivec.explanations.worded import Worded
from pivec.policies.grouping import Patterns, group_names, rows_of_runs
from pivec.policies.paths import natural_key
from pivec.policies.policy import PolicyInfo
from pivec.results import Result, Row, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False, eq=False)
class GroupDifference(Result):
    """Where the runs of two groups spend their time; made by `explain_groups`.

    A run is the mean of its checkpoints. Intervals and q-values are about other runs of the same
    kind; they are NaN where a group has a single run.
    """

    groups: tuple[str, str]
    runs: tuple[tuple[str, ...], tuple[str, ...]]
    grouping: str  # how the groups came about
    left_out: tuple[str, ...]  # runs and policies that are in neither
    last: int | None  # so many checkpoints of each run, the last, were looked at; all if None
    level: float
    method: str
    environment: str
    features: tuple[Contrast, ...]  # the best span of each feature, the largest difference first
    regions: tuple[Contrast, ...]  # all of them, the largest part of the distance first
    notes: tuple[str, ...]  # what had to be assumed

    @property
    def least_p(self) -> float:
        """The smallest p-value that so few runs can give when they are exchanged."""
        n, m = map(len, self.runs)
        return (2.0 if n == m else 1.0) / math.comb(n + m, n)

    @property
    def leading(self) -> list[Contrast]:
        """What sets the groups apart, by a test or completely: features first, then regions."""
        return [c for c in self.features + self.regions if c.sure or c.apart]

    def headline(self) -> str:
        """Say what sets the two groups apart most."""
        if not self.leading:
            return "nothing sets the runs of {} apart from those of {}".format(*self.groups)
        words = self.leading[0].sentence(self.groups)
        sizes = " and ".join(str(len(runs)) for runs in self.runs)
        chance = (
            "" if any(c.sure for c in self.leading) else f"; with {sizes} runs it may be chance"
        )
        return words + chance

    def caveats(self) -> list[str]:
        """Say what these numbers do not tell."""
        sizes = [len(runs) for runs in self.runs]
        if min(sizes) < 2:
            alone = " and of ".join(g for g, n in zip(self.groups, sizes, strict=True) if n < 2)
            words = f"there is a single run of {alone}, which does not tell how such runs differ"
            return [f"no test and no intervals: {words}"]
        result = []
        worth = [c for c in self.regions if abs(c.difference) >= LEAST]
        apart = sum(c.apart != 0 for c in worth)
        chance = 2.0 * len(worth) / math.comb(sum(sizes), sizes[0])
        if apart:
            regions = "1 region" if apart == 1 else f"{apart} regions"
            result.append(
                f"in {regions} all runs of one group are more often than those of the other; "
                f"chance alone gives about {chance:.2g} such regions"
            )
        if not any(c.sure for c in self.features + self.regions):
            result.append(
                f"no difference is beyond what chance gives with {sizes[0]} and {sizes[1]} runs"
                + (f" (p is {self.least_p:.2g} at least)" if self.least_p > 0.01 else "")
            )
        return result

    def rows(self) -> list[Row]:
        """Give a row a feature, then a row a region, what matters most first."""
        a, b = self.groups
        return [
            {
                "region": contrast.region,
                "where": contrast.where,
                "part": contrast.part,
                f"time {a}": contrast.means[0],
                f"time {b}": contrast.means[1],
                "difference": contrast.difference,
                "low": contrast.low,
                "high": contrast.high,
                "q": contrast.q_value,
                "apart": ("", a, b)[contrast.apart],
            }
            for contrast in self.features + self.regions
        ]

    def figure(self) -> Figure:
        """Draw the runs of both groups where they differ most."""
        from pivec.explanations.groups.figure import groups_figure

        return groups_figure(self)

    def to_json(self) -> dict[str, Any]:
        """Give all of it as strict JSON can hold it: what is not known is None."""
        return {
            "headline": self.headline(),
            "caveats": self.caveats(),
            "sentences": [contrast.sentence(self.groups) for contrast in self.leading],
            **{name: plain(value) for name, value in vars(self).items()},
        }


@checked
def explain_groups(
    where: Any,
    groups: Patterns | Sequence[str] | None = None,
    *,
    last: Count | None = None,
    level: Annotated[float, Range(0.0, most=1.0)] = 0.95,
) -> GroupDifference:
    """Tell what all runs of a group do that those of another do not.

    Parameters
    ----------
    where : path or Comparison
        A folder of `pivec.compare`, or what it returned.
    groups : mapping or two names, optional
        Name of a group -> pattern of its runs' names, or several: ``{"ppo": "ppo-*"}``; or the
        names of two of the groups that the names of the runs tell, which are taken if nothing is
        given.
    last : int, optional
        Look at so many checkpoints of each run, the last ones; at all if not given.
    level : float
        Of the intervals, which are about other runs (Welch's).

    Returns
    -------
    GroupDifference

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
    >>> result = explain_groups(Findings(Path(), space, data))
    >>> result.groups, len(result.leading) > 0
    (('a2c', 'ppo'), True)
    """
    findings = Findings.open(where)
    policies = findings.policies
    names, grouping = _two_groups(policies, groups)
    first, second = dict.fromkeys(names.values())
    rows = rows_of_runs(policies, names, last)
    rows.sort(key=lambda i: names[policies[i].group] != first)
    described = findings.space.descriptions.select(rows)
    runs = list(dict.fromkeys(described.groups))
    n = sum(names[run] == first for run in runs)
    features, regions = _contrasts(findings, described, n, level)
    left_out = {info.group or info.label for info in policies if info.group not in names}
    notes = []
    if features is None:
        notes.append("the states are not here: what differs is told by region, not by feature")
    if (n_fits := findings.background._n_fits) > 1:
        notes.append(f"regions are those of the first of {n_fits} fits of the background")
    return GroupDifference(
        (first, second),
        (tuple(runs[:n]), tuple(runs[n:])),
        grouping,
        tuple(sorted(left_out, key=natural_key)),
        last,
        level,
        findings.background.name,
        str(findings.space.collected.get("environment", "")),
        tuple(features or ()),
        tuple(regions),
        tuple(notes),
    )


def _contrasts(
    findings: Findings, described: Descriptions, n_first: int, level: float
) -> tuple[list[Contrast] | None, list[Contrast]]:
    """Hold the first runs against the others: by features if there are states, and by regions."""
    method, worded = findings.background, Worded.of(findings)
    runs = list(dict.fromkeys(described.groups))
    weights = shares_of([runs.index(run) for run in described.groups])
    counts, n_fits = described.values("counts")[0], method._n_fits
    # Of several fits side by side, each has all of the time; the first is told.
    own = slice(0, counts.shape[1] // n_fits)
    shares = (weights @ (n_fits * counts / counts.sum(axis=1, keepdims=True)))[:, own]
    parts = n_fits * _parts(described, weights, n_first, counts.shape[1])[own]
    regions = region_contrasts(worded.regions, shares[:n_first], shares[n_first:], parts, level)
    kept = () if findings.data is None else findings.data.labels
    if not set(described.labels) <= set(kept):
        return None, regions
    states = findings.states.select(described.labels)
    by_state = method.by_state
    return feature_contrasts(states, worded.features, weights, n_first, level, by_state), regions


def _two_groups(
    policies: Sequence[PolicyInfo], groups: Patterns | Sequence[str] | None
) -> tuple[dict[str, str], str]:
    """Give the groups of runs of which there are two, the first one first."""
    patterns = groups if isinstance(groups, Mapping) else None
    names, grouping = group_names(policies, patterns)
    known = sorted(set(names.values()), key=natural_key)
    wanted = list(groups) if groups else known
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"there is no group {name!r}{did_you_mean(name, known)}: the names of the runs "
                f"tell {', '.join(known)}; say which runs belong to it, as in {name}='{name}-*'"
            )
    if len(wanted) != 2:
        raise UsageError(
            f"expected two groups of runs, but there {'are' if len(wanted) > 1 else 'is'} "
            f"{len(wanted)} ({', '.join(wanted)}): choose two, as in --group ppo='ppo-*' --group "
            "a2c='a2c-*'"
        )
    order = {name: number for number, name in enumerate(wanted)}
    chosen = sorted((run for run in names if names[run] in order), key=lambda r: order[names[r]])
    return {run: names[run] for run in chosen}, grouping


def _parts(described: Descriptions, weights: Array, n_first: int, n_regions: int) -> Array:
    """Shares of the squared distance of two mean behaviours, less what the scatter of runs adds."""
    points = (weights @ described.values("points")[0]).reshape(len(weights), n_regions, -1)
    a, b = points[:n_first], points[n_first:]
    parts = (a.mean(axis=0) - b.mean(axis=0)) ** 2
    for side in (a, b):
        if len(side) > 1:
            parts = parts - side.var(axis=0, ddof=1) / len(side)
    whole = float(parts.sum())
    return np.asarray(parts.sum(axis=1) / whole if whole > 0 else parts.sum(axis=1))
