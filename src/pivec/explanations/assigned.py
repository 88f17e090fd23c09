"""The region of every state: the likeliest component of the background model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pivec.mixtures.mixture import Mixture
from pivec.states.visited import VisitedStates

_BLOCK = 1 << 18


@dataclass(frozen=True)
class Assigned:
    """A row a state, in the order of the data that were assigned."""

    region: NDArray[np.int32]  # the likeliest component
    distance: NDArray[
        np.float32
    ]  # from its middle: the root mean square, in deviations, over features
    log_density: NDArray[np.float32]  # of the whole background, in standardised space

    def __getitem__(self, rows: slice) -> Assigned:
        return Assigned(self.region[rows], self.distance[rows], self.log_density[rows])


def assign(data: VisitedStates, mixture: Mixture) -> Assigned:
    """Find the region of every state, how far from its middle it is, and how likely.

    Examples
    --------
    >>> mixture = Mixture([0.5, 0.5], [[-1.0], [1.0]], [[0.25], [0.25]], [0.0], [2.0])
    >>> data = VisitedStates.from_arrays([[[[-2.0], [3.0]]]])
    >>> assigned = assign(data, mixture)
    >>> assigned.region, assigned.distance
    (array([0, 1], dtype=int32), array([0., 1.], dtype=float32))
    """
    region = np.empty(data.n_states, dtype=np.int32)
    distance, log_density = np.empty((2, data.n_states), dtype=np.float32)
    deviations = np.sqrt(mixture.variances)
    first = 0
    for block in data.blocks(_BLOCK):
        rows = slice(first, first + len(block))
        region[rows], log_density[rows] = mixture.assign(block)
        own = region[rows]
        z = (mixture.standardise(block) - mixture.means[own]) / deviations[own]
        distance[rows] = np.sqrt(np.einsum("nd,nd->n", z, z) / mixture.n_features)
        first += len(block)
    return Assigned(region, distance, log_density)
