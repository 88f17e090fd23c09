"""What all runs of a group share that those of another do not; runs are the samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Range, checked
from pivec.characterizations import Descriptions
from pivec.errors import UsageError, did_you_mean
from pivec.explanations.changes import best_span, edges_of, times_below, wrapped
from pivec.explanations.folder import ComparisonFolder, Worded
from pivec.explanations.names import Feature
from pivec.figures import (
    HAIRLINE,
    INK,
    MUTED,
    add_heading,
    axes_at,
    group_colours,
    literal,
    new_figure,
)
from pivec.policies import Patterns, PolicyInfo, group_names, natural_key, rows_of_runs
from pivec.results import Result, Row, plain
from pivec.states import VisitedStates
from pivec.statistics import RATE, benjamini_hochberg, share_as_large, shares_of, sides
from pivec.text import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# -----------------------------------------------------------------------------
# Contrasts of two groups of runs: where those of one spend more time than those of the other.


Array = NDArray[np.float64]
LEAST = 0.01  # a difference of shares of time that is worth telling
_MOST_DIVISIONS = 20_000  # up to so many, all are tried
_DRAWN = 999


@dataclass(frozen=True)
class Contrast:
    """The time that the runs of two groups spend somewhere."""

    where: str  # in words
    region: int | None  # None where it is a span of a feature
    times: tuple[tuple[float, ...], tuple[float, ...]]  # shares of time of all runs
    difference: float  # of the means, first less second, with its interval
    low: float
    high: float
    q_value: float
    part: float  # of the squared distance of the mean behaviours; NaN of a span

    @property
    def means(self) -> tuple[float, float]:
        """Shares of time of both groups."""
        a, b = (sum(times) / len(times) for times in self.times)
        return a, b

    @property
    def apart(self) -> int:
        """1 if all runs of the first group are there more than all of the second, or −1; or 0."""
        a, b = self.times
        if abs(self.difference) < LEAST:
            return 0
        return int(min(a) > max(b)) - int(max(a) < min(b))

    @property
    def sure(self) -> bool:
        """Whether chance does not explain it."""
        return abs(self.difference) >= LEAST and self.q_value <= RATE

    def sentence(self, groups: tuple[str, str]) -> str:
        """Say it.

        Examples
        --------
        >>> unknown = 4 * (math.nan,)
        >>> Contrast("x above 2", 3, ((0.0, 0.04), (0.35, 0.22)), -0.265, *unknown).sentence(
        ...     ("a2c", "ppo"))
        'both runs of ppo are more often where x above 2 than any of a2c: 22 to 35 % against 0 to
        4.0 % of the time'
        """
        more = int(self.difference < 0)
        a, b = groups[more], groups[1 - more]
        most, least = self.times[more], self.times[1 - more]
        if not self.apart:
            means = f"{percent(self.means[more])} against {percent(self.means[1 - more])}"
            return f"{a} is more often where {self.where} than {b}: {means} of the time on average"
        all_runs = {1: "the run of {} is", 2: "both runs of {} are"}
        runs = all_runs.get(len(most), f"all {len(most)} runs of {{}} are").format(a)
        others = f"any of {b}" if len(least) > 1 else f"that of {b}"
        times = f"{written(most)} against {written(least)}"
        return f"{runs} more often where {self.where} than {others}: {times} of the time"


def written(times: Sequence[float]) -> str:
    """Write from where to where shares go.

    Examples
    --------
    >>> written([0.351, 0.22]), written([0.5])
    ('22 to 35 %', '50 %')
    """
    low, high = percent(min(times)), percent(max(times))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def welch(a: Array, b: Array, level: float = 0.95) -> tuple[Array, Array, Array, Array]:
    """Differences of mean shares in columns, from where to where they may lie, and p-values.

    Rows are samples, of two kinds, which may scatter differently (Welch 1947). Columns without any
    scatter are not tested; with a single row on a side nothing is.

    Examples
    --------
    >>> a, b = np.array([[0.5, 0.0], [0.7, 0.0]]), np.array([[0.1, 0.0], [0.2, 0.0]])
    >>> difference, low, high, p = welch(a, b)
    >>> difference.round(2), low.round(2), high.round(2), p.round(3)
    (array([0.45, 0.  ]), array([-0.24,  0.  ]), array([1., 0.]), array([0.092,   nan]))
    """
    from scipy.stats import t

    difference = a.mean(axis=0) - b.mean(axis=0)
    unknown = np.full_like(difference, np.nan)
    if min(len(a), len(b)) < 2:
        return difference, unknown, unknown, unknown
    errors = [side.var(axis=0, ddof=1) / len(side) for side in (a, b)]
    error = np.sqrt(errors[0] + errors[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = error**4 / sum(e**2 / (len(s) - 1) for e, s in zip(errors, (a, b), strict=True))
        p_value = 2.0 * t.sf(np.abs(difference) / error, freedom)
    reach = np.where(error > 0, t.ppf((1.0 + level) / 2.0, freedom) * error, 0.0)
    low, high = np.maximum(difference - reach, -1.0), np.minimum(difference + reach, 1.0)
    return difference, low, high, p_value


def region_contrasts(
    words: Sequence[str], a: Array, b: Array, parts: Array, level: float
) -> list[Contrast]:
    """Contrasts of all regions, from shares of time of runs, (runs, R), the largest part first."""
    *ends, p_value = welch(a, b, level)
    columns = zip(*(x.tolist() for x in (*ends, benjamini_hochberg(p_value), parts)), strict=True)
    numbers = [list(column) for column in columns]
    return [
        Contrast(words[r], r, (tuple(a[:, r].tolist()), tuple(b[:, r].tolist())), *numbers[r])
        for r in np.argsort(-parts, kind="stable").tolist()
    ]


def feature_contrasts(
    data: VisitedStates,
    features: Sequence[Feature],
    weights: Array,
    n_first: int,
    level: float,
    by_state: bool,
) -> list[Contrast]:
    """Contrasts of the spans of features in which two groups differ most, the largest first.

    ``weights``, (runs, policies), make runs of the policies of ``data``; the first ``n_first`` runs
    are the first group. A span is the best of many: its p-value is how often it is as good when
    runs are exchanged between the groups.
    """
    edges = edges_of(data)
    below = times_below(data, edges, by_state)
    divided = _divisions(n_first, len(weights))
    scales = np.where(divided, 1.0 / n_first, -1.0 / (len(weights) - n_first))
    spans, p_values = [], []
    for j, cuts in enumerate(edges):
        if not len(cuts):
            continue
        runs = weights @ below[j]
        span, i, k = best_span(j, cuts, runs[n_first:].mean(axis=0), runs[:n_first].mean(axis=0))
        ends = np.pad(runs, ((0, 0), (1, 1)), constant_values=((0, 0), (0.0, 1.0)))
        spans.append((span.words(features), ends[:, k] - ends[:, i]))
        apart = np.pad(scales @ runs, ((0, 0), (1, 0)))
        sizes = apart.max(axis=1) - apart.min(axis=1)
        alone = min(n_first, len(weights) - n_first) < 2  # which tells nothing of other runs
        p_values.append(math.nan if alone else share_as_large(sizes))
    q_values = benjamini_hochberg(p_values).tolist()
    result = []
    for (words, times), q_value in zip(spans, q_values, strict=True):
        a, b = times[:n_first], times[n_first:]
        difference, low, high, _ = (float(x[0]) for x in welch(a[:, None], b[:, None], level))
        both = tuple(a.tolist()), tuple(b.tolist())
        result.append(Contrast(words, None, both, difference, low, high, q_value, math.nan))
    return sorted(result, key=lambda contrast: -abs(contrast.difference))


def _divisions(n: int, total: int) -> NDArray[np.bool_]:
    """Give the ways to divide runs into two groups of these sizes, the true one first."""
    if math.comb(total, n) > _MOST_DIVISIONS:
        return sides(n, total - n, _DRAWN, np.random.default_rng(0))
    chosen = np.array(list(combinations(range(total), n)))
    result = np.zeros((len(chosen), total), dtype=bool)
    np.put_along_axis(result, chosen, True, axis=1)
    return result


@dataclass(frozen=True, repr=False, eq=False)
class GroupExplanation(Result):
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
) -> GroupExplanation:
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
    GroupExplanation

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
    findings = ComparisonFolder.open(where)
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
    if (n_fits := findings.background.n_fits) > 1:
        notes.append(f"regions are those of the first of {n_fits} fits of the background")
    return GroupExplanation(
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
    findings: ComparisonFolder, described: Descriptions, n_first: int, level: float
) -> tuple[list[Contrast] | None, list[Contrast]]:
    """Hold the first runs against the others: by features if there are states, and by regions."""
    method, worded = findings.background, Worded.of(findings)
    runs = list(dict.fromkeys(described.groups))
    weights = shares_of([runs.index(run) for run in described.groups])
    counts, n_fits = described.values("counts")[0], method.n_fits
    # Of several fits side by side, each has all of the time; the first is told.
    own = slice(0, counts.shape[1] // n_fits)
    shares = (weights @ (n_fits * counts / counts.sum(axis=1, keepdims=True)))[:, own]
    parts = n_fits * _parts(described, weights, n_first, counts.shape[1])[own]
    regions = region_contrasts(worded.regions, shares[:n_first], shares[n_first:], parts, level)
    kept = () if findings.data is None else findings.data.labels
    if not set(described.labels) <= set(kept):
        return None, regions
    states = findings.states.select(described.labels)
    by_state = method.traits.by_state
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


# -----------------------------------------------------------------------------
# The picture of two groups of runs: a dot a run, where the groups differ most.


_FEATURES, _REGIONS = 4, 6
_LEFT, _WIDTH, _ROW, _TOP, _BOTTOM = 3.6, 6.2, 0.58, 0.95, 0.66


def groups_figure(result: GroupExplanation) -> Figure:
    """Draw the shares of time of all runs, feature by feature and region by region."""
    rows = leading_contrasts(result, _FEATURES, _REGIONS)
    blocks = [[c for c in rows if (c.region is None) == spans] for spans in (True, False)]
    blocks = [block for block in blocks if block]
    height = _TOP + sum(_BOTTOM + _ROW * len(block) for block in blocks)
    figure = new_figure(_LEFT + _WIDTH + 0.4, height)
    a, b = result.groups
    title = f"Where runs of {a} and of {b} spend their time"
    add_heading(figure, f"{title} in {result.environment}" if result.environment else title)
    colours = group_colours(2)
    width = figure.get_figwidth()
    x = 0.28
    for name, runs, colour in zip(result.groups, result.runs, colours, strict=True):
        shown = literal(f"● {name} ({len(runs)} {'runs' if len(runs) > 1 else 'run'})", 40)
        figure.text(x / width, 1 - 0.52 / height, shown, va="top", fontsize=10, color=colour)
        x += 0.3 + 0.075 * len(shown)
    words = "a dot is a run, a line the mean; ✱ beyond chance"
    figure.text(x / width, 1 - 0.52 / height, words, va="top", fontsize=10, color=MUTED)
    top = height - _TOP
    for block in blocks:  # features and regions: the time in a region is less by far
        tall = _ROW * len(block)
        axes = axes_at(figure, _LEFT, top - tall, _WIDTH, tall)
        top -= tall + _BOTTOM
        for row, contrast in enumerate(block):
            _draw_row(axes, row, contrast, colours)
        _finish(axes, block)
    return figure


def leading_contrasts(result: GroupExplanation, features: int, regions: int) -> list[Contrast]:
    """Choose what is shown: what sets the groups apart, or else what differs most."""
    leading = result.leading or [*result.features, *result.regions]
    own = [c for c in leading if c.region is None][:features]
    return own + [c for c in leading if c.region is not None][: features + regions - len(own)]


def _draw_row(axes: Axes, row: int, contrast: Contrast, colours: list[str]) -> None:
    for times, mean, colour, offset in zip(
        contrast.times, contrast.means, colours, (-0.15, 0.15), strict=True
    ):
        y = row + offset
        axes.plot(times, [y] * len(times), "o", color=colour, markersize=6, alpha=0.65, mew=0)
        axes.plot([mean, mean], [y - 0.13, y + 0.13], color=colour, lw=2.4)
    if contrast.sure:
        axes.annotate(
            "✱", (1, row), (6, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
            va="center", fontsize=9, color=INK, annotation_clip=False,
        )  # fmt: skip


def _finish(axes: Axes, rows: list[Contrast]) -> None:
    most = max(max(map(max, contrast.times)) for contrast in rows) or 1.0
    axes.set_xlim(-0.01 * most, 1.03 * most)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), [wrapped(contrast.where, 44) for contrast in rows])
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g} %")
    axes.tick_params(axis="y", length=0, labelsize=8.6, labelcolor=INK, pad=8)
    axes.tick_params(axis="x", length=2.5, width=0.6, labelsize=9, color=MUTED, labelcolor=INK)
    axes.set_xlabel("share of the time", fontsize=9, color=MUTED, labelpad=2)
    axes.grid(axis="x", color=HAIRLINE, linewidth=0.6)
    axes.set_axisbelow(True)
    for row in range(1, len(rows)):
        axes.axhline(row - 0.5, color=HAIRLINE, linewidth=0.6)
    for name, spine in axes.spines.items():
        spine.set_visible(name == "bottom")
        spine.set_color(HAIRLINE)
