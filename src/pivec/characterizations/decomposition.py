"""Decomposing a distance into parts by region, kind and feature, each with an interval."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.sampling import check_single, common_strata, effective_episodes
from pivec.figures import (
    GROUP_PALETTE,
    INK,
    MARGIN,
    PAGE,
    add_panel_title,
    axes_at,
    cut_names,
    headed_figure,
    lined_axes,
    literal,
    wrapped,
)
from pivec.results import Result, Row, plain
from pivec.states import VisitedStates, regrouped
from pivec.statistics import Parts, parts_of, within_strata

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pivec.characterizations.base import Characterization, Side

Array = NDArray[np.float64]
OFTEN, WHERE, WIDE = "how often", "where", "how wide"
USUAL = 1.2816  # deviations on either side of the mean that hold 80 % of a normal distribution
_HEADLINE_REGIONS = 3
_GROUPS = 200  # of episodes to leave out, at most
_CLASSES = 3  # of regions: more time of either policy, or neither
_TINY = 1e-12  # time in a region where nobody is


@dataclass(frozen=True, repr=False, eq=False)
class Decomposition(Result):
    """The distance of two policies in parts that sum to it.

    R regions, D features. Each part has the ``measured`` value, an ``estimate`` without sampling
    noise, its interval, and whether it may be ``noise``. Parts in which nothing differs are 0.
    """

    method: str
    labels: tuple[str, str]
    level: float
    distance: float  # as measured, the sum of all parts
    estimate: float  # without sampling noise, with interval and p-value, as in `intervals`
    low: float
    high: float
    p_value: float
    regions: Parts  # (R,)
    kinds: Mapping[str, Parts]  # "how often", "where" and "how wide", (R,) each
    features: Parts  # (D,), over all regions; "how often" has no feature
    finest: Parts  # (R, C)
    columns: tuple[tuple[str, int], ...]  # kind and feature (or -1) of each of the C columns
    share: Array  # (2, R), of time in each region, for both policies, with intervals
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
    spreads: Array  # (2, D), standard deviations over all of the time, NaN if not known
    spread_ratio: Array  # (D,), of the second policy to the first, with intervals
    spread_ratio_low: Array
    spread_ratio_high: Array
    ranges: Array  # (R, D, 2), extent of each region
    feature_names: tuple[str, ...]
    words: tuple[str, ...]  # names of the regions
    members: tuple[tuple[int, ...], ...]  # the regions that were merged, largest part first
    # The regions whose parts are not chance as few groups; None if there is nothing to merge.
    merged: Decomposition | None = None

    @property
    def order(self) -> NDArray[np.intp]:
        """The regions, largest part first."""
        return np.argsort(-self.regions.measured, kind="stable")

    def named(self, words: tuple[str, ...], feature_names: tuple[str, ...]) -> Decomposition:
        """Return the same parts with other names of regions and features."""
        return replace(self, words=words, feature_names=feature_names)

    def headline(self) -> str:
        """State the distance, and the share of the leading regions."""
        a, b = self.labels
        interval = f" ({self.low:.3g} to {self.high:.3g})" if np.isfinite(self.low) else ""
        result = f"{a} and {b} are {max(self.estimate, 0.0):.3g} apart{interval}"
        n, first = len(self.words), self.order[:_HEADLINE_REGIONS]
        if self.distance <= 0.0 or n <= _HEADLINE_REGIONS:
            return result
        share = self.regions.measured[first].sum() / self.distance
        return f"{result}; {_HEADLINE_REGIONS} of {n} regions make up {100 * share:.0f} % of that"

    def rows(self) -> list[Row]:
        """One row per region, the largest share of the measured distance first.

        ``part``, ``low`` and ``high`` are without sampling noise, the shares with it.
        """
        whole = self.distance or 1.0
        return [
            {
                "region": int(r),
                "words": self.words[r],
                "part": float(np.maximum(self.regions.estimate[r], 0.0)),
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

    def main_shift(self, region: int) -> str:
        """Return how the main feature of a region differs, as "pole angle 0.02 → 0.11"."""
        parts = [
            (float(self.finest.measured[region, c]), feature)
            for c, (_, feature) in enumerate(self.columns)
            if feature >= 0
        ]
        value, feature = max(parts, default=(0.0, -1))
        before, after = self.means[:, region, feature]
        if value <= 0.0 or not np.isfinite([before, after]).all():
            return ""
        return f"{self.feature_names[feature]} {before:.3g} → {after:.3g}"

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values; unknown numbers are None."""
        return {name: plain(value) for name, value in vars(self).items()} | {
            "order": self.order.tolist()
        }

    def figure(self) -> Figure:
        """Draw the parts of the leading regions, and the time that both policies spend there."""
        return decomposition_figure(self)


