"""BehaviourMeasures: what archives of quality diversity sort solutions by, from visited states."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import Descriptions, Space, characterization
from pivec.errors import UsageError
from pivec.report import LandmarkMap
from pivec.states import VisitedStates

Array = NDArray[np.float64]


class BehaviourMeasures:
    """Measures of solutions by the states they visit: ``measures(data)``, one row a policy.

    Parameters
    ----------
    space : Space or path
        A fitted characterization and the policies it has described, whose measures are then
        ``reference``, (n, n_measures).
    n_measures : int, optional
        Project on so many main directions in which the policies of the space differ, so that
        squared differences of measures come as close to their distances as so few can. None
        takes the whole vectors, of characterizations whose distance is that of vectors.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> walks = [[rng.normal(place, 1, (30, 2))] for place in ((0, 0), (0, 4), (4, 0), (4, 4))]
    >>> data = VisitedStates.from_arrays(walks)
    >>> measures = BehaviourMeasures.fit(data, parameters={"n_components": 2})
    >>> measures(data).shape, len(measures.ranges())
    ((4, 2), 2)
    """

    def __init__(self, space: Space | str | Path, n_measures: int | None = 2) -> None:
        self.space = space if isinstance(space, Space) else Space.load(space)
        known = self.space.descriptions
        self._map: LandmarkMap | None = None
        if n_measures is None:
            self.reference = _whole(known)
        else:
            if not 1 <= n_measures < len(known):
                raise UsageError(
                    f"n_measures must be from 1 to {len(known) - 1}, one fewer than the policies "
                    f"of the space, but is {n_measures}"
                )
            self._map = LandmarkMap(self.space.method.distances(known), n_measures)
            self.reference = self._map.positions
        self.n_measures = int(self.reference.shape[1])

    @classmethod
    def fit(
        cls,
        data: VisitedStates,
        method: str = "visitation",
        parameters: Mapping[str, Any] | None = None,
        n_measures: int | None = 2,
    ) -> BehaviourMeasures:
        """Fit a space on some policies, such as random ones; it then stays as it is."""
        made = characterization(method, **(parameters or {})).fit(data)
        return cls(Space(made, made.describe(data)), n_measures)

    def __call__(self, data: VisitedStates | Descriptions) -> Array:
        """Measure each policy of ``data``, (n_policies, n_measures)."""
        method = self.space.method
        described = method.describe(data) if isinstance(data, VisitedStates) else data
        if self._map is None:
            return _whole(described)
        return self._map.place(method.distances(described, self.space.descriptions))

    def ranges(self, margin: float = 0.5) -> list[tuple[float, float]]:
        """Bounds for a `GridArchive`: the space's, and on both sides a share of their width."""
        low, high = self.reference.min(axis=0), self.reference.max(axis=0)
        more = margin * np.maximum(high - low, 1e-12)
        return [(float(a), float(b)) for a, b in zip(low - more, high + more, strict=True)]


def _whole(described: Descriptions) -> Array:
    if described.points is None:
        raise UsageError(
            f"{described.method} has no vectors whose distance is its own: project on main "
            "directions, n_measures=2, or use visitation"
        )
    return np.asarray(described.points, dtype=np.float64)
