"""What the runs of one group have in common and those of another do not; runs are the samples."""

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
from pivec.explanations.folder import ComparisonFolder
from pivec.explanations.names import Feature
from pivec.explanations.spans import best_span, feature_edges, times_below
from pivec.figures import (
    HAIRLINE,
    INK,
    MUTED,
    add_heading,
    axes_at,
    group_colours,
    literal,
    new_figure,
    wrapped,
)
from pivec.policies import Patterns, PolicyInfo, group_names, natural_key, rows_of_runs
from pivec.results import Result, Row, plain
from pivec.states import VisitedStates
from pivec.statistics import (
    RATE,
    benjamini_hochberg,
    permuted_divisions,
    share_as_large,
    shares_of,
)
from pivec.text import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
_MIN_DIFFERENCE = 0.01  # of shares of time, worth reporting
_MAX_DIVISIONS = 20_000  # that are all tried; of more, some are drawn
_DRAWN = 999


@dataclass(frozen=True)
class Contrast:
    """The time that the runs of two groups spend somewhere."""

    where: str  # in words
    region: int | None  # None for a span of a feature
    times: tuple[tuple[float, ...], tuple[float, ...]]  # shares of time of all runs
    difference: float  # of the means, first less second, with its interval
    low: float
    high: float
    q_value: float
    part: float  # of the squared distance of the mean behaviours; NaN for a span

    @property
    def means(self) -> tuple[float, float]:
        """Mean shares of time of both groups."""
        a, b = (sum(times) / len(times) for times in self.times)
        return a, b

    @property
    def apart(self) -> int:
        """1 if all runs of the first group exceed all of the second, −1 if the reverse, or 0."""
        a, b = self.times
        if abs(self.difference) < _MIN_DIFFERENCE:
            return 0
        return int(min(a) > max(b)) - int(max(a) < min(b))

    @property
    def significant(self) -> bool:
        """Whether the difference is significant, and not tiny."""
        return abs(self.difference) >= _MIN_DIFFERENCE and self.q_value <= RATE

    def sentence(self, groups: tuple[str, str]) -> str:
        """Write it.

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
        runs = {1: f"the run of {a} is", 2: f"both runs of {a} are"}.get(
            len(most), f"all {len(most)} runs of {a} are"
        )
        others = f"any of {b}" if len(least) > 1 else f"that of {b}"
        times = f"{percent_range(most)} against {percent_range(least)}"
        return f"{runs} more often where {self.where} than {others}: {times} of the time"


def percent_range(shares: Sequence[float]) -> str:
    """Write the smallest and the largest of some shares.

    Examples
    --------
    >>> percent_range([0.351, 0.22]), percent_range([0.5])
    ('22 to 35 %', '50 %')
    """
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


@dataclass(frozen=True, repr=False, eq=False)
class GroupExplanation(Result):
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
    features: tuple[Contrast, ...]  # the best span of each feature, largest difference first
    regions: tuple[Contrast, ...]  # all of them, largest part of the distance first
    notes: tuple[str, ...]  # assumptions

    @property
    def least_p(self) -> float:
        """The smallest p-value that permutations of so few runs can give."""
        n, m = map(len, self.runs)
        return (2.0 if n == m else 1.0) / math.comb(n + m, n)

    @property
    def leading(self) -> list[Contrast]:
        """Significant or complete separations of the groups: features first, then regions."""
        return [c for c in self.features + self.regions if c.significant or c.apart]

    def headline(self) -> str:
        """Say what distinguishes the two groups most."""
        if not self.leading:
            return "nothing sets the runs of {} apart from those of {}".format(*self.groups)
        sentence = self.leading[0].sentence(self.groups)
        if any(c.significant for c in self.leading):
            return sentence
        return f"{sentence}; with {len(self.runs[0])} and {len(self.runs[1])} runs it may be chance"

    def caveats(self) -> list[str]:
        """Say what these numbers do not show."""
        sizes = [len(runs) for runs in self.runs]
        if min(sizes) < 2:
            alone = " and of ".join(g for g, n in zip(self.groups, sizes, strict=True) if n < 2)
            return [f"no test and no intervals: there is a single run of {alone}"]
        result = []
        large = [c for c in self.regions if abs(c.difference) >= _MIN_DIFFERENCE]
        if apart := sum(c.apart != 0 for c in large):
            chance = 2.0 * len(large) / math.comb(sum(sizes), sizes[0])
            regions = "1 region" if apart == 1 else f"{apart} regions"
            result.append(
                f"in {regions} all runs of one group are more often than those of the other; "
                f"chance alone gives about {chance:.2g} such regions"
            )
        if not any(c.significant for c in self.features + self.regions):
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
        """Return plain values; None for NaN."""
        return {
            "headline": self.headline(),
            "caveats": self.caveats(),
            "sentences": [contrast.sentence(self.groups) for contrast in self.leading],
            **{name: plain(value) for name, value in vars(self).items()},
        }


@checked
def explain_groups(
    comparison: Any,
    groups: Patterns | Sequence[str] | None = None,
    *,
    last: Count | None = None,
    level: Annotated[float, Range(0.0, most=1.0)] = 0.95,
) -> GroupExplanation:
    """Explain what all runs of one group do and those of another do not.

    Parameters
    ----------
    comparison : path, Comparison or ComparisonFolder
    groups : mapping or two names, optional
        Name of a group -> pattern of its runs' names, or several: ``{"ppo": "ppo-*"}``; or the
        names of two of the groups that follow from the names of the runs, which is the default.
    last : int, optional
        Use only the last checkpoints of each run; all by default.
    level : float
        Confidence level of the intervals, which are about other runs (Welch's).

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
    features: tuple[Contrast, ...] = ()
    notes = []
    if opened.has_states(described.labels):
        states = opened.states.select(described.labels)
        features = feature_contrasts(
            states, opened.features, weights, n, level, method.traits.by_state
        )
    else:
        notes.append("the states are not stored here: differences are by region, not by feature")
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
        _region_contrasts(opened, described, weights, n, level),
        (*notes, *opened.fit_notes()),
    )


