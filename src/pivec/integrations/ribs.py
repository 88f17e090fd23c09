"""Behaviour in pyribs: an archive of novelty on whole vectors of a characterization.

For a `GridArchive` or a `CVTArchive` use `pivec.integrations.BehaviourMeasures`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from pivec.errors import MissingExtra, UsageError

if find_spec("ribs") is None:
    raise MissingExtra("pivec.integrations.ribs", "ribs")

import numpy as np
import ribs.archives
from numpy.typing import NDArray

from pivec.integrations.archives import BehaviourMeasures
from pivec.states import VisitedStates

__all__ = ["BehaviourMeasures", "ProximityArchive"]

Array = NDArray[np.float64]


class ProximityArchive(ribs.archives.ProximityArchive):
    """The `ProximityArchive` of pyribs, on vectors such as those of visitation.

    Their Euclidean distance is the square root of the characterization's distance. Pass the
    measures ``archive.measures_of(data)`` of visited states to `add`.

    Parameters
    ----------
    measures : BehaviourMeasures
        Preferably whole vectors, with ``n_measures=None``.
    novelty_threshold : float, optional
        Minimum novelty of new solutions; by default the mean novelty of the space's policies.
    solution_dim, k_neighbors, **options
        As for `ribs.archives.ProximityArchive`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> data = VisitedStates.from_arrays([[rng.normal(i, 1, (30, 2))] for i in range(12)])
    >>> measures = BehaviourMeasures.fit(data, parameters={"n_components": 2}, n_measures=None)
    >>> archive = ProximityArchive(measures, solution_dim=1, k_neighbors=3, novelty_threshold=0.1)
    >>> _ = archive.add(np.arange(12)[:, None], np.ones(12), archive.measures_of(data))
    >>> len(archive)
    12
    """

    def __init__(
        self,
        measures: BehaviourMeasures,
        *,
        solution_dim: int,
        k_neighbors: int = 10,
        novelty_threshold: float | None = None,
        **options: Any,
    ) -> None:
        if novelty_threshold is None:
            novelty_threshold = _mean_novelty(measures.reference, k_neighbors)
        super().__init__(
            solution_dim=solution_dim,
            measure_dim=measures.n_measures,
            k_neighbors=k_neighbors,
            novelty_threshold=novelty_threshold,
            **options,
        )
        self._measures = measures

    def measures_of(self, data: VisitedStates) -> Array:
        """Measure each policy of ``data``."""
        return self._measures(data)


def _mean_novelty(points: Array, k: int) -> float:
    from scipy.spatial import KDTree

    if len(points) < 2:
        raise UsageError("the space has a single policy, so novelty_threshold has to be given")
    distances, _ = KDTree(points).query(points, k=np.arange(2, min(k, len(points) - 1) + 2))
    return float(distances.mean())
