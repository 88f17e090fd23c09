"""Where the policies of a space lie in the plane: all of them anew, or new ones among others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.space import Space
from pivec.distances import Measured
from pivec.errors import UsageError
from pivec.maps.place import place, place_by_distances
from pivec.maps.tsne import tsne_map
from pivec.policies.policy import canonical_order


def positions_of(
    space: Space, seed: int, measured: Measured | None
) -> tuple[NDArray[np.float64], str]:
    """Lay out the policies that have no place, or all of them; without points they are measured."""
    described, placed = space.descriptions, np.array(space.is_placed)
    points = described.points
    if space.positions is not None and placed.any() and not placed.all():
        # The map of the earlier space stays as it is; only the new policies are placed.
        new, positions = np.isnan(space.positions[:, 0]), space.positions.copy()
        if points is not None:
            positions[new] = place(points[~placed], positions[~placed], points[new])
        elif new.any():
            rows, columns = (described.select(np.flatnonzero(part)) for part in (new, ~placed))
            apart = space.method.distances(rows, columns)
            positions[new] = place_by_distances(apart, positions[~placed])
        return positions, "placed in an earlier map"
    order = canonical_order(described.policies)
    back = np.argsort(order)
    if points is not None:
        made = tsne_map(points[order], random_state=seed)
        return made.positions[back], made.method
    matrix = None if measured is None else measured.matrix
    if matrix is None:
        raise UsageError(
            f"a map of {len(described)} policies needs vectors, which {space.method.name} "
            "does not give: use visitation, or fewer policies"
        )
    made = tsne_map(matrix[np.ix_(order, order)], metric="precomputed", random_state=seed)
    return made.positions[back], made.method
