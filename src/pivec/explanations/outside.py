"""States outside of what a space knows: where none of the policies it was fitted on has been."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import BackgroundModel, Characterization, Space
from pivec.errors import PivecWarning, UsageError
from pivec.explanations.folder import ComparisonFolder
from pivec.explanations.names import features_of
from pivec.figures import (
    GROUP_PALETTE,
    HAIRLINE,
    INK,
    LONE_COLOUR,
    MUTED,
    add_heading,
    axes_at,
    lined_axes,
    literal,
    literals,
    new_figure,
)
from pivec.mixtures import FAR, Mixture, kernel, maximise
from pivec.results import Result, Row, plain
from pivec.states import VisitedStates
from pivec.text import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pivec.explanations.unusual import PolicyEpisodes, Unusual

# -----------------------------------------------------------------------------
# How far from the regions of a background model policies get: what a space knows, and what not.
#
# The log-density would be a poor measure of it: it is low in all of a wide region that few states
# are in, and in all of the states of policies that live there. Distances from the nearest region
# treat regions alike.


Array = NDArray[np.float64]
WITHIN = 0.99  # of the states of each policy that a space was fitted on lie within its reach
_WIDENED = 0.1  # deviations of all states, so that regions are not too thin to be met twice
_STATES = 1 << 16  # looked at in all, as many of each policy
_VALUES = 1 << 24  # of all features of these
_LEAST = 100  # states of each policy, however many there are
_PASSES = 3  # of EM
_BLOCK = 1 << 15


class Nearest(NamedTuple):
    """The region that is nearest to each state."""

    region: NDArray[np.intp]  # (n,)
    offset: Array  # (n, D), from its middle, in units of its deviations, which are widened a little

    @property
    def distance(self) -> Array:
        """Root of the mean square of the offsets, (n,)."""
        return np.asarray(np.sqrt(np.einsum("nd,nd->n", self.offset, self.offset) / self._width))

    @property
    def _width(self) -> int:
        return int(self.offset.shape[1])


def nearest_regions(states: NDArray[Any], mixture: Mixture) -> Nearest:
    """Find the nearest region of each state, in units of the deviations of regions.

    Examples
    --------
    >>> mixture = Mixture([0.5, 0.5], [[-1.0], [1.0]], [[0.24], [0.24]], [0.0], [2.0])
    >>> nearest = nearest_regions(np.array([[-2.0], [4.0]]), mixture)
    >>> nearest.region, nearest.distance
    (array([0, 1]), array([0., 2.]))
    """
    variances = mixture.variances + _WIDENED**2
    squares, linear = 1.0 / variances, -2.0 * mixture.means / variances
    constants = (mixture.means**2 / variances).sum(axis=1)
    region = np.empty(len(states), dtype=np.intp)
    offset = np.empty(states.shape)
    for first in range(0, len(states), _BLOCK):
        rows = slice(first, first + _BLOCK)
        z = np.clip(mixture.standardise(states[rows]), -FAR, FAR)
        own = region[rows] = (z**2 @ squares.T + z @ linear.T + constants).argmin(axis=1)
        # Anew from the difference, which has all its digits.
        offset[rows] = (z - mixture.means[own]) / np.sqrt(variances[own])
    return Nearest(region, offset)


def reach_of(data: VisitedStates, mixture: Mixture) -> float:
    """Tell within which distance of the nearest region all policies keep 99 % of their states.

    The largest of the policies' own quantiles: one of all states together would have the policies
    that are seldom where others are outside of what was fitted on them. Episodes are measured
    against regions that EM has moved to where the other half of the episodes is: their own are
    nearer to them than to any that will come. A few of the states of many policies are enough.

    Examples
    --------
    >>> mixture = Mixture([1.0], [[0.0]], [[0.99]], [0.0], [1.0])
    >>> data = VisitedStates.from_arrays([[np.linspace(0, 1, 101)[:, None]]])
    >>> round(reach_of(data, mixture), 3)
    0.99
    """
    states, half, starts = _excerpt(data)
    distance = nearest_regions(states, mixture).distance
    for held in (0, 1):
        rows = half == held
        if rows.any():
            moved = _moved(mixture, states[~rows])
            distance[rows] = nearest_regions(states[rows], moved).distance
    return max(float(np.quantile(distance[i:j], WITHIN)) for i, j in pairwise(starts))


def _excerpt(data: VisitedStates) -> tuple[NDArray[np.float32], NDArray[np.int8], list[int]]:
    """Some states of each policy, evenly through its episodes, and where each policy's begin.

    And which half of the episodes they are of: every other one; -1 of a policy that has only one,
    which belongs to neither.
    """
    most = max(min(_STATES, _VALUES // data.n_features) // len(data), _LEAST)
    states, halves = [], []
    for number, record in enumerate(data.records):
        own = data.policy_states(number)
        rows = np.linspace(0, len(own) - 1, min(most, len(own))).astype(np.intp)
        lengths = record.episodes["length"]
        episode = np.repeat(np.arange(len(lengths)), lengths)[rows]
        states.append(own[rows])
        halves.append(episode % 2 if len(lengths) > 1 else np.full(len(rows), -1))
    starts = np.cumsum([0, *map(len, states)]).tolist()
    return np.concatenate(states), np.concatenate(halves).astype(np.int8), starts


def _moved(mixture: Mixture, states: NDArray[Any]) -> Mixture:
    """Fit a mixture to other states from where it is; components without any are left out."""
    accumulate = kernel().accumulate
    statistics = accumulate(states, mixture)
    for _ in range(_PASSES):
        mixture = maximise(statistics, mixture, _WIDENED**2)
        statistics = accumulate(states, mixture)
    alive = statistics.counts >= 1.0
    weights = mixture.weights[alive]
    return replace(
        mixture,
        weights=weights / weights.sum(),
        means=mixture.means[alive],
        variances=mixture.variances[alive],
    )


NOTABLE = 0.03  # three times what a policy has that the space was fitted on
_FEWEST = 5  # states, of which alone a share says something
_ROUNDING = 1e-3  # deviations: states that are met again are not farther than they were
_BLOCK_OUTSIDE = 1 << 17


@dataclass(frozen=True)
class PolicyCoverage:
    """How many states of a policy lie outside, and which feature it is by."""

    policy: str
    states: int
    outside: int
    episodes: int  # in which some of them are
    feature: str  # that is farthest off, of all states outside; empty if there are none
    deviations: float  # by how many of the nearest region's: root of the mean square
    above: float  # share of states outside in which it is above the region and not below

    @property
    def share(self) -> float:
        """Share of the policy's states that are outside."""
        return self.outside / self.states

    @property
    def is_notable(self) -> bool:
        """Whether there are more of them than chance explains."""
        return self.share > NOTABLE and self.outside >= _FEWEST

    @property
    def words(self) -> str:
        """Say which feature is off, to which side, and by how much."""
        if not self.outside:
            return ""
        side = "above" if self.above > 0.9 else "below" if self.above < 0.1 else "off"
        return f"{self.feature} {self.deviations:.2g} deviations {side}"


