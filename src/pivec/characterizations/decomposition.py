"""Taking a distance apart: what the parts are, and how episodes move them (the jackknife)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.resampling import effective_episodes
from pivec.errors import UsageError
from pivec.figures import (
    GROUP_PALETTE,
    HAIRLINE,
    INK,
    MUTED,
    add_heading,
    add_key,
    add_panel_title,
    axes_at,
    literal,
    new_figure,
)
from pivec.results import Result, Row, plain
from pivec.states import VisitedStates, regrouped
from pivec.statistics import Parts, parts_of
from pivec.text import told_apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pivec.characterizations.base import Characterization

# -----------------------------------------------------------------------------
# What a distance is made of: regions, how often and where, features, each with an interval.


Array = NDArray[np.float64]
OFTEN, WHERE, WIDE = "how often", "where", "how wide"
_TOLD = 3  # regions that a headline counts


@dataclass(frozen=True, repr=False, eq=False)
class Explanation(Result):
    """The distance of two policies in parts that add up to it.

    R regions, D features. A part has what was ``measured``, an ``estimate`` without what sampling
    adds, its interval, and whether it is ``noise``. Parts in which nothing differs are 0.
    """

    method: str
    labels: tuple[str, str]
    level: float
    distance: float  # as measured, the sum of all parts
    estimate: float  # without what sampling adds, with its interval and p-value, as `intervals`
    low: float
    high: float
    p_value: float
    regions: Parts  # (R,)
    kinds: Mapping[str, Parts]  # "how often", "where" and "how wide", (R,) each
    features: Parts  # (D,), of all regions together; how often has no feature
    finest: Parts  # (R, C)
    columns: tuple[tuple[str, int], ...]  # kind and feature of those, -1 if of none
    share: Array  # (2, R), of time in each region, of both policies, with intervals
    share_low: Array
    share_high: Array
    means: Array  # (2, R, D), of features in each region, NaN where a policy is never there
    shift: Array  # (R, D), from the first policy to the second, with intervals
    shift_low: Array
    shift_high: Array
    averages: Array  # (2, D), of features over all of the time, NaN if not known
    average_shift: Array  # (D,), from the first policy to the second, with intervals
    average_shift_low: Array
    average_shift_high: Array
    ranges: Array  # (R, D, 2), where the region is
    feature_names: tuple[str, ...]
    words: tuple[str, ...]  # that tell the regions

    @property
    def order(self) -> NDArray[np.intp]:
        """The regions, that of the largest part first."""
        return np.argsort(-self.regions.measured, kind="stable")

    def named(self, words: tuple[str, ...], feature_names: tuple[str, ...]) -> Explanation:
        """Tell regions and features in other words."""
        return replace(self, words=words, feature_names=feature_names)

    def headline(self) -> str:
        """Say how far apart the two are, and in how many regions."""
        a, b = self.labels
        sure = f" ({self.low:.3g} to {self.high:.3g})" if np.isfinite(self.low) else ""
        result = f"{a} and {b} are {max(self.estimate, 0.0):.3g} apart{sure}"
        first = self.order[:_TOLD]
        if self.distance <= 0.0 or len(self.words) <= _TOLD:
            return result
        share = self.regions.measured[first].sum() / self.distance
        return f"{result}; {_TOLD} of {len(self.words)} regions make up {100 * share:.0f} % of that"

    def rows(self) -> list[Row]:
        """One row a region, the largest part first."""
        whole = self.distance or 1.0
        return [
            {
                "region": int(r),
                "words": self.words[r],
                "part": float(self.regions.measured[r]),
                "share": float(self.regions.measured[r] / whole),
                "low": float(self.regions.low[r]),
                "high": float(self.regions.high[r]),
                "noise": bool(self.regions.noise[r]),
                **{kind: float(parts.measured[r]) for kind, parts in self.kinds.items()},
                "time_a": float(self.share[0, r]),
                "time_b": float(self.share[1, r]),
                "shift": self.main_shift(int(r)),
            }
            for r in self.order
        ]

    def main_feature(self, region: int) -> int | None:
        """Give the feature with the largest part in a region; None if it has none."""
        parts = [
            (float(self.finest.measured[region, c]), feature)
            for c, (_, feature) in enumerate(self.columns)
            if feature >= 0
        ]
        value, feature = max(parts, default=(0.0, -1))
        return feature if value > 0.0 else None

    def main_shift(self, region: int) -> str:
        """Say how the main feature of a region differs, as "pole angle 0.02 → 0.11"."""
        feature = self.main_feature(region)
        if feature is None or not np.isfinite(self.means[:, region, feature]).all():
            return ""
        before, after = self.means[:, region, feature]
        return f"{self.feature_names[feature]} {before:.3g} → {after:.3g}"

    def to_json(self) -> dict[str, Any]:
        """Give everything as JSON can hold it; what is not known is None."""
        return {name: plain(value) for name, value in vars(self).items()} | {
            "order": self.order.tolist()
        }

    def figure(self) -> Figure:
        """Draw the parts of the leading regions, and the time that both policies spend there."""
        return explanation_figure(self)


# From the parts of each region, (m, R, C), to blocks of them, (m, n, size).
Blocks = Callable[[Array], Array]
_GROUPS = 200  # of episodes to leave out, at most
USUAL = 1.2816  # deviations to either side of the middle that hold 80 % of a normal distribution


@dataclass(frozen=True)
class Faces:
    """What policies do, a row each, in R regions and D features of the environment's units."""

    shares: Array  # (n, R) of time in each region
    usual: Array  # (R,) of time, of all policies together
    means: Array  # (n, R, D) of features in each region
    averages: Array  # (n, D) of features over all of the time
    ranges: Array  # (R, D, 2), where the regions are