@dataclass(frozen=True)
class RegionStatistics:
    """What policies do in R regions, one row per policy; D features in the environment's units."""

    shares: Array  # (n, R) of time in each region
    usual: Array  # (R,) of time, over all policies
    means: Array  # (n, R, D) of features in each region
    averages: Array  # (n, D) of features over all of the time
    ranges: Array  # (R, D, 2), extent of the regions
    spreads: Array | None = None  # (n, D), standard deviations of features over all of the time

    def merged(self, members: NDArray[np.intp]) -> RegionStatistics:
        """Merge regions; each row lists those of one, padded with R."""
        shares = np.pad(self.shares, ((0, 0), (0, 1)))[:, members]
        means = np.pad(np.nan_to_num(self.means), ((0, 0), (0, 1), (0, 0)))[:, members]
        there = shares * np.pad(np.isfinite(self.means).all(axis=2), ((0, 0), (0, 1)))[:, members]
        with np.errstate(invalid="ignore"):  # where nobody is
            means = np.einsum("ngs,ngsd->ngd", there, means) / there.sum(axis=2, keepdims=True)
        time = np.append(self.shares[:2].mean(axis=0) + _TINY, 0.0)[members][:, :, None]
        time /= time.sum(axis=1, keepdims=True)
        centres, variances = _moments(np.pad(self.ranges, ((0, 1), (0, 0), (0, 0)))[members])
        centre = (time * centres).sum(axis=1)
        variance = (time * (variances + (centres - centre[:, None]) ** 2)).sum(axis=1)
        reach = USUAL * np.sqrt(variance)
        ranges = np.stack([centre - reach, centre + reach], axis=2)
        usual = np.append(self.usual, 0.0)[members].sum(axis=1)
        return replace(self, shares=shares.sum(axis=2), usual=usual, means=means, ranges=ranges)


@dataclass(frozen=True)
class Decomposable:
    """Policies, one row each, whose distances decompose."""

    summary: RegionStatistics
    # Of some rows and others (as many, or one): (n, R, C) numbers whose squares (absolute values,
    # if the distance is not squared) are the parts of their distances.
    differences: Callable[[slice, slice], Array]
    region_names: tuple[str, ...]


