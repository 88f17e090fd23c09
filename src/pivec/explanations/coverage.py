"""States of policies outside of what a space was fitted on.

The log-density would be a poor measure: it is low everywhere in a wide region with few states, and
for all states of policies that live there. Distances from the nearest region treat regions alike.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import BackgroundModel, Characterization, Space
from pivec.errors import PivecWarning, UsageError
from pivec.explanations.folder import ComparisonFolder
from pivec.explanations.names import columns_of
from pivec.mixtures import FAR, Mixture, kernel, maximise
from pivec.results import Explanation, Row, plain
from pivec.states import VisitedStates
from pivec.text import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
_COVERED = 0.99  # of the states of each policy that a space was fitted on are within its radius
_NOTABLE = 0.03  # share of states outside: three times that of such a policy
_MIN_OUTSIDE = 5  # states, for a share to mean something
_WIDENED = 0.1  # deviations of all states, so that no region is too thin to be met twice
_TOLERANCE = 1e-3  # deviations: states that are met again are not farther than before
_MAX_STATES, _MAX_VALUES = 1 << 16, 1 << 24  # sampled for the radius, evenly from all policies
_MIN_STATES = 100  # of each policy
_PASSES = 3  # of EM
_BLOCK = 1 << 15


@dataclass(frozen=True)
class PolicyCoverage:
    """How many states of a policy are outside of a space, and by which feature."""

    policy: str
    states: int
    outside: int
    episodes: int  # with such states
    feature: str  # that is farthest off, over all states outside; empty if there are none
    deviations: float  # of the nearest region by which it is off: root mean square
    above: float  # share of states outside in which it is above the region

    @property
    def share(self) -> float:
        """Share of the policy's states that are outside."""
        return self.outside / self.states

    @property
    def is_notable(self) -> bool:
        """Whether there are more of them than chance explains."""
        return self.share > _NOTABLE and self.outside >= _MIN_OUTSIDE

    @property
    def words(self) -> str:
        """Which feature is off, in which direction, and by how much."""
        if not self.outside:
            return ""
        where = "above" if self.above > 0.9 else "below" if self.above < 0.1 else "off"
        return f"{self.feature} {self.deviations:.2g} deviations {where}"


@dataclass(frozen=True, repr=False, eq=False)
class Coverage(Explanation):
    """The states of policies outside of what a space covers.

    A state is outside if it is farther from the nearest region than ``radius``, which contains
    99 % of the states of each policy that the space was fitted on (in deviations of regions).
    """

    radius: float
    policies: tuple[PolicyCoverage, ...]  # most outside first, but those with few states last
    placed: bool  # whether the policies came after the space was fitted

    def headline(self) -> str:
        """Say which policy has most states outside."""
        first = self.policies[0]
        if not first.outside:
            return "No policy has states outside the space"
        share = percent(first.share)
        if not first.is_notable:
            return f"No policy has more than {share} of its states outside the space"
        return f"{share} of the states of {first.policy} are outside the space"

    def rows(self) -> list[Row]:
        """Return one row per policy, most states outside first."""
        names = ("policy", "share", "outside", "states", "episodes", "feature", "deviations")
        return [{name: getattr(row, name) for name in names} for row in self.policies]

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"policies": plain(self.rows())}

    def figure(self) -> Figure:
        from pivec.explanations.plots import coverage_figure

        return coverage_figure(self)


def measure_coverage(comparison: Any, policies: Sequence[str] | None = None) -> Coverage:
    """Count the states of policies that are outside of what their space covers.

    Parameters
    ----------
    comparison : path, Comparison or ComparisonFolder
        With states.
    policies : sequence of str, optional
        Labels of policies; by default all whose states are stored.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pivec
    >>> rng = np.random.default_rng(0)
    >>> data = VisitedStates.from_arrays([[rng.normal(0, 1, (500, 2))] for _ in "ab"])
    >>> method = pivec.characterization("visitation", n_components=4).fit(data)
    >>> walk = rng.normal(0, 1, (100, 2)) + np.where(np.arange(100) < 20, 9, 0)[:, None]
    >>> new = VisitedStates.from_arrays([[walk]], labels=["new"])
    >>> space = Space(method, method.describe(new), reach=coverage_radius(method, data))
    >>> measure_coverage(ComparisonFolder(Path("."), space, new)).headline()
    '20 % of the states of new are outside the space'
    """
    opened = ComparisonFolder.open(comparison)
    space, data = opened.space, opened.states
    if not math.isfinite(space.reach):
        raise UsageError(f"the space of {opened.folder} has no radius of coverage: fit it again")
    if policies:
        data = opened.states_of([opened.find(name).label for name in policies])
    rows = policy_coverage(data, space)
    rows.sort(key=lambda row: (not row.is_notable, -row.share))
    return Coverage(space.reach, tuple(rows), space.n_reference > 0 or space.n_placed > 0)