@dataclass(frozen=True)
class Anatomy:
    """Policies taken apart, a row each."""

    faces: Faces
    columns: tuple[tuple[str, int], ...]  # kind and feature of the parts of a region
    # Of some rows and some others (as many, or one): (n, R, C) numbers whose squares (sizes, where
    # the distance is not squared) are the parts of their distances.
    differences: Callable[[slice, slice], Array]
    words: tuple[str, ...]


def explain(
    method: Characterization,
    a: VisitedStates | Descriptions,
    b: VisitedStates | Descriptions,
    level: float,
) -> Explanation:
    """Take the distance of two policies apart."""
    from scipy.stats import t

    _check(method, a, b)
    sums, rests, freedom = _left_out(method, a, b)
    anatomy = method._anatomy(sums)
    faces = anatomy.faces
    own = slice(0, 1), slice(1, 2)
    differences = anatomy.differences(*own)
    moved = [
        _influences(anatomy.differences(rests[0], own[1])),
        _influences(anatomy.differences(own[0], rests[1])),
    ]

    def parts(blocks: Blocks) -> Parts:
        moving = [blocks(side).swapaxes(0, 1) for side in moved]
        return parts_of(blocks(differences)[0], moving, freedom, level, method.squared)

    kinds = {
        kind: [c for c, column in enumerate(anatomy.columns) if column[0] == kind]
        for kind in (OFTEN, WHERE, WIDE)
    }
    sure = method.intervals(a, b, level)
    reach = t.ppf((1.0 + level) / 2.0, np.maximum(freedom, 1.0))
    episodes = np.array([np.sum(side.n_episodes) for side in (a, b)])
    share, spread = faces.shares[:2], _variances(faces.shares, rests)
    share_low, share_high = share_ends(share, spread, faces.usual, episodes, reach)
    shift = _shift(faces.means, rests, reach)
    average_shift = _shift(faces.averages, rests, reach)
    return Explanation(
        method.name,
        (a.labels[0], b.labels[0]),
        level,
        float(method.distances(a, b)[0, 0]),
        float(sure.distance[0, 0]),
        float(sure.low[0, 0]),
        float(sure.high[0, 0]),
        float(sure.p_value[0, 0]),
        regions=parts(lambda rows: rows),
        kinds={
            kind: parts(partial(np.take, indices=columns, axis=2))
            for kind, columns in kinds.items()
            if columns
        },
        features=_by_feature(anatomy, parts),
        finest=parts(lambda rows: rows.reshape(len(rows), differences.size, 1)).reshaped(
            *differences.shape[1:]
        ),
        columns=anatomy.columns,
        share=share,
        share_low=share_low,
        share_high=share_high,
        means=faces.means[:2],
        shift=shift[0],
        shift_low=shift[1],
        shift_high=shift[2],
        averages=faces.averages[:2],
        average_shift=average_shift[0],
        average_shift_low=average_shift[1],
        average_shift_high=average_shift[2],
        ranges=faces.ranges,
        feature_names=method.feature_names_,
        words=anatomy.words,
    )


def _check(method: Characterization, a: Any, b: Any) -> None:
    """Refuse what cannot be explained."""
    for side in (a, b):
        if not isinstance(side, VisitedStates):
            method._check_described(side)
    if len(a) != 1 or len(b) != 1:
        raise UsageError(f"expected one policy on each side, but got {len(a)} and {len(b)}")
    if not (method.has_statistics or isinstance(a, Descriptions)):
        method._anatomy(None)  # says that it cannot


