"""How far from the regions of a background model policies get: what a space knows, and what not.

The log-density would be a poor measure of it: it is low in all of a wide region that few states
are in, and in all of the states of policies that live there. Distances from the nearest region
treat regions alike.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.mixtures.accumulate import kernel
from pivec.mixtures.em import maximise
from pivec.mixtures.mixture import FAR, Mixture
from pivec.states.visited import VisitedStates

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
