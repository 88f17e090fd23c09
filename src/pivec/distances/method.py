"""What distances are measured with: as much of a characterization as this folder needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from pivec.distances.intervals import Intervals
from pivec.policies.policy import PolicyInfo
from pivec.states.visited import VisitedStates


class Described(Protocol):
    """Descriptions of policies, as `pivec.characterizations.Descriptions`."""

    @property
    def policies(self) -> tuple[PolicyInfo, ...]:
        """Name, run and training step of each."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The runs the policies came from."""

    @property
    def steps(self) -> tuple[int | None, ...]:
        """The policies' training steps."""

    @property
    def points(self) -> NDArray[np.float64] | None:
        """Vectors whose squared Euclidean distance is the distance, where there are such."""

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """What else is known of them; "influences" are how each episode moves the points."""

    def rows(self, name: str) -> list[NDArray[Any]]:
        """Give what is packed under ``name``, one array a policy."""

    def __len__(self) -> int: ...

    def select(self, rows: Sequence[int] | NDArray[Any]) -> Self:
        """Pick policies by number."""

    def without_influences(self) -> Self:
        """Leave out how each episode moves a policy."""


class Method(Protocol):
    """A fitted way to describe policies, as `pivec.characterizations.Characterization`."""

    name: ClassVar[str]
    exact: ClassVar[bool]  # whether episodes play no part
    no_intervals: ClassVar[str]  # why there are none, where there are none

    @property
    def squared(self) -> bool:
        """Whether the distance is, or is like, a squared one."""

    @property
    def has_influences(self) -> bool:
        """Whether it can say how each episode moves a description."""

    @property
    def has_statistics(self) -> bool:
        """Whether a description is a function of sums over episodes."""

    def describe(self, data: VisitedStates) -> Any:
        """Describe each policy of ``data``."""

    def distances(self, a: Any, b: Any = None) -> NDArray[np.float64]:
        """Distances of all policies of ``a`` to each other, or to those of ``b``."""

    def intervals(self, a: Any, b: Any = None, level: float = 0.95) -> Intervals:
        """Distances without the noise of sampling, and how sure they are."""

    def pair_intervals(
        self,
        described: Any,
        i: NDArray[np.intp],
        j: NDArray[np.intp],
        distances: NDArray[np.float64],
        level: float = 0.95,
    ) -> Intervals:
        """As `intervals`, of some pairs of policies whose distances are known, a value a pair."""