def decomposed(
    method: Characterization, a: Side, b: Side, level: float, n_groups: int | None = None
) -> Decomposition:
    """Decompose the distance of two policies."""
    from scipy.special import stdtrit

    for side in (a, b):
        if not isinstance(side, VisitedStates):
            method._check_described(side)
    check_single(a, b)
    sums, rests, freedom = _left_out(method, a, b)
    policies, columns = method._decomposable(sums), method.part_columns
    summary = policies.summary
    first, second = slice(0, 1), slice(1, 2)
    differences = policies.differences(first, second)
    moved = [
        _influences(policies.differences(rests[0], second)),
        _influences(policies.differences(first, rests[1])),
    ]
    strata, degrees = common_strata([a, b]), freedom
    if strata is not None and len(strata) > 1:
        rows, dof = within_strata((moved[0] + moved[1]).reshape(len(strata), -1), strata)
        moved, degrees = [rows.reshape(moved[0].shape)], [dof]

    def parts(blocks: Callable[[Array], Array]) -> Parts:
        """Sum the parts (m, R, C) in the blocks (m, n, size) that ``blocks`` returns."""
        moving = [blocks(side).swapaxes(0, 1) for side in moved]
        return parts_of(blocks(differences)[0], moving, degrees, level, method.traits.squared)

    def columns_of(wanted: Any, place: int) -> list[int]:
        return [c for c, column in enumerate(columns) if column[place] == wanted]

    kinds = {kind: chosen for kind in (OFTEN, WHERE, WIDE) if (chosen := columns_of(kind, 0))}
    n_regions, n_features, _ = summary.ranges.shape
    by_feature = [columns_of(j, 1) for j in range(n_features)]
    nothing = np.zeros(n_features)  # where parts have no feature
    features = Parts(nothing, nothing, nothing, nothing, nothing == 0.0)
    if all(by_feature):
        own_columns = np.array(by_feature)  # as many for each feature
        shape = (-1, n_features, n_regions * own_columns.shape[1])
        features = parts(lambda rows: rows[:, :, own_columns].swapaxes(1, 2).reshape(shape))
    interval = method.intervals(a, b, level)
    reach = stdtrit(np.maximum(freedom, 1.0), (1.0 + level) / 2.0)
    episodes = np.array([np.sum(side.n_episodes) for side in (a, b)])

    def by_region(members: NDArray[np.intp], own: RegionStatistics) -> dict[str, Any]:
        """Fields of regions that consist of others, (n, most), with their statistics.

        Regions with fewer others are padded with n_regions, which has no part.
        """
        n, size, n_columns = *members.shape, len(columns)

        def of_kind(chosen: Sequence[int], n_blocks: int = n) -> Parts:
            def blocks(rows: Array) -> Array:
                padded = np.pad(rows[:, :, chosen], ((0, 0), (0, 1), (0, 0)))
                shape = len(rows), n_blocks, n * len(chosen) * size // n_blocks
                return padded[:, members].swapaxes(2, 3).reshape(shape)

            return parts(blocks)

        everything = range(n_columns)
        share, spread = own.shares[:2], _variances(own.shares, rests)
        share_low, share_high = share_ends(share, spread, own.usual, episodes, reach)
        shift, shift_low, shift_high = _shift(own.means, rests, reach, strata)
        return {
            "regions": of_kind(everything),
            "kinds": {kind: of_kind(chosen) for kind, chosen in kinds.items()},
            "finest": of_kind(everything, n * n_columns).reshaped(n, n_columns),
            "share": share,
            "share_low": share_low,
            "share_high": share_high,
            "means": own.means[:2],
            "shift": shift,
            "shift_low": shift_low,
            "shift_high": shift_high,
            "ranges": own.ranges,
        }

    average_shift = _shift(summary.averages, rests, reach, strata)
    spreads = np.full_like(summary.averages, np.nan)
    if summary.spreads is not None:
        spreads[:] = summary.spreads
    with np.errstate(divide="ignore", invalid="ignore"):  # of a constant feature
        spread_ratio = np.exp(_shift(np.log(spreads), rests, reach, strata))
    own = by_region(np.arange(n_regions)[:, None], summary)
    found = Decomposition(
        method.name,
        (a.labels[0], b.labels[0]),
        level,
        float(own["regions"].measured.sum()),
        float(interval.distance[0, 0]),
        float(interval.low[0, 0]),
        float(interval.high[0, 0]),
        float(interval.p_value[0, 0]),
        **own,
        features=features,
        columns=columns,
        averages=summary.averages[:2],
        average_shift=average_shift[0],
        average_shift_low=average_shift[1],
        average_shift_high=average_shift[2],
        spreads=spreads[:2],
        spread_ratio=spread_ratio[0],
        spread_ratio_low=spread_ratio[1],
        spread_ratio_high=spread_ratio[2],
        feature_names=method.column_names,
        words=policies.region_names,
        members=tuple((region,) for region in range(n_regions)),
    )
    # Of several fits, each has all of the time, and of absolute values parts do not add up.
    if not n_groups or not method.traits.squared or summary.usual.sum() > 1.5:
        return found
    if not (groups := similar_regions(found, n_groups)):
        return found
    members = np.array(list(zip_longest(*groups, fillvalue=n_regions))).T
    names = {"words": tuple(policies.region_names[group[0]] for group in groups)}
    merged = by_region(members, summary.merged(members)) | names
    return replace(found, merged=replace(found, **merged, members=tuple(groups)))


