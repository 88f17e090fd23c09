"""The mean return: how well a policy does, and nothing about how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Descriptions
from pivec.states.visited import VisitedStates


class Returns(Characterization):
    """The mean return over a policy's episodes; the distance is the absolute difference.

    Examples
    --------
    >>> data = VisitedStates.from_arrays([[[[0.0]]], [[[0.0]]]], returns=[3.0, 5.0])
    >>> Returns().fit(data).distances(data)
    array([[0., 2.],
           [2., 0.]])
    """

    name: ClassVar[str] = "returns"
    explanation: ClassVar[str] = (
        "Each policy is described by its mean return alone. The distance of two policies is the "
        "absolute difference of their mean returns: 0 for policies that do equally well, however "
        "differently they do it."
    )
    formula: ClassVar[str] = "d(p, q) = |R(p) − R(q)|"

    @property
    def needs(self) -> frozenset[str]:
        """Returns of the episodes."""
        return frozenset({"returns"})

    def _fit(self, data: VisitedStates) -> None:
        """Nothing is shared between the policies."""

    def _describe(
        self, data: VisitedStates
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        return data.mean_returns[:, None], None, {"returns": data.mean_returns}

    def _distances(self, a: Descriptions, b: Descriptions | None) -> NDArray[np.float64]:
        other = a if b is None else b
        gaps: NDArray[np.float64] = np.abs(
            a.arrays["returns"][:, None] - other.arrays["returns"][None]
        )
        return gaps

    def _learned(self) -> dict[str, NDArray[Any]]:
        return {}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Nothing was learned."""