def _two_groups(
    policies: Sequence[PolicyInfo], groups: Patterns | Sequence[str] | None
) -> tuple[dict[str, str], str]:
    """Return the group of each run, of two groups, the first one first; and how they are formed."""
    patterns = groups if isinstance(groups, Mapping) else None
    names, grouping = group_names(policies, patterns)
    known = sorted(set(names.values()), key=natural_key)
    wanted = list(groups) if groups else known
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"there is no group {name!r}{did_you_mean(name, known)}: the names of the runs "
                f"give {', '.join(known)}; say which runs belong to it, as in {name}='{name}-*'"
            )
    if len(wanted) != 2:
        raise UsageError(
            f"expected two groups of runs, but there {'are' if len(wanted) > 1 else 'is'} "
            f"{len(wanted)} ({', '.join(wanted)}): choose two, as in --group ppo='ppo-*' --group "
            "a2c='a2c-*'"
        )
    chosen = [run for name in wanted for run in names if names[run] == name]
    return {run: names[run] for run in chosen}, grouping


def welch(a: Array, b: Array, level: float = 0.95) -> tuple[Array, Array, Array, Array]:
    """Differences of mean shares in columns, their intervals, and p-values (Welch 1947).

    Rows are samples of two populations. Columns without any variance are not tested; with a single
    row on a side nothing is.

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
    half = np.where(error > 0, t.ppf((1.0 + level) / 2.0, freedom) * error, 0.0)
    low, high = np.maximum(difference - half, -1.0), np.minimum(difference + half, 1.0)
    return difference, low, high, p_value


def _region_contrasts(
    comparison: ComparisonFolder, described: Descriptions, weights: Array, n: int, level: float
) -> tuple[Contrast, ...]:
    """Contrasts of all regions, largest part first; of several fits, those of the first.

    ``weights``, (runs, policies), average policies to runs; the first n are the first group.
    """
    counts, points = described.values("counts", "points")
    n_fits, own = comparison.n_fits, slice(0, counts.shape[1] // comparison.n_fits)
    # The shares of each fit sum to 1, and each has its share of the distance.
    shares = (weights @ (n_fits * counts / counts.sum(axis=1, keepdims=True)))[:, own]
    runs = (weights @ points).reshape(len(weights), counts.shape[1], -1)
    squares = (runs[:n].mean(axis=0) - runs[n:].mean(axis=0)) ** 2
    for side in (runs[:n], runs[n:]):
        if len(side) > 1:  # without what the variance of runs adds
            squares = squares - side.var(axis=0, ddof=1) / len(side)
    whole = float(squares.sum())
    parts = n_fits * (squares.sum(axis=1) / (whole if whole > 0 else 1.0))[own]
    a, b = shares[:n], shares[n:]
    *ends, p_value = welch(a, b, level)
    numbers = np.stack([*ends, benjamini_hochberg(p_value), parts], axis=1)
    return tuple(
        Contrast(
            comparison.region_names[r],
            r,
            (tuple(a[:, r].tolist()), tuple(b[:, r].tolist())),
            *numbers[r].tolist(),
        )
        for r in np.argsort(-parts, kind="stable").tolist()
    )


def feature_contrasts(
    data: VisitedStates,
    features: Sequence[Feature],
    weights: Array,
    n: int,
    level: float,
    by_state: bool,
) -> tuple[Contrast, ...]:
    """Contrasts of the spans of features in which two groups differ most, largest first.

    A span is the best of many: its p-value is how often it is as good when runs are exchanged
    between the groups. ``weights`` are those of `_region_contrasts`.
    """
    edges = feature_edges(data)
    below = times_below(data, edges, by_state)
    m = len(weights) - n
    scales = np.where(_divisions(n, n + m), 1.0 / n, -1.0 / m)
    spans, p_values = [], []
    for j, cuts in enumerate(edges):
        if not len(cuts):
            continue
        runs = weights @ below[j]
        span, i, k = best_span(j, cuts, runs[n:].mean(axis=0), runs[:n].mean(axis=0))
        ends = np.pad(runs, ((0, 0), (1, 1)), constant_values=((0, 0), (0.0, 1.0)))
        spans.append((span.describe(features), ends[:, k] - ends[:, i]))
        apart = np.pad(scales @ runs, ((0, 0), (1, 0)))
        sizes = apart.max(axis=1) - apart.min(axis=1)
        p_values.append(math.nan if min(n, m) < 2 else share_as_large(sizes))
    result = []
    for (where, times), q_value in zip(spans, benjamini_hochberg(p_values).tolist(), strict=True):
        a, b = times[:n], times[n:]
        difference, low, high, _ = (float(x[0]) for x in welch(a[:, None], b[:, None], level))
        both = tuple(a.tolist()), tuple(b.tolist())
        result.append(Contrast(where, None, both, difference, low, high, q_value, math.nan))
    return tuple(sorted(result, key=lambda contrast: -abs(contrast.difference)))


def _divisions(n: int, total: int) -> NDArray[np.bool_]:
    """Return the ways to divide runs into two groups of these sizes, the true one first."""
    if math.comb(total, n) > _MAX_DIVISIONS:
        return permuted_divisions(n, total - n, _DRAWN, np.random.default_rng(0))
    chosen = np.array(list(combinations(range(total), n)))
    result = np.zeros((len(chosen), total), dtype=bool)
    np.put_along_axis(result, chosen, True, axis=1)
    return result


# ---- the figure ----

_FEATURES, _REGIONS = 4, 6
_LEFT, _WIDTH, _ROW, _TOP, _BOTTOM = 3.6, 6.2, 0.58, 0.95, 0.66  # inches


def leading_contrasts(result: GroupExplanation, features: int, regions: int) -> list[Contrast]:
    """Choose what is shown: what distinguishes the groups, or else what differs most."""
    leading = result.leading or [*result.features, *result.regions]
    own = [c for c in leading if c.region is None][:features]
    return own + [c for c in leading if c.region is not None][: features + regions - len(own)]


def groups_figure(result: GroupExplanation) -> Figure:
    """Draw the shares of time of all runs, by feature and by region."""
    rows = leading_contrasts(result, _FEATURES, _REGIONS)
    # Separate scales: shares of time in a region are much smaller.
    blocks = [[c for c in rows if (c.region is None) == spans] for spans in (True, False)]
    blocks = [block for block in blocks if block]
    height = _TOP + sum(_BOTTOM + _ROW * len(block) for block in blocks)
    figure = new_figure(_LEFT + _WIDTH + 0.4, height)
    where = f" in {result.environment}" if result.environment else ""
    title = "Where runs of {} and of {} spend their time".format(*result.groups)
    add_heading(figure, title + where)
    colours = group_colours(2)
    keys = [
        (literal(f"● {name} ({len(runs)} {'runs' if len(runs) > 1 else 'run'})", 40), colour)
        for name, runs, colour in zip(result.groups, result.runs, colours, strict=True)
    ]
    x, width = 0.28, figure.get_figwidth()
    for text, colour in (*keys, ("dots: runs; lines: means; ✱ significant", MUTED)):
        figure.text(x / width, 1 - 0.52 / height, text, va="top", fontsize=10, color=colour)
        x += 0.3 + 0.075 * len(text)
    top = height - _TOP
    for block in blocks:
        tall = _ROW * len(block)
        _draw_block(axes_at(figure, _LEFT, top - tall, _WIDTH, tall), block, colours)
        top -= tall + _BOTTOM
    return figure


def _draw_block(axes: Axes, rows: list[Contrast], colours: list[str]) -> None:
    for row, contrast in enumerate(rows):
        both = zip(contrast.times, contrast.means, colours, (-0.15, 0.15), strict=True)
        for times, mean, colour, offset in both:
            y = row + offset
            axes.plot(times, [y] * len(times), "o", color=colour, markersize=6, alpha=0.65, mew=0)
            axes.plot([mean, mean], [y - 0.13, y + 0.13], color=colour, lw=2.4)
        if contrast.significant:
            axes.annotate(
                "✱", (1, row), (6, 0), xycoords=("axes fraction", "data"), va="center", fontsize=9,
                textcoords="offset points", color=INK, annotation_clip=False,
            )  # fmt: skip
        if row:
            axes.axhline(row - 0.5, color=HAIRLINE, linewidth=0.6)
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
    for name, spine in axes.spines.items():
        spine.set_visible(name == "bottom")
        spine.set_color(HAIRLINE)