@dataclass(frozen=True, repr=False, eq=False)
class Coverage(Result):
    """The states of policies that lie outside of what a space knows.

    A state is outside if it is farther from the nearest region than 99 % of the states of each
    policy that the space was fitted on (``reach``, in deviations of regions).
    """

    reach: float
    policies: tuple[PolicyCoverage, ...]  # most outside first, but those with few states last
    placed: bool  # whether these policies came after the space was fitted

    def headline(self) -> str:
        """Say who goes farthest out."""
        first = self.policies[0]
        if not first.outside:
            return "No policy has states outside of the space"
        if not first.is_notable:
            most = percent(first.share)
            return f"No policy has more than {most} of its states outside of the space"
        return (
            f"{percent(first.share)} of the states of {first.policy} are where no policy has been"
        )

    def rows(self) -> list[Row]:
        """One row a policy, most states outside first."""
        return [
            {
                "policy": row.policy,
                "share": row.share,
                "outside": row.outside,
                "states": row.states,
                "episodes": row.episodes,
                "feature": row.feature,
                "deviations": row.deviations,
            }
            for row in self.policies
        ]

    def to_json(self) -> dict[str, Any]:
        """Give everything as JSON can hold it; what is not known is None."""
        return {"reach": plain(self.reach), "placed": self.placed, "policies": plain(self.rows())}

    def figure(self) -> Figure:
        """Draw the shares as bars."""
        return outside_figure(self)


def measure_coverage(where: Any, policies: Sequence[str] | None = None) -> Coverage:
    """Count the states of policies that are outside of what their space knows.

    Parameters
    ----------
    where : path, Comparison or ComparisonFolder
        A folder of `pivec.compare` with its states.
    policies : sequence of str, optional
        Names of policies; all whose states are there if not given.

    Examples
    --------
    >>> from pathlib import Path
    >>> from pivec.characterizations import Space
    >>> from pivec.states import VisitedStates
    >>> from pivec.characterizations import characterization
    >>> rng = np.random.default_rng(0)
    >>> data = VisitedStates.from_arrays([[rng.normal(0, 1, (500, 2))] for _ in "ab"])
    >>> method = characterization("visitation", n_components=4).fit(data)
    >>> walk = rng.normal(0, 1, (100, 2)) + np.where(np.arange(100) < 20, 9, 0)[:, None]
    >>> new = VisitedStates.from_arrays([[walk]], labels=["new"])
    >>> reach = reach_of(data, method.mixtures_[0])
    >>> findings = ComparisonFolder(Path("."), Space(method, method.describe(new), reach=reach), new)
    >>> measure_coverage(findings).headline()
    '20 % of the states of new are where no policy has been'
    """
    findings = ComparisonFolder.open(where)
    data = findings.states
    mixture = findings.background.mixtures_[0]
    reach, placed = known_reach(findings)
    if policies:
        data = states_of(findings, [findings.find(name).label for name in policies])
    rows = policy_coverage(data, mixture, reach, _names(findings.space))
    rows.sort(key=lambda row: (not row.is_notable, -row.share))
    return Coverage(reach, tuple(rows), placed)


