"""Archives of behaviour: measures for quality diversity, and the archive of novelty search."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.characterizations import Characterization, Descriptions, Space, characterization
from pivec.errors import UsageError
from pivec.report import LandmarkMap
from pivec.states import VisitedStates, joined

Array = NDArray[np.float64]


class BehaviourMeasures:
    """Measures of solutions by the states they visit: ``measures(data)``, one row per policy.

    Parameters
    ----------
    space : Space or path
        A fitted characterization and its policies, whose measures are ``reference``,
        (n, n_measures).
    n_measures : int, optional
        Project onto the main directions in which the policies of the space differ. None uses the
        whole vectors, for characterizations whose distance is a distance between vectors.

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
        """Fit a space on some policies, such as random ones; it then stays fixed."""
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
        """Bounds for a `GridArchive`: those of the space, extended by a share of their width."""
        low, high = self.reference.min(axis=0), self.reference.max(axis=0)
        more = margin * np.maximum(high - low, 1e-12)
        return [(float(a), float(b)) for a, b in zip(low - more, high + more, strict=True)]


def _whole(described: Descriptions) -> Array:
    if described.points is None:
        raise UsageError(
            f"{described.method} has no vectors with its distance: use n_measures=2, or visitation"
        )
    return np.asarray(described.points, dtype=np.float64)


class BehaviourArchive:
    """An archive for novelty search, in which policies are described by any characterization.

    Whenever policies are added, the characterization is refitted on the states of all policies, and
    all are described again; for supervectors, the background model grows with the archive.

    Parameters
    ----------
    behaviour : Characterization
    neighbours : int
        Novelty is the mean distance to this many nearest policies (Lehman and Stanley 2011).

    Attributes
    ----------
    data : VisitedStates or None
        The states of all policies; ``descriptions`` has their current descriptions.

    Examples
    --------
    >>> at = lambda *places: VisitedStates.from_arrays(
    ...     [[np.full((2, 1), place)] for place in places], labels=[str(place) for place in places]
    ... )
    >>> archive = BehaviourArchive(characterization("terminal-state"), neighbours=2)
    >>> archive.add(at(0.0, 1.0, 5.0))
    >>> archive.novelty(at(0.5, 9.0)).tolist()
    [0.5, 6.0]
    """

    @checked
    def __init__(self, behaviour: Characterization, neighbours: Count = 10) -> None:
        self.behaviour, self.neighbours = behaviour, neighbours
        self.data: VisitedStates | None = None
        self.descriptions: Descriptions | None = None

    def __len__(self) -> int:
        return 0 if self.data is None else len(self.data)

    def add(self, data: VisitedStates) -> None:
        """Add the policies of ``data``; their labels must be new."""
        self.data = data if self.data is None else joined([self.data, data])
        self.behaviour.fit(self.data)
        self.descriptions = self.behaviour.describe(self.data)

    def novelty(self, policies: VisitedStates | Descriptions | list[int]) -> Array:
        """Return the mean distance of each policy to its nearest neighbours in the archive.

        Members of the archive, given by their numbers, count among their own nearest.
        """
        if self.descriptions is None:
            raise UsageError("the archive is empty: add policies first")
        if isinstance(policies, list):
            policies = self.descriptions.select(policies)
        distances = self.behaviour.distances(policies, self.descriptions)
        k = min(self.neighbours, len(self))
        return np.asarray(np.partition(distances, k - 1, axis=1)[:, :k].mean(axis=1))