def policy_coverage(data: VisitedStates, space: Space) -> list[PolicyCoverage]:
    """Count the states of each policy outside of a space; none if it has no regions."""
    method = space.method
    if not isinstance(method, BackgroundModel) or not math.isfinite(space.reach):
        return []
    mixture = method.mixtures_[0]
    names, data = [column.name for column in columns_of(method, space.collected)], method.view(data)
    result = []
    for number, record in enumerate(data.records):
        states = data.policy_states(number)
        is_outside = np.empty(len(states), dtype=bool)
        squares, above = np.zeros((2, data.n_features))
        for first in range(0, len(states), _BLOCK):
            rows = slice(first, first + _BLOCK)
            distances, offsets = nearest_regions(states[rows], mixture)
            far = is_outside[rows] = distances > space.reach + _TOLERANCE
            squares += (offsets[far] ** 2).sum(axis=0)
            above += (offsets[far] > 0.0).sum(axis=0)
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
    """Warn of policies placed in an earlier space that visit states it does not cover."""
    rows = policy_coverage(data, space)
    notable = sorted((row for row in rows if row.is_notable), key=lambda row: -row.share)
    if not notable:
        return
    first, more = notable[0], len(notable) - 1
    others = ""
    if more:
        many = f"{more} other policies" if more > 1 else "another policy"
        others = f", and more than {100 * _NOTABLE:g} % of those of {many}"
    warnings.warn(
        f"{percent(first.share)} of the states of {first.policy!r} are outside the space (farther "
        f"from all regions than {percent(_COVERED)} of the states of each of its policies; "
        f"{first.words}){others}: the space does not describe such states well, so fit a space "
        "with these policies to compare them",
        PivecWarning,
        stacklevel=2,
    )


def coverage_radius(method: Characterization, data: VisitedStates) -> float:
    """Return the distance from the nearest region that contains 99 % of every policy's states.

    NaN if the characterization has no regions. It is the largest of the policies' own quantiles:
    with a quantile of all states, rare policies would be outside of their own space. Episodes are
    measured against regions that EM has adapted to the other half of the episodes, since regions
    are nearer to the episodes they were fitted on than to any new ones.
    """
    if not isinstance(method, BackgroundModel):
        return math.nan
    mixture = method.mixtures_[0]
    states, half, starts = _sample_states(method.view(data))
    distance, _ = nearest_regions(states, mixture)
    for held in (0, 1):
        rows = half == held
        if rows.any():
            distance[rows], _ = nearest_regions(states[rows], _adapted(mixture, states[~rows]))
    return max(float(np.quantile(distance[i:j], _COVERED)) for i, j in pairwise(starts))


def nearest_regions(states: NDArray[Any], mixture: Mixture) -> tuple[Array, Array]:
    """Return the distance of each state from the nearest region, (n,), and the offsets, (n, D).

    Both are in deviations of regions, which are widened a little; the distance is the root mean
    square of the offsets.
    """
    variances = mixture.variances + _WIDENED**2
    squares, linear = 1.0 / variances, -2.0 * mixture.means / variances
    constants = (mixture.means**2 / variances).sum(axis=1)
    offset: Array = np.empty(states.shape)
    for first in range(0, len(states), _BLOCK):
        rows = slice(first, first + _BLOCK)
        z = np.clip(mixture.standardise(states[rows]), -FAR, FAR)
        own = (z**2 @ squares.T + z @ linear.T + constants).argmin(axis=1)
        # Recomputed from the difference, which has all its digits.
        offset[rows] = (z - mixture.means[own]) / np.sqrt(variances[own])
    return np.sqrt(np.einsum("nd,nd->n", offset, offset) / mixture.n_features), offset


def _sample_states(data: VisitedStates) -> tuple[NDArray[np.float32], NDArray[np.int8], list[int]]:
    """Sample states evenly from each policy; return them, their half, and where policies start.

    Halves are even and odd episodes; −1 for a policy with a single episode, which has none.
    """
    most = max(min(_MAX_STATES, _MAX_VALUES // data.n_features) // len(data), _MIN_STATES)
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


def _adapted(mixture: Mixture, states: NDArray[Any]) -> Mixture:
    """Fit a mixture to other states from where it is, without components that have none."""
    accumulate = kernel().accumulate
    statistics = accumulate(states, mixture)
    for _ in range(_PASSES):
        mixture = maximise(statistics, mixture, _WIDENED**2)
        statistics = accumulate(states, mixture)
    # Many equal components may have less than one state each.
    alive = statistics.counts >= min(1.0, statistics.counts.max())
    weights, means, variances = mixture.weights, mixture.means[alive], mixture.variances[alive]
    weights = weights[alive] / weights[alive].sum()
    return replace(mixture, weights=weights, means=means, variances=variances)