def _by_feature(anatomy: Anatomy, parts: Callable[[Blocks], Parts]) -> Parts:
    """Add up the parts of each feature over all regions; 0 where parts have no feature."""
    n_regions, n_features, _ = anatomy.faces.ranges.shape
    columns = [
        [c for c, column in enumerate(anatomy.columns) if column[1] == j] for j in range(n_features)
    ]
    if not all(columns):
        nothing = np.zeros(n_features)
        return Parts(nothing, nothing, nothing, nothing, np.ones(n_features, dtype=bool))
    own = np.array(columns)  # as many for each feature
    return parts(
        lambda rows: (
            rows[:, :, own].swapaxes(1, 2).reshape(len(rows), n_features, n_regions * own.shape[1])
        )
    )


def _left_out(
    method: Characterization, a: VisitedStates | Descriptions, b: VisitedStates | Descriptions
) -> tuple[Any, tuple[slice, slice], tuple[float, float]]:
    """Sums of both policies, and then of both without each of their episodes.

    Of many episodes groups are left out. Also where the rows of each are, and the degrees of
    freedom.
    """
    if isinstance(a, Descriptions) or isinstance(b, Descriptions):
        return _left_out_by_influences(method, method._sampled(a), method._sampled(b))
    for side in (a, b):
        method._check_fits(side)
    groups = [
        np.array_split(np.arange(n), min(n, _GROUPS)) if n > 1 else []
        for n in (a.n_episodes, b.n_episodes)
    ]
    freedom = [
        min(float(effective_episodes(side, method.by_state)[0]), len(own)) - 1.0
        for side, own in zip((a, b), groups, strict=True)
    ]
    statistics = method._statistics(a)
    if isinstance(statistics, np.ndarray):
        both = statistics, method._statistics(b)
        totals = [method._policy_sums(side) for side in (a, b)]
        rests = [
            total - np.concatenate([rows[group].sum(axis=0, keepdims=True) for group in own])
            for total, rows, own in zip(totals, both, groups, strict=True)
            if own
        ]
        sums = np.concatenate([*totals, *rests])
    else:
        sums = _weights(a.n_episodes, b.n_episodes, groups) @ method._statistics(
            regrouped([a, b], [np.arange(a.n_episodes + b.n_episodes)])
        )
    return sums, _rows(len(groups[0])), (freedom[0], freedom[1])


def _weights(n: int, m: int, groups: list[list[NDArray[np.intp]]]) -> Array:
    """What episodes of both policies count in each row of `_left_out`."""
    owns = np.zeros((2, n + m))
    owns[0, :n] = owns[1, n:] = 1.0
    rows = [*owns]
    for side, first in ((0, 0), (1, n)):
        for group in groups[side]:
            row = owns[side].copy()
            row[first + group] = 0.0
            rows.append(row)
    return np.stack(rows)


def _left_out_by_influences(
    method: Characterization, a: Any, b: Any
) -> tuple[Array, tuple[slice, slice], tuple[float, float]]:
    """As `_left_out`, from descriptions whose influences tell where the points would be."""
    points = [side.values("points")[0] for side in (a, b)]
    rests = []
    for side, own in zip((a, b), points, strict=True):
        moved = side.rows("influences")[0].astype(np.float64)
        rests.append(own - moved / (len(moved) - 1) if len(moved) > 1 else own[:0])
    sums = method._sums_at(np.concatenate(points + rests))
    freedom = [float(side.values("effective_episodes")[0][0]) - 1.0 for side in (a, b)]
    return sums, _rows(len(rests[0])), (freedom[0], freedom[1])


def _rows(n: int) -> tuple[slice, slice]:
    """Rows without an episode of the first policy and of the second, behind those of both."""
    return slice(2, 2 + n), slice(2 + n, None)


def _influences(rests: Array) -> Array:
    """How each episode moves what is left without it: (m − 1)(mean − left out)."""
    if len(rests) < 2:
        return rests[:0]
    return np.asarray((len(rests) - 1) * (rests.mean(axis=0) - rests))


def _variances(values: Array, rests: tuple[slice, slice]) -> Array:
    """Variances of the values of both policies, by the jackknife; NaN with a single episode."""
    variances = np.full((2, *values.shape[1:]), np.nan)
    for side, rows in enumerate(rests):
        moved = _influences(values[rows])
        if m := len(moved):
            variances[side] = (moved**2).sum(axis=0) / (m * (m - 1))
    return variances


def _shift(values: Array, rests: tuple[slice, slice], reach: Array) -> tuple[Array, Array, Array]:
    """Second policy less first, and the ends of its interval."""
    shift = values[1] - values[0]
    error = reach.max() * np.sqrt(_variances(values, rests).sum(axis=0))
    return shift, shift - error, shift + error