def states_of(findings: ComparisonFolder, labels: Sequence[str]) -> VisitedStates:
    """Give the states of policies, which must be there."""
    data = findings.states
    for label in labels:
        if label not in data.labels:
            raise UsageError(
                f"{findings.folder} holds no states of {label!r}, which comes from an earlier "
                "space: expected the folder that it was compared in"
            )
    return data.select(list(dict.fromkeys(labels)))


def coverage_radius(method: Characterization, data: VisitedStates) -> float:
    """Find the reach of a space that was fitted on these states; NaN where it has no regions."""
    return reach_of(data, method.mixtures_[0]) if isinstance(method, BackgroundModel) else math.nan


def known_reach(findings: ComparisonFolder) -> tuple[float, bool]:
    """Give the reach of a space, and whether its policies were placed in it.

    Spaces of earlier versions do not hold it: it is then found from the states, if those that the
    space was fitted on are beside it.
    """
    placed = findings.space.n_reference > 0 or findings.space.n_placed > 0
    reach = findings.space.reach
    if math.isfinite(reach):
        return reach, placed
    if placed or findings.data is None or len(findings.data) != len(findings.policies):
        raise UsageError(
            f"the space of {findings.folder} does not tell how far its policies get, as those "
            "of earlier versions of pivec: make it again"
        )
    return reach_of(findings.data, findings.background.mixtures_[0]), False


def policy_coverage(
    data: VisitedStates, mixture: Mixture, reach: float, names: Sequence[str]
) -> list[PolicyCoverage]:
    """Count the states of each policy that are farther from all regions than ``reach``."""
    result = []
    for number, record in enumerate(data.records):
        states = data.policy_states(number)
        is_outside = np.empty(len(states), dtype=bool)
        squares, above = np.zeros((2, data.n_features))
        for first in range(0, len(states), _BLOCK_OUTSIDE):
            nearest = nearest_regions(states[first : first + _BLOCK_OUTSIDE], mixture)
            far = is_outside[first : first + _BLOCK_OUTSIDE] = nearest.distance > reach + _ROUNDING
            squares += (nearest.offset[far] ** 2).sum(axis=0)
            above += (nearest.offset[far] > 0.0).sum(axis=0)
        starts = np.cumsum([0, *record.episodes["length"][:-1]])
        count, feature = int(is_outside.sum()), int(squares.argmax())
        result.append(
            PolicyCoverage(
                record.info.label,
                len(states),
                count,
                int(np.logical_or.reduceat(is_outside, starts).sum()),
                names[feature] if count else "",
                math.sqrt(squares[feature] / count) if count else math.nan,
                float(above[feature] / count) if count else math.nan,
            )
        )
    return result


def warn_uncovered(space: Space, data: VisitedStates) -> None:
    """Say which policies that are placed in an earlier space go where it has seen nobody."""
    method = space.method
    if not isinstance(method, BackgroundModel):
        return
    if not math.isfinite(space.reach):
        _warn(
            "the space was fitted by an earlier version of pivec: it does not tell whether the new "
            "policies go where no policy has been"
        )
        return
    rows = policy_coverage(data, method.mixtures_[0], space.reach, _names(space))
    notable = sorted((row for row in rows if row.is_notable), key=lambda row: -row.share)
    if not notable:
        return
    first, more = notable[0], len(notable) - 1
    others = ""
    if more:
        many = f"{more} other policies" if more > 1 else "another policy"
        others = f", and more than {100 * NOTABLE:g} % of those of {many}"
    _warn(
        f"{percent(first.share)} of the states of {first.policy!r} are where no policy of the "
        f"space has been (farther from all regions than {percent(WITHIN)} of the states of each; "
        f"{first.words}){others}: the space tells little of such states, so fit one with these "
        "policies in it to compare them"
    )


def _names(space: Space) -> list[str]:
    return [feature.name for feature in features_of(space.collected, space.method.feature_names_)]


def _warn(message: str) -> None:
    warnings.warn(message, PivecWarning, stacklevel=3)