def similar_regions(found: Decomposition, n_groups: int) -> list[tuple[int, ...]]:
    """Merge the regions whose parts are not chance into groups, by Ward's method.

    Regions that the first policy visits more often, those that the second does, and those for which
    that is not certain stay apart: otherwise, differences in time would cancel. Returns the members
    of each group, those with the largest part first; nothing if there are few regions already.
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    regions = np.flatnonzero(~found.regions.noise)
    if len(regions) <= max(n_groups, _CLASSES):
        return []
    means, variances = _moments(found.ranges[regions])
    places = means / np.sqrt(variances.mean(axis=0))
    more = np.zeros(len(regions))
    if (often := found.kinds.get(OFTEN)) is not None:
        more = np.where(often.noise, 0.0, np.sign(found.share[1] - found.share[0]))[regions]
    apart = _CLASSES * np.ptp(places, axis=0).sum() * len(places)  # farther than any places
    links = linkage(np.column_stack([places, apart * more]), "ward")
    group = fcluster(links, max(n_groups, _CLASSES), "maxclust")
    order = regions[np.argsort(-found.regions.measured[regions], kind="stable")]
    numbers = dict(zip(regions.tolist(), group.tolist(), strict=True))
    return [
        tuple(r for r in order.tolist() if numbers[r] == g) for g in sorted(set(numbers.values()))
    ]


def _left_out(
    method: Characterization, a: Side, b: Side
) -> tuple[Any, tuple[slice, slice], list[float]]:
    """Sums of both policies, then of both without each of their episodes.

    With the rows of either kind of the latter, and the degrees of freedom of both policies.
    """
    if isinstance(a, Descriptions) or isinstance(b, Descriptions):
        return _left_out_by_influences(method, method._sampled(a), method._sampled(b))
    for side in (a, b):
        method._check_fits(side)
    counts = [a.n_episodes, b.n_episodes]
    weights, n_rests, freedom = [*np.repeat(np.eye(2), counts, axis=1)], [], []
    for side, n, own in zip((a, b), counts, weights[:2], strict=True):
        episodes = np.flatnonzero(own)
        groups = np.array_split(episodes, min(n, _GROUPS)) if n > 1 else []
        weights += [np.where(np.isin(np.arange(len(own)), group), 0.0, own) for group in groups]
        n_rests.append(len(groups))
        effective = float(effective_episodes(side, method.traits.by_state)[0])
        freedom.append(min(effective, len(groups)) - 1.0)
    everything = regrouped([a, b], [np.arange(sum(counts))])
    sums = np.stack(weights) @ method._statistics(everything)
    if isinstance(sums, np.ndarray):  # rounded as in `describe`, so that parts sum to the distance
        totals = np.concatenate([method._policy_sums(side) for side in (a, b)])
        sums += (totals - sums[:2])[np.repeat([0, 1, 0, 1], [1, 1, *n_rests])]
    return sums, _rows(n_rests[0]), freedom


def _left_out_by_influences(
    method: Characterization, a: Any, b: Any
) -> tuple[Array, tuple[slice, slice], list[float]]:
    """Like `_left_out`, from descriptions with influences, which determine the points."""
    points = [side.values("points")[0] for side in (a, b)]
    rests = []
    for side, own in zip((a, b), points, strict=True):
        moved = side.influences[0].astype(np.float64)
        rests.append(own - moved / (len(moved) - 1) if len(moved) > 1 else own[:0])
    freedom = [float(side.values("effective_episodes")[0][0]) - 1.0 for side in (a, b)]
    return method._sums_at(np.concatenate(points + rests)), _rows(len(rests[0])), freedom


def _rows(n: int) -> tuple[slice, slice]:
    """Rows without an episode of the first policy and of the second, after those of both."""
    return slice(2, 2 + n), slice(2 + n, None)


def _influences(rests: Array) -> Array:
    """Influence of each episode on what remains without it: (m − 1)(mean − left out)."""
    if len(rests) < 2:
        return rests[:0]
    return np.asarray((len(rests) - 1) * (rests.mean(axis=0) - rests))


def _moments(ranges: Array) -> tuple[Array, Array]:
    """Means and variances of the features of regions with these ranges."""
    low, high = ranges[..., 0], ranges[..., 1]
    return 0.5 * (low + high), ((high - low) / (2.0 * USUAL)) ** 2


def _variances(values: Array, rests: tuple[slice, slice]) -> Array:
    """Jackknife variances of the values of both policies; NaN with a single episode."""
    variances = np.full((2, *values.shape[1:]), np.nan)
    for side, rows in enumerate(rests):
        moved = _influences(values[rows])
        if m := len(moved):
            variances[side] = (moved**2).sum(axis=0) / (m * (m - 1))
    return variances


def _shift(
    values: Array, rests: tuple[slice, slice], reach: Array, strata: NDArray[Any] | None
) -> tuple[Array, Array, Array]:
    """Second policy minus first, and the ends of its interval."""
    shift, variance = values[1] - values[0], _variances(values, rests).sum(axis=0)
    if strata is not None and (m := len(strata)) > 1:
        moved = _influences(values[rests[1]]) - _influences(values[rests[0]])
        rows, _ = within_strata(moved.reshape(m, -1), strata)
        variance = (rows**2).sum(axis=0).reshape(shift.shape) / (m * (m - 1))
    error = reach.max() * np.sqrt(variance)
    return shift, shift - error, shift + error


def share_ends(
    share: Array, variance: Array, usual: Array, episodes: Array, reach: Array
) -> tuple[Array, Array]:
    """Ends of the intervals of shares of time, (n, R) each, one row per policy.

    As if there were one more episode with the usual shares, so that a region that was never visited
    has an interval too; and on the scale of the root, which is less skewed. Intervals
    p ± t·√variance covered the value from many episodes in 64 to 91 % of cases, these in 91 to 96 %
    (benchmarks/explaining.py).
    """
    m, reach = episodes[:, None], reach[:, None]
    variance = variance + (usual - share) ** 2 / (m * (m + 1.0))
    root = np.sqrt(share + 0.5 * usual / (m + 1.0))
    error = np.divide(np.sqrt(variance), 2.0 * root, out=np.zeros_like(root), where=root > 0.0)
    low, high = np.maximum(root - reach * error, 0.0), root + reach * error
    return np.minimum(low**2, share), np.clip(high**2, share, 1.0)


_LEADING = 10  # regions that are drawn
_ROW, _PANEL, _GAP = 0.46, 2.9, 0.4  # inches
_KINDS = dict(zip((OFTEN, WHERE, WIDE), GROUP_PALETTE[2:], strict=False))


def decomposition_figure(decomposition: Decomposition, headline: str = "") -> Figure:
    """Draw one line per region: its part of the distance by kind, and the time of both policies."""
    from matplotlib.patches import Patch

    order = decomposition.order[:_LEADING]
    lines, height = np.arange(len(order)), _ROW * len(order)
    a, b = cut_names(decomposition.labels, 40)
    colours = {kind: colour for kind, colour in _KINDS.items() if kind in decomposition.kinds}
    key = colours | {f"time of {a}": GROUP_PALETTE[0], f"time of {b}": GROUP_PALETTE[1]}
    figure = headed_figure(
        PAGE,
        height + 0.95,
        f"What differs between {a} and {b}",
        headline or decomposition.headline(),
        [Patch(color=colour, label=literal(name)) for name, colour in key.items()],
    )
    left = PAGE - 2 * _PANEL - _GAP - MARGIN
    parts = axes_at(figure, left, 0.35, _PANEL, height)
    times = axes_at(figure, left + _PANEL + _GAP, 0.35, _PANEL, height)

    scale, start = 100.0 / (decomposition.distance or 1.0), np.zeros(len(order))
    regions = decomposition.regions
    pale = np.where(regions.noise[order], 0.35, 1.0)
    for kind, colour in colours.items():
        width = scale * decomposition.kinds[kind].measured[order]
        parts.barh(lines, width, 0.62, left=start, color=[(colour, alpha) for alpha in pale])
        start += width
    low, high = scale * regions.low[order], scale * regions.high[order]
    parts.hlines(lines, low, high, colors=INK, linewidth=1.0)
    add_panel_title(parts, "Share of the distance, %", "pale: may be chance")
    for side, (colour, offset) in enumerate(zip(GROUP_PALETTE[:2], (-0.14, 0.14), strict=True)):
        low, share, high = (
            100.0 * values[side, order]
            for values in (decomposition.share_low, decomposition.share, decomposition.share_high)
        )
        times.hlines(lines + offset, low, high, colors=colour, linewidth=1.6)
        times.plot(share, lines + offset, "o", color=colour, markersize=5, clip_on=False)
    level = f"{100 * decomposition.level:g} % intervals; another scale than on the left"
    add_panel_title(times, "Time spent there, %", level)
    for axes in (parts, times):
        lined_axes(axes, across=True)
        axes.set_xlim(left=0.0)
        axes.set_ylim(len(order) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
    times.set_yticks([])
    words = [wrapped(decomposition.words[r], left - MARGIN - 0.1) for r in order]
    parts.set_yticks(lines, words)
    return figure