def share_ends(
    share: Array, variance: Array, usual: Array, episodes: Array, reach: Array
) -> tuple[Array, Array]:
    """Ends of the intervals of shares of time, (n, R) each; a row of ``share`` is a policy.

    As if there were one more episode, of the usual shares, so that a region that was never visited
    has an interval too; and of the root of the share, which is less skewed. Ends of
    p ± t·√variance held 64 to 91 % of what many episodes give, these 91 to 96 %
    (benchmarks/explaining.py).
    """
    m, reach = episodes[:, None], reach[:, None]
    variance = variance + (usual - share) ** 2 / (m * (m + 1.0))
    root = np.sqrt(share + 0.5 * usual / (m + 1.0))
    error = np.divide(np.sqrt(variance), 2.0 * root, out=np.zeros_like(root), where=root > 0.0)
    low, high = np.maximum(root - reach * error, 0.0), root + reach * error
    return np.minimum(low**2, share), np.clip(high**2, share, 1.0)


# -----------------------------------------------------------------------------
# The figure of an explanation: parts of the leading regions, and the time spent in them.


LEADING = 10  # regions that are drawn
ROW, LABEL, PANEL = 0.42, 4.4, 3.2
_KINDS = dict(zip(("how often", "where", "how wide"), GROUP_PALETTE[2:], strict=False))


def explanation_figure(explanation: Explanation, headline: str = "") -> Figure:
    """Draw a line a region: its part of the distance by kind, and the time of both policies."""
    from matplotlib.patches import Patch

    order = explanation.order[:LEADING]
    height = 1.75 + ROW * len(order)
    figure = new_figure(LABEL + 2 * PANEL + 0.9, height)
    a, b = told_apart(explanation.labels, 40)
    add_heading(figure, f"What differs between {a} and {b}", headline or explanation.headline())
    kinds = [kind for kind in _KINDS if kind in explanation.kinds]
    colours = [*(_KINDS[kind] for kind in kinds), GROUP_PALETTE[0], GROUP_PALETTE[1]]
    names = [*kinds, f"time of {a}", f"time of {b}"]
    add_key(
        figure,
        [Patch(color=c, label=literal(n)) for c, n in zip(colours, names, strict=True)],
    )
    size = (PANEL, ROW * len(order))
    parts = axes_at(figure, LABEL, 0.35, *size)
    times = axes_at(figure, LABEL + PANEL + 0.45, 0.35, *size)
    _draw_parts(parts, explanation, order, kinds)
    _draw_times(times, explanation, order)
    for axes in (parts, times):
        axes.set_ylim(len(order) - 0.5, -0.5)
        axes.tick_params(length=2.5, width=0.6, labelsize=9, color=MUTED, labelcolor=INK)
        axes.grid(axis="x", color=HAIRLINE, linewidth=0.6)
        axes.set_axisbelow(True)
        for name, spine in axes.spines.items():
            spine.set_visible(name == "left")
            spine.set_color(HAIRLINE)
    times.set_yticks([])
    parts.set_yticks(
        range(len(order)), [literal(explanation.words[r], 58) for r in order], fontsize=9
    )
    return figure


def _draw_parts(axes: Axes, explanation: Explanation, order: np.ndarray, kinds: list[str]) -> None:
    """Stack the kinds of each region's part, in per cent of the distance; noise is pale."""
    scale = 100.0 / (explanation.distance or 1.0)
    for line, r in enumerate(order):
        left = 0.0
        pale = 0.35 if explanation.regions.noise[r] else 1.0
        for kind in kinds:
            width = scale * float(explanation.kinds[kind].measured[r])
            axes.barh(line, width, 0.62, left=left, color=_KINDS[kind], alpha=pale)
            left += width
        ends = [scale * float(x[r]) for x in (explanation.regions.low, explanation.regions.high)]
        if np.isfinite(ends).all():
            axes.plot(ends, [line, line], color=INK, linewidth=1.0)
    axes.set_xlim(left=0.0)
    add_panel_title(axes, "Share of the distance, %", "pale: may be chance")


def _draw_times(axes: Axes, explanation: Explanation, order: np.ndarray) -> None:
    """Draw the share of time of both policies with its interval."""
    for side, (colour, offset) in enumerate(zip(GROUP_PALETTE[:2], (-0.14, 0.14), strict=True)):
        for line, r in enumerate(order):
            ends = 100.0 * np.array(
                [explanation.share_low[side, r], explanation.share_high[side, r]]
            )
            if np.isfinite(ends).all():
                axes.plot(ends, [line + offset] * 2, color=colour, linewidth=1.6)
            value = 100.0 * explanation.share[side, r]
            axes.plot(value, line + offset, "o", color=colour, markersize=5)
    axes.set_xlim(left=0.0)
    add_panel_title(axes, "Time spent there, %", f"with intervals of {100 * explanation.level:g} %")