# -----------------------------------------------------------------------------
# Figures: episodes by how far they are from their policy's others, and states outside.


_MOST, _NAMED = 14, 20  # policies in a figure, and episodes with names
_ROW = 0.46  # inches
_WIDE = 9.6
_GOLDEN = 0.6180339887498949  # multiples of it modulo 1 are spread evenly


def unusual_figure(result: Unusual) -> Figure:
    """Draw a strip of episodes for each policy, by distance, coloured by return."""
    labels = list(dict.fromkeys(row.policy for row in result.episodes))[:_MOST]
    rows = [result.of(label) for label in labels]
    height = 1.85 + _ROW * len(rows)
    figure = new_figure(_WIDE, height)
    subtitle = "Each dot is an episode; 1 is the usual distance from its policy's others"
    where = f" in {result.environment}" if result.environment else ""
    add_heading(figure, f"Unusual episodes{where}", subtitle)
    axes = axes_at(figure, 2.5, 0.75, _WIDE - 4.0, _ROW * len(rows))
    finite = [row.times[np.isfinite(row.times)].max(initial=1.0) for row in rows]
    end = 1.05 * max(finite)
    named = {(row.policy, row.episode) for row in result.episodes[:_NAMED]}
    dots = None
    scale = _return_scale(rows)
    for place, row in enumerate(rows):
        up = place + 0.42 * ((np.arange(len(row.times)) * _GOLDEN) % 1.0 - 0.5)
        across = np.minimum(row.times, end)
        known = np.isfinite(row.returns)
        looks: dict[str, Any] = {"s": 26, "linewidths": 0.4, "edgecolors": "white", "zorder": 3}
        axes.scatter(across[~known], up[~known], color=LONE_COLOUR, **looks)
        if known.any():
            dots = axes.scatter(across[known], up[known], c=row.returns[known], **scale, **looks)
        for episode in np.flatnonzero([(row.policy, e) in named for e in range(len(across))]):
            axes.annotate(
                f"episode {episode}" if episode == row.times.argmax() else f"{episode}",
                (across[episode], up[episode]),
                (5, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
                fontweight="bold",
                color=INK,
            )
    _finish_strips(axes, literals(labels, 34), end)
    if dots is not None:
        bar = figure.colorbar(dots, cax=axes_at(figure, _WIDE - 1.15, 0.75, 0.14, _ROW * len(rows)))
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=8.5, length=2, color=MUTED, labelcolor=INK)
        bar.ax.set_title("return", fontsize=9, color=MUTED, loc="left")
    return figure


def _return_scale(rows: list[PolicyEpisodes]) -> dict[str, Any]:
    """Span the colours over all but the most extreme returns."""
    returns: NDArray[np.float64] = np.concatenate([row.returns for row in rows])
    returns = returns[np.isfinite(returns)]
    if not len(returns):
        return {}
    low, high = np.quantile(returns, (0.02, 0.98))
    return {"cmap": "viridis", "vmin": float(low), "vmax": float(high if high > low else low + 1)}


def _finish_strips(axes: Axes, labels: list[str], end: float) -> None:
    lined_axes(axes)
    axes.grid(visible=False)
    axes.axvline(1.0, color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
    for place in range(len(labels)):
        axes.axhline(place, color=HAIRLINE, linewidth=0.6, zorder=0)
    axes.set_yticks(range(len(labels)), labels, fontsize=9)
    axes.set_ylim(len(labels) - 0.45, -0.55)
    axes.set_xlim(0.0, 1.14 * end)
    axes.set_xlabel("times as far from the policy's others as its usual episode", fontsize=9.5)


def outside_figure(result: Coverage) -> Figure:
    """Draw the share of states outside of each policy as a bar."""
    rows = result.policies[:_MOST]
    figure = new_figure(_WIDE, 1.45 + 0.34 * len(rows))
    add_heading(figure, result.headline(), "Share of each policy's states outside of the space")
    axes = axes_at(figure, 2.5, 0.6, _WIDE - 5.6, 0.34 * len(rows))
    shares = [100 * row.share for row in rows]
    colours = [GROUP_PALETTE[4] if row.is_notable else LONE_COLOUR for row in rows]
    axes.barh(range(len(rows)), shares, height=0.62, color=colours)
    for place, row in enumerate(rows):
        words = f"{percent(row.share)}  {literal(row.words, 44)}"
        axes.annotate(words, (shares[place], place), (5, 0), textcoords="offset points",
                      va="center", fontsize=8.5, color=INK)  # fmt: skip
    lined_axes(axes)
    axes.grid(visible=False)
    axes.set_yticks(range(len(rows)), literals([row.policy for row in rows], 34), fontsize=9)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0.0, max([*shares, 1.0]))
    axes.set_xlabel("% of states", fontsize=9.5)
    return figure
